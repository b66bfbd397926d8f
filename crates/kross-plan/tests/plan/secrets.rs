//! What is read from a Secret does not reach messages: neither its values nor its keys.

use kross_plan::{ObservedObject, Plan};

use super::world::*;

/// A plan of a ConfigMap that is written with `value`, after the Secret `credentials` was read.
fn plan_with(kind: &str, value: &str) -> Plan {
    let mut world = World::of(
        &format!(
            r"
schema: {{apiVersion: v1, kind: App, spec: {{key: string}}}}
resources:
- id: source
  externalRef: {{apiVersion: v1, kind: {kind}, metadata: {{name: credentials}}}}
- id: copy
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: copy}}
    data: {{value: '${{{value}}}'}}
"
        ),
        "{key: requested}",
    );
    // `password: hunter2canary`
    let data = if kind == "Secret" { "aHVudGVyMmNhbmFyeQ==" } else { "hunter2canary" };
    let found = yaml(&format!(
        "{{apiVersion: v1, kind: {kind}, metadata: {{name: credentials, namespace: shop, uid: x}}, data: {{canary-key: '{data}'}}}}"
    ));
    let key = local(kind, "shop", "credentials");
    world.observed.externals.insert(key, Some(ObservedObject::new(found)));
    world.plan()
}

fn everything(plan: &Plan) -> String {
    format!("{:?} {:?} {} {:?}", plan.conditions, plan.resources, plan.message, progress(plan, "copy"))
}

#[test]
fn a_value_of_a_secret_that_cannot_be_converted_is_not_quoted() {
    let shown = everything(&plan_with("Secret", r#"string(int(string(source.data["canary-" + "key"])))"#));
    assert!(shown.contains("characters is not a valid int"), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVy"), "{shown}");
}

#[test]
fn the_keys_of_a_secret_are_not_listed() {
    for value in ["string(source.data.other)", "string(source.data[schema.spec.key])"] {
        let shown = everything(&plan_with("Secret", value));
        assert!(shown.contains("no such "), "{shown}");
        assert!(!shown.contains("canary-key") && !shown.contains("requested"), "{value}: {shown}");
    }
}

#[test]
fn the_keys_of_a_config_map_are_listed() {
    let shown = everything(&plan_with("ConfigMap", "source.data[schema.spec.key]"));
    assert!(shown.contains("no such key: requested (available: canary-key)"), "{shown}");
}

#[test]
fn the_keys_of_an_object_that_reads_a_secret_are_not_listed() {
    let mut world = World::of(
        r"
schema: {apiVersion: v1, kind: App, spec: {key: string}}
resources:
- id: source
  externalRef: {apiVersion: v1, kind: Secret, metadata: {name: credentials}}
- id: middle
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: middle}
    data: '${source.data.map(key, key).transformMapEntry(i, key, {key: key})}'
- id: copy
  template:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: copy}
    data: {value: '${middle.data[schema.spec.key]}'}
",
        "{key: requested}",
    );
    let found = yaml(
        "{apiVersion: v1, kind: Secret, metadata: {name: credentials, namespace: shop, uid: x}, data: {canary-key: eA==}}",
    );
    world.observed.externals.insert(local("Secret", "shop", "credentials"), Some(ObservedObject::new(found)));
    let plan = world.settle();
    let shown = format!("{:?} {:?} {}", plan.conditions, progress(&plan, "copy"), plan.message);
    assert!(shown.contains("no such key"), "{shown}");
    assert!(!shown.contains("canary-key") && !shown.contains("requested"), "{shown}");
}

#[test]
fn the_debug_output_of_observations_and_plans_has_no_content_of_objects() {
    let mut world = World::of(
        "schema: {apiVersion: v1, kind: App, spec: {}}
resources:
- id: source
  externalRef: {apiVersion: v1, kind: Secret, metadata: {name: credentials}}
- id: copy
  template: {apiVersion: v1, kind: Secret, metadata: {name: copy}, data: {x: '${source.data.x}'}}
",
        "{}",
    );
    let found = yaml(
        "{apiVersion: v1, kind: Secret, metadata: {name: credentials, namespace: shop, uid: u}, data: {x: Y2FuYXJ5}}",
    );
    world.observed.externals.insert(local("Secret", "shop", "credentials"), Some(ObservedObject::new(found)));
    let shown = format!("{:#?} {:#?}", world.plan(), world.observed);
    assert!(shown.contains("ObservedObject(Secret shop/credentials, uid u)"), "{shown}");
    assert!(!shown.contains("Y2FuYXJ5") && !shown.contains("canary"), "{shown}");
    world.settle();
    let shown = format!("{:#?} {:#?}", world.plan(), world.observed);
    assert!(!shown.contains("Y2FuYXJ5") && !shown.contains("canary"), "{shown}");
}
