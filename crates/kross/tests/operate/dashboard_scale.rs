//! The dashboard with a thousand instances in a hundred clusters: every list is paged and filtered by the server. No controller
//! runs, so that the objects stay as they are.

use std::time::Instant;

use futures::stream::{self, StreamExt};
use kross_testing::wait;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::dashboard::Dashboard;
use crate::world::World;

const INSTANCES: usize = 1_000;
const CLUSTERS: usize = 100;
/// Objects of the largest instance, in three clusters.
const OBJECTS: usize = 500;
/// Requests to the API server at the same time.
const PARALLEL: usize = 16;
/// Rows of one page.
const PAGE: usize = 50;

fn crd() -> Json {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "wides.kro.run"},
        "spec": {"group": "kro.run", "scope": "Namespaced", "names": {"kind": "Wide", "plural": "wides", "singular": "wide"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn cluster(number: usize) -> String {
    format!("fleet/region-{number:03}-kubeconfig")
}

/// An instance with so many objects in clusters that follow each other. Every tenth is not ready.
fn instance(world: &World, number: usize, objects: usize) -> Json {
    let is_ready = !number.is_multiple_of(10);
    let here = |at: usize| cluster((number + at % 3) % CLUSTERS);
    let clusters: Vec<Json> = (0..3)
        .map(|at| json!({"name": here(at), "secret": here(at), "mode": "Watch", "connected": (number + at) % CLUSTERS != 7,
            "since": "2026-01-01T00:00:00Z", "ready": 1, "total": 1}))
        .collect();
    let resources: Vec<Json> = (0..objects)
        .map(|at| json!({"id": if at < 3 { "source" } else { "reader" }, "apiVersion": "v1", "kind": "ConfigMap", "namespace": "fleet",
            "name": format!("wide-{number:04}-{at}"), "cluster": here(at), "state": if is_ready { "Ready" } else { "Blocked" }}))
        .collect();
    let status = if is_ready { "True" } else { "False" };
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "Wide",
        "metadata": {"name": format!("wide-{number:04}"), "namespace": world.namespace},
        "status": {"state": if is_ready { "ACTIVE" } else { "IN_PROGRESS" }, "clusters": clusters, "managedResources": resources,
            "conditions": [{"type": "Ready", "status": status, "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

async fn fill(world: &World) {
    world.apply(&crd()).await;
    let resources = json!([{"id": "source", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}},
        {"id": "reader", "forEach": [{"n": "${[1]}"}], "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "b-${n}"}, "data": {"a": "${source.metadata.name}"}}}]);
    world.submit("Wide", resources).await;
    let instances = world.instances("Wide");
    let first = serde_json::from_value(instance(world, 0, OBJECTS)).unwrap();
    wait::until("the first instance to be created", || async {
        instances.create(&PostParams::default(), &first).await.map_err(|error| error.to_string())
    })
    .await;
    stream::iter(1..INSTANCES)
        .map(async |number| {
            let object = serde_json::from_value(instance(world, number, 6)).unwrap();
            instances.create(&PostParams::default(), &object).await.unwrap();
        })
        .buffer_unordered(PARALLEL)
        .collect::<Vec<()>>()
        .await;
    let connections = world.api("kro.run/v1alpha1", "ClusterConnection", None);
    stream::iter(0..CLUSTERS)
        .map(async |number| {
            let name = format!("fleet.region-{number:03}-kubeconfig");
            let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ClusterConnection", "metadata": {"name": name},
                "spec": {"secretRef": {"namespace": "fleet", "name": format!("region-{number:03}-kubeconfig"), "key": "kubeconfig"}}});
            let object = serde_json::from_value(object).unwrap();
            connections.create(&PostParams::default(), &object).await.unwrap();
            let state = if number == 7 { "NotConnected" } else { "Connected" };
            let status = Patch::Merge(json!({"status": {"state": state, "since": "2026-01-01T00:00:00Z", "version": "1.36.3",
                "instances": 30, "objects": 60, "roundTripTime": "18ms"}}));
            connections.patch_status(&name, &PatchParams::default(), &status).await.unwrap();
        })
        .buffer_unordered(PARALLEL)
        .collect::<Vec<()>>()
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_a_thousand_instances_and_a_hundred_clusters_are_paged_and_filtered_by_the_server() {
    let world = World::without_controller("idle").await;
    fill(&world).await;
    let dashboard = Dashboard::start(&world.admin_path());
    let namespace = &world.namespace;
    let get = |path: &str| {
        // The first request fills the caches.
        dashboard.get(path);
        let asked = Instant::now();
        let page = dashboard.get(path);
        eprintln!("{path}: {:.0?}, {} kB", asked.elapsed(), page.len() / 1_000);
        assert!(page.starts_with("HTTP/1.1 200"), "{path}: {page}");
        page
    };
    let rows = |page: &str| page.matches("<tr").count() - 1;

    let fleet = get("/?q=region");
    assert_eq!(rows(&fleet), PAGE);
    let failing = fleet.find("region-007-kubeconfig").unwrap();
    assert!(
        failing < fleet.find("region-000-kubeconfig").unwrap(),
        "the cluster that fails is not the first"
    );
    assert_eq!(rows(&get("/?failing=1&q=region")), 1);
    assert_eq!(rows(&get("/?q=region-09")), 10);

    let all = format!("/instances?namespace={namespace}");
    let first = get(&all);
    assert_eq!(rows(&first), PAGE);
    assert!(
        first.contains("1000 of 1000")
            && first.contains("IN_PROGRESS")
            && !first.contains(">ACTIVE</span></td>")
    );
    assert_eq!(rows(&get(&format!("{all}&page=19"))), PAGE);
    assert_eq!(rows(&get(&format!("{all}&q=wide-012"))), 10);
    assert!(get(&format!("{all}&failing=1")).contains("100 of 1000"));
    assert!(get(&format!("{all}&cluster=fleet%2Fregion-007-kubeconfig")).contains("30 of 1000"));
    get("/clusters/fleet/region-007-kubeconfig");
    get("/definitions");
    assert!(get("/search?q=wide-0123").contains("wide-0123"));

    let largest = format!("/instances/wides.kro.run/{namespace}/wide-0000");
    let folded = get(&largest);
    assert!(
        folded.contains("reader × 166") && folded.matches("class=\"node ").count() < 20,
        "{}",
        folded.len()
    );
    let opened = get(&format!("{largest}?open=reader"));
    assert!(opened.matches("class=\"node ").count() >= OBJECTS);
}
