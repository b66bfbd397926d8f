//! Tests of kro's rules for condition sets.

use jiff::Timestamp;

use super::set::{ConditionSet, ObjectFacts};
use super::{Condition, ConditionStatus};
use crate::vocabulary::{ConditionType, Reason};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

const FACTS: ObjectFacts = ObjectFacts { generation: 1, created: None, deleting: false };

fn facts(generation: i64) -> ObjectFacts {
    ObjectFacts { generation, created: Some(at(0)), ..FACTS }
}

fn fresh(generation: i64) -> ConditionSet {
    ConditionSet::new(ConditionType::INSTANCE.iter().copied(), facts(generation), &[], at(10))
}

fn types(set: &ConditionSet) -> Vec<&str> {
    set.conditions().iter().map(|condition| condition.type_.as_str()).collect()
}

fn make_ready(set: &mut ConditionSet, from: i64) {
    set.set_true(ConditionType::InstanceManaged, Reason::Managed, "", at(from));
    set.set_true(ConditionType::GraphResolved, Reason::Resolved, "", at(from + 1));
    set.set_true(ConditionType::ResourcesReady, Reason::AllResourcesReady, "", at(from + 2));
}

#[test]
fn a_new_set_is_unknown_since_the_object_was_created() {
    let set = fresh(1);
    assert_eq!(types(&set), ["InstanceManaged", "GraphResolved", "ResourcesReady", "Ready"]);
    for condition in set.conditions() {
        assert_eq!(condition.status, ConditionStatus::Unknown);
        assert_eq!(condition.last_transition_time, Some(at(0)));
        assert_eq!(condition.observed_generation, Some(1));
        assert_eq!(condition.reason.as_deref(), Some("AwaitingReconciliation"));
    }
    let message = set.get(ConditionType::GraphResolved).unwrap().message.as_deref();
    assert_eq!(message, Some("condition \"GraphResolved\" is awaiting reconciliation"));
}

#[test]
fn ready_is_last_and_the_others_are_ordered_by_transition_time() {
    let mut set = fresh(1);
    set.set_true(ConditionType::ResourcesReady, Reason::AllResourcesReady, "", at(20));
    assert_eq!(types(&set), ["InstanceManaged", "GraphResolved", "ResourcesReady", "Ready"]);
    set.set_true(ConditionType::InstanceManaged, Reason::Managed, "", at(30));
    assert_eq!(types(&set), ["GraphResolved", "ResourcesReady", "InstanceManaged", "Ready"]);
}

#[test]
fn ready_is_true_when_every_other_condition_is() {
    let mut set = fresh(1);
    make_ready(&mut set, 20);
    assert!(set.is_ready());
    let root = set.get(ConditionType::Ready).unwrap();
    assert_eq!((root.reason.as_deref(), root.message.as_deref()), (Some("Ready"), Some("")));
    assert_eq!(root.last_transition_time, Some(at(22)));
}

#[test]
fn ready_repeats_the_worst_condition_false_before_unknown_and_newest_first() {
    let mut set = fresh(1);
    make_ready(&mut set, 20);
    set.set_unknown(ConditionType::ResourcesReady, Reason::UnderDeletion, "deleting resources", at(30));
    assert_eq!(set.get(ConditionType::Ready).unwrap().reason.as_deref(), Some("UnderDeletion"));
    set.set_false(ConditionType::InstanceManaged, Reason::ManagementFailed, "no", at(31));
    assert_eq!(set.get(ConditionType::Ready).unwrap().message.as_deref(), Some("no"));
    set.set_false(ConditionType::GraphResolved, Reason::ResolutionFailed, "newer", at(32));
    let root = set.get(ConditionType::Ready).unwrap();
    assert_eq!((root.status, root.message.as_deref()), (ConditionStatus::False, Some("newer")));
    assert_eq!(root.last_transition_time, Some(at(31)), "the status is still false");
}

#[test]
fn ready_repeats_the_first_condition_of_the_set_within_the_same_second() {
    let mut set = fresh(1);
    make_ready(&mut set, 20);
    let later = at(30) + jiff::SignedDuration::from_millis(700);
    set.set_false(ConditionType::ResourcesReady, Reason::NotReady, "second", at(30));
    set.set_false(ConditionType::GraphResolved, Reason::ResolutionFailed, "first", later);
    for message in ["second", "second again"] {
        set.set_false(ConditionType::ResourcesReady, Reason::NotReady, message, at(31));
        assert_eq!(set.get(ConditionType::Ready).unwrap().message.as_deref(), Some("first"));
        set.set_false(ConditionType::GraphResolved, Reason::ResolutionFailed, "first", at(31));
    }
}

#[test]
fn a_transition_time_changes_only_with_the_status() {
    let mut set = fresh(1);
    set.set_false(ConditionType::ResourcesReady, Reason::NotReady, "one", at(20));
    assert!(set.set_false(ConditionType::ResourcesReady, Reason::NotReady, "two", at(30)));
    let condition = set.get(ConditionType::ResourcesReady).unwrap();
    assert_eq!((condition.last_transition_time, condition.message.as_deref()), (Some(at(20)), Some("two")));
    assert!(
        !set.set_false(ConditionType::ResourcesReady, Reason::NotReady, "two", at(40)),
        "nothing changed"
    );
}

#[test]
fn ready_ignores_conditions_of_an_old_generation() {
    let mut set = fresh(1);
    make_ready(&mut set, 20);
    let mut next =
        ConditionSet::new(ConditionType::INSTANCE.iter().copied(), facts(2), set.conditions(), at(30));
    assert!(!next.is_ready(), "ready for generation 1 is not ready for 2");
    next.set_true(ConditionType::InstanceManaged, Reason::Managed, "", at(31));
    assert!(!next.is_ready());
    assert_eq!(
        next.get(ConditionType::Ready).unwrap().observed_generation,
        Some(1),
        "the root waits for the others"
    );
    next.set_true(ConditionType::GraphResolved, Reason::Resolved, "", at(32));
    next.set_true(ConditionType::ResourcesReady, Reason::AllResourcesReady, "", at(33));
    assert!(next.is_ready());
    assert_eq!(next.get(ConditionType::Ready).unwrap().last_transition_time, Some(at(22)));
}

#[test]
fn during_deletion_setting_one_condition_updates_the_generation_of_all() {
    let mut set = fresh(1);
    make_ready(&mut set, 20);
    let facts = ObjectFacts { deleting: true, ..facts(2) };
    let mut next =
        ConditionSet::new(ConditionType::INSTANCE.iter().copied(), facts, set.conditions(), at(30));
    next.set_unknown(ConditionType::ResourcesReady, Reason::UnderDeletion, "", at(31));
    assert!(next.conditions().iter().all(|condition| condition.observed_generation == Some(2)));
}

#[test]
fn conditions_of_other_sets_are_dropped_and_those_of_other_controllers_kept() {
    let condition = |type_: &str| Condition {
        type_: type_.to_owned(),
        status: ConditionStatus::True,
        last_transition_time: None,
        reason: None,
        message: None,
        observed_generation: None,
    };
    let existing = [condition("ResourceGraphAccepted"), condition("ClusterAccessible"), condition("Other")];
    let set = ConditionSet::new(ConditionType::DEFINITION.iter().copied(), facts(1), &existing, at(1));
    assert_eq!(
        types(&set),
        ["Other", "GraphAccepted", "GraphRevisionsResolved", "KindReady", "ControllerReady", "Ready"]
    );
}

#[test]
fn empty_reasons_and_messages_are_written() {
    let mut set = fresh(1);
    make_ready(&mut set, 20);
    assert_eq!(
        serde_json::to_value(set.get(ConditionType::Ready).unwrap()).unwrap(),
        serde_json::json!({
            "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1,
            "lastTransitionTime": at(22).to_string(),
        })
    );
}

#[test]
fn times_are_written_in_whole_seconds_and_read_in_any_precision() {
    let text = r#"{"type":"A","status":"True","lastTransitionTime":"2026-01-02T03:04:05.678901Z"}"#;
    let condition: Condition = serde_json::from_str(text).unwrap();
    let written = serde_json::to_value(condition).unwrap();
    assert_eq!(written["lastTransitionTime"], "2026-01-02T03:04:05Z");
}
