//! A hub with a controller and two remote clusters, `eu` and `us`, with a fault proxy in front of each for every test.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kross_cluster::Backoff;
use kross_controller::{RenewalSettings, Settings};
use kross_local::Kubeconfig;
use kross_testing::{Cluster, FaultProxy, Fixture, Requests, Verb};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::instance_api::InstanceApi;
pub use crate::instance_api::{edit, value};
use crate::setup::{Objects, Running, install};

static SHARED: OnceCell<Running> = OnceCell::const_new();
/// The settings of the program's controller, if they are set before the first world is created.
pub static SETTINGS: std::sync::OnceLock<Settings> = std::sync::OnceLock::new();

/// The default settings, with tokens that are renewed as soon as they are due.
fn settings() -> Settings {
    let interval = Duration::from_millis(500);
    let backoff = Backoff { base: interval, cap: interval };
    let renewals = RenewalSettings { interval, backoff, ..RenewalSettings::default() };
    Settings { renewals, ..Settings::default() }
}

/// The controller of the program.
pub fn running() -> &'static Running {
    SHARED.get().unwrap()
}

/// A remote cluster behind a proxy that only this test uses.
pub struct Region {
    pub cluster: Cluster,
    pub proxy: FaultProxy,
    pub config_maps: Api<ConfigMap>,
}

/// A definition, and a namespace in all clusters that only this test uses.
pub struct World {
    pub namespace: String,
    pub objects: Objects,
    pub config_maps: Api<ConfigMap>,
    pub secrets: Api<Secret>,
    instance_api: InstanceApi,
    pub regions: BTreeMap<&'static str, Region>,
}

impl Deref for World {
    type Target = InstanceApi;

    fn deref(&self) -> &InstanceApi {
        &self.instance_api
    }
}

impl World {
    /// Creates a definition of this kind, and the Secrets `eu-kubeconfig` and `us-kubeconfig` in the test's namespace.
    pub async fn new(kind: &str, spec: Json) -> Self {
        let world = Self::without_definition(kind).await;
        world.define(spec).await;
        world
    }

    /// As [`World::new`], without the definition.
    pub async fn without_definition(kind: &str) -> Self {
        let fixture = Fixture::with(&["eu", "us"]).await;
        let client = fixture.hub.client.clone();
        SHARED
            .get_or_init(|| async {
                install(&client).await;
                Running::start("hub", SETTINGS.get().cloned().unwrap_or_else(settings)).await
            })
            .await;
        let objects = Objects { client };
        let namespace = fixture.namespace.clone();
        let region = |name: &str| {
            let cluster = fixture.remote(name).clone();
            let proxy = FaultProxy::start(cluster.plane.admin()).unwrap();
            Region { config_maps: cluster.api(), proxy, cluster }
        };
        let world = Self {
            config_maps: fixture.hub.api(),
            secrets: fixture.hub.api(),
            instance_api: InstanceApi::new(&objects, kind, &namespace),
            regions: BTreeMap::from([("eu", region("eu")), ("us", region("us"))]),
            objects,
            namespace,
        };
        for name in ["eu", "us"] {
            let kubeconfig = world.kubeconfig(name);
            world.apply_secret(&format!("{name}-kubeconfig"), &kubeconfig).await;
        }
        world
    }

    /// Creates the definition and waits until it is ready. Version and kind of the schema are added to `spec`.
    pub async fn define(&self, spec: Json) {
        let name = self.kind.to_lowercase();
        let mut spec = spec;
        spec["schema"]["apiVersion"] = json!("v1alpha1");
        spec["schema"]["kind"] = json!(self.kind);
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": name}, "spec": spec});
        self.objects.create(&definition).await;
        self.objects.until_ready(&name).await;
    }

    pub fn region(&self, name: &str) -> &Region {
        &self.regions[name]
    }

    /// The admin kubeconfig of a region, through the test's proxy.
    pub fn kubeconfig(&self, region: &str) -> Kubeconfig {
        let region = self.region(region);
        region.proxy.kubeconfig(region.cluster.plane.admin()).unwrap()
    }

    /// Creates or updates a kubeconfig Secret.
    pub async fn apply_secret(&self, name: &str, kubeconfig: &Kubeconfig) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"kubeconfig": kubeconfig.to_string()}});
        let parameters = PatchParams::apply("test").force();
        self.secrets.patch(name, &parameters, &Patch::Apply(secret)).await.unwrap();
    }

    pub async fn get(&self, name: &str) -> Json {
        serde_json::to_value(self.instances.get(name).await.unwrap()).unwrap()
    }

    /// Waits until a condition of an instance has this status and reason.
    #[track_caller]
    pub fn until_condition(
        &self,
        name: &str,
        (kind, status, reason): (&'static str, &'static str, &'static str),
    ) -> impl Future<Output = Json> {
        self.until(name, move |instance| {
            let found = crate::setup::condition(instance, kind);
            found["status"] == status && found["reason"] == reason
        })
    }
}

impl Region {
    /// The write requests that passed through the proxy.
    pub fn writes(&self) -> Vec<String> {
        let sent = self.proxy.requests(&Requests::any());
        let sent = sent.iter().map(|record| &record.request);
        let writes = sent.filter(|request| {
            matches!(request.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Apply | Verb::Delete)
        });
        writes.map(ToString::to_string).collect()
    }
}

/// A resource that is a ConfigMap, in the cluster of a region or in the hub.
pub fn config_map(id: &str, region: Option<&str>, data: Json) -> Json {
    let mut resource = json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": data}});
    if let Some(region) = region {
        resource["cluster"] = json!({"name": format!("{region}-kubeconfig")});
    }
    resource
}

/// The entry of a resource in `status.managedResources`; null if there is none.
pub fn resource_entry(instance: &Json, id: &str) -> Json {
    let entries = instance["status"]["managedResources"].as_array().cloned().unwrap_or_default();
    entries.into_iter().find(|entry| entry["id"] == id).unwrap_or(Json::Null)
}

/// The entry of a cluster in `status.clusters`, by its Secret; null if there is none.
pub fn cluster_entry(instance: &Json, secret: &str) -> Json {
    let entries = instance["status"]["clusters"].as_array().cloned().unwrap_or_default();
    let of =
        |entry: &Json| entry["secret"].as_str().is_some_and(|name| name.ends_with(&format!("/{secret}")));
    entries.into_iter().find(of).unwrap_or(Json::Null)
}
