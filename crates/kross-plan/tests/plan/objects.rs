//! Single objects: rendering, dependencies, `includeWhen`, `readyWhen` and ownership.

use kross_api::{FailureReason, InstanceState, annotations, labels};
use kross_plan::{Progress, Skip};
use kross_value::Value;

use super::world::*;

pub(crate) const CHAIN: &str = r"
schema:
  apiVersion: v1
  kind: App
  spec:
    text: string
    extra: boolean | default=false
resources:
- id: first
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: '${schema.metadata.name}-first'}
    data: {text: '${schema.spec.text}'}
- id: second
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: '${first.metadata.name}-second'}
    data: {uid: '${first.metadata.uid}'}
- id: third
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: third}
    data: {from: '${second.data.uid}'}
";

#[test]
fn a_chain_is_applied_in_order_in_one_reconcile() {
    let mut world = World::of(CHAIN, "{text: hello}");
    let mut seen = Vec::new();
    for _ in 0..4 {
        let plan = world.plan();
        seen.extend(applied(&plan).into_iter().map(str::to_owned));
        world.apply(&plan);
    }
    assert_eq!(seen, ["first", "second", "third"]);
    let plan = world.plan();
    assert!(plan.is_noop());
    assert_eq!(plan.state, InstanceState::Active);
    assert_eq!(condition(&plan, "Ready"), ("True".into(), "Ready".into(), String::new()));
}

#[test]
fn children_carry_kros_labels_and_annotations() {
    let mut world = World::of(CHAIN, "{text: hello}");
    world.settle();
    let key = local("ConfigMap", "shop", "app-first");
    let object = &world.observed.objects[&key];
    let expected = [
        (labels::OWNED, "true"),
        (labels::KRO_VERSION, "devel"),
        (labels::INSTANCE_ID, "u-1"),
        (labels::INSTANCE_NAME, "app"),
        (labels::INSTANCE_NAMESPACE, "shop"),
        (labels::INSTANCE_GROUP, "kro.run"),
        (labels::INSTANCE_VERSION, "v1"),
        (labels::INSTANCE_KIND, "App"),
        (labels::MANAGED_BY, "kro"),
        (labels::NODE_ID, "first"),
    ];
    for (label, value) in expected {
        assert_eq!(object.label(label), Some(value), "{label}");
    }
    let applyset = kross_api::applyset_id("app", "shop", "App", "kro.run");
    assert_eq!(object.part_of(), Some(applyset.as_str()));
    let count = object.value.at(&["metadata", "labels"]).unwrap().as_object().unwrap().len();
    assert_eq!(count, expected.len() + 1, "and nothing else");
    assert_eq!(object.annotation(annotations::APPLY_ORDER), Some("1"));
    assert!(object.annotation(annotations::LIFECYCLE).is_none());
    let third = &world.observed.objects[&local("ConfigMap", "shop", "third")];
    assert_eq!(third.annotation(annotations::APPLY_ORDER), Some("3"));
}

#[test]
fn dependents_say_what_they_wait_for() {
    let world = World::of(CHAIN, "{text: hello}");
    let plan = world.plan();
    assert_eq!(*progress(&plan, "second"), Progress::Blocked { by: vec!["first".into()] });
    assert_eq!(plan.state, InstanceState::InProgress);
    let (status, reason, message) = condition(&plan, "ResourcesReady");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NotReady"));
    assert_eq!(
        message,
        "resource reconciliation failed: waiting for unresolved resource: `second` waits for `first`: being applied"
    );
}

#[test]
fn applies_only_drifted_and_changed_objects_again() {
    let mut world = World::of(CHAIN, "{text: hello}");
    world.settle();
    world.object_mut("third").drifted = true;
    assert_eq!(applied(&world.plan()), ["third"]);
    world.settle();
    world.set_spec("{text: bye}");
    assert_eq!(applied(&world.plan()), ["first"]);
}

const INCLUDED: &str = r"
schema:
  apiVersion: v1
  kind: App
  spec:
    enabled: boolean | default=true
resources:
- id: base
  includeWhen: ['${schema.spec.enabled}']
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: base}
    data: {ready: 'true'}
- id: dependent
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: dependent}
    data: {name: '${base.metadata.name}'}
- id: chosen
  includeWhen: ['${base.data.ready == ''true''}']
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: chosen}
- id: free
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: free}
";

#[test]
fn skipping_a_node_skips_its_dependents() {
    let mut world = World::of(INCLUDED, "{enabled: false}");
    let plan = world.settle();
    assert_eq!(*progress(&plan, "base"), Progress::Skipped(Skip::Condition("schema.spec.enabled".into())));
    assert_eq!(*progress(&plan, "dependent"), Progress::Skipped(Skip::Dependency("base".into())));
    assert!(matches!(progress(&plan, "chosen"), Progress::Skipped(_)));
    assert_eq!(plan.state, InstanceState::Active);
    assert_eq!(world.observed.objects.len(), 1);
}

#[test]
fn include_when_waits_for_the_resource_it_reads() {
    let mut world = World::of(INCLUDED, "{enabled: true}");
    let plan = world.plan();
    assert_eq!(*progress(&plan, "chosen"), Progress::Blocked { by: vec!["base".into()] });
    let plan = world.settle();
    assert!(progress(&plan, "chosen").is_ready());
}

#[test]
fn an_object_that_is_no_longer_included_is_pruned() {
    let mut world = World::of(INCLUDED, "{enabled: true}");
    world.settle();
    world.set_spec("{enabled: false}");
    let plan = world.plan();
    // `dependent` and `chosen` are in a higher layer.
    let names: Vec<&str> = plan.prune.delete.iter().map(|pending| pending.key.name.as_str()).collect();
    assert_eq!(names, ["chosen", "dependent"]);
    assert_eq!(plan.state, InstanceState::Active);
}

const READY: &str = r"
schema:
  apiVersion: v1
  kind: App
  spec: {}
resources:
- id: web
  readyWhen: ['${web.status.availableReplicas == 1}']
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: nginx}]}
- id: after
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: after}
    data: {replicas: '${string(web.status.availableReplicas)}'}
";

#[test]
fn an_object_is_ready_when_ready_when_holds() {
    let mut world = World::of(READY, "{}");
    let plan = world.settle();
    let Progress::Waiting(message) = progress(&plan, "web") else { panic!("{:?}", progress(&plan, "web")) };
    assert!(message.contains("`readyWhen` waits for data: `web.status.availableReplicas == 1`"), "{message}");
    let (_, _, message) = condition(&plan, "ResourcesReady");
    assert!(
        message.contains(
            "waiting for unresolved resource: `after` waits for `web`: Deployment shop/web: `readyWhen`"
        ),
        "{message}"
    );
    assert!(message.ends_with(" (since 2027-01-15T08:00:00Z)"), "{message}");
    world.set_status("web", "{availableReplicas: 0}");
    let plan = world.plan();
    assert_eq!(
        *progress(&plan, "web"),
        Progress::Waiting("`readyWhen` is false: `web.status.availableReplicas == 1`".into())
    );
    world.set_status("web", "{availableReplicas: 1}");
    let plan = world.settle();
    assert_eq!(plan.state, InstanceState::Active);
    assert_eq!(
        world.observed.objects[&local("ConfigMap", "shop", "after")].value.at(&["data", "replicas"]),
        Some(&Value::from("1"))
    );
}

#[test]
fn a_terminating_object_blocks_its_dependents_and_is_named() {
    let mut world = World::of(CHAIN, "{text: hello}");
    world.settle();
    world.terminate("app-first");
    world.set_spec("{text: other}");
    let plan = world.plan();
    assert!(plan.apply.is_empty(), "a terminating object is not applied");
    assert_eq!(plan.state, InstanceState::InProgress);
    let (_, reason, message) = condition(&plan, "ResourcesReady");
    assert_eq!(reason, "ResourceDeleting");
    assert!(
        message.starts_with(r#"resource "shop/app-first" for node "first" is currently being deleted; "#),
        "{message}"
    );
}

#[test]
fn an_object_of_another_applyset_is_not_adopted() {
    let mut world = World::of(CHAIN, "{text: hello}");
    world.settle();
    let object = world.object_mut("app-first");
    let labels = object.value.as_object_mut().unwrap().get_mut("metadata").unwrap().as_object_mut().unwrap();
    let labels = labels.get_mut("labels").unwrap().as_object_mut().unwrap();
    labels.insert(labels::APPLYSET_PART_OF, Value::from("applyset-other-v1"));
    let plan = world.plan();
    assert!(plan.apply.is_empty());
    assert_eq!(plan.state, InstanceState::Error);
    let (_, _, message) = condition(&plan, "ResourcesReady");
    assert!(
        message.starts_with("resource error: `first`: resource belongs to a different ApplySet"),
        "{message}"
    );
}

#[test]
fn an_existing_object_without_an_owner_is_adopted() {
    let mut world = World::of(CHAIN, "{text: hello}");
    let key = local("ConfigMap", "shop", "app-first");
    world
        .store(&key, yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: app-first, namespace: shop}}"));
    let plan = world.plan();
    assert_eq!(applied(&plan), ["first"]);
    assert!(!plan.apply[0].create);
}

#[test]
fn a_failed_apply_is_named_and_blocks_only_its_dependents() {
    let mut world = World::of(
        &format!(
            "{CHAIN}- id: free\n  template:\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {{name: free}}\n"
        ),
        "{text: hello}",
    );
    let plan = world.plan();
    world.apply(&plan);
    world.observed.objects.remove(&local("ConfigMap", "shop", "app-first"));
    world.fail(&plan, "first", FailureReason::Invalid, "denied by policy: no");
    let plan = world.plan();
    assert_eq!(plan.state, InstanceState::Error);
    assert!(plan.apply.iter().all(|action| action.retry));
    assert!(progress(&plan, "free").is_ready());
    let (_, _, message) = condition(&plan, "ResourcesReady");
    assert_eq!(
        message,
        "resource error: `first`: cannot create ConfigMap shop/app-first: denied by policy: no (since 2027-01-15T08:00:00Z)"
    );
    world.observed.failures.clear();
    assert_eq!(world.settle().state, InstanceState::Active);
}

#[test]
fn an_empty_namespace_is_named() {
    let world = World::of(
        r"
schema: {apiVersion: v1, kind: App, spec: {space: string}}
resources:
- id: a
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: a, namespace: '${schema.spec.space}'}
",
        "{space: ''}",
    );
    let plan = world.plan();
    let (_, _, message) = condition(&plan, "ResourcesReady");
    assert!(message.contains("`metadata.namespace` of `a` is empty"), "{message}");
    assert_eq!(plan.state, InstanceState::Error);
}

#[test]
fn two_nodes_with_the_same_object_are_a_conflict() {
    let world = World::of(
        r"
schema: {apiVersion: v1, kind: App, spec: {one: string, two: string}}
resources:
- id: a
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.one}'}}
- id: b
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.two}'}}
- id: c
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
",
        "{one: same, two: same}",
    );
    let plan = world.plan();
    assert_eq!(applied(&plan), ["c"]);
    let (_, _, message) = condition(&plan, "ResourcesReady");
    assert!(
        message.contains("found resources with conflicts: ConfigMap shop/same is desired by `a` and `b`"),
        "{message}"
    );
}

#[test]
fn missing_data_is_pending_and_a_wrong_expression_is_an_error() {
    let definition = |expression: &str| {
        format!(
            r"
schema: {{apiVersion: v1, kind: App, spec: {{number: integer}}}}
resources:
- id: source
  template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: source}}}}
- id: reader
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: reader}}
    data: {{value: '{expression}'}}
"
        )
    };
    let mut world = World::of(&definition("${source.data.key}"), "{number: 0}");
    let plan = world.settle();
    assert_eq!(plan.state, InstanceState::InProgress);
    let Progress::Unresolved(message) = progress(&plan, "reader") else {
        panic!("{:?}", progress(&plan, "reader"))
    };
    assert!(message.contains("source.data.key"), "{message}");
    let mut world = World::of(&definition("${string(10 / schema.spec.number)}"), "{number: 0}");
    let plan = world.settle();
    assert_eq!(plan.state, InstanceState::Error);
    let (_, _, message) = condition(&plan, "ResourcesReady");
    assert!(message.contains("division by zero"), "{message}");
}

#[test]
fn an_instance_name_that_is_too_long_for_a_label_is_in_an_annotation() {
    const ONE: &str = r"
schema: {apiVersion: v1, kind: App, scope: Cluster, spec: {}}
resources:
- id: space
  template: {apiVersion: v1, kind: Namespace, metadata: {name: space}}
";
    let marks = |name: &str| {
        let mut world = World::of(ONE, "{}");
        let mut instance = serde_json::Value::from(&world.instance);
        instance["metadata"]["name"] = name.into();
        world.instance = instance.into();
        world.settle();
        let object = &world.observed.objects[&local("Namespace", "", "space")];
        let label = object.label(labels::INSTANCE_NAME).unwrap().to_owned();
        (label, object.annotation(annotations::INSTANCE_NAME).map(str::to_owned))
    };
    let short = "a".repeat(63);
    assert_eq!(marks(&short), (short, None));
    let long = format!("{}.b", "a".repeat(63));
    let (label, annotation) = marks(&long);
    assert_eq!(annotation, Some(long));
    assert!(label.len() <= 63 && label.starts_with("aaaa"), "{label}");
    assert_ne!(label, marks(&format!("{}.c", "a".repeat(63))).0);
}

#[test]
fn cluster_scoped_instances_have_no_namespace_label() {
    let mut world = World::of(
        r"
schema: {apiVersion: v1, kind: App, scope: Cluster, spec: {}}
resources:
- id: space
  template: {apiVersion: v1, kind: Namespace, metadata: {name: space}}
",
        "{}",
    );
    let plan = world.settle();
    assert_eq!(plan.state, InstanceState::Active);
    let object = &world.observed.objects[&local("Namespace", "", "space")];
    assert_eq!(object.label(labels::INSTANCE_NAMESPACE), None);
    assert_eq!(object.namespace(), None);
}

/// Whoever controls a cluster chooses the values in its objects.
#[test]
fn an_expression_in_a_value_of_a_cluster_is_data_wherever_it_is_copied() {
    let definition = r"
schema:
  apiVersion: v1
  kind: App
  spec:
    password: string
  status:
    copied: ${source.data.text}
resources:
- id: source
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: source}
- id: copy
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: copy}
    data: {text: '${source.data.text}', longer: 'from ${source.data.text}'}
";
    let injected = "${schema.spec.password} {{ .Values.password }}";
    let mut world = World::of(definition, "{password: hunter2}");
    world.settle();
    let mut source = world.observed.objects[&local("ConfigMap", "shop", "source")].value.clone();
    let data = Value::object([("text", Value::from(injected))]);
    source.as_object_mut().unwrap().insert("data", data);
    world.store(&local("ConfigMap", "shop", "source"), source);
    let plan = world.settle();
    let copy = &world.observed.objects[&local("ConfigMap", "shop", "copy")].value;
    assert_eq!(copy.at(&["data", "text"]), Some(&Value::from(injected)));
    assert_eq!(copy.at(&["data", "longer"]), Some(&Value::from(format!("from {injected}"))));
    assert_eq!(plan.status.get("copied"), Some(&Value::from(injected)));
    assert!(!format!("{copy} {}", plan.status).contains("hunter2"));
}
