//! The Secrets of a resource: copied to the cluster, kept in step, removed, and refused where they are credentials.

use k8s_openapi::api::core::v1::Secret;
use kross_testing::wait;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::until;
use crate::world::{World, message, template};

async fn create_secret(world: &World, name: &str, labels: Json) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels},
        "stringData": {"password": "one"}});
    world.secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
}

fn with_secrets(name: &str, secrets: &[&str]) -> Json {
    let mut template = template(name, "1");
    template["spec"]["secrets"] = secrets.iter().map(|name| json!({"name": name})).collect();
    template
}

fn password(secret: &Secret) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()["password"].0.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_copied_kept_in_step_and_removed() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    world.create_with("web", vec![with_secrets("web-a", &["db"])], json!({})).await;
    let resources = world.resources.clone();
    until(resources, "web-a".to_owned(), |resource| {
        resource["status"]["state"] == "Scheduled" && message(resource, "Ready").contains("db")
    })
    .await;
    create_secret(&world, "db", json!({})).await;
    wait::woken(world.until_state("web", "Submitted")).await;
    let copies = &world.region("eu").secrets;
    assert_eq!(password(&copies.get("web-a-db").await.unwrap()), "one");
    let edit = json!({"stringData": {"password": "two"}});
    world.secrets.patch("db", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    wait::woken(wait::until_object(copies, "web-a-db", |copy| password(copy) == "two")).await;
    world.patch("web", json!({"spec": {"resourceTemplates": [with_secrets("web-a", &[])]}})).await;
    wait::until_deleted(copies, "web-a-db").await;
    world.patch("web", json!({"spec": {"resourceTemplates": [with_secrets("web-a", &["db"])]}})).await;
    wait::until_object(copies, "web-a-db", |_| true).await;
    world.delete("web").await;
    wait::until_deleted(&world.applications, "web").await;
    assert!(copies.get_opt("web-a-db").await.unwrap().is_none());
    world.secrets.get("db").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_of_a_cluster_is_never_copied() {
    let world = World::new().await;
    world.publish("a", "eu", json!({})).await;
    create_secret(&world, "labelled", json!({"kro.run/cluster-credentials": "true"})).await;
    create_secret(&world, "eu-kubeconfig", json!({})).await;
    create_secret(&world, "copied", json!({"internal.kro.run/connection-copy": "uid"})).await;
    create_secret(&world, "late", json!({})).await;
    let copies = &world.region("eu").secrets;
    for secret in ["labelled", "eu-kubeconfig", "copied", "a-connection"] {
        let name = format!("web-{secret}");
        world.create_with(&name, vec![with_secrets(&name, &[secret])], json!({})).await;
        let refused = world.until_resource(&name, "Failed").await;
        let message = message(&refused, "Ready");
        assert!(message.contains(&format!("Secret `{secret}` is never copied")), "{message}");
        assert!(copies.get_opt(&format!("{name}-{secret}")).await.unwrap().is_none());
    }
    // One that becomes a credential later is removed.
    world.create_with("late", vec![with_secrets("web-late", &["late"])], json!({})).await;
    world.until_state("late", "Submitted").await;
    copies.get("web-late-late").await.unwrap();
    let mark = json!({"metadata": {"labels": {"kro.run/cluster-credentials": "true"}}});
    world.secrets.patch("late", &PatchParams::default(), &Patch::Merge(mark)).await.unwrap();
    wait::until_deleted(copies, "web-late-late").await;
    world.until_resource("web-late", "Failed").await;
}
