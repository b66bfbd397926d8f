//! Order and safety of a deletion, from objects alone.

use kross_api::ClusterId;

use super::*;
use crate::observed::InventoryCluster;

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
        credentials_for: BTreeSet::new(),
        held: None,
        lifecycle: EvaluatedLifecycle::default(),
        unavailable: None,
        failure: None,
        blocks: true,
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn next(objects: &[OwnedObject]) -> DeletionPlan {
    plan(objects, Hooks::Planned(&[]), None, now())
}

fn plan(objects: &[OwnedObject], hooks: Hooks<'_>, persisted: Option<&str>, now: Timestamp) -> DeletionPlan {
    let reported_orphans = reported_orphans(persisted);
    plan_deletion(Deletion {
        objects,
        hooks,
        hook_record: &HookRecord::default(),
        attempts: &BTreeMap::new(),
        persisted,
        reported_orphans: &reported_orphans,
        reports_orphans: true,
        now,
    })
}

/// The names of each wave until everything is deleted.
fn waves(mut objects: Vec<OwnedObject>) -> Vec<String> {
    let mut waves = Vec::new();
    while !objects.is_empty() && waves.len() < 20 {
        let plan = next(&objects);
        let done: Vec<&PendingDeletion> = plan.delete.iter().chain(&plan.release).collect();
        waves.push(done.iter().map(|pending| pending.key.name.to_string()).collect::<Vec<_>>().join(" "));
        objects.retain(|object| !done.iter().any(|pending| pending.key == object.key));
    }
    waves
}

#[test]
fn deletes_the_highest_order_first_and_objects_without_one_last() {
    let objects = vec![object("A", "x", "low", 1), object("A", "x", "none", 0), object("A", "x", "high", 3)];
    assert_eq!(waves(objects), ["high", "low", "none"]);
}

#[test]
fn a_wave_waits_until_the_previous_one_is_deleted() {
    let mut objects = vec![object("A", "x", "low", 1), object("A", "x", "high", 2)];
    objects[1].terminating = true;
    objects[1].finalizers = vec!["example.com/hold".into()];
    let plan = next(&objects);
    assert!(plan.delete.is_empty());
    assert_eq!(plan.waiting[0].1.message(), "being deleted, waiting for its finalizers: example.com/hold");
    assert_eq!(plan.waiting[1].1, Wait::Dependents);
}

#[test]
fn after_adjusts_the_order_without_a_deadlock() {
    let mut objects = vec![object("A", "x", "a", 3), object("A", "x", "b", 2), object("A", "x", "c", 1)];
    objects[0].lifecycle.after = vec!["c".into()];
    assert_eq!(waves(objects.clone()), ["b", "c", "a"]);
    objects[2].lifecycle.after = vec!["a".into()];
    assert_eq!(waves(objects).concat().len(), 3, "a cycle in the annotations is cut");
}

#[test]
fn a_retained_object_keeps_its_namespace() {
    let mut objects = vec![
        object("Namespace", "", "space", 1),
        object("A", "space", "data", 1),
        object("A", "space", "web", 2),
    ];
    objects[1].lifecycle.policy = DeletePolicy::Retain;
    let plan = next(&objects);
    assert_eq!(plan.release.iter().map(|pending| pending.key.name.as_str()).collect::<Vec<_>>(), ["space"]);
    assert_eq!(waves(objects), ["web space", "data"]);
}

#[test]
fn a_failed_deletion_is_retried_and_reported() {
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
fn a_deletion_without_objects_is_done() {
    assert!(next(&[]).is_done());
}

#[test]
fn a_crd_is_deleted_after_its_objects_and_retained_with_retained_ones() {
    let mut definition = object("CustomResourceDefinition", "", "things.example.com", 5);
    definition.defines = Some(("".into(), "Thing".into()));
    let objects = vec![definition, object("Thing", "x", "one", 1), object("Other", "x", "other", 2)];
    assert_eq!(waves(objects.clone()), ["other", "one", "things.example.com"]);
    let mut retained = objects;
    retained[1].lifecycle.policy = DeletePolicy::Retain;
    assert_eq!(waves(retained), ["other things.example.com", "one"]);
}

#[test]
fn the_lifecycle_of_the_graph_takes_precedence_over_the_annotation() {
    let mut observed = object("A", "x", "a", 9);
    observed.apply_order = 2;
    observed.lifecycle.order = Some(9);
    let mut newer = EvaluatedLifecycle::default();
    assert_eq!(observed.clone().with_lifecycle(newer.clone()).order, 2);
    newer.order = Some(4);
    assert_eq!(observed.with_lifecycle(newer).order, 4);
}

fn limited(mut object: OwnedObject, text: &str) -> OwnedObject {
    object.lifecycle = serde_json::from_str(text).unwrap();
    object
}

fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

#[test]
fn the_first_attempt_survives_a_restart_for_objects_with_a_limit() {
    let mut objects =
        vec![limited(object("A", "x", "a", 1), r#"{"forceAfter":"60s"}"#), object("A", "x", "b", 1)];
    objects.iter_mut().for_each(|object| object.terminating = true);
    let first = plan(&objects, Hooks::Planned(&[]), None, now());
    let persisted = first.persisted.unwrap();
    assert_eq!(persisted, r#"{"2027-01-15T08:00:00Z":["uid-a"]}"#);
    let waits = plan(&objects, Hooks::Planned(&[]), Some(&persisted), later(59));
    assert!(waits.orphaned.is_empty());
    assert_eq!(waits.recheck_at, Some(later(60)));
    let over = plan(&objects, Hooks::Planned(&[]), Some(&persisted), later(60));
    assert_eq!(over.orphaned[0].key.name, "a");
    assert_eq!(over.orphaned[0].why.as_deref(), Some("being deleted"));
    assert_eq!(over.release.len(), 1, "its cluster is connected, so it loses its labels");
    let forgotten = plan(&objects, Hooks::Planned(&[]), None, later(60));
    assert!(forgotten.orphaned.is_empty(), "without a known attempt the wait starts now");
}

fn hook(id: &str, created: bool, lifecycle: &str) -> Hook {
    let lifecycle = serde_json::from_str(lifecycle).unwrap();
    Hook { id: id.into(), why: "it is slow".into(), created, lifecycle }
}

#[test]
fn an_object_waits_for_a_hook_that_cannot_be_created_and_is_orphaned_when_it_never_can() {
    let objects =
        vec![limited(object("A", "x", "data", 1), r#"{"awaits":["backup"]}"#), object("A", "x", "web", 1)];
    let unavailable = plan(&objects, Hooks::GraphUnavailable("the definition is invalid"), None, now());
    assert_eq!(unavailable.delete.len(), 1, "an object that waits for nothing is deleted");
    assert_eq!(
        unavailable.waiting[0].1.message(),
        "waiting for `backup`, which cannot be created: the definition is invalid"
    );
    let deleted = plan(&objects, Hooks::GraphDeleted, None, now());
    assert_eq!(
        deleted.orphaned[0].why.as_deref(),
        Some("it waits for `backup`, whose definition was deleted")
    );
    assert_eq!((deleted.delete.len(), deleted.release.len(), deleted.waiting.len()), (1, 1, 0));
}

#[test]
fn a_hook_without_an_object_blocks_the_deletion_until_its_wait_is_over() {
    let hooks = [hook("notify", false, r#"{"deletion":true,"forceAfter":"60s"}"#)];
    let waits = plan(&[], Hooks::Planned(&hooks), None, now());
    assert!(!waits.is_done());
    assert_eq!(waits.unfinished_hooks, [("notify".into(), "it is slow".into())]);
    assert_eq!(waits.recheck_at, Some(later(60)));
    let persisted = waits.persisted.unwrap();
    assert!(plan(&[], Hooks::Planned(&hooks), Some(&persisted), later(60)).is_done());
}

#[test]
fn a_hook_is_deleted_once_it_is_ready_or_its_wait_is_over() {
    let objects = vec![limited(object("Job", "x", "notify", 1), r#"{"deletion":true,"forceAfter":"60s"}"#)];
    let hooks = [hook("notify", true, r#"{"deletion":true,"forceAfter":"60s"}"#)];
    let waits = plan(&objects, Hooks::Planned(&hooks), None, now());
    assert_eq!(waits.waiting[0].1.message(), "not ready: it is slow");
    assert_eq!(plan(&objects, Hooks::Planned(&[]), None, now()).delete.len(), 1);
    let over = plan(&objects, Hooks::Planned(&hooks), waits.persisted.as_deref(), later(60));
    assert_eq!((over.delete.len(), over.orphaned.len()), (1, 0), "it is deleted, not orphaned");
}

#[test]
fn an_object_reported_as_orphaned_is_not_deleted_when_its_cluster_is_back() {
    let mut objects =
        vec![limited(object("A", "x", "a", 2), r#"{"forceAfter":"0s"}"#), object("A", "x", "b", 1)];
    objects[0].unavailable = Some(ResourceFailure::connecting("eu"));
    let unreachable = plan(&objects, Hooks::Planned(&[]), None, now());
    assert_eq!((unreachable.orphaned.len(), unreachable.release.len(), unreachable.delete.len()), (1, 0, 1));
    assert_eq!(unreachable.persisted.as_deref(), Some(r#"{"left":["uid-a"]}"#));
    // The cluster is back, and by its lifecycle the object would be deleted now.
    objects[0].unavailable = None;
    objects[0].lifecycle.force_when = Some(false);
    let back = plan(&objects, Hooks::Planned(&[]), unreachable.persisted.as_deref(), later(9));
    assert_eq!(
        back.release.iter().map(|pending| (pending.uid.as_str(), pending.reported)).collect::<Vec<_>>(),
        [("uid-a", true)]
    );
    assert_eq!(back.delete.iter().map(|pending| pending.uid.as_str()).collect::<Vec<_>>(), ["uid-b"]);
}

/// A kubeconfig Secret that comes first in the order, and an object in its cluster.
fn secret_and_object() -> Vec<OwnedObject> {
    let mut inner = object("A", "x", "inner", 1);
    inner.key.cluster = ClusterId::new("eu");
    let recorded = InventoryCluster {
        key: crate::ReferenceKey::parse("secret/x/eu-kubeconfig/kubeconfig").unwrap(),
        display: "eu".into(),
        id: ClusterId::new("eu"),
        holds_objects: true,
        listed: true,
        secret: None,
    };
    let secrets = AccessObjects::of(std::slice::from_ref(&recorded));
    let secret = object("Secret", "x", "eu-kubeconfig", 5).with_credentials_for(&secrets);
    assert_eq!(secret.credentials_for, BTreeSet::from([ClusterId::new("eu")]));
    let other = object("Secret", "y", "eu-kubeconfig", 5).with_credentials_for(&secrets);
    assert!(other.credentials_for.is_empty(), "another namespace");
    vec![secret, inner]
}

#[test]
fn what_leads_to_a_published_cluster_waits_for_the_objects_there() {
    let recorded = InventoryCluster {
        key: crate::ReferenceKey::parse("target/x/eu").unwrap(),
        display: "eu".into(),
        id: ClusterId::new("eu"),
        holds_objects: true,
        listed: true,
        secret: Some(kross_api::SecretAddress {
            namespace: "x".to_owned(),
            name: "eu-connection".to_owned(),
            key: "kubeconfig".to_owned(),
        }),
    };
    let opens = |group: &str, kind: &str, namespace: &str, name: &str| {
        let mut owned = object(kind, namespace, name, 1);
        owned.key.group = group.into();
        !owned
            .with_credentials_for(&AccessObjects::of(std::slice::from_ref(&recorded)))
            .credentials_for
            .is_empty()
    };
    assert!(opens("workload.crossplane.io", "KubernetesTarget", "x", "eu"));
    assert!(opens("compute.crossplane.io", "KubernetesCluster", "x", "eu"), "its target has the same name");
    assert!(opens("", "Secret", "x", "eu-connection"));
    assert!(!opens("", "Secret", "x", "eu"));
    assert!(!opens("workload.crossplane.io", "KubernetesTarget", "y", "eu"), "another namespace");
    assert!(!opens("example.com", "KubernetesTarget", "x", "eu"), "another group");
}

#[test]
fn a_kubeconfig_secret_is_deleted_after_the_objects_in_its_cluster() {
    assert_eq!(waves(secret_and_object()), ["inner", "eu-kubeconfig"]);
}

#[test]
fn a_kubeconfig_secret_is_deleted_after_retained_objects_in_its_cluster_are_released() {
    let mut objects = secret_and_object();
    objects[1].lifecycle.policy = DeletePolicy::Retain;
    assert_eq!(waves(objects), ["inner", "eu-kubeconfig"]);
}

#[test]
fn a_kubeconfig_secret_is_deleted_when_the_wait_for_its_cluster_is_over() {
    let mut objects = secret_and_object();
    objects[1] = limited(objects[1].clone(), r#"{"forceAfter":"0s"}"#);
    objects[1].unavailable = Some(ResourceFailure::connecting("eu"));
    let plan = next(&objects);
    assert_eq!(plan.orphaned[0].key.name, "inner");
    assert_eq!(plan.delete[0].key.name, "eu-kubeconfig");
}

#[test]
fn a_held_object_is_waited_for_with_its_reason() {
    let mut objects = secret_and_object();
    objects[0].held = Some("holds the credentials for cluster `eu`".into());
    objects.remove(1);
    let plan = next(&objects);
    assert!(plan.delete.is_empty());
    assert_eq!(plan.waiting[0].1, Wait::Hook("holds the credentials for cluster `eu`".into()));
}

#[test]
fn an_object_orphaned_while_it_waits_says_for_what() {
    let waits = r#"{"awaits":["backup"],"forceAfter":"60s"}"#;
    let objects = vec![limited(object("A", "x", "data", 1), waits)];
    let hooks = [hook("backup", true, r#"{"deletion":true}"#)];
    let first = plan(&objects, Hooks::Planned(&hooks), None, now());
    let over = plan(&objects, Hooks::Planned(&hooks), first.persisted.as_deref(), later(60));
    assert_eq!(over.orphaned[0].why.as_deref(), Some("it is waiting for `backup` to be ready: it is slow"));
}
