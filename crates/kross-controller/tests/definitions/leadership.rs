//! Leader election between controllers: what one that takes over may prune, and what one that cannot renew its lease writes. And
//! what a controller sends when the address of its hub leads to another cluster.

use std::time::{Duration, Instant};

use kross_cluster::{ClientOptions, ClusterClient, ClusterId, LeaderElection, Leadership, LeaseOptions};
use kross_controller::{Controller, ControllerError, Settings};
use kross_testing::{Action, Answer, Fault, FaultProxy, Request, Requests, Verb, shared, wait};
use kube::Api;
use kube::api::DynamicObject;
use prometheus_client::registry::Registry;
use serde_json::{Value as Json, json};
use tokio::sync::oneshot;

use crate::exclusive_plane::{PLANE, create_instance, exclusive, is_active, until_idle};
use crate::setup::{Running, until};

/// Short, but long enough that a busy machine gets a renewal through in time.
fn lease(name: &str, identity: &str) -> LeaseOptions {
    LeaseOptions {
        lease_duration: Duration::from_secs(8),
        renew_deadline: Duration::from_secs(6),
        retry_period: Duration::from_millis(200),
        ..LeaseOptions::new("default", name, identity)
    }
}

fn candidate(name: &str, identity: &str) -> Settings {
    Settings { leader_election: Some(lease(name, identity)), ..Settings::default() }
}

async fn connect(proxy: &FaultProxy) -> ClusterClient {
    let config = proxy.kubeconfig(shared(PLANE).await.admin()).unwrap().config().await.unwrap();
    ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap()
}

/// Waits until another candidate has taken the lease over.
async fn take_over(name: &str) -> LeaderElection {
    let config = shared(PLANE).await.admin().config().await.unwrap();
    let client = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let successor = LeaderElection::start(client, lease(name, "successor"));
    let mut leadership = successor.leadership();
    let leads = leadership.wait_for(|leadership| *leadership == Leadership::Leading);
    tokio::time::timeout(wait::WAIT_LIMIT, leads).await.expect("it takes over in time").unwrap();
    successor
}

/// The writes that reached a proxy, without those of Leases.
fn writes(proxy: &FaultProxy) -> Vec<String> {
    let sent = proxy.requests(&Requests::any());
    let is_write = |request: &&Request| {
        !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch)
            && !request.resource.starts_with("leases.")
            && !request.resource.contains("reviews.")
    };
    sent.iter().map(|record| &record.request).filter(is_write).map(ToString::to_string).collect()
}

fn config_map(id: &str, data: &Json) -> Json {
    json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": data}})
}

fn definition(kind: &str, resources: &Json) -> Json {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": kind.to_lowercase()},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"size": "integer | default=1"}},
            "resources": resources}})
}

async fn uid(api: &Api<DynamicObject>, name: &str) -> Option<String> {
    api.get_opt(name).await.unwrap()?.metadata.uid
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_whose_watches_lag_behind_prunes_nothing_that_a_newer_definition_desires() {
    let (objects, _exclusive) = exclusive().await;
    let first = Running::start(PLANE, candidate("lagging.kro.run", "first")).await;
    let proxy = FaultProxy::start(shared(PLANE).await.admin()).unwrap();
    let config = proxy.kubeconfig(shared(PLANE).await.admin()).unwrap().config().await.unwrap();
    let second = Running::start_with(config, candidate("lagging.kro.run", "second")).await;
    objects.create(&definition("Lagging", &json!([config_map("a", &json!({}))]))).await;
    objects.until_ready("lagging").await;
    let instances = objects.namespaced("kro.run", "Lagging", "laggings", "default");
    create_instance(&instances, "Lagging", "lagging").await;
    until(instances.clone(), "lagging".to_owned(), is_active).await;

    // From now on the standby receives no event.
    let watches = || Requests::any().verb(Verb::Watch).resource("resourcegraphdefinitions.kro.run");
    let before = proxy.count(&watches());
    proxy.on(Requests::any().verb(Verb::Watch), Action::Hold);
    proxy.cut_connections();
    wait::until_true("the standby to watch again", || proxy.count(&watches()) > before).await;
    // The leader applies another ConfigMap and resigns.
    let both = json!([config_map("a", &json!({})), config_map("b", &json!({}))]);
    objects.patch("lagging", &json!({"spec": {"resources": both}})).await;
    objects.until_ready("lagging").await;
    let config_maps = objects.config_maps("default");
    let created = wait::until_object(&config_maps, "lagging-b", |_| true).await.metadata.uid;
    until_idle(&first).await;
    let revisions = objects.revision_names("lagging").await;
    first.stop().await;

    wait::until_true("the standby to take over", || second.metric("instance_reconcile_total") > 0.0).await;
    until_idle(&second).await;
    assert_eq!(uid(&config_maps, "lagging-b").await, created, "it was pruned");
    assert_eq!(objects.revision_names("lagging").await, revisions);
    until_quiet(&proxy).await;
    second.stop().await;
}

/// Waits until a controller sends nothing through a proxy for some time but watches and renewals of its Lease.
async fn until_quiet(proxy: &FaultProxy) {
    const QUIET: Duration = Duration::from_secs(5);
    let is_counted =
        |request: &Request| request.verb != Verb::Watch && !request.resource.starts_with("leases.");
    let count = || {
        let sent = proxy.requests(&Requests::any());
        sent.iter().filter(|record| is_counted(&record.request)).count()
    };
    let mut last = (count(), Instant::now());
    wait::until_true("the hub to be idle", || {
        let now = count();
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > QUIET
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_sends_nothing_to_another_cluster_behind_the_address_of_its_hub() {
    let (objects, _exclusive) = exclusive().await;
    let proxy = FaultProxy::start(shared(PLANE).await.admin()).unwrap();
    let config = proxy.kubeconfig(shared(PLANE).await.admin()).unwrap().config().await.unwrap();
    let running = Running::start_with(config, Settings::default()).await;
    objects.create(&definition("Moved", &json!([config_map("a", &json!({}))]))).await;
    objects.until_ready("moved").await;

    let identity = Requests::any().verb(Verb::Get).resource("namespaces").name("kube-system");
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata":
        {"name": "kube-system", "resourceVersion": "1", "uid": "1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2"}});
    let moved = proxy.on(identity.clone(), Action::Answer(Answer::json(200, &other)));
    proxy.cut_connections();
    proxy.clear_requests();
    let instances = objects.namespaced("kro.run", "Moved", "moveds", "default");
    create_instance(&instances, "Moved", "moved").await;
    wait::until_true("several connections to be refused", || proxy.count(&identity) > 5).await;
    let sent = proxy.requests(&Requests::any());
    let sent = sent.iter().map(|record| &record.request).filter(|request| !identity.matches(request));
    assert_eq!(sent.map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);

    proxy.remove(moved);
    until(instances, "moved".to_owned(), is_active).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_was_told_to_stop_writes_nothing_once_its_lease_cannot_be_renewed() {
    let (objects, _exclusive) = exclusive().await;
    let admin = shared(PLANE).await.admin();
    let (proxy, lease_proxy) = (FaultProxy::start(admin).unwrap(), FaultProxy::start(admin).unwrap());
    let settings = candidate("draining.kro.run", "first");
    let (hub_client, lease_client) = (connect(&proxy).await, connect(&lease_proxy).await);
    let controller = Controller::new(hub_client, lease_client, settings, &mut Registry::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(controller.run(async { drop(stopped.await) }));
    let chain =
        json!([config_map("a", &json!({})), config_map("b", &json!({"after": "${a.metadata.name}"}))]);
    objects.create(&definition("Draining", &chain)).await;
    objects.until_ready("draining").await;

    // The first of two writes is on its way when the controller is told to stop and cannot renew its lease any more.
    let first = Requests::any().verb(Verb::Apply).resource("configmaps").name("draining-a");
    let held = proxy.on(first.clone(), Action::Hold);
    let instances = objects.namespaced("kro.run", "Draining", "drainings", "default");
    create_instance(&instances, "Draining", "draining").await;
    wait::until_true("the first write to be sent", || proxy.count(&first) > 0).await;
    drop(stop);
    lease_proxy.set(Fault::Hang);
    let successor = take_over("draining.kro.run").await;
    proxy.clear_requests();
    proxy.remove(held);

    let ended = tokio::time::timeout(wait::WAIT_LIMIT, running).await.unwrap().unwrap();
    assert!(matches!(ended, Err(ControllerError::LostLeadership { .. })), "{ended:?}");
    assert_eq!(writes(&proxy), Vec::<String>::new());
    assert_eq!(uid(&objects.config_maps("default"), "draining-b").await, None);
    successor.resign().await;
}
