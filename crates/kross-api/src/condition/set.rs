//! A set of conditions that follows kro's rules: it maintains the list in the status, and `Ready` as the summary of all
//! other conditions.

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;

use super::{Condition, ConditionStatus};
use crate::List;
use crate::vocabulary::{ConditionType, Reason};

/// The metadata of the object that the rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

/// The conditions of one object while it is being reconciled.
///
/// # Guarantees
///
/// - `Ready` is last, the other conditions are ordered by transition time.
/// - A transition time changes only with the status; the transition time of a new condition is the creation time of the
///   object.
/// - `Ready` is true if every other condition of the set is true for the current generation. Otherwise it repeats the
///   worst of them: false before unknown, then the newest, then the first in the order of the set.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionSet {
    dependents: Vec<ConditionType>,
    facts: ObjectFacts,
    conditions: Vec<Condition>,
}

const ROOT: ConditionType = ConditionType::Ready;

impl ConditionSet {
    /// Starts with the existing conditions of an object. Missing `dependents` are added as unknown; conditions of other
    /// sets or older versions are dropped; conditions of other controllers are kept.
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
                .is_none_or(|known| known == ROOT || known.is_of_targets() || dependents.contains(&known))
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

    /// Sets a condition and updates `Ready`. Returns whether anything changed.
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

    /// Sets a condition to true.
    pub fn set_true(
        &mut self,
        kind: ConditionType,
        reason: Reason,
        message: impl Into<String>,
        now: Timestamp,
    ) -> bool {
        self.set(kind, ConditionStatus::True, reason, message, now)
    }

    /// Sets a condition to false.
    pub fn set_false(
        &mut self,
        kind: ConditionType,
        reason: Reason,
        message: impl Into<String>,
        now: Timestamp,
    ) -> bool {
        self.set(kind, ConditionStatus::False, reason, message, now)
    }

    /// Sets a condition to unknown.
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
            // As in kro, a new condition of the set holds since the creation of the object.
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
            self.update_root(now);
        }
        true
    }

    fn update_root(&mut self, now: Timestamp) {
        let mut unhealthy: Vec<&Condition> =
            self.conditions.iter().filter(|condition| self.is_unhealthy(condition)).collect();
        if unhealthy.is_empty() {
            self.set_true(ROOT, Reason::Ready, "", now);
            return;
        }
        // Times are truncated to seconds on the wire, so the order within a second must not depend on which was set last.
        let second = |condition: &Condition| condition.last_transition_time.map(Timestamp::as_second);
        let position =
            |condition: &Condition| self.dependents.iter().position(|kind| condition.type_ == kind.as_str());
        unhealthy.sort_by_key(|condition| (Reverse(second(condition)), position(condition)));
        let worst = |status| unhealthy.iter().find(|condition| condition.status == status);
        let worst = worst(ConditionStatus::False).or_else(|| worst(ConditionStatus::Unknown));
        // If conditions are only outdated, but neither false nor unknown, the root is unchanged.
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
