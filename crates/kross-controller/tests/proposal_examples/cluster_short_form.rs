//! The short form of `cluster` on the definition: a fixed Secret, one that the instance names, and a mixture.

use serde_json::json;

use crate::fixture::{DEPLOYMENT, ProposalFixture, SERVICE, example, get_object, with_required_fields};

#[tokio::test(flavor = "multi_thread")]
async fn deploys_to_the_cluster_of_a_static_reference() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("kro-system", "us-west-edge-kubeconfig"), "west", None).await;
    let definition = with_required_fields(example("edge-application.yaml"));
    fixture.create_definition(&definition).await;
    let instance = fixture.create_instance(&definition, "shop", json!({"image": "shop:1"})).await;
    let status = instance.until_ready().await["status"].clone();
    assert_eq!(status["clusters"][0]["name"], "kro-system/us-west-edge-kubeconfig");
    assert_eq!(status["clusters"][0]["ready"], 2);
    let deployment = get_object(&fixture.west, DEPLOYMENT, "default", "shop").await.unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert!(get_object(&fixture.west, SERVICE, "default", "shop").await.is_some());
    for client in [&fixture.hub, &fixture.east] {
        assert!(get_object(client, DEPLOYMENT, "default", "shop").await.is_none());
    }
    instance.delete().await;
    assert!(get_object(&fixture.west, DEPLOYMENT, "default", "shop").await.is_none());
    assert!(get_object(&fixture.west, SERVICE, "default", "shop").await.is_none());
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("kro-system", "us-west-edge-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_name_the_cluster_that_they_deploy_to() {
    let fixture = ProposalFixture::new().await;
    let secrets = [("us-east-cluster-kubeconfig", "east"), ("eu-west-cluster-kubeconfig", "west")];
    for (secret, cluster) in secrets {
        fixture.create_secret(("kro-system", secret), cluster, None).await;
    }
    let mut definition = with_required_fields(example("multi-region-by-cluster.yaml"));
    definition["spec"]["schema"]["group"] = json!("example.com");
    fixture.create_definition(&definition).await;
    let spec = |secret: &str, replicas: i64| json!({"targetCluster": secret, "clusterNamespace": "kro-system", "replicas": replicas, "image": "myapp:v1.2.3"});
    let east = fixture.create_instance(&definition, "my-app-us-east", spec(secrets[0].0, 5)).await;
    let west = fixture.create_instance(&definition, "my-app-eu-west", spec(secrets[1].0, 3)).await;
    east.until_ready().await;
    west.until_ready().await;
    let deployment = get_object(&fixture.east, DEPLOYMENT, "default", "my-app-us-east").await.unwrap();
    assert_eq!(deployment["spec"]["replicas"], 5);
    let deployment = get_object(&fixture.west, DEPLOYMENT, "default", "my-app-eu-west").await.unwrap();
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert!(get_object(&fixture.east, DEPLOYMENT, "default", "my-app-eu-west").await.is_none());
    east.delete().await;
    west.delete().await;
    fixture.delete_definition(&definition).await;
    for (secret, _) in secrets {
        fixture.delete_secret("kro-system", secret).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mixes_literal_and_computed_fields_in_a_reference() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("kro-system", "first-kubeconfig"), "east", None).await;
    fixture.create_secret(("kro-system", "second-kubeconfig"), "west", Some("admin.conf")).await;
    let definition = with_required_fields(example("flexible-app.yaml"));
    fixture.create_definition(&definition).await;
    let first = fixture
        .create_instance(&definition, "one", json!({"secretName": "first-kubeconfig", "image": "a:1"}))
        .await;
    let spec = json!({"secretName": "second-kubeconfig", "kubeconfigKey": "admin.conf", "image": "a:1"});
    let second = fixture.create_instance(&definition, "two", spec).await;
    first.until_ready().await;
    second.until_ready().await;
    assert!(get_object(&fixture.east, DEPLOYMENT, "default", "one").await.is_some());
    assert!(get_object(&fixture.west, DEPLOYMENT, "default", "two").await.is_some());
    first.delete().await;
    second.delete().await;
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("kro-system", "first-kubeconfig").await;
    fixture.delete_secret("kro-system", "second-kubeconfig").await;
}
