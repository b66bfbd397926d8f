//! Deletion hooks when the controller is killed at any step: an object that was created is not created again, and one that was
//! not is.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kross_controller::Settings;
use kross_testing::{Action, Answer, Fault, FaultProxy, Requests, Verb, objects, shared, wait};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::instance_api::ownership_metadata;
use crate::setup::{Objects, Running, install, until};
use crate::world::{config_map, edit};

const NAMESPACE: &str = "hook-kills";

/// A control plane with a proxy in front of it, and a running controller.
struct KillWorld {
    proxy: FaultProxy,
    config: kube::Config,
    running: Running,
    instances: Api<DynamicObject>,
    config_maps: Api<ConfigMap>,
}

impl KillWorld {
    /// Starts a control plane and a controller, with an instance of each name of a definition with these resources.
    async fn new(plane: &'static str, resources: Json, names: &[&str]) -> Self {
        let hub = shared(plane).await;
        let objects = Objects { client: hub.client().await.unwrap() };
        install(&objects.client).await;
        let namespaces: Api<Namespace> = Api::all(objects.client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(NAMESPACE)).await.unwrap();
        let proxy = FaultProxy::start(hub.admin()).unwrap();
        let config = proxy.kubeconfig(hub.admin()).unwrap().config().await.unwrap();
        let running = Running::start_with(config.clone(), Settings::default()).await;
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": "hookkill"}, "spec": {"resources": resources,
            "schema": {"apiVersion": "v1alpha1", "kind": "HookKill", "spec": {}}}});
        objects.create(&definition).await;
        objects.until_ready("hookkill").await;
        let instances = objects.namespaced("kro.run", "HookKill", "hookkills", NAMESPACE);
        let config_maps = Api::namespaced(objects.client.clone(), NAMESPACE);
        for name in names {
            let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "HookKill", "metadata": {"name": name}, "spec": {}});
            instances
                .create(&PostParams::default(), &serde_json::from_value(instance).unwrap())
                .await
                .unwrap();
            until(instances.clone(), (*name).to_owned(), |instance| instance["status"]["state"] == "ACTIVE")
                .await;
        }
        Self { proxy, config, running, instances, config_maps }
    }

    async fn delete(&self, names: &[&str]) {
        for name in names {
            self.instances.delete(name, &DeleteParams::default()).await.unwrap();
        }
    }

    /// Ends the controller, which cannot send another request.
    async fn kill(self) -> Killed {
        self.proxy.set(Fault::Refuse);
        self.running.stop().await;
        Killed {
            proxy: self.proxy,
            config: self.config,
            instances: self.instances,
            config_maps: self.config_maps,
        }
    }
}

/// What is left when the controller has ended.
struct Killed {
    proxy: FaultProxy,
    config: kube::Config,
    instances: Api<DynamicObject>,
    config_maps: Api<ConfigMap>,
}

impl Killed {
    /// Starts another controller.
    async fn restart(self) -> KillWorld {
        self.proxy.clear();
        self.proxy.set(Fault::Pass);
        let running = Running::start_with(self.config.clone(), Settings::default()).await;
        let Self { proxy, config, instances, config_maps } = self;
        KillWorld { proxy, config, running, instances, config_maps }
    }
}

/// A deletion hook that is ready once its data has `done`.
fn backup() -> Json {
    let mut backup = config_map("backup", json!({"of": "${database.metadata.name}"}));
    backup["lifecycle"] = json!({"when": "Deletion"});
    backup["readyWhen"] = json!(["${has(backup.data.done)}"]);
    backup
}

/// Makes a hook ready once its object exists.
async fn edit_once_created(config_maps: &Api<ConfigMap>, name: &str) {
    wait::until_object(config_maps, name, |_| true).await;
    edit(config_maps, name, json!({"done": "yes"})).await;
}

fn writes(name: &str) -> Requests {
    Requests::any().verb(Verb::Apply).resource("configmaps").name(name)
}

/// Writes of the metadata of an instance: its inventory with the record of hooks, and its finalizer.
fn patches(name: &str) -> Requests {
    Requests::any().verb(Verb::Patch).resource("hookkills.kro.run").name(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_before_or_after_the_creation_of_a_deletion_hook_neither_repeats_nor_skips_it() {
    let resources = json!([config_map("database", json!({"a": "1"})), backup()]);
    let world = KillWorld::new("hook-kills", resources, &["after", "before"]).await;
    // One object is created, and the controller does not learn of it. The other one is never created.
    world.proxy.on_next(1, writes("after-backup"), Action::CutAfter(0));
    world.proxy.on(Requests::any().verb(Verb::Get).resource("configmaps").name("after-backup"), Action::Hang);
    world.proxy.on(writes("before-backup"), Action::Answer(Answer::status(500)));
    world.delete(&["after", "before"]).await;
    wait::until_object(&world.config_maps, "after-backup", |_| true).await;
    wait::until_true("the other write", || world.proxy.count(&writes("before-backup")) > 0).await;
    let killed = world.kill().await;
    killed.config_maps.delete("after-backup", &DeleteParams::default()).await.unwrap();
    assert!(killed.config_maps.get_opt("before-backup").await.unwrap().is_none());

    let world = killed.restart().await;
    wait::until_object(&world.config_maps, "before-backup", |_| true).await;
    assert!(world.config_maps.get_opt("before-database").await.unwrap().is_some());
    edit_once_created(&world.config_maps, "before-backup").await;
    for name in ["after", "before"] {
        wait::until_deleted(&world.instances, name).await;
    }
    world.running.stop().await;
    assert_eq!(world.proxy.count(&writes("after-backup")), 1);
    let left = world.config_maps.list(&ListParams::default().labels("kro.run/owned=true")).await.unwrap();
    assert!(left.items.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_hook_is_not_created_while_the_version_before_it_cannot_be_read() {
    // A Secret, so that no object of the hook's kind is in the inventory, which is listed before anything is deleted.
    let mut database = config_map("database", json!({"a": "MQ=="}));
    database["template"]["kind"] = json!("Secret");
    let resources = json!([database, backup()]);
    let world = KillWorld::new("hook-version", resources, &["app"]).await;
    let lists = || Requests::any().verb(Verb::List).resource("configmaps").namespace(NAMESPACE);
    world.proxy.on(lists(), Action::Answer(Answer::status(500)));
    world.proxy.on(writes("app-backup"), Action::Answer(Answer::status(500)));
    let before = world.proxy.count(&lists());
    world.delete(&["app"]).await;
    wait::until_true("lists that fail", || world.proxy.count(&lists()) > before + 1).await;
    assert_eq!(world.proxy.count(&writes("app-backup")), 0);
    world.proxy.clear();
    // The next controller has to tell that the object was never created.
    world.proxy.on(writes("app-backup"), Action::Answer(Answer::status(500)));
    wait::until_true("the write", || world.proxy.count(&writes("app-backup")) > 0).await;
    let world = world.kill().await.restart().await;
    edit_once_created(&world.config_maps, "app-backup").await;
    wait::until_deleted(&world.instances, "app").await;
    world.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_later_step_neither_repeats_a_deletion_hook_nor_deletes_a_retained_object() {
    const NAMES: [&str; 3] = ["ready", "others", "last"];
    let mut kept = config_map("kept", json!({"a": "1"}));
    kept["lifecycle"] = json!({"delete": {"policy": "Retain"}});
    let mut database = config_map("database", json!({"a": "1"}));
    database["lifecycle"] = json!({"delete": {"after": ["backup"]}});
    // It reads nothing that is deleted: without a record it would be due again.
    let mut backup = backup();
    backup["template"]["data"] = json!({"of": "${schema.metadata.name}"});
    let resources = json!([database, kept, backup]);
    let world = KillWorld::new("hook-steps", resources, &NAMES).await;
    let (proxy, config_maps) = (&world.proxy, &world.config_maps);
    let finalizers = |value: Json| Patch::Merge(json!({"metadata": {"finalizers": value}}));
    let params = PatchParams::default();
    world.delete(&NAMES).await;
    for name in NAMES {
        let is_recorded = |instance: &Json| {
            let text = &instance["metadata"]["annotations"]["internal.kro.run/delete-attempts"];
            text.as_str().is_some_and(|text| text.contains("hooksCreated"))
        };
        until(world.instances.clone(), name.to_owned(), is_recorded).await;
    }
    for held in ["others-database", "last-backup"] {
        config_maps.patch(held, &params, &finalizers(json!(["test.kross.run/hold"]))).await.unwrap();
    }

    // The first hook is ready, and that cannot be recorded. The second one has completed while the others are being deleted.
    // The third one has completed and everything is deleted, but the finalizer of the instance cannot be removed.
    proxy.on(patches("ready"), Action::Answer(Answer::status(500)));
    let before = proxy.count(&patches("ready"));
    for name in NAMES {
        edit(config_maps, &format!("{name}-backup"), json!({"done": "yes"})).await;
    }
    let is_terminating = |object: &ConfigMap| object.metadata.deletion_timestamp.is_some();
    wait::until_true("the record of the first", || proxy.count(&patches("ready")) > before).await;
    wait::until_object(config_maps, "others-database", is_terminating).await;
    wait::until_object(config_maps, "last-backup", is_terminating).await;
    proxy.on(patches("last"), Action::Answer(Answer::status(500)));
    let before = proxy.count(&patches("last"));
    config_maps.patch("last-backup", &params, &finalizers(Json::Null)).await.unwrap();
    wait::until_true("the removal of the finalizer", || proxy.count(&patches("last")) > before).await;
    let killed = world.kill().await;
    for (name, exists) in [("ready-database", true), ("others-backup", true), ("last-backup", false)] {
        assert_eq!(killed.config_maps.get_opt(name).await.unwrap().is_some(), exists, "{name}");
    }

    let world = killed.restart().await;
    world.config_maps.patch("others-database", &params, &finalizers(Json::Null)).await.unwrap();
    for name in NAMES {
        wait::until_deleted(&world.instances, name).await;
    }
    world.running.stop().await;
    for name in NAMES {
        assert_eq!(world.proxy.count(&writes(&format!("{name}-backup"))), 1, "{name}");
        for deleted in ["database", "backup"] {
            let found = world.config_maps.get_opt(&format!("{name}-{deleted}")).await.unwrap();
            assert!(found.is_none(), "{name}-{deleted}");
        }
        let kept = world.config_maps.get(&format!("{name}-kept")).await.unwrap();
        assert_eq!(ownership_metadata(&kept), [""; 0]);
    }
}
