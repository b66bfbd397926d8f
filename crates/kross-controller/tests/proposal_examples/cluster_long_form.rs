//! The long form of `cluster` on external references, resources and the definition, watched and polled.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

use crate::fixture::{
    CONFIG_MAP, DEPLOYMENT, ProposalFixture, example, get_object, install_crd, with_required_fields,
};
use crate::setup::condition;

#[tokio::test(flavor = "multi_thread")]
async fn reads_shared_configuration_from_a_central_cluster() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("default", "central-cluster-kubeconfig"), "east", None).await;
    let namespaces: Api<Namespace> = Api::all(fixture.east.clone());
    namespaces.create(&PostParams::default(), &objects::namespace("shared-config")).await.unwrap();
    let shared: Api<ConfigMap> = Api::namespaced(fixture.east.clone(), "shared-config");
    let config =
        objects::config_map("platform-defaults", &[("defaultImage", "base:1"), ("logLevel", "info")]);
    shared.create(&PostParams::default(), &config).await.unwrap();
    let definition = with_required_fields(example("shared-configuration.yaml"));
    fixture.create_definition(&definition).await;
    let instance = fixture.create_instance(&definition, "app", json!({"name": "app"})).await;
    instance.until_ready().await;
    let deployment = get_object(&fixture.hub, DEPLOYMENT, "default", "app").await.unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "base:1");
    // A change in the central cluster updates the local object.
    let patch = Patch::Merge(json!({"data": {"defaultImage": "base:2"}}));
    shared.patch("platform-defaults", &PatchParams::default(), &patch).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(fixture.hub.clone(), "default");
    wait::woken(wait::until_object(&deployments, "app", |deployment| {
        let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some("base:2"))
    }))
    .await;
    instance.delete().await;
    assert!(get_object(&fixture.east, CONFIG_MAP, "shared-config", "platform-defaults").await.is_some());
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("default", "central-cluster-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_of_a_collection_may_name_its_own_cluster() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("default", "us-kubeconfig"), "east", None).await;
    fixture.create_secret(("default", "eu-kubeconfig"), "west", None).await;
    let definition = with_required_fields(example("multi-region-by-item.yaml"));
    fixture.create_definition(&definition).await;
    let instance =
        fixture.create_instance(&definition, "web", json!({"regions": ["us", "eu"], "image": "web:1"})).await;
    let status = instance.until_ready().await["status"].clone();
    let clusters = status["clusters"].as_array().unwrap();
    let names: Vec<&Json> = clusters.iter().map(|cluster| &cluster["name"]).collect();
    assert_eq!(names, ["us-cluster (default/us-kubeconfig)", "eu-cluster (default/eu-kubeconfig)"]);
    assert!(clusters.iter().all(|cluster| cluster["mode"] == "Poll" && cluster["ready"] == 1), "{status:#}");
    for cluster in [&fixture.east, &fixture.west] {
        assert!(get_object(cluster, DEPLOYMENT, "default", "web").await.is_some());
    }
    // Without a region, only its Deployment is pruned.
    instance.patch(json!({"spec": {"regions": ["us"]}})).await;
    let deployments: Api<Deployment> = Api::namespaced(fixture.west.clone(), "default");
    wait::until_deleted(&deployments, "web").await;
    assert!(get_object(&fixture.east, DEPLOYMENT, "default", "web").await.is_some());
    instance.delete().await;
    assert!(get_object(&fixture.east, DEPLOYMENT, "default", "web").await.is_none());
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("default", "us-kubeconfig").await;
    fixture.delete_secret("default", "eu-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_a_namespace_in_an_edge_cluster_before_its_objects() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("default", "edge-clusters-kubeconfig"), "west", None).await;
    let definition = with_required_fields(example("edge-workload.yaml"));
    fixture.create_definition(&definition).await;
    let config = json!({"targetCluster": "edge-7", "workloadConfig": {"replicas": 2, "image": "edge:1"}});
    let instance = fixture.create_instance(&definition, "probe", config).await;
    let status = instance.until_ready().await["status"].clone();
    assert_eq!(status["clusters"][0]["name"], "edge-7 (default/edge-clusters-kubeconfig)");
    assert_eq!(status["clusters"][0]["mode"], "Poll");
    let deployment = get_object(&fixture.west, DEPLOYMENT, "edge-workloads", "probe").await.unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    // Without a controller manager the namespace stays `Terminating`; its objects are deleted before it.
    let namespaces: Api<Namespace> = Api::all(fixture.west.clone());
    instance.api.delete(&instance.name, &kube::api::DeleteParams::default()).await.unwrap();
    wait::until_object(&namespaces, "edge-workloads", |namespace| {
        namespace.metadata.deletion_timestamp.is_some()
    })
    .await;
    assert!(get_object(&fixture.west, DEPLOYMENT, "edge-workloads", "probe").await.is_none());
    finalize(&fixture.west, "edge-workloads").await;
    wait::until_deleted(&instance.api, &instance.name).await;
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("default", "edge-clusters-kubeconfig").await;
}

/// Finalizes a namespace, as the controller manager would.
async fn finalize(client: &kube::Client, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}});
    let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&body).unwrap())
        .unwrap();
    client.request_text(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_resource_waits_for_the_status_of_a_remote_one() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("default", "data-cluster-kubeconfig"), "east", None).await;
    install_crd(&fixture.east, "db.example.com", "Database", "databases").await;
    let definition = with_required_fields(example("cross-cluster-app.yaml"));
    fixture.create_definition(&definition).await;
    let instance = fixture.create_instance(&definition, "shop", json!({"name": "shop"})).await;
    let kind = GroupVersionKind::gvk("db.example.com", "v1", "Database");
    let resource = ApiResource::from_gvk_with_plural(&kind, "databases");
    let databases: Api<DynamicObject> = Api::namespaced_with(fixture.east.clone(), "default", &resource);
    wait::until_object(&databases, "shop-db", |_| true).await;
    instance.until(|instance| instance["status"]["state"] == "IN_PROGRESS").await;
    assert!(get_object(&fixture.hub, DEPLOYMENT, "default", "shop").await.is_none());
    let endpoint = Patch::Merge(json!({"status": {"endpoint": "db.east:5432"}}));
    databases.patch_status("shop-db", &PatchParams::default(), &endpoint).await.unwrap();
    wait::woken(instance.until_ready()).await;
    let deployment = get_object(&fixture.hub, DEPLOYMENT, "default", "shop").await.unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "db.east:5432");
    instance.delete().await;
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("default", "data-cluster-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_of_a_resource_takes_precedence_over_that_of_the_definition() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("default", "default-remote-kubeconfig"), "east", None).await;
    fixture.create_secret(("default", "specific-remote-kubeconfig"), "west", None).await;
    let cluster = |name: &str| {
        let secret = format!("{name}-kubeconfig");
        json!({"name": name, "kubeconfigSecret": {"name": secret, "namespace": "default"}})
    };
    let map = |id: &str| {
        let name = format!("${{schema.metadata.name}}-{id}");
        json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}})
    };
    let mut second = map("resource2");
    second["cluster"] = cluster("specific-remote");
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "precedence"},
        "spec": {"cluster": cluster("default-remote"), "schema": {"apiVersion": "v1alpha1", "kind": "Precedence", "spec": {}},
            "resources": [map("resource1"), second, map("resource3")]}});
    fixture.create_definition(&definition).await;
    let instance = fixture.create_instance(&definition, "one", json!({})).await;
    instance.until_ready().await;
    for (client, id) in
        [(&fixture.east, "resource1"), (&fixture.west, "resource2"), (&fixture.east, "resource3")]
    {
        assert!(get_object(client, CONFIG_MAP, "default", &format!("one-{id}")).await.is_some(), "{id}");
    }
    instance.delete().await;
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("default", "default-remote-kubeconfig").await;
    fixture.delete_secret("default", "specific-remote-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_dependencies_between_resources_that_inherit_the_cluster_of_the_definition() {
    let fixture = ProposalFixture::new().await;
    let map = |id: &str, data: Json| {
        let name = format!("${{schema.metadata.name}}-{id}");
        let template =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        json!({"id": id, "template": template})
    };
    let secret = json!({"name": "dependent-kubeconfig", "namespace": "default"});
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "dependent"},
        "spec": {"cluster": {"name": "edge", "kubeconfigSecret": secret},
            "schema": {"apiVersion": "v1alpha1", "kind": "Dependent", "spec": {}},
            "resources": [map("config", json!({})), map("copy", json!({"of": "${config.metadata.name}"}))]}});
    fixture.objects.create(&definition).await;
    let refused = fixture.objects.until_condition("dependent", "GraphAccepted", "False").await;
    let message = condition(&refused, "GraphAccepted")["message"].as_str().unwrap().to_owned();
    for part in
        ["resources with RGD-level cluster cannot have dependencies", "`copy`", "`config`", "`target`"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(refused["status"]["state"], "Inactive");
    // A resource with its own `cluster` may have dependencies.
    let mut resource = map("copy", json!({"of": "${config.metadata.name}"}));
    resource["cluster"] = json!({"name": "edge", "kubeconfigSecret": secret});
    let patch = json!({"spec": {"resources": [map("config", json!({})), resource]}});
    fixture.objects.patch("dependent", &patch).await;
    fixture.objects.until_condition("dependent", "GraphAccepted", "True").await;
    fixture.objects.delete("dependent").await;
    wait::until_deleted(&fixture.objects.definitions(), "dependent").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_collections_of_other_clusters_by_selector() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("default", "prod-kubeconfig"), "east", None).await;
    fixture.create_secret(("default", "edge-kubeconfig"), "west", None).await;
    let mut definition = example("fleet-summary.yaml");
    let resources = definition["spec"]["resources"].as_array_mut().unwrap();
    resources.retain(|resource| !resource["externalRef"].is_null());
    let mut production = objects::namespace("production");
    production.metadata.labels = Some([("env".to_owned(), "production".to_owned())].into());
    let namespaces: Api<Namespace> = Api::all(fixture.east.clone());
    namespaces.create(&PostParams::default(), &production).await.unwrap();
    deploy(&fixture.east, "production", "backend", json!({"app": "backend"}), 4).await;
    // Not selected: another label, or a namespace with another label.
    deploy(&fixture.east, "production", "frontend", json!({"app": "frontend"}), 7).await;
    deploy(&fixture.east, "default", "backend", json!({"app": "backend"}), 9).await;
    deploy(&fixture.west, "default", "edge", json!({"tier": "edge"}), 1).await;
    fixture.create_definition(&definition).await;
    let instance = fixture.create_instance(&definition, "sum", json!({"edgeCluster": "edge"})).await;
    let status = instance.until_ready().await["status"].clone();
    assert_eq!((&status["replicas"], &status["edge"]), (&json!(4), &json!(1)));
    deploy(&fixture.east, "production", "another", json!({"app": "backend"}), 2).await;
    wait::woken(instance.until(|instance| instance["status"]["replicas"] == 6)).await;
    instance.delete().await;
    assert!(get_object(&fixture.east, DEPLOYMENT, "production", "backend").await.is_some());
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("default", "prod-kubeconfig").await;
    fixture.delete_secret("default", "edge-kubeconfig").await;
}

async fn deploy(client: &kube::Client, namespace: &str, name: &str, labels: Json, replicas: i64) {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
}
