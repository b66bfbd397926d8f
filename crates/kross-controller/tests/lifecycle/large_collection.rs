//! A collection of a thousand items: the size of the status and how often it is written.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use kross_testing::{Requests, Verb, wait};
use serde_json::{Value as Json, json};

use crate::world::{World, config_map, edit};

const ITEMS: usize = 1000;
/// How long creating, updating or deleting all items may take.
const COLLECTION_LIMIT: Duration = Duration::from_secs(180);

async fn until(world: &World, what: &str, condition: impl Fn(&Json) -> bool) -> Json {
    let check = || async {
        let instance = world.instances.get("x").await.map_err(|error| error.to_string())?;
        let instance = serde_json::to_value(instance).unwrap();
        if condition(&instance) { Ok(instance) } else { Err(instance["status"]["conditions"].to_string()) }
    };
    wait::until_within(COLLECTION_LIMIT, what, check).await
}

fn status_size(instance: &Json) -> usize {
    serde_json::to_vec(&instance["status"]).unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_items_make_a_small_status_with_few_writes() {
    let mut parts = config_map("parts", json!({"i": "${string(i)}"}));
    parts["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${string(i)}");
    parts["forEach"] = json!([{"i": "${lists.range(schema.spec.count)}"}]);
    parts["readyWhen"] = json!(["${has(each.data.done)}"]);
    let world = World::new("Crowded", json!({"spec": {"count": "integer"}}), json!([parts])).await;
    let writes =
        || world.proxy.count(&Requests::any().verb(Verb::Update).namespace(&world.namespace).name("x"));
    world.create("x", json!({"count": ITEMS})).await;
    let waiting = until(&world, "all items to be created", |instance| {
        let first = &instance["status"]["managedResources"][0];
        first["message"].as_str().is_some_and(|message| message.starts_with("0 of 1000 items are ready"))
    })
    .await;
    assert!(status_size(&waiting) < 64 << 10, "{} bytes", status_size(&waiting));
    let entries = waiting["status"]["managedResources"].as_array().unwrap();
    assert_eq!(entries.len(), 21, "the summary, and the first items that are not ready");
    assert!(writes() <= 2, "{} writes", writes());

    // The items become ready one after the other.
    let started = Instant::now();
    let config_maps = &world.config_maps;
    let edits = (0..ITEMS).map(|i| async move {
        edit(config_maps, &format!("x-{i}"), json!({"done": "yes"})).await;
    });
    // Boxed one by one: the compiler cannot see through a stream of borrowing futures.
    let edits: Vec<_> = edits.map(Box::pin).collect();
    stream::iter(edits).buffer_unordered(8).collect::<Vec<()>>().await;
    let active =
        until(&world, "all items to be ready", |instance| instance["status"]["state"] == "ACTIVE").await;
    assert!(status_size(&active) < 4 << 10, "{} bytes", status_size(&active));
    assert_eq!(active["status"]["managedResources"][0]["message"], "1000 of 1000 items are ready");
    // A status write that changes only details is delayed by up to a minute.
    let limit = 8 + usize::try_from(started.elapsed().as_secs() / 60).unwrap();
    assert!(writes() <= limit, "{} writes", writes());

    world.delete("x").await;
    let deleting = until(&world, "the deletion", |instance| instance["status"]["state"] == "DELETING").await;
    assert!(status_size(&deleting) < 64 << 10, "{} bytes during deletion", status_size(&deleting));
    wait::until_within(COLLECTION_LIMIT, "the instance to be deleted", || async {
        match world.instances.get_opt("x").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
