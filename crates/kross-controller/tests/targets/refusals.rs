//! What is refused: each with a reason of its own, and without a copy.

use kross_testing::{objects, wait};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{GKE, World, message};

/// Waits until a target is refused for this reason. Nothing was copied, and no reference set.
async fn refused(world: &World, reason: &'static str) -> String {
    let kind = "ConnectionSecretPropagated";
    let target = world.until_condition("dev", (kind, "False", reason)).await;
    assert_eq!(condition(&target, "Ready")["reason"], reason);
    assert!(target["spec"]["connectionSecretRef"].is_null(), "{target:#}");
    assert!(
        world.copy(&world.namespace, "dev").await.is_none_or(|copy| copy.metadata.owner_references.is_none())
    );
    message(&target, kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_resource_is_published_once_it_exists_is_bound_and_controls_its_secret() {
    let world = World::new().await;
    world.create_target("dev", world.cluster_ref()).await;
    let text = refused(&world, "ManagedResourceNotFound").await;
    assert!(text.contains(&world.cluster()), "{text}");

    // Each refusal ends as soon as its cause does.
    wait::woken(async {
        let uid = world.create_managed(&world.cluster(), "Unbound").await;
        refused(&world, "ManagedResourceNotBound").await;
        world.create_source("source", "somebody-else").await;
        world.patch_managed(json!({"status": {"bindingPhase": "Bound"}})).await;
        let text = refused(&world, "SecretNotControlled").await;
        assert!(text.contains(&format!("{}/source", world.infra)), "{text}");
        world.secrets(&world.infra).delete("source", &DeleteParams::default()).await.unwrap();
        refused(&world, "NoConnectionSecret").await;
        world.create_source("source", &uid).await;
        world.until_ready("dev").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_of_the_managed_resource_and_of_its_secret_limit_the_namespaces() {
    let world = World::new().await;
    world.provide().await;
    let allowed =
        |namespaces: &str| json!({"metadata": {"annotations": {"kro.run/allowed-namespaces": namespaces}}});
    world.patch_managed(allowed("elsewhere")).await;
    world.create_target("dev", world.cluster_ref()).await;
    let text = refused(&world, "NamespaceNotAllowed").await;
    assert!(text.contains(&world.namespace) && text.contains("kro.run/allowed-namespaces"), "{text}");
    wait::woken(async {
        world.patch_source(allowed("elsewhere")).await;
        world.patch_managed(allowed(&format!("elsewhere, {}", world.namespace))).await;
        world
            .until("dev", |target| {
                message(target, "Ready").contains("connection Secret of the managed resource")
            })
            .await;
        refused(&world, "NamespaceNotAllowed").await;
        world.patch_source(allowed("*")).await;
        world.until_ready("dev").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_a_kubernetes_type_is_not_copied() {
    let world = World::new().await;
    let uid = world.create_managed(&world.cluster(), "Bound").await;
    let owner = json!([{"apiVersion": GKE, "kind": "GKECluster", "name": world.cluster(), "uid": uid, "controller": true}]);
    let secret = json!({"metadata": {"name": "source", "ownerReferences": owner}, "type": "kubernetes.io/basic-auth",
        "stringData": {"username": "a", "password": "b", "kubeconfig": "c"}});
    let secret = serde_json::from_value(secret).unwrap();
    world.secrets(&world.infra).create(&PostParams::default(), &secret).await.unwrap();
    world.create_target("dev", world.cluster_ref()).await;
    let text = refused(&world, "SecretTypeRefused").await;
    assert!(text.contains("kubernetes.io/basic-auth"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_secret_of_the_name_of_the_copy_is_not_overwritten() {
    let world = World::new().await;
    let foreign = objects::kubeconfig_secret("dev-connection", &world.remote.kubeconfig);
    let secrets = world.secrets(&world.namespace);
    let before = secrets.create(&PostParams::default(), &foreign).await.unwrap();
    world.provide().await;
    world.create_target("dev", world.cluster_ref()).await;
    refused(&world, "SecretConflict").await;
    let after = secrets.get("dev-connection").await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
    wait::woken(async {
        secrets.delete("dev-connection", &DeleteParams::default()).await.unwrap();
        world.until_ready("dev").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_are_namespaced_built_in_or_not_served_are_refused() {
    let world = World::new().await;
    let cases = [
        (GKE, "SharedCluster", "ManagedKindRefused"),
        ("v1", "Namespace", "ManagedKindRefused"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "ManagedKindRefused"),
        (GKE, "NoSuchCluster", "ManagedKindNotServed"),
        ("compute.gcp.crossplane.io/v9", "GKECluster", "ManagedKindNotServed"),
    ];
    for (number, (api_version, kind, reason)) in cases.into_iter().enumerate() {
        let name = format!("dev-{number}");
        let reference = json!({"apiVersion": api_version, "kind": kind, "name": "default"});
        world.create_target(&name, json!({"clusterRef": reference})).await;
        let target = world.until_condition(&name, ("Ready", "False", reason)).await;
        assert!(target["spec"]["connectionSecretRef"].is_null());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_refuses_what_a_target_cannot_be() {
    let world = World::new().await;
    let create = |name: &str, spec: Json| {
        let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
            "metadata": {"name": name}, "spec": spec});
        let target = serde_json::from_value(target).unwrap();
        let targets = world.targets();
        async move {
            targets.create(&PostParams::default(), &target).await.map(drop).map_err(|error| error.to_string())
        }
    };
    let reference = world.cluster_ref()["clusterRef"].clone();
    let with = |field: &str, value: Json| {
        let mut reference = reference.clone();
        reference[field] = value;
        json!({"clusterRef": reference})
    };
    for (spec, part) in [
        (json!({}), "set `clusterRef` to a managed resource"),
        (with("namespace", json!("infra")), "`namespace` is not allowed"),
        (with("kind", Json::Null), "kind"),
        (with("apiVersion", json!("")), "apiVersion"),
        (json!({"connectionSecretRef": {"name": "a", "namespace": "infra"}}), "`namespace` is not allowed"),
    ] {
        let error = create("refused", spec.clone()).await.unwrap_err();
        assert!(error.contains(part), "{spec}: {error}");
    }
    create("dev", world.cluster_ref()).await.unwrap();
    let patch = kube::api::Patch::Merge(json!({"spec": {"clusterRef": {"name": "other"}}}));
    let error = wait::until("the refusal", || async {
        match world.targets().patch("dev", &kube::api::PatchParams::default(), &patch).await {
            Err(error) => Ok(error.to_string()),
            Ok(_) => Err("accepted".to_owned()),
        }
    })
    .await;
    assert!(error.contains("`clusterRef` is immutable"), "{error}");
}
