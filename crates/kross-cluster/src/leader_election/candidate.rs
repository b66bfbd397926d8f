//! Decides what to do about a Lease. Pure: the caller brings the Lease and the clock. Only our own clock counts, so that
//! clocks that differ between processes do no harm.

use std::time::Duration;

use kross_value::Value;
use tokio::time::Instant;

use super::LeaseOptions;
use crate::object::StoredObject;

/// A Lease as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) holder: String,
    pub(super) transitions: i64,
    duration: Duration,
    renewed: String,
}

impl Record {
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

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElectionAction {
    /// There is no Lease: make one.
    Create,
    /// Nobody holds it, or its holder has not renewed it for too long: take it.
    Take { transitions: i64 },
    /// It is ours: renew it.
    Renew { transitions: i64 },
    /// Somebody holds it.
    Wait,
}

pub(super) struct Candidate {
    identity: String,
    renew_deadline: Duration,
    /// The Lease as it was seen last, and since when it has been like that.
    seen: Option<(Record, Instant)>,
    /// When we renewed last.
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

    pub(super) fn next_action(&mut self, record: Option<&Record>, now: Instant) -> ElectionAction {
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
        self.renewed_at = None;
        if record.holder.is_empty() || now >= since + record.duration {
            ElectionAction::Take { transitions: record.transitions.saturating_add(1) }
        } else {
            ElectionAction::Wait
        }
    }

    /// A write succeeded that began at this time.
    pub(super) fn renewed(&mut self, began: Instant) {
        self.renewed_at = Some(began);
    }

    /// Until when we lead if nothing is renewed.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.renewed_at.map(|renewed_at| renewed_at + self.renew_deadline)
    }

    pub(super) fn leads(&mut self, now: Instant) -> bool {
        if self.leads_until().is_some_and(|until| now >= until) {
            self.renewed_at = None;
        }
        self.renewed_at.is_some()
    }

    /// Who else holds the Lease, as far as it is known.
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

    fn record(holder: &str, renewed: &str) -> Record {
        Record {
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
    fn a_lease_is_taken_only_when_its_holder_was_silent_for_its_whole_duration() {
        let (mut me, start) = (candidate(), Instant::now());
        assert_eq!(me.next_action(Some(&record("other", "1")), start), ElectionAction::Wait);
        assert_eq!(me.holder(), Some("other"));
        assert_eq!(me.next_action(Some(&record("other", "1")), start + seconds(14)), ElectionAction::Wait);
        // It renewed: the time counts anew, whatever its clock says.
        assert_eq!(me.next_action(Some(&record("other", "2")), start + seconds(14)), ElectionAction::Wait);
        assert_eq!(me.next_action(Some(&record("other", "2")), start + seconds(28)), ElectionAction::Wait);
        assert_eq!(
            me.next_action(Some(&record("other", "2")), start + seconds(29)),
            ElectionAction::Take { transitions: 4 }
        );
    }

    #[test]
    fn a_lease_that_nobody_holds_is_taken_at_once() {
        let (mut me, now) = (candidate(), Instant::now());
        assert_eq!(me.next_action(None, now), ElectionAction::Create);
        assert_eq!(me.next_action(Some(&record("", "1")), now), ElectionAction::Take { transitions: 4 });
        assert_eq!(me.next_action(Some(&record("me", "1")), now), ElectionAction::Renew { transitions: 3 });
    }

    #[test]
    fn a_leader_that_cannot_renew_stops_before_another_may_begin() {
        let (mut me, start) = (candidate(), Instant::now());
        let mut other = candidate();
        other.identity = "other".to_owned();
        me.renewed(start);
        // The other one sees the renewal at the earliest when it was begun.
        assert_eq!(other.next_action(Some(&record("me", "1")), start), ElectionAction::Wait);
        assert!(me.leads(start + seconds(9)));
        assert!(!me.leads(start + seconds(10)));
        assert_eq!(other.next_action(Some(&record("me", "1")), start + seconds(14)), ElectionAction::Wait);
        assert_eq!(
            other.next_action(Some(&record("me", "1")), start + seconds(15)),
            ElectionAction::Take { transitions: 4 }
        );
    }

    #[test]
    fn a_leader_that_finds_another_holder_does_not_lead() {
        let (mut me, now) = (candidate(), Instant::now());
        me.renewed(now);
        assert_eq!(me.next_action(Some(&record("other", "1")), now), ElectionAction::Wait);
        assert!(!me.leads(now));
    }
}
