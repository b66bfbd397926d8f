use std::time::Duration;

use kross_cluster::{
    ApiKind, ClientOptions, ClusterClient, ClusterId, LeaderElection, Leadership, LeaseOptions,
};
use kross_testing::{Fault, FaultProxy, Stopwatch, wait};
use kross_value::Value;

use crate::setup::Setup;

/// How long a leader may be silent.
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

async fn until_leading(election: &LeaderElection) {
    let mut leadership = election.leadership();
    let leads = leadership.wait_for(|leadership| *leadership == Leadership::Leading);
    tokio::time::timeout(wait::WAIT_LIMIT, leads).await.expect("it leads in time").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_the_other_follows_and_takes_over_at_once_when_the_first_resigns() {
    let setup = Setup::new().await;
    let first = LeaderElection::start(setup.client.clone(), options(&setup, "first"));
    until_leading(&first).await;
    let second = LeaderElection::start(setup.client.clone(), options(&setup, "second"));
    let follows = Leadership::Following { leader: Some("first".to_owned()) };
    second.leadership().wait_for(|leadership| *leadership == follows).await.unwrap();
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    assert!(first.is_leading() && !second.is_leading(), "renewals keep the lease");

    // Without waiting until the lease has run out.
    let started = Stopwatch::start();
    first.resign().await;
    until_leading(&second).await;
    started.assert_within(LEASE / 2);
    let kind = ApiKind::custom("coordination.k8s.io", "v1", "Lease", "leases", true);
    let lease = setup.client.get(&kind, setup.namespace(), "controller.kro.run").await.unwrap();
    assert_eq!(lease.value().at(&["spec", "holderIdentity"]), Some(&"second".into()));
    assert_eq!(lease.value().at(&["spec", "leaseTransitions"]), Some(&Value::Int(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_loses_its_cluster_stops_before_the_other_begins() {
    let setup = Setup::new().await;
    let admin = setup.fixture.hub.plane.admin();
    let proxy = FaultProxy::start(admin).unwrap();
    let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
    let behind = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let first = LeaderElection::start(behind, options(&setup, "first"));
    until_leading(&first).await;
    let second = LeaderElection::start(setup.client.clone(), options(&setup, "second"));
    // A hanging request is the worst case: nothing says that something is wrong.
    proxy.set(Fault::Hang);
    until_leading(&second).await;
    assert!(!first.is_leading(), "two led at once");
    // And when the way is free again the first one follows.
    proxy.set(Fault::Pass);
    wait::until_true("the first to follow the second", || {
        *first.leadership().borrow() == Leadership::Following { leader: Some("second".to_owned()) }
    })
    .await;
}
