//! A hub with a controller, a remote cluster, and the objects of both.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kross_api::yaml;
use kross_local::{Access, Credential};
use kross_testing::{Fixture, TraceCollector, wait};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

use crate::process::Process;

pub struct World {
    pub fixture: Fixture,
    pub process: Process,
    pub collector: TraceCollector,
    folder: tempfile::TempDir,
    printed: String,
}

impl World {
    pub async fn new(definition: &str) -> Self {
        // Starting control planes takes a deep stack.
        let fixture = Box::pin(Fixture::with(&["eu"])).await;
        let folder = tempfile::tempdir().unwrap();
        let minted = fixture
            .remote("eu")
            .plane
            .mint_token(&fixture.namespace, "plugin", &Access::all())
            .await
            .unwrap();
        let Credential::Token(printed) = minted.credential else { panic!("a token") };
        let script = format!(
            "#!/bin/sh\necho '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"{printed}\"}}}}'\necho {printed} >&2\n"
        );
        let plugin = folder.path().join("plugin");
        std::fs::write(&plugin, script).unwrap();
        std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
        let objects = Objects { client: fixture.hub.client.clone() };
        for crd in kross_api::graph_crds() {
            objects.apply(&serde_json::to_value(crd).unwrap()).await;
        }
        let collector = TraceCollector::start().await.unwrap();
        let flags = [
            format!("--otlp-endpoint=http://{}", collector.address()),
            format!(
                "--kubeconfig-exec-allow={},args=zqargument*,server=127.0.0.1,namespace={},env=CANARY",
                plugin.display(),
                fixture.namespace
            ),
            format!("--audit-log-path={}", folder.path().join("audit.log").display()),
        ];
        let process = Process::start("hub", &flags).await;
        let world = Self { fixture, process, collector, folder, printed };
        world.define(definition).await;
        world
    }

    pub fn plugin(&self) -> PathBuf {
        self.folder.path().join("plugin")
    }

    /// The token that the credential plugin prints.
    pub fn printed_token(&self) -> &str {
        &self.printed
    }

    pub fn audit_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap()
    }

    /// Waits until the audit log is complete.
    pub async fn until_audited(&self, complete: impl Fn(&[Json]) -> Result<(), String>) {
        wait::until("the audit log to be complete", || {
            let text = self.audit_log();
            // The last line may be incomplete.
            let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let records: Vec<Json> = whole.map(|line| serde_json::from_str(line).unwrap()).collect();
            std::future::ready(complete(&records))
        })
        .await;
    }

    /// Waits until the remote cluster no longer allows a verb on ConfigMaps.
    pub async fn until_forbidden(&self, user: &str, verb: &str) {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "metadata": {}, "spec": {"user": user, "resourceAttributes": {"resource": "configmaps", "verb": verb,
                "namespace": self.fixture.namespace}}});
        let remote = Objects { client: self.fixture.remote("eu").client.clone() };
        let reviews = remote.api("authorization.k8s.io", "v1", "SubjectAccessReview", None);
        let review = serde_json::from_value(review).unwrap();
        wait::until(format!("`{user}` to lose `{verb}`"), || async {
            let answer = reviews.create(&PostParams::default(), &review).await;
            let status = &answer.map_err(|error| error.to_string())?.data["status"];
            if status["allowed"] == true { Err(status.to_string()) } else { Ok(()) }
        })
        .await;
    }

    fn hub(&self) -> Objects {
        Objects { client: self.fixture.hub.client.clone() }
    }

    /// Creates a Secret with a kubeconfig, and with an annotation that must not leak either.
    pub async fn secret(&self, name: &str, kubeconfig: &str) {
        self.secret_with(name, kubeconfig, json!({"note": "zqannotationzq"})).await;
    }

    pub async fn secret_with(&self, name: &str, kubeconfig: &str, annotations: Json) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.fixture.namespace, "annotations": annotations},
            "stringData": {"kubeconfig": kubeconfig}});
        self.hub().apply(&secret).await;
    }

    /// Creates a Secret that no cluster reference can use.
    pub async fn opaque_secret(&self, name: &str, data: Json) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.fixture.namespace}, "stringData": data});
        self.hub().apply(&secret).await;
    }

    /// Applies definitions and waits until they are active.
    pub async fn define(&self, definition: &str) {
        let objects = self.hub();
        for document in documents(definition) {
            objects.apply(&document).await;
            let definitions = objects.api("kro.run", "v1alpha1", "ResourceGraphDefinition", None);
            let name = document["metadata"]["name"].as_str().unwrap();
            wait::until_object(&definitions, name, |object| object.data["status"]["state"] == "Active").await;
        }
    }

    /// Creates an instance of the definition that all tests share.
    pub async fn create(&self, name: &str, secret: &str) {
        self.instance("Guarded", &self.fixture.namespace, name, json!({"secret": secret})).await;
    }

    pub async fn instance(&self, kind: &str, namespace: &str, name: &str, spec: Json) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        self.hub().apply(&instance).await;
    }

    pub async fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> Json {
        self.until_of("Guarded", &self.fixture.namespace, name, condition).await
    }

    pub async fn until_of(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        condition: impl Fn(&Json) -> bool,
    ) -> Json {
        let instances = self.hub().api("kro.run", "v1alpha1", kind, Some(namespace));
        let found = wait::until_object(&instances, name, |object: &DynamicObject| {
            condition(&serde_json::to_value(object).unwrap())
        });
        serde_json::to_value(found.await).unwrap()
    }

    /// Deletes an instance, and waits until it and its remote object are deleted.
    pub async fn delete(&self, name: &str) {
        let namespace = Some(self.fixture.namespace.as_str());
        let instances = self.hub().api("kro.run", "v1alpha1", "Guarded", namespace);
        instances.delete(name, &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&instances, name).await;
        let remote = Objects { client: self.fixture.remote("eu").client.clone() };
        let objects = remote.api("", "v1", "ConfigMap", namespace);
        assert!(objects.get_opt(name).await.unwrap().is_none(), "{name} still exists in the remote cluster");
    }

    /// Applies roles and bindings in the remote cluster.
    pub async fn grant(&self, yaml: &str) {
        let remote = Objects { client: self.fixture.remote("eu").client.clone() };
        for document in documents(yaml) {
            remote.apply(&document).await;
        }
    }

    /// The current ClusterRole without one verb on ConfigMaps.
    pub async fn roles_without(&self, name: &str, verb: &str) -> String {
        let remote = Objects { client: self.fixture.remote("eu").client.clone() };
        let roles = remote.api("rbac.authorization.k8s.io", "v1", "ClusterRole", None);
        let role = serde_json::to_value(roles.get(name).await.unwrap()).unwrap();
        let mut rules = role["rules"].clone();
        for rule in rules.as_array_mut().unwrap() {
            if rule["resources"] == json!(["configmaps"]) {
                let verbs = rule["verbs"].as_array_mut().unwrap();
                let before = verbs.len();
                verbs.retain(|granted| granted != verb);
                assert_eq!(verbs.len() + 1, before, "{verb} was granted");
            }
        }
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
            .to_string()
    }

    /// Every object on the hub that a user without access to Secrets may read.
    pub async fn objects(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (group, version, kind) in [
            ("kro.run", "v1alpha1", "Guarded"),
            ("kro.run", "v1alpha1", "Quoting"),
            ("kro.run", "v1alpha1", "ResourceGraphDefinition"),
            ("internal.kro.run", "v1alpha1", "GraphRevision"),
            ("events.k8s.io", "v1", "Event"),
            ("", "v1", "ConfigMap"),
        ] {
            let api = self.hub().api(group, version, kind, None);
            let list = api.list(&ListParams::default()).await.unwrap();
            assert!(!list.items.is_empty(), "{kind}");
            found.insert(format!("the {kind}s"), serde_json::to_string(&list).unwrap());
        }
        found
    }
}

struct Objects {
    client: kube::Client,
}

impl Objects {
    fn api(&self, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &kross_api::plural(kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    async fn apply(&self, object: &Json) {
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let namespace = object["metadata"]["namespace"].as_str();
        let api = self.api(group, version, object["kind"].as_str().unwrap(), namespace);
        let name = object["metadata"]["name"].as_str().unwrap();
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
    }
}

/// The output of `kross rbac` for a definition.
pub fn rbac(definition: &str, arguments: &[&str]) -> String {
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
    String::from_utf8(output.stdout).unwrap()
}

fn documents(text: &str) -> Vec<Json> {
    let mut sources = kross_diagnostics::Sources::new();
    let mut found = kross_diagnostics::Diagnostics::new();
    let documents = yaml::parse(&mut sources, "documents", text, &yaml::Limits::default(), &mut found);
    documents.iter().map(|document| serde_json::to_value(document.value()).unwrap()).collect()
}
