//! Requests of the controller for five hundred instances, and while there is nothing to do. The control plane has no garbage
//! collector.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use kross_testing::wait;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{Controller, World, config_map, is_ready};

#[path = "controller_process/world.rs"]
mod world;

const INSTANCES: usize = 500;
const OBJECTS: usize = 5;
/// How long the controller must send no request. The one test that has to wait for a fixed time.
const IDLE: Duration = Duration::from_secs(30);
/// Time without a request after which the controller counts as idle. Repeated Events are written every ten seconds.
const SETTLED: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_instances_become_ready_with_few_requests_and_then_the_controller_is_idle() {
    let world = World::new("scale").await;
    let controller = Controller::start(&world.kubeconfig);
    world
        .define(
            "Chain",
            json!([
                config_map("a", "${schema.spec.text}"),
                config_map("b", "${a.data.x}b"),
                config_map("c", "${b.data.x}c"),
                config_map("d", "${c.data.x}d"),
                config_map("e", "${d.data.x}e"),
            ]),
        )
        .await;
    let before = world.requests().len();
    let names: Vec<String> = (0..INSTANCES).map(|number| format!("i{number}")).collect();
    world.create_many("Chain", &names).await;
    wait::until_within(Duration::from_secs(300), "all instances to be ready", || async {
        let ready = world.ready("Chain").await;
        if ready == INSTANCES { Ok(()) } else { Err(format!("{ready} are ready")) }
    })
    .await;
    let requests = world.requests();
    let sent = requests.iter().skip(before).filter(|request| !request.is_event()).count();
    let most = INSTANCES * (OBJECTS + 4);
    assert!(sent <= most, "{sent} requests, at most {most} expected");
    assert!(sent >= INSTANCES * (OBJECTS + 2), "the audit log has only {sent} requests");

    block_instances(&world).await;
    assert_idle(&world).await;
    drop(controller);
    world.stop().await;
}

/// Creates instances and definitions that can never make progress: a Deployment that is never rolled out, an object that is
/// never garbage-collected, and objects with a foreign finalizer.
async fn block_instances(world: &World) {
    let deployment = json!({"id": "deployment", "readyWhen": ["${deployment.status.availableReplicas == 1}"],
        "template": {"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "${schema.metadata.name}"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "x", "image": "x"}]}}}}});
    world.define("Web", json!([deployment, config_map("after", "${deployment.metadata.name}")])).await;
    for name in ["unready", "foreground", "held"] {
        world.create("Web", name, name).await;
        wait::until_object(&world.instances("Web"), name, |web| web.data["status"]["state"] == "IN_PROGRESS")
            .await;
    }
    let deployments = world.namespaced("apps", "v1", "Deployment");
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    deployments.patch("held", &PatchParams::default(), &hold).await.unwrap();
    deployments.delete("foreground", &DeleteParams::foreground()).await.unwrap();
    for name in ["held", "foreground"] {
        world.instances("Web").delete(name, &DeleteParams::default()).await.unwrap();
        wait::until_object(&world.instances("Web"), name, |web| web.data["status"]["state"] == "DELETING")
            .await;
    }
    wait::until_object(&deployments, "held", |held| held.metadata.deletion_timestamp.is_some()).await;
    block_pruning(world).await;
    block_definitions(world).await;
}

/// Prunes an object that has a foreign finalizer.
async fn block_pruning(world: &World) {
    world.define("Shrinking", json!([config_map("kept", "1"), config_map("removed", "1")])).await;
    world.create("Shrinking", "pruned", "x").await;
    let instances = world.instances("Shrinking");
    wait::until_object(&instances, "pruned", is_ready).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    world.config_maps().patch("pruned-removed", &PatchParams::default(), &hold).await.unwrap();
    let shrink = Patch::Merge(json!({"spec": {"resources": [config_map("kept", "1")]}}));
    world.definitions().patch("shrinking", &PatchParams::default(), &shrink).await.unwrap();
    wait::until_object(&world.config_maps(), "pruned-removed", |child| {
        child.metadata.deletion_timestamp.is_some()
    })
    .await;
}

/// Creates definitions that wait: for a kind that is not served, for a fix, and for their instances to be deleted.
async fn block_definitions(world: &World) {
    let unknown = json!([{"id": "x", "template": {"apiVersion": "example.com/v1", "kind": "Nothing",
        "metadata": {"name": "x"}}}]);
    let wrong = json!([config_map("a", "${nobody.data.x}")]);
    for (kind, resources) in [("Unknown", unknown), ("Wrong", wrong)] {
        world.submit(kind, resources).await;
        wait::until_object(&world.definitions(), &kind.to_lowercase(), |definition| {
            definition.data["status"]["state"] == "Inactive"
        })
        .await;
    }
    world.definitions().delete("shrinking", &DeleteParams::default()).await.unwrap();
    wait::until_object(&world.definitions(), "shrinking", |definition| {
        definition.data["status"]["conditions"].to_string().contains("pruned")
    })
    .await;
}

/// Waits for the requests to end, and fails if another one follows.
async fn assert_idle(world: &World) {
    let mut last = (world.requests().len(), Instant::now());
    wait::until_within(Duration::from_secs(180), "the requests to end", || {
        let now = world.requests().len();
        if last.0 != now {
            last = (now, Instant::now());
        }
        std::future::ready(if last.1.elapsed() > SETTLED { Ok(()) } else { Err(format!("{now} requests")) })
    })
    .await;
    let before = world.requests().len();
    tokio::time::sleep(IDLE).await;
    let more: Vec<String> = world
        .requests()
        .iter()
        .skip(before)
        .map(|request| format!("{} {} {}", request.verb, request.uri, request.response_status.code))
        .collect();
    assert_eq!(more, [""; 0]);
}
