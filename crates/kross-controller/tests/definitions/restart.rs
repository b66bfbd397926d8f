//! Restarts: what a controller that starts again changes, serves and reports, and what one that lost its lease still writes.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kross_cluster::{ClientOptions, ClusterClient, ClusterId, LeaseOptions};
use kross_controller::{Controller, ControllerError, Settings};
use kross_testing::{Action, Answer, Fault, FaultProxy, Requests, Verb, shared, wait};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use prometheus_client::registry::Registry;
use serde_json::json;

use crate::exclusive_plane::{PLANE, create_instance, exclusive, is_active};
use crate::setup::{Objects, Running, condition, definition, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_changes_nothing_and_serves_every_definition() {
    let (objects, _exclusive) = exclusive().await;
    let settings = Settings { allow_crd_deletion: true, ..Settings::default() };
    let running = Running::start(PLANE, settings.clone()).await;
    for (name, kind) in [("good", "Good"), ("edited", "Edited")] {
        objects.create(&definition(name, kind)).await;
        objects.until_ready(name).await;
    }
    // An instance of the definition that gets an invalid edit: it stays on the last valid revision.
    let api = objects.namespaced("kro.run", "Edited", "editeds", "default");
    create_instance(&api, "Edited", "kept").await;
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
    // Drift is repaired, and nothing else is written.
    let children = objects.config_maps("default");
    let edit = json!({"data": {"after": "edited"}});
    children.patch("kept-second", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    wait::woken(until(children.clone(), "kept-second".to_owned(), |child| {
        child["data"]["after"] == "kept-first"
    }))
    .await;
    assert_eq!(state(&objects).await, before);
    running.stop().await;

    // No controller runs while an instance is created and the definition deleted: the instance still blocks the deletion.
    let api = objects.namespaced("kro.run", "Good", "goods", "default");
    create_instance(&api, "Good", "a").await;
    objects.delete("good").await;
    let running = Running::start(PLANE, settings).await;
    let waiting = objects.until_condition("good", "ControllerReady", "Unknown").await;
    assert!(condition(&waiting, "Ready")["message"].as_str().unwrap().contains("`default/a`"));
    assert!(running.graphs.get("good").unwrap().revision.is_none());
    api.delete("a", &DeleteParams::default()).await.unwrap();
    wait::woken(wait::until_deleted(&objects.definitions(), "good")).await;
    // This controller is allowed to delete CRDs.
    wait::until_deleted(&objects.crds(), "goods.kro.run").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_of_an_existing_kind_waits_for_its_instances_after_a_restart() {
    let (objects, _exclusive) = exclusive().await;
    let admin = shared(PLANE).await.admin();
    let running = Running::start(PLANE, Settings::default()).await;
    let copy = json!({"id": "copy", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-copy"}, "data": {"a": "b"}}});
    let external = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"selector": {"matchLabels": {"restart": "yes"}}}});
    let existing = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "existing"}, "spec": {"schema": {"externalRef": external}, "resources": [copy]}});
    objects.create(&existing).await;
    objects.until_ready("existing").await;
    let pod =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "chosen", "labels": {"restart": "yes"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}});
    let kind = ApiResource::erase::<Deployment>(&());
    let deployments: Api<DynamicObject> = Api::namespaced_with(objects.client.clone(), "default", &kind);
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    until(objects.config_maps("default"), "chosen-copy".to_owned(), |_| true).await;
    objects.delete("existing").await;
    let is_waiting = |definition: &serde_json::Value| {
        condition(definition, "Ready")["message"].to_string().contains("`default/chosen`")
    };
    objects.until("existing", is_waiting).await;
    running.stop().await;

    // Nothing proves that there are no instances while discovery fails.
    let proxy = FaultProxy::start(admin).unwrap();
    let discovery = proxy.on(Requests::any().resource("/apis"), Action::Answer(Answer::bare(500)));
    let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
    let running = Running::start_with(config, Settings::default()).await;
    objects
        .until("existing", |definition| {
            condition(definition, "Ready")["message"]
                .to_string()
                .contains("cannot verify that no instance exists")
        })
        .await;
    proxy.remove(discovery);
    objects.until("existing", is_waiting).await;
    deployments.delete("chosen", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&deployments, "chosen").await;
    wait::until_deleted(&objects.config_maps("default"), "chosen-copy").await;
    wait::until_deleted(&objects.definitions(), "existing").await;
    running.stop().await;
}

/// The resource versions of all objects that the controller writes.
async fn state(objects: &Objects) -> Vec<(String, String)> {
    let mut state = Vec::new();
    let instances = objects.namespaced("kro.run", "Edited", "editeds", "default");
    let children = objects.config_maps("default");
    for api in [objects.definitions(), objects.revisions(), objects.crds(), instances, children] {
        for object in api.list(&ListParams::default()).await.unwrap() {
            let name = object.metadata.name.unwrap();
            // The test itself edits this one.
            if name == "kept-second" {
                continue;
            }
            state.push((name, object.metadata.resource_version.unwrap()));
        }
    }
    state
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_report_a_revision_that_no_longer_compiles_until_it_compiles_again() {
    let (objects, _exclusive) = exclusive().await;
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
    create_instance(&instances, "Failing", "old").await;
    let before = until(instances.clone(), "old".to_owned(), is_active).await;
    running.stop().await;

    // The CRD of a resource is deleted while no controller runs.
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
    create_instance(&instances, "Failing", "new").await;
    for (name, managed) in [("old", "True"), ("new", "Unknown")] {
        let failed = until(instances.clone(), name.to_owned(), |instance| {
            condition(instance, "GraphResolved")["reason"] == "ResolutionFailed"
        })
        .await;
        assert_eq!(failed["status"]["state"], "ERROR", "{name}");
        assert_eq!(condition(&failed, "Ready")["status"], "False", "{name}");
        assert_eq!(condition(&failed, "InstanceManaged")["status"], managed, "{name}");
        let message = condition(&failed, "GraphResolved")["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("latest issued graph revision 1 failed: "), "{message}");
    }
    assert!(running.metric("instance_graph_resolution_failures_total{reason=\"failed\"}") >= 2.0);
    // Its objects are unchanged.
    let second = objects.config_maps("default").get("old-second").await.unwrap();
    assert_eq!(second.data["data"]["after"], "old-first");

    objects.crds().create(&PostParams::default(), &crd).await.unwrap();
    wait::woken(objects.until_ready("failing")).await;
    for name in ["old", "new"] {
        let after = wait::woken(until(instances.clone(), name.to_owned(), is_active)).await;
        assert_eq!(condition(&after, "GraphResolved")["reason"], "Resolved");
        assert!(name == "new" || after["metadata"]["uid"] == before["metadata"]["uid"]);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_nothing_after_losing_the_lease() {
    let (objects, _exclusive) = exclusive().await;
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
    let (hub_client, lease_client) = (connect(&proxy).await, connect(&lease_proxy).await);
    let controller = Controller::new(hub_client, lease_client, settings, &mut Registry::default());
    let running = tokio::spawn(controller.run(std::future::pending()));
    objects.create(&definition("deposed", "Deposed")).await;
    objects.until_ready("deposed").await;
    // A write that is delayed for longer than the controller holds the lease.
    let writes = || Requests::any().verb(Verb::Apply).resource("configmaps").namespace("default");
    let delay = Duration::from_secs(5);
    proxy.on(writes(), Action::Delay(delay));
    let instances = objects.namespaced("kro.run", "Deposed", "deposeds", "default");
    create_instance(&instances, "Deposed", "deposed").await;
    wait::until_true("a write to be sent", || proxy.count(&writes()) > 0).await;
    lease_proxy.set(Fault::Hang);
    let ended = running.await.unwrap();
    assert!(matches!(ended, Err(ControllerError::LostLeadership { .. })), "{ended:?}");
    proxy.clear_requests();
    tokio::time::sleep(delay).await;
    let config_maps = objects.config_maps("default");
    assert!(config_maps.get_opt("deposed-first").await.unwrap().is_none());
    assert_eq!(proxy.count(&Requests::any().resource("deposeds")), 0);
    // The next leader continues.
    let running = Running::start(PLANE, Settings::default()).await;
    until(instances.clone(), "deposed".to_owned(), is_active).await;
    running.stop().await;
}
