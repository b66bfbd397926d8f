//! Objects and statuses that are too large.

use kross_testing::wait;
use serde_json::json;

use crate::limited;
use crate::world::config_map;

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_too_large_is_not_sent() {
    let resources = json!([
        config_map("large", json!({"text": "${random.seededString(schema.spec.size, 'a')}"})),
        config_map("small", json!({"text": "a"})),
    ]);
    let world = limited("Large", json!({"spec": {"size": "integer"}}), resources).await;
    world.create("x", json!({"size": 200_000})).await;
    let refused = world.until_state("x", "ERROR").await;
    let text = refused["status"].to_string();
    assert!(text.contains("at most 100000 are allowed (`--instance-max-object-size`)"), "{text}");
    wait::until_object(&world.config_maps, "x-small", |_| true).await;
    assert!(
        !world.sent_requests().iter().any(|sent| sent.ends_with("/x-large")),
        "{:#?}",
        world.sent_requests()
    );
    world.create("neighbour", json!({"size": 10})).await;
    world.until_state("neighbour", "ACTIVE").await;
    world.patch("x", json!({"spec": {"size": 1_000}})).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_too_large_is_reported_in_a_status_that_fits() {
    let schema = json!({"spec": {"size": "integer"},
        "status": {"text": "${random.seededString(schema.spec.size, a.metadata.uid)}"}});
    let world = limited("Wordy", schema, json!([config_map("a", json!({}))])).await;
    world.create("x", json!({"size": 10})).await;
    world.until_state("x", "ACTIVE").await;
    // More than etcd accepts of one object.
    world.patch("x", json!({"spec": {"size": 3_000_000}})).await;
    let refused = world.until_state("x", "ERROR").await;
    let text = refused["status"].to_string();
    assert!(text.contains("at most 100000 are allowed (`--instance-max-status-size`)"), "{text}");
    world.patch("x", json!({"spec": {"size": 20}})).await;
    let fits = world.until_state("x", "ACTIVE").await;
    assert_eq!(fits["status"]["text"].as_str().unwrap().len(), 20);
}
