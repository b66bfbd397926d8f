//! The `target` spelling: a cluster that the instance names, a fixed one, and one that another graph provisions.

use k8s_openapi::api::batch::v1::Job;
use kross_testing::wait;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::fixture::{DEPLOYMENT, Instance, SERVICE, Stage, complete, example, instances, object, serve};
use crate::setup::condition;

#[tokio::test(flavor = "multi_thread")]
async fn one_definition_deploys_to_many_regions() {
    let stage = Stage::new().await;
    stage.credentials(("kro-system", "us-east-kubeconfig"), "east", None).await;
    stage.credentials(("kro-system", "us-west-kubeconfig"), "west", None).await;
    let definition = complete(example("multi-region-by-target.yaml"));
    stage.define(&definition).await;
    let spec = |region: &str| json!({"appName": "web-service", "targetCluster": region});
    let east = stage.instantiate(&definition, "my-app-us-east", spec("us-east")).await;
    let west = stage.instantiate(&definition, "my-app-us-west", spec("us-west")).await;
    for instance in [&east, &west] {
        instance.until_ready().await;
    }
    // The same name in two clusters is two objects.
    for cluster in [&stage.east, &stage.west] {
        assert!(object(cluster, DEPLOYMENT, "default", "web-service").await.is_some());
    }
    west.delete().await;
    assert!(object(&stage.west, DEPLOYMENT, "default", "web-service").await.is_none());
    assert!(object(&stage.east, DEPLOYMENT, "default", "web-service").await.is_some());
    east.delete().await;
    stage.undefine(&definition).await;
    stage.forget("kro-system", "us-east-kubeconfig").await;
    stage.forget("kro-system", "us-west-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn validates_a_fixed_target_against_the_schemas_of_its_cluster() {
    let stage = Stage::new().await;
    stage.credentials(("kro-system", "production-cluster-kubeconfig"), "east", None).await;
    let definition = example("production-database.yaml");
    // Before the kind is served over there the definition says so, and is accepted as soon as it is.
    stage.objects.create(&definition).await;
    let waiting =
        stage.objects.until_condition("production-database", "StaticAnalysisComplete", "False").await;
    let message = condition(&waiting, "StaticAnalysisComplete")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("PostgreSQL") && message.contains("production-cluster-kubeconfig"), "{message}");
    assert_eq!(waiting["status"]["state"], "Inactive");
    serve(&stage.east, "databases.example.com", "PostgreSQL", "postgresqls").await;
    stage.objects.until_ready("production-database").await;
    let instance = stage.instantiate(&definition, "orders", json!({"databaseName": "orders"})).await;
    instance.until_ready().await;
    let kind = ("databases.example.com", "v1", "PostgreSQL");
    let there = object(&stage.east, kind, "default", "orders").await.unwrap();
    assert_eq!(there["spec"], json!({"version": "15", "storage": "100Gi"}));
    instance.delete().await;
    stage.undefine(&definition).await;
    stage.forget("kro-system", "production-cluster-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_target_that_reads_a_resource() {
    let stage = Stage::new().await;
    stage.objects.create(&example("target-reads-resource.yaml")).await;
    let refused = stage.objects.until_condition("invalid-example", "GraphAccepted", "False").await;
    let message = condition(&refused, "GraphAccepted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("clusterSecret"), "{message}");
    stage.objects.delete("invalid-example").await;
    wait::until_deleted(&stage.objects.definitions(), "invalid-example").await;
}

/// What the provisioning Job does when it ends: a kubeconfig is there.
async fn provision(stage: &Stage) {
    stage.credentials(("kro-system", "dev-cluster-1-kubeconfig"), "west", None).await;
    let jobs: Api<Job> = Api::namespaced(stage.hub.clone(), "kro-system");
    // What else a Job says when it is done differs between versions of Kubernetes.
    let status = json!({"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}});
    let patch = Patch::Merge(&status);
    jobs.patch_status("dev-cluster-1-provision", &PatchParams::default(), &patch).await.unwrap();
}

struct Delegation {
    outer: Json,
    inner: Json,
}

impl Delegation {
    async fn begin(stage: &Stage, outer: Json) -> (Self, Instance) {
        let mut inner = complete(example("remote-workload.yaml"));
        inner["spec"]["schema"]["group"] = json!("example.com");
        stage.define(&inner).await;
        stage.define(&outer).await;
        let spec = json!({"clusterName": "dev-cluster-1", "workloadImage": "myapp:v1.0"});
        let instance = stage.instantiate(&outer, "dev-cluster-1", spec).await;
        let jobs: Api<Job> = Api::namespaced(stage.hub.clone(), "kro-system");
        wait::until_object(&jobs, "dev-cluster-1-provision", |_| true).await;
        (Self { outer, inner }, instance)
    }

    fn workload(&self, stage: &Stage) -> Instance {
        Instance { api: instances(&stage.hub, &self.inner), name: "dev-cluster-1-workload".to_owned() }
    }

    /// Waits until the workload runs, then takes everything down.
    async fn end(self, stage: &Stage, instance: Instance) {
        self.workload(stage).until_ready().await;
        instance.until(|instance| condition(instance, "Ready")["status"] == "True").await;
        for kind in [DEPLOYMENT, SERVICE] {
            assert!(object(&stage.west, kind, "default", "workload").await.is_some());
        }
        instance.delete().await;
        for kind in [DEPLOYMENT, SERVICE] {
            assert!(object(&stage.west, kind, "default", "workload").await.is_none());
        }
        stage.undefine(&self.outer).await;
        stage.undefine(&self.inner).await;
        stage.forget("kro-system", "dev-cluster-1-kubeconfig").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_waits_for_the_cluster_that_another_graph_provisions() {
    let stage = Stage::new().await;
    let (delegation, instance) = Delegation::begin(&stage, example("cluster-provisioner.yaml")).await;
    // Nothing orders the two, so the workload is there at once, and waits for the Secret.
    let workload = delegation.workload(&stage);
    let waiting =
        workload.until(|workload| condition(workload, "ClusterResolved")["status"] == "False").await;
    let message = condition(&waiting, "ClusterResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("kro-system/dev-cluster-1-kubeconfig"), "{message}");
    provision(&stage).await;
    delegation.end(&stage, instance).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_dependency_orders_the_workload_after_the_cluster() {
    let stage = Stage::new().await;
    let mut outer = example("cluster-provisioner.yaml");
    let workload = &mut outer["spec"]["resources"][1]["template"]["metadata"];
    workload["annotations"] = json!({"provisioned-by": "${provisionJob.metadata.name}"});
    let (delegation, instance) = Delegation::begin(&stage, outer).await;
    instance.until(|instance| instance["status"]["state"] == "IN_PROGRESS").await;
    let workload = delegation.workload(&stage);
    assert!(workload.api.get_opt(&workload.name).await.unwrap().is_none());
    provision(&stage).await;
    delegation.end(&stage, instance).await;
}
