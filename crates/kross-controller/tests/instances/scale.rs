//! Many instances at once: how many requests they take, and that there are none afterwards.

use futures::future::join_all;
use kross_testing::{Requests, Verb};
use serde_json::json;

use crate::world::{World, config_map};

const INSTANCES: usize = 100;
const OBJECTS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn creates_a_hundred_chains_with_few_requests_and_then_sends_none() {
    let resources = json!([
        config_map("a", json!({"x": "${schema.spec.text}"})),
        config_map("b", json!({"x": "${a.data.x}b"})),
        config_map("c", json!({"x": "${b.data.x}c"})),
        config_map("d", json!({"x": "${c.data.x}d"})),
        config_map("e", json!({"x": "${d.data.x}e"})),
    ]);
    let world = World::new("Crowd", json!({"spec": {"text": "string"}}), resources).await;
    let names: Vec<String> = (0..INSTANCES).map(|number| format!("i{number}")).collect();
    join_all(names.iter().map(|name| world.create(name, json!({"text": name})))).await;
    join_all(names.iter().map(|name| world.until_state(name, "ACTIVE"))).await;
    let sent = world.sent_requests();
    let limit = INSTANCES * (OBJECTS + 4);
    assert!(sent.len() <= limit, "{} requests, at most {limit} expected", sent.len());

    // Creating another instance causes no request for the hundred.
    let before = world.sent_requests().len();
    world.create("last", json!({"text": "last"})).await;
    world.until_state("last", "ACTIVE").await;
    let others: Vec<String> =
        world.sent_requests().into_iter().skip(before).filter(|sent| !sent.contains("/last")).collect();
    assert_eq!(others, [""; 0]);
    // All reads were answered by the cache.
    let reads = world.proxy.requests(&Requests::any().namespace(&world.namespace));
    let reads = reads.iter().filter(|record| matches!(record.request.verb, Verb::Get | Verb::List)).count();
    assert_eq!(reads, 0);
}
