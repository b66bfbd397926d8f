//! Collections: order, limits, growth, readiness, and a thousand items.

use kross_api::{InstanceState, labels};
use kross_plan::Progress;
use kross_value::Value;

use super::world::*;

pub(crate) const GRID: &str = r"
schema:
  apiVersion: v1
  kind: App
  spec:
    regions: '[]string'
    tiers: '[]string'
  status:
    names: ${parts.map(i, i.metadata.name)}
resources:
- id: parts
  forEach:
  - region: ${schema.spec.regions}
  - tier: ${schema.spec.tiers}
  readyWhen: ['${has(each.data.ready)}']
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: '${region}-${tier}'}
    data: {ready: 'true'}
- id: count
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: count}
    data: {count: '${string(size(parts))}'}
";

#[test]
fn the_first_axis_is_the_outermost() {
    let mut world = World::of(GRID, "{regions: [eu, us], tiers: [a, b]}");
    let plan = world.settle();
    let names = plan.status.get("names").unwrap().to_string();
    assert_eq!(names, r#"["eu-a","eu-b","us-a","us-b"]"#);
    let object = &world.observed.objects[&local("ConfigMap", "shop", "us-a")];
    assert_eq!(object.label(labels::COLLECTION_INDEX), Some("2"));
    assert_eq!(object.label(labels::COLLECTION_SIZE), Some("4"));
    assert_eq!(
        world.observed.objects[&local("ConfigMap", "shop", "count")].value.at(&["data", "count"]),
        Some(&Value::from("4"))
    );
    assert_eq!(plan.state, InstanceState::Active);
}

#[test]
fn an_empty_axis_makes_an_empty_collection_that_is_ready() {
    let mut world = World::of(GRID, "{regions: [eu], tiers: []}");
    let plan = world.settle();
    assert!(progress(&plan, "parts").is_ready());
    assert_eq!(
        world.observed.objects[&local("ConfigMap", "shop", "count")].value.at(&["data", "count"]),
        Some(&Value::from("0"))
    );
    assert_eq!(plan.status.get("names").unwrap().to_string(), "[]");
}

#[test]
fn a_shrinking_collection_is_pruned_and_the_rest_relabelled() {
    let mut world = World::of(GRID, "{regions: [eu, us], tiers: [a]}");
    world.settle();
    world.set_spec("{regions: [us], tiers: [a]}");
    let plan = world.settle();
    let deleted: Vec<&str> = plan.prune.delete.iter().map(|pending| pending.key.name.as_str()).collect();
    assert_eq!(deleted, ["eu-a"]);
    assert_eq!(
        world.observed.objects[&local("ConfigMap", "shop", "us-a")].label(labels::COLLECTION_INDEX),
        Some("0")
    );
}

#[test]
fn every_item_must_be_ready() {
    let mut world = World::of(GRID, "{regions: [eu, us], tiers: [a]}");
    world.settle();
    let object = world.object_mut("us-a");
    object.value.as_object_mut().unwrap().insert("data", yaml("{other: x}"));
    let plan = world.plan();
    let Progress::Waiting(message) = progress(&plan, "parts") else {
        panic!("{:?}", progress(&plan, "parts"))
    };
    assert_eq!(
        &**message,
        "1 of 2 items are not ready: `us-a`: `readyWhen` is false: `has(each.data.ready)`"
    );
    assert!(matches!(progress(&plan, "count"), Progress::Blocked { .. }));
}

#[test]
fn a_collection_over_the_limit_names_the_limit() {
    let mut world = World::of(GRID, "{regions: [a, b, c], tiers: [a, b]}");
    world.settings.max_collection_size = 5;
    let plan = world.plan();
    let (_, _, message) = condition(&plan, "ResourcesReady");
    assert!(message.contains("6 items") && message.contains("at most 5"), "{message}");
    assert_eq!(plan.state, InstanceState::Error);
}

#[test]
fn two_items_that_are_one_object_are_named_by_their_positions() {
    let world = World::of(GRID, "{regions: [a, b, a], tiers: [x]}");
    let (_, _, message) = condition(&world.plan(), "ResourcesReady");
    assert!(message.contains("items 0 and 2 are the same object: ConfigMap shop/a-x"), "{message}");
}

pub(crate) fn thousand() -> World {
    let regions: Vec<String> = (0..1000).map(|number| format!("r{number}")).collect();
    World::of(GRID, &format!("{{regions: [{}], tiers: [a]}}", regions.join(", ")))
}

#[test]
fn a_thousand_items_are_planned_at_once_and_reported_in_brief() {
    let mut world = thousand();
    let plan = world.plan();
    assert_eq!(plan.apply.len(), 1000);
    world.apply(&plan);
    let plan = world.settle();
    assert_eq!(plan.state, InstanceState::Active);
    assert!(plan.resources.len() < 10, "{}", plan.resources.len());
    assert!(world.plan().is_noop());
    for number in 0..500 {
        world.object_mut(&format!("r{number}-a")).value.as_object_mut().unwrap().remove("data");
    }
    let plan = world.plan();
    assert!(plan.resources.len() < 30);
    let bytes = plan.status.get("managedResources").unwrap().to_string().len();
    assert!(bytes < 64 * 1024, "{bytes}");
}
