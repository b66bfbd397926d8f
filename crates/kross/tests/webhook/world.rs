//! A hub with two replicas of the controller that serve the admission webhook, and kubectl. Whether a definition goes to the
//! leader, to the standby, to a webhook that is down or to none is decided by its label `webhook`.
#![allow(unreachable_pub)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use kross_local::{Binary, ControlPlane};
use kross_server::WEBHOOK_PATH;
use kross_testing::{shared, wait};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

pub const CONFIGURATION: &str = "kross";
pub const SECRET: &str = "kross-webhook";
/// Short, so that the certificate is rotated while the tests run.
const VALIDITY: &str = "20s";

static REPLICAS: OnceCell<[Replica; 2]> = OnceCell::const_new();

/// The hub, with a client for one test.
pub struct World {
    pub client: Client,
    plane: &'static ControlPlane,
}

/// What kubectl printed.
#[derive(Debug)]
pub struct Answer {
    pub accepted: bool,
    /// Standard error: warnings and errors.
    pub notes: String,
}

/// A controller that is killed when it is dropped.
pub struct Replica {
    child: Child,
    pub webhook: String,
}

impl Replica {
    pub fn start(plane: &ControlPlane, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
            .args(["controller", "--zap-encoder=json", "--kubeconfig"])
            .arg(plane.admin_path())
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0", "--admin-bind-address=0"])
            .arg("--webhook-bind-address=127.0.0.1:0")
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut log = Vec::new();
        let webhook = loop {
            let line = lines.recv_timeout(wait::WAIT_LIMIT).unwrap_or_else(|_| panic!("{log:#?}"));
            let json: Json = serde_json::from_str(&line).unwrap_or_default();
            if json["pages"] == "admission webhook" {
                break json["address"].as_str().unwrap().to_owned();
            }
            log.push(line);
        };
        Self { child, webhook }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl World {
    pub async fn get() -> Self {
        let plane = shared("webhook").await;
        let world = Self { client: plane.client().await.unwrap(), plane };
        REPLICAS.get_or_init(|| Box::pin(world.start())).await;
        world
    }

    async fn start(&self) -> [Replica; 2] {
        let Self { client, plane } = self;
        install(client).await;
        let validity = format!("--webhook-cert-validity={VALIDITY}");
        let elected = ["--leader-elect", "--leader-election-namespace=default"];
        let shared = ["--webhook-service=default/kross-webhook", &validity];
        let replica = || Replica::start(plane, &[elected, shared].concat());
        let leader = replica();
        let leases = api(client, "coordination.k8s.io/v1", "Lease", Some("default"));
        wait::until_object(&leases, "controller.kro.run", |lease| {
            lease.data["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty())
        })
        .await;
        let standby = replica();
        // Nothing listens there any more.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let webhooks = [("leader", &leader.webhook), ("standby", &standby.webhook), ("down", &closed)];
        let webhooks: Vec<Json> =
            webhooks.iter().map(|(name, address)| webhook(name, address, *name == "down")).collect();
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": CONFIGURATION}, "webhooks": webhooks});
        create(&configurations(client), configuration).await;
        for webhook in ["leader", "standby"] {
            wait::until(format!("the {webhook} to validate"), || async {
                let answer = self.dry_run(&invalid("probe", webhook));
                if answer.accepted || !answer.notes.contains("K0") { Err(answer.notes) } else { Ok(()) }
            })
            .await;
        }
        [leader, standby]
    }

    /// `kubectl apply`.
    pub fn apply(&self, object: &Json) -> Answer {
        self.kubectl(&["apply", "-f", "-"], &object.to_string())
    }

    pub fn dry_run(&self, object: &Json) -> Answer {
        self.kubectl(&["apply", "--dry-run=server", "-f", "-"], &object.to_string())
    }

    /// The message of the API server for a definition that is refused.
    pub async fn dry_run_directly(&self, object: &Json) -> String {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let object = serde_json::from_value(object.clone()).unwrap();
        self.definitions().create(&parameters, &object).await.unwrap_err().to_string()
    }

    pub fn kubectl(&self, arguments: &[&str], input: &str) -> Answer {
        let mut child = Command::new(self.plane.assets().path(Binary::Kubectl).unwrap())
            .arg("--kubeconfig")
            .arg(self.plane.admin_path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let notes = String::from_utf8(output.stderr).unwrap();
        Answer { accepted: output.status.success(), notes }
    }

    pub fn definitions(&self) -> Api<DynamicObject> {
        api(&self.client, "kro.run/v1alpha1", "ResourceGraphDefinition", None)
    }

    pub fn instances(&self, kind: &str) -> Api<DynamicObject> {
        api(&self.client, "kro.run/v1alpha1", kind, Some("default"))
    }

    /// Waits until a condition of a definition has this status, and returns its message.
    pub async fn until_condition(&self, name: &str, kind: &str, status: &str) -> String {
        let found = |object: &DynamicObject| {
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions
                .into_iter()
                .find(|condition| condition["type"] == kind && condition["status"] == status)
        };
        let object = wait::until_object(&self.definitions(), name, |object| found(object).is_some()).await;
        found(&object).unwrap()["message"].as_str().unwrap().to_owned()
    }

    /// The certificate that is served now.
    pub async fn certificate(&self) -> String {
        let secret = api(&self.client, "v1", "Secret", Some("default")).get(SECRET).await.unwrap();
        secret.data["data"]["tls.crt"].as_str().unwrap().to_owned()
    }

    /// Sets a part of a definition, past the webhook.
    pub async fn patch(&self, name: &str, patch: &Json) -> Result<DynamicObject, kube::Error> {
        self.definitions().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }
}

/// The CRDs of graphs, established.
async fn install(client: &Client) {
    let crds = api(client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", None);
    for crd in kross_api::graph_crds() {
        let name = crd.metadata.name.clone().unwrap();
        create(&crds, serde_json::to_value(crd).unwrap()).await;
        wait::until_object(&crds, &name, |crd| {
            let conditions = crd.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions
                .iter()
                .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
        })
        .await;
    }
}

fn webhook(name: &str, address: &str, is_down: bool) -> Json {
    json!({
        "name": format!("{name}.kross.run"),
        "clientConfig": {"url": format!("https://{address}{WEBHOOK_PATH}")},
        "objectSelector": {"matchLabels": {"webhook": name}},
        "rules": [{"apiGroups": ["kro.run"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"],
            "resources": ["resourcegraphdefinitions"], "scope": "Cluster"}],
        // Where it works, every answer must come.
        "failurePolicy": if is_down { "Ignore" } else { "Fail" },
        "sideEffects": "None", "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
    })
}

pub fn configurations(client: &Client) -> Api<DynamicObject> {
    api(client, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", None)
}

pub fn api(client: &Client, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    }
}

pub async fn create(api: &Api<DynamicObject>, object: Json) {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// A definition with these resources, whose requests go to this webhook.
pub fn definition(name: &str, webhook: &str, resources: &Json) -> Json {
    let (first, rest) = name.split_at(1);
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": name, "labels": {"webhook": webhook}},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": first.to_uppercase() + rest,
            "spec": {"size": "integer | default=1"}}, "resources": resources}})
}

pub fn config_map(text: &str) -> Json {
    json!([{"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}"}, "data": {"text": text}}}])
}

/// A definition with three mistakes.
pub fn invalid(name: &str, webhook: &str) -> Json {
    let mut resources = config_map("${schema.spec.sise}");
    resources.as_array_mut().unwrap().push(json!({"id": "web", "template": {"apiVersion": "apps/v1",
        "kind": "Deployment", "metadata": {"name": "${map.metadata.nam}"},
        "spec": {"replicas": "three", "selector": {}, "template": {}}}}));
    definition(name, webhook, &resources)
}
