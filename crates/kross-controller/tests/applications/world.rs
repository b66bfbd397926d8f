//! A hub with a controller behind a fault proxy, two remote clusters that a test publishes as targets, and its applications.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kross_controller::Settings;
use kross_testing::{Cluster, FaultProxy, Fixture};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::setup::{Running, condition, install_crds, until};

struct Shared {
    proxy: FaultProxy,
    _running: Running,
}

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// A remote cluster behind a proxy that only this test uses.
pub struct Region {
    pub cluster: Cluster,
    pub proxy: FaultProxy,
    pub config_maps: Api<ConfigMap>,
    pub secrets: Api<Secret>,
}

/// A namespace in all clusters that only this test uses.
pub struct World {
    pub namespace: String,
    pub hub: Cluster,
    pub secrets: Api<Secret>,
    pub targets: Api<DynamicObject>,
    pub applications: Api<DynamicObject>,
    pub resources: Api<DynamicObject>,
    /// In front of the hub, for the controller alone.
    pub proxy: &'static FaultProxy,
    pub regions: BTreeMap<&'static str, Region>,
}

/// An API of the group of targets and applications.
pub fn api(client: &Client, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("workload.crossplane.io", version, kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

impl World {
    pub async fn new() -> Self {
        let fixture = Fixture::with(&["eu", "us"]).await;
        let client = fixture.hub.client.clone();
        let shared = SHARED
            .get_or_init(|| async {
                install_crds(&client, kross_api::crds()).await;
                let admin = fixture.hub.plane.admin();
                let proxy = FaultProxy::start(admin).unwrap();
                let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
                let running = Running::start_with(config, Settings::default()).await;
                Shared { proxy, _running: running }
            })
            .await;
        let namespace = fixture.namespace.clone();
        let region = |name: &str| {
            let cluster = fixture.remote(name).clone();
            let proxy = FaultProxy::start(cluster.plane.admin()).unwrap();
            Region { config_maps: cluster.api(), secrets: cluster.api(), proxy, cluster }
        };
        Self {
            secrets: fixture.hub.api(),
            targets: api(&client, "v1alpha1", "KubernetesTarget", &namespace),
            applications: api(&client, "v1alpha2", "KubernetesApplication", &namespace),
            resources: api(&client, "v1alpha1", "KubernetesApplicationResource", &namespace),
            proxy: &shared.proxy,
            regions: BTreeMap::from([("eu", region("eu")), ("us", region("us"))]),
            hub: fixture.hub.clone(),
            namespace,
        }
    }

    pub fn region(&self, name: &str) -> &Region {
        &self.regions[name]
    }

    /// Publishes a region as a target of this name, and waits until it is Ready.
    pub async fn publish(&self, name: &str, region: &str, labels: Json) {
        self.announce(name, labels).await;
        self.make_ready(name, region).await;
    }

    /// Creates a target without its connection Secret: it is not Ready.
    pub async fn announce(&self, name: &str, labels: Json) {
        let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
            "metadata": {"name": name, "labels": labels},
            "spec": {"connectionSecretRef": {"name": format!("{name}-connection")}}});
        let target: DynamicObject = serde_json::from_value(target).unwrap();
        self.targets.create(&PostParams::default(), &target).await.unwrap();
    }

    /// Creates the connection Secret of a target, and waits until the target is Ready.
    pub async fn make_ready(&self, name: &str, region: &str) {
        let region = self.region(region);
        let kubeconfig = region.proxy.kubeconfig(region.cluster.plane.admin()).unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-connection")},
            "stringData": {"kubeconfig": kubeconfig.to_string()}});
        self.secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        let is = |target: &Json, kind: &str| condition(target, kind)["status"] == "True";
        until(self.targets.clone(), name.to_owned(), move |target| {
            is(target, "Reachable") && is(target, "Ready")
        })
        .await;
    }

    /// Changes labels of a target.
    pub async fn label(&self, target: &str, labels: Json) {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        self.targets.patch(target, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates an application with a ConfigMap for each of these templates: name and value of `text`.
    pub async fn create(&self, name: &str, templates: &[(&str, &str)], more: Json) {
        self.create_with(name, templates.iter().map(|(name, text)| template(name, text)).collect(), more)
            .await;
    }

    /// Creates an application with these templates, and what else its spec has.
    pub async fn create_with(&self, name: &str, templates: Vec<Json>, more: Json) {
        let mut spec = more;
        spec["resourceTemplates"] = json!(templates);
        let application = json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
            "metadata": {"name": name}, "spec": spec});
        let application: DynamicObject = serde_json::from_value(application).unwrap();
        self.applications.create(&PostParams::default(), &application).await.unwrap();
    }

    pub async fn patch(&self, name: &str, patch: Json) {
        self.applications.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.applications.delete(name, &DeleteParams::default()).await.unwrap();
    }

    #[track_caller]
    pub fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.applications.clone(), name.to_owned(), condition)
    }

    /// Waits until an application has this state in its current generation.
    #[track_caller]
    pub fn until_state(&self, name: &str, state: &'static str) -> impl Future<Output = Json> {
        self.until(name, move |application| has_state(application, state))
    }

    /// Waits until a resource has this state in its current generation.
    #[track_caller]
    pub fn until_resource(&self, name: &str, state: &'static str) -> impl Future<Output = Json> {
        until(self.resources.clone(), name.to_owned(), move |resource| has_state(resource, state))
    }

    /// The target that an application is scheduled to; waits until it is.
    pub async fn scheduled(&self, name: &str) -> String {
        let application =
            self.until(name, |application| application["spec"]["targetRef"]["name"].is_string()).await;
        application["spec"]["targetRef"]["name"].as_str().unwrap().to_owned()
    }
}

pub fn has_state(object: &Json, state: &str) -> bool {
    let ready = condition(object, "Ready");
    object["status"]["state"] == state && ready["observedGeneration"] == object["metadata"]["generation"]
}

/// A template that is a ConfigMap.
pub fn template(name: &str, text: &str) -> Json {
    json!({"metadata": {"name": name, "labels": {"app": "test"}}, "spec": {"template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"text": text}}}})
}

/// The message of a condition.
pub fn message(object: &Json, kind: &str) -> String {
    condition(object, kind)["message"].as_str().unwrap_or_default().to_owned()
}

/// The value of a key in a ConfigMap's data.
pub fn value<'a>(config_map: &'a ConfigMap, key: &str) -> Option<&'a str> {
    config_map.data.as_ref()?.get(key).map(String::as_str)
}
