//! Leader election with two candidates.

use std::time::Duration;

use kross_cluster::{
    ApiKind, ClientOptions, ClusterClient, ClusterId, LeaderElection, Leadership, LeaseOptions,
};
use kross_testing::{Fault, FaultProxy, Stopwatch, wait};
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
