//! Limits the requests in flight with one credential. Requests beyond the limit wait, and are served in turn by the
//! instance or definition that makes them, so that one with thousands of requests holds up nobody else.
//!
//! The limit adapts to the server as TCP does to a network (AIMD, additive increase and multiplicative decrease): it is
//! halved when the server is overloaded, and grows by one for each full round of answers. `tower`'s limits are neither fair
//! nor adaptive.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use http::StatusCode;
use kross_api::FailureReason;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::object::ObjectKey;
use crate::transport::TransportError;

/// The limit never shrinks below this: a cluster with fewer requests in flight is not overloaded by them.
const MIN_LIMIT: usize = 4;

/// The instance or definition that makes a request; `None` for what serves several of them.
type Requester = Option<Arc<ObjectKey>>;

/// The permits of one credential. It outlives connections: a new connection does not add any. Its lock is a leaf.
pub(crate) struct RequestLimit {
    max: usize,
    state: Mutex<LimitState>,
}

struct LimitState {
    /// How many requests may be in flight now.
    limit: usize,
    in_flight: usize,
    /// The answers since the limit last changed.
    answers: usize,
    /// How often the limit was halved. Requests that were sent before that say nothing about the new limit.
    halved: u64,
    /// The requests that wait, by requester.
    waiting: HashMap<Requester, VecDeque<oneshot::Sender<RequestPermit>>>,
    /// The requesters with a request that waits; the first one is served next.
    turns: VecDeque<Requester>,
}

impl RequestLimit {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let max = max.max(1);
        Arc::new(Self {
            max,
            state: Mutex::new(LimitState {
                limit: max,
                in_flight: 0,
                answers: 0,
                halved: 0,
                waiting: HashMap::new(),
                turns: VecDeque::new(),
            }),
        })
    }

    /// How many requests may be in flight now, and how many wait for a permit.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let state = self.state.lock();
        let waiting = state.waiting.values().flatten().filter(|sender| !sender.is_closed()).count();
        (state.limit, waiting)
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        requester: Option<&Arc<ObjectKey>>,
    ) -> Result<RequestPermit, TransportError> {
        let granted = {
            let mut state = self.state.lock();
            if state.turns.is_empty() && state.in_flight < state.limit {
                state.in_flight += 1;
                return Ok(self.permit(state.halved));
            }
            state.enqueue(requester.cloned())
        };
        // Everything before it in the queue may have been cancelled.
        self.grant();
        granted.await.map_err(|_| TransportError::Closed)
    }

    /// Gives free permits to requests that wait.
    fn grant(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            if state.in_flight >= state.limit {
                return;
            }
            let Some(next) = state.next() else { return };
            state.in_flight += 1;
            let permit = self.permit(state.halved);
            drop(state);
            // Without the lock: if the request was cancelled meanwhile, this drops the permit, which takes the lock.
            drop(next.send(permit));
        }
    }

    fn permit(self: &Arc<Self>, halved: u64) -> RequestPermit {
        RequestPermit { limit: Arc::clone(self), halved }
    }
}

impl LimitState {
    fn enqueue(&mut self, requester: Requester) -> oneshot::Receiver<RequestPermit> {
        let (sender, receiver) = oneshot::channel();
        let queue = self.waiting.entry(requester.clone()).or_default();
        if queue.is_empty() {
            self.turns.push_back(requester);
        }
        queue.push_back(sender);
        receiver
    }

    /// The request to serve next: the first one of the requester whose turn it is. Cancelled ones are dropped.
    fn next(&mut self) -> Option<oneshot::Sender<RequestPermit>> {
        while let Some(requester) = self.turns.pop_front() {
            let Some(queue) = self.waiting.get_mut(&requester) else { continue };
            let next = std::iter::from_fn(|| queue.pop_front()).find(|sender| !sender.is_closed());
            if queue.is_empty() {
                self.waiting.remove(&requester);
            } else {
                self.turns.push_back(requester);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }

    fn halve(&mut self) {
        self.limit = (self.limit / 2).max(MIN_LIMIT).min(self.limit);
        self.answers = 0;
        self.halved += 1;
    }

    fn count_answer(&mut self, max: usize) {
        // A limit that is not in use says nothing about what the server can take.
        if self.limit < max && self.in_flight * 2 >= self.limit {
            self.answers += 1;
            if self.answers >= self.limit {
                self.answers = 0;
                self.limit += 1;
            }
        }
    }
}

/// The permit to send one request. It is released when dropped.
pub(crate) struct RequestPermit {
    limit: Arc<RequestLimit>,
    /// How often the limit was halved before the request was sent.
    halved: u64,
}

impl RequestPermit {
    /// Adapts the limit to the outcome of the request.
    pub(super) fn adapt<T>(
        &self,
        outcome: &Result<T, TransportError>,
        status: impl FnOnce(&T) -> StatusCode,
    ) {
        let mut state = self.limit.state.lock();
        match outcome.as_ref().map(status) {
            Ok(StatusCode::TOO_MANY_REQUESTS | StatusCode::GATEWAY_TIMEOUT)
            | Err(
                TransportError::Timeout { .. }
                | TransportError::Unverified { reason: FailureReason::Throttled, .. },
            ) => {
                if self.halved == state.halved {
                    state.halve();
                }
            }
            Ok(_) => state.count_answer(self.limit.max),
            Err(_) => {}
        }
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.limit.state.lock().in_flight -= 1;
        self.limit.grant();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use kross_api::ClusterId;

    use super::*;

    fn instance(name: &str) -> Arc<ObjectKey> {
        Arc::new(ObjectKey {
            cluster: ClusterId::local(),
            group: "kro.run".into(),
            kind: "App".into(),
            namespace: None,
            name: name.into(),
        })
    }

    fn limit_of(limit: &RequestLimit) -> usize {
        limit.state.lock().limit
    }

    /// Sends as many requests as the limit allows at once, all with this outcome.
    fn round(limit: &Arc<RequestLimit>, outcome: &Result<StatusCode, TransportError>) {
        let permits: Vec<_> =
            (0..limit_of(limit)).map(|_| limit.acquire(None).now_or_never().unwrap().unwrap()).collect();
        for permit in &permits {
            permit.adapt(outcome, |status| *status);
        }
    }

    #[test]
    fn the_limit_is_halved_once_for_each_round_of_timeouts_and_throttled_requests() {
        let timeout = Err(TransportError::Timeout { after: Duration::from_secs(1) });
        for overload in [Ok(StatusCode::TOO_MANY_REQUESTS), timeout] {
            let limit = RequestLimit::new(64);
            let mut limits = Vec::new();
            for _ in 0..6 {
                round(&limit, &overload);
                limits.push(limit_of(&limit));
            }
            assert_eq!(limits, [32, 16, 8, 4, 4, 4]);
        }
    }

    #[test]
    fn the_limit_grows_again_by_one_for_each_round_of_answers_up_to_the_maximum() {
        let limit = RequestLimit::new(16);
        for _ in 0..5 {
            round(&limit, &Ok(StatusCode::TOO_MANY_REQUESTS));
        }
        let mut limits = Vec::new();
        for _ in 0..14 {
            round(&limit, &Ok(StatusCode::OK));
            limits.push(limit_of(&limit));
        }
        assert_eq!(limits.first(), Some(&5));
        assert!(limits.is_sorted() && limits.last() == Some(&16), "{limits:?}");
    }

    #[test]
    fn a_limit_below_the_minimum_stays_as_it_is() {
        let limit = RequestLimit::new(2);
        round(&limit, &Ok(StatusCode::TOO_MANY_REQUESTS));
        assert_eq!(limit_of(&limit), 2);
    }

    #[test]
    fn requesters_are_served_in_turn() {
        let limit = RequestLimit::new(1);
        let held = limit.acquire(None).now_or_never().unwrap().unwrap();
        let (large, small) = (instance("large"), instance("small"));
        let served = Mutex::new(Vec::new());
        let requests: Vec<_> = [&large, &large, &large, &small, &small, &large]
            .into_iter()
            .map(|requester| {
                let (limit, served) = (&limit, &served);
                async move {
                    let _permit = limit.acquire(Some(requester)).await.unwrap();
                    served.lock().push(requester.name.to_string());
                }
            })
            .collect();
        let mut requests = Box::pin(futures::future::join_all(requests));
        assert!((&mut requests).now_or_never().is_none());
        drop(held);
        while (&mut requests).now_or_never().is_none() {}
        assert_eq!(*served.lock(), ["large", "small", "large", "small", "large", "large"]);
        assert_eq!(limit.state.lock().in_flight, 0);
    }

    #[test]
    fn cancelled_requests_lose_no_permit() {
        let limit = RequestLimit::new(1);
        let held = limit.acquire(None).now_or_never().unwrap().unwrap();
        for _ in 0..3 {
            assert!(limit.acquire(Some(&instance("cancelled"))).now_or_never().is_none());
        }
        let mut granted = Box::pin(limit.acquire(None));
        assert!((&mut granted).now_or_never().is_none());
        drop(held);
        // The permit was granted to it, and it is cancelled before it notices.
        drop(granted);
        drop(limit.acquire(None).now_or_never().unwrap().unwrap());
        let state = limit.state.lock();
        assert!(state.in_flight == 0 && state.waiting.is_empty() && state.turns.is_empty());
    }
}
