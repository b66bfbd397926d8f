//! Turns an allowed command into the credential that is good now: kept until it ends or a server refuses it, then asked for
//! again. The command runs on a thread of its own; one run serves everybody who waits.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::answer::{Answer, question, read};
use super::run::run;
use super::{ExecCommand, ExecError};

/// How long a command that failed, or whose credential was refused, is not run again.
const PAUSE: Duration = Duration::from_secs(10);

/// A source of credentials. Connections ask it before every request and on every handshake.
pub(crate) struct ExecSource {
    command: Arc<ExecCommand>,
    last: Mutex<Run>,
    /// What the next handshake shows, and until when.
    shown: RwLock<(Option<Arc<CertifiedKey>>, Option<Timestamp>)>,
    refused: AtomicBool,
}

struct Run {
    at: Instant,
    result: Result<Answer, ExecError>,
}

impl ExecSource {
    /// Runs the command for the first time.
    pub(crate) async fn start(command: Arc<ExecCommand>) -> Result<Arc<Self>, ExecError> {
        let answer = run_apart(&command).await?;
        let source = Self {
            command,
            shown: RwLock::new((answer.certificate.clone(), answer.expires)),
            last: Mutex::new(Run { at: Instant::now(), result: Ok(answer) }),
            refused: AtomicBool::new(false),
        };
        Ok(Arc::new(source))
    }

    /// The header of the credential, if it has one. Runs the command again when the last credential has ended or was refused.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, ExecError> {
        let mut last = self.last.lock().await;
        if self.must_run(&last) {
            self.refused.store(false, Ordering::Release);
            let result = run_apart(&self.command).await;
            if let Ok(answer) = &result {
                let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
                *shown = (answer.certificate.clone(), answer.expires);
            }
            *last = Run { at: Instant::now(), result };
        }
        last.result.as_ref().map(|answer| answer.header.clone()).map_err(Clone::clone)
    }

    fn must_run(&self, last: &Run) -> bool {
        match &last.result {
            Ok(answer) => {
                let ended = answer.expires.is_some_and(|expires| expires <= Timestamp::now());
                ended || (self.refused.load(Ordering::Acquire) && last.at.elapsed() >= PAUSE)
            }
            Err(_) => last.at.elapsed() >= PAUSE,
        }
    }

    /// The server did not take the credential, so the next request asks for another one.
    pub(crate) fn mark_rejected(&self) {
        self.refused.store(true, Ordering::Release);
    }

    /// When the certificate that connections are opened with ends. A connection keeps the one it was opened with.
    pub(crate) fn certificate_expiry(&self) -> Option<Timestamp> {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        shown.0.as_ref().and(shown.1)
    }
}

async fn run_apart(command: &Arc<ExecCommand>) -> Result<Answer, ExecError> {
    let command = Arc::clone(command);
    let cancelled = command.problem("was not run: the controller is stopping");
    tokio::task::spawn_blocking(move || {
        let printed = run(&command, &question(&command)?)?;
        let answer = read(&command, &printed)?;
        match answer.expires {
            Some(expires) if expires <= Timestamp::now() => {
                Err(command.problem("printed a credential that has already ended"))
            }
            _ => Ok(answer),
        }
    })
    .await
    .unwrap_or(Err(cancelled))
}

impl ResolvesClientCert for ExecSource {
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        shown.0.clone().filter(|certified| certified.key.choose_scheme(schemes).is_some())
    }

    fn has_certs(&self) -> bool {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).0.is_some()
    }
}

impl fmt::Debug for ExecSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecSource({})", self.command.command.display())
    }
}
