//! A hub with the kinds of two providers, which the tests play: `Cloud` has `spec.claimRef` and `status.bindingPhase`, `Plain`
//! has neither.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kross_controller::Settings;
use kross_testing::{Cluster, FaultProxy, Fixture, Verb, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use crate::setup::{Objects, Running, condition, install_crds, until};

pub const PROVIDER: &str = "cloud.example.com/v1";

struct Shared {
    proxy: FaultProxy,
    running: Running,
}

static SHARED: OnceCell<Shared> = OnceCell::const_new();

/// A namespace of the hub that only this test uses. Cluster-scoped objects have its name as a prefix.
pub struct World {
    pub namespace: String,
    pub objects: Objects,
    pub proxy: Option<&'static FaultProxy>,
}

/// Installs the project's CRDs and those of the providers.
pub async fn install(client: &Client) {
    let mut crds = kross_api::crds();
    crds.extend(
        [("Cloud", true, "Cluster"), ("Plain", false, "Cluster"), ("Local", false, "Namespaced")]
            .map(|(kind, has_binding, scope)| provider_crd(kind, has_binding, scope)),
    );
    install_crds(client, crds).await;
}

fn provider_crd(
    kind: &str,
    has_binding: bool,
    scope: &str,
) -> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
    let text = json!({"type": "string"});
    let reference = json!({"type": "object", "properties": {"namespace": text, "name": text}});
    let mut spec = json!({"zone": text, "writeConnectionSecretToRef": reference});
    let conditions =
        json!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let mut status = json!({"conditions": conditions});
    if has_binding {
        spec["claimRef"] = json!({"type": "object", "properties": {"apiVersion": text, "kind": text,
            "namespace": text, "name": text, "uid": text}});
        status["bindingPhase"] = text;
    }
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "properties": status}}});
    let plural = format!("{}s", kind.to_lowercase());
    serde_json::from_value(json!({"metadata": {"name": format!("{plural}.cloud.example.com")},
        "spec": {"group": "cloud.example.com", "scope": scope, "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}}]}}))
    .unwrap()
}

impl World {
    pub async fn new() -> Self {
        Self::of(&Fixture::hub().await).await
    }

    /// With a remote cluster that has a namespace of the same name.
    pub async fn with_remote(name: &str) -> (Self, Cluster) {
        let fixture = Fixture::with(&[name]).await;
        (Self::of(&fixture).await, fixture.remote(name).clone())
    }

    async fn of(fixture: &Fixture) -> Self {
        let client = fixture.hub.client.clone();
        let shared = SHARED
            .get_or_init(|| async {
                install(&client).await;
                let admin = fixture.hub.plane.admin();
                let proxy = FaultProxy::start(admin).unwrap();
                let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
                let running = Running::start_with(config, Settings::default()).await;
                Shared { proxy, running }
            })
            .await;
        Self { namespace: fixture.namespace.clone(), objects: Objects { client }, proxy: Some(&shared.proxy) }
    }

    /// The prefix of the names of cluster-scoped objects.
    pub fn named(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    pub fn claims(&self) -> Api<DynamicObject> {
        self.objects.namespaced(
            "compute.crossplane.io",
            "KubernetesCluster",
            "kubernetesclusters",
            &self.namespace,
        )
    }

    pub fn targets(&self) -> Api<DynamicObject> {
        self.targets_in(&self.namespace)
    }

    pub fn targets_in(&self, namespace: &str) -> Api<DynamicObject> {
        self.objects.namespaced("workload.crossplane.io", "KubernetesTarget", "kubernetestargets", namespace)
    }

    pub fn classes(&self) -> Api<DynamicObject> {
        let kind = "KubernetesClusterClass";
        self.objects.api("compute.crossplane.io", "v1alpha1", kind, "kubernetesclusterclasses")
    }

    /// The objects of a provider.
    pub fn managed(&self, kind: &str) -> Api<DynamicObject> {
        self.objects.api("cloud.example.com", "v1", kind, &format!("{}s", kind.to_lowercase()))
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.objects.client.clone(), &self.namespace)
    }

    /// Creates a class of a provider's kind. Its managed resources have the connection Secret `source`.
    pub async fn class(&self, name: &str, kind: &str, more: Json) {
        let spec = json!({"zone": "a", "writeConnectionSecretToRef": {"namespace": self.namespace, "name": "source"}});
        let mut class = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesClusterClass",
            "metadata": {"name": self.named(name)},
            "spec": {"template": {"apiVersion": PROVIDER, "kind": kind, "spec": spec}}});
        merge(&mut class, &more);
        create(&self.classes(), class).await;
    }

    pub async fn claim(&self, name: &str, spec: Json) {
        let labels = json!({"env": name});
        create(
            &self.claims(),
            json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesCluster",
                "metadata": {"name": name, "labels": labels}, "spec": spec}),
        )
        .await;
    }

    /// Creates a claim of a class that publishes its cluster through the Secret `NAME-conn`.
    pub async fn claim_of(&self, name: &str, class: &str) {
        let spec = json!({"classRef": {"name": self.named(class)},
            "writeConnectionSecretToRef": {"name": format!("{name}-conn")}});
        self.claim(name, spec).await;
    }

    pub async fn claim_uid(&self, name: &str) -> String {
        self.claims().get(name).await.unwrap().metadata.uid.unwrap()
    }

    /// The name of the managed resource of a claim, once it is created.
    pub async fn provisioned(&self, claim: &str, kind: &str) -> String {
        let name = format!("cluster-{}", self.claim_uid(claim).await);
        until(self.managed(kind), name.clone(), |_| true).await;
        name
    }

    /// Does what a provider does: writes the connection Secret and the condition `Ready`.
    pub async fn make_ready(&self, kind: &str, name: &str) {
        self.write_source(kind, name, "first").await;
        self.set_ready(kind, name, "True").await;
    }

    pub async fn set_ready(&self, kind: &str, name: &str, status: &str) {
        let ready = json!({"type": "Ready", "status": status, "reason": "Tested",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
        self.managed(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Writes the connection Secret `source`, controlled by the managed resource.
    pub async fn write_source(&self, kind: &str, name: &str, kubeconfig: &str) {
        let uid = self.managed(kind).get(name).await.unwrap().metadata.uid.unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "source",
            "ownerReferences": [{"apiVersion": PROVIDER, "kind": kind, "name": name, "uid": uid, "controller": true}]},
            "stringData": {"kubeconfig": kubeconfig, "unrelated": "not copied"}});
        let parameters = PatchParams::apply("provider").force();
        self.secrets().patch("source", &parameters, &Patch::Apply(secret)).await.unwrap();
    }

    #[track_caller]
    pub fn until_claim(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.claims(), name.to_owned(), condition)
    }

    #[track_caller]
    pub fn until_condition(
        &self,
        name: &str,
        (kind, status, reason): (&'static str, &'static str, &'static str),
    ) -> impl Future<Output = Json> {
        self.until_claim(name, move |claim| {
            let found = condition(claim, kind);
            found["status"] == status && found["reason"] == reason
        })
    }

    #[track_caller]
    pub fn until_ready(&self, name: &str) -> impl Future<Output = Json> {
        self.until_claim(name, |claim| {
            condition(claim, "Ready")["status"] == "True" && claim["status"]["bindingPhase"] == "Bound"
        })
    }

    /// Provisions a claim of a new class, and returns its managed resource.
    pub async fn bound(&self, name: &str, kind: &str, class: Json) -> String {
        self.class(name, kind, class).await;
        self.claim_of(name, name).await;
        let managed = self.provisioned(name, kind).await;
        self.make_ready(kind, &managed).await;
        self.until_ready(name).await;
        managed
    }

    pub async fn delete_claim(&self, name: &str) {
        self.claims().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn until_deleted(&self, name: &str) {
        wait::until_deleted(&self.claims(), name).await;
    }

    /// The value of a key in a Secret; none if it does not exist.
    pub async fn secret_value(&self, name: &str, key: &str) -> Option<String> {
        let data = self.secrets().get_opt(name).await.unwrap()?.data?;
        data.get(key).map(|ByteString(bytes)| String::from_utf8(bytes.clone()).unwrap())
    }
}

pub async fn create(api: &Api<DynamicObject>, object: Json) {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

pub async fn patch(api: &Api<DynamicObject>, name: &str, patch: Json) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

pub async fn get(api: &Api<DynamicObject>, name: &str) -> Json {
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

/// Whether this is the verb of a write.
pub fn is_write(verb: Verb) -> bool {
    matches!(verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Apply | Verb::Delete)
}

fn merge(object: &mut Json, more: &Json) {
    match (object, more) {
        (Json::Object(object), Json::Object(more)) => {
            for (key, value) in more {
                merge(object.entry(key.clone()).or_insert(Json::Null), value);
            }
        }
        (object, more) => *object = more.clone(),
    }
}

pub fn bytes(entries: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
    let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()));
    entries.iter().map(entry).collect()
}
