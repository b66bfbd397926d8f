//! The `target` form: a cluster that the instance names, a fixed one, and one that another graph provisions.

use k8s_openapi::api::batch::v1::Job;
use kross_testing::wait;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::fixture::{
    DEPLOYMENT, Instance, ProposalFixture, SERVICE, example, get_object, install_crd, instances,
    with_required_fields,
};
use crate::setup::condition;

#[tokio::test(flavor = "multi_thread")]
async fn one_definition_deploys_to_many_regions() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("kro-system", "us-east-kubeconfig"), "east", None).await;
    fixture.create_secret(("kro-system", "us-west-kubeconfig"), "west", None).await;
    let definition = with_required_fields(example("multi-region-by-target.yaml"));
    fixture.create_definition(&definition).await;
    let spec = |region: &str| json!({"appName": "web-service", "targetCluster": region});
    let east = fixture.create_instance(&definition, "my-app-us-east", spec("us-east")).await;
    let west = fixture.create_instance(&definition, "my-app-us-west", spec("us-west")).await;
    for instance in [&east, &west] {
        instance.until_ready().await;
    }
    // The same name in two clusters is two objects.
    for cluster in [&fixture.east, &fixture.west] {
        assert!(get_object(cluster, DEPLOYMENT, "default", "web-service").await.is_some());
    }
    west.delete().await;
    assert!(get_object(&fixture.west, DEPLOYMENT, "default", "web-service").await.is_none());
    assert!(get_object(&fixture.east, DEPLOYMENT, "default", "web-service").await.is_some());
    east.delete().await;
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("kro-system", "us-east-kubeconfig").await;
    fixture.delete_secret("kro-system", "us-west-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn validates_a_fixed_target_against_the_schemas_of_its_cluster() {
    let fixture = ProposalFixture::new().await;
    fixture.create_secret(("kro-system", "production-cluster-kubeconfig"), "east", None).await;
    let definition = example("production-database.yaml");
    // While the remote cluster does not serve the kind, the definition reports that; it is accepted as soon as it does.
    fixture.objects.create(&definition).await;
    let waiting =
        fixture.objects.until_condition("production-database", "StaticAnalysisComplete", "False").await;
    let message = condition(&waiting, "StaticAnalysisComplete")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("PostgreSQL") && message.contains("production-cluster-kubeconfig"), "{message}");
    assert_eq!(waiting["status"]["state"], "Inactive");
    install_crd(&fixture.east, "databases.example.com", "PostgreSQL", "postgresqls").await;
    fixture.objects.until_ready("production-database").await;
    let instance = fixture.create_instance(&definition, "orders", json!({"databaseName": "orders"})).await;
    instance.until_ready().await;
    let kind = ("databases.example.com", "v1", "PostgreSQL");
    let database = get_object(&fixture.east, kind, "default", "orders").await.unwrap();
    assert_eq!(database["spec"], json!({"version": "15", "storage": "100Gi"}));
    instance.delete().await;
    fixture.delete_definition(&definition).await;
    fixture.delete_secret("kro-system", "production-cluster-kubeconfig").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_a_target_that_reads_a_resource() {
    let fixture = ProposalFixture::new().await;
    fixture.objects.create(&example("target-reads-resource.yaml")).await;
    let refused = fixture.objects.until_condition("invalid-example", "GraphAccepted", "False").await;
    let message = condition(&refused, "GraphAccepted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("clusterSecret"), "{message}");
    fixture.objects.delete("invalid-example").await;
    wait::until_deleted(&fixture.objects.definitions(), "invalid-example").await;
}

/// Completes the provisioning Job and creates the kubeconfig Secret that it provides.
async fn provision(fixture: &ProposalFixture) {
    fixture.create_secret(("kro-system", "dev-cluster-1-kubeconfig"), "west", None).await;
    let jobs: Api<Job> = Api::namespaced(fixture.hub.clone(), "kro-system");
    // The other status fields of a completed Job differ between versions of Kubernetes.
    let status = json!({"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z"}});
    let patch = Patch::Merge(&status);
    jobs.patch_status("dev-cluster-1-provision", &PatchParams::default(), &patch).await.unwrap();
}

/// A graph that provisions a cluster and creates an instance of another graph that deploys into it.
struct Delegation {
    outer: Json,
    inner: Json,
}

impl Delegation {
    /// Creates both definitions and an instance of the outer one, and waits for the provisioning Job.
    async fn begin(fixture: &ProposalFixture, outer: Json) -> (Self, Instance) {
        let mut inner = with_required_fields(example("remote-workload.yaml"));
        inner["spec"]["schema"]["group"] = json!("example.com");
        fixture.create_definition(&inner).await;
        fixture.create_definition(&outer).await;
        let spec = json!({"clusterName": "dev-cluster-1", "workloadImage": "myapp:v1.0"});
        let instance = fixture.create_instance(&outer, "dev-cluster-1", spec).await;
        let jobs: Api<Job> = Api::namespaced(fixture.hub.clone(), "kro-system");
        wait::until_object(&jobs, "dev-cluster-1-provision", |_| true).await;
        (Self { outer, inner }, instance)
    }

    fn workload(&self, fixture: &ProposalFixture) -> Instance {
        Instance { api: instances(&fixture.hub, &self.inner), name: "dev-cluster-1-workload".to_owned() }
    }

    /// Waits until the workload is ready, then deletes everything.
    async fn end(self, fixture: &ProposalFixture, instance: Instance) {
        self.workload(fixture).until_ready().await;
        instance.until(|instance| condition(instance, "Ready")["status"] == "True").await;
        for kind in [DEPLOYMENT, SERVICE] {
            assert!(get_object(&fixture.west, kind, "default", "workload").await.is_some());
        }
        instance.delete().await;
        for kind in [DEPLOYMENT, SERVICE] {
            assert!(get_object(&fixture.west, kind, "default", "workload").await.is_none());
        }
        fixture.delete_definition(&self.outer).await;
        fixture.delete_definition(&self.inner).await;
        fixture.delete_secret("kro-system", "dev-cluster-1-kubeconfig").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_waits_for_the_cluster_that_another_graph_provisions() {
    let fixture = ProposalFixture::new().await;
    let (delegation, instance) = Delegation::begin(&fixture, example("cluster-provisioner.yaml")).await;
    // There is no dependency between the two, so the workload is created at once and waits for the Secret.
    let workload = delegation.workload(&fixture);
    let waiting =
        workload.until(|workload| condition(workload, "ClusterResolved")["status"] == "False").await;
    let message = condition(&waiting, "ClusterResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("kro-system/dev-cluster-1-kubeconfig"), "{message}");
    provision(&fixture).await;
    delegation.end(&fixture, instance).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_dependency_orders_the_workload_after_the_cluster() {
    let fixture = ProposalFixture::new().await;
    let mut outer = example("cluster-provisioner.yaml");
    let workload = &mut outer["spec"]["resources"][1]["template"]["metadata"];
    workload["annotations"] = json!({"provisioned-by": "${provisionJob.metadata.name}"});
    let (delegation, instance) = Delegation::begin(&fixture, outer).await;
    instance.until(|instance| instance["status"]["state"] == "IN_PROGRESS").await;
    let workload = delegation.workload(&fixture);
    assert!(workload.api.get_opt(&workload.name).await.unwrap().is_none());
    provision(&fixture).await;
    delegation.end(&fixture, instance).await;
}
