//! A set of conditions with `Ready` at its root, kept by kro's rules. Turns single findings into the list that status
//! carries and the root that sums it up.

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;

use super::{Condition, ConditionStatus};
use crate::List;
use crate::vocabulary::{ConditionType, Reason};

/// What the rules need to know of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// The conditions of one object while it is being looked at.
///
/// # Guarantees
///
/// - `Ready` stands last, the others in the order of their transitions.
/// - A transition time moves only with the status; a condition that was never seen before dates from the object's creation.
/// - `Ready` is true when every other condition of the set is true for the current generation; else it repeats the worst
///   of them: false before unknown, the newest first, and of those of the same second the one that the set names first.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionSet {
    dependents: Vec<ConditionType>,
    facts: ObjectFacts,
    conditions: Vec<Condition>,
}

const ROOT: ConditionType = ConditionType::Ready;

impl ConditionSet {
    /// Takes up the conditions that an object has. Those of `dependents` that are missing begin as unknown; those that
    /// belong to other sets of ours, or to older versions, are dropped; those of strangers stay.
    #[must_use]
    pub fn new(
        dependents: impl IntoIterator<Item = ConditionType>,
        facts: ObjectFacts,
        existing: &[Condition],
        now: Timestamp,
    ) -> Self {
        let dependents: Vec<ConditionType> = dependents.into_iter().collect();
        let kept = |condition: &&Condition| {
            ConditionType::parse(&condition.type_)
                .is_none_or(|known| known == ROOT || dependents.contains(&known))
        };
        let conditions = existing.iter().filter(kept).cloned().collect();
        let mut set = Self { dependents, facts, conditions };
        let missing: Vec<ConditionType> = std::iter::once(ROOT)
            .chain(set.dependents.iter().copied())
            .filter(|kind| set.get(*kind).is_none())
            .collect();
        for kind in missing {
            let message = format!("condition \"{kind}\" is awaiting reconciliation");
            set.set(kind, ConditionStatus::Unknown, Reason::AwaitingReconciliation, message, now);
        }
        set
    }

    /// Records a finding and sums up again. Gives whether anything changed.
    pub fn set(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
        now: Timestamp,
    ) -> bool {
        self.put(kind, status, Some(reason.as_str().to_owned()), Some(message.into()), now)
    }

    /// The condition holds.
    pub fn set_true(
        &mut self,
        kind: ConditionType,
        reason: Reason,
        message: impl Into<String>,
        now: Timestamp,
    ) -> bool {
        self.set(kind, ConditionStatus::True, reason, message, now)
    }

    /// The condition does not hold.
    pub fn set_false(
        &mut self,
        kind: ConditionType,
        reason: Reason,
        message: impl Into<String>,
        now: Timestamp,
    ) -> bool {
        self.set(kind, ConditionStatus::False, reason, message, now)
    }

    /// Nobody knows whether the condition holds.
    pub fn set_unknown(
        &mut self,
        kind: ConditionType,
        reason: Reason,
        message: impl Into<String>,
        now: Timestamp,
    ) -> bool {
        self.set(kind, ConditionStatus::Unknown, reason, message, now)
    }

    /// A condition of the set.
    #[must_use]
    pub fn get(&self, kind: ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind.as_str())
    }

    /// Whether a condition is true.
    #[must_use]
    pub fn is_true(&self, kind: ConditionType) -> bool {
        self.get(kind).is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Whether `Ready` is true for the current generation.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.get(ROOT).is_some_and(|root| root.status == ConditionStatus::True && self.is_current(root))
    }

    /// The conditions, in order.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The conditions for the status.
    #[must_use]
    pub fn into_list(self) -> List<Condition> {
        self.conditions.into()
    }

    fn observed(&self) -> Option<i64> {
        (self.facts.generation != 0).then_some(self.facts.generation)
    }

    fn is_current(&self, condition: &Condition) -> bool {
        condition.observed_generation.unwrap_or(0) == self.facts.generation
    }

    fn put(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Option<String>,
        message: Option<String>,
        now: Timestamp,
    ) -> bool {
        let before = self.get(kind);
        let last_transition_time = match before {
            Some(before) if before.status == status => before.last_transition_time,
            Some(_) => Some(now),
            // It was so from the start; only nobody had said it.
            None if kind == ROOT || self.dependents.contains(&kind) => self.facts.created,
            None => Some(now),
        };
        let type_ = kind.as_str().to_owned();
        let observed_generation = self.observed();
        let condition =
            Condition { type_, status, last_transition_time, reason, message, observed_generation };
        if before == Some(&condition) {
            return false;
        }
        self.conditions.retain(|other| other.type_ != condition.type_);
        if self.facts.deleting {
            self.conditions.iter_mut().for_each(|other| other.observed_generation = observed_generation);
        }
        self.conditions.push(condition);
        self.conditions.sort_by(order);
        if kind != ROOT {
            self.sum_up(now);
        }
        true
    }

    fn sum_up(&mut self, now: Timestamp) {
        let mut unhealthy: Vec<&Condition> =
            self.conditions.iter().filter(|condition| self.is_unhealthy(condition)).collect();
        if unhealthy.is_empty() {
            self.set_true(ROOT, Reason::Ready, "", now);
            return;
        }
        // Times lose their fractions on the wire, and what is said must not depend on which was set last.
        let second = |condition: &Condition| condition.last_transition_time.map(Timestamp::as_second);
        let place =
            |condition: &Condition| self.dependents.iter().position(|kind| condition.type_ == kind.as_str());
        unhealthy.sort_by_key(|condition| (Reverse(second(condition)), place(condition)));
        let worst = |status| unhealthy.iter().find(|condition| condition.status == status);
        let worst = worst(ConditionStatus::False).or_else(|| worst(ConditionStatus::Unknown));
        // Where all that is wrong is an old generation, the root keeps what it said.
        if let Some(worst) = worst.map(|worst| (*worst).clone()) {
            self.put(ROOT, worst.status, worst.reason, worst.message, now);
        }
    }

    fn is_unhealthy(&self, condition: &Condition) -> bool {
        let dependent = self.dependents.iter().any(|kind| condition.type_ == kind.as_str());
        dependent && (condition.status != ConditionStatus::True || !self.is_current(condition))
    }
}

fn order(left: &Condition, right: &Condition) -> Ordering {
    let is_root = |condition: &Condition| condition.type_ == ROOT.as_str();
    (is_root(left), left.last_transition_time).cmp(&(is_root(right), right.last_transition_time))
}
