//! `target` on the definition, on a resource and on an external reference.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kross_testing::{Requests, Verb, objects, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::deployed_example::{Example, ensure_namespace, image};
use crate::world::{cluster_entry, edit, value};

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_deployed_to_its_target_and_registered_in_the_platform_cluster() {
    let example = Example::read("target.yaml", &[("5m", "10s"), ("30s", "1s")]).await;
    let region = example.region("us");
    ensure_namespace(&region.cluster.client, "platform").await;
    let platform: Api<ConfigMap> = Api::namespaced(region.cluster.client.clone(), "platform");
    let defaults = objects::config_map("application-defaults", &[("image", "base:1")]);
    platform.create(&PostParams::default(), &defaults).await.unwrap();
    example.credentials("platform", "platform-kubeconfig", &example.kubeconfig("us")).await;
    example.credentials("kro-system", "branch-kubeconfig", &example.kubeconfig("eu")).await;
    example.apply().await;
    let applications = example.instances_of("TargetedApplication");
    let deployments: Api<Deployment> = example.remote("eu");
    let services: Api<Service> = example.remote("eu");
    applications.create("shop", json!({"cluster": "branch"})).await;
    let ready = applications.until_state("shop", "ACTIVE").await;
    assert_eq!(image(&deployments.get("shop").await.unwrap()), Some("base:1"));
    let address = services.get("shop").await.unwrap().spec.unwrap().cluster_ip.unwrap();
    assert_eq!(ready["status"]["address"], address);
    let registered = |registration: &ConfigMap| {
        value(registration, "address") == Some(&address) && value(registration, "cluster") == Some("branch")
    };
    let registration = platform.get("shop-registration").await.unwrap();
    assert!(registered(&registration), "{registration:#?}");
    for (secret, mode) in [("branch-kubeconfig", "Watch"), ("platform-kubeconfig", "Poll")] {
        assert_eq!(cluster_entry(&ready, secret)["mode"], mode, "{ready:#}");
    }
    for elsewhere in [example.local::<Deployment>(), example.remote("us")] {
        assert!(elsewhere.get_opt("shop").await.unwrap().is_none());
    }

    // The next poll finds both changes.
    edit(&platform, "shop-registration", json!({"address": "10.9.9.9"})).await;
    edit(&platform, "application-defaults", json!({"image": "base:2"})).await;
    wait::until_object(&platform, "shop-registration", registered).await;
    wait::until_object(&deployments, "shop", |it| image(it) == Some("base:2")).await;

    applications.delete("shop").await;
    assert!(deployments.get_opt("shop").await.unwrap().is_none());
    assert!(services.get_opt("shop").await.unwrap().is_none());
    assert!(platform.get_opt("shop-registration").await.unwrap().is_none());
    assert!(platform.get_opt("application-defaults").await.unwrap().is_some());
    assert_eq!(region.proxy.count(&Requests::any().verb(Verb::Watch)), 0);
}
