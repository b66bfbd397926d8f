//! What is recorded in the inventory before the first apply.

use kross_api::ClusterId;

use super::world::*;

const CHAIN: &str = r"
schema: {apiVersion: v1, kind: App, spec: {replicas: 'integer | default=1'}}
resources:
- id: config
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: config}, data: {x: '1'}}
- id: web
  READY
  template:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: '${config.metadata.name}'}
    spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: []}}}
- id: service
  INCLUDE
  template: {apiVersion: v1, kind: Service, metadata: {name: service PLACE}, spec: {selector: {app: '${READ}'}}}
";

/// The kinds that are recorded before the first apply.
fn kinds(ready: &str, include: &str, place: &str, read: &str) -> Vec<String> {
    let definition = CHAIN.replace("READY", ready).replace("INCLUDE", include);
    let world = World::of(&definition.replace("PLACE", place).replace("READ", read), "{}");
    let plan = world.plan();
    assert_eq!(applied(&plan), ["config"]);
    plan.inventory[&ClusterId::local()].group_kinds.iter().map(ToString::to_string).collect()
}

const LABEL: &str = "web.spec.selector.matchLabels.app";

#[test]
fn records_kinds_that_follow_in_the_same_reconcile_at_once() {
    assert_eq!(kinds("", "", "", LABEL), ["ConfigMap", "Deployment.apps", "Service"]);
}

#[test]
fn records_uncertain_kinds_when_they_are_planned() {
    let two = ["ConfigMap", "Deployment.apps"];
    assert_eq!(
        kinds("", "", "", "string(web.status.replicas)"),
        two,
        "it reads a field that another controller sets"
    );
    assert_eq!(
        kinds("readyWhen: ['${web.status.replicas == 1}']", "", "", LABEL),
        two,
        "it waits for `readyWhen`"
    );
    assert_eq!(
        kinds("", "includeWhen: ['${config.data.x == string(1)}']", "", LABEL),
        two,
        "it may be skipped"
    );
    assert_eq!(
        kinds("", "", ", namespace: '${config.data.x}'", LABEL),
        two,
        "it may be in another namespace"
    );
}
