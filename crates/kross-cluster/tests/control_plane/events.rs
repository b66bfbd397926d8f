//! Events in a real cluster.

use k8s_openapi::api::events::v1::Event;
use kross_cluster::{EventStats, Events, Regarding, Report, Severity};

use crate::setup::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn reports_become_events_and_repetitions_are_counted() {
    let setup = Setup::new().await;
    let object = setup.client.create(&setup.config_map, &setup.object("web", &[]), "test").await.unwrap();
    let events = Events::start(setup.client.clone(), "kro.run/webs", "pod-1");
    let report = |note: &str| Report {
        regarding: Regarding::from(&object),
        severity: Severity::Warning,
        reason: "ResourcesReady".to_owned(),
        action: "Reconcile".to_owned(),
        note: note.to_owned(),
    };
    events.report(report("none -> False: NotReady"));
    events.report(report(&"long ".repeat(1000)));
    for _ in 0..6 {
        events.report(report("none -> False: NotReady"));
    }
    events.flush().await;
    assert_eq!(events.stats(), EventStats { written: 2, repeated: 6, dropped: 0, failed: 0 });

    let api: kube::Api<Event> = kube::Api::namespaced(setup.client.client(), &setup.fixture.namespace);
    let written = api.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert_eq!(written.len(), 2);
    let event =
        written.iter().find(|event| event.note.as_deref() == Some("none -> False: NotReady")).unwrap();
    assert_eq!(event.series.as_ref().unwrap().count, 7);
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reporting_controller.as_deref(), Some("kro.run/webs"));
    assert_eq!(event.regarding.as_ref().unwrap().uid.as_deref(), Some(object.uid().as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn reporting_does_not_wait_for_an_unresponsive_cluster() {
    let setup = Setup::new().await;
    let proxy = kross_testing::FaultProxy::start(setup.fixture.hub.plane.admin()).unwrap();
    let config = proxy.kubeconfig(setup.fixture.hub.plane.admin()).unwrap().config().await.unwrap();
    proxy.set(kross_testing::Fault::Hang);
    let client = kross_cluster::ClusterClient::trusted(
        kross_cluster::ClusterId::local(),
        config,
        kross_cluster::ClientOptions::default(),
    )
    .await
    .unwrap();
    let events = Events::start(client, "kro.run/webs", "pod-1");
    let started = kross_testing::Stopwatch::start();
    for n in 0..10_000 {
        events.report(Report {
            regarding: Regarding {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: None,
                name: format!("web-{n}"),
                uid: String::new(),
            },
            severity: Severity::Normal,
            reason: "Ready".to_owned(),
            action: "Reconcile".to_owned(),
            note: String::new(),
        });
    }
    started.assert_within(std::time::Duration::from_secs(2));
    assert!(events.stats().dropped > 7000, "{:?}", events.stats());
}
