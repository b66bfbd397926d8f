//! A hub whose controller goes through a fault proxy, with one definition and its instances for each test.

use std::ops::Deref;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kross_controller::Settings;
use kross_testing::{FaultProxy, Fixture, Requests, wait};
use kube::Api;
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::instance_api::InstanceApi;
pub use crate::instance_api::{edit, value};
use crate::setup::{Objects, Running, install};

struct Shared {
    proxy: FaultProxy,
    _running: Running,
}

/// The settings of the controller, if a suite does not use the defaults.
pub static SETTINGS: std::sync::OnceLock<Settings> = std::sync::OnceLock::new();

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// A definition, and a namespace for its instances that only this test uses.
pub struct World {
    pub namespace: String,
    pub objects: Objects,
    pub config_maps: Api<ConfigMap>,
    instance_api: InstanceApi,
    pub proxy: &'static FaultProxy,
}

impl Deref for World {
    type Target = InstanceApi;

    fn deref(&self) -> &InstanceApi {
        &self.instance_api
    }
}

impl World {
    /// Creates a definition of this kind with these resources and waits until it is ready.
    pub async fn new(kind: &str, schema: Json, resources: Json) -> Self {
        let fixture = Fixture::hub().await;
        let client = fixture.hub.client.clone();
        let shared = SHARED
            .get_or_init(|| async {
                install(&client).await;
                let admin = fixture.hub.plane.admin();
                let proxy = FaultProxy::start(admin).unwrap();
                let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
                let running = Running::start_with(config, SETTINGS.get().cloned().unwrap_or_default()).await;
                Shared { proxy, _running: running }
            })
            .await;
        let objects = Objects { client };
        let name = kind.to_lowercase();
        let mut schema = schema;
        schema["apiVersion"] = json!("v1alpha1");
        schema["kind"] = json!(kind);
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": name}, "spec": {"schema": schema, "resources": resources}});
        objects.create(&definition).await;
        objects.until_ready(&name).await;
        let namespace = fixture.namespace.clone();
        Self {
            config_maps: fixture.hub.api(),
            instance_api: InstanceApi::new(&objects, kind, &namespace),
            proxy: &shared.proxy,
            objects,
            namespace,
        }
    }

    /// The controller's requests in this namespace, without those for Events.
    pub fn sent_requests(&self) -> Vec<String> {
        let sent = self.proxy.requests(&Requests::any().namespace(&self.namespace));
        let sent = sent.iter().map(|record| &record.request);
        let sent = sent.filter(|request| !request.resource.starts_with("events"));
        sent.map(ToString::to_string).collect()
    }

    /// Waits until the controller sends no request but those of watches in the test's namespace for some time.
    pub async fn until_idle(&self) {
        self.until_quiet(Duration::from_secs(5)).await;
    }

    /// Waits until the controller sends no request but those of watches in the test's namespace for this long.
    pub async fn until_quiet(&self, time: Duration) {
        let busy = || self.sent_requests().iter().filter(|request| !request.starts_with("watch")).count();
        let mut last = (busy(), Instant::now());
        wait::until_true("the controller to be idle", || {
            let now = busy();
            if now != last.0 {
                last = (now, Instant::now());
            }
            last.1.elapsed() > time
        })
        .await;
    }
}

/// A resource that is a ConfigMap.
pub fn config_map(id: &str, data: Json) -> Json {
    json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": data}})
}
