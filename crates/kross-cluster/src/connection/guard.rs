//! Looks after the connection to one cluster: counts what is under way, notices what fails, and while the cluster is lost
//! answers at once in its place, so that a dead cluster holds nobody up.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use kross_api::FailureReason;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::transport::TransportError;

/// Why nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) reason: FailureReason,
    pub(crate) problem: String,
}

impl Outage {
    fn error(&self) -> TransportError {
        TransportError::NotConnected { reason: self.reason, problem: self.problem.clone() }
    }
}

/// What stands between callers and a cluster.
pub(crate) struct Guard {
    /// Failures in a row that open the breaker.
    threshold: u32,
    /// The breaker: open while there is an outage.
    outage: watch::Sender<Option<Outage>>,
    /// Somebody should find out whether the cluster is still there and still takes the credential.
    pub(crate) doubt: Notify,
    failures: AtomicU32,
    heard: Mutex<Option<(Instant, Timestamp)>>,
    in_flight: AtomicUsize,
    answered: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
}

/// What a guard has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuardCounts {
    pub(crate) in_flight: usize,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) refused: u64,
}

impl Guard {
    /// A guard that lets nothing through yet.
    pub(crate) fn new(threshold: u32, outage: Outage) -> Arc<Self> {
        Arc::new(Self {
            threshold: threshold.max(1),
            outage: watch::Sender::new(Some(outage)),
            doubt: Notify::new(),
            failures: AtomicU32::new(0),
            heard: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Lets requests through.
    pub(crate) fn close(&self) {
        self.failures.store(0, Ordering::Release);
        self.outage.send_if_modified(|outage| outage.take().is_some());
    }

    /// Answers at once from now on, also those who are waiting.
    pub(crate) fn open(&self, outage: Outage) {
        self.outage.send_replace(Some(outage));
    }

    /// The cluster has answered.
    pub(crate) fn heard(&self) {
        let now = Some((Instant::now(), Timestamp::now()));
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// When the cluster last answered.
    pub(crate) fn last_heard(&self) -> Option<Timestamp> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).map(|(_, at)| at)
    }

    /// For how long the cluster has not answered.
    pub(crate) fn silence(&self) -> Duration {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.map_or(Duration::MAX, |(instant, _)| instant.elapsed())
    }

    pub(crate) fn counts(&self) -> GuardCounts {
        GuardCounts {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Done when there is an outage; gives what to answer in place of the cluster.
    pub(crate) fn outage(&self) -> impl Future<Output = TransportError> + Send + use<> {
        let mut outages = self.outage.subscribe();
        async move {
            match outages.wait_for(Option::is_some).await {
                Ok(outage) => outage.as_ref().map_or(TransportError::Closed, Outage::error),
                Err(_) => TransportError::Closed,
            }
        }
    }

    /// Does `work`, unless there is an outage, and gives it up when one begins.
    pub(super) async fn watch_over<T>(
        &self,
        work: impl Future<Output = Result<T, TransportError>>,
        status: impl Fn(&T) -> StatusCode,
    ) -> Result<T, TransportError> {
        let _counted = InFlight::new(&self.in_flight);
        let outcome = tokio::select! {
            biased;
            error = self.outage() => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
            outcome = work => outcome,
        };
        match &outcome {
            Ok(answer) => self.answered(status(answer)),
            Err(error) => self.failed(error),
        }
        outcome
    }

    fn answered(&self, status: StatusCode) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.failures.store(0, Ordering::Release);
        self.heard();
        if status == StatusCode::UNAUTHORIZED {
            self.doubt.notify_one();
        }
    }

    fn failed(&self, error: &TransportError) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        if !error.is_about_the_way() {
            return;
        }
        self.doubt.notify_one();
        let failures = self.failures.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        if failures >= self.threshold {
            let problem = format!("{failures} requests in a row failed, the last one since {error}");
            self.outage.send_if_modified(|outage| {
                let first = outage.is_none();
                if first {
                    *outage = Some(Outage { reason: FailureReason::Unreachable, problem });
                }
                first
            });
        }
    }
}

/// One request that is under way.
struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
