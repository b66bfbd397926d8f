//! External references, by name and by selector.

use kross_api::InstanceState;
use kross_plan::{ExternalRead, ObservedObject, Progress};

use super::world::*;

const BY_NAME: &str = r"
schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: settings
  externalRef:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: settings}
- id: copy
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: copy}
    data: {value: '${settings.data.value}'}
";

#[test]
fn a_missing_external_object_is_waited_for_and_never_applied() {
    let mut world = World::of(BY_NAME, "{}");
    let plan = world.plan();
    let key = local("ConfigMap", "shop", "settings");
    assert_eq!(plan.reads, [ExternalRead::Object { key: key.clone(), version: "v1".into() }]);
    assert!(plan.apply.is_empty());
    world.observed.externals.insert(key.clone(), None);
    let plan = world.plan();
    assert_eq!(plan.state, InstanceState::InProgress);
    assert_eq!(
        *progress(&plan, "settings"),
        Progress::Waiting("external reference: ConfigMap shop/settings does not exist".into())
    );
    let found = yaml(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop, uid: x}, data: {value: '7'}}",
    );
    world.observed.externals.insert(key, Some(ObservedObject::new(found)));
    let plan = world.settle();
    assert_eq!(plan.state, InstanceState::Active);
    assert!(plan.inventory.values().all(|inventory| inventory.group_kinds.len() == 1));
    assert_eq!(plan.resources.len(), 2);
}

#[test]
fn an_unlisted_selector_differs_from_one_without_matches() {
    let mut world = World::of(
        r"
schema: {apiVersion: v1, kind: App, spec: {team: string}}
resources:
- id: all
  readyWhen: ['${has(each.data)}']
  externalRef:
    apiVersion: v1
    kind: ConfigMap
    metadata: {selector: {matchLabels: {team: '${schema.spec.team}'}}}
- id: names
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: names}
    data: {names: '${all.map(i, i.metadata.name).join('','')}'}
",
        "{team: blue}",
    );
    let plan = world.plan();
    assert!(matches!(progress(&plan, "all"), Progress::Waiting(_)));
    let ExternalRead::Collection(query) = plan.reads[0].clone() else { panic!("{:?}", plan.reads) };
    assert_eq!(query.selector().match_labels.unwrap()["team"], "blue");
    world.observed.collections.insert(query.clone(), Vec::new());
    assert!(progress(&world.plan(), "all").is_ready());
    let item = |name: &str| {
        ObservedObject::new(yaml(&format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: x}}, data: {{}}}}"
        )))
    };
    world.observed.collections.insert(query, vec![item("b"), item("a")]);
    world.settle();
    let names = &world.observed.objects[&local("ConfigMap", "shop", "names")].value;
    assert_eq!(names.at(&["data", "names"]).unwrap().as_str(), Some("a,b"));
}

#[test]
fn an_invalid_selector_is_an_error_and_does_not_match_everything() {
    for (given, expected) in [
        ("{matchLabel: {a: b}}", "unknown field `matchLabel`"),
        ("{matchLabels: {a: 'not one'}}", "`not one` is not a valid label value"),
        ("{matchExpressions: [{key: a, operator: Like}]}", "found `Like`"),
        ("{matchLabels: {a: 1}}", "invalid type"),
    ] {
        let world = World::of(
            r"
schema: {apiVersion: v1, kind: App, spec: {chosen: object}}
resources:
- id: all
  externalRef:
    apiVersion: v1
    kind: ConfigMap
    metadata: {selector: '${schema.spec.chosen}'}
",
            &format!("{{chosen: {given}}}"),
        );
        let plan = world.plan();
        assert_eq!(plan.state, InstanceState::Error, "{given}");
        assert!(plan.reads.is_empty(), "{given}");
        assert!(
            plan.message.contains("`externalRef.metadata.selector` is not a label selector"),
            "{}",
            plan.message
        );
        assert!(plan.message.contains(expected), "{}", plan.message);
    }
}
