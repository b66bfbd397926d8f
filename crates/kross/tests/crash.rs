//! `kill -9` at many moments while instances are made, changed and deleted: everything converges, nothing is left over.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use kross_testing::{shared, wait};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

const INSTANCES: usize = 12;
const NAMESPACE: &str = "default";

/// A controller that is killed when it is dropped.
struct Controller(Child);

impl Controller {
    fn start(kubeconfig: &std::path::Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_kross"))
            .args(["controller", "--kubeconfig"])
            .arg(kubeconfig)
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0", "--admin-bind-address=0"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn api(
    client: &kube::Client,
    group: &str,
    version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    }
}

struct World {
    children: Api<DynamicObject>,
    instances: Api<DynamicObject>,
    kubeconfig: std::path::PathBuf,
}

impl World {
    async fn new() -> Self {
        let plane = shared("hub").await;
        let client = plane.client().await.unwrap();
        let crds = api(&client, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", None);
        for crd in kross_api::crds() {
            let crd = serde_json::from_value(serde_json::to_value(crd).unwrap()).unwrap();
            crds.create(&PostParams::default(), &crd).await.unwrap();
        }
        let resource = |id: &str, value: &str| {
            json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": {"x": value}}})
        };
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": "fragile"}, "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": "Fragile", "spec": {"text": "string"}},
                "resources": [resource("a", "${schema.spec.text}"), resource("b", "${a.data.x}"),
                    resource("c", "${b.data.x}")]}});
        let definitions = api(&client, "kro.run", "v1alpha1", "ResourceGraphDefinition", None);
        let definition = serde_json::from_value(definition).unwrap();
        wait::until("the definition to be taken", || async {
            definitions.create(&PostParams::default(), &definition).await.map_err(|error| error.to_string())
        })
        .await;
        let kubeconfig = plane.admin_path();
        let controller = Controller::start(&kubeconfig);
        wait::until_object(&definitions, "fragile", |object| object.data["status"]["state"] == "Active")
            .await;
        drop(controller);
        Self {
            children: api(&client, "", "v1", "ConfigMap", Some(NAMESPACE)),
            instances: api(&client, "kro.run", "v1alpha1", "Fragile", Some(NAMESPACE)),
            kubeconfig,
        }
    }

    async fn create(&self, number: usize) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Fragile",
            "metadata": {"name": format!("i{number}")}, "spec": {"text": "1"}});
        self.instances
            .create(&PostParams::default(), &serde_json::from_value(instance).unwrap())
            .await
            .unwrap();
    }

    async fn owned(&self) -> Vec<DynamicObject> {
        self.children.list(&ListParams::default().labels("kro.run/owned=true")).await.unwrap().items
    }

    /// Runs a controller until so many children are as the condition says, and kills it at that moment.
    async fn run_until(&self, count: usize, condition: impl Fn(&DynamicObject) -> bool, more: bool) {
        let controller = Controller::start(&self.kubeconfig);
        let condition = &condition;
        wait::until(format!("{count} children to be as expected"), || async move {
            let now = self.owned().await.iter().filter(|child| condition(child)).count();
            let reached = if more { now >= count } else { now <= count };
            if reached { Ok(()) } else { Err(format!("{now}")) }
        })
        .await;
        drop(controller);
    }
}

fn text(child: &DynamicObject) -> &Json {
    &child.data["data"]["x"]
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_moment_nothing_is_lost_doubled_or_left_over() {
    let world = World::new().await;
    for number in 0..INSTANCES {
        world.create(number).await;
    }
    // While they are made, after ever more children.
    for count in [1, 2, 5, 9, 14, 20, 27] {
        world.run_until(count, |_| true, true).await;
    }
    world.run_until(INSTANCES * 3, |_| true, true).await;
    let uids = |children: &[DynamicObject]| -> BTreeSet<String> {
        children.iter().map(|child| child.metadata.uid.clone().unwrap()).collect()
    };
    let made = uids(&world.owned().await);

    // While they are changed.
    for number in 0..INSTANCES {
        let patch = Patch::Merge(json!({"spec": {"text": "2"}}));
        world.instances.patch(&format!("i{number}"), &PatchParams::default(), &patch).await.unwrap();
    }
    for count in [1, 3, 8, 15, 24] {
        world.run_until(count, |child| text(child) == "2", true).await;
    }
    world.run_until(INSTANCES * 3, |child| text(child) == "2", true).await;
    assert_eq!(uids(&world.owned().await), made, "nothing was made a second time");

    // While half of them are deleted.
    for number in 0..INSTANCES / 2 {
        world.instances.delete(&format!("i{number}"), &DeleteParams::default()).await.unwrap();
    }
    let all = INSTANCES * 3;
    for gone in [1, 4, 9, 13] {
        world.run_until(all - gone, |_| true, false).await;
    }
    let controller = Controller::start(&world.kubeconfig);
    for number in 0..INSTANCES / 2 {
        wait::until_gone(&world.instances, &format!("i{number}")).await;
    }
    for number in INSTANCES / 2..INSTANCES {
        wait::until_object(&world.instances, &format!("i{number}"), |instance| {
            instance.data["status"]["state"] == "ACTIVE"
        })
        .await;
    }
    let left = world.owned().await;
    assert_eq!(left.len(), all / 2);
    assert!(uids(&left).is_subset(&made));
    drop(controller);
}
