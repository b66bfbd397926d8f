//! How often objects were repaired, and when they may be repaired next: at once at first, then with exponential backoff, until
//! others have left an object alone for a while. A restart forgets it, and the backoff begins anew.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kross_api::whole_seconds;
use kross_cluster::{ApiError, ChangedFields, ObjectKey, StoredObject};
use kross_plan::Contest;
use kross_value::Text;
use tokio::time::Instant;

/// So many repairs of an object are not followed by a wait: most changes are made by hand, and only once.
const IMMEDIATE: u32 = 3;
/// The wait after the next repair. Each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_secs(300);
/// The longest wait for what must not be missing for long.
const MAX_URGENT_WAIT: Duration = Duration::from_secs(1);
/// An object is reported as contested from this number of repairs on.
const CONTESTED: u32 = 5;
/// Repairs are forgotten if an object that is not contested yet has not been changed for so long.
const FORGET: Duration = Duration::from_secs(300);
/// A contested object is not any more if nobody has changed it for so long, or for several times as long as it took before.
const QUIET: Duration = Duration::from_secs(30);
const QUIET_FACTOR: u32 = 3;
/// The longest lists of fields and managers in a message.
const MAX_FIELDS: usize = 5;
const MAX_MANAGERS: usize = 3;
/// What to do about another client that changes an object of a template.
const TEMPLATE_ADVICE: &str =
    "remove these fields from the template, or stop the other client from setting them";

/// The repairs of one object.
#[derive(Clone, Debug)]
pub(crate) struct Repair {
    /// The hash of the object that was applied. A change of it is applied at once.
    hash: Text,
    /// The object after it was applied.
    applied: Arc<StoredObject>,
    count: u32,
    since: Timestamp,
    last: (Instant, Timestamp),
    /// The longest time from a repair to the next change.
    slowest: Duration,
    /// Whether the object was changed or deleted after the last repair.
    changed: bool,
    /// Whether the next repair must not wait for long.
    urgent: bool,
    /// What others did to the object; none before that was read.
    cause: Option<Cause>,
}

/// What others do to an object after every repair.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// They delete it.
    Deleted,
    /// They change these fields; none if it cannot be found out which.
    Changed(Vec<ChangedFields>),
}

impl Cause {
    /// What a read of the object says.
    pub(crate) fn of(read: Result<Vec<ChangedFields>, &ApiError>) -> Self {
        match read {
            Ok(fields) => Self::Changed(fields),
            Err(error) if error.is_object_not_found() => Self::Deleted,
            Err(_) => Self::Changed(Vec::new()),
        }
    }
}

/// The repairs of objects, such as those of an instance.
#[derive(Debug, Default)]
pub(crate) struct Repairs(HashMap<ObjectKey, Repair>);

impl Repairs {
    /// Forgets repairs after which nobody changed the object for long.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, repair| repair.changed || now < repair.last.0 + repair.quiet());
    }

    /// Forgets the repairs of objects that are not desired.
    pub(crate) fn retain(&mut self, is_desired: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|key, _| is_desired(key));
    }

    pub(crate) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut Repair> {
        self.0.get_mut(key)
    }

    /// Remembers that an object was applied: because others had changed or deleted it, if it is a repair, or because it is
    /// desired to be different, which does not end the backoff.
    pub(crate) fn applied(
        &mut self,
        key: &ObjectKey,
        hash: &Text,
        applied: &Arc<StoredObject>,
        is_repair: bool,
        (now, time): (Instant, Timestamp),
    ) {
        if let Some(repair) = self.0.get_mut(key) {
            repair.count += u32::from(is_repair && repair.hash == *hash);
            repair.hash.clone_from(hash);
            repair.applied = Arc::clone(applied);
            repair.last = (now, time);
            repair.changed = false;
        } else if is_repair {
            let repair = Repair {
                hash: hash.clone(),
                applied: Arc::clone(applied),
                count: 1,
                since: time,
                last: (now, time),
                slowest: Duration::ZERO,
                changed: false,
                urgent: false,
                cause: None,
            };
            self.0.insert(key.clone(), repair);
        }
    }

    /// The contested objects.
    pub(crate) fn contested(&self) -> impl Iterator<Item = (&ObjectKey, Contest)> {
        self.contested_with(TEMPLATE_ADVICE)
    }

    /// The contested objects, with what to do about another client that changes them.
    pub(crate) fn contested_with<'r>(
        &'r self,
        advice: &'r str,
    ) -> impl Iterator<Item = (&'r ObjectKey, Contest)> {
        let contested = self.0.iter().filter(|(_, repair)| repair.is_contested());
        contested.map(move |(key, repair)| (key, repair.contest_with(advice)))
    }

    /// When the next repair is due, or a contested object may have been left alone for long enough.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let due = self.0.values().filter_map(|repair| match repair.changed {
            true => Some(repair.due()),
            false => repair.is_contested().then(|| repair.last.0 + repair.quiet()),
        });
        due.min()
    }
}

impl Repair {
    /// Whether the repair of an object, which is desired with this hash and was changed or deleted, has to wait.
    pub(crate) fn must_wait(&mut self, hash: &Text, now: Instant) -> bool {
        if self.hash != *hash {
            return false;
        }
        if !self.changed {
            self.changed = true;
            self.slowest = self.slowest.max(now - self.last.0);
        }
        now < self.due()
    }

    /// Sets whether the next repair must not wait for long.
    pub(crate) fn set_urgent(&mut self, urgent: bool) {
        self.urgent = urgent;
    }

    /// The object after it was last applied.
    pub(crate) fn last_applied(&self) -> &Arc<StoredObject> {
        &self.applied
    }

    /// Whether somebody should know who else writes the object.
    pub(crate) fn is_contested(&self) -> bool {
        self.count >= CONTESTED
    }

    /// Whether it is known what others do to the object.
    pub(crate) fn has_cause(&self) -> bool {
        self.cause.is_some()
    }

    /// Sets what others do to the object.
    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    pub(crate) fn contest(&self) -> Contest {
        self.contest_with(TEMPLATE_ADVICE)
    }

    /// Who else writes the object, and what to do about it unless they delete it.
    pub(crate) fn contest_with(&self, advice: &str) -> Contest {
        let next = SignedDuration::try_from(self.wait()).unwrap_or_default();
        let next = self.last.1.checked_add(next).unwrap_or(self.last.1);
        let advice = match self.cause {
            Some(Cause::Deleted) => "stop the other client from deleting it",
            _ => advice,
        };
        let message = format!(
            "{} after every repair; repaired {} times since {}, next repair at {}; {advice}",
            self.others(),
            self.count,
            whole_seconds(self.since),
            whole_seconds(next)
        );
        Contest { message: message.into(), waiting: self.changed }
    }

    fn others(&self) -> String {
        let all = match &self.cause {
            Some(Cause::Deleted) => return "another client deletes it".to_owned(),
            Some(Cause::Changed(fields)) if !fields.is_empty() => fields,
            _ => return "another client changes it".to_owned(),
        };
        let of_manager = |changed: &ChangedFields| {
            let mut fields: Vec<String> =
                changed.fields.iter().take(MAX_FIELDS).map(|field| format!("`{field}`")).collect();
            if let more @ 1.. = changed.fields.len().saturating_sub(MAX_FIELDS) {
                fields.push(format!("{more} more fields"));
            }
            match &changed.manager {
                Some(manager) => format!("field manager `{manager}` changes {}", fields.join(", ")),
                None => format!("another client removes {}", fields.join(", ")),
            }
        };
        let mut parts: Vec<String> = all.iter().take(MAX_MANAGERS).map(of_manager).collect();
        if let more @ 1.. = all.len().saturating_sub(MAX_MANAGERS) {
            parts.push(format!("{more} more change other fields"));
        }
        parts.join(" and ")
    }

    fn due(&self) -> Instant {
        self.last.0 + self.wait()
    }

    /// How long to wait after the last repair.
    fn wait(&self) -> Duration {
        let longest = if self.urgent { MAX_URGENT_WAIT } else { MAX_WAIT };
        match self.count.checked_sub(IMMEDIATE + 1) {
            None => Duration::ZERO,
            Some(doublings) => FIRST_WAIT.saturating_mul(1 << doublings.min(16)).min(longest),
        }
    }

    /// How long others must leave the object alone until its repairs are forgotten.
    fn quiet(&self) -> Duration {
        if self.is_contested() { QUIET.max(self.slowest * QUIET_FACTOR) } else { FORGET }
    }
}

#[cfg(test)]
mod tests {
    use kross_api::ClusterId;
    use kross_cluster::read_object;

    use super::*;

    /// Another client that changes an object back after some time, and the clock.
    struct Fight {
        repairs: Repairs,
        key: ObjectKey,
        applied: Arc<StoredObject>,
        begun: Instant,
        now: Instant,
        rounds: Vec<Duration>,
    }

    impl Fight {
        fn new() -> Self {
            let applied = read_object(
                br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}}"#,
            );
            let (applied, now) = (Arc::new(applied.unwrap()), Instant::now());
            let key = applied.key(&ClusterId::local());
            Self { repairs: Repairs::default(), key, applied, begun: now, now, rounds: Vec::new() }
        }

        /// The object was changed: it is repaired as soon as that is due. Returns how long it waited.
        fn change(&mut self, hash: &str) -> Duration {
            let changed = self.now;
            self.repairs.expire(self.now);
            if let Some(repair) = self.repairs.get_mut(&self.key)
                && repair.must_wait(&hash.into(), self.now)
            {
                self.now = self.repairs.next_due().unwrap();
            }
            let time = Timestamp::UNIX_EPOCH + SignedDuration::try_from(self.now - self.begun).unwrap();
            self.repairs.applied(&self.key, &hash.into(), &self.applied, true, (self.now, time));
            self.rounds.push(self.now - self.begun);
            self.now - changed
        }

        fn fight(&mut self, reaction: Duration, until: Duration) {
            while self.now - self.begun < until {
                self.change("one");
                self.now += reaction;
            }
        }

        fn is_contested(&self) -> bool {
            self.repairs.contested().next().is_some()
        }
    }

    #[test]
    fn repairs_slow_down_to_one_in_minutes() {
        for reaction in [Duration::from_millis(1), Duration::from_secs(1)] {
            let mut fight = Fight::new();
            fight.fight(reaction, Duration::from_secs(3_600));
            let rounds = &fight.rounds;
            let within =
                |from: u64, to: u64| rounds.iter().filter(|at| (from..to).contains(&at.as_secs())).count();
            assert!(within(0, 20) <= 12, "{rounds:?}");
            for from in 20..3_600 {
                assert!(within(from, from + 10) <= 5, "{from}: {rounds:?}");
            }
            assert!(within(1_800, 3_600) <= 7, "{rounds:?}");
            assert!(fight.is_contested());
        }
    }

    #[test]
    fn a_client_that_reacts_after_a_minute_is_found_too() {
        let mut fight = Fight::new();
        fight.fight(Duration::from_secs(60), Duration::from_secs(3_600));
        assert!(fight.is_contested());
        assert!(fight.rounds.len() < 25, "{:?}", fight.rounds);
    }

    #[test]
    fn a_quiet_period_resets_the_backoff() {
        let mut fight = Fight::new();
        fight.fight(Duration::from_millis(10), Duration::from_secs(120));
        assert!(fight.is_contested());
        fight.change("one");
        let end = fight.repairs.next_due().unwrap();
        assert_eq!(end - fight.now, QUIET, "one timer ends it");
        fight.now = end;
        fight.repairs.expire(fight.now);
        assert!(!fight.is_contested() && fight.repairs.next_due().is_none());
        for _ in 0..IMMEDIATE {
            assert_eq!(fight.change("one"), Duration::ZERO);
        }
    }

    #[test]
    fn a_change_of_the_desired_object_is_applied_at_once_and_does_not_end_the_backoff() {
        let mut fight = Fight::new();
        fight.fight(Duration::from_millis(1), Duration::from_secs(60));
        assert_eq!(fight.change("two"), Duration::ZERO);
        fight.now += Duration::from_millis(1);
        assert!(fight.change("two") > Duration::from_secs(10), "the next repair waits");
    }

    #[test]
    fn an_urgent_repair_waits_for_a_second_at_most() {
        let mut fight = Fight::new();
        fight.fight(Duration::from_millis(1), Duration::from_secs(600));
        let key = fight.key.clone();
        fight.repairs.get_mut(&key).unwrap().set_urgent(true);
        assert_eq!(fight.change("one"), MAX_URGENT_WAIT - Duration::from_millis(1));
        fight.repairs.get_mut(&key).unwrap().set_urgent(false);
        fight.now += Duration::from_millis(1);
        assert!(fight.change("one") > Duration::from_secs(200), "the backoff goes on");
    }

    #[test]
    fn a_few_edits_by_hand_are_repaired_at_once_and_need_no_timer() {
        let mut fight = Fight::new();
        for _ in 0..=IMMEDIATE {
            assert_eq!(fight.change("one"), Duration::ZERO);
            assert_eq!(fight.repairs.next_due(), None);
            fight.now += Duration::from_secs(2);
        }
        assert!(!fight.is_contested());
        fight.now += FORGET;
        fight.repairs.expire(fight.now);
        assert!(fight.repairs.get_mut(&fight.key.clone()).is_none());
    }

    #[test]
    fn the_message_names_managers_fields_and_times() {
        let mut fight = Fight::new();
        fight.fight(Duration::from_millis(1), Duration::from_secs(10));
        let key = fight.key.clone();
        let repair = fight.repairs.get_mut(&key).unwrap();
        assert!(
            repair.contest().message.starts_with("another client changes it after every repair; repaired ")
        );
        let field = |at: usize| format!("data.x{at}");
        let rival = ChangedFields { manager: Some("rival".into()), fields: (0..7).map(field).collect() };
        repair
            .set_cause(Cause::Changed(vec![rival, ChangedFields { manager: None, fields: vec![field(9)] }]));
        let message = repair.contest().message;
        let expected = "field manager `rival` changes `data.x0`, `data.x1`, `data.x2`, `data.x3`, `data.x4`, 2 more fields \
                        and another client removes `data.x9` after every repair; repaired 9 times since 1970-01-01T00:00:00Z, \
                        next repair at 1970-01-01T00:00:31Z; ";
        assert!(message.starts_with(expected), "{message}");
    }
}
