//! The credential of an allowed command: kept until it expires or a server rejects it, then issued again. The command
//! runs on a blocking thread; one run serves all waiting requests.

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

use super::protocol::{IssuedCredential, exec_info, parse};
use super::run::run;
use super::{ExecCommand, ExecError};
use crate::blocking::COMMANDS;
use crate::supervisor::Panicked;

/// The minimum time before a command that failed, or whose credential was rejected, is run again.
const MIN_RERUN_INTERVAL: Duration = Duration::from_secs(10);

/// A source of credentials. Clients use it before every request and in every TLS handshake.
pub(crate) struct ExecSource {
    command: Arc<ExecCommand>,
    /// Held while the command runs, across awaits.
    last: Mutex<Run>,
    /// The certificate for the next handshake, and when it expires. A leaf lock: nothing else is locked while it is
    /// held.
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

    /// The header of the credential, if it has one. Runs the command again if the last credential has expired or was
    /// rejected.
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
                let expired = credential.expires.is_some_and(|expires| expires <= Timestamp::now());
                expired || (self.rejected.load(Ordering::Acquire) && last.at.elapsed() >= MIN_RERUN_INTERVAL)
            }
            Err(_) => last.at.elapsed() >= MIN_RERUN_INTERVAL,
        }
    }

    /// The server rejected the credential, so the next request gets another one.
    pub(crate) fn mark_rejected(&self) {
        self.rejected.store(true, Ordering::Release);
    }

    /// When the certificate of new connections expires. A connection keeps the certificate that it was opened with.
    pub(crate) fn certificate_expiry(&self) -> Option<Timestamp> {
        let client_certificate = self.client_certificate.read();
        client_certificate.0.as_ref().and(client_certificate.1)
    }

    /// When the credential expires that was issued last, whether or not it has a certificate.
    pub(crate) fn credential_expiry(&self) -> Option<Timestamp> {
        self.client_certificate.read().1
    }
}

async fn run_blocking(command: &Arc<ExecCommand>) -> Result<IssuedCredential, ExecError> {
    let (command, namespace) = (Arc::clone(command), command.namespace.clone());
    let failed = command.problem(format!("cannot be run: {Panicked}"));
    let issue = move || {
        let printed = run(&command, &exec_info(&command)?)?;
        let credential = parse(&command, &printed)?;
        match credential.expires {
            Some(expires) if expires <= Timestamp::now() => {
                Err(command.problem("printed a credential that has already expired"))
            }
            _ => Ok(credential),
        }
    };
    COMMANDS.call(namespace, issue).await.unwrap_or(Err(failed))
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
