//! The short spelling on the definition: a fixed cluster, one that the instance names, and a mixture.

use serde_json::json;

use crate::fixture::{DEPLOYMENT, SERVICE, Stage, complete, example, object};

#[tokio::test(flavor = "multi_thread")]
async fn deploys_to_the_cluster_of_a_static_reference() {
    let stage = Stage::new().await;
    stage.credentials(("kro-system", "us-west-edge-kubeconfig"), "west", None).await;
    let definition = complete(example("edge-application.yaml"));
    stage.define(&definition).await;
    let instance = stage.instantiate(&definition, "shop", json!({"image": "shop:1"})).await;
    let status = instance.until_ready().await["status"].clone();
    assert_eq!(status["clusters"][0]["name"], "kro-system/us-west-edge-kubeconfig");
    assert_eq!(status["clusters"][0]["ready"], 2);
    let deployment = object(&stage.west, DEPLOYMENT, "default", "shop").await.unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert!(object(&stage.west, SERVICE, "default", "shop").await.is_some());
    for elsewhere in [&stage.hub, &stage.east] {
        assert!(object(elsewhere, DEPLOYMENT, "default", "shop").await.is_none());
    }
    instance.delete().await;
    assert!(object(&stage.west, DEPLOYMENT, "default", "shop").await.is_none());
    assert!(object(&stage.west, SERVICE, "default", "shop").await.is_none());
    stage.undefine(&definition).await;
    stage.forget("kro-system", "us-west-edge-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_name_the_cluster_that_they_deploy_to() {
    let stage = Stage::new().await;
    let secrets = [("us-east-cluster-kubeconfig", "east"), ("eu-west-cluster-kubeconfig", "west")];
    for (secret, cluster) in secrets {
        stage.credentials(("kro-system", secret), cluster, None).await;
    }
    let mut definition = complete(example("multi-region-by-cluster.yaml"));
    definition["spec"]["schema"]["group"] = json!("example.com");
    stage.define(&definition).await;
    let spec = |secret: &str, replicas: i64| json!({"targetCluster": secret, "clusterNamespace": "kro-system", "replicas": replicas, "image": "myapp:v1.2.3"});
    let east = stage.instantiate(&definition, "my-app-us-east", spec(secrets[0].0, 5)).await;
    let west = stage.instantiate(&definition, "my-app-eu-west", spec(secrets[1].0, 3)).await;
    east.until_ready().await;
    west.until_ready().await;
    let there = object(&stage.east, DEPLOYMENT, "default", "my-app-us-east").await.unwrap();
    assert_eq!(there["spec"]["replicas"], 5);
    let there = object(&stage.west, DEPLOYMENT, "default", "my-app-eu-west").await.unwrap();
    assert_eq!(there["spec"]["replicas"], 3);
    assert!(object(&stage.east, DEPLOYMENT, "default", "my-app-eu-west").await.is_none());
    east.delete().await;
    west.delete().await;
    stage.undefine(&definition).await;
    for (secret, _) in secrets {
        stage.forget("kro-system", secret).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mixes_literal_and_computed_fields_in_a_reference() {
    let stage = Stage::new().await;
    stage.credentials(("kro-system", "first-kubeconfig"), "east", None).await;
    stage.credentials(("kro-system", "second-kubeconfig"), "west", Some("admin.conf")).await;
    let definition = complete(example("flexible-app.yaml"));
    stage.define(&definition).await;
    let first = stage
        .instantiate(&definition, "one", json!({"secretName": "first-kubeconfig", "image": "a:1"}))
        .await;
    let spec = json!({"secretName": "second-kubeconfig", "kubeconfigKey": "admin.conf", "image": "a:1"});
    let second = stage.instantiate(&definition, "two", spec).await;
    first.until_ready().await;
    second.until_ready().await;
    assert!(object(&stage.east, DEPLOYMENT, "default", "one").await.is_some());
    assert!(object(&stage.west, DEPLOYMENT, "default", "two").await.is_some());
    first.delete().await;
    second.delete().await;
    stage.undefine(&definition).await;
    stage.forget("kro-system", "first-kubeconfig").await;
    stage.forget("kro-system", "second-kubeconfig").await;
}
