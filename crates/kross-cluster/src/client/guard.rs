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

/// Whether requests get through.
enum Breaker {
    Closed,
    /// They do not, and those that wait for an answer wait no longer.
    Open(Outage),
    /// They do not, for good; those that wait for an answer still get it.
    Retired,
}

impl Breaker {
    /// What new requests and watches get in place of an answer.
    fn refusal(&self) -> Option<TransportError> {
        match self {
            Self::Closed => None,
            Self::Open(outage) => Some(outage.error()),
            Self::Retired => Some(TransportError::Closed),
        }
    }

    /// What those who wait get.
    fn interruption(&self) -> Option<TransportError> {
        match self {
            Self::Open(outage) => Some(outage.error()),
            Self::Closed | Self::Retired => None,
        }
    }
}

/// What stands between callers and a cluster.
pub(crate) struct Guard {
    /// Failures in a row that open the breaker.
    threshold: u32,
    breaker: watch::Sender<Breaker>,
    /// Somebody should find out whether the cluster is still there and still takes the credential.
    pub(crate) doubt: Notify,
    failures: AtomicU32,
    heard: Mutex<Option<(Instant, Timestamp)>>,
    in_flight: AtomicUsize,
    /// What became of the requests to this cluster, and to all of them.
    tallies: [Arc<Tally>; 2],
}

/// How many requests ended how.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answered: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
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
    /// A guard that lets nothing through yet, and says why.
    pub(crate) fn new(threshold: u32, outage: Outage, all: &Arc<Tally>) -> Arc<Self> {
        Arc::new(Self {
            threshold: threshold.max(1),
            breaker: watch::Sender::new(Breaker::Open(outage)),
            doubt: Notify::new(),
            failures: AtomicU32::new(0),
            heard: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            tallies: [Arc::default(), Arc::clone(all)],
        })
    }

    /// Lets requests through.
    pub(crate) fn close(&self) {
        self.failures.store(0, Ordering::Release);
        self.breaker.send_if_modified(|breaker| {
            let open = matches!(breaker, Breaker::Open(_));
            if open {
                *breaker = Breaker::Closed;
            }
            open
        });
    }

    /// Answers at once from now on, also those who are waiting.
    pub(crate) fn open(&self, outage: Outage) {
        self.breaker.send_if_modified(|breaker| {
            let used = !matches!(breaker, Breaker::Retired);
            if used {
                *breaker = Breaker::Open(outage);
            }
            used
        });
    }

    /// Takes nothing new and ends watches, for good. What is under way comes to its end.
    pub(crate) fn retire(&self) {
        self.breaker.send_replace(Breaker::Retired);
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
        let [own, _] = &self.tallies;
        GuardCounts {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            answered: own.answered.load(Ordering::Relaxed),
            failed: own.failed.load(Ordering::Relaxed),
            refused: own.refused.load(Ordering::Relaxed),
        }
    }

    fn count(&self, counter: fn(&Tally) -> &AtomicU64) {
        for tally in &self.tallies {
            counter(tally).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Done when nothing gets through; gives what to answer in place of the cluster.
    pub(crate) fn refusal(&self) -> impl Future<Output = TransportError> + Send + use<> {
        until(self.breaker.subscribe(), Breaker::refusal)
    }

    /// Does `work`, unless nothing gets through, and gives it up when the cluster is lost.
    pub(super) async fn watch_over<T>(
        &self,
        work: impl Future<Output = Result<T, TransportError>>,
        status: impl Fn(&T) -> StatusCode,
    ) -> Result<T, TransportError> {
        let refusal = self.breaker.borrow().refusal();
        if let Some(refusal) = refusal {
            self.count(|tally| &tally.refused);
            return Err(refusal);
        }
        let _counted = InFlight::new(&self.in_flight);
        let outcome = tokio::select! {
            biased;
            error = until(self.breaker.subscribe(), Breaker::interruption) => {
                self.count(|tally| &tally.failed);
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
        self.count(|tally| &tally.answered);
        self.failures.store(0, Ordering::Release);
        self.heard();
        if status == StatusCode::UNAUTHORIZED {
            self.doubt.notify_one();
        }
    }

    fn failed(&self, error: &TransportError) {
        self.count(|tally| &tally.failed);
        if !error.is_about_the_way() {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        if failures >= self.threshold {
            let problem = format!("{failures} requests in a row failed, the last one since {error}");
            self.breaker.send_if_modified(|breaker| {
                let first = matches!(breaker, Breaker::Closed);
                if first {
                    *breaker = Breaker::Open(Outage { reason: FailureReason::Unreachable, problem });
                }
                first
            });
        }
        // Only now: whoever looks into it lets requests through again if all is well, and must not come too early for that.
        self.doubt.notify_one();
    }
}

/// Done when the breaker is such that there is something to answer.
async fn until(
    mut breaker: watch::Receiver<Breaker>,
    answer: fn(&Breaker) -> Option<TransportError>,
) -> TransportError {
    match breaker.wait_for(|breaker| answer(breaker).is_some()).await {
        Ok(breaker) => answer(&breaker).unwrap_or(TransportError::Closed),
        Err(_) => TransportError::Closed,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(threshold: u32) -> Arc<Guard> {
        let outage = Outage { reason: FailureReason::Unreachable, problem: "not yet".to_owned() };
        Guard::new(threshold, outage, &Arc::default())
    }

    async fn ask(guard: &Guard, answer: Result<u16, TransportError>) -> Result<u16, TransportError> {
        let status = |code: &u16| StatusCode::from_u16(*code).unwrap();
        guard.watch_over(std::future::ready(answer), status).await
    }

    fn broken() -> Result<u16, TransportError> {
        Err(TransportError::Broken { problem: "reset".to_owned() })
    }

    fn is_refused(outcome: &Result<u16, TransportError>) -> bool {
        matches!(outcome, Err(TransportError::NotConnected { .. }))
    }

    #[tokio::test]
    async fn failures_in_a_row_open_the_breaker_and_an_answer_between_them_does_not_count() {
        let guard = guard(3);
        assert!(is_refused(&ask(&guard, Ok(200)).await), "nothing goes before it was connected");
        guard.close();
        for _ in 0..2 {
            assert_eq!(ask(&guard, broken()).await, broken());
            assert_eq!(ask(&guard, broken()).await, broken());
            assert_eq!(ask(&guard, Ok(200)).await, Ok(200));
        }
        for _ in 0..3 {
            assert_eq!(ask(&guard, broken()).await, broken());
        }
        assert!(is_refused(&ask(&guard, Ok(200)).await));
        guard.close();
        assert_eq!(ask(&guard, Ok(200)).await, Ok(200));
        let counts = guard.counts();
        assert_eq!((counts.answered, counts.failed, counts.refused, counts.in_flight), (3, 7, 2, 0));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_says_nothing_about_the_way() {
        let guard = guard(1);
        guard.close();
        let large = Err(TransportError::TooLarge { limit: 1 });
        assert_eq!(ask(&guard, large.clone()).await, large);
        assert_eq!(ask(&guard, Ok(404)).await, Ok(404));
    }

    #[tokio::test]
    async fn who_waits_is_let_go_when_the_cluster_is_lost_and_not_when_it_is_retired() {
        let guard = guard(3);
        guard.close();
        let wait = |receiver: tokio::sync::oneshot::Receiver<u16>| {
            let guard = Arc::clone(&guard);
            tokio::spawn(async move {
                let work = async { receiver.await.map_err(|_| TransportError::Closed) };
                guard.watch_over(work, |code| StatusCode::from_u16(*code).unwrap()).await
            })
        };
        let (_held, receiver) = tokio::sync::oneshot::channel();
        let waiting = wait(receiver);
        while guard.counts().in_flight == 0 {
            tokio::task::yield_now().await;
        }
        guard.open(Outage { reason: FailureReason::Timeout, problem: "lost".to_owned() });
        assert!(is_refused(&waiting.await.unwrap()));

        guard.close();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiting = wait(receiver);
        while guard.counts().in_flight == 0 {
            tokio::task::yield_now().await;
        }
        guard.retire();
        assert_eq!(ask(&guard, Ok(200)).await, Err(TransportError::Closed));
        sender.send(200).unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(200));
        guard.close();
        assert_eq!(ask(&guard, Ok(200)).await, Err(TransportError::Closed), "retired is for good");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_is_called_to_look_comes_after_the_breaker_was_opened() {
        let guard = guard(1);
        for _ in 0..5_000 {
            guard.close();
            let failing = tokio::spawn({
                let guard = Arc::clone(&guard);
                async move { ask(&guard, broken()).await }
            });
            guard.doubt.notified().await;
            // Were it opened after this, nobody would come to close it.
            guard.close();
            failing.await.unwrap().unwrap_err();
            assert_eq!(ask(&guard, Ok(200)).await, Ok(200));
        }
    }

    #[tokio::test]
    async fn an_unauthorized_answer_and_a_failure_make_somebody_look() {
        let guard = guard(3);
        guard.close();
        for answer in [Ok(401), broken()] {
            let _ = ask(&guard, answer).await;
            tokio::time::timeout(Duration::from_secs(1), guard.doubt.notified()).await.unwrap();
        }
        let _ = ask(&guard, Ok(403)).await;
        assert!(tokio::time::timeout(Duration::from_millis(20), guard.doubt.notified()).await.is_err());
    }
}
