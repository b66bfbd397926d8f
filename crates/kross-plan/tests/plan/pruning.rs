//! Pruning: only objects that are not desired, and in reverse order.

use kross_api::FailureReason;

use super::world::*;

#[test]
fn an_item_that_left_a_collection_is_pruned_although_kept_items_and_dependents_fail() {
    let mut world = World::of(super::collections::GRID, "{regions: [eu, us], tiers: [a]}");
    world.settle();
    world.set_spec("{regions: [us], tiers: [a]}");
    world.object_mut("us-a").value.as_object_mut().unwrap().remove("data");
    let plan = world.plan();
    assert!(!progress(&plan, "count").is_applied(), "`count` waits for `parts`");
    assert_eq!(deleted(&plan), ["eu-a"]);
    world.fail(&plan, "parts", FailureReason::Forbidden, "no");
    assert_eq!(deleted(&world.plan()), ["eu-a"]);
    world.observed.failures.clear();
    assert_eq!(deleted(&world.settle()), ["eu-a"]);
}

#[test]
fn nodes_removed_from_the_graph_are_pruned_in_reverse_waves() {
    let mut world = World::of(super::objects::CHAIN, "{text: hello}");
    world.settle();
    world.graph = graph("schema: {apiVersion: v1, kind: App, spec: {text: string}}\nresources: []\n");
    let mut waves = Vec::new();
    while waves.len() < 5 {
        let plan = world.plan();
        if plan.prune.is_done() {
            break;
        }
        assert_eq!(
            plan.inventory.values().next().unwrap().group_kinds.len(),
            1,
            "its kind is still recorded"
        );
        for pending in &plan.prune.delete {
            waves.push(pending.key.name.to_string());
            world.observed.objects.remove(&pending.key);
        }
    }
    assert_eq!(waves, ["third", "app-first-second", "app-first"]);
    assert!(world.plan().inventory.values().all(|inventory| inventory.group_kinds.is_empty()));
}

#[test]
fn pruning_waits_for_a_terminating_object() {
    let mut world = World::of(super::objects::CHAIN, "{text: hello}");
    world.settle();
    world.graph = graph("schema: {apiVersion: v1, kind: App, spec: {text: string}}\nresources: []\n");
    world.terminate("third");
    let plan = world.plan();
    assert!(plan.prune.delete.is_empty());
    assert_eq!(plan.prune.waiting.len(), 3);
    assert_eq!(plan.resources.len(), 3);
    assert!(plan.resources.iter().all(|entry| entry.state == kross_api::ResourceState::Deleting));
}
