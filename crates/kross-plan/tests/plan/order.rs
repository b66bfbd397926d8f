//! Order without an edge in the graph: namespaces and CustomResourceDefinitions.

use std::collections::BTreeSet;

use kross_api::InstanceState;
use kross_plan::{Deletion, HookRecord, Hooks, OwnedObject, Progress, plan_deletion};

use super::world::*;

const SPACES: &str = r"
schema: {apiVersion: v1, kind: App, spec: {space: string}}
resources:
- id: inside
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: inside, namespace: '${schema.spec.space}'}}
- id: outside
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: outside}}
- id: space
  template: {apiVersion: v1, kind: Namespace, metadata: {name: '${schema.spec.space}'}}
";

#[test]
fn creates_a_namespace_before_the_objects_in_it() {
    let mut world = World::of(SPACES, "{space: eu}");
    let plan = world.plan();
    assert_eq!(applied(&plan), ["outside", "space"]);
    assert!(matches!(progress(&plan, "inside"), Progress::Held(_)));
    assert_eq!(plan.state, InstanceState::InProgress);
    assert_eq!(plan.inventory[&kross_api::ClusterId::local()].namespaces.iter().collect::<Vec<_>>(), ["eu"]);
    world.apply(&plan);
    assert_eq!(applied(&world.plan()), ["inside"]);
    assert_eq!(world.settle().state, InstanceState::Active);
}

#[test]
fn deletes_a_namespace_after_the_objects_in_it() {
    let mut world = World::of(SPACES, "{space: eu}");
    world.settle();
    let mut remaining: Vec<OwnedObject> =
        world.observed.objects.iter().map(|(key, object)| OwnedObject::new(key.clone(), object)).collect();
    let hooks = Hooks::Planned(&[]);
    let attempts = std::collections::BTreeMap::new();
    let mut waves = Vec::new();
    loop {
        let plan = plan_deletion(Deletion {
            reported_orphans: &BTreeSet::new(),
            reports_orphans: false,
            objects: &remaining,
            hooks,
            hook_record: &HookRecord::default(),
            attempts: &attempts,
            persisted: None,
            now: world.now,
        });
        if plan.is_done() {
            break;
        }
        waves.push(plan.delete.iter().map(|pending| pending.key.name.to_string()).collect::<Vec<_>>());
        remaining.retain(|object| !plan.delete.iter().any(|pending| pending.key == object.key));
    }
    assert_eq!(waves, [vec!["inside", "outside"], vec!["eu"]]);
}
