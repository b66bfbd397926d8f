//! Clusters whose etcd is restored from a backup: everything is checked again in the older state, and nothing is deleted
//! because of it.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kross_controller::Settings;
use kross_local::ControlPlane;
use kross_testing::wait;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::instance_api::{InstanceApi, value};
use crate::setup::{Objects, Running, install};

/// One test at a time starts control planes: many of them slow all other tests down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A hub and a remote cluster of its own, with an instance kind whose ConfigMaps are in both.
struct Restorable {
    alone: MutexGuard<'static, ()>,
    hub: ControlPlane,
    remote: ControlPlane,
    objects: Objects,
    instances: InstanceApi,
    /// In the hub, and in the remote cluster.
    config_maps: [Api<ConfigMap>; 2],
    running: Running,
}

impl Restorable {
    async fn new() -> Self {
        let alone = ONE_AT_A_TIME.lock().await;
        let (hub, remote) = tokio::join!(
            ControlPlane::named("hub-restored").start(),
            ControlPlane::named("remote-restored").start()
        );
        let (hub, remote) = (hub.unwrap(), remote.unwrap());
        let objects = Objects { client: hub.client().await.unwrap() };
        install(&objects.client).await;
        let secrets: Api<Secret> = Api::namespaced(objects.client.clone(), "default");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "remote-kubeconfig"},
            "stringData": {"kubeconfig": remote.admin().to_string()}});
        let parameters = PatchParams::apply("test").force();
        secrets.patch("remote-kubeconfig", &parameters, &Patch::Apply(secret)).await.unwrap();
        let running = Running::start_with(hub.admin().config().await.unwrap(), Settings::default()).await;
        objects.create(&definition()).await;
        objects.until_ready("restored").await;
        let instances = InstanceApi::new(&objects, "Restored", "default");
        let config_maps = [
            Api::namespaced(objects.client.clone(), "default"),
            Api::namespaced(remote.client().await.unwrap(), "default"),
        ];
        Self { alone, hub, remote, objects, instances, config_maps, running }
    }

    /// Waits until the ConfigMaps of an instance have this text, in both clusters.
    async fn until_text(&self, instance: &str, text: &str) {
        for (api, name) in self.config_maps.iter().zip(["local", "remote"]) {
            let name = format!("{instance}-{name}");
            wait::until(format!("`{name}` to have the text `{text}`"), || async {
                let map = api.get_opt(&name).await.map_err(|error| error.to_string())?;
                let map = map.ok_or("it does not exist")?;
                if value(&map, "text") == Some(text) { Ok(()) } else { Err(format!("{:?}", map.data)) }
            })
            .await;
        }
    }

    async fn stop(self) {
        self.running.stop().await;
        self.hub.stop().await;
        self.remote.stop().await;
    }
}

fn definition() -> Json {
    let map = |name: &str| {
        json!({"id": name, "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.metadata.name}}-{name}")},
            "data": {"text": "${schema.spec.text}"}}})
    };
    let mut remote = map("remote");
    remote["cluster"] = json!({"name": "remote-kubeconfig"});
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "restored"},
    "spec": {
        "schema": {"apiVersion": "v1alpha1", "kind": "Restored", "spec": {"text": "string"}},
        "resources": [map("local"), remote],
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_remote_cluster_gets_what_the_hub_desires() {
    let mut world = Restorable::new().await;
    world.instances.create("edited", json!({"text": "before"})).await;
    world.until_text("edited", "before").await;
    let snapshot = world.remote.snapshot().await.unwrap();
    world.instances.patch("edited", json!({"spec": {"text": "after"}})).await;
    world.instances.create("later", json!({"text": "later"})).await;
    world.until_text("edited", "after").await;
    world.until_text("later", "later").await;
    world.instances.until_state("later", "ACTIVE").await;

    world.remote.restore(&snapshot).await.unwrap();
    world.until_text("edited", "after").await;
    world.until_text("later", "later").await;
    // Drift is noticed in the new history too.
    let drift = json!({"data": {"text": "drift"}});
    world.config_maps[1].patch("edited-remote", &PatchParams::default(), &Patch::Merge(drift)).await.unwrap();
    world.until_text("edited", "after").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_hub_reconciles_the_older_state_and_deletes_nothing_of_what_it_no_longer_knows() {
    let mut world = Restorable::new().await;
    world.instances.create("edited", json!({"text": "before"})).await;
    world.until_text("edited", "before").await;
    world.instances.until_state("edited", "ACTIVE").await;
    let snapshot = world.hub.snapshot().await.unwrap();
    world.instances.patch("edited", json!({"spec": {"text": "after"}})).await;
    world.instances.create("later", json!({"text": "later"})).await;
    // A revision that the restored hub does not know.
    let status = json!({"spec": {"schema": {"status": {"text": "${schema.spec.text}"}}}});
    world.objects.patch("restored", &status).await;
    world.instances.until("later", |instance| instance["status"]["text"] == "later").await;
    world.until_text("edited", "after").await;
    world.until_text("later", "later").await;

    world.hub.restore(&snapshot).await.unwrap();
    world.until_text("edited", "before").await;
    world.instances.until_state("edited", "ACTIVE").await;
    // New objects get versions that are lower than those that the caches have seen.
    world.instances.create("new", json!({"text": "new"})).await;
    world.until_text("new", "new").await;
    world.objects.patch("restored", &status).await;
    world.instances.until("new", |instance| instance["status"]["text"] == "new").await;
    assert!(world.instances.instances.get_opt("later").await.unwrap().is_none());
    let kept = world.config_maps[1].get_opt("later-remote").await.unwrap();
    assert_eq!(kept.as_ref().and_then(|map| value(map, "text")), Some("later"));
    assert_eq!(kept.and_then(|map| map.metadata.deletion_timestamp), None);
    world.stop().await;
}
