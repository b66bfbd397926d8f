//! A hub with a namespace controller, whose own controller is stopped and started again: namespaces are deleted with the Secrets
//! that their instances need, and Secrets lose their last user while no controller runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kross_controller::Settings;
use kross_local::ControlPlane;
use kross_testing::{Action, Answer, FaultProxy, Requests, Verb, objects, shared, wait};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::setup::{Objects, Running, create_once_served, install, until};
use crate::world::config_map;

const KIND: &str = "Guarded";

/// The hub, with a proxy between it and its controller, and a remote cluster.
struct ManagedHub {
    plane: ControlPlane,
    proxy: FaultProxy,
    objects: Objects,
    eu: &'static ControlPlane,
    eu_client: Client,
    eu_proxy: FaultProxy,
}

impl ManagedHub {
    async fn start() -> Self {
        let managed = ControlPlane::named("managed").controller_manager();
        let (plane, eu) = tokio::join!(async { managed.start().await.unwrap() }, shared("eu"));
        let client = plane.client().await.unwrap();
        install(&client).await;
        Self {
            proxy: FaultProxy::start(plane.admin()).unwrap(),
            objects: Objects { client },
            eu_client: eu.client().await.unwrap(),
            eu_proxy: FaultProxy::start(eu.admin()).unwrap(),
            eu,
            plane,
        }
    }

    async fn run(&self) -> Running {
        let config = self.proxy.kubeconfig(self.plane.admin()).unwrap().config().await.unwrap();
        Running::start_with(config, Settings::default()).await
    }

    /// Creates a namespace in both clusters, and a protected Secret in the hub's.
    async fn namespace(&self, name: &str) {
        for client in [&self.objects.client, &self.eu_client] {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            namespaces.create(&PostParams::default(), &objects::namespace(name)).await.unwrap();
        }
        let kubeconfig = self.eu_proxy.kubeconfig(self.eu.admin()).unwrap();
        let mut secret = objects::kubeconfig_secret("eu-kubeconfig", &kubeconfig);
        secret.metadata.labels = Some(BTreeMap::from([("kro.run/protect".to_owned(), "true".to_owned())]));
        // Instances choose the namespace of the Secret.
        let allowed = ("kro.run/allowed-namespaces".to_owned(), format!("apps,{name}"));
        secret.metadata.annotations = Some(BTreeMap::from([allowed]));
        self.secrets(name).create(&PostParams::default(), &secret).await.unwrap();
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.objects.client.clone(), namespace)
    }

    fn instances(&self, namespace: &str) -> Api<DynamicObject> {
        self.objects.namespaced("kro.run", KIND, &kross_api::plural(KIND), namespace)
    }

    fn remote(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.eu_client.clone(), namespace)
    }

    /// Creates an instance that uses the Secret of a namespace, and waits until it is active.
    async fn create(&self, namespace: &str, name: &str, secrets: &str) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": KIND,
            "metadata": {"name": name, "namespace": namespace}, "spec": {"secrets": secrets}});
        create_once_served(&self.instances(namespace), instance).await;
        let is_active = |instance: &serde_json::Value| instance["status"]["state"] == "ACTIVE";
        until(self.instances(namespace), name.to_owned(), is_active).await;
    }

    async fn release(&self, namespace: &str, name: &str) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let instances = self.instances(namespace);
        instances.delete(name, &DeleteParams::default()).await.unwrap();
        instances.patch(name, &PatchParams::default(), &patch).await.unwrap();
        wait::until_deleted(&instances, name).await;
    }
}

fn definition() -> serde_json::Value {
    let mut remote = config_map("a", None, json!({}));
    remote["cluster"] = json!({"name": "eu-kubeconfig", "namespace": "${schema.spec.secrets}"});
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "guarded"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": KIND, "spec": {"secrets": "string"}},
            "resources": [remote, config_map("b", None, json!({"a": "${a.metadata.name}"}))]}})
}

fn is_protected(secret: &Secret) -> bool {
    secret.metadata.finalizers.iter().flatten().any(|name| name == "kro.run/protect")
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_secrets_outlive_their_users_over_restarts_and_namespace_deletions() {
    let hub = ManagedHub::start().await;
    let running = hub.run().await;
    hub.objects.create(&definition()).await;
    hub.objects.until_ready("guarded").await;
    for namespace in ["apps", "credentials", "orphaned", "unlabelled"] {
        hub.namespace(namespace).await;
    }
    hub.create("apps", "x", "apps").await;
    hub.create("apps", "far", "credentials").await;
    hub.create("orphaned", "x", "orphaned").await;
    hub.create("unlabelled", "x", "unlabelled").await;
    for namespace in ["apps", "credentials", "orphaned", "unlabelled"] {
        wait::until_object(&hub.secrets(namespace), "eu-kubeconfig", is_protected).await;
    }
    running.stop().await;

    // While no controller runs: one namespace is deleted as a whole, and so is one whose Secret others need; two Secrets lose
    // their last user, and one of them its label.
    let namespaces: Api<Namespace> = Api::all(hub.objects.client.clone());
    namespaces.delete("credentials", &DeleteParams::default()).await.unwrap();
    namespaces.delete("apps", &DeleteParams::default()).await.unwrap();
    hub.release("orphaned", "x").await;
    hub.release("unlabelled", "x").await;
    let unlabelled = Patch::Merge(json!({"metadata": {"labels": {"kro.run/protect": null}}}));
    hub.secrets("unlabelled").patch("eu-kubeconfig", &PatchParams::default(), &unlabelled).await.unwrap();
    let is_terminating =
        |secret: &Secret| secret.metadata.deletion_timestamp.is_some() && is_protected(secret);
    for namespace in ["apps", "credentials"] {
        wait::until_object(&hub.secrets(namespace), "eu-kubeconfig", is_terminating).await;
    }

    let running = hub.run().await;
    for namespace in ["apps", "credentials"] {
        wait::until_deleted(&namespaces, namespace).await;
    }
    for name in ["x-a", "far-a"] {
        assert!(hub.remote("apps").get_opt(name).await.unwrap().is_none(), "{name}");
    }
    for namespace in ["orphaned", "unlabelled"] {
        wait::until_object(&hub.secrets(namespace), "eu-kubeconfig", |secret| !is_protected(secret)).await;
    }

    // Without the permission nothing waits for the protection, and an Event on the Secret says what is missing.
    let patches = || Requests::any().verb(Verb::Patch).resource("secrets");
    let rule = hub.proxy.on(patches(), Action::Answer(Answer::status(403)));
    hub.create("orphaned", "y", "orphaned").await;
    let events: Api<Event> = Api::namespaced(hub.objects.client.clone(), "orphaned");
    wait::until("an Event about the missing permission", || async {
        let found = events.list(&Default::default()).await.unwrap().items;
        let notes = found.into_iter().filter(|event| event.reason.as_deref() == Some("ProtectionFailed"));
        let notes: Vec<_> = notes.filter_map(|event| event.note).collect();
        if notes.iter().any(|note| note.contains("allow the controller to patch Secrets")) {
            Ok(())
        } else {
            Err(format!("{notes:?}"))
        }
    })
    .await;
    hub.proxy.remove(rule);
    let touched =
        Patch::Merge(json!({"metadata": {"annotations": {"kro.run/allowed-namespaces": "orphaned"}}}));
    hub.secrets("orphaned").patch("eu-kubeconfig", &PatchParams::default(), &touched).await.unwrap();
    wait::until_object(&hub.secrets("orphaned"), "eu-kubeconfig", is_protected).await;
    running.stop().await;
}
