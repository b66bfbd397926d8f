//! Looks after the connection to one cluster: counts what is under way, notices what fails, and while the cluster is lost
//! answers at once in its place, so that a dead cluster holds nobody up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use kross_api::FailureReason;
use parking_lot::Mutex;
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
enum BreakerState {
    Closed,
    /// They do not, and those that wait for an answer wait no longer.
    Open(Outage),
    /// They do not, for good; those that wait for an answer still get it.
    Retired,
}

impl BreakerState {
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
pub(crate) struct CircuitBreaker {
    /// Failures in a row that open the breaker.
    threshold: u32,
    state: watch::Sender<BreakerState>,
    /// Somebody should find out whether the cluster is still there and still takes the credential.
    pub(crate) probe_requested: Notify,
    failures: AtomicU32,
    heard: Mutex<Option<(Instant, Timestamp)>>,
    in_flight: AtomicUsize,
    /// What became of the requests to this cluster, and to all of them.
    counters: [Arc<RequestCounters>; 2],
}

/// How many requests ended how.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    pub(crate) answered: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// What a guard has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestCounts {
    pub(crate) in_flight: usize,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) refused: u64,
}

impl CircuitBreaker {
    /// A guard that lets nothing through yet, and says why.
    pub(crate) fn new(threshold: u32, outage: Outage, all: &Arc<RequestCounters>) -> Arc<Self> {
        Arc::new(Self {
            threshold: threshold.max(1),
            state: watch::Sender::new(BreakerState::Open(outage)),
            probe_requested: Notify::new(),
            failures: AtomicU32::new(0),
            heard: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            counters: [Arc::default(), Arc::clone(all)],
        })
    }

    /// Lets requests through.
    pub(crate) fn close(&self) {
        self.failures.store(0, Ordering::Release);
        self.state.send_if_modified(|state| {
            let open = matches!(state, BreakerState::Open(_));
            if open {
                *state = BreakerState::Closed;
            }
            open
        });
    }

    /// Answers at once from now on, also those who are waiting.
    pub(crate) fn open(&self, outage: Outage) {
        self.state.send_if_modified(|state| {
            let used = !matches!(state, BreakerState::Retired);
            if used {
                *state = BreakerState::Open(outage);
            }
            used
        });
    }

    /// Takes nothing new and ends watches, for good. What is under way comes to its end.
    pub(crate) fn retire(&self) {
        self.state.send_replace(BreakerState::Retired);
    }

    /// The cluster has answered.
    pub(crate) fn record_response(&self) {
        let now = Some((Instant::now(), Timestamp::now()));
        *self.heard.lock() = now;
    }

    /// When the cluster last answered.
    pub(crate) fn last_response(&self) -> Option<Timestamp> {
        self.heard.lock().map(|(_, at)| at)
    }

    /// For how long the cluster has not answered.
    pub(crate) fn since_last_response(&self) -> Duration {
        let heard = self.heard.lock();
        heard.map_or(Duration::MAX, |(instant, _)| instant.elapsed())
    }

    pub(crate) fn counts(&self) -> RequestCounts {
        let [own, _] = &self.counters;
        RequestCounts {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            answered: own.answered.load(Ordering::Relaxed),
            failed: own.failed.load(Ordering::Relaxed),
            refused: own.refused.load(Ordering::Relaxed),
        }
    }

    fn count(&self, counter: fn(&RequestCounters) -> &AtomicU64) {
        for counters in &self.counters {
            counter(counters).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Done when nothing gets through; gives what to answer in place of the cluster.
    pub(crate) fn opened(&self) -> impl Future<Output = TransportError> + Send + use<> {
        until(self.state.subscribe(), BreakerState::refusal)
    }

    /// Does `work`, unless nothing gets through, and gives it up when the cluster is lost.
    pub(super) async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, TransportError>>,
        status: impl Fn(&T) -> StatusCode,
    ) -> Result<T, TransportError> {
        let refusal = self.state.borrow().refusal();
        if let Some(refusal) = refusal {
            self.count(|counters| &counters.refused);
            return Err(refusal);
        }
        let _counted = InFlight::new(&self.in_flight);
        let outcome = tokio::select! {
            biased;
            error = until(self.state.subscribe(), BreakerState::interruption) => {
                self.count(|counters| &counters.failed);
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
        self.count(|counters| &counters.answered);
        self.failures.store(0, Ordering::Release);
        self.record_response();
        if status == StatusCode::UNAUTHORIZED {
            self.probe_requested.notify_one();
        }
    }

    fn failed(&self, error: &TransportError) {
        self.count(|counters| &counters.failed);
        if !error.is_connection_failure() {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        if failures >= self.threshold {
            let problem = format!("{failures} requests in a row failed, the last one since {error}");
            self.state.send_if_modified(|state| {
                let first = matches!(state, BreakerState::Closed);
                if first {
                    *state = BreakerState::Open(Outage { reason: FailureReason::Unreachable, problem });
                }
                first
            });
        }
        // Only now: whoever looks into it lets requests through again if all is well, and must not come too early for that.
        self.probe_requested.notify_one();
    }
}

/// Done when the breaker is such that there is something to answer.
async fn until(
    mut state: watch::Receiver<BreakerState>,
    answer: fn(&BreakerState) -> Option<TransportError>,
) -> TransportError {
    match state.wait_for(|state| answer(state).is_some()).await {
        Ok(state) => answer(&state).unwrap_or(TransportError::Closed),
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

    fn breaker(threshold: u32) -> Arc<CircuitBreaker> {
        let outage = Outage { reason: FailureReason::Unreachable, problem: "not yet".to_owned() };
        CircuitBreaker::new(threshold, outage, &Arc::default())
    }

    async fn ask(
        breaker: &CircuitBreaker,
        answer: Result<u16, TransportError>,
    ) -> Result<u16, TransportError> {
        let status = |code: &u16| StatusCode::from_u16(*code).unwrap();
        breaker.run(std::future::ready(answer), status).await
    }

    fn broken() -> Result<u16, TransportError> {
        Err(TransportError::Broken { problem: "reset".to_owned() })
    }

    fn is_refused(outcome: &Result<u16, TransportError>) -> bool {
        matches!(outcome, Err(TransportError::NotConnected { .. }))
    }

    #[tokio::test]
    async fn failures_in_a_row_open_the_breaker_and_an_answer_between_them_does_not_count() {
        let breaker = breaker(3);
        assert!(is_refused(&ask(&breaker, Ok(200)).await), "nothing goes before it was connected");
        breaker.close();
        for _ in 0..2 {
            assert_eq!(ask(&breaker, broken()).await, broken());
            assert_eq!(ask(&breaker, broken()).await, broken());
            assert_eq!(ask(&breaker, Ok(200)).await, Ok(200));
        }
        for _ in 0..3 {
            assert_eq!(ask(&breaker, broken()).await, broken());
        }
        assert!(is_refused(&ask(&breaker, Ok(200)).await));
        breaker.close();
        assert_eq!(ask(&breaker, Ok(200)).await, Ok(200));
        let counts = breaker.counts();
        assert_eq!((counts.answered, counts.failed, counts.refused, counts.in_flight), (3, 7, 2, 0));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_says_nothing_about_the_way() {
        let breaker = breaker(1);
        breaker.close();
        let large = Err(TransportError::TooLarge { limit: 1 });
        assert_eq!(ask(&breaker, large.clone()).await, large);
        assert_eq!(ask(&breaker, Ok(404)).await, Ok(404));
    }

    #[tokio::test]
    async fn who_waits_is_let_go_when_the_cluster_is_lost_and_not_when_it_is_retired() {
        let breaker = breaker(3);
        breaker.close();
        let wait = |receiver: tokio::sync::oneshot::Receiver<u16>| {
            let breaker = Arc::clone(&breaker);
            tokio::spawn(async move {
                let work = async { receiver.await.map_err(|_| TransportError::Closed) };
                breaker.run(work, |code| StatusCode::from_u16(*code).unwrap()).await
            })
        };
        let (_held, receiver) = tokio::sync::oneshot::channel();
        let waiting = wait(receiver);
        while breaker.counts().in_flight == 0 {
            tokio::task::yield_now().await;
        }
        breaker.open(Outage { reason: FailureReason::Timeout, problem: "lost".to_owned() });
        assert!(is_refused(&waiting.await.unwrap()));

        breaker.close();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiting = wait(receiver);
        while breaker.counts().in_flight == 0 {
            tokio::task::yield_now().await;
        }
        breaker.retire();
        assert_eq!(ask(&breaker, Ok(200)).await, Err(TransportError::Closed));
        sender.send(200).unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(200));
        breaker.close();
        assert_eq!(ask(&breaker, Ok(200)).await, Err(TransportError::Closed), "retired is for good");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_is_called_to_look_comes_after_the_breaker_was_opened() {
        let breaker = breaker(1);
        for _ in 0..5_000 {
            breaker.close();
            let failing = tokio::spawn({
                let breaker = Arc::clone(&breaker);
                async move { ask(&breaker, broken()).await }
            });
            breaker.probe_requested.notified().await;
            // Were it opened after this, nobody would come to close it.
            breaker.close();
            failing.await.unwrap().unwrap_err();
            assert_eq!(ask(&breaker, Ok(200)).await, Ok(200));
        }
    }

    #[tokio::test]
    async fn an_unauthorized_answer_and_a_failure_make_somebody_look() {
        let breaker = breaker(3);
        breaker.close();
        for answer in [Ok(401), broken()] {
            let _ = ask(&breaker, answer).await;
            tokio::time::timeout(Duration::from_secs(1), breaker.probe_requested.notified()).await.unwrap();
        }
        let _ = ask(&breaker, Ok(403)).await;
        assert!(
            tokio::time::timeout(Duration::from_millis(20), breaker.probe_requested.notified())
                .await
                .is_err()
        );
    }
}
