//! What one instance may have: the sizes of its objects and its status, the number of its clusters, and the time of its plans.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kross_api::{FailureReason, InstanceState};
use kross_plan::{Cancellation, Limits, Plan, Progress};

use super::world::*;

const OBJECTS: &str = "schema: {apiVersion: v1, kind: App, spec: {size: integer, count: integer}}
resources:
- id: made
  forEach: [{index: '${lists.range(schema.spec.count)}'}]
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: 'a${string(index)}'}
    data: {text: '${random.seededString(schema.spec.size, \"a\")}'}
- id: other
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
";

fn limited(definition: &str, spec: &str, limits: Limits) -> World {
    let mut world = World::of(definition, spec);
    world.settings.limits = limits;
    world
}

fn message(plan: &Plan, id: &str) -> String {
    let failure = progress(plan, id).failure().unwrap_or_else(|| panic!("{plan:#?}"));
    assert_eq!(failure.reason, FailureReason::Expression);
    failure.message.to_string()
}

#[test]
fn an_object_that_is_too_large_is_not_sent_and_the_condition_names_the_flag() {
    let limits = Limits { object_size: 10_000, ..Limits::default() };
    let mut world = limited(OBJECTS, "{size: 10000, count: 1}", limits);
    let plan = world.plan();
    assert_eq!(applied(&plan), ["other"], "other objects are applied");
    let message = message(&plan, "made");
    assert!(message.starts_with("item 0: ConfigMap shop/a0 has 10"), "{message}");
    assert!(
        message.ends_with("bytes, and at most 10000 are allowed (`--instance-max-object-size`)"),
        "{message}"
    );
    let (status, reason, condition) = condition(&plan, "ResourcesReady");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NotReady"));
    assert!(condition.contains("--instance-max-object-size"), "{condition}");
    assert_eq!(plan.state, InstanceState::Error);
    world.settings.limits = Limits::default();
    assert_eq!(applied(&world.plan()), ["made", "other"]);
}

#[test]
fn all_objects_together_are_limited() {
    let limits = Limits { total_size: 100_000, ..Limits::default() };
    assert_eq!(applied(&limited(OBJECTS, "{size: 1000, count: 10}", limits).plan()).len(), 11);
    let message = message(&limited(OBJECTS, "{size: 1000, count: 100}", limits).plan(), "made");
    assert!(message.contains("with it the objects of the instance have 10"), "{message}");
    assert!(message.contains("at most 100000 are allowed (`--instance-max-total-size`)"), "{message}");
}

#[test]
fn the_clusters_of_an_instance_are_limited() {
    let definition = "schema: {apiVersion: v1, kind: App, spec: {count: integer}}
resources:
- id: made
  forEach: [{index: '${lists.range(schema.spec.count)}'}]
  cluster: {name: 'c${string(index)}-kubeconfig'}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- id: other
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
";
    let limits = Limits { clusters: 5, ..Limits::default() };
    let plan = limited(definition, "{count: 5}", limits).plan();
    assert!(matches!(progress(&plan, "made"), Progress::NotConnected(_)), "{plan:#?}");
    assert_eq!(plan.clusters.len(), 5);
    let plan = limited(definition, "{count: 500}", limits).plan();
    assert_eq!(plan.clusters.len(), 5, "no other Secret is watched");
    assert_eq!(applied(&plan), ["other"]);
    let message = message(&plan, "made");
    assert!(message.contains("the instance uses more than 5 clusters"), "{message}");
    assert!(message.contains("`--instance-max-clusters`"), "{message}");
}

#[test]
fn the_fields_of_a_definition_in_the_status_are_limited() {
    let definition = "schema:
  apiVersion: v1
  kind: App
  spec: {size: integer}
  status: {text: '${random.seededString(schema.spec.size, made.metadata.name)}', name: '${made.metadata.name}'}
resources:
- id: made
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
";
    let limits = Limits { status_size: 10_000, ..Limits::default() };
    let mut world = limited(definition, "{size: 10}", limits);
    let plan = world.settle();
    assert_eq!(plan.status.get("name"), Some(&"a".into()));
    world.set_spec("{size: 10000}");
    let plan = world.plan();
    assert_eq!(plan.state, InstanceState::Error);
    assert!(plan.status.get("text").is_none() && plan.status.to_string().len() < 10_000);
    let (status, _, message) = condition(&plan, "ResourcesReady");
    assert_eq!(status, "False");
    assert!(message.contains("at most 10000 are allowed (`--instance-max-status-size`)"), "{message}");
    assert_eq!(condition(&plan, "Ready").0, "False");
}

#[test]
fn a_cancelled_plan_ends_without_evaluating_the_rest() {
    let mut world = limited(OBJECTS, "{size: 1000, count: 1000}", Limits::default());
    let (cancelled, polled) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (is_cancelled, is_polled) = (Arc::clone(&cancelled), Arc::clone(&polled));
    world.settings.cancellation = Some(Cancellation::new(move || {
        is_polled.store(true, Ordering::Relaxed);
        is_cancelled.load(Ordering::Relaxed)
    }));
    let plan = world.plan();
    assert!(polled.load(Ordering::Relaxed));
    assert!(message(&plan, "made").contains("the evaluation was cancelled"));
    assert!(plan.prune.is_done(), "nothing is pruned");
    cancelled.store(false, Ordering::Relaxed);
    assert_eq!(applied(&world.plan()).len(), 1_001);
}

#[test]
fn expressions_of_one_node_share_a_budget_for_patterns() {
    let definition = r#"schema: {apiVersion: v1, kind: App, spec: {count: integer}}
resources:
- id: made
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: a}
    data: {found: '${string(lists.range(schema.spec.count).filter(n, "x".matches("\\pL{20}" + string(n))).size())}'}
"#;
    let plan = World::of(definition, "{count: 3}").plan();
    assert_eq!(applied(&plan), ["made"], "{plan:#?}");
    let start = std::time::Instant::now();
    let plan = World::of(definition, "{count: 1000}").plan();
    assert!(message(&plan, "made").contains("exceeds its cost budget"), "{plan:#?}");
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
