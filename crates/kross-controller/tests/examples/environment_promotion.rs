//! Staging first, then production.

use k8s_openapi::api::apps::v1::Deployment;
use kross_testing::wait;
use kube::Api;
use serde_json::json;

use crate::deployed_example::{Example, image, roll_out};

#[tokio::test(flavor = "multi_thread")]
async fn production_gets_an_image_when_staging_runs_it() {
    let example = Example::read("environment-promotion.yaml", &[]).await;
    for (environment, region) in [("staging", "eu"), ("production", "us")] {
        let secret = format!("{environment}-kubeconfig");
        example.credentials("platform", &secret, &example.kubeconfig(region)).await;
    }
    example.apply().await;
    let instances = example.instances_of("PromotedApplication");
    let staging: Api<Deployment> = example.remote("eu");
    let production: Api<Deployment> = example.remote("us");
    instances.create("shop", json!({"image": "shop:1", "replicas": 2})).await;
    wait::until_object(&staging, "shop", |_| true).await;
    let waiting = instances.until_state("shop", "IN_PROGRESS").await["status"].clone();
    assert_eq!((&waiting["staging"], &waiting["production"]), (&json!("Pending"), &json!("Blocked")));
    assert!(production.get_opt("shop").await.unwrap().is_none());
    roll_out(&staging, "shop").await;
    let deployment = wait::woken(wait::until_object(&production, "shop", |_| true)).await;
    assert_eq!(image(&deployment), Some("shop:1"));
    instances.until("shop", |instance| instance["status"]["production"] == "Pending").await;
    roll_out(&production, "shop").await;
    let ready = wait::woken(instances.until_state("shop", "ACTIVE")).await["status"].clone();
    assert_eq!((&ready["staging"], &ready["production"]), (&json!("Ready"), &json!("Ready")));

    // A new image: the status of staging is still that of the previous generation, so production keeps its image.
    instances.patch("shop", json!({"spec": {"image": "shop:2"}})).await;
    wait::woken(wait::until_object(&staging, "shop", |it| image(it) == Some("shop:2"))).await;
    let waiting = instances.until_state("shop", "IN_PROGRESS").await;
    assert_eq!(waiting["status"]["production"], "Blocked", "{waiting:#}");
    assert_eq!(image(&production.get("shop").await.unwrap()), Some("shop:1"));
    roll_out(&staging, "shop").await;
    wait::woken(wait::until_object(&production, "shop", |it| image(it) == Some("shop:2"))).await;
    roll_out(&production, "shop").await;
    wait::woken(instances.until_state("shop", "ACTIVE")).await;

    instances.delete("shop").await;
    for deployments in [&staging, &production] {
        assert!(deployments.get_opt("shop").await.unwrap().is_none());
    }
}
