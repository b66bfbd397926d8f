//! Instances that are limited to their own namespace.

use kross_api::FailureReason;
use kross_plan::Settings;

use super::world::*;

/// A world whose controller limits instances to their namespace.
fn limited(resources: &str, spec: &str) -> World {
    let schema = "schema: {apiVersion: v1, kind: App, spec: {namespace: string}}\nresources:\n";
    let mut world = World::of(&format!("{schema}{resources}"), spec);
    world.settings = Settings { no_cross_namespace: true, ..world.settings };
    world
}

/// The message of the one node of a graph that is refused with the limit, and not without it.
fn refusal(resources: &str, spec: &str) -> String {
    let mut world = limited(resources, spec);
    let plan = world.plan();
    let failure = progress(&plan, "other").failure().unwrap_or_else(|| panic!("{plan:#?}")).clone();
    assert_eq!(failure.reason, FailureReason::Forbidden);
    assert!(plan.reads.is_empty() && plan.apply.is_empty(), "nothing is read or written");
    world.settings.no_cross_namespace = false;
    let plan = world.plan();
    assert!(progress(&plan, "other").failure().is_none());
    assert!(!plan.reads.is_empty() || !plan.apply.is_empty());
    failure.message.to_string()
}

#[test]
fn objects_outside_the_namespace_of_the_instance_are_refused() {
    let object = "- id: other
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: '${schema.spec.namespace}'}}
";
    assert_eq!(
        refusal(object, "{namespace: platform}"),
        "ConfigMap platform/a: in namespace `platform`, but the controller allows only objects in the instance's namespace \
         `shop` (`--no-cross-namespace`)"
    );
    let collection = "- id: other
  forEach: [{place: '${[schema.spec.namespace]}'}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${place}', namespace: '${place}'}}
";
    assert!(refusal(collection, "{namespace: platform}").contains("in namespace `platform`"));
    let binding = "- id: other
  template:
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata: {name: admin}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
";
    assert!(refusal(binding, "{namespace: shop}").contains("not limited to a namespace"));
}

#[test]
fn external_references_outside_the_namespace_of_the_instance_are_refused() {
    let reference = |metadata: &str| {
        format!("- id: other\n  externalRef: {{apiVersion: v1, kind: Secret, metadata: {metadata}}}\n")
    };
    let spec = "{namespace: kube-system}";
    let named = reference("{name: a, namespace: '${schema.spec.namespace}'}");
    assert!(refusal(&named, spec).starts_with("Secret kube-system/a: in namespace `kube-system`"));
    let selected = reference("{selector: {matchLabels: {a: b}}, namespace: '${schema.spec.namespace}'}");
    assert!(refusal(&selected, spec).starts_with("objects of kind `Secret`: in namespace `kube-system`"));
    let everywhere = reference("{selector: {matchLabels: {a: b}}}");
    assert!(refusal(&everywhere, spec).contains("not limited to a namespace"));
}

#[test]
fn the_namespace_of_the_instance_and_instances_without_one_are_not_limited() {
    let resources = "- id: own
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- id: named
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: '${schema.spec.namespace}'}}
- id: read
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {}, namespace: '${schema.metadata.namespace}'}}
";
    let plan = limited(resources, "{namespace: shop}").plan();
    assert_eq!((applied(&plan).len(), plan.reads.len()), (2, 1), "{plan:#?}");
    let definition = "schema: {apiVersion: v1, kind: App, scope: Cluster, spec: {}}
resources:
- id: other
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: platform}}
";
    let mut world = World::of(definition, "{}");
    world.settings.no_cross_namespace = true;
    assert_eq!(applied(&world.plan()), ["other"]);
}
