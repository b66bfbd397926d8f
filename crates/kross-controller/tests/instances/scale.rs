//! Many instances at once: all of them arrive, none costs more than it must, and then it is quiet.

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
    let sent = world.sent();
    let most = INSTANCES * (OBJECTS + 4);
    assert!(sent.len() <= most, "{} requests, at most {most} expected", sent.len());

    // Another one is made: the hundred are not touched.
    let before = world.sent().len();
    world.create("last", json!({"text": "last"})).await;
    world.until_state("last", "ACTIVE").await;
    let others: Vec<String> =
        world.sent().into_iter().skip(before).filter(|sent| !sent.contains("/last")).collect();
    assert_eq!(others, [""; 0]);
    // Copies answered what there was to know.
    let reads = world.proxy.requests(&Requests::any().namespace(&world.namespace));
    let reads = reads.iter().filter(|record| matches!(record.request.verb, Verb::Get | Verb::List)).count();
    assert_eq!(reads, 0);
}
