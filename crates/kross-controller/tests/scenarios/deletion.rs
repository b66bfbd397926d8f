//! Deleting several of these objects at once completes, in the right order.

use kross_testing::wait;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value as Json, json};

use crate::world::World;

fn graph(name: &str, kind: &str, resources: Json) -> Json {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"size": "integer | default=1"}},
            "resources": resources}})
}

fn remote_config_map(target: &str) -> Json {
    json!({"id": "settings", "target": {"kubernetesTarget": {"name": target}}, "template": {"apiVersion": "v1",
        "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}-settings"}, "data": {"a": "b"}}})
}

async fn pool(world: &World, name: &str) {
    let pool = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "infrastructure"},
        "stringData": {"kubeconfig": world.kubeconfig("dev").to_string()}});
    world.admin.apply(&pool).await.unwrap();
    world.admin.apply_file("examples/targets/provider-graph.yaml").await;
    let definitions = world.admin.api("ResourceGraphDefinition", None);
    world.admin.until_condition(&definitions, "dev-cluster", ("Ready", "True")).await;
    let class = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesClusterClass",
        "metadata": {"name": name},
        "spec": {"template": {"apiVersion": "kro.run/v1alpha1", "kind": "DevCluster", "spec": {"credentials": name}}}});
    world.admin.apply(&class).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_claims_a_cluster_and_deploys_into_it_can_be_deleted() {
    let world = World::new().await;
    let namespace = world.fixture.namespace.clone();
    pool(&world, "graph-pool").await;
    let claim = json!({"id": "claim", "template": {"apiVersion": "compute.crossplane.io/v1alpha1",
        "kind": "KubernetesCluster", "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"classRef": {"name": "graph-pool"}, "writeConnectionSecretToRef": {"name": "${schema.metadata.name}-connection"}}},
        "readyWhen": ["${claim.status.?bindingPhase.orValue('') == 'Bound'}"]});
    let resources = json!([claim, remote_config_map("${claim.metadata.name}")]);
    world.admin.apply(&graph("environment", "Environment", resources)).await.unwrap();
    let definitions = world.admin.api("ResourceGraphDefinition", None);
    world.admin.until_condition(&definitions, "environment", ("Ready", "True")).await;
    let instances = world.admin.api("Environment", Some(&namespace));
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Environment",
        "metadata": {"name": "preview", "namespace": namespace}, "spec": {}});
    world.admin.apply(&instance).await.unwrap();
    world.admin.until(&instances, "preview", |it| it["status"]["state"] == "ACTIVE").await;
    let there = world.remote("dev").api("ConfigMap", Some(&namespace));
    there.get("preview-settings").await.unwrap();

    world.admin.delete(&instances, "preview").await;
    wait::until_deleted(&instances, "preview").await;
    assert!(there.get_opt("preview-settings").await.unwrap().is_none());
    for kind in ["KubernetesCluster", "KubernetesTarget"] {
        let left = world.admin.api(kind, Some(&namespace)).list(&ListParams::default()).await.unwrap();
        assert!(left.items.is_empty(), "{kind}: {:?}", left.items);
    }
}

/// The API server refuses new objects in the namespace; here all objects are deleted at once, in no particular order, as a
/// namespace controller does.
#[tokio::test(flavor = "multi_thread")]
async fn claim_target_application_and_instance_are_deleted_together() {
    let world = World::new().await;
    let namespace = world.fixture.namespace.clone();
    pool(&world, "together-pool").await;
    world.admin.apply(&graph("together", "Together", json!([remote_config_map("all")]))).await.unwrap();
    let definitions = world.admin.api("ResourceGraphDefinition", None);
    world.admin.until_condition(&definitions, "together", ("Ready", "True")).await;
    let objects = [
        json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesCluster",
            "metadata": {"name": "all", "namespace": namespace},
            "spec": {"classRef": {"name": "together-pool"}, "writeConnectionSecretToRef": {"name": "all-connection"}}}),
        json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"resourceTemplates": [{"metadata": {"name": "web"}, "spec": {"template": {"apiVersion": "v1",
                "kind": "ConfigMap", "metadata": {"name": "from-application"}}}}]}}),
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Together",
            "metadata": {"name": "graph", "namespace": namespace}, "spec": {}}),
    ];
    for object in &objects {
        world.admin.apply(object).await.unwrap();
    }
    let applications = world.admin.api("KubernetesApplication", Some(&namespace));
    world.admin.until(&applications, "web", |it| it["status"]["state"] == "Submitted").await;
    let instances = world.admin.api("Together", Some(&namespace));
    world.admin.until(&instances, "graph", |it| it["status"]["state"] == "ACTIVE").await;

    let kinds = [
        "Secret",
        "KubernetesTarget",
        "KubernetesCluster",
        "KubernetesApplicationResource",
        "KubernetesApplication",
        "Together",
    ];
    for kind in kinds {
        let all = world.admin.api(kind, Some(&namespace)).list(&ListParams::default()).await.unwrap();
        for object in all.items {
            let name = object.metadata.name.unwrap();
            let api = world.admin.api(kind, Some(&namespace));
            // Another of these deletions may have been faster.
            let _ = api.delete(&name, &DeleteParams::default()).await;
        }
    }
    for kind in kinds {
        wait::until(format!("every {kind} to be deleted"), || {
            let api = world.admin.api(kind, Some(&namespace));
            async move {
                let left = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
                if left.items.is_empty() { Ok(()) } else { Err(format!("{:?}", left.items)) }
            }
        })
        .await;
    }
    let there = world.remote("dev").api("ConfigMap", Some(&namespace));
    for name in ["from-application", "graph-settings"] {
        assert!(there.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}
