//! Properties of every graph: the same input gives the same plan, waves respect edges, an applied object is not applied again, and
//! a desired object is never pruned.

use std::collections::BTreeSet;

use kross_api::InstanceState;
use proptest::prelude::*;

use super::world::*;

/// A graph of ConfigMaps in which each may read earlier ones, some with `includeWhen`.
fn definition(needs: &[BTreeSet<usize>], switched: &[bool]) -> String {
    let mut text = String::from(
        "schema:\n  apiVersion: v1\n  kind: App\n  spec: {enabled: boolean, names: '[]string'}\nresources:\n",
    );
    for (node, needs) in needs.iter().enumerate() {
        text.push_str(&format!("- id: n{node}\n"));
        if switched[node] {
            text.push_str("  includeWhen: ['${schema.spec.enabled}']\n");
        }
        text.push_str(&format!("  template:\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {{name: n{node}}}\n    data:\n      own: x\n"));
        for need in needs.iter().filter(|need| **need < node) {
            text.push_str(&format!("      from{need}: '${{n{need}.metadata.uid}}'\n"));
        }
    }
    text
}

fn shape() -> impl Strategy<Value = (Vec<BTreeSet<usize>>, Vec<bool>)> {
    (
        proptest::collection::vec(proptest::collection::btree_set(0_usize..7, 0..3), 7),
        proptest::collection::vec(any::<bool>(), 7),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn plans_converge_in_order_and_become_noops((needs, switched) in shape()) {
        let mut world = World::of(&definition(&needs, &switched), "{enabled: true, names: []}");
        let mut written: Vec<usize> = Vec::new();
        for _ in 0..9 {
            let plan = world.plan();
            let again = world.plan();
            prop_assert_eq!(&plan.apply, &again.apply);
            prop_assert_eq!(&plan.status, &again.status);
            for action in &plan.apply {
                for need in needs[action.node.0].iter().filter(|need| **need < action.node.0) {
                    prop_assert!(written.contains(need), "n{} before n{need}", action.node.0);
                }
            }
            written.extend(plan.apply.iter().map(|action| action.node.0));
            world.apply(&plan);
        }
        prop_assert_eq!(written.len(), 7, "each once");
        let plan = world.settle();
        prop_assert!(plan.is_noop());
        prop_assert_eq!(plan.state, InstanceState::Active);
        prop_assert_eq!(Some(&world.plan().status), world.instance.get("status"));

        // Prune the ones with `includeWhen`.
        world.set_spec("{enabled: false, names: []}");
        for _ in 0..9 {
            let plan = world.plan();
            let desired: BTreeSet<_> = plan.nodes.iter().flat_map(|node| &node.objects).map(|object| object.key.clone()).collect();
            for pending in &plan.prune.delete {
                prop_assert!(!desired.contains(&pending.key));
                for (key, object) in &world.observed.objects {
                    let node: usize = object.node().unwrap()[1..].parse().unwrap();
                    let pruned: usize = pending.node[1..].parse().unwrap();
                    prop_assert!(node == pruned || desired.contains(key) || !(needs[node].contains(&pruned) && pruned < node), "{key} still depends on {}", pending.key);
                }
            }
            let pending: Vec<_> = plan.prune.delete.iter().map(|pending| pending.key.clone()).collect();
            pending.iter().for_each(|key| { world.observed.objects.remove(key); });
        }
        let plan = world.settle();
        prop_assert!(plan.is_noop());
        let skipped = plan.nodes.iter().filter(|node| matches!(node.progress, kross_plan::Progress::Skipped(_))).count();
        prop_assert_eq!(world.observed.objects.len(), 7 - skipped);
    }
}
