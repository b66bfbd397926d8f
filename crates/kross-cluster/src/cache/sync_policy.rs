//! How a copy is kept up to date: by a watch, or by a look each interval. Watches on other clusters are counted, and where
//! there is no room for another one it becomes a poll until there is.

use std::sync::Arc;
use std::time::Duration;

use kross_api::{Poll, SyncMode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::CacheOptions;
use crate::object::ClusterId;

/// How a copy is to be kept up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SyncPolicy {
    /// By a watch: changes are known at once.
    #[default]
    Watch,
    /// By a list each interval. No watch is ever opened.
    Poll {
        /// The shortest time between two looks.
        interval: Duration,
        /// The most that is added to it at random.
        jitter: Duration,
    },
}

impl From<Option<Poll>> for SyncPolicy {
    fn from(poll: Option<Poll>) -> Self {
        poll.map_or(Self::Watch, |Poll { interval, jitter }| Self::Poll { interval, jitter })
    }
}

/// The time between two looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollInterval {
    interval: Duration,
    jitter: Duration,
}

impl PollInterval {
    /// A time within the interval and its jitter; `random` is in 0..1.
    pub(super) fn next(self, random: f64) -> Duration {
        self.interval + self.jitter.mul_f64(random)
    }
}

/// How a copy is kept up to date.
pub(super) enum SyncMethod {
    /// By a watch, which may take room from the budget.
    Watch {
        /// Given back when the watch ends.
        permit: Option<OwnedSemaphorePermit>,
    },
    /// By polls.
    Poll {
        /// How often.
        interval: PollInterval,
        /// Where room for a watch may come up, if one was asked for.
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

/// The room for watches on other clusters.
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

    /// How a copy of a cluster's objects can be kept up to date now. The local cluster is always watched.
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
    fn the_time_between_two_looks_is_within_interval_and_jitter() {
        let interval = PollInterval { interval: Duration::from_secs(30), jitter: Duration::from_secs(10) };
        assert_eq!(interval.next(0.0), Duration::from_secs(30));
        assert_eq!(interval.next(0.5), Duration::from_secs(35));
        assert!(interval.next(1.0 - f64::EPSILON) <= Duration::from_secs(40));
    }

    #[test]
    fn watches_on_other_clusters_take_room_and_give_it_back() {
        let budget = WatchBudget::new(&CacheOptions { budget: 1, ..CacheOptions::default() });
        let (local, remote) = (ClusterId::local(), ClusterId::new("eu"));
        let first = budget.method(&remote, SyncPolicy::Watch);
        assert_eq!(first.mode(), SyncMode::Watch);
        assert_eq!(budget.method(&remote, SyncPolicy::Watch).mode(), SyncMode::Poll);
        assert_eq!(budget.method(&local, SyncPolicy::Watch).mode(), SyncMode::Watch);
        drop(first);
        assert_eq!(budget.method(&remote, SyncPolicy::Watch).mode(), SyncMode::Watch);
        let asked = SyncPolicy::Poll { interval: Duration::from_secs(10), jitter: Duration::ZERO };
        assert!(matches!(budget.method(&local, asked), SyncMethod::Poll { permits: None, .. }));
    }
}
