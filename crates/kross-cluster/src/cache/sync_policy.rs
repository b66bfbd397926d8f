//! How a cache is kept in sync: by a watch or by polls. Watches of remote clusters take a permit from a budget; without
//! one the cache polls until a permit is available.

use std::sync::Arc;
use std::time::Duration;

use kross_api::{Poll, SyncMode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::CacheOptions;
use crate::object::ClusterId;

/// How a cache shall be kept in sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SyncPolicy {
    /// By a watch: changes arrive at once.
    #[default]
    Watch,
    /// By a list per interval. No watch is ever opened.
    Poll {
        /// The minimum time between two polls.
        interval: Duration,
        /// The maximum random delay added to it.
        jitter: Duration,
    },
}

impl From<Option<Poll>> for SyncPolicy {
    fn from(poll: Option<Poll>) -> Self {
        poll.map_or(Self::Watch, |Poll { interval, jitter }| Self::Poll { interval, jitter })
    }
}

/// The time between two polls.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollInterval {
    interval: Duration,
    jitter: Duration,
}

impl PollInterval {
    /// The time until the next poll; `random` is in 0..1.
    pub(super) fn next(self, random: f64) -> Duration {
        self.interval + self.jitter.mul_f64(random)
    }
}

/// How a cache is kept in sync.
pub(super) enum SyncMethod {
    /// By a watch, with a permit if it is one of a remote cluster.
    Watch {
        /// Returned to the budget when the watch ends.
        permit: Option<OwnedSemaphorePermit>,
    },
    /// By polls.
    Poll {
        /// The interval.
        interval: PollInterval,
        /// The budget to get a permit from, if a watch is wanted.
        permits: Option<Arc<Semaphore>>,
    },
}

impl SyncMethod {
    pub(super) fn mode(&self) -> SyncMode {
        match self {
            Self::Watch { .. } => SyncMode::Watch,
            Self::Poll { .. } => SyncMode::Poll,
        }
    }
}

/// The permits for watches of remote clusters. Clones share them.
#[derive(Clone)]
pub(super) struct WatchBudget {
    permits: Arc<Semaphore>,
    fallback: PollInterval,
}

impl WatchBudget {
    pub(super) fn new(options: &CacheOptions) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(options.budget.min(Semaphore::MAX_PERMITS))),
            fallback: PollInterval { interval: options.fallback_interval, jitter: options.fallback_jitter },
        }
    }

    /// How a cache of this cluster can be kept in sync now. The local cluster is always watched.
    pub(super) fn method(&self, cluster: &ClusterId, sync: SyncPolicy) -> SyncMethod {
        match sync {
            SyncPolicy::Poll { interval, jitter } => {
                SyncMethod::Poll { interval: PollInterval { interval, jitter }, permits: None }
            }
            SyncPolicy::Watch if cluster.is_local() => SyncMethod::Watch { permit: None },
            SyncPolicy::Watch => match Arc::clone(&self.permits).try_acquire_owned() {
                Ok(permit) => SyncMethod::Watch { permit: Some(permit) },
                Err(_) => {
                    SyncMethod::Poll { interval: self.fallback, permits: Some(Arc::clone(&self.permits)) }
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_two_polls_is_within_interval_and_jitter() {
        let interval = PollInterval { interval: Duration::from_secs(30), jitter: Duration::from_secs(10) };
        assert_eq!(interval.next(0.0), Duration::from_secs(30));
        assert_eq!(interval.next(0.5), Duration::from_secs(35));
        assert!(interval.next(1.0 - f64::EPSILON) <= Duration::from_secs(40));
    }

    #[test]
    fn watches_of_remote_clusters_take_a_permit_and_return_it() {
        let budget = WatchBudget::new(&CacheOptions { budget: 1, ..CacheOptions::default() });
        let (local, remote) = (ClusterId::local(), ClusterId::new("eu"));
        let first = budget.method(&remote, SyncPolicy::Watch);
        assert_eq!(first.mode(), SyncMode::Watch);
        assert_eq!(budget.method(&remote, SyncPolicy::Watch).mode(), SyncMode::Poll);
        assert_eq!(budget.method(&local, SyncPolicy::Watch).mode(), SyncMode::Watch);
        drop(first);
        assert_eq!(budget.method(&remote, SyncPolicy::Watch).mode(), SyncMode::Watch);
        let poll = SyncPolicy::Poll { interval: Duration::from_secs(10), jitter: Duration::ZERO };
        assert!(matches!(budget.method(&local, poll), SyncMethod::Poll { permits: None, .. }));
    }
}
