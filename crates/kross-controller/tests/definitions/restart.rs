//! A controller that ends and begins again, on a control plane of its own.

use std::time::{Duration, Instant};

use kross_cluster::{ClientOptions, ClusterClient, ClusterId, LeaseOptions};
use kross_controller::{Controller, ControllerError, Settings};
use kross_testing::{Action, Fault, FaultProxy, Requests, Verb, shared, wait};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use prometheus_client::registry::Registry;
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
    crate::setup::make(api, object).await;
}

/// Waits until every instance was looked at and nobody looks any more. A pass is counted when it ends, which is after its
/// status is there.
async fn at_rest(running: &Running) {
    const LONG: Duration = Duration::from_secs(1);
    let mut last = (-1.0, Instant::now());
    wait::until_true("all instances to come to rest", || {
        let passes = running.metric("instance_reconcile_total");
        if passes != last.0 || running.metric("dynamic_controller_queue_length") != 0.0 {
            last = (passes, Instant::now());
        }
        last.1.elapsed() > LONG
    })
    .await;
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
    wait::until_deleted(&objects.definitions(), "good").await;
    // This controller may delete CRDs.
    wait::until_deleted(&objects.crds(), "goods.kro.run").await;
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
    wait::until_deleted(&objects.definitions(), "pretender").await;
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
        wait::until_deleted(&objects.definitions(), name).await;
    }
    wait::until_deleted(&objects.crds(), "kepts.kro.run").await;
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
    wait::until_deleted(&objects.crds(), "widgets.restart.test").await;
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
    assert!(running.metric("instance_graph_resolution_failures_total{reason=\"failed\"}") >= 2.0);
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
    let running = Running::start(PLANE, Settings::default()).await;
    objects.create(&definition("quiet", "Quiet")).await;
    objects.until_ready("quiet").await;
    let instances = objects.namespaced("kro.run", "Quiet", "quiets", "default");
    for name in ["quiet-a", "quiet-b"] {
        make(&instances, "Quiet", name).await;
        until(instances.clone(), name.to_owned(), is_active).await;
    }
    let passes = || running.metric("instance_reconcile_total");
    let looks = || running.metric("rgd_graph_revision_resolution_total{result=\"serve\"}");
    at_rest(&running).await;
    let (passed, looked) = (passes(), looks());
    objects.patch("quiet", &json!({"metadata": {"annotations": {"note": "x"}}})).await;
    objects.patch("quiet", &json!({"spec": {"schema": {"group": "kro.run"}}})).await;
    let crd = json!({"metadata": {"annotations": {"note": "x"}}});
    objects.crds().patch("quiets.kro.run", &PatchParams::default(), &Patch::Merge(&crd)).await.unwrap();
    wait::until_true("the definition to be looked at", || looks() > looked).await;
    // A third one comes through the same queue.
    make(&instances, "Quiet", "quiet-c").await;
    until(instances.clone(), "quiet-c".to_owned(), is_active).await;
    // A pass is counted when it ends, which is after its status is there.
    wait::until_true("its pass to be counted", || passes() > passed).await;
    let only = passes() - passed;
    assert!((1.0..=3.0).contains(&only), "{only} passes for one instance");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_a_condition_has_held_is_told_when_somebody_looks() {
    let (objects, _turn) = turn().await;
    let running = Running::start(PLANE, Settings { condition_metrics: true, ..Settings::default() }).await;
    objects.create(&definition("aging", "Aging")).await;
    objects.until_ready("aging").await;
    let instances = objects.namespaced("kro.run", "Aging", "agings", "default");
    make(&instances, "Aging", "aging").await;
    until(instances.clone(), "aging".to_owned(), is_active).await;
    at_rest(&running).await;
    let age = "instance_condition_current_status_seconds{gvr=\"kro.run/v1alpha1, Resource=agings\",\
        namespace=\"default\",name=\"aging\",condition_type=\"Ready\",condition_status=\"True\",reason=\"Ready\"}";
    let passes = || running.metric("instance_reconcile_total");
    let mut last = (passes(), running.metric(age));
    wait::until_true("the condition to age although nobody looks at the instance", || {
        let (passed, before) = last;
        if passes() != passed {
            last = (passes(), running.metric(age));
        }
        passes() == passed && running.metric(age) > before
    })
    .await;
    instances.delete("aging", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "aging").await;
    wait::until_true("its age to go with it", || running.metric(age) == 0.0).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_go_down_as_they_went_up() {
    let (objects, _turn) = turn().await;
    let running = Running::start(PLANE, Settings::default()).await;
    let definitions = objects.definitions().list(&ListParams::default()).await.unwrap().items.len();
    wait::until_true("every definition to be served", || running.graphs.all().len() == definitions).await;
    at_rest(&running).await;
    let gauges = || {
        ["dynamic_controller_watch_count", "dynamic_controller_gvr_count", "graph_revision_registry_entries"]
            .map(|gauge| running.metric(gauge))
    };
    let before = gauges();
    let mut passing = definition("passing", "Passing");
    passing["spec"]["resources"][0]["template"] = json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "${first.metadata.name}"}});
    objects.create(&passing).await;
    objects.until_ready("passing").await;
    let instances = objects.namespaced("kro.run", "Passing", "passings", "default");
    make(&instances, "Passing", "passing").await;
    until(instances.clone(), "passing".to_owned(), is_active).await;
    let during = gauges();
    assert!(before.iter().zip(during).all(|(before, during)| *before < during), "{before:?} {during:?}");
    instances.delete("passing", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "passing").await;
    objects.delete("passing").await;
    wait::until_deleted(&objects.definitions(), "passing").await;
    wait::until("everything to end", || async {
        if gauges() == before { Ok(()) } else { Err(format!("{:?} instead of {before:?}", gauges())) }
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_is_not_counted_as_an_error_and_nobody_is_told_where_events_are_off() {
    let (objects, _turn) = turn().await;
    let running = Running::start(PLANE, Settings { condition_events: false, ..Settings::default() }).await;
    let mut patient = definition("patient", "Patient");
    patient["spec"]["resources"][0]["template"]["data"]["after"] = json!("${first.data.later}");
    objects.create(&patient).await;
    objects.until_ready("patient").await;
    let instances = objects.namespaced("kro.run", "Patient", "patients", "default");
    make(&instances, "Patient", "patient").await;
    until(instances.clone(), "patient".to_owned(), |instance| instance["status"]["state"] == "IN_PROGRESS")
        .await;
    let later = Patch::Merge(json!({"data": {"later": "now"}}));
    objects.config_maps("default").patch("patient-first", &PatchParams::default(), &later).await.unwrap();
    until(instances.clone(), "patient".to_owned(), is_active).await;
    // A pass is counted when it ends, which is after its status is there.
    wait::until_true("both passes to be counted", || running.metric("instance_reconcile_total") >= 2.0).await;
    assert_eq!(running.metric("instance_reconcile_errors_total"), 0.0);
    running.stop().await;
    let events = objects.events("default").list(&ListParams::default()).await.unwrap();
    assert!(!events.items.iter().any(|event| event.data["regarding"]["kind"] == "Patient"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_loses_the_lease_writes_nothing_more() {
    let (objects, _turn) = turn().await;
    let admin = shared(PLANE).await.admin();
    let (proxy, lease_proxy) = (FaultProxy::start(admin).unwrap(), FaultProxy::start(admin).unwrap());
    let connect = async |proxy: &FaultProxy| {
        let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
        ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap()
    };
    let lease = LeaseOptions {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(200),
        ..LeaseOptions::new("default", "restart.kro.run", "one")
    };
    let settings = Settings { leader_election: Some(lease), ..Settings::default() };
    let (hub, leases) = (connect(&proxy).await, connect(&lease_proxy).await);
    let controller = Controller::new(hub, leases, settings, &mut Registry::default());
    let running = tokio::spawn(controller.run(std::future::pending()));
    objects.create(&definition("leaving", "Leaving")).await;
    objects.until_ready("leaving").await;
    // A write that is on its way for longer than we lead.
    let writes = || Requests::any().verb(Verb::Apply).resource("configmaps").namespace("default");
    let late = Duration::from_secs(5);
    proxy.on(writes(), Action::Delay(late));
    let instances = objects.namespaced("kro.run", "Leaving", "leavings", "default");
    make(&instances, "Leaving", "leaving").await;
    wait::until_true("a write to be on its way", || proxy.count(&writes()) > 0).await;
    lease_proxy.set(Fault::Hang);
    let ended = running.await.unwrap();
    assert!(matches!(ended, Err(ControllerError::LostLeadership { .. })), "{ended:?}");
    proxy.clear_requests();
    tokio::time::sleep(late).await;
    let config_maps = objects.config_maps("default");
    assert!(config_maps.get_opt("leaving-first").await.unwrap().is_none());
    assert_eq!(proxy.count(&Requests::any().resource("leavings")), 0);
    // Whoever comes next goes on with it.
    let running = Running::start(PLANE, Settings::default()).await;
    until(instances.clone(), "leaving".to_owned(), is_active).await;
    running.stop().await;
}
