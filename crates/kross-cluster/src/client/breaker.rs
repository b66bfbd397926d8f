//! The circuit breaker of the connection to a cluster: counts requests, opens after several failures in a row, and
//! while it is open rejects requests at once, so that an unreachable cluster delays nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use http::StatusCode;
use jiff::Timestamp;
use kross_api::FailureReason;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::transport::TransportError;

/// Why the breaker is open.
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

/// Whether requests are sent.
enum BreakerState {
    Closed,
    /// Requests are rejected, and those in flight are cancelled.
    Open(Outage),
    /// Requests are rejected for good, because the connection is no longer used. Those in flight may finish.
    Retired,
}

impl BreakerState {
    /// The error that new requests and open watches get.
    fn rejection(&self) -> Option<TransportError> {
        match self {
            Self::Closed => None,
            Self::Open(outage) => Some(outage.error()),
            Self::Retired => Some(TransportError::Closed),
        }
    }

    /// The error that requests in flight get.
    fn cancellation(&self) -> Option<TransportError> {
        match self {
            Self::Open(outage) => Some(outage.error()),
            Self::Closed | Self::Retired => None,
        }
    }
}

/// Stands between the users of a connection and its cluster. Its locks are leaves: nothing else is locked while they
/// are held.
pub(crate) struct CircuitBreaker {
    /// The number of consecutive failures that opens the breaker.
    threshold: u32,
    state: watch::Sender<BreakerState>,
    /// Asks the connection's task to check whether the cluster is reachable and accepts the credential.
    pub(crate) probe_requested: Notify,
    /// Whether a new connection led to another cluster since the last check.
    other_cluster: AtomicBool,
    failures: AtomicU32,
    last_response: Mutex<Option<Timestamp>>,
    in_flight: AtomicUsize,
    /// Counters of this cluster, and of all clusters.
    counters: [Arc<RequestCounters>; 2],
}

/// Counters of requests by outcome.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    pub(crate) answered: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// The request counters of a cluster at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestCounts {
    pub(crate) in_flight: usize,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) refused: u64,
}

impl CircuitBreaker {
    /// A breaker that is open until the first connection is established.
    pub(crate) fn new(threshold: u32, outage: Outage, all: &Arc<RequestCounters>) -> Arc<Self> {
        Arc::new(Self {
            threshold: threshold.max(1),
            state: watch::Sender::new(BreakerState::Open(outage)),
            probe_requested: Notify::new(),
            other_cluster: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            last_response: Mutex::default(),
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

    /// Rejects requests from now on, and cancels those in flight.
    pub(crate) fn open(&self, outage: Outage) {
        self.state.send_if_modified(|state| {
            let used = !matches!(state, BreakerState::Retired);
            if used {
                *state = BreakerState::Open(outage);
            }
            used
        });
    }

    /// Rejects requests and ends watches, for good. Requests in flight may finish.
    pub(crate) fn retire(&self) {
        self.state.send_replace(BreakerState::Retired);
    }

    /// Records that the cluster has answered.
    pub(crate) fn record_response(&self) {
        *self.last_response.lock() = Some(Timestamp::now());
    }

    /// When the cluster last answered.
    pub(crate) fn last_response(&self) -> Option<Timestamp> {
        *self.last_response.lock()
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

    /// Resolves when requests are rejected, with the error that they get.
    pub(crate) fn opened(&self) -> impl Future<Output = TransportError> + Send + use<> {
        until(self.state.subscribe(), BreakerState::rejection)
    }

    /// Waits for the permit of a request, at most until requests are rejected.
    pub(super) async fn wait<T>(
        &self,
        permit: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        tokio::select! {
            biased;
            rejection = self.opened() => {
                self.count(|counters| &counters.refused);
                Err(rejection)
            }
            permit = permit => permit,
        }
    }

    /// Runs a request unless the breaker is open, and cancels it when the breaker opens.
    pub(super) async fn run<T>(
        &self,
        request: impl Future<Output = Result<T, TransportError>>,
        status: impl Fn(&T) -> StatusCode,
    ) -> Result<T, TransportError> {
        let rejection = self.state.borrow().rejection();
        if let Some(rejection) = rejection {
            self.count(|counters| &counters.refused);
            return Err(rejection);
        }
        let _counted = InFlight::new(&self.in_flight);
        let outcome = tokio::select! {
            biased;
            error = until(self.state.subscribe(), BreakerState::cancellation) => {
                self.count(|counters| &counters.failed);
                return Err(error);
            }
            outcome = request => outcome,
        };
        match &outcome {
            Ok(response) => self.answered(status(response)),
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

    /// Whether a new connection led to another cluster since this was last called.
    pub(crate) fn take_other_cluster(&self) -> bool {
        self.other_cluster.swap(false, Ordering::AcqRel)
    }

    fn failed(&self, error: &TransportError) {
        self.count(|counters| &counters.failed);
        match error {
            TransportError::OtherCluster { .. } => self.other_cluster.store(true, Ordering::Release),
            // The probe finds out whether the cluster is lost: many requests to a slow one time out together.
            TransportError::Timeout { .. }
            | TransportError::Unverified { reason: FailureReason::Unauthorized, .. } => {}
            error if error.is_connection_failure() => self.count_failure(error),
            _ => return,
        }
        // After opening the breaker: the check closes it again if the cluster is fine, and would otherwise run too
        // early.
        self.probe_requested.notify_one();
    }

    /// Opens the breaker after several failures in a row.
    fn count_failure(&self, error: &TransportError) {
        let failures = self.failures.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        if failures >= self.threshold {
            let problem = format!("{failures} requests in a row failed; last error: {error}");
            self.state.send_if_modified(|state| {
                let first = matches!(state, BreakerState::Closed);
                if first {
                    *state = BreakerState::Open(Outage { reason: FailureReason::Unreachable, problem });
                }
                first
            });
        }
    }
}

/// Resolves when the breaker is in a state that has an error.
async fn until(
    mut state: watch::Receiver<BreakerState>,
    error: fn(&BreakerState) -> Option<TransportError>,
) -> TransportError {
    match state.wait_for(|state| error(state).is_some()).await {
        Ok(state) => error(&state).unwrap_or(TransportError::Closed),
        Err(_) => TransportError::Closed,
    }
}

/// Counts a request in flight.
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
    use std::time::Duration;

    use super::*;

    fn breaker(threshold: u32) -> Arc<CircuitBreaker> {
        let outage = Outage { reason: FailureReason::Unreachable, problem: "not yet".to_owned() };
        CircuitBreaker::new(threshold, outage, &Arc::default())
    }

    async fn send(
        breaker: &CircuitBreaker,
        response: Result<u16, TransportError>,
    ) -> Result<u16, TransportError> {
        let status = |code: &u16| StatusCode::from_u16(*code).unwrap();
        breaker.run(std::future::ready(response), status).await
    }

    fn broken() -> Result<u16, TransportError> {
        Err(TransportError::Broken { problem: "reset".to_owned() })
    }

    fn is_rejected(outcome: &Result<u16, TransportError>) -> bool {
        matches!(outcome, Err(TransportError::NotConnected { .. }))
    }

    #[tokio::test]
    async fn consecutive_failures_open_the_breaker_and_a_response_resets_the_count() {
        let breaker = breaker(3);
        assert!(
            is_rejected(&send(&breaker, Ok(200)).await),
            "requests are rejected before the first connection"
        );
        breaker.close();
        for _ in 0..2 {
            assert_eq!(send(&breaker, broken()).await, broken());
            assert_eq!(send(&breaker, broken()).await, broken());
            assert_eq!(send(&breaker, Ok(200)).await, Ok(200));
        }
        for _ in 0..3 {
            assert_eq!(send(&breaker, broken()).await, broken());
        }
        assert!(is_rejected(&send(&breaker, Ok(200)).await));
        breaker.close();
        assert_eq!(send(&breaker, Ok(200)).await, Ok(200));
        let counts = breaker.counts();
        assert_eq!((counts.answered, counts.failed, counts.refused, counts.in_flight), (3, 7, 2, 0));
    }

    #[tokio::test]
    async fn timeouts_request_a_check_and_do_not_open_the_breaker() {
        let breaker = breaker(2);
        breaker.close();
        for _ in 0..5 {
            let timeout = Err(TransportError::Timeout { after: Duration::from_secs(1) });
            assert_eq!(send(&breaker, timeout.clone()).await, timeout);
        }
        tokio::time::timeout(Duration::from_secs(1), breaker.probe_requested.notified()).await.unwrap();
        assert_eq!(send(&breaker, Ok(200)).await, Ok(200));
    }

    #[tokio::test]
    async fn a_connection_to_another_cluster_requests_a_check_and_does_not_open_the_breaker() {
        let breaker = breaker(1);
        breaker.close();
        let other = Err(TransportError::OtherCluster { problem: "other".to_owned() });
        assert_eq!(send(&breaker, other.clone()).await, other);
        tokio::time::timeout(Duration::from_secs(1), breaker.probe_requested.notified()).await.unwrap();
        assert!(breaker.take_other_cluster() && !breaker.take_other_cluster());
        assert_eq!(send(&breaker, Ok(200)).await, Ok(200));
    }

    #[tokio::test]
    async fn a_permit_is_waited_for_until_requests_are_rejected() {
        let breaker = breaker(1);
        breaker.close();
        let waiting = tokio::spawn({
            let breaker = Arc::clone(&breaker);
            async move { breaker.wait(std::future::pending::<Result<u16, TransportError>>()).await }
        });
        breaker.retire();
        assert_eq!(waiting.await.unwrap(), Err(TransportError::Closed));
        assert_eq!(breaker.wait(std::future::ready(Ok(1))).await, Err(TransportError::Closed));
    }

    #[tokio::test]
    async fn a_response_that_is_too_large_does_not_count_as_a_connection_failure() {
        let breaker = breaker(1);
        breaker.close();
        let large = Err(TransportError::TooLarge { limit: 1 });
        assert_eq!(send(&breaker, large.clone()).await, large);
        assert_eq!(send(&breaker, Ok(404)).await, Ok(404));
    }

    #[tokio::test]
    async fn opening_the_breaker_cancels_requests_in_flight_and_retiring_it_does_not() {
        let breaker = breaker(3);
        breaker.close();
        let wait = |receiver: tokio::sync::oneshot::Receiver<u16>| {
            let breaker = Arc::clone(&breaker);
            tokio::spawn(async move {
                let request = async { receiver.await.map_err(|_| TransportError::Closed) };
                breaker.run(request, |code| StatusCode::from_u16(*code).unwrap()).await
            })
        };
        let (_held, receiver) = tokio::sync::oneshot::channel();
        let waiting = wait(receiver);
        while breaker.counts().in_flight == 0 {
            tokio::task::yield_now().await;
        }
        breaker.open(Outage { reason: FailureReason::Timeout, problem: "lost".to_owned() });
        assert!(is_rejected(&waiting.await.unwrap()));

        breaker.close();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiting = wait(receiver);
        while breaker.counts().in_flight == 0 {
            tokio::task::yield_now().await;
        }
        breaker.retire();
        assert_eq!(send(&breaker, Ok(200)).await, Err(TransportError::Closed));
        sender.send(200).unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(200));
        breaker.close();
        assert_eq!(
            send(&breaker, Ok(200)).await,
            Err(TransportError::Closed),
            "a retired breaker stays open"
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_breaker_is_open_before_a_check_is_requested() {
        let breaker = breaker(1);
        for _ in 0..5_000 {
            breaker.close();
            let failing = tokio::spawn({
                let breaker = Arc::clone(&breaker);
                async move { send(&breaker, broken()).await }
            });
            breaker.probe_requested.notified().await;
            // If the breaker opened after this, no check would close it.
            breaker.close();
            failing.await.unwrap().unwrap_err();
            assert_eq!(send(&breaker, Ok(200)).await, Ok(200));
        }
    }

    #[tokio::test]
    async fn an_unauthorized_response_and_a_failure_request_a_check() {
        let breaker = breaker(3);
        breaker.close();
        for response in [Ok(401), broken()] {
            let _ = send(&breaker, response).await;
            tokio::time::timeout(Duration::from_secs(1), breaker.probe_requested.notified()).await.unwrap();
        }
        let _ = send(&breaker, Ok(403)).await;
        assert!(
            tokio::time::timeout(Duration::from_millis(20), breaker.probe_requested.notified())
                .await
                .is_err()
        );
    }
}
