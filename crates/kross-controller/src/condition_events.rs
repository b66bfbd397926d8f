//! Turns changes of conditions into Events: one for each change that matters, with its cause.

use jiff::Timestamp;
use kross_api::{Condition, ConditionStatus, ConditionType, EventReason, Reason};
use kross_cluster::{Regarding, Report, Severity, StoredObject};

use crate::context::Context;

/// Whether an object has failed, where its conditions alone do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// The reasons of the conditions tell.
    OfConditions,
    /// Its state tells.
    OfState {
        /// Whether it was failed before.
        failed: bool,
        /// Whether it is now.
        fails: bool,
    },
}

/// Emits an Event for what changed in the conditions of an object: about `Ready` if that changed, or else about each condition
/// that became false.
pub(crate) fn emit(
    context: &Context,
    object: &StoredObject,
    before: &[Condition],
    after: &[Condition],
    health: Health,
) {
    let Some(events) = &context.events else { return };
    for (severity, reason, note) in changes(before, after, health) {
        events.report(Report {
            regarding: Regarding::from(object),
            severity,
            reason,
            action: "Reconcile".to_owned(),
            note,
        });
    }
}

/// The type, reason and note of each Event.
fn changes(before: &[Condition], after: &[Condition], health: Health) -> Vec<(Severity, String, String)> {
    let old = |condition: &Condition| {
        before.iter().find(|other| other.type_ == condition.type_).map(|other| other.status)
    };
    let is_ready = |condition: &&Condition| condition.type_ == ConditionType::Ready.as_str();
    let changed = |condition: &&Condition| old(condition) != Some(condition.status);
    let ready = after.iter().find(is_ready);
    let told: Vec<&Condition> = match ready.filter(changed) {
        // It has the message of the condition that it follows.
        Some(ready) => vec![ready],
        None => after
            .iter()
            .filter(|condition| condition.status == ConditionStatus::False && changed(condition))
            .collect(),
    };
    let mut changes: Vec<_> = told
        .iter()
        .map(|condition| {
            (severity(condition, health), condition.type_.clone(), note(old(condition), condition))
        })
        .collect();
    let has_failed = health == Health::OfState { failed: false, fails: true };
    if let (true, true, Some(ready)) = (has_failed, changes.is_empty(), ready) {
        let message = without_times(ready.message.as_deref().unwrap_or_default());
        changes.push((Severity::Warning, EventReason::Failed.as_str().to_owned(), message));
    }
    changes
}

fn severity(condition: &Condition, health: Health) -> Severity {
    let reason = condition.reason.as_deref().and_then(Reason::parse);
    let is_fine = match (condition.status, health) {
        (ConditionStatus::True, _) => true,
        (_, Health::OfState { fails: true, .. }) => false,
        // A reason of the author's.
        (ConditionStatus::False, _) => reason.is_none_or(Reason::is_progress),
        (ConditionStatus::Unknown, _) => true,
    };
    if is_fine { Severity::Normal } else { Severity::Warning }
}

/// kro's words, and the cause of what is not true.
fn note(old: Option<ConditionStatus>, condition: &Condition) -> String {
    let (old, new) = (old.map_or("none", ConditionStatus::as_str), condition.status.as_str());
    let reason = condition.reason.as_deref().unwrap_or_default();
    match condition.message.as_deref().filter(|message| !message.is_empty()) {
        Some(message) if condition.status != ConditionStatus::True => {
            format!("{old} -> {new}: {reason}: {}", without_times(message))
        }
        _ => format!("{old} -> {new}: {reason}"),
    }
}

/// A message without the times since when something is so: an Event has a time of its own, and the same cause is counted.
fn without_times(message: &str) -> String {
    const SINCE: &str = " (since ";
    let (mut text, mut rest) = (String::new(), message);
    while let Some((before, after)) = rest.split_once(SINCE) {
        text.push_str(before);
        rest = match after.split_once(')') {
            Some((time, rest)) if time.parse::<Timestamp>().is_ok() => rest,
            _ => {
                text.push_str(SINCE);
                after
            }
        };
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: ConditionType, status: ConditionStatus, reason: Reason, message: &str) -> Condition {
        Condition {
            type_: kind.as_str().to_owned(),
            status,
            reason: Some(reason.as_str().to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: None,
            observed_generation: None,
        }
    }

    fn conditions(status: ConditionStatus, reason: Reason, message: &str) -> Vec<Condition> {
        [ConditionType::Ready, ConditionType::ResourcesReady]
            .map(|kind| condition(kind, status, reason, message))
            .to_vec()
    }

    const WAITS: Health = Health::OfState { failed: false, fails: false };
    const FAILED: Health = Health::OfState { failed: false, fails: true };

    #[test]
    fn one_event_tells_the_cause_of_a_change_of_several_conditions() {
        let waits = conditions(ConditionStatus::False, Reason::NotReady, "waiting for `web`");
        let expected = |severity, note: &str| vec![(severity, "Ready".to_owned(), note.to_owned())];
        let begins = "none -> False: NotReady: waiting for `web`";
        assert_eq!(changes(&[], &waits, WAITS), expected(Severity::Normal, begins));
        assert_eq!(changes(&[], &waits, FAILED), expected(Severity::Warning, begins));
        let ready = conditions(ConditionStatus::True, Reason::Ready, "all is well");
        assert_eq!(changes(&waits, &ready, WAITS), expected(Severity::Normal, "False -> True: Ready"));
        assert_eq!(changes(&ready, &ready, WAITS), []);
        let lost = conditions(ConditionStatus::False, Reason::Unreachable, "no answer");
        let note = "True -> False: Unreachable: no answer";
        assert_eq!(changes(&ready, &lost, Health::OfConditions), expected(Severity::Warning, note));
    }

    #[test]
    fn what_fails_before_it_was_ready_is_an_event() {
        let waits = conditions(ConditionStatus::False, Reason::NotReady, "waiting for `web`");
        let fails = conditions(ConditionStatus::False, Reason::NotReady, "resource error: `web`: denied");
        let failed = (Severity::Warning, "Failed".to_owned(), "resource error: `web`: denied".to_owned());
        assert_eq!(changes(&waits, &fails, FAILED), [failed]);
        assert_eq!(changes(&fails, &fails, Health::OfState { failed: true, fails: true }), []);
        assert_eq!(changes(&fails, &waits, Health::OfState { failed: true, fails: false }), []);
    }

    #[test]
    fn the_same_cause_at_another_time_is_the_same_event() {
        let text = |message: &str| without_times(message);
        assert_eq!(text("a (since 2026-11-19T12:00:00Z); b (since 2026-11-19T12:00:00Z)"), "a; b");
        for message in ["", "a (since Monday) b", "a (since ", "(since 2026-11-19T12:00:00Z)"] {
            assert_eq!(text(message), message);
        }
    }
}
