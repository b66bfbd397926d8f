//! What must not be pruned yet: an object whose successor, reader or replacement is not applied, and one that an unresolved node
//! may still want.

use k8s_openapi::api::core::v1::ConfigMap;
use kross_testing::{Action, Answer, Fault, FaultProxy, Requests, Verb, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value as Json, json};

use crate::moving::one_region;
use crate::prune::{add_alias, deletions, in_each_region, same_name_in_each_region};
use crate::setup::condition;
use crate::world::{World, config_map, edit, resource_entry};

async fn uid(api: &Api<ConfigMap>, name: &str) -> String {
    api.get(name).await.unwrap().metadata.uid.unwrap()
}

async fn create(api: &Api<ConfigMap>, name: &str, labels: Json, data: Json) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
        "data": data});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Whether the current generation was reconciled and a cluster reference is not resolved.
fn is_unresolved(instance: &Json) -> bool {
    condition(instance, "ClusterResolved")["status"] == "False"
        && condition(instance, "Ready")["observedGeneration"] == instance["metadata"]["generation"]
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_an_object_until_the_cluster_that_it_moves_to_is_reachable() {
    let world = World::new("MoveToUnreachable", one_region()).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    us.proxy.set(Fault::Refuse);
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    let waiting = world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    assert_eq!(deletions(eu), [""; 0], "{waiting:#}");
    us.proxy.set(Fault::Pass);
    wait::woken(wait::until_object(&us.config_maps, "x-app", |_| true)).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-app")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_an_object_that_moves_to_a_cluster_whose_secret_does_not_exist() {
    let world = World::new("MoveToMistyped", one_region()).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"region": "su"}})).await;
    world.until("x", is_unresolved).await;
    assert_eq!(deletions(eu), [""; 0]);
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::woken(wait::until_object(&us.config_maps, "x-app", |_| true)).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-app")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_a_collection_item_that_moves_until_its_new_cluster_is_reachable() {
    for (kind, region, spec) in [
        ("ItemToUnreachable", "us", same_name_in_each_region()),
        ("ItemToMistyped", "su", same_name_in_each_region()),
        ("RenamedItem", "us", in_each_region()),
    ] {
        let world = World::new(kind, spec.clone()).await;
        let (eu, us) = (world.region("eu"), world.region("us"));
        us.proxy.set(Fault::Refuse);
        world.create("x", json!({"regions": ["eu"]})).await;
        world.until_state("x", "ACTIVE").await;
        world.patch("x", json!({"spec": {"regions": [region]}})).await;
        world
            .until("x", |instance| {
                let ready = condition(instance, "Ready");
                condition(instance, "RemoteClusterConnected")["status"] == "False"
                    && ready["observedGeneration"] == instance["metadata"]["generation"]
            })
            .await;
        assert_eq!(deletions(eu), [""; 0], "{kind}");
        us.proxy.set(Fault::Pass);
        world.patch("x", json!({"spec": {"regions": ["us"]}})).await;
        wait::woken(world.until_state("x", "ACTIVE")).await;
        let name = if kind == "RenamedItem" { "x-eu" } else { "x-app" };
        wait::woken(wait::until_deleted(&eu.config_maps, name)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_an_item_whose_reference_has_another_name_for_the_same_cluster() {
    let world = World::new("Alias", same_name_in_each_region()).await;
    let eu = world.region("eu");
    let proxy = FaultProxy::start(eu.cluster.plane.admin()).unwrap();
    proxy.set(Fault::Refuse);
    let kubeconfig = proxy.kubeconfig(eu.cluster.plane.admin()).unwrap();
    world.apply_secret("alias-kubeconfig", &kubeconfig).await;
    world.create("x", json!({"regions": ["eu"]})).await;
    world.until_state("x", "ACTIVE").await;
    let before = uid(&eu.config_maps, "x-app").await;
    world.patch("x", json!({"spec": {"regions": ["alias"]}})).await;
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    assert_eq!(uid(&eu.config_maps, "x-app").await, before);
    proxy.set(Fault::Pass);
    wait::woken(world.until_state("x", "ACTIVE")).await;
    assert_eq!(uid(&eu.config_maps, "x-app").await, before);
    assert_eq!(deletions(eu), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_two_references_desire_by_uid_is_kept() {
    let mut spec = same_name_in_each_region();
    spec["resources"][0]["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${region}");
    let world = World::new("SameByUid", spec).await;
    let eu = world.region("eu");
    add_alias(&world, "alias", "eu").await;
    world.create("x", json!({"regions": ["eu", "alias"]})).await;
    world.until_state("x", "ACTIVE").await;
    let before = uid(&eu.config_maps, "x-alias").await;
    world
        .objects
        .patch(
            "samebyuid",
            &json!({"spec": {"resources": [{"id": "app", "forEach": [{"region": "${schema.spec.regions}"}],
            "cluster": {"name": "eu-kubeconfig"}, "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.metadata.name}-${region}"}, "data": {"by": "eu"}}}]}}),
        )
        .await;
    wait::until_object(&eu.config_maps, "x-alias", |object| crate::world::value(object, "by") == Some("eu"))
        .await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(uid(&eu.config_maps, "x-alias").await, before);
    assert_eq!(deletions(eu), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_a_renamed_object_until_its_reader_is_applied() {
    let mut settings = config_map("settings", Some("eu"), json!({"version": "${schema.spec.version}"}));
    settings["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${schema.spec.version}");
    let labels = json!({"app": "${schema.spec.selector}"});
    let web = json!({"id": "web", "cluster": {"name": "eu-kubeconfig"}, "template": {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "${schema.metadata.name}-web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "web",
                "envFrom": [{"configMapRef": {"name": "${settings.metadata.name}"}}]}]}}}}});
    let spec = json!({"schema": {"spec": {"version": "string", "selector": "string"}}, "resources": [settings, web]});
    let world = World::new("Versioned", spec).await;
    let eu = world.region("eu");
    world.create("x", json!({"version": "v1", "selector": "a"})).await;
    world.until_state("x", "ACTIVE").await;
    // The selector of a Deployment is immutable.
    world.patch("x", json!({"spec": {"version": "v2", "selector": "b"}})).await;
    world.until_state("x", "ERROR").await;
    wait::until_object(&eu.config_maps, "x-v2", |_| true).await;
    let waiting = world.until_state("x", "ERROR").await;
    assert_eq!(deletions(eu), [""; 0], "{waiting:#}");
    world.patch("x", json!({"spec": {"selector": "a"}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-v1")).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_object_of_a_removed_node_until_its_replacement_is_applied() {
    let old = config_map("old", Some("eu"), json!({}));
    let spec = json!({"schema": {"spec": {"name": "string"}}, "resources": [old]});
    let world = World::new("Replaced", spec).await;
    let eu = world.region("eu");
    world.create("x", json!({"name": "Not_A_Name"})).await;
    world.until_state("x", "ACTIVE").await;
    let mut new = config_map("new", Some("eu"), json!({}));
    new["template"]["metadata"]["name"] = json!("${schema.spec.name}");
    world.objects.patch("replaced", &json!({"spec": {"resources": [new]}})).await;
    let waiting = world.until_state("x", "ERROR").await;
    assert_eq!(deletions(eu), [""; 0], "{waiting:#}");
    let entry = resource_entry(&waiting, "old");
    assert_eq!(entry["state"], "Blocked", "{waiting:#}");
    assert!(entry["message"].as_str().unwrap().contains("`new`"), "{entry:#}");
    world.patch("x", json!({"spec": {"name": "x-new"}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-old")).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_an_object_that_an_unresolved_node_may_want() {
    let mut first = config_map("first", Some("eu"), json!({}));
    first["template"]["metadata"]["name"] = json!("${schema.metadata.name}-shared");
    first["includeWhen"] = json!(["${schema.spec.first}"]);
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.from}"}}});
    let mut second = config_map("second", Some("eu"), json!({}));
    second["template"]["metadata"]["name"] = json!("${outside.data.name}");
    let spec = json!({"schema": {"spec": {"first": "boolean", "from": "string"}},
        "resources": [first, outside, second]});
    let world = World::new("PassedOn", spec).await;
    let eu = world.region("eu");
    create(&world.config_maps, "one", json!({}), json!({"name": "x-second"})).await;
    world.create("x", json!({"first": true, "from": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let before = uid(&eu.config_maps, "x-shared").await;
    world.patch("x", json!({"spec": {"first": false, "from": "two"}})).await;
    world.until_state("x", "IN_PROGRESS").await;
    assert_eq!(deletions(eu), [""; 0]);
    create(&world.config_maps, "two", json!({}), json!({"name": "x-shared"})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-second")).await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(uid(&eu.config_maps, "x-shared").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_items_of_a_list_whose_watch_is_broken() {
    let sources = json!({"id": "sources", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "${schema.metadata.namespace}", "selector": {"matchLabels": {"role": "source"}}},
        "cluster": {"name": "eu-kubeconfig"}}});
    let mut item = config_map("copies", None, json!({}));
    item["forEach"] = json!([{"source": "${sources.filter(s, s.data.group == schema.spec.group)}"}]);
    item["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${source.metadata.name}");
    let world = World::without_definition("StaleList").await;
    let eu = world.region("eu");
    for name in ["a", "b"] {
        create(&eu.config_maps, name, json!({"role": "source"}), json!({"group": "one"})).await;
    }
    world.define(json!({"schema": {"spec": {"group": "string"}}, "resources": [sources, item]})).await;
    world.create("x", json!({"group": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    let before = uid(&world.config_maps, "x-b").await;
    let reads = [Verb::Watch, Verb::List].map(|verb| Requests::any().verb(verb).resource("configmaps"));
    for requests in &reads {
        eu.proxy.on(requests.clone(), Action::Answer(Answer::status(503)));
    }
    eu.proxy.cut_connections();
    // The second attempt begins after the first one was recorded as failed.
    let attempts = || reads.iter().map(|requests| refused(eu, requests)).sum::<usize>();
    wait::until_true("two failed attempts to watch", || attempts() >= 2).await;
    edit(&eu.config_maps, "b", json!({"group": "two"})).await;
    world.patch("x", json!({"spec": {"group": "two"}})).await;
    world
        .until("x", |instance| {
            condition(instance, "Ready")["observedGeneration"] == instance["metadata"]["generation"]
        })
        .await;
    for name in ["x-a", "x-b"] {
        let object = world.config_maps.get(name).await.unwrap();
        assert!(object.metadata.deletion_timestamp.is_none(), "{name}");
    }
    eu.proxy.clear();
    wait::until_deleted(&world.config_maps, "x-a").await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(uid(&world.config_maps, "x-b").await, before);
}

/// How many of these requests the proxy has answered with 503.
fn refused(region: &crate::world::Region, requests: &Requests) -> usize {
    region.proxy.requests(requests).iter().filter(|record| record.status() == Some(503)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_items_of_a_list_in_an_unreachable_cluster() {
    let sources = json!({"id": "sources", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "${schema.metadata.namespace}", "selector": {"matchLabels": {"role": "source"}}},
        "cluster": {"name": "us-kubeconfig"}}});
    let mut item = config_map("copies", Some("eu"), json!({}));
    item["forEach"] = json!([{"source": "${sources.filter(s, s.data.group == schema.spec.group)}"}]);
    item["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${source.metadata.name}");
    let world = World::without_definition("UnreachableList").await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    create(&us.config_maps, "a", json!({"role": "source"}), json!({"group": "one"})).await;
    world.define(json!({"schema": {"spec": {"group": "string"}}, "resources": [sources, item]})).await;
    world.create("x", json!({"group": "one"})).await;
    world.until_state("x", "ACTIVE").await;
    us.proxy.set(Fault::Refuse);
    world.until_condition("x", ("RemoteClusterConnected", "False", "Unreachable")).await;
    world.patch("x", json!({"spec": {"group": "two"}})).await;
    world
        .until("x", |instance| {
            condition(instance, "Ready")["observedGeneration"] == instance["metadata"]["generation"]
        })
        .await;
    assert_eq!(deletions(eu), [""; 0]);
    us.proxy.set(Fault::Pass);
    wait::woken(wait::until_deleted(&eu.config_maps, "x-a")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_an_excluded_object_until_what_replaces_it_is_applied() {
    let colour = |id: &str| {
        let mut resource = config_map(id, Some("eu"), json!({}));
        resource["includeWhen"] = json!([format!("${{schema.spec.colour == '{id}'}}")]);
        resource
    };
    let mut green = colour("green");
    green["template"]["metadata"]["name"] = json!("${schema.spec.name}");
    let spec = json!({"schema": {"spec": {"colour": "string", "name": "string"}}, "resources": [colour("blue"), green]});
    let world = World::new("Colours", spec).await;
    let eu = world.region("eu");
    world.create("x", json!({"colour": "blue", "name": "Not_A_Name"})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"colour": "green"}})).await;
    world.until_state("x", "ERROR").await;
    assert_eq!(deletions(eu), [""; 0]);
    world.patch("x", json!({"spec": {"name": "x-green"}})).await;
    wait::woken(wait::until_deleted(&eu.config_maps, "x-blue")).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_an_excluded_object_until_a_node_that_reads_its_state_is_applied() {
    let mut optional = config_map("optional", Some("eu"), json!({}));
    optional["includeWhen"] = json!(["${schema.spec.optional}"]);
    let labels = json!({"app": "${schema.spec.optional ? 'a' : 'b'}"});
    let reader = json!({"id": "reader", "template": {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "${schema.metadata.name}-reader"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels, "annotations": {"state": "${resources.optional.state}"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]}}}}});
    let spec = json!({"schema": {"spec": {"optional": "boolean"}}, "resources": [optional, reader]});
    let world = World::new("StateReader", spec).await;
    let eu = world.region("eu");
    world.create("x", json!({"optional": true})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"optional": false}})).await;
    world.until_state("x", "ERROR").await;
    assert_eq!(deletions(eu), [""; 0]);
    assert!(eu.config_maps.get_opt("x-optional").await.unwrap().is_some());
}
