//! `kross get`, `kross events` and `kross trace`.

use kross_testing::{Fault, wait};
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::world::{World, columns, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn lists_the_instances_of_every_definition_with_what_is_the_matter() {
    let world = World::new().await;
    world.ready("Listed", "b", json!([config_map("a", true, "x")])).await;
    let mut missing = config_map("a", false, "x");
    missing["template"]["metadata"]["namespace"] = json!("nowhere-to-list");
    world.define("Broken", json!([missing])).await;
    world.create("Broken", "a").await;
    world.until_state("Broken", "a", "ERROR").await;
    let label = json!({"metadata": {"labels": {"of": "lists"}}});
    world.patch("Listed", "b", label).await;

    let all = world.kross(&["get", "instances", "-o", "wide"]);
    assert_eq!((all.code, all.notes.as_str()), (0, ""));
    insta::assert_snapshot!("instances", columns(&all.data));
    let failing = world.kross(&["get", "instances", "--failing", "-o", "name"]);
    assert_eq!((failing.code, failing.data.as_str()), (1, "broken.kro.run/a\n"));
    let labelled = world.kross(&["get", "instances", "-l", "of=lists", "-o", "name"]);
    assert_eq!((labelled.code, labelled.data.as_str()), (0, "listed.kro.run/b\n"));
    let everywhere = world.kross(&["get", "all", "-A"]);
    assert!(everywhere.data.starts_with("NAMESPACE "), "{}", everywhere.data);
    let list: Json = serde_json::from_str(&world.kross(&["get", "listed/b", "-o", "json"]).data).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "b", "{list:#}");
    assert!(world.kross(&["get", "listed", "-o", "yaml"]).data.contains("name: b"));
    let nothing = world.kross(&["get", "listed", "c"]);
    assert_eq!((nothing.code, nothing.data.as_str()), (2, ""));
    assert!(nothing.notes.contains("error: `c` does not exist in namespace `team`"), "{}", nothing.notes);
    let other = world.kross(&["get", "configmaps"]);
    assert_eq!(other.code, 2);
    assert!(other.notes.contains("use `kubectl get configmaps`"), "{}", other.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_definitions_and_why_one_is_not_accepted() {
    let world = World::new().await;
    world.define("Accepted", json!([config_map("a", false, "x")])).await;
    world.submit("Refused", json!([config_map("a", false, "${nothing.here}")])).await;
    let definitions = world.api("kro.run/v1alpha1", "ResourceGraphDefinition", None);
    wait::until_object(&definitions, "refused", |object| object.data["status"]["state"] == "Inactive").await;
    let listed = world.kross(&["get", "rgd", "accepted", "refused", "-o", "wide"]);
    insta::assert_snapshot!("definitions", columns(&listed.data));
    let failing = world.kross(&["get", "definitions", "refused", "--failing"]);
    assert_eq!(failing.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_clusters_and_who_uses_them() {
    let world = World::new().await;
    world.ready("Spread", "x", json!([config_map("a", true, "x")])).await;
    let listed = world.kross(&["get", "clusters"]);
    insta::assert_snapshot!("clusters", columns(&listed.data));
    world.proxy.set(Fault::Refuse);
    world.until("Spread", "x", |instance| instance["status"]["clusters"][0]["connected"] == false).await;
    let lost = world.kross(&["get", "clusters", "--failing", "-o", "wide"]);
    assert_eq!(lost.code, 1);
    let table = columns(&lost.data);
    let line = table.lines().nth(1).unwrap();
    assert!(line.starts_with("team/eu-kubeconfig  False  Watch  1  1"), "{line}");
    world.proxy.set(Fault::Pass);
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_an_object_in_any_cluster_to_its_revision() {
    let world = World::new().await;
    world.ready("Traced", "x", json!([config_map("a", true, "x"), config_map("b", false, "x")])).await;
    let remote = world.kross(&["trace", "configmap/x-a"]);
    assert_eq!((remote.code, remote.notes.as_str()), (0, ""));
    insta::assert_snapshot!("trace", remote.data);
    let secret = format!("{}/eu-kubeconfig", world.namespace);
    let named = world.kross(&["trace", "cm", "x-a", "--in", &secret]);
    assert_eq!(named.data, remote.data, "{}", named.notes);
    let local = world.kross(&["trace", "cm/x-b"]);
    assert!(
        local.data.starts_with("ConfigMap team/x-b, which is resource `b` of\n└─ Traced team/x  ACTIVE"),
        "{}",
        local.data
    );
    let foreign = world.kross(&["trace", "cm/none"]);
    assert_eq!((foreign.code, foreign.data.as_str()), (2, ""));
    assert!(foreign.notes.contains("no instance has ConfigMap `none`"), "{}", foreign.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_the_events_of_all_clusters() {
    let world = World::new().await;
    world.ready("Eventful", "x", json!([config_map("a", true, "x")])).await;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "x-a.1", "namespace": world.namespace}, "type": "Warning", "reason": "Odd", "action": "Look",
        "reportingController": "test", "reportingInstance": "test", "note": "something odd",
        "eventTime": "2999-01-01T00:00:00.000000Z",
        "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": world.namespace, "name": "x-a"}});
    let events = world.remote("events.k8s.io/v1", "Event");
    events.patch("x-a.1", &PatchParams::apply("test"), &Patch::Apply(&event)).await.unwrap();
    wait::until("the Event of the instance", || async {
        let answer = world.kross(&["events", "eventful/x"]);
        let found = answer.data.contains("Eventful team/x") && answer.code == 0;
        if found { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
    let answer = world.kross(&["events", "eventful/x"]);
    let last = answer.data.lines().last().unwrap();
    assert!(last.contains("Odd") && last.contains("team/eu-kubeconfig"), "{}", answer.data);
    assert!(last.contains("ConfigMap team/x-a") && last.ends_with("something odd"), "{}", answer.data);
    let warnings = world.kross(&["events", "eventful", "x", "--warnings", "-o", "json"]);
    let rows: Json = serde_json::from_str(&warnings.data).unwrap();
    assert!(rows.as_array().unwrap().iter().all(|row| row["type"] == "Warning"), "{rows:#}");
}
