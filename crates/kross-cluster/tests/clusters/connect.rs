//! From a Secret to a connection, and every way in which that does not come about.

use std::time::Instant;

use kross_api::FailureReason;
use kross_cluster::{ClusterChange, ClusterEvent, Link, Selection, Step};
use kross_local::{Credential, Kubeconfig};

use crate::setup::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_becomes_a_connection_with_the_identity_of_its_cluster() {
    let setup = Setup::new().await;
    let mut events = setup.clusters.subscribe();
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    let started = Instant::now();
    assert!(matches!(hold.link(Some(setup.namespace())), Link::Connecting { .. }));
    assert!(started.elapsed().as_millis() < 50, "asking does not wait");

    let live = setup.connected(&hold).await;
    assert_eq!(live.identity.uid.as_str(), setup.uid().await);
    assert!(live.identity.verified);
    assert_eq!(live.connection.cluster(), &live.identity.id);
    assert!(!live.connection.access().is_empty());
    let connected = ClusterEvent { secret: hold.secret().clone(), change: ClusterChange::Connected };
    assert_eq!(events.recv().await, Some(connected));

    let kind = live.connection.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let watch = setup.watches.watch(&live.connection, &kind, Selection::Managed);
    watch.complete().await;
    assert_eq!(watch.key().access, *live.connection.access());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_the_uid_is_connected_to_an_address() {
    let setup = Setup::new().await;
    let user = setup.user("minimal").await;
    let hold = setup.hold("minimal-kubeconfig", &user).await;
    let live = setup.connected(&hold).await;
    assert!(!live.identity.verified);
    assert_eq!(live.identity.uid.as_str(), setup.proxy.url());
    let kind = live.connection.kind("", Some("v1"), "ConfigMap").await.unwrap();
    live.connection.list(&kind, Some(setup.namespace()), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_accepted_says_so_and_is_replaced_at_once() {
    let setup = Setup::new().await;
    let good = setup.user("rotated").await;
    let bad = Kubeconfig { credential: Credential::Token("c4n4ry-token".to_owned()), ..good.clone() };
    let hold = setup.hold("rotated-kubeconfig", &bad).await;
    let down = setup.down(&hold, Step::Authenticate).await;
    assert_eq!(down.reason, FailureReason::Unauthorized);
    assert!(
        down.message.contains(&format!("`{}/rotated-kubeconfig`", setup.namespace())),
        "{}",
        down.message
    );
    assert!(!format!("{down:?} {:?}", setup.clusters.states()).contains("c4n4ry"));
    setup.put("rotated-kubeconfig", &good).await;
    setup.connected(&hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_goes_takes_the_connection_with_it_and_brings_it_back() {
    let setup = Setup::new().await;
    let hold = setup.clusters.hold(&setup.address("late-kubeconfig"));
    let down = setup.down(&hold, Step::Secret).await;
    assert_eq!(down.identity, None);
    assert!(down.message.contains("there is no Secret"), "{}", down.message);
    setup.put("late-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;

    setup.delete("late-kubeconfig").await;
    let down = setup.down(&hold, Step::Secret).await;
    assert_eq!(down.identity, Some(live.identity.clone()), "which cluster it was is not forgotten");
    // Whoever was in the middle of something does not go on with a credential that was taken away.
    let error = live.connection.fetch("/version").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Credentials, "{error}");

    setup.put("late-kubeconfig", &setup.admin()).await;
    assert_eq!(setup.connected(&hold).await.identity, live.identity);
    live.connection.fetch("/version").await.unwrap();
}
