//! Waits until a program is ready, exits or exceeds its timeout.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;

use super::StartError;
use super::processes::{Member, ProcessGroup};
use crate::Binary;

/// How long each program may take to be ready. Three API servers on two busy cores are slow.
const READY_TIMEOUT: Duration = Duration::from_secs(90);
const QUOTED_LINES: usize = 20;
const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// The result of waiting for a program.
#[derive(Debug)]
pub(super) enum Outcome {
    Ready,
    /// The program exited.
    Exited(StartError),
    /// The program was not ready in time.
    TimedOut(StartError),
}

/// A program that has been started.
pub(super) struct StartedProgram<'a> {
    pub(super) name: &'a str,
    pub(super) binary: Binary,
    pub(super) member: Member,
    pub(super) log: &'a Path,
}

impl StartedProgram<'_> {
    /// Calls `check` until it returns `Ok`.
    pub(super) async fn wait_until<Checked>(
        &self,
        processes: &mut ProcessGroup,
        check: impl Fn() -> Checked,
    ) -> Outcome
    where
        Checked: Future<Output = Result<(), String>>,
    {
        let started = Instant::now();
        loop {
            if let Some(status) = processes.exit_status(self.member) {
                return Outcome::Exited(StartError::Exited {
                    name: self.name.to_owned(),
                    program: self.binary.file_name(),
                    status,
                    log: last_lines(self.log),
                });
            }
            let checked = tokio::time::timeout(Duration::from_secs(5), check()).await;
            let last = match checked {
                Ok(Ok(())) => return Outcome::Ready,
                Ok(Err(last)) => last,
                Err(_) => "no answer".to_owned(),
            };
            if started.elapsed() > READY_TIMEOUT {
                return Outcome::TimedOut(StartError::NotReady {
                    name: self.name.to_owned(),
                    program: self.binary.file_name(),
                    seconds: READY_TIMEOUT.as_secs(),
                    last,
                    log: last_lines(self.log),
                });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// The API server is ready once `/readyz` succeeds and the namespaces of every cluster exist.
pub(super) async fn api_server(client: &kube::Client) -> Result<(), String> {
    let request = http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map_err(|error| error.to_string())?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in ["kube-system", "default"] {
        namespaces.get_metadata(name).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The controller manager is ready once it has created the first ServiceAccount.
pub(super) async fn controller_manager(client: &kube::Client) -> Result<(), String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    accounts.get_metadata("default").await.map(drop).map_err(|error| error.to_string())
}

/// The end of a log file.
pub(crate) fn last_lines(path: &Path) -> String {
    let text =
        std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(QUOTED_LINES)..).unwrap_or_default().join("\n")
}
