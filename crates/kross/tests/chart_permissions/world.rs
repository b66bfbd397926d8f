//! A hub where Helm installs the chart, a remote cluster, and a controller that has the token of the chart's ServiceAccount.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kross_local::{Access, Binary, ControlPlane, rule};
use kross_testing::wait;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

use crate::render::{self, NAMESPACE, documents};

const RELEASE: &str = "kross";
const RBAC: &str = "rbac.authorization.k8s.io";

pub struct World {
    pub hub: Cluster,
    pub remote: Cluster,
    folder: tempfile::TempDir,
}

pub struct Cluster {
    pub plane: ControlPlane,
    pub client: Client,
}

impl World {
    /// The hub has a controller manager, which aggregates ClusterRoles and collects garbage.
    pub async fn start() -> Self {
        let (hub, remote) = tokio::join!(
            ControlPlane::named("hub").controller_manager().start(),
            ControlPlane::named("eu").start()
        );
        let (hub, remote) = (hub.unwrap(), remote.unwrap());
        let hub = Cluster { client: hub.client().await.unwrap(), plane: hub };
        let remote = Cluster { client: remote.client().await.unwrap(), plane: remote };
        Self { hub, remote, folder: tempfile::tempdir().unwrap() }
    }

    pub async fn stop(self) {
        self.hub.plane.stop().await;
        self.remote.plane.stop().await;
    }

    /// Installs or upgrades the release.
    pub fn helm_upgrade(&self, chart: &Path, more: &[&str]) {
        let kubeconfig = self.hub.plane.admin_path();
        let mut arguments = vec!["upgrade", "--install", RELEASE, chart.to_str().unwrap()];
        arguments.extend(["--namespace", NAMESPACE, "--create-namespace", "--reset-values"]);
        arguments.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
        arguments.extend(more);
        render::helm_prints(&arguments);
    }

    pub fn helm_uninstall(&self) {
        let kubeconfig = self.hub.plane.admin_path();
        let kubeconfig = kubeconfig.to_str().unwrap();
        render::helm_prints(&["uninstall", RELEASE, "--namespace", NAMESPACE, "--kubeconfig", kubeconfig]);
    }

    /// A copy of the chart with an older version and without one field of a CRD.
    pub fn older_chart(&self) -> PathBuf {
        let older = self.folder.path().join("kross");
        let copied = Command::new("cp").arg("-r").arg(render::chart()).arg(&older).status().unwrap();
        assert!(copied.success());
        edit(&older.join("Chart.yaml"), |chart| {
            chart["version"] = json!("0.0.1");
            chart["appVersion"] = json!("0.0.1");
        });
        edit(&older.join("files/crds/kro.run_resourcegraphdefinitions.yaml"), |crd| {
            assert!(lifecycle_schema(crd).is_some(), "the field exists");
            let spec = crd.pointer_mut(SPEC_PROPERTIES).unwrap();
            spec.as_object_mut().unwrap().remove("lifecycle");
        });
        older
    }

    /// Starts the controller with the arguments of the Deployment and a token of its ServiceAccount.
    pub async fn controller(&self) -> Controller {
        // The ServiceAccount exists already.
        let kubeconfig = self.hub.plane.mint_token(NAMESPACE, "kross", &Access::none()).await.unwrap();
        let path = self.folder.path().join("controller.kubeconfig");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let deployments = self.hub.api("apps", "v1", "Deployment", Some(NAMESPACE));
        let deployment = deployments.get("kross").await.unwrap();
        let text = serde_json::to_string(&deployment).unwrap();
        let arguments = render::arguments(&[(text.clone(), serde_json::from_str(&text).unwrap())]);
        // The remote cluster of this test listens on the loopback address.
        let arguments =
            arguments.into_iter().filter(|argument| !argument.starts_with("--kubeconfig-deny-cidr"));
        let arguments = arguments.map(|argument| argument.replace("=:9443", "=127.0.0.1:0"));
        Controller::start(&path, arguments).await
    }

    /// Grants the controller what `kross rbac` prints for a definition, as the notes of the chart say.
    pub async fn grant_graph(&self, definition: &str) {
        let subject = format!("ServiceAccount:{NAMESPACE}/kross");
        for role in rbac(definition, &["--subject", &subject]) {
            self.hub.apply(&role).await;
        }
    }

    /// Creates the kubeconfig Secret of the remote cluster, which has what `kross rbac --remote` prints.
    pub async fn register(&self, namespace: &str, name: &str, definition: &str) {
        let kubeconfig = self.remote.plane.mint_token(NAMESPACE, "agent", &Access::none()).await.unwrap();
        let subject = format!("ServiceAccount:{NAMESPACE}/agent");
        for role in rbac(definition, &["--remote", "--subject", &subject]) {
            self.remote.apply(&role).await;
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
            "stringData": {"kubeconfig": kubeconfig.to_string()}});
        self.hub.apply(&secret).await;
    }

    /// Registers the remote cluster in the namespace of the controller, with a token of which one day of thirty is left.
    pub async fn register_until_tomorrow(&self, name: &str) {
        let day = Duration::from_secs(24 * 3_600);
        let mut own = rule(&[""], &["serviceaccounts/token"], &["create"]);
        own.resource_names = Some(vec![name.to_owned()]);
        let access = Access::none().in_namespace(NAMESPACE, [own]);
        let kubeconfig =
            self.remote.plane.mint_aged_token(NAMESPACE, name, &access, (29 * day, day)).await.unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kro.run/cluster-credentials": "true"},
                "annotations": {"kro.run/token-service-account": format!("{NAMESPACE}/{name}")}},
            "stringData": {"kubeconfig": kubeconfig.to_string()}});
        self.hub.apply(&secret).await;
    }

    /// Takes a verb on a resource from roles. Waits until the API server refuses it to the controller.
    pub async fn revoke(&self, names: &[&str], group: &str, resource: &str, verb: &str) {
        let roles = self.hub.api(RBAC, "v1", "ClusterRole", None);
        for name in names {
            let mut changed = serde_json::to_value(roles.get(name).await.unwrap()).unwrap();
            let mut found = false;
            for rule in changed["rules"].as_array_mut().unwrap() {
                let has = |field: &str, value: &str| rule[field].as_array().unwrap().contains(&json!(value));
                if has("apiGroups", group) && has("resources", resource) && has("verbs", verb) {
                    rule["verbs"].as_array_mut().unwrap().retain(|granted| granted != verb);
                    found = true;
                }
            }
            assert!(found, "{name} grants {verb} on {resource}");
            let patch = json!({"rules": changed["rules"]});
            roles.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {"user": format!("system:serviceaccount:{NAMESPACE}:kross"),
                "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{NAMESPACE}")],
                "resourceAttributes": {"group": group, "resource": resource, "verb": verb, "namespace": "default"}}});
        let review: DynamicObject = serde_json::from_value(review).unwrap();
        let reviews = self.hub.api("authorization.k8s.io", "v1", "SubjectAccessReview", None);
        wait::until(format!("{verb} on {resource} to be refused"), || async {
            let answer =
                reviews.create(&Default::default(), &review).await.map_err(|error| error.to_string())?;
            if answer.data["status"]["allowed"] == json!(false) { Ok(()) } else { Err("allowed".to_owned()) }
        })
        .await;
    }
}

const SPEC_PROPERTIES: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

/// The schema of the field that the older chart does not have.
pub fn lifecycle_schema(crd: &Json) -> Option<&Json> {
    crd.pointer(SPEC_PROPERTIES)?.get("lifecycle")
}

fn edit(path: &Path, change: impl FnOnce(&mut Json)) {
    let mut json: Json = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    change(&mut json);
    // JSON is YAML.
    std::fs::write(path, json.to_string()).unwrap();
}

impl Cluster {
    pub fn api(&self, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kross_api::plural(kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn api_of(&self, object: &Json) -> Api<DynamicObject> {
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        self.api(group, version, object["kind"].as_str().unwrap(), object["metadata"]["namespace"].as_str())
    }

    pub async fn apply(&self, object: &Json) {
        let (api, name) = (self.api_of(object), object["metadata"]["name"].as_str().unwrap());
        wait::until(format!("{} to be applied", render::key(object)), || async {
            let applied = api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await;
            applied.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    pub async fn apply_yaml(&self, text: &str) {
        for (_, object) in documents(text) {
            self.apply(&object).await;
        }
    }

    pub async fn namespace(&self, name: &str) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }

    pub async fn until(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        key: (Option<&str>, &str),
        condition: impl Fn(&Json) -> bool,
    ) -> Json {
        let api = self.api(group, version, kind, key.0);
        let object = wait::until_object(&api, key.1, |object: &DynamicObject| {
            condition(&serde_json::to_value(object).unwrap())
        });
        serde_json::to_value(object.await).unwrap()
    }

    /// Deletes an object and waits until it does not exist any more.
    pub async fn delete(&self, group: &str, version: &str, kind: &str, key: (Option<&str>, &str)) {
        let api = self.api(group, version, kind, key.0);
        api.delete(key.1, &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&api, key.1).await;
    }

    /// What kubectl prints.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new(self.plane.assets().path(Binary::Kubectl).unwrap())
            .arg("--kubeconfig")
            .arg(self.plane.admin_path())
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The roles that `kross rbac` prints.
pub fn rbac(definition: &str, arguments: &[&str]) -> Vec<Json> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
        .arg("rbac")
        .args(arguments)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(definition.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    documents(&String::from_utf8(output.stdout).unwrap()).into_iter().map(|(_, object)| object).collect()
}

/// A controller as a process. Stopped when it is dropped, so that it releases the Lease for the next one.
pub struct Controller {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Controller {
    async fn start(kubeconfig: &Path, arguments: impl Iterator<Item = String>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
            .args(arguments)
            .args(["--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0"])
            .args(["--admin-bind-address=0", "--zap-encoder=json", "--kubeconfig"])
            .arg(kubeconfig)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        let controller = Self { child, lines };
        controller.until_logged("started leading").await;
        controller
    }

    /// Waits until a text is in the log.
    pub async fn until_logged(&self, text: &str) {
        wait::until(format!("`{text}` in the log"), || async {
            let log = self.log();
            if log.contains(text) { Ok(()) } else { Err(log) }
        })
        .await;
    }

    pub fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// The requests that were refused, from the log.
    pub fn refusals(&self) -> Vec<String> {
        self.log().lines().filter(|line| line.contains("is forbidden")).map(str::to_owned).collect()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the controller:\n{}", self.log());
        }
        let stopped = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if stopped.is_none_or(|pid| kill_process(pid, Signal::TERM).is_err()) {
            let _ = self.child.kill();
        }
        // It ends within the time for running reconciles.
        let _ = self.child.wait();
    }
}
