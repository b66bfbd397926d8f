//! Five hundred instances at once, and what goes on when nothing goes on, on a control plane without garbage collection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use kross_testing::wait;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{Controller, World, config_map, is_ready};

#[path = "crowd/world.rs"]
mod world;

const INSTANCES: usize = 500;
const OBJECTS: usize = 5;
/// How long it must be quiet. The one place where time itself is what is waited for.
const IDLE: Duration = Duration::from_secs(30);
/// After so long without a request the last word was said: Events that repeat are counted every ten seconds.
const SETTLED: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_chains_arrive_with_few_requests_and_then_it_is_silent() {
    let world = World::new("crowd").await;
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
        if ready == INSTANCES { Ok(()) } else { Err(format!("{ready} are")) }
    })
    .await;
    let requests = world.requests();
    let sent = requests.iter().skip(before).filter(|request| !request.is_event()).count();
    let most = INSTANCES * (OBJECTS + 4);
    assert!(sent <= most, "{sent} requests, at most {most} expected");
    assert!(sent >= INSTANCES * (OBJECTS + 2), "the log has only {sent} requests");

    wait_for_ever(&world).await;
    silence(&world).await;
    drop(controller);
    world.stop().await;
}

/// Instances and definitions that wait for what never comes here: a Deployment that nobody rolls out, an object that nobody
/// collects, and objects that somebody holds.
async fn wait_for_ever(world: &World) {
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
    prune_for_ever(world).await;
    define_for_ever(world).await;
}

/// An object that its definition has no more, and that somebody holds.
async fn prune_for_ever(world: &World) {
    world.define("Shrinking", json!([config_map("stays", "1"), config_map("goes", "1")])).await;
    world.create("Shrinking", "pruned", "x").await;
    let instances = world.instances("Shrinking");
    wait::until_object(&instances, "pruned", is_ready).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    world.config_maps().patch("pruned-goes", &PatchParams::default(), &hold).await.unwrap();
    let shrink = Patch::Merge(json!({"spec": {"resources": [config_map("stays", "1")]}}));
    world.definitions().patch("shrinking", &PatchParams::default(), &shrink).await.unwrap();
    wait::until_object(&world.config_maps(), "pruned-goes", |child| {
        child.metadata.deletion_timestamp.is_some()
    })
    .await;
}

/// Definitions that wait: for a kind that nobody serves, for their author, and for their instances to go.
async fn define_for_ever(world: &World) {
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

/// Nothing is asked for any more.
async fn silence(world: &World) {
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
