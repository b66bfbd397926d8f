//! A graph is the provider, a claim provisions through it, and graphs use the cluster that the claim publishes.

use k8s_openapi::api::core::v1::ConfigMap;
use kross_testing::{Cluster, wait};
use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value as Json, json};

use crate::setup::{condition, create_once_served, until};
use crate::world::{World, create, get, patch};

/// A namespace in the hub and in the remote cluster `eu`, which a class of graphs provides.
struct Provided {
    world: World,
    eu: Cluster,
    /// The instances of the provider.
    clusters: Api<DynamicObject>,
}

impl Provided {
    /// Defines a provider of this kind, which copies the kubeconfig of `eu`, and a class of it with the same name in lower case.
    async fn new(kind: &str) -> Self {
        let (world, eu) = World::with_remote("eu").await;
        let kubeconfig = json!({"kubeconfig": eu.plane.admin().to_string()});
        let account = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "account", "namespace": world.namespace}, "stringData": kubeconfig});
        let account = serde_json::from_value(account).unwrap();
        world.secrets().create(&kube::api::PostParams::default(), &account).await.unwrap();
        let read = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "account", "namespace": world.namespace}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "${schema.metadata.name}", "namespace": world.namespace},
            "data": {"kubeconfig": "${account.data.kubeconfig}"}});
        let status = json!({"connectionSecretRef": {"namespace": "${secret.metadata.namespace}", "name": "${secret.metadata.name}"}});
        let schema =
            json!({"apiVersion": "v1alpha1", "kind": kind, "scope": "Cluster", "spec": {}, "status": status});
        let resources = json!([{"id": "account", "externalRef": read}, {"id": "secret", "template": secret}]);
        define(&world, schema, resources).await;
        let template = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "spec": {}});
        let class = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesClusterClass",
            "metadata": {"name": world.named("graph")}, "spec": {"template": template}});
        create(&world.classes(), class).await;
        let clusters = world.objects.api("kro.run", "v1alpha1", kind, &kross_api::plural(kind));
        Self { world, eu, clusters }
    }

    fn instances(&self, kind: &str) -> Api<DynamicObject> {
        self.world.objects.namespaced("kro.run", kind, &kross_api::plural(kind), &self.world.namespace)
    }

    fn remote(&self) -> Api<ConfigMap> {
        self.eu.api()
    }
}

async fn define(world: &World, schema: Json, resources: Json) {
    let name = schema["kind"].as_str().unwrap().to_lowercase();
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": name}, "spec": {"schema": schema, "resources": resources}});
    world.objects.create(&definition).await;
    world.objects.until_ready(&name).await;
}

fn remote_config_map(target: &str) -> Json {
    json!({"id": "app", "target": {"kubernetesTarget": {"name": target}}, "template": {"apiVersion": "v1",
        "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}"}, "data": {"a": "1"}}})
}

async fn until_active(instances: &Api<DynamicObject>, name: &str) {
    until(instances.clone(), name.to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_cluster_is_used_by_a_graph_and_outlives_its_users() {
    let provided = Provided::new("ProvidedCluster").await;
    let world = &provided.world;
    world.claim_of("dev", "graph").await;
    world.until_ready("dev").await;
    until(world.targets(), "dev".to_owned(), |target| condition(target, "Ready")["status"] == "True").await;
    let schema = json!({"apiVersion": "v1alpha1", "kind": "ClaimUser", "spec": {}});
    define(world, schema, json!([remote_config_map("dev")])).await;
    let instances = provided.instances("ClaimUser");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ClaimUser", "metadata": {"name": "web"}, "spec": {}});
    create_once_served(&instances, instance).await;
    until_active(&instances, "web").await;
    assert!(provided.remote().get_opt("web").await.unwrap().is_some());

    world.delete_claim("dev").await;
    let user = format!("ClaimUser `{}/web`", world.namespace);
    let names_it = move |claim: &Json| {
        let ready = condition(claim, "Ready");
        ready["reason"] == "InUse" && ready["message"].as_str().is_some_and(|message| message.contains(&user))
    };
    world.until_claim("dev", names_it).await;
    assert!(provided.remote().get_opt("web").await.unwrap().is_some());
    // The objects there can still be deleted, and then everything else is.
    wait::woken(async {
        instances.delete("web", &kube::api::DeleteParams::default()).await.unwrap();
        wait::until_deleted(&instances, "web").await;
        world.until_deleted("dev").await;
    })
    .await;
    assert!(provided.remote().get_opt("web").await.unwrap().is_none());
    assert!(provided.clusters.list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
    assert!(world.secrets().get_opt("dev-conn").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_makes_a_claim_and_deploys_into_its_cluster_can_be_deleted() {
    let provided = Provided::new("OwnCluster").await;
    let world = &provided.world;
    let claim = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesCluster",
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"classRef": {"name": world.named("graph")}, "writeConnectionSecretToRef": {"name": "${schema.metadata.name}-conn"}}});
    let ready = "${claim.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')}";
    let claim = json!({"id": "claim", "readyWhen": [ready], "template": claim});
    let schema = json!({"apiVersion": "v1alpha1", "kind": "WholeStack", "spec": {}});
    define(world, schema, json!([claim, remote_config_map("${claim.metadata.name}")])).await;
    let instances = provided.instances("WholeStack");
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "WholeStack", "metadata": {"name": "stack"}, "spec": {}});
    create_once_served(&instances, instance).await;
    until_active(&instances, "stack").await;
    assert!(provided.remote().get_opt("stack").await.unwrap().is_some());
    // The target is the claim's, and not the instance's.
    let target = get(&world.targets(), "stack").await;
    assert!(target["metadata"]["labels"].get("kro.run/instance-id").is_none(), "{target:#}");
    patch(&instances, "stack", json!({"metadata": {"annotations": {"touched": "yes"}}})).await;

    instances.delete("stack", &kube::api::DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "stack").await;
    assert!(provided.remote().get_opt("stack").await.unwrap().is_none());
    assert!(world.claims().get_opt("stack").await.unwrap().is_none());
    assert!(world.targets().get_opt("stack").await.unwrap().is_none());
    assert!(provided.clusters.list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
}
