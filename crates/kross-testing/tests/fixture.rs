//! Tests of one program share control planes and have namespaces of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kross_testing::{Fixture, objects, wait};
use kube::Api;
use kube::api::PostParams;

/// Each of these has a runtime of its own, as every test has.
async fn one_test() -> String {
    let fixture = Fixture::with(&["eu"]).await;
    assert_ne!(fixture.hub.plane.url(), fixture.remote("eu").plane.url());
    let maps: Api<ConfigMap> = fixture.remote("eu").api();
    maps.create(&PostParams::default(), &objects::config_map("settings", &[("colour", "blue")]))
        .await
        .unwrap();
    let found = wait::until_object(&maps, "settings", |map| map.data.is_some()).await;
    assert_eq!(found.data.unwrap()["colour"], "blue");
    maps.delete("settings", &Default::default()).await.unwrap();
    wait::until_gone(&maps, "settings").await;
    fixture.hub.plane.url().to_owned()
}

#[test]
fn tests_on_different_runtimes_share_a_hub() {
    let run = || tokio::runtime::Runtime::new().unwrap().block_on(one_test());
    let urls =
        std::thread::scope(|scope| [scope.spawn(run), scope.spawn(run)].map(|test| test.join().unwrap()));
    assert_eq!(urls[0], urls[1]);
}

#[tokio::test]
async fn every_fixture_has_a_namespace_of_its_own() {
    let (first, second) = (Fixture::hub().await, Fixture::hub().await);
    assert_ne!(first.namespace, second.namespace);
    let namespaces: Api<Namespace> = Api::all(first.hub.client.clone());
    namespaces.get(&second.namespace).await.unwrap();
}
