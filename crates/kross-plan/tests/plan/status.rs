//! The status of instances: fields, conditions, resources, and stability.

use kross_api::{FailureReason, ResourceState};
use kross_plan::{blocked_deletion_status, failed_status, suspended_status};
use kross_value::Value;

use super::world::*;

const REPORTING: &str = r"
schema:
  apiVersion: v1
  kind: App
  spec: {text: string}
  status:
    name: ${first.metadata.name}
    nested:
      later: ${second.data.missing}
      now: ${schema.spec.text}
resources:
- id: first
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
- id: second
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: second}, data: {a: '${first.metadata.name}'}}
";

#[test]
fn status_has_the_fields_that_can_be_evaluated() {
    let mut world = World::of(REPORTING, "{text: hello}");
    let plan = world.settle();
    assert_eq!(plan.status.get("name"), Some(&Value::from("first")));
    assert_eq!(plan.status.get("nested").unwrap().to_string(), r#"{"now":"hello"}"#);
    assert_eq!(plan.status.get("state"), Some(&Value::from("ACTIVE")));
    let types: Vec<&str> = plan
        .status
        .get("conditions")
        .unwrap()
        .as_list()
        .unwrap()
        .iter()
        .map(|condition| condition.get("type").unwrap().as_str().unwrap())
        .collect();
    assert_eq!(types.last(), Some(&"Ready"));
    assert_eq!(types.len(), 4);
}

#[test]
fn status_does_not_change_when_nothing_did() {
    let mut world = World::of(REPORTING, "{text: hello}");
    world.settle();
    world.now = at(100);
    let plan = world.plan();
    assert_eq!(Some(&plan.status), world.instance.get("status"));
}

#[test]
fn every_resource_is_listed_with_its_state() {
    let mut world = World::of(REPORTING, "{text: hello}");
    let plan = world.plan();
    let states: Vec<(&str, ResourceState)> =
        plan.resources.iter().map(|entry| (entry.id.as_str(), entry.state)).collect();
    assert_eq!(states, [("first", ResourceState::Applying), ("second", ResourceState::Blocked)]);
    world.fail(&plan, "first", FailureReason::Forbidden, "no");
    let plan = world.plan();
    let entry = &plan.resources[0];
    assert_eq!((entry.state, entry.reason), (ResourceState::Error, Some(FailureReason::Forbidden)));
    assert_eq!(entry.last_update_time.as_deref(), Some("2027-01-15T08:00:00Z"));
    world.keep_status(&plan);
    world.now = at(60);
    assert_eq!(world.plan().resources[0].last_update_time.as_deref(), Some("2027-01-15T08:00:00Z"));
    assert_eq!(entry.name.as_deref(), Some("first"));
}

const AUTHORED: &str = r#"
schema:
  apiVersion: v1
  kind: App
  spec: {number: integer}
  status:
    conditions:
    - "${runtime.newCondition({type: 'Set', status: runtime.condition(schema, 'ResourcesReady').status, reason: 'Because'})}"
    - "${runtime.newCondition({type: 'Data', status: first.data.ok})}"
    - '${runtime.newCondition({type: ''Number'', status: 10 / schema.spec.number > 1 ? ''True'' : ''False''})}'
resources:
- id: first
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
"#;

fn types(status: &Value) -> Vec<String> {
    let conditions = status.get("conditions").unwrap().as_list().unwrap();
    let show = |condition: &Value| {
        format!(
            "{}={}",
            condition.get("type").unwrap().as_str().unwrap(),
            condition.get("status").unwrap().as_str().unwrap()
        )
    };
    conditions.iter().map(show).collect()
}

#[test]
fn author_conditions_replace_the_built_in_ones() {
    let mut world = World::of(AUTHORED, "{number: 1}");
    let plan = world.plan();
    assert_eq!(types(&plan.status), ["Set=False", "Number=True"]);
    let plan = world.settle();
    assert_eq!(types(&plan.status), ["Set=True", "Number=True"]);
    let first = &plan.status.get("conditions").unwrap().as_list().unwrap()[0];
    assert_eq!(first.get("reason"), Some(&Value::from("Because")));
    assert!(first.get("message").is_none(), "left out when empty");
    assert!(first.get("lastTransitionTime").is_some());
    world.object_mut("first").value.as_object_mut().unwrap().insert("data", yaml("{ok: 'True'}"));
    let plan = world.settle();
    assert_eq!(types(&plan.status), ["Set=True", "Data=True", "Number=True"]);
    assert_eq!(plan.state.as_str(), "ACTIVE");
    // A condition that fails keeps its last status and makes the state an error.
    world.set_spec("{number: 0}");
    let plan = world.plan();
    assert_eq!(types(&plan.status), ["Set=True", "Data=True", "Number=True"]);
    assert_eq!(plan.state.as_str(), "ERROR");
    // A condition that waits for data keeps it too, and does not change the state.
    world.set_spec("{number: 1}");
    world.object_mut("first").value.as_object_mut().unwrap().insert("data", yaml("{}"));
    let plan = world.plan();
    assert_eq!(types(&plan.status), ["Set=True", "Number=True", "Data=True"]);
    assert_eq!(plan.state.as_str(), "ACTIVE");
}

#[test]
fn a_suspended_instance_keeps_its_state_and_fields() {
    let mut world = World::of(REPORTING, "{text: hello}");
    world.settle();
    let status = suspended_status(&world.graph, &world.instance, at(5));
    assert_eq!(status.get("state"), Some(&Value::from("ACTIVE")));
    assert_eq!(status.get("name"), Some(&Value::from("first")));
    let text = status.get("conditions").unwrap().to_string();
    assert!(
        text.contains(r#""message":"reconciliation suspended via kro.run/reconcile annotation""#),
        "{text}"
    );
    assert!(text.contains("ReconciliationSuspended"));
}

#[test]
fn an_instance_without_a_graph_says_so() {
    let mut world = World::of(REPORTING, "{text: hello}");
    world.settle();
    let status =
        failed_status(None, &world.instance, kross_api::ConditionType::GraphResolved, "no revision", at(5));
    assert_eq!(status.get("state"), Some(&Value::from("ERROR")));
    let text = status.get("conditions").unwrap().to_string();
    assert!(text.contains("ResolutionFailed") && text.contains("no revision"), "{text}");
}

#[test]
fn a_blocked_deletion_says_why_and_keeps_the_fields() {
    let mut world = World::of(REPORTING, "{text: hello}");
    world.settle();
    let status =
        blocked_deletion_status(None, &world.instance, "the inventory does not match its hash", at(5));
    assert_eq!(status.get("state"), Some(&Value::from("DELETING")));
    assert_eq!(status.get("name"), Some(&Value::from("first")));
    let text = status.get("conditions").unwrap().to_string();
    assert!(text.contains("deletion blocked: the inventory does not match its hash"), "{text}");
    assert!(text.contains(r#""status":"Unknown","type":"ResourcesReady""#), "{text}");
}

#[test]
fn a_blocked_deletion_sets_ready_without_earlier_conditions() {
    let world = World::of("{schema: {apiVersion: v1, kind: App, spec: {}}, resources: []}", "{}");
    let why = "the inventory is invalid";
    let status = blocked_deletion_status(Some(&world.graph), &world.instance, why, world.now);
    let conditions = status.get("conditions").unwrap().as_list().unwrap();
    let ready = conditions.last().unwrap();
    assert_eq!(ready.get("type").unwrap().as_str(), Some("Ready"));
    assert_eq!(ready.get("message").unwrap().as_str(), Some("deletion blocked: the inventory is invalid"));
}
