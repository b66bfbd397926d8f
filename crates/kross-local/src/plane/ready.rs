//! Turns a program that was just started into one that works: asks it until it says yes, ends, or takes too long.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;

use super::StartError;
use super::processes::{Member, ProcessGroup};
use crate::Binary;

/// How long each program may take. Generous: three API servers on two busy cores are slow.
const PATIENCE: Duration = Duration::from_secs(90);
const QUOTED_LINES: usize = 20;
const PAUSE: Duration = Duration::from_millis(40);

/// What came of waiting.
#[derive(Debug)]
pub(super) enum Outcome {
    Ready,
    /// It ended by itself; the error says how.
    Ended(StartError),
    /// It did not get ready in time; the error says what it said.
    TooLate(StartError),
}

/// A program that is being waited for.
pub(super) struct Waiting<'a> {
    pub(super) name: &'a str,
    pub(super) binary: Binary,
    pub(super) member: Member,
    pub(super) log: &'a Path,
}

impl Waiting<'_> {
    /// Asks `question` until its answer is `Ok`.
    pub(super) async fn until<Answer>(
        &self,
        processes: &mut ProcessGroup,
        question: impl Fn() -> Answer,
    ) -> Outcome
    where
        Answer: Future<Output = Result<(), String>>,
    {
        let started = Instant::now();
        loop {
            if let Some(status) = processes.exit_status(self.member) {
                return Outcome::Ended(StartError::Ended {
                    name: self.name.to_owned(),
                    program: self.binary.file_name(),
                    status,
                    log: last_lines(self.log),
                });
            }
            let answer = tokio::time::timeout(Duration::from_secs(5), question()).await;
            let last = match answer {
                Ok(Ok(())) => return Outcome::Ready,
                Ok(Err(last)) => last,
                Err(_) => "no answer".to_owned(),
            };
            if started.elapsed() > PATIENCE {
                return Outcome::TooLate(StartError::NotReady {
                    name: self.name.to_owned(),
                    program: self.binary.file_name(),
                    seconds: PATIENCE.as_secs(),
                    last,
                    log: last_lines(self.log),
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The API server is ready when it says so and has made the namespaces everybody counts on.
pub(super) async fn api_server(client: &kube::Client) -> Result<(), String> {
    let request = http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map_err(|error| error.to_string())?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in ["kube-system", "default"] {
        namespaces.get_metadata(name).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The controller manager is at work when it has made the first ServiceAccount.
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
