//! Decides what a candidate does with the Lease. No I/O and no clock of its own. Only the local clock is used, so that
//! clock skew between processes does no harm.

use std::time::Duration;

use kross_value::Value;
use tokio::time::Instant;

use super::LeaseOptions;
use crate::object::StoredObject;

/// The fields of a Lease that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseRecord {
    pub(super) holder: String,
    pub(super) transitions: i64,
    duration: Duration,
    renewed: String,
}

impl LeaseRecord {
    pub(super) fn read(lease: &StoredObject) -> Self {
        let spec = |name| lease.value().at(&["spec", name]);
        let seconds = spec("leaseDurationSeconds").and_then(Value::as_int).unwrap_or(0);
        Self {
            holder: spec("holderIdentity").and_then(Value::as_str).unwrap_or_default().to_owned(),
            transitions: spec("leaseTransitions").and_then(Value::as_int).unwrap_or(0),
            duration: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            renewed: spec("renewTime").and_then(Value::as_str).unwrap_or_default().to_owned(),
        }
    }
}

/// What a candidate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElectionAction {
    /// Create the Lease.
    Create,
    /// Take the Lease over: it has no holder, or was not renewed in time.
    TakeOver { transitions: i64 },
    /// Renew the Lease, which this candidate holds.
    Renew { transitions: i64 },
    /// Wait: another candidate holds the Lease.
    Wait,
}

pub(super) struct Candidate {
    identity: String,
    renew_deadline: Duration,
    /// The last observed Lease, and since when it has been unchanged.
    seen: Option<(LeaseRecord, Instant)>,
    /// When this candidate last renewed the Lease.
    renewed_at: Option<Instant>,
}

impl Candidate {
    pub(super) fn new(options: &LeaseOptions) -> Self {
        Self {
            identity: options.identity.clone(),
            renew_deadline: options.renew_deadline,
            seen: None,
            renewed_at: None,
        }
    }

    pub(super) fn next_action(&mut self, record: Option<&LeaseRecord>, now: Instant) -> ElectionAction {
        let Some(record) = record else {
            self.seen = None;
            return ElectionAction::Create;
        };
        let since = match &self.seen {
            Some((seen, since)) if seen == record => *since,
            _ => now,
        };
        self.seen = Some((record.clone(), since));
        if record.holder == self.identity {
            return ElectionAction::Renew { transitions: record.transitions };
        }
        if self.renewed_at.take().is_some() {
            // It led, and another candidate has led since: that is not the same leadership any more.
            return ElectionAction::Wait;
        }
        if record.holder.is_empty() || now >= since + record.duration {
            ElectionAction::TakeOver { transitions: record.transitions.saturating_add(1) }
        } else {
            ElectionAction::Wait
        }
    }

    /// A write that was started at this time succeeded.
    pub(super) fn renewed(&mut self, began: Instant) {
        self.renewed_at = Some(began);
    }

    /// Until when this candidate leads without another renewal.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.renewed_at.map(|renewed_at| renewed_at + self.renew_deadline)
    }

    pub(super) fn leads(&mut self, now: Instant) -> bool {
        if self.leads_until().is_some_and(|until| now >= until) {
            self.renewed_at = None;
        }
        self.renewed_at.is_some()
    }

    /// This candidate does not lead any more, whatever the clock says.
    pub(super) fn stop_leading(&mut self) {
        self.renewed_at = None;
    }

    /// The other candidate that holds the Lease, if it is known.
    pub(super) fn holder(&self) -> Option<&str> {
        let (record, _) = self.seen.as_ref()?;
        (!record.holder.is_empty() && record.holder != self.identity).then_some(&*record.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        Candidate::new(&LeaseOptions::new("kro-system", "controller.kro.run", "me"))
    }

    fn record(holder: &str, renewed: &str) -> LeaseRecord {
        LeaseRecord {
            holder: holder.to_owned(),
            transitions: 3,
            duration: Duration::from_secs(15),
            renewed: renewed.to_owned(),
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn takes_a_lease_over_only_after_its_whole_duration_without_renewal() {
        let (mut me, start) = (candidate(), Instant::now());
        assert_eq!(me.next_action(Some(&record("other", "1")), start), ElectionAction::Wait);
        assert_eq!(me.holder(), Some("other"));
        assert_eq!(me.next_action(Some(&record("other", "1")), start + seconds(14)), ElectionAction::Wait);
        // It was renewed: the time starts again, whatever the clock of the holder says.
        assert_eq!(me.next_action(Some(&record("other", "2")), start + seconds(14)), ElectionAction::Wait);
        assert_eq!(me.next_action(Some(&record("other", "2")), start + seconds(28)), ElectionAction::Wait);
        assert_eq!(
            me.next_action(Some(&record("other", "2")), start + seconds(29)),
            ElectionAction::TakeOver { transitions: 4 }
        );
    }

    #[test]
    fn takes_a_lease_without_a_holder_at_once() {
        let (mut me, now) = (candidate(), Instant::now());
        assert_eq!(me.next_action(None, now), ElectionAction::Create);
        assert_eq!(me.next_action(Some(&record("", "1")), now), ElectionAction::TakeOver { transitions: 4 });
        assert_eq!(me.next_action(Some(&record("me", "1")), now), ElectionAction::Renew { transitions: 3 });
    }

    #[test]
    fn a_leader_that_cannot_renew_stops_before_another_candidate_can_take_over() {
        let (mut me, start) = (candidate(), Instant::now());
        let mut other = candidate();
        other.identity = "other".to_owned();
        me.renewed(start);
        // The other candidate sees the renewal at the earliest when it was started.
        assert_eq!(other.next_action(Some(&record("me", "1")), start), ElectionAction::Wait);
        assert!(me.leads(start + seconds(9)));
        assert!(!me.leads(start + seconds(10)));
        assert_eq!(other.next_action(Some(&record("me", "1")), start + seconds(14)), ElectionAction::Wait);
        assert_eq!(
            other.next_action(Some(&record("me", "1")), start + seconds(15)),
            ElectionAction::TakeOver { transitions: 4 }
        );
    }

    #[test]
    fn a_leader_that_observes_another_holder_stops_leading() {
        let (mut me, now) = (candidate(), Instant::now());
        me.renewed(now);
        assert_eq!(me.next_action(Some(&record("other", "1")), now), ElectionAction::Wait);
        assert!(!me.leads(now));
    }

    #[test]
    fn a_leader_whose_lease_was_released_by_another_candidate_stops_before_it_takes_over_again() {
        let (mut me, now) = (candidate(), Instant::now());
        me.renewed(now);
        assert_eq!(me.next_action(Some(&record("", "1")), now), ElectionAction::Wait);
        assert!(!me.leads(now));
        assert_eq!(me.next_action(Some(&record("", "1")), now), ElectionAction::TakeOver { transitions: 4 });
    }
}
