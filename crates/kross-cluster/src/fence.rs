//! A fence in front of writes: without the Lease nothing is written.
//!
//! A leader that was suspended, or whose renewals hang, cannot know whether another process leads. It must not have to notice
//! that before its next write, so every write compares the time with the end of the Lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::transport::TransportError;

/// The clock that also counts the time while the machine is suspended.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A time on the clock of fences, which also runs while the machine is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FenceTime(Duration);

impl FenceTime {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(CLOCK);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        Self(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0)))
    }

    fn nanoseconds(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Whether this process may write. Clones share the answer.
///
/// The default has no Lease and permits every write.
#[derive(Clone, Debug, Default)]
pub struct Fence(Option<Arc<LeaseEnd>>);

/// Until when writes are permitted, in nanoseconds on the clock of fences; 0 while the Lease is not held.
#[derive(Debug)]
struct LeaseEnd(AtomicU64);

impl Fence {
    /// A fence that permits no write until the Lease is held.
    pub(crate) fn closed() -> Self {
        Self(Some(Arc::new(LeaseEnd(AtomicU64::new(0)))))
    }

    /// The Lease was renewed by a request that was sent at this time: permits writes for this long after it.
    pub(crate) fn extend(&self, sent: FenceTime, duration: Duration) {
        if let Some(end) = &self.0 {
            end.0.store(FenceTime(sent.0.saturating_add(duration)).nanoseconds(), Ordering::Release);
        }
    }

    /// The Lease is not held any more: permits no write until it is held again.
    pub(crate) fn close(&self) {
        if let Some(end) = &self.0 {
            end.0.store(0, Ordering::Release);
        }
    }

    /// Whether writes are permitted now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        // Without a Lease not even the clock is read.
        self.0.is_none() || self.is_open_at(FenceTime::now())
    }

    fn is_open_at(&self, now: FenceTime) -> bool {
        self.0.as_ref().is_none_or(|end| now.nanoseconds() < end.0.load(Ordering::Acquire))
    }

    /// Refuses a write without the Lease. Called when nothing is left to wait for before the write is sent.
    pub(crate) fn check(&self) -> Result<(), TransportError> {
        if self.is_open() { Ok(()) } else { Err(TransportError::Fenced) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_permitted_from_the_renewal_to_the_end_of_the_lease() {
        let fence = Fence::closed();
        let shared = fence.clone();
        assert_eq!(fence.check(), Err(TransportError::Fenced), "the Lease was never held");
        let sent = FenceTime::now();
        let after = |seconds| FenceTime(sent.0 + Duration::from_secs(seconds));
        fence.extend(sent, Duration::from_secs(10));
        assert_eq!(fence.check(), Ok(()));
        assert!(fence.is_open_at(after(9)));
        assert!(!fence.is_open_at(after(10)), "also if nobody has noticed yet");
        fence.extend(after(9), Duration::from_secs(10));
        assert!(shared.is_open_at(after(18)));
        fence.close();
        assert!(!fence.is_open_at(sent));
    }

    #[test]
    fn a_process_without_leader_election_is_not_fenced() {
        assert_eq!(Fence::default().check(), Ok(()));
    }
}
