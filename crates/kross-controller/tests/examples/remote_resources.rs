//! Examples that read from, or deploy to, other clusters.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::deployed_example::{Example, ensure_namespace, image, roll_out};
use crate::world::{cluster_entry, edit};

#[tokio::test(flavor = "multi_thread")]
async fn shared_configuration_is_read_from_a_central_cluster() {
    let example = Example::read("shared-configuration.yaml", &[]).await;
    let central = &example.region("us").cluster.client;
    ensure_namespace(central, "shared-config").await;
    let shared: Api<ConfigMap> = Api::namespaced(central.clone(), "shared-config");
    let defaults = objects::config_map("platform-defaults", &[("image", "base:1")]);
    shared.create(&PostParams::default(), &defaults).await.unwrap();
    example.credentials("platform", "central-kubeconfig", example.region("us").cluster.plane.admin()).await;
    example.apply().await;
    let applications = example.instances_of("Application");
    let deployments: Api<Deployment> = example.local();
    applications.create("shop", json!({"name": "web", "replicas": 2})).await;
    applications.until_state("shop", "ACTIVE").await;
    let web = deployments.get("web").await.unwrap();
    assert_eq!((image(&web), web.spec.as_ref().unwrap().replicas), (Some("base:1"), Some(2)));
    assert!(example.remote::<Deployment>("us").get_opt("web").await.unwrap().is_none());
    edit(&shared, "platform-defaults", json!({"image": "base:2"})).await;
    wait::woken(wait::until_object(&deployments, "web", |web| image(web) == Some("base:2"))).await;
    applications.delete("shop").await;
    assert!(deployments.get_opt("web").await.unwrap().is_none());
    assert!(shared.get_opt("platform-defaults").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn multi_region_has_one_deployment_in_each_region() {
    let example = Example::read("multi-region.yaml", &[]).await;
    for region in ["eu", "us"] {
        example.credentials("platform", &format!("{region}-kubeconfig"), &example.kubeconfig(region)).await;
    }
    example.apply().await;
    let instances = example.instances_of("MultiRegion");
    instances.create("web", json!({"regions": ["eu", "us"], "image": "web:1"})).await;
    let ready = instances.until_state("web", "ACTIVE").await;
    assert_eq!(ready["status"]["available"], 0, "{ready:#}");
    for region in ["eu", "us"] {
        assert_eq!(cluster_entry(&ready, &format!("{region}-kubeconfig"))["ready"], 1, "{ready:#}");
        let deployments: Api<Deployment> = example.remote(region);
        let deployment = deployments.get("web").await.unwrap();
        assert_eq!(image(&deployment), Some("web:1"));
        assert_eq!(deployment.metadata.labels.unwrap()["region"], region);
        roll_out(&deployments, "web").await;
    }
    assert!(example.local::<Deployment>().get_opt("web").await.unwrap().is_none());
    wait::woken(instances.until("web", |instance| instance["status"]["available"] == 4)).await;
    // A region that leaves the list loses its Deployment; the other region keeps it.
    instances.patch("web", json!({"spec": {"regions": ["us"]}})).await;
    wait::woken(wait::until_deleted(&example.remote::<Deployment>("eu"), "web")).await;
    instances.until("web", |instance| instance["status"]["available"] == 2).await;
    assert!(example.remote::<Deployment>("us").get_opt("web").await.unwrap().is_some());
    instances.delete("web").await;
    assert!(example.remote::<Deployment>("us").get_opt("web").await.unwrap().is_none());
}
