//! Leader election with two candidates.

use std::time::Duration;

use kross_cluster::{
    ApiKind, ClientOptions, ClusterClient, ClusterId, LeaderElection, Leadership, LeaseOptions,
    TransportOptions,
};
use kross_testing::{Action, Fault, FaultProxy, Requests, Stopwatch, Verb, wait};
use kross_value::Value;

use crate::setup::Setup;

/// The lease duration.
const LEASE: Duration = Duration::from_secs(10);

fn options(setup: &Setup, identity: &str) -> LeaseOptions {
    LeaseOptions {
        // Long enough that a busy machine gets a renewal through in time.
        lease_duration: LEASE,
        renew_deadline: LEASE / 2,
        retry_period: Duration::from_millis(200),
        ..LeaseOptions::new(&setup.fixture.namespace, "controller.kro.run", identity)
    }
}

async fn until_leading(election: &LeaderElection, limit: Duration) {
    let mut leadership = election.leadership();
    let leads = leadership.wait_for(|leadership| *leadership == Leadership::Leading);
    tokio::time::timeout(limit, leads).await.expect("it leads in time").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_at_once_when_the_leader_resigns() {
    let setup = Setup::new().await;
    let first = LeaderElection::start(setup.client.clone(), options(&setup, "first"));
    until_leading(&first, wait::WAIT_LIMIT).await;
    let second = LeaderElection::start(setup.client.clone(), options(&setup, "second"));
    let standby = Leadership::Standby { leader: Some("first".to_owned()) };
    second.leadership().wait_for(|leadership| *leadership == standby).await.unwrap();
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    assert!(first.is_leading() && !second.is_leading(), "renewals keep the lease");

    // The wait is shorter than the lease, so that its expiry cannot hide a release that was lost.
    let started = Stopwatch::start();
    first.resign().await;
    until_leading(&second, LEASE - Duration::from_secs(1)).await;
    started.assert_within(LEASE / 2);
    let kind = ApiKind::custom("coordination.k8s.io", "v1", "Lease", "leases", true);
    let lease = setup.client.get(&kind, setup.namespace(), "controller.kro.run").await.unwrap();
    assert_eq!(lease.value().at(&["spec", "holderIdentity"]), Some(&"second".into()));
    assert_eq!(lease.value().at(&["spec", "leaseTransitions"]), Some(&Value::Int(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_renew_stops_before_a_standby_takes_over() {
    let setup = Setup::new().await;
    let admin = setup.fixture.hub.plane.admin();
    let proxy = FaultProxy::start(admin).unwrap();
    let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
    let behind = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let first = LeaderElection::start(behind, options(&setup, "first"));
    until_leading(&first, wait::WAIT_LIMIT).await;
    let second = LeaderElection::start(setup.client.clone(), options(&setup, "second"));
    // A hanging request is the worst case, because it returns no error.
    proxy.set(Fault::Hang);
    until_leading(&second, wait::WAIT_LIMIT).await;
    assert!(!first.is_leading(), "two led at once");
    // When the first one can reach the cluster again, it is on standby.
    proxy.set(Fault::Pass);
    wait::until_true("the first to be on standby", || {
        *first.leadership().borrow() == Leadership::Standby { leader: Some("second".to_owned()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waited_for_its_permit_until_the_lease_had_ended_is_not_sent() {
    let setup = Setup::new().await;
    let admin = setup.fixture.hub.plane.admin();
    let (proxy, lease_proxy) = (FaultProxy::start(admin).unwrap(), FaultProxy::start(admin).unwrap());
    let connect = async |proxy: &FaultProxy, max_streams: usize| {
        let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
        let requests = TransportOptions { max_streams, ..TransportOptions::default() };
        let options = ClientOptions { requests, ..ClientOptions::default() };
        ClusterClient::trusted(ClusterId::local(), config, options).await.unwrap()
    };
    let election = LeaderElection::start(connect(&lease_proxy, 1).await, options(&setup, "first"));
    let client = connect(&proxy, 1).await.fenced(election.fence());
    until_leading(&election, wait::WAIT_LIMIT).await;
    let (kind, object) = (setup.config_map.clone(), |name| setup.object(name, &[]));
    client.create(&kind, &object("before"), "test").await.unwrap();

    // A read takes the only permit, and the write queues behind it.
    let read = Requests::any().verb(Verb::Get).resource("configmaps");
    let held = proxy.on(read.clone(), Action::Hold);
    let reader = {
        let (client, kind, namespace) = (client.clone(), kind.clone(), setup.fixture.namespace.clone());
        tokio::spawn(async move { client.get(&kind, Some(&namespace), "before").await })
    };
    wait::until_true("the read to be sent", || proxy.count(&read) > 0).await;
    let (after, writer) = (object("after"), client.clone());
    let write = async { writer.create(&kind, &after, "test").await };
    let ended = async {
        lease_proxy.set(Fault::Hang);
        wait::until_true("the lease to end", || !election.is_leading()).await;
        proxy.remove(held);
    };
    let (written, ()) = tokio::join!(write, ended);
    let error = written.unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert!(error.to_string().ends_with("this process does not hold the lease any more"), "{error}");
    let creates = Requests::any().verb(Verb::Create).resource("configmaps");
    assert_eq!(proxy.count(&creates), 1);
    // Reads are not fenced.
    assert_eq!(reader.await.unwrap().unwrap().name(), "before");
    assert!(client.get(&kind, setup.namespace(), "after").await.unwrap_err().is_object_not_found());
}
