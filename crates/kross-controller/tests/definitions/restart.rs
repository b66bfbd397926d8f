//! A controller that ends and begins again, on a control plane of its own.

use kross_controller::Settings;
use kross_testing::{shared, wait};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::setup::{Objects, Running, condition, definition, install, until};

const PLANE: &str = "restart";

/// One test after the other: each has the control plane and its controllers to itself.
static TURN: Mutex<bool> = Mutex::const_new(false);

async fn turn() -> (Objects, MutexGuard<'static, bool>) {
    let objects = Objects { client: shared(PLANE).await.client().await.unwrap() };
    let mut installed = TURN.lock().await;
    if !std::mem::replace(&mut *installed, true) {
        install(&objects.client).await;
    }
    (objects, installed)
}

/// Makes an object of a kind of `kro.run/v1alpha1`.
async fn make(api: &kube::Api<DynamicObject>, kind: &str, name: &str) {
    let object =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": {}});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn is_active(instance: &Json) -> bool {
    instance["status"]["state"] == "ACTIVE"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_changes_nothing_and_serves_everything() {
    let (objects, _turn) = turn().await;
    let settings = Settings { allow_crd_deletion: true, ..Settings::default() };
    let running = Running::start(PLANE, settings.clone()).await;
    for (name, kind) in [("good", "Good"), ("edited", "Edited")] {
        objects.create(&definition(name, kind)).await;
        objects.until_ready(name).await;
    }
    // Of the definition that will be broken: instances go on with the last good revision.
    let api = objects.namespaced("kro.run", "Edited", "editeds", "default");
    make(&api, "Edited", "kept").await;
    until(api.clone(), "kept".to_owned(), is_active).await;
    let broken = json!({"spec": {"schema": {"status": {"first": "${nobody.x}"}}}});
    objects.patch("edited", &broken).await;
    objects.until_condition("edited", "GraphAccepted", "False").await;
    running.stop().await;
    let before = state(&objects).await;

    let running = Running::start(PLANE, settings.clone()).await;
    for name in ["good", "edited"] {
        wait::until_true(format!("`{name}` to be served"), || running.graphs.get(name).is_some()).await;
        assert_eq!(running.graphs.get(name).unwrap().revision.as_ref().unwrap().number, 1);
    }
    // Drift is repaired, and nothing else is touched.
    let children = objects.config_maps("default");
    let edit = json!({"data": {"after": "somebody"}});
    children.patch("kept-second", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    until(children.clone(), "kept-second".to_owned(), |child| child["data"]["after"] == "kept-first").await;
    assert_eq!(state(&objects).await, before);
    running.stop().await;

    // While nobody looks, an instance is made and the definition deleted: it is not stranded.
    let api = objects.namespaced("kro.run", "Good", "goods", "default");
    make(&api, "Good", "a").await;
    objects.delete("good").await;
    let running = Running::start(PLANE, settings).await;
    let waiting = objects.until_condition("good", "ControllerReady", "Unknown").await;
    assert!(condition(&waiting, "Ready")["message"].as_str().unwrap().contains("`default/a`"));
    assert!(running.graphs.get("good").unwrap().revision.is_none());
    api.delete("a", &DeleteParams::default()).await.unwrap();
    wait::until_gone(&objects.definitions(), "good").await;
    // This controller may delete CRDs.
    wait::until_gone(&objects.crds(), "goods.kro.run").await;
    running.stop().await;
}

/// The versions of everything that the controller writes.
async fn state(objects: &Objects) -> Vec<(String, String)> {
    let mut state = Vec::new();
    let instances = objects.namespaced("kro.run", "Edited", "editeds", "default");
    let children = objects.config_maps("default");
    for api in [objects.definitions(), objects.revisions(), objects.crds(), instances, children] {
        for object in api.list(&ListParams::default()).await.unwrap() {
            let name = object.metadata.name.unwrap();
            // The one that the test itself changes.
            if name == "kept-second" {
                continue;
            }
            state.push((name, object.metadata.resource_version.unwrap()));
        }
    }
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_goes_with_its_definition_where_that_is_allowed_and_never_with_another() {
    let (objects, _turn) = turn().await;
    let settings = Settings { allow_crd_deletion: true, ..Settings::default() };
    let running = Running::start(PLANE, settings).await;
    objects.create(&definition("keeper", "Kept")).await;
    objects.until_ready("keeper").await;
    objects.create(&definition("pretender", "Kept")).await;
    objects.until_condition("pretender", "KindReady", "False").await;
    objects.delete("pretender").await;
    wait::until_gone(&objects.definitions(), "pretender").await;
    let crd = objects.crds().get("kepts.kro.run").await.unwrap();
    assert!(crd.metadata.deletion_timestamp.is_none());
    // One whose label was taken off is not ours any more.
    objects.create(&definition("disowned", "Disowned")).await;
    objects.until_ready("disowned").await;
    let disown = json!({"metadata": {"labels": {"kro.run/owned": "false"}}});
    objects.crds().patch("disowneds.kro.run", &PatchParams::default(), &Patch::Merge(&disown)).await.unwrap();
    objects.until_condition("disowned", "KindReady", "False").await;
    for name in ["disowned", "keeper"] {
        objects.delete(name).await;
        wait::until_gone(&objects.definitions(), name).await;
    }
    wait::until_gone(&objects.crds(), "kepts.kro.run").await;
    assert!(objects.crds().get_opt("disowneds.kro.run").await.unwrap().is_some());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_say_that_their_revision_does_not_compile_any_more_until_it_does() {
    let (objects, _turn) = turn().await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.restart.test"},
        "spec": {"group": "restart.test", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let crd: DynamicObject = serde_json::from_value(crd).unwrap();
    objects.crds().create(&PostParams::default(), &crd).await.unwrap();
    let mut failing = definition("failing", "Failing");
    let widget = json!({"id": "widget", "template": {"apiVersion": "restart.test/v1", "kind": "Widget",
        "metadata": {"name": "${schema.metadata.name}-widget"}}});
    failing["spec"]["resources"].as_array_mut().unwrap().push(widget);
    let running = Running::start(PLANE, Settings::default()).await;
    objects.create(&failing).await;
    objects.until_ready("failing").await;
    let instances = objects.namespaced("kro.run", "Failing", "failings", "default");
    make(&instances, "Failing", "old").await;
    let before = until(instances.clone(), "old".to_owned(), is_active).await;
    running.stop().await;

    // The kind of a resource goes while nobody looks.
    objects.crds().delete("widgets.restart.test", &DeleteParams::default()).await.unwrap();
    wait::until_gone(&objects.crds(), "widgets.restart.test").await;
    let running = Running::start(PLANE, Settings::default()).await;
    let failed = objects.until_condition("failing", "GraphRevisionsResolved", "False").await;
    let message = condition(&failed, "GraphRevisionsResolved")["message"].clone();
    assert!(message.as_str().unwrap().starts_with("latest graph revision 1 failed compilation"), "{message}");
    assert_eq!(failed["status"]["state"], "Inactive");
    until(objects.revisions(), "failing-r00001".to_owned(), |revision| {
        condition(revision, "GraphVerified")["reason"] == "InvalidGraph"
    })
    .await;
    make(&instances, "Failing", "new").await;
    for (name, managed) in [("old", "True"), ("new", "Unknown")] {
        let said = until(instances.clone(), name.to_owned(), |instance| {
            condition(instance, "GraphResolved")["reason"] == "ResolutionFailed"
        })
        .await;
        assert_eq!(said["status"]["state"], "ERROR", "{name}");
        assert_eq!(condition(&said, "Ready")["status"], "False", "{name}");
        assert_eq!(condition(&said, "InstanceManaged")["status"], managed, "{name}");
        let message = condition(&said, "GraphResolved")["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("latest issued graph revision 1 failed: "), "{message}");
    }
    assert_eq!(running.metric("instance_graph_resolution_failures_total{reason=\"failed\"}") >= 2.0, true);
    // Its objects stay as they were.
    let second = objects.config_maps("default").get("old-second").await.unwrap();
    assert_eq!(second.data["data"]["after"], "old-first");

    objects.crds().create(&PostParams::default(), &crd).await.unwrap();
    objects.until_ready("failing").await;
    for name in ["old", "new"] {
        let after = until(instances.clone(), name.to_owned(), is_active).await;
        assert_eq!(condition(&after, "GraphResolved")["reason"], "Resolved");
        assert!(name == "new" || after["metadata"]["uid"] == before["metadata"]["uid"]);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_a_definition_that_changes_nothing_leaves_its_instances_alone() {
    let (objects, _turn) = turn().await;
    let running = Running::start(PLANE, Settings { condition_metrics: true, ..Settings::default() }).await;
    let watches = running.metric("dynamic_controller_watch_count");
    objects.create(&definition("quiet", "Quiet")).await;
    objects.until_ready("quiet").await;
    let instances = objects.namespaced("kro.run", "Quiet", "quiets", "default");
    for name in ["a", "b"] {
        make(&instances, "Quiet", name).await;
        until(instances.clone(), name.to_owned(), is_active).await;
    }
    let passes = || running.metric("instance_reconcile_total");
    let looks = || running.metric("rgd_graph_revision_resolution_total{result=\"serve\"}");
    wait::until_true("all of it to come to rest", || {
        running.metric("dynamic_controller_queue_length") == 0.0
    })
    .await;
    let (passed, looked) = (passes(), looks());
    objects.patch("quiet", &json!({"metadata": {"annotations": {"note": "x"}}})).await;
    objects.patch("quiet", &json!({"spec": {"schema": {"group": "kro.run"}}})).await;
    let crd = json!({"metadata": {"annotations": {"note": "x"}}});
    objects.crds().patch("quiets.kro.run", &PatchParams::default(), &Patch::Merge(&crd)).await.unwrap();
    wait::until_true("the definition to be looked at", || looks() > looked).await;
    // A third one comes through the same queue.
    make(&instances, "Quiet", "c").await;
    until(instances.clone(), "c".to_owned(), is_active).await;
    let only = passes() - passed;
    assert!((1.0..=3.0).contains(&only), "{only} passes for one instance");
    assert_eq!(running.metric("instance_reconcile_errors_total"), 0.0);

    // How long a condition has held goes on without a pass.
    let age = "instance_condition_current_status_seconds{gvr=\"kro.run/v1alpha1, Resource=quiets\",\
        namespace=\"default\",name=\"a\",condition_type=\"Ready\",condition_status=\"True\",reason=\"Ready\"}";
    let (passed, before) = (passes(), running.metric(age));
    wait::until_true("the condition to age", || running.metric(age) > before).await;
    assert_eq!(passes(), passed);

    // What was counted up is counted down again.
    for name in ["a", "b", "c"] {
        instances.delete(name, &DeleteParams::default()).await.unwrap();
        wait::until_gone(&instances, name).await;
    }
    objects.delete("quiet").await;
    wait::until_gone(&objects.definitions(), "quiet").await;
    wait::until_true("the watches to end", || running.metric("dynamic_controller_watch_count") == watches)
        .await;
    assert_eq!(running.metric(age), 0.0);
    running.stop().await;
}
