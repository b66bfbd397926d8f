use serde_json::{Value as Json, json};

use super::*;

fn definition() -> Definition {
    Definition::new(json!({"spec": {"resources": [
        {"id": "db", "cluster": {"name": "us"}, "template": {"kind": "Service", "metadata": {"name": "db"}}},
        {"id": "web", "cluster": {"name": "eu"}, "template": {"kind": "Deployment", "metadata": {"name": "web"},
            "spec": "${db.spec.clusterIP}"}},
        {"id": "items", "forEach": [{"n": "${[1, 2, 3, 4]}"}], "template": {"kind": "ConfigMap",
            "metadata": {"name": "${n}"}, "data": "${web.metadata.name}"}},
    ]}}))
}

fn shop() -> Json {
    let item = |name: &str| json!({"id": "items", "kind": "ConfigMap", "name": name, "state": "Blocked"});
    json!({"kind": "Shop", "metadata": {"name": "orders", "namespace": "shop"}, "status": {
    "clusters": [
        {"name": "shop/eu", "mode": "Watch", "connected": true, "ready": 0, "total": 1},
        {"name": "shop/us", "mode": "Watch", "connected": false, "since": "2026-01-01T00:00:00Z", "ready": 0, "total": 1},
    ],
    "managedResources": [
        {"id": "db", "cluster": "shop/us", "kind": "Service", "name": "db", "state": "Error", "reason": "Unreachable"},
        {"id": "web", "cluster": "shop/eu", "kind": "Deployment", "name": "web", "state": "Pending"},
        item("1"), item("2"), item("3"), item("4"),
    ]}})
}

fn drawing(query: &Query) -> Drawing {
    let shop = shop();
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    let resources = resources(&definition());
    Shown { view: InstanceView(&shop), resources: &resources, now, query }.drawing()
}

#[test]
fn each_cluster_is_a_lane_and_the_blocked_path_crosses_them() {
    let drawing = drawing(&Query::default());
    let lanes: Vec<&str> = drawing.lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(lanes, ["hub", "shop/eu", "shop/us"]);
    assert_eq!(drawing.lanes[2].note, "not connected for 5m · 0/1 ready");
    let edge = &drawing.edges[0];
    assert_eq!((edge.from, edge.to, edge.label.as_str(), edge.blocked), (0, 1, "db.spec.clusterIP", true));
}

#[test]
fn a_large_collection_is_one_node_until_it_is_opened() {
    let folded = drawing(&Query::default());
    assert_eq!(folded.nodes.last().unwrap().title, "items × 4");
    assert_eq!(drawing(&Query::parse("open=items")).nodes.len(), 6);
}
