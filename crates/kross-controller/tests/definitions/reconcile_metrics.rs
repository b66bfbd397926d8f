//! What metrics show of reconciles, conditions and caches.

use kross_controller::Settings;
use kross_testing::wait;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::exclusive_plane::{PLANE, create_instance, exclusive, is_active, until_idle};
use crate::setup::{Running, definition, until};

#[tokio::test(flavor = "multi_thread")]
async fn does_not_reconcile_instances_after_a_definition_change_without_effect() {
    let (objects, _exclusive) = exclusive().await;
    let running = Running::start(PLANE, Settings::default()).await;
    objects.create(&definition("quiet", "Quiet")).await;
    objects.until_ready("quiet").await;
    let instances = objects.namespaced("kro.run", "Quiet", "quiets", "default");
    for name in ["quiet-a", "quiet-b"] {
        create_instance(&instances, "Quiet", name).await;
        until(instances.clone(), name.to_owned(), is_active).await;
    }
    let reconciles = || running.metric("instance_reconcile_total");
    let resolutions = || running.metric("rgd_graph_revision_resolution_total{result=\"serve\"}");
    until_idle(&running).await;
    let (reconciles_before, resolutions_before) = (reconciles(), resolutions());
    objects.patch("quiet", &json!({"metadata": {"annotations": {"note": "x"}}})).await;
    objects.patch("quiet", &json!({"spec": {"schema": {"group": "kro.run"}}})).await;
    let crd = json!({"metadata": {"annotations": {"note": "x"}}});
    objects.crds().patch("quiets.kro.run", &PatchParams::default(), &Patch::Merge(&crd)).await.unwrap();
    wait::until_true("the definition to be reconciled", || resolutions() > resolutions_before).await;
    // A third instance goes through the same queue.
    create_instance(&instances, "Quiet", "quiet-c").await;
    until(instances.clone(), "quiet-c".to_owned(), is_active).await;
    // A reconcile is counted when it ends, after it wrote the status.
    wait::until_true("its reconcile to be counted", || reconciles() > reconciles_before).await;
    let third = reconciles() - reconciles_before;
    assert!((1.0..=3.0).contains(&third), "{third} reconciles for one instance");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn condition_age_grows_between_reconciles() {
    let (objects, _exclusive) = exclusive().await;
    let running = Running::start(PLANE, Settings { condition_metrics: true, ..Settings::default() }).await;
    objects.create(&definition("aging", "Aging")).await;
    objects.until_ready("aging").await;
    let instances = objects.namespaced("kro.run", "Aging", "agings", "default");
    create_instance(&instances, "Aging", "aging").await;
    until(instances.clone(), "aging".to_owned(), is_active).await;
    until_idle(&running).await;
    let age = "instance_condition_current_status_seconds{gvr=\"kro.run/v1alpha1, Resource=agings\",\
        namespace=\"default\",name=\"aging\",condition_type=\"Ready\",condition_status=\"True\",reason=\"Ready\"}";
    let reconciles = || running.metric("instance_reconcile_total");
    let mut last = (reconciles(), running.metric(age));
    wait::until_true("the age of the condition to grow without a reconcile", || {
        let (reconciles_before, age_before) = last;
        if reconciles() != reconciles_before {
            last = (reconciles(), running.metric(age));
        }
        reconciles() == reconciles_before && running.metric(age) > age_before
    })
    .await;
    instances.delete("aging", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "aging").await;
    wait::until_true("its age to be removed", || running.metric(age) == 0.0).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_return_to_their_values_after_a_definition_is_deleted() {
    let (objects, _exclusive) = exclusive().await;
    let running = Running::start(PLANE, Settings::default()).await;
    let definitions = objects.definitions().list(&ListParams::default()).await.unwrap().items.len();
    wait::until_true("every definition to be served", || running.graphs.all().len() == definitions).await;
    until_idle(&running).await;
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
    create_instance(&instances, "Passing", "passing").await;
    until(instances.clone(), "passing".to_owned(), is_active).await;
    let during = gauges();
    assert!(before.iter().zip(during).all(|(before, during)| *before < during), "{before:?} {during:?}");
    instances.delete("passing", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "passing").await;
    objects.delete("passing").await;
    wait::until_deleted(&objects.definitions(), "passing").await;
    wait::until("the gauges to return to their values", || async {
        if gauges() == before { Ok(()) } else { Err(format!("{:?} instead of {before:?}", gauges())) }
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_is_not_counted_as_an_error_and_emits_no_events_if_they_are_disabled() {
    let (objects, _exclusive) = exclusive().await;
    let running = Running::start(PLANE, Settings { condition_events: false, ..Settings::default() }).await;
    let mut patient = definition("patient", "Patient");
    patient["spec"]["resources"][0]["template"]["data"]["after"] = json!("${first.data.later}");
    objects.create(&patient).await;
    objects.until_ready("patient").await;
    let instances = objects.namespaced("kro.run", "Patient", "patients", "default");
    create_instance(&instances, "Patient", "patient").await;
    until(instances.clone(), "patient".to_owned(), |instance| instance["status"]["state"] == "IN_PROGRESS")
        .await;
    let later = Patch::Merge(json!({"data": {"later": "now"}}));
    objects.config_maps("default").patch("patient-first", &PatchParams::default(), &later).await.unwrap();
    wait::woken(until(instances.clone(), "patient".to_owned(), is_active)).await;
    // A reconcile is counted when it ends, after it wrote the status.
    wait::until_true("both reconciles to be counted", || running.metric("instance_reconcile_total") >= 2.0)
        .await;
    assert_eq!(running.metric("instance_reconcile_errors_total"), 0.0);
    running.stop().await;
    let events = objects.events("default").list(&ListParams::default()).await.unwrap();
    assert!(!events.items.iter().any(|event| event.data["regarding"]["kind"] == "Patient"));
}
