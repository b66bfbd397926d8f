//! Order and safety of deletion, on objects alone.

use kross_api::ClusterId;

use super::*;

fn object(kind: &str, namespace: &str, name: &str, order: i64) -> OwnedObject {
    OwnedObject {
        key: ObjectKey {
            cluster: ClusterId::local(),
            group: "".into(),
            kind: kind.into(),
            namespace: Some(Text::from(namespace)).filter(|namespace| !namespace.is_empty()),
            name: name.into(),
        },
        api_version: "v1".into(),
        node: name.into(),
        uid: format!("uid-{name}").into(),
        generation: None,
        order,
        apply_order: order,
        terminating: false,
        finalizers: Vec::new(),
        defines: None,
        opens: BTreeSet::new(),
        held: None,
        answers: Answers::default(),
        closed: None,
        failure: None,
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn next(objects: &[OwnedObject]) -> DeletionPlan {
    plan(objects, Hooks::Planned(&[]), None, now())
}

fn plan(objects: &[OwnedObject], hooks: Hooks<'_>, kept: Option<&str>, now: Timestamp) -> DeletionPlan {
    let promised = promised(kept);
    plan_deletion(Deletion {
        objects,
        hooks,
        attempts: &BTreeMap::new(),
        kept,
        promised: &promised,
        told: true,
        now,
    })
}

/// The names of each wave until everything is gone.
fn waves(mut objects: Vec<OwnedObject>) -> Vec<String> {
    let mut waves = Vec::new();
    while !objects.is_empty() && waves.len() < 20 {
        let plan = next(&objects);
        let gone: Vec<&PendingDeletion> = plan.delete.iter().chain(&plan.release).collect();
        waves.push(gone.iter().map(|pending| pending.key.name.to_string()).collect::<Vec<_>>().join(" "));
        objects.retain(|object| !gone.iter().any(|pending| pending.key == object.key));
    }
    waves
}

#[test]
fn the_highest_order_goes_first_and_objects_without_one_last() {
    let objects = vec![object("A", "x", "low", 1), object("A", "x", "none", 0), object("A", "x", "high", 3)];
    assert_eq!(waves(objects), ["high", "low", "none"]);
}

#[test]
fn a_wave_waits_until_the_one_before_is_really_gone() {
    let mut objects = vec![object("A", "x", "low", 1), object("A", "x", "high", 2)];
    objects[1].terminating = true;
    objects[1].finalizers = vec!["example.com/hold".into()];
    let plan = next(&objects);
    assert!(plan.delete.is_empty());
    assert_eq!(
        plan.waiting[0].1.message(),
        "is being deleted, which waits for its finalizers: example.com/hold"
    );
    assert_eq!(plan.waiting[1].1, Wait::Dependents);
}

#[test]
fn waiting_for_a_node_bends_the_order_without_a_deadlock() {
    let mut objects = vec![object("A", "x", "a", 3), object("A", "x", "b", 2), object("A", "x", "c", 1)];
    objects[0].answers.after = vec!["c".into()];
    assert_eq!(waves(objects.clone()), ["b", "c", "a"]);
    objects[2].answers.after = vec!["a".into()];
    assert_eq!(waves(objects).concat().len(), 3, "a circle in what was kept is cut");
}

#[test]
fn what_is_retained_keeps_its_namespace_too() {
    let mut objects = vec![
        object("Namespace", "", "space", 1),
        object("A", "space", "data", 1),
        object("A", "space", "web", 2),
    ];
    objects[1].answers.policy = DeletePolicy::Retain;
    let plan = next(&objects);
    assert_eq!(plan.release.iter().map(|pending| pending.key.name.as_str()).collect::<Vec<_>>(), ["space"]);
    assert_eq!(waves(objects), ["web space", "data"]);
}

#[test]
fn a_failed_deletion_is_tried_again_and_named() {
    let mut objects = vec![object("A", "x", "a", 1)];
    objects[0].failure = Some(OperationFailure {
        node: "a".into(),
        operation: Operation::Delete,
        reason: FailureReason::Forbidden,
        message: "no".into(),
        since: now(),
    });
    let plan = next(&objects);
    assert_eq!(plan.delete.len(), 1);
    assert_eq!(plan.waiting[0].1.message(), "cannot delete A x/a: no");
    assert!(!plan.is_done());
}

#[test]
fn nothing_to_delete_is_done() {
    assert!(next(&[]).is_done());
}

#[test]
fn the_definition_of_a_kind_goes_after_its_objects_and_stays_with_those_that_stay() {
    let mut definition = object("CustomResourceDefinition", "", "things.example.com", 5);
    definition.defines = Some(("".into(), "Thing".into()));
    let objects = vec![definition, object("Thing", "x", "one", 1), object("Other", "x", "other", 2)];
    assert_eq!(waves(objects.clone()), ["other", "one", "things.example.com"]);
    let mut kept = objects;
    kept[1].answers.policy = DeletePolicy::Retain;
    assert_eq!(waves(kept), ["other things.example.com", "one"]);
}

#[test]
fn answers_of_today_count_more_than_those_that_were_kept() {
    let mut kept = object("A", "x", "a", 9);
    kept.apply_order = 2;
    kept.answers.order = Some(9);
    let mut today = Answers::default();
    assert_eq!(kept.clone().with_answers(today.clone()).order, 2);
    today.order = Some(4);
    assert_eq!(kept.with_answers(today).order, 4);
}

fn limited(mut object: OwnedObject, text: &str) -> OwnedObject {
    object.answers = serde_json::from_str(text).unwrap();
    object
}

fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

#[test]
fn the_first_attempt_outlives_the_process_for_objects_with_a_limit() {
    let mut objects =
        vec![limited(object("A", "x", "a", 1), r#"{"forceAfter":"60s"}"#), object("A", "x", "b", 1)];
    objects.iter_mut().for_each(|object| object.terminating = true);
    let first = plan(&objects, Hooks::Planned(&[]), None, now());
    let kept = first.kept.unwrap();
    assert_eq!(kept, r#"{"2027-01-15T08:00:00Z":["uid-a"]}"#);
    let waits = plan(&objects, Hooks::Planned(&[]), Some(&kept), later(59));
    assert!(waits.orphaned.is_empty());
    assert_eq!(waits.recheck_at, Some(later(60)));
    let over = plan(&objects, Hooks::Planned(&[]), Some(&kept), later(60));
    assert_eq!(over.orphaned[0].key.name, "a");
    assert_eq!(over.orphaned[0].why.as_deref(), Some("is being deleted"));
    assert_eq!(over.release.len(), 1, "it can be reached, so it loses its labels");
    let forgotten = plan(&objects, Hooks::Planned(&[]), None, later(60));
    assert!(forgotten.orphaned.is_empty(), "who knows of no attempt begins to count");
}

fn hook(id: &str, made: bool, answers: &str) -> Hook {
    let answers = serde_json::from_str(answers).unwrap();
    Hook { id: id.into(), why: "it takes its time".into(), made, answers }
}

#[test]
fn what_waits_for_something_that_cannot_be_made_is_held_up_and_stays_when_it_never_can() {
    let objects =
        vec![limited(object("A", "x", "data", 1), r#"{"awaits":["backup"]}"#), object("A", "x", "web", 1)];
    let unplanned = plan(&objects, Hooks::Unplanned("the definition has a mistake"), None, now());
    assert_eq!(unplanned.delete.len(), 1, "what waits for nothing goes");
    assert_eq!(
        unplanned.waiting[0].1.message(),
        "waits for `backup`, which cannot be made: the definition has a mistake"
    );
    let gone = plan(&objects, Hooks::Gone, None, now());
    assert_eq!(gone.orphaned[0].why.as_deref(), Some("it waits for `backup`, whose definition is gone"));
    assert_eq!((gone.delete.len(), gone.release.len(), gone.waiting.len()), (1, 1, 0));
}

#[test]
fn a_hook_that_was_never_made_holds_up_the_end_as_long_as_its_author_waits() {
    let hooks = [hook("notify", false, r#"{"deletion":true,"forceAfter":"60s"}"#)];
    let waits = plan(&[], Hooks::Planned(&hooks), None, now());
    assert!(!waits.is_done());
    assert_eq!(waits.unfinished_hooks, [("notify".into(), "it takes its time".into())]);
    assert_eq!(waits.recheck_at, Some(later(60)));
    let kept = waits.kept.unwrap();
    assert!(plan(&[], Hooks::Planned(&hooks), Some(&kept), later(60)).is_done());
}

#[test]
fn a_hook_goes_once_it_is_ready_or_once_nobody_waits_for_it_any_more() {
    let objects = vec![limited(object("Job", "x", "notify", 1), r#"{"deletion":true,"forceAfter":"60s"}"#)];
    let hooks = [hook("notify", true, r#"{"deletion":true,"forceAfter":"60s"}"#)];
    let waits = plan(&objects, Hooks::Planned(&hooks), None, now());
    assert_eq!(waits.waiting[0].1.message(), "is not ready: it takes its time");
    assert_eq!(plan(&objects, Hooks::Planned(&[]), None, now()).delete.len(), 1);
    let over = plan(&objects, Hooks::Planned(&hooks), waits.kept.as_deref(), later(60));
    assert_eq!((over.delete.len(), over.orphaned.len()), (1, 0), "it is cleaned up, not left behind");
}

#[test]
fn what_people_were_told_is_left_behind_is_not_deleted_when_its_cluster_is_back() {
    let mut objects =
        vec![limited(object("A", "x", "a", 2), r#"{"forceAfter":"0s"}"#), object("A", "x", "b", 1)];
    objects[0].closed = Some(ResourceFailure::connecting("eu"));
    let dark = plan(&objects, Hooks::Planned(&[]), None, now());
    assert_eq!((dark.orphaned.len(), dark.release.len(), dark.delete.len()), (1, 0, 1));
    assert_eq!(dark.kept.as_deref(), Some(r#"{"left":["uid-a"]}"#));
    // The cluster is back, and its author would have it deleted now.
    objects[0].closed = None;
    objects[0].answers.force_when = Some(false);
    let back = plan(&objects, Hooks::Planned(&[]), dark.kept.as_deref(), later(9));
    assert_eq!(
        back.release.iter().map(|pending| (pending.uid.as_str(), pending.told)).collect::<Vec<_>>(),
        [("uid-a", true)]
    );
    assert_eq!(back.delete.iter().map(|pending| pending.uid.as_str()).collect::<Vec<_>>(), ["uid-b"]);
}

/// A Secret that goes first, and an object in the cluster that it is the way to.
fn behind_a_secret() -> Vec<OwnedObject> {
    let mut inner = object("A", "x", "inner", 1);
    inner.key.cluster = ClusterId::new("eu");
    let recorded = InventoryCluster {
        key: crate::ReferenceKey::parse("secret/x/eu-kubeconfig/kubeconfig").unwrap(),
        display: "eu".into(),
        id: ClusterId::new("eu"),
        holds_objects: true,
    };
    let secret =
        object("Secret", "x", "eu-kubeconfig", 5).with_credentials_for(std::slice::from_ref(&recorded));
    assert_eq!(secret.opens, BTreeSet::from([ClusterId::new("eu")]));
    let other = object("Secret", "y", "eu-kubeconfig", 5).with_credentials_for(&[recorded]);
    assert!(other.opens.is_empty(), "another namespace");
    vec![secret, inner]
}

#[test]
fn the_secret_that_leads_to_a_cluster_goes_after_what_is_there() {
    assert_eq!(waves(behind_a_secret()), ["inner", "eu-kubeconfig"]);
}

#[test]
fn the_secret_that_leads_to_a_cluster_goes_after_what_stays_there_was_released() {
    let mut objects = behind_a_secret();
    objects[1].answers.policy = DeletePolicy::Retain;
    assert_eq!(waves(objects), ["inner", "eu-kubeconfig"]);
}

#[test]
fn the_secret_that_leads_to_a_cluster_goes_when_nobody_waits_for_that_any_more() {
    let mut objects = behind_a_secret();
    objects[1] = limited(objects[1].clone(), r#"{"forceAfter":"0s"}"#);
    objects[1].closed = Some(ResourceFailure::connecting("eu"));
    let plan = next(&objects);
    assert_eq!(plan.orphaned[0].key.name, "inner");
    assert_eq!(plan.delete[0].key.name, "eu-kubeconfig");
}

#[test]
fn what_must_not_go_yet_is_waited_for_and_says_why() {
    let mut objects = behind_a_secret();
    objects[0].held = Some("it is the way to cluster `eu`".into());
    objects.remove(1);
    let plan = next(&objects);
    assert!(plan.delete.is_empty());
    assert_eq!(plan.waiting[0].1, Wait::Hook("it is the way to cluster `eu`".into()));
}

#[test]
fn what_is_left_behind_since_it_waits_says_for_what() {
    let waits = r#"{"awaits":["backup"],"forceAfter":"60s"}"#;
    let objects = vec![limited(object("A", "x", "data", 1), waits)];
    let hooks = [hook("backup", true, r#"{"deletion":true}"#)];
    let first = plan(&objects, Hooks::Planned(&hooks), None, now());
    let over = plan(&objects, Hooks::Planned(&hooks), first.kept.as_deref(), later(60));
    assert_eq!(over.orphaned[0].why.as_deref(), Some("it waits for `backup` to be ready: it takes its time"));
}
