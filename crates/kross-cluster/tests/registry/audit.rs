//! Audit records of requests to remote clusters.

use kross_api::ObjectKey;
use kross_cluster::{Apply, Audit, AuditFile, ClusterId, ClusterOptions, ConnectStep, Delete, Selection};
use kross_local::{Credential, Kubeconfig};
use kross_testing::{Fault, wait};
use serde_json::{Value, json};

use crate::setup::Setup;

/// The records with these values.
fn records(path: &std::path::Path, expected: &Value) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The last line may be incomplete.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let records = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .filter(|record| expected.as_object().unwrap().iter().all(|(key, value)| record[key] == *value))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn audits_connects_reads_writes_and_watches_with_instance_and_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let file = AuditFile { path: path.clone(), max_bytes: 0, max_backups: 0 };
    let audit = Audit::to_file(file).unwrap();
    let setup = Setup::with(ClusterOptions { audit, ..ClusterOptions::default() }).await;
    let good = setup.user("audited").await;
    let bad = Kubeconfig { credential: Credential::Token("c4n4ry".to_owned()), ..good.clone() };
    let hold = setup.hold("eu-kubeconfig", &bad).await;
    setup.down(&hold, ConnectStep::Authenticate).await;
    setup.put("eu-kubeconfig", &good).await;
    let live = setup.connected(&hold).await;

    let instance = ObjectKey {
        cluster: ClusterId::local(),
        group: "kro.run".into(),
        kind: "Shop".into(),
        namespace: Some("shop".into()),
        name: "web".into(),
    };
    let client = live.client.on_behalf_of(&instance);
    let kind = client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let namespace = setup.namespace();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace},
        "data": {"secret": "c4n4ry-payload"}});
    client.apply(&kind, &map.into(), Apply::by("test")).await.unwrap();
    client.get(&kind, Some(namespace), "a").await.unwrap();
    client.get(&kind, Some("default"), "b").await.unwrap_err();
    client.delete(&kind, Some(namespace), "a", Delete::default()).await.unwrap();
    let selection = Selection::Name { namespace: Some(namespace.into()), name: "a".into() };
    let cache = setup.caches.watch(&client, &kind, selection);
    cache.wait_for_sync().await;
    wait::until_true("the watch to be open", || {
        setup.caches.states().iter().any(|state| state.key == *cache.key() && state.opened > 0)
    })
    .await;
    setup.proxy.set(Fault::Refuse);
    setup.down(&hold, ConnectStep::Reach).await;
    client.delete(&kind, Some(namespace), "a", Delete::default()).await.unwrap_err();

    let secret = format!("{namespace}/eu-kubeconfig");
    let cluster = json!({"name": secret, "uid": setup.proxy.url()});
    let on = |name: &str| json!({"kind": "ConfigMap", "namespace": namespace, "name": name});
    let who = json!({"group": "kro.run", "kind": "Shop", "namespace": "shop", "name": "web"});
    let by = |expected: Value| {
        let mut expected = expected;
        expected["instance"] = who.clone();
        expected["cluster"] = cluster.clone();
        expected
    };
    for expected in [
        json!({"verb": "connect", "outcome": "failure", "reason": "Unauthorized", "cluster": {"name": secret}}),
        json!({"verb": "connect", "outcome": "success", "secret": secret, "authMethod": "token", "cluster": cluster}),
        json!({"verb": "connect", "outcome": "failure", "reason": "Unreachable", "cluster": cluster}),
        by(json!({"verb": "patch", "outcome": "success", "object": on("a")})),
        by(json!({"verb": "get", "outcome": "success", "object": on("a")})),
        by(json!({"verb": "get", "outcome": "failure", "reason": "Forbidden"})),
        by(json!({"verb": "delete", "outcome": "success", "object": on("a")})),
        by(json!({"verb": "delete", "outcome": "failure", "reason": "Unreachable", "object": on("a")})),
        by(json!({"verb": "watch", "outcome": "success", "object": on("a")})),
    ] {
        wait::until(format!("a record with {expected}"), || async {
            let found = records(&path, &expected);
            if found.is_empty() { Err(std::fs::read_to_string(&path).unwrap_or_default()) } else { Ok(()) }
        })
        .await;
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("c4n4ry"), "{text}");
}
