//! Objects of existing types as instances (`schema.externalRef`) of graphs with remote resources.

use kross_testing::{Fault, wait};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

use crate::setup::create_once_served;
use crate::world::{World, config_map, edit, value};

/// The objects of an existing type, of which a definition selects some as instances.
struct Existing {
    world: World,
    gvk: GroupVersionKind,
    objects: Api<DynamicObject>,
}

impl Existing {
    /// Creates a definition whose instances are the objects of a kind with the label `selected: yes`.
    async fn new(gvk: GroupVersionKind, resources: Json) -> Self {
        let world = World::without_definition(&gvk.kind).await;
        let name = format!("existing-{}", gvk.kind.to_lowercase());
        let metadata = json!({"selector": {"matchLabels": {"selected": "yes"}}});
        let external = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": metadata});
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": name}, "spec": {"schema": {"externalRef": external}, "resources": resources}});
        world.objects.create(&definition).await;
        world.objects.until_ready(&name).await;
        let (client, resource) = (world.objects.client.clone(), ApiResource::from_gvk(&gvk));
        let objects = Api::namespaced_with(client, &world.namespace, &resource);
        Self { world, gvk, objects }
    }

    async fn create(&self, name: &str, labels: Json, spec: Json) {
        let object = json!({"apiVersion": self.gvk.api_version(), "kind": self.gvk.kind,
            "metadata": {"name": name, "labels": labels}, "spec": spec});
        create_once_served(&self.objects, object).await;
    }

    async fn patch(&self, name: &str, patch: Json) {
        self.objects.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn until_state(&self, name: &str, state: &str) -> DynamicObject {
        let in_state = |object: &DynamicObject| annotation(object, "kro.run/state") == Some(state);
        wait::until_object(&self.objects, name, in_state).await
    }
}

fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[tokio::test(flavor = "multi_thread")]
async fn reconciles_remote_resources_of_existing_objects() {
    // Both the cluster and the data come from the Deployment.
    let data = json!({"replicas": "${string(schema.spec.replicas)}",
        "available": "${string(schema.status.?availableReplicas.orValue(0))}"});
    let mut record = config_map("record", None, data);
    record["cluster"] = json!({"name": "${schema.metadata.labels.region}-kubeconfig"});
    let existing = Existing::new(GroupVersionKind::gvk("apps", "v1", "Deployment"), json!([record])).await;
    let (eu, us) = (existing.world.region("eu"), existing.world.region("us"));
    for (name, selected) in [("web", "yes"), ("other", "no")] {
        let pods = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
        let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": pods});
        existing.create(name, json!({"selected": selected, "region": "eu"}), spec).await;
    }
    let web = existing.until_state("web", "ACTIVE").await;
    assert!(web.metadata.finalizers.is_some());
    let record = eu.config_maps.get("web-record").await.unwrap();
    assert_eq!((value(&record, "replicas"), value(&record, "available")), (Some("2"), Some("0")));
    assert_eq!(record.metadata.labels.unwrap()["kro.run/instance-kind"], "Deployment");
    assert!(existing.world.config_maps.get_opt("web-record").await.unwrap().is_none());
    assert!(eu.config_maps.get_opt("other-record").await.unwrap().is_none());

    // Changes of the spec and of the status are applied, and drift is corrected.
    existing.patch("web", json!({"spec": {"replicas": 3}})).await;
    let status = Patch::Merge(json!({"status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}}));
    existing.objects.patch_status("web", &PatchParams::default(), &status).await.unwrap();
    let current =
        |record: &_| value(record, "replicas") == Some("3") && value(record, "available") == Some("3");
    wait::woken(wait::until_object(&eu.config_maps, "web-record", current)).await;
    edit(&eu.config_maps, "web-record", json!({"replicas": "7"})).await;
    wait::woken(wait::until_object(&eu.config_maps, "web-record", current)).await;
    eu.config_maps.delete("web-record", &DeleteParams::default()).await.unwrap();
    wait::woken(wait::until_object(&eu.config_maps, "web-record", current)).await;

    // The label moves the record to another cluster. When the Deployment is not selected any more, the record is deleted
    // and the Deployment is kept.
    existing.patch("web", json!({"metadata": {"labels": {"region": "us"}}})).await;
    wait::woken(wait::until_object(&us.config_maps, "web-record", current)).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "web-record")).await;
    existing.patch("web", json!({"metadata": {"labels": {"selected": "no"}}})).await;
    wait::woken(wait::until_deleted(&us.config_maps, "web-record")).await;
    let released = |web: &DynamicObject| web.metadata.finalizers.is_none();
    let web = wait::woken(wait::until_object(&existing.objects, "web", released)).await;
    assert!(web.metadata.deletion_timestamp.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_object_is_deleted_after_its_remote_resources() {
    let record = config_map("record", Some("eu"), json!({"text": "one"}));
    let existing = Existing::new(GroupVersionKind::gvk("", "v1", "Service"), json!([record])).await;
    let eu = existing.world.region("eu");
    existing.create("web", json!({"selected": "yes"}), json!({"ports": [{"port": 80}]})).await;
    existing.until_state("web", "ACTIVE").await;
    eu.proxy.set(Fault::Refuse);
    let failed = existing.until_state("web", "ERROR").await;
    let message = annotation(&failed, "kro.run/message").unwrap();
    assert!(message.contains("eu-kubeconfig"), "{message}");
    existing.objects.delete("web", &DeleteParams::default()).await.unwrap();
    let waiting = existing.until_state("web", "DELETING").await;
    assert!(waiting.metadata.deletion_timestamp.is_some());
    assert!(eu.config_maps.get_opt("web-record").await.unwrap().is_some());
    eu.proxy.set(Fault::Pass);
    wait::until_deleted(&existing.objects, "web").await;
    assert!(eu.config_maps.get_opt("web-record").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_an_existing_object_without_its_inventory_is_blocked_until_all_clusters_are_given_up()
{
    const INVENTORY: &str = "internal.kro.run/cluster-inventory";
    let mut record = config_map("record", None, json!({"text": "one"}));
    record["cluster"] = json!({"name": "${schema.metadata.labels.region}-kubeconfig"});
    let gvk = GroupVersionKind::gvk("policy", "v1", "PodDisruptionBudget");
    let existing = Existing::new(gvk, json!([record])).await;
    let eu = existing.world.region("eu");
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    for (name, region) in [("web", "eu"), ("nowhere", "moon")] {
        existing.create(name, json!({"selected": "yes", "region": region}), spec.clone()).await;
    }
    existing.until_state("web", "ACTIVE").await;
    eu.proxy.set(Fault::Refuse);
    existing.until_state("web", "ERROR").await;
    existing.objects.delete("web", &DeleteParams::default()).await.unwrap();
    existing.until_state("web", "DELETING").await;
    existing.patch("web", json!({"metadata": {"annotations": {INVENTORY: null}}})).await;
    let is_blocked = |object: &DynamicObject| {
        annotation(object, "kro.run/message").is_some_and(|message| message.contains("was removed"))
    };
    wait::until_object(&existing.objects, "web", is_blocked).await;
    eu.proxy.set(Fault::Pass);
    existing.patch("web", json!({"metadata": {"annotations": {"kro.run/abandon-cluster": "*"}}})).await;
    wait::until_deleted(&existing.objects, "web").await;
    assert!(eu.config_maps.get_opt("web-record").await.unwrap().is_some(), "given up, not deleted");

    // One that never was in any cluster has an empty inventory, and nothing blocks its deletion.
    let has_inventory = |object: &DynamicObject| annotation(object, INVENTORY).is_some();
    wait::until_object(&existing.objects, "nowhere", has_inventory).await;
    existing.objects.delete("nowhere", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&existing.objects, "nowhere").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_definition_of_an_existing_type_does_not_touch_the_instances_of_the_first() {
    let record = config_map("record", Some("eu"), json!({"text": "one"}));
    let first = Existing::new(GroupVersionKind::gvk("", "v1", "LimitRange"), json!([record])).await;
    let (world, eu) = (&first.world, first.world.region("eu"));
    first.create("web", json!({"selected": "yes"}), json!({"limits": []})).await;
    first.until_state("web", "ACTIVE").await;
    let external = json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"selector": {"matchLabels": {"second": "yes"}}}});
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "second-limitrange"}, "spec": {"schema": {"externalRef": external},
            "resources": [config_map("other", Some("us"), json!({"text": "two"}))]}});
    world.objects.create(&definition).await;
    world.objects.until_ready("second-limitrange").await;
    first.create("other", json!({"second": "yes"}), json!({"limits": []})).await;
    first.until_state("other", "ACTIVE").await;
    // Whatever wakes the first instance reconciles it by the first definition.
    edit(&eu.config_maps, "web-record", json!({"text": "drift"})).await;
    let repaired = |object: &_| value(object, "text") == Some("one");
    wait::woken(wait::until_object(&eu.config_maps, "web-record", repaired)).await;
    assert!(first.objects.get("web").await.unwrap().metadata.finalizers.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_object_that_is_not_selected_any_more_loses_all_ownership_metadata() {
    let record = config_map("record", Some("eu"), json!({"text": "one"}));
    let existing = Existing::new(GroupVersionKind::gvk("", "v1", "ResourceQuota"), json!([record])).await;
    existing.create("web", json!({"selected": "yes"}), json!({})).await;
    existing.until_state("web", "ACTIVE").await;
    existing.patch("web", json!({"metadata": {"labels": {"selected": "no"}}})).await;
    let released = |web: &DynamicObject| web.metadata.finalizers.is_none();
    let web = wait::woken(wait::until_object(&existing.objects, "web", released)).await;
    let maps = [&web.metadata.labels, &web.metadata.annotations];
    let ours: Vec<&String> = maps
        .into_iter()
        .flatten()
        .flat_map(|map| map.keys())
        .filter(|key| key.contains("kro.run") || key.contains("applyset"))
        .collect();
    assert!(ours.is_empty(), "{ours:?} {:?}", annotation(&web, "kro.run/state"));
}
