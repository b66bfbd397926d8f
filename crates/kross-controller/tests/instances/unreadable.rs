//! Kinds that the controller may not read: what does not need them goes on, what does says so, and nothing is forgotten.

use k8s_openapi::api::core::v1::ReplicationController;
use kross_testing::{Action, Answer, Requests, wait};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, config_map};

/// An answer to who may not list objects of this kind.
fn refusal(plural: &str) -> Action {
    let message = format!("{plural} is forbidden: User \"kross\" cannot list {plural}");
    Action::Answer(Answer::status(403).message(&message))
}

fn message(instance: &Json, kind: &str) -> String {
    condition(instance, kind)["message"].as_str().unwrap_or_default().to_owned()
}

/// Something that is there where the instance asks for it.
fn optional(kind: &str, body: Json) -> Json {
    let mut template =
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "${schema.metadata.name}"}});
    template.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    json!({"id": "more", "includeWhen": ["${schema.spec.more}"], "template": template})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_may_not_be_read_holds_up_only_the_nodes_of_that_kind() {
    let bystander = World::new("Uninvolved", json!({"spec": {}}), json!([])).await;
    let rule = bystander.proxy.on(Requests::any().resource("podtemplates"), refusal("podtemplates"));
    let template =
        optional("PodTemplate", json!({"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}));
    let resources = json!([template, config_map("map", json!({}))]);
    let world = World::new("Picky", json!({"spec": {"more": "boolean | default=false"}}), resources).await;
    // Who leaves it out does not need it.
    world.create("without", json!({})).await;
    world.until_state("without", "ACTIVE").await;
    // Who does need it makes everything else, and says what cannot be read.
    world.create("with", json!({"more": true})).await;
    let said = world.until_state("with", "ERROR").await;
    let text = message(&said, "ResourcesReady");
    assert!(text.starts_with("resource error: `more`: cannot watch PodTemplate"), "{text}");
    assert!(text.contains("cannot list podtemplates") && text.contains("kross rbac"), "{text}");
    wait::until_object(&world.config_maps, "with-map", |_| true).await;
    // It never had any, and goes without a look at them.
    world.create("leaving", json!({"more": true})).await;
    world.until_state("leaving", "ERROR").await;
    world.delete("leaving").await;
    wait::until_gone(&world.instances, "leaving").await;
    bystander.proxy.remove(rule);
    world.until_state("with", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_left_of_a_kind_that_cannot_be_read_any_more_is_not_forgotten() {
    let spec = json!({"replicas": 0, "selector": {"a": "b"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}});
    let resources =
        json!([optional("ReplicationController", json!({"spec": spec})), config_map("map", json!({}))]);
    let world = World::new("Mindful", json!({"spec": {"more": "boolean | default=true"}}), resources).await;
    let kind = "replicationcontrollers";
    for name in ["changed", "deleted"] {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let rule = world.proxy.on(Requests::any().resource(kind), refusal(kind));
    world.proxy.cut_connections();
    world.patch("changed", json!({"spec": {"more": false}})).await;
    let said = world.until_state("changed", "ERROR").await;
    let text = message(&said, "Ready");
    assert!(text.contains("`ReplicationController`") && text.contains("to prune"), "{text}");
    // Who is to go says why it does not.
    world.delete("deleted").await;
    let said = world
        .until("deleted", |instance| message(instance, "ResourcesReady").starts_with("deletion blocked: "))
        .await;
    assert_eq!(said["status"]["state"], "DELETING");
    assert!(message(&said, "ResourcesReady").contains("cannot list replicationcontrollers"));
    world.proxy.remove(rule);
    wait::until_gone(&world.instances, "deleted").await;
    world.until_state("changed", "ACTIVE").await;
    let left: Api<ReplicationController> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    assert_eq!(left.list(&ListParams::default()).await.unwrap().items, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_object_that_may_not_be_read_is_an_error_that_says_so() {
    let bystander = World::new("Onlooker", json!({"spec": {}}), json!([])).await;
    let rule = bystander.proxy.on(Requests::any().resource("serviceaccounts"), refusal("serviceaccounts"));
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
    let world = World::new("Unadmitted", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let said = world.until_state("x", "ERROR").await;
    let text = message(&said, "ResourcesReady");
    assert!(text.starts_with("resource error: `account`: cannot "), "{text}");
    assert!(text.contains("cannot list serviceaccounts") && text.contains("(and 1 more)"), "{text}");
    wait::until_object(&world.config_maps, "x-free", |_| true).await;
    bystander.proxy.remove(rule);
    // It may be read now, and is not there.
    let said = world.until_state("x", "IN_PROGRESS").await;
    assert!(message(&said, "ResourcesReady").contains("does not exist"));
}
