//! What commands ask of the API servers for 500 objects in three clusters and for 2,000 instances. The number of requests decides,
//! since time depends on the machine; how long each command took is printed.

use std::path::Path;
use std::time::Instant;

use futures::StreamExt;
use kross_testing::{FaultProxy, wait};
use serde_json::{Value as Json, json};

use crate::world::{Answer, World, config_map};

const INSTANCES: usize = 2_000;
/// Objects of one instance in each of three clusters.
const OBJECTS: [usize; 3] = [167, 167, 166];

/// Runs a command through the proxy of the hub. Returns the answer and how many requests the hub has got.
fn counted(world: &World, hub: &FaultProxy, kubeconfig: &Path, arguments: &[&str]) -> (Answer, u64) {
    hub.clear_requests();
    let started = Instant::now();
    let answer = world.kross_as(kubeconfig, arguments);
    let (took, requests) = (started.elapsed(), hub.counts().total());
    eprintln!("kross {}: {requests} requests to the hub, {took:.1?}", arguments.join(" "));
    (answer, requests)
}

/// A proxy in front of the hub, and a kubeconfig that leads through it.
fn counting(world: &World) -> (FaultProxy, tempfile::NamedTempFile) {
    let admin = world.fixture.hub.plane.admin();
    let hub = FaultProxy::start(admin).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), hub.kubeconfig(admin).unwrap().to_string()).unwrap();
    (hub, file)
}

/// Some ConfigMaps in a cluster.
fn many(id: &str, cluster: Option<&str>, count: usize) -> Json {
    let mut resource = json!({"id": id, "forEach": [{"number": format!("${{lists.range({count})}}")}], "template":
        {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.metadata.name}}-{id}-${{string(number)}}")}}});
    if let Some(cluster) = cluster {
        resource["cluster"] = json!({"name": cluster});
    }
    resource
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_and_why_need_few_requests_for_five_hundred_objects_in_three_clusters() {
    let world = World::with(&["eu", "us"]).await;
    world.secret("us-kubeconfig", world.fixture.remote("us").plane.admin()).await;
    let [here, eu, us] = OBJECTS;
    let mut homeless = config_map("homeless", true, "x");
    homeless["template"]["metadata"]["namespace"] = json!("nowhere-at-scale");
    let resources = json!([
        many("here", None, here),
        many("eu", Some("eu-kubeconfig"), eu),
        many("us", Some("us-kubeconfig"), us),
        homeless,
    ]);
    world.define("Wide", resources).await;
    world.create("Wide", "x").await;
    world
        .until("Wide", "x", |instance| {
            let entries = instance["status"]["managedResources"].as_array().map(Vec::len).unwrap_or_default();
            let clusters = instance["status"]["clusters"].as_array().cloned().unwrap_or_default();
            let ready: i64 = clusters.iter().filter_map(|cluster| cluster["ready"].as_i64()).sum();
            entries > 0 && ready >= i64::try_from(eu + us).unwrap() && instance["status"]["state"] == "ERROR"
        })
        .await;

    let (hub, file) = counting(&world);
    let (tree, requests) = counted(&world, &hub, file.path(), &["tree", "wide/x"]);
    assert_eq!(tree.code, 1, "{}", tree.notes);
    assert!(tree.data.contains("nowhere-at-scale"), "{}", tree.data);
    assert!(requests <= 6, "{requests} requests: {:#?}", hub.counts());
    let (why, requests) = counted(&world, &hub, file.path(), &["why", "wide/x"]);
    assert_eq!(why.code, 1, "{}", why.notes);
    assert!(why.data.contains("create namespace nowhere-at-scale"), "{}", why.data);
    assert!(requests <= 10, "{requests} requests: {:#?}", hub.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn get_lists_two_thousand_instances_by_pages() {
    // Without a controller, so that the statuses are those of this test.
    let world = World::without_controller("idle").await;
    world.submit("Crowd", json!([config_map("a", false, "x")])).await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    world
        .apply(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "crowds.kro.run"}, "spec": {"group": "kro.run", "scope": "Namespaced",
                "names": {"kind": "Crowd", "plural": "crowds"}, "versions": [{"name": "v1alpha1", "served": true,
                    "storage": true, "schema": {"openAPIV3Schema": schema}}]}}))
        .await;
    let crowds = world.instances("Crowd");
    let instance = |number: usize| -> kube::api::DynamicObject {
        let name = format!("i{number}");
        serde_json::from_value(json!({"apiVersion": "kro.run/v1alpha1", "kind": "Crowd",
            "metadata": {"name": name, "namespace": world.namespace}, "spec": {"text": "one"},
            "status": {"state": if number == 7 { "ERROR" } else { "ACTIVE" },
                "conditions": [{"type": "Ready", "status": if number == 7 { "False" } else { "True" },
                    "reason": "Ready", "message": "resource error: `a`: it is the seventh"}],
                "managedResources": [{"id": "a", "apiVersion": "v1", "kind": "ConfigMap", "name": name,
                    "state": "Ready"}]}}))
        .unwrap()
    };
    wait::create_once_served(&crowds, &instance(0)).await;
    futures::stream::iter(1..INSTANCES)
        .for_each_concurrent(32, |number| {
            let (crowds, object) = (crowds.clone(), instance(number));
            async move { drop(crowds.create(&Default::default(), &object).await.unwrap()) }
        })
        .await;

    let (hub, file) = counting(&world);
    let (all, requests) = counted(&world, &hub, file.path(), &["get", "instances", "-A"]);
    // Another test has instances of its own there.
    let listed = all.data.lines().filter(|line| line.split_whitespace().any(|word| word == "Crowd")).count();
    assert_eq!(
        (all.code, listed),
        (0, INSTANCES),
        "{}\n{}",
        all.notes,
        all.data.lines().take(5).collect::<String>()
    );
    assert!(requests <= 12, "{requests} requests: {:#?}", hub.counts());
    let (failing, _) = counted(&world, &hub, file.path(), &["get", "crowd", "--failing", "-o", "name"]);
    assert_eq!((failing.code, failing.data.as_str()), (1, "crowd.kro.run/i7\n"));
    // Somebody who has read enough is no error.
    let head = std::process::Command::new("bash")
        .args(["-c", "set -o pipefail; \"$0\" get crowd -n \"$1\" --kubeconfig \"$2\" | head -1"])
        .arg(env!("CARGO_BIN_EXE_kross"))
        .arg(&world.namespace)
        .arg(file.path())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!((head.status.code(), text(&head.stderr).as_str()), (Some(0), ""), "{}", text(&head.stdout));
    assert!(text(&head.stdout).starts_with("KIND "), "{}", text(&head.stdout));
    let (check, requests) = counted(&world, &hub, file.path(), &["check", "-o", "short"]);
    assert!(check.data.contains("crowd/i7 -n team is ERROR: "), "{}", check.data);
    assert!(requests <= 30, "{requests} requests: {:#?}", hub.counts());
}
