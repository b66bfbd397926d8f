//! A provider that is a graph: a definition of cluster scope whose instances produce the connection Secret.

use kross_testing::wait;
use serde_json::json;

use crate::setup::{condition, until};
use crate::world::{World, get};

#[tokio::test(flavor = "multi_thread")]
async fn provisions_through_a_graph_of_cluster_scope() {
    let world = World::new().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}", "namespace": "${schema.spec.namespace}"},
        "stringData": {"kubeconfig": "${schema.spec.kubeconfig}"}});
    let status = json!({"connectionSecretRef": {"namespace": "${secret.metadata.namespace}", "name": "${secret.metadata.name}"}});
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "graphcluster"}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "GraphCluster", "scope": "Cluster",
                "spec": {"namespace": "string", "kubeconfig": "string"}, "status": status},
            "resources": [{"id": "secret", "template": secret}]}});
    world.objects.create(&definition).await;
    world.objects.until_ready("graphcluster").await;
    let template = json!({"apiVersion": "kro.run/v1alpha1", "kind": "GraphCluster",
        "spec": {"namespace": world.namespace, "kubeconfig": "of-the-graph"}});
    // The fields of the other providers are not in its schema.
    let class = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesClusterClass",
        "metadata": {"name": world.named("graph")}, "spec": {"template": template}});
    crate::world::create(&world.classes(), class).await;
    world.claim_of("dev", "graph").await;

    let claim = world.until_ready("dev").await;
    assert_eq!(world.secret_value("dev-conn", "kubeconfig").await.as_deref(), Some("of-the-graph"));
    assert_eq!(get(&world.targets(), "dev").await["spec"]["connectionSecretRef"]["name"], "dev-conn");
    let name = claim["spec"]["resourceRef"]["name"].as_str().unwrap().to_owned();
    let instances = world.objects.api("kro.run", "v1alpha1", "GraphCluster", "graphclusters");
    let instance = get(&instances, &name).await;
    assert_eq!(instance["metadata"]["annotations"]["kro.run/binding-phase"], "Bound");
    assert_eq!(condition(&instance, "Ready")["status"], "True");

    // A change of the instance reaches the copy.
    crate::world::patch(&instances, &name, json!({"spec": {"kubeconfig": "rotated"}})).await;
    let copies = world.secrets();
    wait::until_object(&copies, "dev-conn", |copy| {
        copy.data == Some(crate::world::bytes(&[("kubeconfig", "rotated")]))
    })
    .await;

    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
    assert!(instances.get_opt(&name).await.unwrap().is_none());
    assert!(world.secrets().get_opt(&name).await.unwrap().is_none(), "the graph deletes what it made");
    assert!(world.secrets().get_opt("dev-conn").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_of_a_graph_that_does_not_exist_yet_is_provisioned_once_it_does() {
    let world = World::new().await;
    let template = json!({"apiVersion": "kro.run/v1alpha1", "kind": "LateCluster", "spec": {}});
    let class = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesClusterClass",
        "metadata": {"name": world.named("late")}, "spec": {"template": template}});
    crate::world::create(&world.classes(), class).await;
    world.claim_of("dev", "late").await;
    world.until_condition("dev", ("Ready", "False", "ManagedKindNotServed")).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}", "namespace": world.namespace}});
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "latecluster"}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "LateCluster", "scope": "Cluster", "spec": {}},
            "resources": [{"id": "map", "template": map}]}});
    world.objects.create(&definition).await;
    world.objects.until_ready("latecluster").await;
    let name = format!("cluster-{}", world.claim_uid("dev").await);
    let instances = world.objects.api("kro.run", "v1alpha1", "LateCluster", "lateclusters");
    until(instances.clone(), name.clone(), |instance| instance["status"]["state"] == "ACTIVE").await;
    // It has no connection Secret.
    let claim =
        world.until_condition("dev", ("ConnectionSecretPropagated", "False", "NoConnectionSecret")).await;
    assert_eq!(claim["status"]["bindingPhase"], "Bound");
    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
    wait::until_deleted(&instances, &name).await;
}
