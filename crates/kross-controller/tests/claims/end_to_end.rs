//! A graph is the provider, a claim provisions through it, and graphs and applications use the cluster that the claim publishes.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kross_testing::{Cluster, Requests, Verb, wait};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

use crate::setup::{condition, create_once_served, until};
use crate::world::{World, create, get, patch};

/// A namespace in a hub and in the remote cluster `eu`, which a class of graphs provides.
pub struct Provided {
    pub world: World,
    eu: Cluster,
    /// The instances of the provider.
    pub clusters: Api<DynamicObject>,
}

impl Provided {
    /// Defines a provider of this kind, which copies the kubeconfig of `eu`, and a class of it with the same name in lower case.
    async fn new(kind: &str) -> Self {
        let (world, eu) = World::with_remote("eu").await;
        Self::on(world, eu, kind).await
    }

    /// The same on any hub.
    pub async fn on(world: World, eu: Cluster, kind: &str) -> Self {
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

    pub fn instances(&self, kind: &str) -> Api<DynamicObject> {
        self.world.objects.namespaced("kro.run", kind, &kross_api::plural(kind), &self.world.namespace)
    }

    pub fn remote(&self) -> Api<ConfigMap> {
        self.eu.api()
    }

    /// Claims a cluster as `dev`, and uses it: an instance of this kind has the ConfigMap `web` there, an application `app`.
    pub async fn use_cluster(&self, kind: &str) -> (Api<DynamicObject>, Api<DynamicObject>) {
        let world = &self.world;
        world.claim_of("dev", "graph").await;
        world.until_ready("dev").await;
        until(world.targets(), "dev".to_owned(), |it| condition(it, "Ready")["status"] == "True").await;
        let schema = json!({"apiVersion": "v1alpha1", "kind": kind, "spec": {}});
        define(world, schema, json!([remote_config_map("dev")])).await;
        let instances = self.instances(kind);
        let instance =
            json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": "web"}, "spec": {}});
        create_once_served(&instances, instance).await;
        let template =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"a": "1"}});
        let application = json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
            "metadata": {"name": "app"}, "spec": {"targetSelector": {"matchLabels": {"env": "dev"}},
                "resourceTemplates": [{"metadata": {"name": "app"}, "spec": {"template": template}}]}});
        let applications: Api<DynamicObject> = {
            let kind = GroupVersionKind::gvk("workload.crossplane.io", "v1alpha2", "KubernetesApplication");
            let client = world.objects.client.clone();
            Api::namespaced_with(client, &world.namespace, &ApiResource::from_gvk(&kind))
        };
        create(&applications, application).await;
        until_active(&instances, "web").await;
        let is_submitted = |it: &Json| it["status"]["state"] == "Submitted";
        until(applications.clone(), "app".to_owned(), is_submitted).await;
        for name in ["web", "app"] {
            assert!(self.remote().get_opt(name).await.unwrap().is_some());
        }
        (instances, applications)
    }

    /// Creates the instance `stack` of a graph that makes a claim and deploys into its cluster.
    pub async fn create_stack(&self) -> Api<DynamicObject> {
        let class = self.world.named("graph");
        let claim = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesCluster",
            "metadata": {"name": "${schema.metadata.name}"},
            "spec": {"classRef": {"name": class}, "writeConnectionSecretToRef": {"name": "${schema.metadata.name}-conn"}}});
        let ready = "${claim.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')}";
        let claim = json!({"id": "claim", "readyWhen": [ready], "template": claim});
        let schema = json!({"apiVersion": "v1alpha1", "kind": "WholeStack", "spec": {}});
        define(&self.world, schema, json!([claim, remote_config_map("${claim.metadata.name}")])).await;
        let instances = self.instances("WholeStack");
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "WholeStack", "metadata": {"name": "stack"}, "spec": {}});
        create_once_served(&instances, instance).await;
        until_active(&instances, "stack").await;
        instances
    }

    /// The controller deleted the target of `dev`, then the copy of the Secret, then the managed resource, then the claim.
    fn assert_deleted_in_order(&self) {
        let (proxy, namespace) = (self.world.proxy.unwrap(), &self.world.namespace);
        let last = |verb: Verb, resource: &str, name: Option<&str>| {
            let mut requests = Requests::any().verb(verb).resource(resource);
            if let Some(name) = name {
                requests = requests.namespace(namespace).name(name);
            }
            proxy.requests(&requests).last().map(|record| record.at).unwrap()
        };
        let times = [
            last(Verb::Delete, "kubernetesapplicationresources.workload.crossplane.io", Some("app")),
            last(Verb::Patch, "kubernetestargets.workload.crossplane.io", Some("dev")),
            last(Verb::Delete, "secrets", Some("dev-conn")),
            last(Verb::Delete, "providedclusters.kro.run", None),
            last(Verb::Patch, "kubernetesclusters.compute.crossplane.io", Some("dev")),
        ];
        assert!(times.is_sorted(), "{times:?}");
    }
}

pub async fn define(world: &World, schema: Json, resources: Json) {
    let name = schema["kind"].as_str().unwrap().to_lowercase();
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": name}, "spec": {"schema": schema, "resources": resources}});
    world.objects.create(&definition).await;
    world.objects.until_ready(&name).await;
}

pub fn remote_config_map(target: &str) -> Json {
    json!({"id": "app", "target": {"kubernetesTarget": {"name": target}}, "template": {"apiVersion": "v1",
        "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}"}, "data": {"a": "1"}}})
}

pub async fn until_active(instances: &Api<DynamicObject>, name: &str) {
    until(instances.clone(), name.to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_cluster_is_used_by_an_application_and_a_graph_and_outlives_both() {
    let provided = Provided::new("ProvidedCluster").await;
    let world = &provided.world;
    let (instances, applications) = provided.use_cluster("ClaimUser").await;
    let target = get(&world.targets(), "dev").await;
    assert_eq!(target["metadata"]["labels"]["env"], "dev", "{target:#}");

    // Drift of both is repaired there.
    for name in ["web", "app"] {
        let edit = Patch::Merge(json!({"data": {"a": "drifted"}}));
        provided.remote().patch(name, &PatchParams::default(), &edit).await.unwrap();
        let is_repaired = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["a"] == "1");
        wait::woken(wait::until_object(&provided.remote(), name, is_repaired)).await;
        provided.remote().delete(name, &DeleteParams::default()).await.unwrap();
        wait::woken(wait::until_object(&provided.remote(), name, is_repaired)).await;
    }

    // The deletion of the claim names both users, and is held back by each.
    world.delete_claim("dev").await;
    let of_graph = format!("ClaimUser `{}/web`", world.namespace);
    let of_application = format!("KubernetesApplicationResource `{}/app`", world.namespace);
    let names = |users: Vec<&str>| {
        let (users, all) = (users.join("|"), [of_graph.clone(), of_application.clone()]);
        move |claim: &Json| {
            let ready = condition(claim, "Ready");
            let message = ready["message"].as_str().unwrap_or_default();
            ready["reason"] == "InUse"
                && all.iter().all(|user| message.contains(user) == users.split('|').any(|it| it == user))
        }
    };
    world.until_claim("dev", names(vec![&of_graph, &of_application])).await;
    for name in ["web", "app"] {
        assert!(provided.remote().get_opt(name).await.unwrap().is_some());
    }
    wait::woken(async {
        applications.delete("app", &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&applications, "app").await;
        world.until_claim("dev", names(vec![&of_graph])).await;
    })
    .await;
    assert!(provided.remote().get_opt("app").await.unwrap().is_none());
    assert!(world.secrets().get_opt("dev-conn").await.unwrap().is_some());
    assert_eq!(provided.clusters.list(&ListParams::default()).await.unwrap().items.len(), 1);
    // The objects there can still be deleted, and then everything else is.
    wait::woken(async {
        instances.delete("web", &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&instances, "web").await;
        world.until_deleted("dev").await;
    })
    .await;
    assert!(provided.remote().get_opt("web").await.unwrap().is_none());
    assert!(provided.clusters.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(world.targets().get_opt("dev").await.unwrap().is_none());
    let secrets = world.secrets().list(&ListParams::default()).await.unwrap().items;
    let left: Vec<_> = secrets.into_iter().filter_map(|secret| secret.metadata.name).collect();
    assert_eq!(left, ["account"], "the copy is deleted, and so is what the provider made");
    provided.assert_deleted_in_order();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_copy_of_a_claim_that_somebody_deletes_is_kept_for_the_users_of_its_target() {
    let provided = Provided::new("KeptCluster").await;
    let world = &provided.world;
    let (instances, applications) = provided.use_cluster("KeptUser").await;
    let uid = world.secrets().get("dev-conn").await.unwrap().metadata.uid;
    world.secrets().delete("dev-conn", &DeleteParams::default()).await.unwrap();
    let is_terminating = |secret: &Secret| secret.metadata.deletion_timestamp.is_some();
    let says_so = world.until_condition("dev", ("ConnectionSecretPropagated", "False", "Deleting"));
    let claim = wait::woken(says_so).await;
    let message = condition(&claim, "ConnectionSecretPropagated")["message"].to_string();
    assert!(message.contains("serves deletions only"), "{message}");
    assert_eq!(claim["status"]["bindingPhase"], "Bound");
    applications.delete("app", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&applications, "app").await;
    assert!(provided.remote().get_opt("app").await.unwrap().is_none());
    assert!(is_terminating(&world.secrets().get("dev-conn").await.unwrap()), "`web` still needs it");
    wait::woken(async {
        instances.delete("web", &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&instances, "web").await;
        wait::until_object(&world.secrets(), "dev-conn", |copy| copy.metadata.uid != uid).await;
        world.until_ready("dev").await;
    })
    .await;
    assert!(provided.remote().get_opt("web").await.unwrap().is_none());
    world.delete_claim("dev").await;
    world.until_deleted("dev").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_makes_a_claim_and_deploys_into_its_cluster_can_be_deleted() {
    let provided = Provided::new("OwnCluster").await;
    let world = &provided.world;
    let instances = provided.create_stack().await;
    assert!(provided.remote().get_opt("stack").await.unwrap().is_some());
    // The target is the claim's, and not the instance's.
    let target = get(&world.targets(), "stack").await;
    assert!(target["metadata"]["labels"].get("kro.run/instance-id").is_none(), "{target:#}");
    patch(&instances, "stack", json!({"metadata": {"annotations": {"touched": "yes"}}})).await;

    instances.delete("stack", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "stack").await;
    assert!(provided.remote().get_opt("stack").await.unwrap().is_none());
    assert!(world.claims().get_opt("stack").await.unwrap().is_none());
    assert!(world.targets().get_opt("stack").await.unwrap().is_none());
    assert!(provided.clusters.list(&ListParams::default()).await.unwrap().items.is_empty());
}
