//! One panic in each kind of task.

use std::time::Duration;

use kross_cluster::{
    ClientOptions, ClusterClient, ClusterId, LeaderElection, Leadership, LeaseOptions, Task,
};
use kross_controller::{Controller, ControllerError, Settings};
use kross_testing::{Action, Answer, Fault, FaultProxy, Requests, Verb, wait};
use prometheus_client::registry::Registry;
use serde_json::json;

use crate::panicking_log::{exclusive, panic_at, until_panicked};
use crate::world::{World, config_map, edit, value};

/// A definition with one ConfigMap in `eu`.
async fn world(kind: &str) -> World {
    let resources = json!([config_map("a", Some("eu"), json!({"text": "${schema.spec.text}"}))]);
    World::new(kind, json!({"schema": {"spec": {"text": "string"}}, "resources": resources})).await
}

/// Lets the watches of ConfigMaps in `eu` fail until a task that logs this message has panicked.
async fn break_watches(world: &World, message: &'static str) {
    let proxy = &world.region("eu").proxy;
    let watches = Requests::any().verb(Verb::Watch).resource("configmaps");
    let cause = format!("injected for {}", world.kind);
    let rule = proxy.on(watches, Action::Answer(Answer::status(500).message(&cause)));
    let fault = panic_at(message, &cause);
    proxy.cut_connections();
    until_panicked(&fault).await;
    proxy.remove(rule);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_dispatch_ends_the_routing_of_one_event_only() {
    let _exclusive = exclusive().await;
    let world = world("Dispatched").await;
    world.create("x", json!({"text": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let before = Task::Dispatch.panics();
    break_watches(&world, "watch failed").await;
    world.create("y", json!({"text": "one"})).await;
    world.until_state("y", "ACTIVE").await;
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    let config_maps = &world.region("eu").config_maps;
    wait::until_object(config_maps, "x-a", |object| value(object, "text") == Some("two")).await;
    assert!(Task::Dispatch.panics() > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_panics_starts_again_and_misses_nothing() {
    let _exclusive = exclusive().await;
    let world = world("Watched").await;
    world.create("x", json!({"text": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let before = Task::Cache.panics();
    break_watches(&world, "cannot sync cache").await;
    let config_maps = &world.region("eu").config_maps;
    edit(config_maps, "x-a", json!({"text": "edited"})).await;
    wait::until_object(config_maps, "x-a", |object| value(object, "text") == Some("one")).await;
    assert!(Task::Cache.panics() > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_task_panics_is_connected_again() {
    let _exclusive = exclusive().await;
    let world = world("Reconnected").await;
    world.create("x", json!({"text": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let before = Task::Cluster.panics();
    let fault = panic_at("cluster is not connected", &format!("{}/eu-kubeconfig", world.namespace));
    world.region("eu").proxy.set(Fault::Refuse);
    until_panicked(&fault).await;
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    world.region("eu").proxy.set(Fault::Pass);
    let config_maps = &world.region("eu").config_maps;
    wait::until_object(config_maps, "x-a", |object| value(object, "text") == Some("two")).await;
    world.until_state("x", "ACTIVE").await;
    assert!(Task::Cluster.panics() > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_for_a_preflight_that_panics_are_reconciled_again() {
    let _exclusive = exclusive().await;
    let world = world("Preflighted").await;
    let before = Task::Preflight.panics();
    let proxy = &world.region("eu").proxy;
    let cause = "injected for the preflight";
    let schemas = Requests::any().resource("/openapi/v3");
    let rule = proxy.on(schemas, Action::Answer(Answer::status(500).message(cause)));
    let fault = panic_at("preflight failed", cause);
    world.create("x", json!({"text": "one"})).await;
    until_panicked(&fault).await;
    proxy.remove(rule);
    world.until_state("x", "ACTIVE").await;
    assert!(Task::Preflight.panics() > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_whose_election_panics_ends() {
    let _exclusive = exclusive().await;
    let world = World::without_definition("Elected").await;
    let admin = kross_testing::shared("hub").await.admin();
    let proxy = FaultProxy::start(admin).unwrap();
    let connect = async |config| {
        ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap()
    };
    let lease = |identity: &str| LeaseOptions {
        retry_period: Duration::from_millis(200),
        ..LeaseOptions::new(&world.namespace, "elected.kro.run", identity)
    };
    let leader = LeaderElection::start(connect(admin.config().await.unwrap()).await, lease("leader"));
    let mut leadership = leader.leadership();
    leadership.wait_for(|leadership| *leadership == Leadership::Leading).await.unwrap();
    let hub = connect(admin.config().await.unwrap()).await;
    let lease_client = connect(proxy.kubeconfig(admin).unwrap().config().await.unwrap()).await;
    let settings = Settings { leader_election: Some(lease("standby")), ..Settings::default() };
    let controller = Controller::new(hub, lease_client, settings, &mut Registry::default());
    let (readiness, running) = (controller.readiness(), tokio::spawn(controller.run(std::future::pending())));
    wait::until_true("the standby to be ready", || readiness.is_ready()).await;
    let fault = panic_at("cannot acquire or renew lease", &proxy.url()[8..]);
    proxy.set(Fault::Refuse);
    until_panicked(&fault).await;
    let ended = tokio::time::timeout(wait::WAIT_LIMIT, running).await.expect("it ends").unwrap();
    assert!(matches!(ended, Err(ControllerError::TaskEnded { .. })), "{ended:?}");
    leader.resign().await;
}
