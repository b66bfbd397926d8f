//! Definitions and revisions that the controller cannot read: they are reported, and all other definitions are served.

use http::Request;
use kross_controller::Settings;
use kross_testing::wait;
use kube::Client;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value as Json, json};

use crate::exclusive_plane::{PLANE, create_instance, exclusive, is_active};
use crate::setup::{Objects, Running, condition, definition, until, with_field};

const DEFINITIONS: &str = "/apis/kro.run/v1alpha1/resourcegraphdefinitions";
const REVISIONS: &str = "/apis/internal.kro.run/v1alpha1/graphrevisions";

/// An object as text with a value of this many levels in place of `"DEEP"`: the client of the tests cannot read it either.
fn nested(object: &Json, levels: usize) -> Vec<u8> {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    object.to_string().replace("\"DEEP\"", &deep).into_bytes()
}

async fn create(client: &Client, path: &str, object: Vec<u8>) {
    let request = Request::post(path).header("content-type", "application/json").body(object).unwrap();
    client.request_text(request).await.unwrap();
}

async fn delete(client: &Client, path: &str) {
    client.request_text(Request::delete(path).body(Vec::new()).unwrap()).await.unwrap();
}

async fn exists(client: &Client, path: &str) -> bool {
    client.request_text(Request::get(path).body(Vec::new()).unwrap()).await.is_ok()
}

/// A definition with a deep value in a template. The value is on level 7, and on level 9 of a revision.
fn deep_definition(name: &str, kind: &str) -> Json {
    let mut definition = definition(name, kind);
    definition["spec"]["resources"][1]["template"] = json!({"apiVersion": "kro.run/v1alpha1", "kind": "DeepHolder",
        "metadata": {"name": "${schema.metadata.name}-first"}, "spec": {"blob": "DEEP"}});
    definition
}

/// A revision of a definition that no kross can read, as another controller may have made it.
fn revision(of: &Json, number: i64) -> Json {
    let name = of["metadata"]["name"].as_str().unwrap();
    json!({"apiVersion": "internal.kro.run/v1alpha1", "kind": "GraphRevision",
        "metadata": {"name": format!("{name}-r{number:05}"), "finalizers": ["kro.run/finalizer"],
            "labels": {"kro.run/resource-graph-definition-name": name}},
        "spec": {"revision": number, "snapshot": {"name": name, "generation": 1, "spec": of["spec"]}}})
}

async fn until_event(objects: &Objects, definition: &str) {
    let api = objects.events("default");
    wait::until(format!("an Event on `{definition}`"), || async {
        let events = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let is_wanted = |event: &&kube::api::DynamicObject| {
            event.data["regarding"]["name"] == definition && event.data["reason"] == "Unreadable"
        };
        events.items.iter().find(is_wanted).map(|_| ()).ok_or("no Event".to_owned())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_definitions_and_revisions_do_not_stop_the_others() {
    let (objects, _exclusive) = exclusive().await;
    let client = &objects.client;
    let running = Running::start(PLANE, Settings::default()).await;
    let mut holder = definition("deepholder", "DeepHolder");
    holder["spec"]["schema"]["spec"] = json!({"blob": "object"});
    objects.create(&holder).await;
    objects.create(&definition("calm", "Calm")).await;
    for name in ["deepholder", "calm"] {
        objects.until_ready(name).await;
    }
    let instances = objects.namespaced("kro.run", "Calm", "calms", "default");
    create_instance(&instances, "Calm", "a").await;
    until(instances.clone(), "a".to_owned(), is_active).await;

    // A definition that can be read, while its revision could not. It is refused before there is such a revision.
    create(client, DEFINITIONS, nested(&deep_definition("edge", "Edge"), 121)).await;
    let refused = objects.until_condition("edge", "GraphAccepted", "False").await;
    let message = condition(&refused, "GraphAccepted")["message"].to_string();
    assert!(message.contains("GraphRevision") && message.contains("nested too deeply"), "{message}");
    assert!(!exists(client, &format!("{REVISIONS}/edge-r00001")).await);

    // A definition and a revision that cannot be read, before and after a restart.
    create(client, DEFINITIONS, nested(&deep_definition("abyss", "Abyss"), 140)).await;
    until_event(&objects, "abyss").await;
    create(client, REVISIONS, nested(&revision(&deep_definition("calm", "Calm"), 2), 140)).await;
    wait::until_true("two unreadable objects", || running.metric("kross_unreadable_objects") > 1.5).await;
    // Nobody knows what the latest revision has, so there is a new one.
    objects.until("calm", |calm| calm["status"]["lastIssuedRevision"] == 3).await;
    running.stop().await;
    let running = Running::start(PLANE, Settings::default()).await;
    objects.patch("calm", &with_field("more", "string")).await;
    let calm = objects.until_ready("calm").await;
    assert_eq!(calm["status"]["lastIssuedRevision"], 4, "{calm:#}");
    create_instance(&instances, "Calm", "b").await;
    until(instances.clone(), "b".to_owned(), is_active).await;
    let shallow = json!({"spec": definition("edge", "Edge")["spec"]});
    objects.patch("edge", &shallow).await;
    objects.until_ready("edge").await;

    // A revision that cannot be read is released once it is deleted.
    delete(client, &format!("{REVISIONS}/calm-r00002")).await;
    wait::until("the revision to be deleted", || async {
        let exists = exists(client, &format!("{REVISIONS}/calm-r00002")).await;
        if exists { Err("it exists".to_owned()) } else { Ok(()) }
    })
    .await;
    delete(client, &format!("{DEFINITIONS}/abyss")).await;
    wait::until_true("none to be left", || running.metric("kross_unreadable_objects") < 0.5).await;
    for name in ["a", "b"] {
        instances.delete(name, &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&instances, name).await;
    }
    running.stop().await;
}
