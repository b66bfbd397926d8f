//! Turns an allowed command into the credential that is good now: kept until it ends or a server refuses it, then asked for
//! again. The command runs on a thread of its own; one run serves everybody who waits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::protocol::{IssuedCredential, exec_info, read};
use super::run::run;
use super::{ExecCommand, ExecError};

/// How long a command that failed, or whose credential was refused, is not run again.
const MIN_RERUN_INTERVAL: Duration = Duration::from_secs(10);

/// A source of credentials. Connections ask it before every request and on every handshake.
pub(crate) struct ExecSource {
    command: Arc<ExecCommand>,
    last: Mutex<Run>,
    /// What the next handshake shows, and until when.
    client_certificate: RwLock<(Option<Arc<CertifiedKey>>, Option<Timestamp>)>,
    rejected: AtomicBool,
}

struct Run {
    at: Instant,
    result: Result<IssuedCredential, ExecError>,
}

impl ExecSource {
    /// Runs the command for the first time.
    pub(crate) async fn start(command: Arc<ExecCommand>) -> Result<Arc<Self>, ExecError> {
        let credential = run_blocking(&command).await?;
        let source = Self {
            command,
            client_certificate: RwLock::new((credential.certificate.clone(), credential.expires)),
            last: Mutex::new(Run { at: Instant::now(), result: Ok(credential) }),
            rejected: AtomicBool::new(false),
        };
        Ok(Arc::new(source))
    }

    /// The header of the credential, if it has one. Runs the command again when the last credential has ended or was refused.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, ExecError> {
        let mut last = self.last.lock().await;
        if self.must_run(&last) {
            self.rejected.store(false, Ordering::Release);
            let result = run_blocking(&self.command).await;
            if let Ok(credential) = &result {
                let mut client_certificate = self.client_certificate.write();
                *client_certificate = (credential.certificate.clone(), credential.expires);
            }
            *last = Run { at: Instant::now(), result };
        }
        last.result.as_ref().map(|credential| credential.header.clone()).map_err(Clone::clone)
    }

    fn must_run(&self, last: &Run) -> bool {
        match &last.result {
            Ok(credential) => {
                let ended = credential.expires.is_some_and(|expires| expires <= Timestamp::now());
                ended || (self.rejected.load(Ordering::Acquire) && last.at.elapsed() >= MIN_RERUN_INTERVAL)
            }
            Err(_) => last.at.elapsed() >= MIN_RERUN_INTERVAL,
        }
    }

    /// The server did not take the credential, so the next request asks for another one.
    pub(crate) fn mark_rejected(&self) {
        self.rejected.store(true, Ordering::Release);
    }

    /// When the certificate that connections are opened with ends. A connection keeps the one it was opened with.
    pub(crate) fn certificate_expiry(&self) -> Option<Timestamp> {
        let client_certificate = self.client_certificate.read();
        client_certificate.0.as_ref().and(client_certificate.1)
    }
}

async fn run_blocking(command: &Arc<ExecCommand>) -> Result<IssuedCredential, ExecError> {
    let command = Arc::clone(command);
    let cancelled = command.problem("was not run: the controller is stopping");
    tokio::task::spawn_blocking(move || {
        let printed = run(&command, &exec_info(&command)?)?;
        let credential = read(&command, &printed)?;
        match credential.expires {
            Some(expires) if expires <= Timestamp::now() => {
                Err(command.problem("printed a credential that has already ended"))
            }
            _ => Ok(credential),
        }
    })
    .await
    .unwrap_or(Err(cancelled))
}

impl ResolvesClientCert for ExecSource {
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let client_certificate = self.client_certificate.read();
        client_certificate.0.clone().filter(|certified| certified.key.choose_scheme(schemes).is_some())
    }

    fn has_certs(&self) -> bool {
        self.client_certificate.read().0.is_some()
    }
}

impl fmt::Debug for ExecSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecSource({})", self.command.command.display())
    }
}
