//! A hub with the project's CRDs and a running controller, and access to definitions, revisions and CRDs.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kross_cluster::{ClientOptions, ClusterClient, ClusterId};
use kross_controller::{Controller, Graphs, Settings};
use kross_testing::{Fixture, shared, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::{Value as Json, json};
use tokio::sync::{OnceCell, oneshot};

/// A running controller. It has its own thread and runtime, since it outlives the runtime of the test that starts it.
pub struct Running {
    pub graphs: Arc<Graphs>,
    registry: Arc<Registry>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    pub async fn start(plane: &'static str, settings: Settings) -> Self {
        Self::start_with(shared(plane).await.admin().config().await.unwrap(), settings).await
    }

    pub async fn start_with(config: kube::Config, settings: Settings) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (send, received) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let options = ClientOptions::for_version("devel");
                let client = ClusterClient::trusted(ClusterId::local(), config, options).await.unwrap();
                let mut registry = Registry::default();
                let controller = Controller::new(client.clone(), client, settings, &mut registry);
                let _ = send.send((controller.readiness(), controller.graphs(), Arc::new(registry)));
                controller.run(async { drop(stopped.await) }).await.unwrap();
            });
        });
        let (readiness, graphs, registry) = received.await.unwrap();
        wait::until_true("the controller to be ready", || readiness.is_ready()).await;
        Self { graphs, registry, stop: Some(stop), thread: Some(thread) }
    }

    /// The value of a metric, by name and labels; 0 if it does not exist.
    pub fn metric(&self, name: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.unwrap_or_default()
    }

    pub async fn stop(mut self) {
        drop(self.stop.take());
        let thread = self.thread.take().unwrap();
        tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    }
}

/// Creates the project's CRDs and waits until they are established.
pub async fn install(client: &Client) {
    install_crds(client, kross_api::graph_crds()).await;
}

/// Creates CRDs and waits until they are established.
pub async fn install_crds(client: &Client, crds: Vec<CustomResourceDefinition>) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in &crds {
        api.create(&PostParams::default(), crd).await.unwrap();
    }
    for crd in crds {
        let name = crd.metadata.name.unwrap();
        wait::until_object(&api, &name, |crd| {
            let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
            conditions.is_some_and(|conditions| {
                conditions
                    .iter()
                    .any(|condition| condition.type_ == "Established" && condition.status == "True")
            })
        })
        .await;
    }
}

static SHARED: OnceCell<Running> = OnceCell::const_new();

/// The shared hub and its controller. Every test uses names of its own.
pub struct Setup {
    pub fixture: Fixture,
    pub client: Client,
    pub running: &'static Running,
}

impl Setup {
    pub async fn new() -> Self {
        let fixture = Fixture::hub().await;
        let client = fixture.hub.client.clone();
        let running = SHARED
            .get_or_init(|| async {
                install(&client).await;
                Running::start("hub", Settings::default()).await
            })
            .await;
        Self { fixture, client, running }
    }

    pub fn objects(&self) -> Objects {
        Objects { client: self.client.clone() }
    }
}

/// Definitions, revisions, CRDs and instances as JSON.
#[derive(Clone)]
pub struct Objects {
    pub client: Client,
}

impl Objects {
    pub fn api(&self, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, version, kind);
        Api::all_with(self.client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural))
    }

    pub fn namespaced(&self, group: &str, kind: &str, plural: &str, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, "v1alpha1", kind);
        Api::namespaced_with(
            self.client.clone(),
            namespace,
            &ApiResource::from_gvk_with_plural(&kind, plural),
        )
    }

    pub fn config_maps(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
        Api::namespaced_with(self.client.clone(), namespace, &ApiResource::from_gvk(&kind))
    }

    pub fn events(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("events.k8s.io", "v1", "Event");
        Api::namespaced_with(self.client.clone(), namespace, &ApiResource::from_gvk(&kind))
    }

    pub fn definitions(&self) -> Api<DynamicObject> {
        self.api("kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions")
    }

    pub fn revisions(&self) -> Api<DynamicObject> {
        self.api("internal.kro.run", "v1alpha1", "GraphRevision", "graphrevisions")
    }

    pub fn crds(&self) -> Api<DynamicObject> {
        self.api("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
    }

    pub async fn create(&self, definition: &Json) {
        let object: DynamicObject = serde_json::from_value(definition.clone()).unwrap();
        self.definitions().create(&PostParams::default(), &object).await.unwrap();
    }

    pub async fn patch(&self, name: &str, patch: &Json) -> Json {
        let patched =
            self.definitions().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        serde_json::to_value(patched).unwrap()
    }

    pub async fn delete(&self, name: &str) {
        self.definitions().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until a definition satisfies `condition`.
    #[track_caller]
    pub fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.definitions(), name.to_owned(), condition)
    }

    /// Waits until `Ready` of a definition is `True` in its current generation.
    #[track_caller]
    pub fn until_ready(&self, name: &str) -> impl Future<Output = Json> {
        self.until(name, |definition| {
            let ready = condition(definition, "Ready");
            ready["status"] == "True" && ready["observedGeneration"] == definition["metadata"]["generation"]
        })
    }

    /// Waits until a condition of a definition has this status in the current generation.
    #[track_caller]
    pub fn until_condition(
        &self,
        name: &str,
        kind: &'static str,
        status: &'static str,
    ) -> impl Future<Output = Json> {
        self.until(name, move |definition| {
            let found = condition(definition, kind);
            found["status"] == status && found["observedGeneration"] == definition["metadata"]["generation"]
        })
    }

    /// The names of a definition's revisions, the oldest first.
    pub async fn revision_names(&self, definition: &str) -> Vec<String> {
        let all = self.revisions().list(&kube::api::ListParams::default()).await.unwrap();
        let of =
            all.items.into_iter().filter(|revision| revision.data["spec"]["snapshot"]["name"] == definition);
        let mut names: Vec<String> = of.map(|revision| revision.metadata.name.unwrap()).collect();
        names.sort();
        names
    }

    pub async fn get(&self, api: &Api<DynamicObject>, name: &str) -> Json {
        serde_json::to_value(api.get(name).await.unwrap()).unwrap()
    }
}

/// Creates an object of a kind whose CRD may just have been established.
pub async fn create_once_served(api: &Api<DynamicObject>, object: Json) {
    wait::create_once_served(api, &serde_json::from_value(object).unwrap()).await;
}

/// Waits until an object exists and satisfies `condition`.
#[track_caller]
pub fn until(
    api: Api<DynamicObject>,
    name: String,
    condition: impl Fn(&Json) -> bool,
) -> impl Future<Output = Json> {
    let condition = Arc::new(condition);
    wait::until(format!("`{name}` to be as expected"), move || {
        let (api, name, condition) = (api.clone(), name.clone(), Arc::clone(&condition));
        async move {
            let object = api.get_opt(&name).await.map_err(|error| error.to_string())?;
            let object = serde_json::to_value(object.ok_or("the object does not exist")?).unwrap();
            if condition(&object) { Ok(object) } else { Err(format!("{object:#}")) }
        }
    })
}

/// A condition of an object's status; null if there is none.
pub fn condition(object: &Json, kind: &str) -> Json {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or(Json::Null)
}

/// A definition with two ConfigMaps, of which `second` depends on `first`.
pub fn definition(name: &str, kind: &str) -> Json {
    json!({
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": name},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"size": "integer | default=1"},
                "status": {"first": "${first.metadata.name}"}},
            "resources": [
                {"id": "second", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}-second"},
                    "data": {"after": "${first.metadata.name}"}}},
                {"id": "first", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}-first"}}},
            ],
        },
    })
}

/// A patch that adds a field to the schema's spec.
pub fn with_field(name: &str, text: &str) -> Json {
    json!({"spec": {"schema": {"spec": {name: text}}}})
}
