//! From a Secret to a connection, and every step at which that can fail.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kross_api::{FailureReason, SecretAddress};
use kross_cluster::{
    ApiKind, Apply, ClientOptions, ClusterChange, ClusterClient, ClusterId, ClusterOptions, ClusterRegistry,
    ConnectStep, ConnectionState, LeaderElection, Leadership, LeaseOptions, SecretConsumer, Selection,
};
use kross_local::{Access, Credential, Kubeconfig, rule};
use kross_testing::{Action, Answer, Fault, FaultProxy, Requests, wait};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::{BACKOFF, Setup, WOKEN_WITHIN, until_event};

#[tokio::test(flavor = "multi_thread")]
async fn connects_with_the_kubeconfig_of_a_secret_and_reads_the_uid_of_the_cluster() {
    let setup = Setup::new().await;
    let mut events = setup.clusters.subscribe();
    setup.proxy.set(Fault::Hang);
    let hold = setup.hold("eu-kubeconfig", &setup.admin()).await;
    // Reading the state does not wait.
    assert!(matches!(hold.state(Some(setup.namespace())), ConnectionState::Connecting { .. }));
    setup.proxy.set(Fault::Pass);

    let live = setup.connected(&hold).await;
    assert_eq!(live.identity.uid.as_str(), setup.uid().await);
    assert!(live.identity.verified);
    assert_eq!(live.client.cluster(), &live.identity.id);
    assert!(!live.client.access().is_empty());
    assert_eq!(until_event(&mut events, &hold, ClusterChange::Connected).await, []);

    let kind = live.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let cache = setup.caches.watch(&live.client, &kind, Selection::Managed);
    cache.wait_for_sync().await;
    assert_eq!(cache.key().access, *live.client.access());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_may_not_read_the_uid_is_identified_by_the_server_address() {
    let setup = Setup::new().await;
    let user = setup.user("minimal").await;
    let hold = setup.hold("minimal-kubeconfig", &user).await;
    let live = setup.connected(&hold).await;
    assert!(!live.identity.verified);
    assert_eq!(live.identity.uid.as_str(), setup.proxy.url());
    let kind = live.client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    live.client.list(&kind, Some(setup.namespace()), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_is_used_at_once_after_one_was_rejected() {
    let setup = Setup::with(ClusterOptions { backoff: BACKOFF, ..ClusterOptions::default() }).await;
    let good = setup.user("rotated").await;
    let bad = Kubeconfig { credential: Credential::Token("c4n4ry-token".to_owned()), ..good.clone() };
    let hold = setup.hold("rotated-kubeconfig", &bad).await;
    let down = setup.down(&hold, ConnectStep::Authenticate).await;
    assert_eq!(down.reason, FailureReason::Unauthorized);
    assert!(
        down.message.contains(&format!("`{}/rotated-kubeconfig`", setup.namespace())),
        "{}",
        down.message
    );
    assert!(!format!("{down:?} {:?}", setup.clusters.states()).contains("c4n4ry"));
    setup.put("rotated-kubeconfig", &good).await;
    setup.connected_within(WOKEN_WITHIN, &hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn warns_about_a_token_of_the_hub_in_the_kubeconfig_of_another_cluster() {
    let setup = Setup::new().await;
    let hub = setup.fixture.hub.plane;
    let own = hub.mint_token(setup.namespace(), "own", &Access::all()).await.unwrap();
    let mixed = Kubeconfig { credential: own.credential.clone(), ..setup.admin() };
    let hold = setup.hold("mixed-kubeconfig", &mixed).await;
    let down = setup.down(&hold, ConnectStep::Authenticate).await;
    assert_eq!(down.reason, FailureReason::Unauthorized);
    assert!(down.message.contains("issued by the controller's own cluster"), "{}", down.message);
    assert!(down.message.contains("revoke"), "{}", down.message);
    // Another invalid token does not cause the warning.
    let eu = setup.fixture.remote("eu").plane;
    let access = Access::all();
    let revoked = eu.mint_revoked_token(setup.namespace(), "revoked", &access).await.unwrap();
    let revoked = setup.proxy.kubeconfig(&revoked).unwrap();
    let hold = setup.hold("revoked-kubeconfig", &revoked).await;
    let down = setup.down(&hold, ConnectStep::Authenticate).await;
    assert!(!down.message.contains("issued by"), "{}", down.message);

    // A server that accepts it anyway causes a warning.
    let probes = Requests::any().resource("namespaces").name("kube-system");
    setup.proxy.on(probes, Action::Answer(Answer::status(403)));
    let hold = setup.clusters.hold(&setup.address("mixed-kubeconfig"));
    let live = setup.connected(&hold).await;
    assert!(
        live.warnings.iter().any(|warning| warning.contains("token of the controller's own cluster")),
        "{live:?}"
    );
    // For the hub itself it is valid.
    let hold = setup.hold("own-kubeconfig", &own).await;
    assert_eq!(setup.connected(&hold).await.warnings, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnects_when_the_secret_is_deleted_and_reconnects_when_it_is_created_again() {
    let setup = Setup::new().await;
    let hold = setup.clusters.hold(&setup.address("late-kubeconfig"));
    let down = setup.down(&hold, ConnectStep::Secret).await;
    assert_eq!(down.identity, None);
    assert!(down.message.contains("it must exist"), "{}", down.message);
    setup.put("late-kubeconfig", &setup.admin()).await;
    let live = setup.connected(&hold).await;

    setup.delete("late-kubeconfig").await;
    let down = setup.down(&hold, ConnectStep::Secret).await;
    assert_eq!(down.identity, Some(live.identity.clone()), "the identity of the cluster is kept");
    // A reconcile in progress must not continue with a credential that was withdrawn.
    let error = live.client.fetch("/version").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Credentials, "{error}");

    setup.put("late-kubeconfig", &setup.admin()).await;
    assert_eq!(setup.connected(&hold).await.identity, live.identity);
    live.client.fetch("/version").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_may_not_use_a_secret_learns_nothing_else_about_it() {
    let setup = Setup::new().await;
    setup.put("ours-kubeconfig", &setup.admin()).await;
    let allow = async |namespaces: &str| {
        let patch = json!({"metadata": {"annotations": {"kro.run/allowed-namespaces": namespaces}}});
        let secrets = setup.fixture.hub.api::<Secret>();
        secrets.patch("ours-kubeconfig", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    allow("elsewhere").await;
    // After that: the Secret was never seen while everyone could use it.
    let hold = setup.clusters.hold(&setup.address("ours-kubeconfig"));
    let refused = setup.down(&hold, ConnectStep::Secret).await;
    assert_eq!(setup.proxy.count(&Requests::any()), 0, "no consumer that may use it has asked");
    // A definition may use any Secret that is offered, so the cluster is connected for it.
    wait::until_true("the cluster to be connected for the definition", || {
        hold.state(SecretConsumer::Definition).connected().is_some()
    })
    .await;
    let again = setup.down(&hold, ConnectStep::Secret).await;
    assert_eq!((&again.message, &again.identity, again.last_contact), (&refused.message, &None, None));
    let missing = setup.clusters.hold(&setup.address("missing-kubeconfig"));
    let missing = setup.down(&missing, ConnectStep::Secret).await;
    assert_eq!(missing.message.replace("missing-", "ours-"), refused.message.as_str());

    let mut events = setup.clusters.subscribe();
    allow(&format!("elsewhere, {}", setup.namespace())).await;
    setup.connected(&hold).await;
    until_event(&mut events, &hold, ClusterChange::Permissions).await;

    let before = Timestamp::now();
    allow("elsewhere").await;
    let refused = setup.down(&hold, ConnectStep::Secret).await;
    assert!(refused.since >= before, "it could be used until now: {}", refused.since);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_secret_that_the_controller_may_not_read_until_it_may() {
    let setup = Setup::new().await;
    let (plane, namespace) = (setup.fixture.hub.plane, setup.namespace());
    let may_read = |names: &[&str]| {
        let mut secrets = rule(&[""], &["secrets"], &["get", "list", "watch"]);
        secrets.resource_names = Some(names.iter().map(|name| (*name).to_owned()).collect());
        Access::none().in_namespace(namespace, [secrets])
    };
    let narrow = plane.mint_token(namespace, "narrow", &may_read(&["ours-kubeconfig"])).await.unwrap();
    let config = narrow.config().await.unwrap();
    let hub = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let clusters = ClusterRegistry::new(hub, setup.caches.clone(), ClusterOptions::default());
    for name in ["ours-kubeconfig", "theirs-kubeconfig"] {
        setup.put(name, &setup.admin()).await;
    }
    // Permissions for single Secrets are enough.
    setup.connected(&clusters.hold(&setup.address("ours-kubeconfig"))).await;
    let hold = clusters.hold(&setup.address("theirs-kubeconfig"));
    let down = setup.down(&hold, ConnectStep::Secret).await;
    assert_eq!(down.reason, FailureReason::Forbidden);
    for part in
        ["theirs-kubeconfig", &format!("system:serviceaccount:{namespace}:narrow"), "allow the controller"]
    {
        assert!(down.message.contains(part), "{part}: {}", down.message);
    }
    plane
        .mint_token(namespace, "narrow", &may_read(&["ours-kubeconfig", "theirs-kubeconfig"]))
        .await
        .unwrap();
    setup.connected(&hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_an_event_when_a_refused_secret_is_offered() {
    let setup = Setup::new().await;
    let secrets = setup.fixture.hub.api::<Secret>();
    let label = async |value: Option<&str>| {
        let patch = json!({"metadata": {"labels": {"kro.run/cluster-credentials": value}}});
        secrets.patch("plain", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    setup.put("plain", &setup.admin()).await;
    label(None).await;
    let hold = setup.clusters.hold(&setup.address("plain"));
    let mut events = setup.clusters.subscribe();
    setup.down(&hold, ConnectStep::Secret).await;
    while events.try_recv().is_ok() {}
    label(Some("true")).await;
    // Nobody reads the state meanwhile, so only the event can wake them.
    let event = tokio::time::timeout(wait::WAIT_LIMIT, events.recv()).await.unwrap().unwrap();
    assert_eq!(event.secret, *hold.secret());
    setup.connected(&hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_an_event_when_a_new_credential_fails_like_the_previous_one() {
    let setup = Setup::new().await;
    let token = |token: &str| Kubeconfig { credential: Credential::Token(token.to_owned()), ..setup.admin() };
    let hold = setup.hold("bad-kubeconfig", &token("one")).await;
    let mut events = setup.clusters.subscribe();
    setup.down(&hold, ConnectStep::Authenticate).await;
    assert_eq!(until_event(&mut events, &hold, ClusterChange::Failed).await, []);
    setup.put("bad-kubeconfig", &token("two")).await;
    assert_eq!(until_event(&mut events, &hold, ClusterChange::Failed).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_request_secrets_with_invalid_names() {
    let setup = Setup::new().await;
    let hub = FaultProxy::start(setup.fixture.hub.plane.admin()).unwrap();
    let config = hub.kubeconfig(setup.fixture.hub.plane.admin()).unwrap().config().await.unwrap();
    let client = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let clusters = ClusterRegistry::new(client, setup.caches.clone(), ClusterOptions::default());
    for name in ["../admin-kubeconfig", "a,metadata.namespace!=b-kubeconfig", "", "A-kubeconfig"] {
        let hold = clusters.hold(&setup.address(name));
        let ConnectionState::NotConnected { failure, .. } = hold.state(Some(setup.namespace())) else {
            panic!("{name}")
        };
        assert_eq!(failure.step, ConnectStep::Secret);
        assert!(failure.cause.contains("not a valid Secret name"), "{}", failure.cause);
    }
    // A valid name is requested, later than the others would have been.
    let requests = Requests::any().resource("secrets");
    let _hold = clusters.hold(&setup.address("last-kubeconfig"));
    wait::until_true("a list and a watch", || hub.count(&requests) >= 2).await;
    for request in hub.requests(&requests) {
        let request = format!("{:?}", request.request);
        assert!(request.contains("last-kubeconfig"), "{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn distinguishes_a_missing_key_from_a_refused_kubeconfig() {
    let setup = Setup::new().await;
    let hold =
        setup.clusters.hold(&SecretAddress { key: "other".to_owned(), ..setup.address("some-kubeconfig") });
    setup.put("some-kubeconfig", &setup.admin()).await;
    let down = setup.down(&hold, ConnectStep::Key).await;
    assert!(down.message.contains("has no key `other`"), "{}", down.message);

    let insecure =
        setup.admin().to_string().replace("    server:", "    insecure-skip-tls-verify: true\n    server:");
    let patch = json!({"stringData": {"other": insecure}});
    let secrets = setup.fixture.hub.api::<Secret>();
    secrets.patch("some-kubeconfig", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let down = setup.down(&hold, ConnectStep::Parse).await;
    assert!(down.message.contains("the kubeconfig is refused"), "{}", down.message);
    assert_eq!(setup.proxy.count(&Requests::any()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_succeed_as_soon_as_the_state_is_connected() {
    let setup = Setup::new().await;
    for round in 0..30 {
        let name = format!("eu-{round}-kubeconfig");
        let hold = setup.hold(&name, &setup.user(&format!("eager-{round}")).await).await;
        let live = loop {
            // As soon as possible after the change.
            match hold.state(Some(setup.namespace())) {
                ConnectionState::Connected(live) => break live,
                _ => tokio::task::yield_now().await,
            }
        };
        live.client.fetch("/version").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_fail_as_soon_as_the_state_shows_that_the_secret_was_deleted() {
    let setup = Setup::new().await;
    let kubeconfig = setup.admin();
    for round in 0..30 {
        let name = format!("brief-{round}-kubeconfig");
        let hold = setup.hold(&name, &kubeconfig).await;
        let live = setup.connected(&hold).await;
        let deleted = setup.delete(&name);
        let fetch = async {
            // As soon as possible after the change.
            while matches!(hold.state(Some(setup.namespace())), ConnectionState::Connected(_)) {
                tokio::task::yield_now().await;
            }
            live.client.fetch("/version").await
        };
        let ((), fetched) = tokio::join!(deleted, fetch);
        assert_eq!(fetched.unwrap_err().reason(), FailureReason::Credentials, "in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_cluster_is_not_written_to_without_the_lease_and_stays_connected() {
    let setup = Setup::new().await;
    let config = setup.fixture.hub.plane.admin().config().await.unwrap();
    let hub = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let lease = |identity: &str| LeaseOptions::new(setup.namespace(), "fenced.kro.run", identity);
    let leader = LeaderElection::start(hub.clone(), lease("leader"));
    let mut leadership = leader.leadership();
    leadership.wait_for(|leadership| *leadership == Leadership::Leading).await.unwrap();
    let standby = LeaderElection::start(hub.clone(), lease("standby"));
    let kind = ApiKind::custom("", "v1", "ConfigMap", "configmaps", true);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "fenced", "namespace": setup.namespace()}})
    .into();
    setup.put("eu-kubeconfig", &setup.admin()).await;
    for (election, is_leader) in [(&standby, false), (&leader, true)] {
        let hub = hub.fenced(election.fence());
        let clusters = ClusterRegistry::new(hub, setup.caches.clone(), ClusterOptions::default());
        let hold = clusters.hold(&setup.address("eu-kubeconfig"));
        let live = setup.connected(&hold).await;
        // More often than the circuit breaker tolerates failures.
        for _ in 0..10 {
            let written = live.client.apply(&kind, &object, Apply::by("test")).await;
            assert_eq!(written.is_ok(), is_leader, "{written:?}");
            assert!(is_leader || written.unwrap_err().is_fenced());
        }
        assert!(matches!(hold.state(Some(setup.namespace())), ConnectionState::Connected(_)));
        let found = live.client.get(&kind, Some(setup.namespace()), "fenced").await;
        assert_eq!(found.is_ok(), is_leader, "{found:?}");
    }
}
