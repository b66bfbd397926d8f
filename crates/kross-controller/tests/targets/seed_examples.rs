//! The two examples of the proposal, as written. They have one name, so they are applied one after the other.

use k8s_openapi::api::core::v1::Namespace;
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value as Json, json};

use crate::setup::{condition, create_once_served};
use crate::world::{GKE, World};

const FROM_A_MANAGED_RESOURCE: &str = "
apiVersion: workload.crossplane.io/v1alpha1
kind: KubernetesTarget
metadata:
  namespace: my-app-team
  name: enable-dev-k8s
  labels:
    env: dev
spec:
  clusterRef:
    kind: GKECluster
    apiVersion: compute.gcp.crossplane.io/v1alpha3
    name: dev-k8s-cluster
";

const FROM_A_SECRET: &str = "
apiVersion: workload.crossplane.io/v1alpha1
kind: KubernetesTarget
metadata:
  namespace: my-app-team
  name: enable-dev-k8s
  labels:
    env: dev
spec:
  connectionSecretRef:
    name: my-k8s-connection
";

fn read(text: &str) -> Json {
    serde_saphyr::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_examples_of_the_proposal_publish_a_cluster() {
    let world = World::new().await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.create(&PostParams::default(), &objects::namespace("my-app-team")).await.unwrap();
    let world = World { namespace: "my-app-team".to_owned(), ..world };
    let uid = {
        let managed = json!({"apiVersion": GKE, "kind": "GKECluster", "metadata": {"name": "dev-k8s-cluster"},
            "spec": {"writeConnectionSecretToRef": {"namespace": world.infra, "name": "source"}},
            "status": {"bindingPhase": "Bound"}});
        create_once_served(&world.managed(), managed).await;
        world.managed().get("dev-k8s-cluster").await.unwrap().metadata.uid.unwrap()
    };
    world.create_source("source", &uid).await;

    create_once_served(&world.targets(), read(FROM_A_MANAGED_RESOURCE)).await;
    let target = world.until_ready("enable-dev-k8s").await;
    assert_eq!(target["spec"]["connectionSecretRef"]["name"], "enable-dev-k8s-connection");
    assert_eq!(condition(&target, "ConnectionSecretPropagated")["reason"], "Propagated");
    assert_eq!(target["status"]["cluster"]["uid"], world.remote.uid);
    world.delete_target("enable-dev-k8s").await;
    wait::until_deleted(&world.targets(), "enable-dev-k8s").await;
    assert!(world.copy("my-app-team", "enable-dev-k8s").await.is_none());

    world.create_local_secret("my-k8s-connection").await;
    create_once_served(&world.targets(), read(FROM_A_SECRET)).await;
    let target = world.until_ready("enable-dev-k8s").await;
    assert_eq!(condition(&target, "ConnectionSecretPropagated")["reason"], "LocalSecret");
    assert_eq!(target["status"]["cluster"]["uid"], world.remote.uid);
    world.delete_target("enable-dev-k8s").await;
    wait::until_deleted(&world.targets(), "enable-dev-k8s").await;
    world.secrets("my-app-team").get("my-k8s-connection").await.expect("the user's own Secret is kept");
}
