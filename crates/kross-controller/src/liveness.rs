//! Turns the heartbeats of the controller's loops into one answer to the liveness probe.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::{Instant, sleep};

/// How often a loop that has nothing to do beats.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// Whether the loops of the controller make progress. Clones share the heartbeats. A loop counts from its start on.
#[derive(Clone, Debug)]
pub struct Liveness {
    started: Instant,
    /// The lock is a leaf.
    heartbeats: Arc<RwLock<Vec<Arc<State>>>>,
}

#[derive(Debug)]
struct State {
    name: &'static str,
    limit: Duration,
    /// Milliseconds after the start of the process.
    last: AtomicU64,
}

/// The heartbeat of one loop.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    started: Instant,
    state: Arc<State>,
}

impl Default for Liveness {
    fn default() -> Self {
        Self { started: Instant::now(), heartbeats: Arc::default() }
    }
}

impl Liveness {
    /// The heartbeat of a loop that may take this long between two beats.
    pub(crate) fn heartbeat(&self, name: &'static str, limit: Duration) -> Heartbeat {
        let state = Arc::new(State { name, limit, last: AtomicU64::new(0) });
        self.heartbeats.write().push(Arc::clone(&state));
        let heartbeat = Heartbeat { started: self.started, state };
        heartbeat.beat();
        heartbeat
    }

    /// Whether all loops make progress.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.checks().iter().all(|(_, passes)| *passes)
    }

    /// The loops by name, and whether all of that name make progress.
    #[must_use]
    pub fn checks(&self) -> Vec<(&'static str, bool)> {
        let now = self.started.elapsed();
        let mut checks = BTreeMap::new();
        for state in self.heartbeats.read().iter() {
            let last = Duration::from_millis(state.last.load(Ordering::Relaxed));
            *checks.entry(state.name).or_insert(true) &= now.saturating_sub(last) <= state.limit;
        }
        checks.into_iter().collect()
    }
}

impl Heartbeat {
    /// The loop has made progress.
    pub(crate) fn beat(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.state.last.store(now, Ordering::Relaxed);
    }

    /// Waits for something to do, which may take any time.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            self.beat();
            tokio::select! {
                biased;
                work = &mut work => {
                    self.beat();
                    return work;
                }
                () = sleep(IDLE_INTERVAL) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_waits_is_alive_and_one_that_is_stuck_or_has_ended_is_not() {
        let liveness = Liveness::default();
        assert!(liveness.is_alive(), "nothing runs yet");
        let heartbeat = liveness.heartbeat("dispatch", Duration::from_secs(60));
        heartbeat.wait(sleep(Duration::from_secs(3600))).await;
        assert!(liveness.is_alive());
        sleep(Duration::from_secs(59)).await;
        assert!(liveness.is_alive());
        drop(heartbeat);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(liveness.checks(), [("dispatch", false)]);
        assert!(!liveness.is_alive());
        // Another loop does not make up for it.
        liveness.heartbeat("instances", Duration::from_secs(60)).beat();
        assert_eq!(liveness.checks(), [("dispatch", false), ("instances", true)]);
        liveness.heartbeat("dispatch", Duration::from_secs(60)).beat();
        assert_eq!(liveness.checks(), [("dispatch", false), ("instances", true)]);
        assert!(!liveness.is_alive());
    }
}
