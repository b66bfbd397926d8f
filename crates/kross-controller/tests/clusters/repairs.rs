//! Repairs in other clusters back off where another client undoes them.

use std::time::{Duration, Instant};

use kross_testing::{Requests, Verb, wait};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{Region, World, config_map, edit, resource_entry, value};

/// Sets `data.text` of `x-app` to its own value whenever it has another one.
fn rival(region: &Region) -> tokio::task::JoinHandle<()> {
    let api = region.config_maps.clone();
    tokio::spawn(async move {
        let rival = PatchParams { field_manager: Some("rival".to_owned()), ..PatchParams::default() };
        loop {
            if let Ok(Some(object)) = api.get_opt("x-app").await
                && value(&object, "text") != Some("rival")
            {
                let _ = api.patch("x-app", &rival, &Patch::Merge(json!({"data": {"text": "rival"}}))).await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
}

/// When the controller applied `x-app`.
fn applies(region: &Region) -> Vec<Instant> {
    let applies = Requests::any().verb(Verb::Apply).resource("configmaps").name("x-app");
    region.proxy.requests(&applies).iter().map(|record| record.at).collect()
}

async fn until_named(world: &World) {
    world
        .until("x", |instance| {
            let texts = [
                resource_entry(instance, "app")["message"].to_string(),
                condition(instance, "ResourcesReady")["message"].to_string(),
            ];
            texts.iter().all(|text| text.contains("`rival`") && text.contains("`data.text`"))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_in_another_cluster_back_off() {
    let resources = json!([
        config_map("app", Some("eu"), json!({"text": "ours"})),
        config_map("far", Some("us"), json!({"text": "ours"}))
    ]);
    let world = World::new("Besieged", json!({"schema": {"spec": {}}, "resources": resources})).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let begun = Instant::now();
    let rival = rival(eu);
    until_named(&world).await;
    wait::until_true("thirty seconds", || begun.elapsed() > Duration::from_secs(30)).await;
    assert!(applies(eu).len() < 15, "{:?}", applies(eu));
    // Another cluster is not concerned.
    edit(&us.config_maps, "x-far", json!({"text": "edited"})).await;
    wait::woken(wait::until_object(&us.config_maps, "x-far", |object| value(object, "text") == Some("ours")))
        .await;
    // The backoff of a contested object does not delay the deletion of the instance.
    world.delete("x").await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    rival.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_that_undoes_repairs_in_a_polled_cluster_is_named() {
    let mut app = config_map("app", Some("eu"), json!({"text": "ours"}));
    app["cluster"]["pollConfig"] = json!({"interval": "10s", "jitter": "1s"});
    let world = World::new("PolledSiege", json!({"schema": {"spec": {}}, "resources": [app]})).await;
    let eu = world.region("eu");
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let begun = Instant::now();
    let rival = rival(eu);
    until_named(&world).await;
    let most = 3 + usize::try_from(begun.elapsed().as_secs() / 8).unwrap();
    assert!(applies(eu).len() <= most, "{:?}", applies(eu));
    rival.abort();
}
