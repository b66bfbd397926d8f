//! A hub of one test, whose controller goes through a proxy, and a remote cluster behind another one.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kross_controller::{ConnectionIntervals, Settings};
use kross_testing::{FaultProxy, Requests, objects, shared, wait};
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, create_once_served, install, until};

const RESOURCE: &str = "clusterconnections.kro.run";

pub struct World {
    pub client: Client,
    pub objects: Objects,
    /// Between the hub and its controller.
    pub hub: FaultProxy,
    /// Between the controller and the remote cluster.
    pub remote: FaultProxy,
    pub uid: String,
    /// The kubeconfig in the Secrets.
    pub kubeconfig: String,
    plane: &'static str,
}

/// Settings with which a test need not wait for a minute.
pub fn settings() -> Settings {
    let mut settings = Settings {
        connections: ConnectionIntervals {
            compare: Duration::from_millis(100),
            details: Duration::from_millis(200),
            states: Duration::from_secs(1),
            unused: Duration::from_millis(500),
        },
        ..Settings::default()
    };
    settings.clusters.idle_timeout = Duration::from_millis(500);
    settings
}

impl World {
    /// A hub of this name without a controller.
    pub async fn new(plane: &'static str) -> Self {
        let (hub, remote) = tokio::join!(shared(plane), shared("eu"));
        let client = hub.client().await.unwrap();
        install(&client).await;
        let proxy = FaultProxy::start(remote.admin()).unwrap();
        let namespaces: Api<Namespace> = Api::all(remote.client().await.unwrap());
        let system = namespaces.get("kube-system").await.unwrap();
        Self {
            objects: Objects { client: client.clone() },
            client,
            hub: FaultProxy::start(hub.admin()).unwrap(),
            kubeconfig: proxy.kubeconfig(remote.admin()).unwrap().to_string(),
            remote: proxy,
            uid: system.metadata.uid.unwrap(),
            plane,
        }
    }

    /// Starts a controller.
    pub async fn start(&self) -> Running {
        let admin = shared(self.plane).await.admin();
        Running::start_with(self.hub.kubeconfig(admin).unwrap().config().await.unwrap(), settings()).await
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates Secrets with the kubeconfig of the remote cluster.
    pub async fn create_secrets(&self, names: &[String]) {
        let kubeconfig = self.remote.kubeconfig(shared("eu").await.admin()).unwrap();
        for name in names {
            let secret = objects::kubeconfig_secret(name, &kubeconfig);
            self.secrets().create(&PostParams::default(), &secret).await.unwrap();
        }
    }

    /// Defines a kind whose instances have a ConfigMap in each cluster that they name.
    pub async fn define(&self) -> Api<DynamicObject> {
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": "shop"}, "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": "Shop", "spec": {"clusters": "[]string"}},
                "resources": [{"id": "notes", "forEach": [{"cluster": "${schema.spec.clusters}"}],
                    "cluster": {"name": "${cluster}"},
                    "template": {"apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": {"name": "${schema.metadata.name + '-' + cluster}"}}}]}});
        self.objects.create(&definition).await;
        self.objects.until_ready("shop").await;
        self.objects.namespaced("kro.run", "Shop", "shops", "default")
    }

    /// Creates an instance, and waits until it is ready.
    pub async fn create(&self, shops: &Api<DynamicObject>, name: &str, clusters: &[String]) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Shop", "metadata": {"name": name},
            "spec": {"clusters": clusters}});
        create_once_served(shops, instance).await;
        self.until_active(shops, name).await;
    }

    #[track_caller]
    pub fn until_active(&self, shops: &Api<DynamicObject>, name: &str) -> impl Future<Output = Json> {
        until(shops.clone(), name.to_owned(), |instance| instance["status"]["state"] == "ACTIVE")
    }

    pub fn connections(&self) -> Api<DynamicObject> {
        self.objects.api("kro.run", "v1alpha1", "ClusterConnection", "clusterconnections")
    }

    #[track_caller]
    pub fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.connections(), name.to_owned(), move |object| condition(&object["status"]))
    }

    /// What the controller has asked of the hub about ClusterConnections, without its watch.
    pub fn requests(&self) -> Vec<String> {
        let status = format!("{RESOURCE}/status");
        let both = [RESOURCE, &status].map(|resource| self.hub.requests(&Requests::any().resource(resource)));
        let requests = both.iter().flatten().map(|record| record.request.to_string());
        requests.filter(|request| !request.starts_with("watch")).collect()
    }

    /// Waits until nothing is asked about ClusterConnections for many times the interval at which they are compared.
    pub async fn until_idle(&self) {
        let mut last = (self.requests().len(), Instant::now());
        wait::until_true("nothing to be published", || {
            let now = self.requests().len();
            if now != last.0 {
                last = (now, Instant::now());
            }
            last.1.elapsed() > Duration::from_secs(3)
        })
        .await;
    }
}
