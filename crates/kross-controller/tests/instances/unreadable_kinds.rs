//! Kinds that the controller may not list: only resources of such a kind fail, and it stays in the inventory.

use k8s_openapi::api::core::v1::ReplicationController;
use kross_testing::{Action, Answer, Requests, wait};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, config_map};

/// The response to a user who may not list objects of this kind.
fn forbidden(plural: &str) -> Action {
    let message = format!("{plural} is forbidden: User \"kross\" cannot list {plural}");
    Action::Answer(Answer::status(403).message(&message))
}

fn message(instance: &Json, kind: &str) -> String {
    condition(instance, kind)["message"].as_str().unwrap_or_default().to_owned()
}

/// A resource that is included if `spec.more` is true.
fn optional(kind: &str, body: Json) -> Json {
    let mut template =
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "${schema.metadata.name}"}});
    template.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    json!({"id": "more", "includeWhen": ["${schema.spec.more}"], "template": template})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_kind_blocks_only_the_nodes_of_that_kind() {
    let bystander = World::new("Uninvolved", json!({"spec": {}}), json!([])).await;
    let rule = bystander.proxy.on(Requests::any().resource("podtemplates"), forbidden("podtemplates"));
    let template =
        optional("PodTemplate", json!({"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}));
    let resources = json!([template, config_map("map", json!({}))]);
    let world =
        World::new("UsesPodTemplates", json!({"spec": {"more": "boolean | default=false"}}), resources).await;
    // An instance that does not include the resource does not need the kind.
    world.create("without", json!({})).await;
    world.until_state("without", "ACTIVE").await;
    // An instance that includes it creates everything else, and reports the kind that cannot be read.
    world.create("with", json!({"more": true})).await;
    let failed = world.until_state("with", "ERROR").await;
    let text = message(&failed, "ResourcesReady");
    assert!(text.starts_with("resource error: `more`: cannot watch PodTemplate"), "{text}");
    assert!(text.contains("cannot list podtemplates") && text.contains("kross rbac"), "{text}");
    wait::until_object(&world.config_maps, "with-map", |_| true).await;
    // An instance that never had objects of the kind is deleted without listing them.
    world.create("unused", json!({"more": true})).await;
    world.until_state("unused", "ERROR").await;
    world.delete("unused").await;
    wait::until_deleted(&world.instances, "unused").await;
    bystander.proxy.remove(rule);
    world.until_state("with", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_kind_fails_only_the_instances_that_use_it() {
    let others = World::new("Unlimited", json!({"spec": {}}), json!([config_map("map", json!({}))])).await;
    let forbidden =
        Answer::status(403).message("resourcequotas is forbidden: User \"kross\" cannot list resourcequotas");
    // A kind that no other test uses.
    let rule = others.proxy.on(Requests::any().resource("resourcequotas"), Action::Answer(forbidden));
    let limits = json!({"id": "limits", "template": {"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "${schema.metadata.name}"}, "spec": {"hard": {"pods": "2"}}}});
    let world = World::new("Limited", json!({"spec": {}}), json!([limits])).await;
    world.create("x", json!({})).await;
    let failed = world.until("x", |instance| condition(instance, "Ready")["status"] == "False").await;
    let message = condition(&failed, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("ResourceQuota") && message.contains("cannot list resourcequotas"), "{message}");
    others.create("y", json!({})).await;
    others.until_state("y", "ACTIVE").await;
    others.proxy.remove(rule);
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_a_kind_that_became_unreadable_in_the_inventory() {
    let spec = json!({"replicas": 0, "selector": {"a": "b"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}});
    let resources =
        json!([optional("ReplicationController", json!({"spec": spec})), config_map("map", json!({}))]);
    let world = World::new("KindLost", json!({"spec": {"more": "boolean | default=true"}}), resources).await;
    let kind = "replicationcontrollers";
    for name in ["changed", "deleted"] {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let rule = world.proxy.on(Requests::any().resource(kind), forbidden(kind));
    world.proxy.cut_connections();
    world.patch("changed", json!({"spec": {"more": false}})).await;
    let failed = world.until_state("changed", "ERROR").await;
    let text = message(&failed, "Ready");
    assert!(text.contains("`ReplicationController`") && text.contains("to prune"), "{text}");
    // The deletion of the other instance is blocked, and reports why.
    world.delete("deleted").await;
    let failed = world
        .until("deleted", |instance| message(instance, "ResourcesReady").starts_with("deletion blocked: "))
        .await;
    assert_eq!(failed["status"]["state"], "DELETING");
    assert!(message(&failed, "ResourcesReady").contains("cannot list replicationcontrollers"));
    world.proxy.remove(rule);
    wait::until_deleted(&world.instances, "deleted").await;
    world.until_state("changed", "ACTIVE").await;
    let controllers: Api<ReplicationController> =
        Api::namespaced(world.objects.client.clone(), &world.namespace);
    assert_eq!(controllers.list(&ListParams::default()).await.unwrap().items, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_an_external_object_that_may_not_be_read() {
    let bystander = World::new("Onlooker", json!({"spec": {}}), json!([])).await;
    let rule = bystander.proxy.on(Requests::any().resource("serviceaccounts"), forbidden("serviceaccounts"));
    let outside = json!({"id": "account",
        "externalRef": {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}});
    let all = json!({"id": "accounts", "externalRef": {"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"selector": {"matchLabels": {"a": "b"}}}}});
    let resources = json!([
        outside,
        all,
        config_map("free", json!({})),
        config_map("bound", json!({"name": "${account.metadata.name}", "all": "${string(accounts.size())}"}))
    ]);
    let world = World::new("ForbiddenExternal", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let failed = world.until_state("x", "ERROR").await;
    let text = message(&failed, "ResourcesReady");
    assert!(text.starts_with("resource error: `account`: cannot "), "{text}");
    assert!(text.contains("cannot list serviceaccounts") && text.contains("(and 1 more)"), "{text}");
    wait::until_object(&world.config_maps, "x-free", |_| true).await;
    bystander.proxy.remove(rule);
    // The kind can be read now, and the object does not exist.
    let failed = world.until_state("x", "IN_PROGRESS").await;
    assert!(message(&failed, "ResourcesReady").contains("does not exist"));
}
