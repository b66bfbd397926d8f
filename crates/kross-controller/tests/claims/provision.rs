//! Claims get a class, and a managed resource from its template.

use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, create, get, patch};

#[tokio::test(flavor = "multi_thread")]
async fn provisions_from_a_class_by_name_and_names_the_resource_after_the_claim() {
    let world = World::new().await;
    let more = json!({"spec": {"template": {"metadata": {"labels": {"team": "infra"}}}}});
    world.class("small", "Cloud", more).await;
    world.claim_of("dev", "small").await;
    let managed = world.provisioned("dev", "Cloud").await;
    let claim = world.until_condition("dev", ("Synced", "False", "ManagedResourceNotReady")).await;
    assert_eq!(
        claim["spec"]["resourceRef"],
        json!({"apiVersion": "cloud.example.com/v1", "kind": "Cloud", "name": managed})
    );
    assert_eq!(claim["status"]["bindingPhase"], "Unbindable");
    assert_eq!(condition(&claim, "Ready")["status"], "False");
    let cloud = get(&world.managed("Cloud"), &managed).await;
    assert_eq!(cloud["metadata"]["labels"], json!({"team": "infra"}));
    assert_eq!(cloud["spec"]["zone"], "a");
    assert_eq!(cloud["spec"]["claimRef"]["name"], "dev");
    assert_eq!(cloud["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(cloud["metadata"]["annotations"]["kro.run/reclaim-policy"], "Delete");
    assert_eq!(cloud["status"]["bindingPhase"], json!(null), "it is not bound before it is ready");
    world.make_ready("Cloud", &managed).await;
    world.until_ready("dev").await;
    assert_eq!(get(&world.managed("Cloud"), &managed).await["status"]["bindingPhase"], "Bound");
}

#[tokio::test(flavor = "multi_thread")]
async fn chooses_the_class_by_selector_and_waits_for_one_that_matches() {
    let world = World::new().await;
    let label = world.named("size");
    let selector = json!({"classSelector": {"matchLabels": {"size": label}}});
    world.claim("dev", selector).await;
    world.until_condition("dev", ("Ready", "False", "NoClass")).await;
    for name in ["zebra", "ant"] {
        world.class(name, "Plain", json!({"metadata": {"labels": {"size": "none"}}})).await;
    }
    for name in ["zebra", "ant"] {
        patch(&world.classes(), &world.named(name), json!({"metadata": {"labels": {"size": label}}})).await;
    }
    let claim = world.until_claim("dev", |claim| !claim["spec"]["resourceRef"].is_null()).await;
    let class = claim["spec"]["classRef"]["name"].as_str().unwrap();
    // The first that matched when it was reconciled.
    assert!(class == world.named("ant") || class == world.named("zebra"), "{class}");
    assert_eq!(claim["spec"]["classRef"]["kind"], "KubernetesClusterClass");
    world.provisioned("dev", "Plain").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_the_default_class_without_any_reference() {
    let world = World::new().await;
    world.claim("dev", json!({})).await;
    let claim = world.until_condition("dev", ("Synced", "False", "NoClass")).await;
    assert!(condition(&claim, "Synced")["message"].as_str().unwrap().contains("is-default-class"));
    let annotations = json!({"resourceclass.crossplane.io/is-default-class": "true"});
    world.class("default", "Plain", json!({"metadata": {"annotations": annotations}})).await;
    world.provisioned("dev", "Plain").await;
    world.classes().delete(&world.named("default"), &DeleteParams::default()).await.unwrap();
    let claim = get(&world.claims(), "dev").await;
    assert_eq!(claim["spec"]["classRef"]["name"], world.named("default"));
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_namespaced_kinds_and_kinds_without_a_crd() {
    let world = World::new().await;
    world.class("local", "Local", json!({})).await;
    let builtin =
        json!({"spec": {"template": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}}});
    world.class("builtin", "Cloud", builtin).await;
    let unknown = json!({"spec": {"template": {"apiVersion": "missing.example.com/v1", "kind": "Missing"}}});
    world.class("unknown", "Cloud", unknown).await;
    for (name, reason) in [
        ("local", "ManagedKindRefused"),
        ("builtin", "ManagedKindRefused"),
        ("unknown", "ManagedKindNotServed"),
    ] {
        world.claim_of(name, name).await;
        world.until_condition(name, ("Ready", "False", reason)).await;
        // A claim that got nothing is deleted without further ado.
        world.delete_claim(name).await;
        world.until_deleted(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_use_a_foreign_object_of_the_name() {
    let world = World::new().await;
    world.claim_of("dev", "late").await;
    world.until_condition("dev", ("Synced", "False", "NoClass")).await;
    let name = format!("cluster-{}", world.claim_uid("dev").await);
    let foreign = json!({"apiVersion": "cloud.example.com/v1", "kind": "Cloud", "metadata": {"name": name},
        "spec": {"zone": "foreign", "claimRef": {"namespace": world.namespace, "name": "somebody-else"}}});
    create(&world.managed("Cloud"), foreign).await;
    world.set_ready("Cloud", &name, "True").await;
    world.class("late", "Cloud", json!({})).await;
    world.until_condition("dev", ("Ready", "False", "NameTaken")).await;
    let cloud = get(&world.managed("Cloud"), &name).await;
    assert_eq!(cloud["spec"]["claimRef"]["name"], "somebody-else");
    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
    assert!(
        world.managed("Cloud").get_opt(&name).await.unwrap().is_some(),
        "it is not the claim's to delete"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_template_that_the_api_server_rejects() {
    let world = World::new().await;
    world.class("wrong", "Cloud", json!({"spec": {"template": {"spec": {"zone": 1}}}})).await;
    world.claim_of("dev", "wrong").await;
    let claim = world.until_condition("dev", ("Ready", "False", "RequestFailed")).await;
    let message = condition(&claim, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("spec.zone"), "{message}");
    patch(&world.classes(), &world.named("wrong"), json!({"spec": {"template": {"spec": {"zone": "b"}}}}))
        .await;
    world.provisioned("dev", "Cloud").await;
    assert_eq!(
        world
            .managed("Cloud")
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .filter(|cloud| cloud.data["spec"]["claimRef"]["namespace"] == *world.namespace)
            .count(),
        1
    );
}
