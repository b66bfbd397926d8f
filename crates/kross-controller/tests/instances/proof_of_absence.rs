//! What counts as proof that an object in the hub was deleted: nothing that only something in front of the API server would
//! answer.

use k8s_openapi::api::core::v1::Secret;
use kross_testing::{Action, Answer, Requests, Verb, wait};
use kube::Api;
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, config_map};

fn lists(world: &World, resource: &str) -> Requests {
    Requests::any().verb(Verb::List).resource(resource).namespace(&world.namespace)
}

fn message(instance: &Json, kind: &str) -> String {
    condition(instance, kind)["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_finalizer_while_lists_of_the_hub_prove_nothing() {
    let world = World::new("HubProof", json!({"spec": {}}), json!([config_map("app", json!({}))])).await;
    let answers = [
        ("bare", Answer::bare(404)),
        ("status", Answer::status(404)),
        ("page", Answer::html(200)),
        ("empty", Answer::json(200, &json!({"items": []}))),
    ];
    for (name, answer) in answers {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
        let rule = world.proxy.on(lists(&world, "configmaps"), Action::Answer(answer));
        world.delete(name).await;
        let blocked = world
            .until(name, |instance| {
                let message = message(instance, "ResourcesReady");
                message.starts_with("deletion blocked: ") && message.contains("ConfigMap")
            })
            .await;
        assert_eq!(blocked["metadata"]["finalizers"], json!(["kro.run/finalizer"]), "{name}");
        assert!(message(&blocked, "ResourcesReady").contains("load balancer"), "{name}: {blocked:#}");
        assert!(world.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_some(), "{name}");
        world.proxy.remove(rule);
        wait::until_deleted(&world.instances, name).await;
        assert!(world.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_a_kind_in_the_inventory_while_its_objects_cannot_be_listed() {
    let secret = json!({"id": "s", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-s"}}});
    let (kept, removed) = (config_map("kept", json!({})), config_map("removed", json!({})));
    let world = World::new("LeftoverProof", json!({"spec": {}}), json!([kept, removed, secret])).await;
    let secrets: Api<Secret> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    // Both nodes leave the graph, and nothing but a list could tell whether there is a Secret.
    let rule = world.proxy.on(lists(&world, "secrets"), Action::Answer(Answer::bare(404)));
    world.objects.patch("leftoverproof", &json!({"spec": {"resources": [kept]}})).await;
    world
        .until("x", |instance| {
            let message = message(instance, "GraphResolved");
            message.contains("Secret") && message.contains("404") && message.contains("load balancer")
        })
        .await;
    world.proxy.remove(rule);
    wait::until_deleted(&secrets, "x-s").await;
    wait::until_deleted(&world.config_maps, "x-removed").await;
    let kinds = "applyset.kubernetes.io/contains-group-kinds";
    world
        .until("x", |instance| {
            instance["status"]["state"] == "ACTIVE"
                && instance["metadata"]["annotations"][kinds] == "ConfigMap"
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_are_deleted_together_share_lists_and_leave_the_hub_idle() {
    const INSTANCES: usize = 20;
    let world = World::new("HubLists", json!({"spec": {}}), json!([config_map("app", json!({}))])).await;
    let names: Vec<String> = (0..INSTANCES).map(|number| format!("x{number}")).collect();
    for name in &names {
        world.create(name, json!({})).await;
    }
    for name in &names {
        world.until_state(name, "ACTIVE").await;
    }
    let deletes = Requests::any().verb(Verb::Delete).resource("configmaps").namespace(&world.namespace);
    let lists = lists(&world, "configmaps");
    let hold_deletes = world.proxy.on(deletes.clone(), Action::Hold);
    for name in &names {
        world.delete(name).await;
    }
    wait::until_true("all deletes", || world.proxy.count(&deletes) == INSTANCES).await;
    // From here on only the last list of each instance is left.
    let before = world.proxy.count(&lists);
    let hold_lists = world.proxy.on(lists.clone(), Action::Hold);
    world.proxy.remove(hold_deletes);
    for name in &names {
        wait::until_deleted(&world.config_maps, &format!("{name}-app")).await;
    }
    wait::until_true("the first list", || world.proxy.count(&lists) > before).await;
    world.proxy.remove(hold_lists);
    for name in &names {
        wait::until_deleted(&world.instances, name).await;
    }
    let last = world.proxy.count(&lists) - before;
    assert!(last <= 5, "{INSTANCES} instances sent {last} lists");
    world.until_idle().await;
}
