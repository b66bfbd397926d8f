//! Reserved labels, annotations and finalizers that expressions return.

use kross_api::{FailureReason, annotations, labels};
use kross_plan::Plan;
use kross_value::Value;

use super::world::*;

/// A world with one ConfigMap, whose metadata has these fields besides its name.
fn world(metadata: &str, spec: &str) -> World {
    let schema =
        "schema: {apiVersion: v1, kind: App, spec: {labels: 'map[string]string', names: '[]string'}}";
    World::of(
        &format!(
            "{schema}\nresources:\n- id: made\n  template:\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {{name: a, {metadata}}}\n"
        ),
        spec,
    )
}

fn refusal(metadata: &str, spec: &str) -> String {
    let plan = world(metadata, spec).plan();
    let failure = progress(&plan, "made").failure().unwrap_or_else(|| panic!("{plan:#?}")).clone();
    assert_eq!(failure.reason, FailureReason::Expression);
    assert!(plan.apply.is_empty(), "nothing is written");
    failure.message.to_string()
}

fn desired(plan: &Plan, id: &str) -> Value {
    let node = plan.nodes.iter().find(|node| node.id == *id).unwrap();
    node.objects[0].desired.clone().unwrap_or_else(|| panic!("{plan:#?}"))
}

fn set_metadata(world: &mut World, field: &str, value: &str) {
    let metadata = world.instance.as_object_mut().unwrap().get_mut("metadata").unwrap();
    metadata.as_object_mut().unwrap().insert(field, yaml(value));
}

#[test]
fn reserved_keys_from_the_spec_of_an_instance_are_refused() {
    assert_eq!(
        refusal(
            "labels: '${schema.spec.labels}'",
            "{labels: {team: a, kro.run/cluster-credentials: 'true'}}"
        ),
        "ConfigMap shop/a: `metadata.labels` has the label `kro.run/cluster-credentials`, which is reserved: the controller \
         alone sets it; remove it from what the expression returns, or use another prefix"
    );
    assert!(
        refusal("annotations: '${schema.spec.labels}'", "{labels: {kro.run/allowed-namespaces: '*'}}")
            .contains("`metadata.annotations` has the annotation `kro.run/allowed-namespaces`")
    );
    for key in ["internal.kro.run/copy-of", "applyset.kubernetes.io/part-of", "kro.run/node-id"] {
        let spec = format!("{{labels: {{{key}: x}}}}");
        assert!(refusal("labels: '${schema.spec.labels}'", &spec).contains(&format!("`{key}`")));
        assert!(refusal("annotations: '${schema.spec.labels}'", &spec).contains(&format!("`{key}`")));
    }
    assert!(
        refusal("finalizers: '${schema.spec.names}'", "{names: [a/b, kro.run/finalizer]}")
            .contains("`metadata.finalizers` has the finalizer `kro.run/finalizer`")
    );
}

#[test]
fn bookkeeping_that_was_copied_from_the_metadata_of_the_instance_is_left_out() {
    let metadata = "labels: '${schema.metadata.labels}', annotations: '${schema.metadata.annotations}'";
    let mut world = world(metadata, "{}");
    let own_labels = "{team: a, kro.run/owned: 'true', kro.run/resource-graph-definition-id: x, \
        applyset.kubernetes.io/id: applyset-x-v1, kro.run/node-id: parent, kro.run/collection-index: '3'}";
    set_metadata(&mut world, "labels", own_labels);
    set_metadata(
        &mut world,
        "annotations",
        "{note: b, kro.run/abandon-cluster: '*', internal.kro.run/cluster-inventory: x, applyset.kubernetes.io/tooling: kro/1}",
    );
    let plan = world.plan();
    let object = desired(&plan, "made");
    let entry = |map: &str, key: &str| object.at(&["metadata", map]).and_then(|map| map.get(key).cloned());
    assert_eq!(entry("labels", "team"), Some("a".into()));
    assert_eq!(entry("annotations", "note"), Some("b".into()));
    assert_eq!(entry("labels", labels::NODE_ID), Some("made".into()), "that of the object itself");
    for key in
        ["kro.run/resource-graph-definition-id", "applyset.kubernetes.io/id", "kro.run/collection-index"]
    {
        assert_eq!(entry("labels", key), None, "{key}");
    }
    for key in [annotations::ABANDON_CLUSTER, annotations::CLUSTER_INVENTORY, annotations::APPLYSET_TOOLING] {
        assert_eq!(entry("annotations", key), None, "{key}");
    }
    // The same key with another value was not copied.
    set_metadata(&mut world, "labels", "{kro.run/owned: 'true'}");
    world.set_spec("{labels: {kro.run/owned: 'false'}}");
    assert!(progress(&world.plan(), "made").failure().is_none());
}

#[test]
fn bookkeeping_that_was_copied_from_another_object_is_left_out() {
    let definition = "schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: first
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {team: a}}}
- id: made
  forEach: [{index: '${[0, 1]}'}]
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: 'b${string(index)}', labels: '${first.metadata.labels}', annotations: '${first.metadata.annotations}'}
";
    let mut world = World::of(definition, "{}");
    let plan = world.settle();
    assert!(plan.is_noop(), "{plan:#?}");
    let object = desired(&plan, "made");
    assert_eq!(object.at(&["metadata", "labels", "team"]), Some(&"a".into()));
    let text = object.to_string();
    assert!(text.contains(r#""kro.run/node-id":"made""#) && !text.contains(r#""first""#), "{text}");
}

#[test]
fn labels_of_pod_templates_and_other_prefixes_are_free() {
    let definition = "schema: {apiVersion: v1, kind: App, spec: {labels: 'map[string]string'}}
resources:
- id: made
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: a}
    spec:
      selector: {matchLabels: {app: a}}
      template: {metadata: {labels: '${schema.spec.labels}'}, spec: {containers: [{name: a, image: a}]}}
";
    let plan = World::of(definition, "{labels: {kro.run/owned: 'true', app: a}}").plan();
    assert_eq!(applied(&plan), ["made"]);
    let plan = world("labels: '${schema.spec.labels}'", "{labels: {example.org/kro.run: a}}").plan();
    assert_eq!(applied(&plan), ["made"]);
}

#[test]
fn a_reserved_key_that_was_read_from_a_secret_is_not_shown() {
    let definition = "schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: secret
  externalRef: {apiVersion: v1, kind: Secret, metadata: {name: s}}
- id: made
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: a, labels: '${secret.data.transformMapEntry(k, v, {\"kro.run/\" + k: \"x\"})}'}
";
    let mut world = World::of(definition, "{}");
    let secret = yaml(
        "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop, uid: u}, data: {hunter2: aGk=}}",
    );
    let key = local("Secret", "shop", "s");
    world.observed.externals.insert(key, Some(kross_plan::ObservedObject::new(secret)));
    let plan = world.plan();
    let message = progress(&plan, "made").failure().unwrap_or_else(|| panic!("{plan:#?}")).message.clone();
    assert!(message.contains("a key with the prefix `kro.run/`"), "{message}");
    assert!(!plan.status.to_string().contains("hunter2") && !message.contains("hunter2"));
}
