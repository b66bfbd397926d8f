//! Instances whose expressions are as expensive as possible.

use std::time::Instant;

use serde_json::{Value as Json, json};

use crate::limited;
use crate::world::{World, config_map};

/// Twenty nodes, each of which costs more than its budget.
fn expensive() -> Json {
    let sums =
        "${string(lists.range(schema.spec.size).map(a, lists.range(3000).map(b, a * b).size()).size())}";
    (0..20).map(|index| config_map(&format!("node{index}"), json!({"x": sums}))).collect()
}

async fn worlds() -> (World, World) {
    let schema = json!({"spec": {"size": "integer"}});
    let hostile = limited("Expensive", schema.clone(), expensive()).await;
    let patterns =
        "${string(lists.range(schema.spec.size).filter(n, 'x'.matches('\\\\pL{20}' + string(n))).size())}";
    let resources = json!([config_map("patterns", json!({"x": patterns}))]);
    (hostile, limited("Patterned", schema, resources).await)
}

/// Whether an instance was refused because of its expressions: on a slow machine the time is over before the budget is.
fn is_refused(status: &str) -> bool {
    status.contains("exceeds its cost budget") || status.contains("`--instance-plan-timeout`")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn expensive_instances_are_given_up_and_their_neighbours_notice_nothing() {
    let (hostile, patterned) = worlds().await;
    let healthy = limited("Cheap", json!({"spec": {}}), json!([config_map("a", json!({"x": "1"}))])).await;
    healthy.create("before", json!({})).await;
    healthy.until_state("before", "ACTIVE").await;
    for at in 0..8 {
        hostile.create(&format!("x{at}"), json!({"size": 3_000})).await;
    }
    patterned.create("x", json!({"size": 1_000})).await;
    // Instances are created while all threads could be busy.
    let begin = Instant::now();
    for at in 0..5 {
        healthy.create(&format!("y{at}"), json!({})).await;
        healthy.until_state(&format!("y{at}"), "ACTIVE").await;
    }
    println!("five instances took {:?} beside expensive ones", begin.elapsed());
    let refused = patterned.until_state("x", "ERROR").await;
    let text = refused["status"].to_string();
    assert!(is_refused(&text), "{text}");
    let refused = hostile.until_state("x0", "ERROR").await;
    let text = refused["status"].to_string();
    assert!(is_refused(&text), "{text}");
    hostile.patch("x0", json!({"spec": {"size": 3}})).await;
    hostile.until_state("x0", "ACTIVE").await;
}
