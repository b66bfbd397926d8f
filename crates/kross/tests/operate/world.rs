//! A hub with a controller, a remote cluster `eu` behind a fault proxy, and `kross` as a person runs it.
#![allow(dead_code, unreachable_pub)]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kross_cluster::{ClientOptions, ClusterClient, ClusterId};
use kross_controller::{ConnectionIntervals, Controller, Settings};
use kross_local::Kubeconfig;
use kross_testing::{FaultProxy, Fixture, wait};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

static CONTROLLER: OnceCell<()> = OnceCell::const_new();

/// The namespace of a test as snapshots show it.
const TEAM: &str = "team";

pub struct World {
    pub fixture: Fixture,
    pub proxy: FaultProxy,
    pub namespace: String,
}

/// What a command answered.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub data: String,
    pub notes: String,
}

impl World {
    /// A namespace in both clusters, and the Secret `eu-kubeconfig` on the hub. All tests share one controller.
    pub async fn new() -> Self {
        Self::with(&["eu"]).await
    }

    /// With more remote clusters than `eu`.
    pub async fn with(remotes: &[&str]) -> Self {
        let fixture = Box::pin(Fixture::with(remotes)).await;
        let proxy = FaultProxy::start(fixture.remote("eu").plane.admin()).unwrap();
        let world = Self { namespace: fixture.namespace.clone(), fixture, proxy };
        CONTROLLER.get_or_init(|| world.start_controller()).await;
        world.secret("eu-kubeconfig", &world.kubeconfig()).await;
        world
    }

    /// A hub of its own on which no controller runs.
    pub async fn without_controller(hub: &str) -> Self {
        let mut fixture = Box::pin(Fixture::with(&[hub, "eu"])).await;
        fixture.hub = fixture.remote(hub).clone();
        let proxy = FaultProxy::start(fixture.remote("eu").plane.admin()).unwrap();
        let world = Self { namespace: fixture.namespace.clone(), fixture, proxy };
        world.install().await;
        world
    }

    /// A hub that takes the place of this one: with the same namespace, Secret and remote cluster, and another UID. All tests share
    /// its controller.
    pub async fn rebuilt(&self, hub: &str) -> Self {
        static CONTROLLER: OnceCell<()> = OnceCell::const_new();
        let mut fixture = Box::pin(Fixture::with(&[hub, "eu"])).await;
        fixture.hub = fixture.remote(hub).clone();
        let proxy = FaultProxy::start(fixture.remote("eu").plane.admin()).unwrap();
        let world = Self { namespace: self.namespace.clone(), fixture, proxy };
        world
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace}}))
            .await;
        CONTROLLER.get_or_init(|| world.start_controller()).await;
        world.secret("eu-kubeconfig", &world.kubeconfig()).await;
        world
    }

    /// Installs the CRDs and runs a controller until the program ends.
    async fn start_controller(&self) {
        self.install().await;
        self.run_controller().await;
    }

    async fn install(&self) {
        for crd in kross_api::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            self.apply(&crd).await;
            let name = crd["metadata"]["name"].as_str().unwrap();
            let crds = self.api("apiextensions.k8s.io/v1", "CustomResourceDefinition", None);
            wait::until_object(&crds, name, |crd| {
                let conditions = crd.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
            })
            .await;
        }
    }

    async fn run_controller(&self) {
        let config = self.fixture.hub.plane.admin().config().await.unwrap();
        let (send, received) = tokio::sync::oneshot::channel();
        // It outlives the runtime of the test that starts it.
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let options = ClientOptions::for_version("devel");
                let client = ClusterClient::trusted(ClusterId::local(), config, options).await.unwrap();
                let mut registry = prometheus_client::registry::Registry::default();
                // What is published of clusters follows their use at once.
                let connections = ConnectionIntervals {
                    compare: Duration::from_millis(200),
                    details: Duration::from_millis(500),
                    ..ConnectionIntervals::default()
                };
                let settings = Settings { connections, ..Settings::default() };
                let controller = Controller::new(client.clone(), client, settings, &mut registry);
                let _ = send.send(controller.readiness());
                controller.run(std::future::pending()).await.unwrap();
            });
        });
        let readiness = received.await.unwrap();
        wait::until_true("the controller to be ready", || readiness.is_ready()).await;
    }

    /// The admin kubeconfig of `eu`, through the proxy of this test.
    pub fn kubeconfig(&self) -> Kubeconfig {
        self.proxy.kubeconfig(self.fixture.remote("eu").plane.admin()).unwrap()
    }

    pub async fn secret(&self, name: &str, kubeconfig: &Kubeconfig) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "stringData": {"kubeconfig": kubeconfig.to_string()}}))
            .await;
    }

    pub fn api(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        api(&self.fixture.hub.client, api_version, kind, namespace)
    }

    /// Objects in the test's namespace of the remote cluster.
    pub fn remote(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.fixture.remote("eu").client, api_version, kind, Some(&self.namespace))
    }

    pub fn instances(&self, kind: &str) -> Api<DynamicObject> {
        self.api("kro.run/v1alpha1", kind, Some(&self.namespace))
    }

    /// Applies an object to the hub, once its kind is served.
    pub async fn apply(&self, object: &Json) {
        apply(&self.fixture.hub.client, object).await;
    }

    pub async fn apply_remote(&self, object: &Json) {
        apply(&self.fixture.remote("eu").client, object).await;
    }

    /// Creates a definition. Its instances have a field `text`.
    pub async fn submit(&self, kind: &str, resources: Json) {
        self.apply(&json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": kind.to_lowercase()}, "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"text": "string | default=one"}},
                "resources": resources}}))
            .await;
    }

    /// Creates a definition and waits until it is ready.
    pub async fn define(&self, kind: &str, resources: Json) {
        self.submit(kind, resources).await;
        let definitions = self.api("kro.run/v1alpha1", "ResourceGraphDefinition", None);
        wait::until_object(&definitions, &kind.to_lowercase(), |object| {
            object.data["status"]["state"] == "Active"
        })
        .await;
    }

    pub async fn create(&self, kind: &str, name: &str) {
        self.apply(&json!({"apiVersion": "kro.run/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace}, "spec": {}}))
            .await;
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Json) {
        let instances = self.instances(kind);
        instances.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn until(&self, kind: &str, name: &str, condition: impl Fn(&Json) -> bool) -> Json {
        let instances = self.instances(kind);
        let found =
            wait::until_object(&instances, name, |object| condition(&serde_json::to_value(object).unwrap()));
        serde_json::to_value(found.await).unwrap()
    }

    pub async fn until_state(&self, kind: &str, name: &str, state: &str) {
        self.until(kind, name, |instance| instance["status"]["state"] == state).await;
    }

    /// Waits until an entry of `status.managedResources` has a message with this text.
    pub async fn until_message(&self, kind: &str, name: &str, text: &str) {
        self.until(kind, name, |instance| {
            let entries = instance["status"]["managedResources"].as_array().cloned().unwrap_or_default();
            entries
                .iter()
                .any(|entry| entry["message"].as_str().is_some_and(|message| message.contains(text)))
        })
        .await;
    }

    /// Creates an instance of a new definition and waits until it is ready.
    pub async fn ready(&self, kind: &str, name: &str, resources: Json) {
        self.define(kind, resources).await;
        self.create(kind, name).await;
        self.until_state(kind, name, "ACTIVE").await;
    }

    /// Runs `kross`, as the administrator of the hub and in the test's namespace.
    pub fn kross(&self, arguments: &[&str]) -> Answer {
        self.kross_as(&self.fixture.hub.plane.admin_path(), arguments)
    }

    /// Runs a subcommand of a command, as the administrator of the hub and in the test's namespace.
    pub fn kross_subcommand(&self, command: &str, arguments: &[&str]) -> Answer {
        let (admin, namespace) = (self.fixture.hub.plane.admin_path(), self.namespace.clone());
        let arguments: Vec<String> = arguments.iter().map(|text| text.replace(TEAM, &namespace)).collect();
        let mut program = Command::new(env!("CARGO_BIN_EXE_kross"));
        program.arg(command).args(arguments).arg("--kubeconfig").arg(admin).args(["--namespace", &namespace]);
        self.answer(&mut program)
    }

    /// Runs `kross` with a kubeconfig.
    pub fn kross_as(&self, kubeconfig: &std::path::Path, arguments: &[&str]) -> Answer {
        let (command, rest) = arguments.split_first().unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_kross"));
        program.arg(command).arg("--kubeconfig").arg(kubeconfig);
        self.answer(program.args(["--namespace", &self.namespace]).args(rest))
    }

    fn answer(&self, program: &mut Command) -> Answer {
        let output = program.env_remove("KUBECONFIG").output().unwrap();
        let text = |bytes: Vec<u8>| self.normalized(&String::from_utf8(bytes).unwrap());
        Answer { code: output.status.code().unwrap(), data: text(output.stdout), notes: text(output.stderr) }
    }

    pub fn normalized_text(&self, text: &str) -> String {
        self.normalized(text)
    }

    /// The same text in every run: the namespace, addresses, ages and UIDs.
    fn normalized(&self, text: &str) -> String {
        let text = text.replace(&self.namespace, TEAM);
        let mut normalized = String::with_capacity(text.len());
        let mut word = String::new();
        for character in text.chars().chain(['\n']) {
            if character.is_ascii_alphanumeric() || "-.:".contains(character) {
                word.push(character);
                continue;
            }
            normalized.push_str(&normalized_word(&word));
            normalized.push(character);
            word.clear();
        }
        normalized.pop();
        normalized
    }

    /// The number of instances of a kind.
    pub async fn count(&self, kind: &str) -> usize {
        self.instances(kind).list(&ListParams::default()).await.unwrap().items.len()
    }

    pub fn admin_path(&self) -> PathBuf {
        self.fixture.hub.plane.admin_path()
    }
}

/// A table whose columns are separated by two blanks: their widths depend on ages and namespaces.
pub fn columns(table: &str) -> String {
    let lines = table.lines().map(|line| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        cells.join("  ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn normalized_word(word: &str) -> String {
    let (core, end) = match word.strip_suffix([':', '.']) {
        Some(core) => (core, &word[core.len()..]),
        None => (word, ""),
    };
    let is_uid = core.len() == 36 && core.split('-').count() == 5;
    let is_age = core.starts_with(|it: char| it.is_ascii_digit())
        && core.ends_with(['s', 'm', 'h', 'd'])
        && core.chars().all(|it| it.is_ascii_digit() || "smhd".contains(it));
    match () {
        () if is_uid => format!("UID{end}"),
        () if is_age => format!("AGE{end}"),
        () if core.starts_with("127.0.0.1:") => format!("ADDRESS{end}"),
        () => word.to_owned(),
    }
}

fn api(client: &Client, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &kross_api::plural(kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

pub async fn apply(client: &Client, object: &Json) {
    let text = |path: &str| object.pointer(path).and_then(Json::as_str);
    let api = api(client, text("/apiVersion").unwrap(), text("/kind").unwrap(), text("/metadata/namespace"));
    let name = text("/metadata/name").unwrap();
    wait::until(format!("{name} to be applied"), || async {
        let applied = api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await;
        applied.map_err(|error| error.to_string())
    })
    .await;
}

/// A ConfigMap as a resource, in the hub or in `eu`.
pub fn config_map(id: &str, remote: bool, text: &str) -> Json {
    let mut resource = json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": {"text": text}}});
    if remote {
        resource["cluster"] = json!({"name": "eu-kubeconfig"});
    }
    resource
}
