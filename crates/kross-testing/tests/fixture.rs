//! Tests of one program share control planes and have separate namespaces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kross_testing::{Fixture, objects, wait};
use kube::Api;
use kube::api::PostParams;

/// What a test does; run on a separate runtime, like every test.
async fn use_a_fixture() -> String {
    let fixture = Fixture::with(&["eu"]).await;
    assert_ne!(fixture.hub.plane.url(), fixture.remote("eu").plane.url());
    let maps: Api<ConfigMap> = fixture.remote("eu").api();
    maps.create(&PostParams::default(), &objects::config_map("settings", &[("colour", "blue")]))
        .await
        .unwrap();
    let found = wait::until_object(&maps, "settings", |map| map.data.is_some()).await;
    assert_eq!(found.data.unwrap()["colour"], "blue");
    maps.delete("settings", &Default::default()).await.unwrap();
    wait::until_deleted(&maps, "settings").await;
    fixture.hub.plane.url().to_owned()
}

#[test]
fn fixtures_on_different_runtimes_share_a_control_plane() {
    let run = || tokio::runtime::Runtime::new().unwrap().block_on(use_a_fixture());
    let urls =
        std::thread::scope(|scope| [scope.spawn(run), scope.spawn(run)].map(|test| test.join().unwrap()));
    assert_eq!(urls[0], urls[1]);
}

#[tokio::test]
async fn every_fixture_has_a_separate_namespace() {
    let (first, second) = (Fixture::hub().await, Fixture::hub().await);
    assert_ne!(first.namespace, second.namespace);
    let namespaces: Api<Namespace> = Api::all(first.hub.client.clone());
    namespaces.get(&second.namespace).await.unwrap();
}
