//! Which items that left a collection are pruned, in which order, and what an unresolved node may still want.

use kross_api::{ClusterId, FailureReason};
use kross_plan::{ClusterConnection, InventoryCluster};

use super::remote_clusters::{connected, unreachable};
use super::world::*;

const REGIONS: &str = r"
schema: {apiVersion: v1, kind: App, spec: {regions: '[]string', prefix: string}}
resources:
- id: parts
  forEach: [{region: '${schema.spec.regions}'}]
  cluster: {name: '${region}-kubeconfig', namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.prefix}-${region}'}}
";

/// Sets the connection of the clusters whose Secrets have these names.
fn connect(world: &mut World, connection: &ClusterConnection, names: &[&str]) {
    let mut plan = world.plan();
    let is_named = |display: &str| names.iter().any(|name| display == format!("clusters/{name}-kubeconfig"));
    plan.clusters.retain(|used| is_named(&used.reference.display));
    world.connect(&plan, connection);
}

fn settled(definition: &str, spec: &str, regions: &[&str]) -> World {
    let mut world = World::of(definition, spec);
    world.settings.assume_namespaced = true;
    world.settle();
    connect(&mut world, &connected(), regions);
    world.settle();
    world
}

/// A process that was just started: what it knows of clusters that are not connected is in the inventory and in the status.
fn restart(world: &mut World, region: &str) {
    let id = ClusterId::new(&format!("uid of clusters/{region}-kubeconfig"));
    let plan = world.plan();
    let used = plan.clusters.iter().find(|used| used.id == id).unwrap();
    world.observed.objects.retain(|key, _| key.cluster != id);
    world.observed.recorded.push(InventoryCluster {
        key: used.key.clone(),
        display: used.reference.display.as_str().into(),
        id,
        holds_objects: true,
        listed: false,
        secret: None,
    });
}

#[test]
fn an_item_is_pruned_while_the_cluster_of_another_is_unreachable() {
    for (definition, name) in [(REGIONS.to_owned(), "v1-eu"), (REGIONS.replace("-${region}'}}", "'}}"), "v1")]
    {
        let mut world = settled(&definition, "{regions: [eu, us], prefix: v1}", &["eu", "us"]);
        connect(&mut world, &unreachable(), &["us"]);
        world.settle();
        world.set_spec("{regions: [us], prefix: v1}");
        assert_eq!(deleted(&world.settle()), [name]);
        restart(&mut world, "us");
        assert_eq!(deleted(&world.plan()), [name]);
    }
}

#[test]
fn an_item_is_pruned_while_another_was_never_applied() {
    let mut world = settled(REGIONS, "{regions: [eu, us, ap], prefix: v1}", &["eu", "us"]);
    world.set_spec("{regions: [eu, ap], prefix: v1}");
    assert_eq!(deleted(&world.settle()), ["v1-us"]);
}

#[test]
fn an_item_that_moved_or_may_have_been_renamed_waits_for_its_successor() {
    for spec in
        ["{regions: [su], prefix: v1}", "{regions: [eu], prefix: v2}", "{regions: [su, eu], prefix: v2}"]
    {
        let mut world = settled(REGIONS, "{regions: [eu], prefix: v1}", &["eu"]);
        world.set_spec(spec);
        let plan = world.plan();
        world.fail(&plan, "parts", FailureReason::Forbidden, "no");
        let plan = world.plan();
        assert!(plan.prune.delete.is_empty(), "{spec}");
        assert!(awaited(&plan, "v1-eu").contains("is applied"), "{spec}: {}", awaited(&plan, "v1-eu"));
        world.observed.failures.clear();
        connect(&mut world, &connected(), &["eu", "su"]);
        assert_eq!(deleted(&world.settle()), ["v1-eu"], "{spec}");
    }
}

#[test]
fn an_item_that_is_renamed_while_another_leaves_waits_for_its_successor() {
    let mut world = settled(REGIONS, "{regions: [eu, us], prefix: v1}", &["eu", "us"]);
    world.set_spec("{regions: [us], prefix: v2}");
    let plan = world.plan();
    world.fail(&plan, "parts", FailureReason::Forbidden, "no");
    assert!(world.settle().prune.delete.is_empty());
    // Also if the other one is not observed.
    connect(&mut world, &unreachable(), &["eu"]);
    restart(&mut world, "eu");
    assert!(world.settle().prune.delete.is_empty());
}

#[test]
fn an_item_in_a_cluster_that_was_never_identified_may_be_any_item_of_its_name() {
    let same = REGIONS.replace("-${region}'}}", "'}}");
    let mut world = settled(&same, "{regions: [eu], prefix: v1}", &["eu"]);
    world.set_spec("{regions: [alias], prefix: v1}");
    let plan = world.settle();
    assert!(plan.prune.delete.is_empty());
    assert!(awaited(&plan, "v1").contains("alias-kubeconfig"), "{}", awaited(&plan, "v1"));
    // It is the same cluster: the object is desired.
    connect(&mut world, &connected(), &["alias"]);
    world
        .observed
        .clusters
        .values_mut()
        .for_each(|state| state.id = ClusterId::new("uid of clusters/eu-kubeconfig"));
    let plan = world.settle();
    assert!(plan.prune.is_done(), "{:?}", plan.prune);
}

#[test]
fn an_item_is_kept_while_one_of_its_name_is_not_observed_in_a_cluster_that_claims_to_be_the_same() {
    let same = REGIONS.replace("-${region}'}}", "'}}");
    let mut world = World::of(&same, "{regions: [eu, alias], prefix: v1}");
    world.settings.assume_namespaced = true;
    connect(&mut world, &connected(), &["eu", "alias"]);
    // The certificate authority in one of two Secrets is being rotated, or the server behind it lies.
    for (key, state) in &mut world.observed.clusters {
        state.id = ClusterId::proven("u", if key.as_str().contains("alias") { "new" } else { "old" });
    }
    world.settle();
    let alias = ClusterId::proven("u", "new");
    world.observed.objects.retain(|key, _| key.cluster != alias);
    world.set_spec("{regions: [alias], prefix: v1}");
    let plan = world.plan();
    assert!(plan.prune.delete.is_empty(), "{:?}", plan.prune);
    assert!(awaited(&plan, "v1").contains("it may be this object"), "{}", awaited(&plan, "v1"));
    // It is another one.
    assert_eq!(deleted(&world.settle()), ["v1"]);
}

const UNRESOLVED: &str = r"
schema: {apiVersion: v1, kind: App, spec: {old: boolean, from: string}}
resources:
- id: old
  includeWhen: ['${schema.spec.old}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: old}}
- id: outside
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.from}'}}
- id: next
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}, data: {x: '${outside.data.name}'}}
";

/// Excludes `old` while `next`, which exists, is unresolved.
fn excluded_while_unresolved(definition: &str) -> kross_plan::Plan {
    let mut world = World::of(definition, "{old: true, from: one}");
    let found = kross_plan::ObservedObject::new(yaml("{data: {name: next}}"));
    world.observed.externals.insert(local("ConfigMap", "shop", "one"), Some(found));
    world.settle();
    world.set_spec("{old: false, from: two}");
    world.settle()
}

#[test]
fn an_object_is_kept_while_an_unresolved_node_may_turn_out_to_be_it() {
    for name in [
        "'${outside.data.name}'",
        "'o${outside.data.name}d'",
        "'${schema.spec.from == \"two\" ? \"old\" : \"next\"}'",
    ] {
        let plan = excluded_while_unresolved(&UNRESOLVED.replace("NAME", name));
        assert!(plan.prune.delete.is_empty(), "{name}");
    }
    for name in [
        "next",
        "'${schema.metadata.name}-next'",
        "'next-${outside.data.name}'",
        "'${outside.data.name}-next'",
    ] {
        let plan = excluded_while_unresolved(&UNRESOLVED.replace("NAME", name));
        assert_eq!(deleted(&plan), ["old"], "{name}");
    }
    let other_kind = UNRESOLVED.replace(
        "kind: ConfigMap, metadata: {name: NAME}, data: {x: '${outside.data.name}'}",
        "kind: Secret, metadata: {name: '${outside.data.name}'}",
    );
    assert_eq!(deleted(&excluded_while_unresolved(&other_kind)), ["old"], "another kind");
}

const LISTED: &str = r"
schema: {apiVersion: v1, kind: App, spec: {group: string}}
resources:
- id: sources
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, selector: {matchLabels: {role: source}}}}
- id: copies
  forEach: [{source: '${sources.filter(s, s.data.group == schema.spec.group)}'}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'copy-${source.metadata.name}'}}
- id: more
  forEach: [{copy: '${copies}'}]
  template: {apiVersion: v1, kind: Secret, metadata: {name: 'more-${copy.metadata.name}'}}
";

#[test]
fn nothing_is_pruned_because_of_a_list_that_is_not_in_sync() {
    let mut world = World::of(LISTED, "{group: one}");
    let read = world.plan().reads.remove(0);
    let kross_plan::ExternalRead::Collection(query) = read.clone() else { panic!("{read:?}") };
    let source = yaml("{metadata: {name: a, namespace: shop}, data: {group: one}}");
    world.observed.collections.insert(query, vec![kross_plan::ObservedObject::new(source)]);
    world.settle();
    world.set_spec("{group: two}");
    world.observed.stale.insert(read);
    let plan = world.settle();
    assert!(plan.prune.delete.is_empty());
    for name in ["copy-a", "more-copy-a"] {
        assert!(awaited(&plan, name).contains("in sync"), "{}", awaited(&plan, name));
    }
    world.observed.stale.clear();
    assert_eq!(deleted(&world.settle()), ["more-copy-a"], "dependents first");
}

const PAIRS: &str = r"
schema: {apiVersion: v1, kind: App, spec: {names: '[]string'}}
resources:
- id: databases
  forEach: [{name: '${schema.spec.names}'}]
  cluster: {name: eu-kubeconfig, namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'db-${name}', namespace: shop}, data: {name: '${name}'}}
- id: applications
  forEach: [{db: '${databases}'}]
  cluster: {name: us-kubeconfig, namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'app-${db.data.name}', namespace: shop}}
- id: notes
  forEach: [{name: '${schema.spec.names}'}]
  cluster: {name: eu-kubeconfig, namespace: clusters}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'note-${name}', namespace: shop}}
";

#[test]
fn an_object_that_cannot_be_deleted_holds_back_only_what_it_depends_on() {
    let mut world = settled(PAIRS, "{names: [a, b]}", &["eu", "us"]);
    connect(&mut world, &unreachable(), &["us"]);
    world.settle();
    world.set_spec("{names: [a]}");
    let plan = world.settle();
    assert_eq!(deleted(&plan), ["note-b"]);
    assert_eq!(awaited(&plan, "db-b"), "waiting for dependents to be deleted");
    // The same after a restart, though `app-b` is not observed.
    restart(&mut world, "us");
    let plan = world.plan();
    assert_eq!(deleted(&plan), ["note-b"]);
    assert_eq!(awaited(&plan, "db-b"), "waiting for dependents to be deleted");
}

#[test]
fn a_terminating_object_holds_back_only_what_it_depends_on() {
    let mut world = settled(PAIRS, "{names: [a, b]}", &["eu", "us"]);
    world.set_spec("{names: [a]}");
    world.settle();
    world.terminate("app-b");
    let plan = world.settle();
    assert_eq!(deleted(&plan), ["note-b"]);
    assert_eq!(awaited(&plan, "db-b"), "waiting for dependents to be deleted");
}

#[test]
fn nothing_waits_for_an_orphaned_object() {
    let orphaning = PAIRS
        .replace("- id: applications\n", "- id: applications\n  lifecycle: {delete: {forceAfter: 1m}}\n");
    let mut world = settled(&orphaning, "{names: [a, b]}", &["eu", "us"]);
    connect(&mut world, &unreachable(), &["us"]);
    world.settle();
    world.set_spec("{names: [a]}");
    let plan = world.settle();
    assert_eq!(deleted(&plan), ["note-b"]);
    world.observed.attempts = plan.prune.attempts;
    world.now = at(90);
    let plan = world.settle();
    assert_eq!(plan.prune.orphaned.len(), 1);
    assert_eq!(deleted(&plan), ["note-b"], "in reverse order");
    world.observed.objects.retain(|key, _| key.name != *"note-b");
    assert_eq!(deleted(&world.plan()), ["db-b"]);
}
