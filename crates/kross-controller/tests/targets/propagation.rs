//! Copies of connection Secrets: what they contain, how they follow the Secret of the managed resource, and when they stop to.

use kross_testing::wait;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::setup::{Objects, condition, create_once_served, until};
use crate::world::{World, kubeconfig};

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_the_connection_and_is_removed_with_its_target() {
    let world = World::new().await;
    let target = world.publish("dev").await;
    let copy = world.copy(&world.namespace, "dev").await.unwrap();
    let keys: Vec<&String> = copy.data.as_ref().unwrap().keys().collect();
    assert_eq!(keys, ["kubeconfig"], "nothing else is copied");
    let owner = &copy.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("KubernetesTarget", Some(true)));
    assert_eq!(json!(owner.uid), target["metadata"]["uid"]);
    assert!(!copy.metadata.labels.unwrap().contains_key("kro.run/cluster-credentials"));
    let managers = target["metadata"]["managedFields"].as_array().unwrap();
    let writes_reference =
        |entry: &&serde_json::Value| !entry["fieldsV1"]["f:spec"]["f:connectionSecretRef"].is_null();
    let manager = managers.iter().find(writes_reference).unwrap();
    assert_eq!(manager["manager"], "kro.run/workload");

    world.delete_target("dev").await;
    wait::until_deleted(&world.targets(), "dev").await;
    assert!(world.copy(&world.namespace, "dev").await.is_none());
    world.secrets(&world.infra).get("source").await.expect("the Secret of the managed resource is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_in_several_namespaces_follow_a_rotation() {
    let world = World::new().await;
    let other = format!("{}-other", world.namespace);
    world.create_namespace(&other).await;
    world.publish("dev").await;
    world.create_target_in(&other, "dev", world.cluster_ref()).await;
    let ready = |target: &serde_json::Value| condition(target, "Ready")["status"] == "True";
    until(world.targets_in(&other), "dev".to_owned(), ready).await;

    let rotated = format!("{}\n# rotated\n", world.remote.kubeconfig);
    wait::woken(async {
        world.patch_source(json!({"stringData": {"kubeconfig": rotated}})).await;
        world.until_copied(&world.namespace, "dev", &rotated).await;
        world.until_copied(&other, "dev", &rotated).await;
    })
    .await;
    // One of them is unpublished; the other stays.
    world.delete_target("dev").await;
    wait::until_deleted(&world.targets(), "dev").await;
    assert_eq!(kubeconfig(&world.copy(&other, "dev").await.unwrap()), rotated);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_or_deleted_copy_is_restored() {
    let world = World::new().await;
    world.publish("dev").await;
    let expected = kubeconfig(&world.copy(&world.namespace, "dev").await.unwrap());
    let secrets = world.secrets(&world.namespace);
    let patch = Patch::Merge(json!({"stringData": {"kubeconfig": "broken", "added": "x"},
        "metadata": {"labels": {"kro.run/cluster-credentials": "true"}}}));
    wait::woken(async {
        secrets.patch("dev-connection", &PatchParams::default(), &patch).await.unwrap();
        wait::until_object(&secrets, "dev-connection", |copy| {
            let labels = copy.metadata.labels.as_ref().unwrap();
            kubeconfig(copy) == expected
                && copy.data.as_ref().unwrap().len() == 1
                && !labels.contains_key("kro.run/cluster-credentials")
        })
        .await;
        let before = secrets.get("dev-connection").await.unwrap().metadata.uid;
        secrets.delete("dev-connection", &DeleteParams::default()).await.unwrap();
        wait::until_object(&secrets, "dev-connection", |copy| {
            copy.metadata.uid != before && kubeconfig(copy) == expected
        })
        .await;
        world.until_ready("dev").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_the_user_takes_precedence_over_the_managed_resource() {
    let world = World::new().await;
    world.provide().await;
    world.create_local_secret("mine").await;
    let mut spec = world.cluster_ref();
    spec["connectionSecretRef"] = json!({"name": "mine"});
    world.create_target("dev", spec).await;
    let target = world.until_ready("dev").await;
    assert_eq!(condition(&target, "ConnectionSecretPropagated")["reason"], "LocalSecret");
    assert_eq!(target["spec"]["connectionSecretRef"]["name"], "mine");
    assert!(world.copy(&world.namespace, "dev").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_gets_a_secret_of_the_user_later_loses_its_copy() {
    let world = World::new().await;
    world.publish("dev").await;
    world.create_local_secret("mine").await;
    wait::woken(async {
        world.patch_target("dev", json!({"spec": {"connectionSecretRef": {"name": "mine"}}})).await;
        world.until_condition("dev", ("ConnectionSecretPropagated", "True", "LocalSecret")).await;
        wait::until_deleted(&world.secrets(&world.namespace), "dev-connection").await;
        world.until_ready("dev").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_managed_resource_is_not_copied_any_more() {
    let world = World::new().await;
    world.publish("dev").await;
    let before = kubeconfig(&world.copy(&world.namespace, "dev").await.unwrap());
    let target = wait::woken(async {
        world.patch_managed(json!({"status": {"bindingPhase": "Released"}})).await;
        world.until_condition("dev", ("Ready", "False", "Released")).await
    })
    .await;
    assert_eq!(condition(&target, "Reachable")["status"], "True", "its users can still clean up");
    let rotated = format!("{}\n# rotated\n", world.remote.kubeconfig);
    world.patch_source(json!({"stringData": {"kubeconfig": rotated}})).await;
    // A change of the target is reconciled after the change of the Secret.
    world.patch_target("dev", json!({"metadata": {"labels": {"changed": "yes"}}})).await;
    world.create_target("other", world.cluster_ref()).await;
    world.until_condition("other", ("Ready", "False", "Released")).await;
    assert_eq!(kubeconfig(&world.copy(&world.namespace, "dev").await.unwrap()), before);
    assert!(world.copy(&world.namespace, "other").await.is_none());
    // Bound again, the copy follows.
    world.patch_managed(json!({"status": {"bindingPhase": "Bound"}})).await;
    world.until_copied(&world.namespace, "dev", &rotated).await;
    world.until_ready("dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_of_a_graph_can_be_the_managed_resource() {
    let world = World::new().await;
    let objects = Objects { client: world.client.clone() };
    // The connection Secret is written once with `stringData`, as people do, and the other one with `data`.
    let secret = |id: &str, content: serde_json::Value| {
        let mut template = json!({"apiVersion": "v1", "kind": "Secret", "metadata":
            {"name": format!("${{schema.metadata.name}}-{id}"), "namespace": world.infra}});
        template.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        json!({"id": id, "template": template})
    };
    let encoded = json!({"data": {"kubeconfig": "${base64.encode(bytes(schema.spec.kubeconfig))}"}});
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "provided"}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Provided", "scope": "Cluster",
                "spec": {"kubeconfig": "string", "secret": "string"},
                "status": {"connectionSecretRef": {"namespace": "${text.metadata.namespace}",
                    "name": "${schema.spec.secret}"}}},
            "resources": [secret("text", json!({"stringData": {"kubeconfig": "${schema.spec.kubeconfig}"}})),
                secret("bytes", encoded)]}});
    objects.create(&definition).await;
    objects.until_ready("provided").await;
    let provided = objects.api("kro.run", "v1alpha1", "Provided", "provideds");
    for id in ["text", "bytes"] {
        let name = format!("{}-{id}", world.namespace);
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Provided",
            "metadata": {"name": name, "annotations": {"kro.run/claim": "infra/dev"}},
            "spec": {"kubeconfig": world.remote.kubeconfig.to_string(), "secret": format!("{name}-{id}")}});
        create_once_served(&provided, instance).await;
        let reference = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Provided", "name": name});
        world.create_target(id, json!({"clusterRef": reference})).await;
        world.until_condition(id, ("Ready", "False", "ManagedResourceNotBound")).await;
        let bound = json!({"metadata": {"annotations": {"kro.run/claim": "infra/dev/0d1f"}}});
        provided.patch(&name, &PatchParams::default(), &Patch::Merge(bound)).await.unwrap();
        world.until_ready(id).await;
    }
    // A restore loses who wrote which field. The graph applies its Secret again, and the target keeps its copy.
    let source = format!("{}-text-text", world.namespace);
    let restored = json!({"metadata": {"managedFields": [{}]}});
    world
        .secrets(&world.infra)
        .patch(&source, &PatchParams::default(), &Patch::Merge(restored.clone()))
        .await
        .unwrap();
    world.targets().patch("text", &PatchParams::default(), &Patch::Merge(restored)).await.unwrap();
    let rotated = format!("{}\n# rotated\n", world.remote.kubeconfig);
    let change = json!({"spec": {"kubeconfig": rotated}});
    let name = format!("{}-text", world.namespace);
    provided.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    wait::woken(world.until_copied(&world.namespace, "text", &rotated)).await;
    let target = world.until_ready("text").await;
    assert_eq!(condition(&target, "ConnectionSecretPropagated")["reason"], "Propagated");
}
