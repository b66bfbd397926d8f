//! What must be applied before an object is pruned that was renamed, moved or excluded, or whose node was removed.

use kross_api::FailureReason;
use kross_plan::Plan;

use super::remote_clusters::connected;
use super::world::*;

const VERSIONED: &str = r"
schema: {apiVersion: v1, kind: App, spec: {version: string}}
resources:
- id: settings
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'settings-${schema.spec.version}'}}
- id: names
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: names}, data: {settings: '${settings.metadata.name}'}}
- id: web
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {settings: '${names.data.settings}'}}
- id: other
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {version: '${schema.spec.version}'}}
";

/// Plans until only what fails is left, with the writes of these nodes refused.
fn settle_refusing(world: &mut World, ids: &[&str]) -> Plan {
    for _ in 0..20 {
        let plan = world.plan();
        for action in plan.apply.iter().filter(|action| !action.retry) {
            let object = plan.object(action).unwrap();
            let id = plan.nodes[action.node.0].id.clone();
            if ids.contains(&id.as_str()) {
                let failure = kross_plan::OperationFailure {
                    node: id,
                    operation: kross_api::Operation::Update,
                    reason: FailureReason::Invalid,
                    message: "refused".into(),
                    since: world.now,
                };
                world.observed.failures.insert(object.key.clone(), failure);
            } else {
                world.store(&object.key, object.desired.clone().unwrap());
            }
        }
        if plan.apply.iter().all(|action| action.retry) {
            world.keep_status(&plan);
            return plan;
        }
    }
    panic!("the plan does not converge");
}

#[test]
fn a_renamed_object_waits_for_its_successor_and_for_every_reader() {
    for refused in ["settings", "names", "web"] {
        let mut world = World::of(VERSIONED, "{version: v1}");
        world.settle();
        world.set_spec("{version: v2}");
        let plan = settle_refusing(&mut world, &[refused]);
        assert!(plan.prune.delete.is_empty(), "{refused}");
        assert!(awaited(&plan, "settings-v1").contains(&format!("`{refused}`")), "{refused}");
        world.observed.failures.clear();
        assert_eq!(deleted(&world.settle()), ["settings-v1"]);
    }
    let mut world = World::of(VERSIONED, "{version: v1}");
    world.settle();
    world.set_spec("{version: v2}");
    let plan = settle_refusing(&mut world, &["other"]);
    assert_eq!(deleted(&plan), ["settings-v1"], "`other` does not read it");
}

#[test]
fn an_object_of_a_removed_node_waits_for_new_nodes_and_for_objects_that_may_still_read_it() {
    let replaced = VERSIONED
        .replace("id: settings", "id: config")
        .replace("settings-${", "config-${")
        .replace("${settings.", "${config.");
    for refused in ["config", "names", "web"] {
        let mut world = World::of(VERSIONED, "{version: v1}");
        world.settle();
        world.graph = graph(&replaced);
        let plan = settle_refusing(&mut world, &[refused]);
        assert!(plan.prune.delete.is_empty(), "{refused}: {:?}", plan.prune.delete);
        world.observed.failures.clear();
        assert_eq!(deleted(&world.settle()), ["settings-v1"]);
    }
    let mut world = World::of(VERSIONED, "{version: v1}");
    world.settle();
    world.graph = graph(&replaced);
    world.settle();
    let unlisted = (kross_api::ClusterId::local(), "".into(), "Secret".into());
    world.observed.unlisted.insert(unlisted, None);
    assert!(world.plan().prune.delete.is_empty(), "objects that may depend on it are not listed");
    world.observed.unlisted.clear();
    assert_eq!(deleted(&world.plan()), ["settings-v1"]);
}

/// Stores what must survive a restart in the instance.
fn persist(world: &mut World, plan: &Plan) {
    let note = plan.prune.persisted.clone().map_or(kross_value::Value::Null, Into::into);
    let notes = kross_value::Value::object([(kross_api::annotations::DELETE_ATTEMPTS, note)]);
    let instance = world.instance.as_object_mut().unwrap();
    instance.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("annotations", notes);
}

const FAILING: &str = r"
schema: {apiVersion: v1, kind: App, spec: {optional: boolean}}
resources:
- id: failing
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: failing}}
- id: old
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: old}}
- id: optional
  includeWhen: ['${schema.spec.optional}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: optional}}
";

#[test]
fn a_node_that_failed_before_does_not_hold_back_an_object() {
    let mut world = World::of(FAILING, "{optional: true}");
    settle_refusing(&mut world, &["failing"]);
    world.set_spec("{optional: false}");
    let plan = settle_refusing(&mut world, &["failing"]);
    assert_eq!(deleted(&plan), ["optional"]);
    world.graph = graph(&FAILING.replace("- id: old\n", "- id: unused\n  includeWhen: ['${false}']\n"));
    let plan = settle_refusing(&mut world, &["failing"]);
    assert_eq!(deleted(&plan), ["old"], "before `optional`, as its node was removed");
}

#[test]
fn a_new_node_that_fails_holds_back_an_object_over_a_restart() {
    let mut world = World::of(FAILING, "{optional: true}");
    settle_refusing(&mut world, &["failing"]);
    world.graph = graph(&FAILING.replace("id: old", "id: new").replace("name: old", "name: new"));
    for _ in 0..3 {
        let plan = settle_refusing(&mut world, &["failing", "new"]);
        assert!(plan.prune.delete.is_empty(), "{:?}", plan.prune.delete);
        assert_eq!(awaited(&plan, "old"), "no longer desired; pruned once `new` is applied");
        assert_eq!(plan.prune.persisted.as_deref(), Some(r#"{"replacements":["old/new"]}"#));
        persist(&mut world, &plan);
    }
    world.observed.failures.retain(|key, _| key.name != *"new");
    let plan = settle_refusing(&mut world, &["failing"]);
    assert_eq!(deleted(&plan), ["old"]);
    assert_eq!(plan.prune.persisted, None);
}

const COLOURS: &str = r"
schema: {apiVersion: v1, kind: App, spec: {blue: boolean}}
resources:
- id: blue
  includeWhen: ['${schema.spec.blue}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: blue}}
- id: green
  includeWhen: ['${!schema.spec.blue}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: green}}
- id: reader
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: reader}, data: {state: '${resources.blue.state}'}}
- id: other
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {blue: '${string(schema.spec.blue)}'}}
";

#[test]
fn an_excluded_object_waits_for_what_replaces_it_and_for_readers_of_its_state() {
    for (refused, is_pruned) in [("green", false), ("reader", false), ("other", true)] {
        let mut world = World::of(COLOURS, "{blue: true}");
        world.settle();
        world.set_spec("{blue: false}");
        let plan = settle_refusing(&mut world, &[refused]);
        assert_eq!(deleted(&plan) == ["blue"], is_pruned, "{refused}: {:?}", plan.prune);
        world.observed.failures.clear();
        assert_eq!(deleted(&world.settle()), ["blue"]);
    }
}

const STANDBY: &str = r"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: main
  cluster: {name: eu-kubeconfig, namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: main, namespace: shop}}
- id: standby
  includeWhen: ['${resources.main.reason == ''Unreachable''}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: standby}}
";

#[test]
fn a_standby_is_kept_until_the_node_that_it_stands_in_for_is_applied() {
    let mut world = World::of(STANDBY, "{}");
    let plan = world.plan();
    world.connect(&plan, &super::remote_clusters::unreachable());
    let plan = world.settle();
    assert!(progress(&plan, "standby").is_ready());
    world.connect(&plan, &connected());
    let plan = settle_refusing(&mut world, &["main"]);
    assert!(plan.prune.delete.is_empty(), "{:?}", plan.prune);
    world.observed.failures.clear();
    assert_eq!(deleted(&world.settle()), ["standby"]);
}

#[test]
fn a_namespace_is_kept_while_an_object_in_it_is_held_back() {
    let nested = r"
schema: {apiVersion: v1, kind: App, spec: {wanted: boolean, version: string}}
resources:
- id: space
  includeWhen: ['${schema.spec.wanted}']
  template: {apiVersion: v1, kind: Namespace, metadata: {name: inner}}
- id: settings
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'settings-${schema.spec.version}', namespace: '${schema.spec.wanted ? ''inner'' : ''shop''}'}}
- id: reader
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: reader}, data: {name: '${settings.metadata.name}'}}
";
    let mut world = World::of(nested, "{wanted: true, version: v1}");
    world.settle();
    world.set_spec("{wanted: false, version: v2}");
    let plan = settle_refusing(&mut world, &["reader"]);
    assert!(plan.prune.delete.is_empty(), "{:?}", plan.prune.delete);
    world.observed.failures.clear();
    assert_eq!(deleted(&world.settle()), ["settings-v1"]);
}
