//! Static analysis for definitions whose cluster the instance names: it runs once for each instance.

use kross_local::{Access, rule};
use kross_testing::wait;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

use crate::setup::{condition, until};
use crate::world::{World, message};

/// Creates a definition whose cluster the instance names, and an instance that names `eu`.
async fn create_instance(world: &World, name: &str, template: &Json) -> Api<DynamicObject> {
    let definition = world.unique_name(name);
    let mut rgd = world.definition(&definition, template);
    rgd["spec"]["schema"]["spec"]["region"] = json!("string");
    rgd["spec"]["cluster"] = json!({"name": "${schema.spec.region}-kubeconfig"});
    world.hub.create(&rgd).await;
    world.until_cluster_conditions(&definition, "True Deferred", "True Deferred", "True Deferred").await;
    world.hub.until_ready(&definition).await;
    let kind = world.unique_kind("App");
    let api = world.hub.namespaced("kro.run", &kind, &kross_api::plural(&kind), world.namespace());
    let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": "one"},
                        "spec": {"region": "eu"}});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    api
}

fn entry(instance: &Json) -> &Json {
    &instance["status"]["managedResources"][0]
}

fn databases(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(&world.group(), "v1", "Database");
    let kind = ApiResource::from_gvk_with_plural(&kind, "databases");
    Api::namespaced_with(world.eu.client.clone(), world.namespace(), &kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn validates_an_instance_against_the_schemas_of_the_cluster_that_it_names() {
    let world = World::new().await;
    world.apply_secret(&world.admin()).await;
    world.apply_database_crd("v1", &json!({"size": {"type": "string"}})).await;
    let api =
        create_instance(&world, "typed", &world.database("v1", &json!({"size": "${schema.spec.size}"})))
            .await;
    let found = until(api.clone(), "one".to_owned(), |instance| {
        entry(instance)["message"].as_str().is_some_and(|text| text.contains("expected string, found int"))
    })
    .await;
    assert_eq!(entry(&found)["state"], "Error", "{found:#}");
    assert_eq!(entry(&found)["reason"], "Invalid");
    assert!(entry(&found)["message"].as_str().unwrap().contains("eu-kubeconfig"), "{found:#}");
    assert!(
        databases(&world).get_opt("one").await.unwrap().is_none(),
        "no object is created that does not match the schema"
    );

    // The CRD in the remote cluster is corrected, and the instance is not edited.
    world.apply_database_crd("v1", &json!({"size": {"type": "integer"}})).await;
    wait::woken(until(databases(&world), "one".to_owned(), |database| database["spec"]["size"] == 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_missing_permissions_before_the_first_write() {
    let world = World::new().await;
    let eu = world.fixture.remote("eu").plane;
    let most = ["get", "list", "watch", "create", "patch"];
    let access = Access::none().in_cluster([rule(&[""], &["configmaps"], &most)]);
    let user = world.unique_name("weak");
    let weak = eu.mint_token(world.namespace(), &user, &access).await.unwrap();
    world.apply_secret(&world.proxy.kubeconfig(&weak).unwrap()).await;
    let mut template = world.config_map();
    template["metadata"].as_object_mut().unwrap().remove("namespace");
    let api = create_instance(&world, "permitted", &template).await;
    let found = until(api.clone(), "one".to_owned(), |instance| {
        entry(instance)["message"].as_str().is_some_and(|text| text.contains("may not delete `configmaps`"))
    })
    .await;
    assert_eq!(entry(&found)["reason"], "Forbidden", "{found:#}");
    assert!(entry(&found)["message"].as_str().unwrap().contains(&user), "{found:#}");
    let config_maps = world.eu.config_maps(world.namespace());
    assert!(config_maps.get_opt("one").await.unwrap().is_none());

    let access = Access::none().in_cluster([rule(&[""], &["configmaps"], &["*"])]);
    let strong = eu.mint_token(world.namespace(), &world.unique_name("strong"), &access).await.unwrap();
    world.apply_secret(&world.proxy.kubeconfig(&strong).unwrap()).await;
    wait::woken(until(config_maps, "one".to_owned(), |config_map| config_map["data"]["size"] == "1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn validates_external_references_of_an_instance_against_the_schemas_of_their_cluster() {
    let world = World::new().await;
    world.apply_secret(&world.admin()).await;
    world.apply_database_crd("v1", &json!({"size": {"type": "integer"}})).await;
    let definition = world.unique_name("reading");
    let mut rgd = world.definition(&definition, &world.config_map());
    let spec = rgd["spec"].as_object_mut().unwrap();
    spec.remove("cluster");
    spec["schema"]["spec"]["region"] = json!("string");
    let reference = json!({"apiVersion": format!("{}/v1", world.group()), "kind": "Database",
        "metadata": {"name": "shared"}, "cluster": {"name": "${schema.spec.region}-kubeconfig"}});
    let mut copy = world.config_map();
    copy["data"] = json!({"size": "${database.spec.size}"});
    spec["resources"] =
        json!([{"id": "database", "externalRef": reference}, {"id": "copy", "template": copy}]);
    world.hub.create(&rgd).await;
    world.hub.until_ready(&definition).await;
    let mut shared = world.database("v1", &json!({"size": 3}));
    shared["metadata"] = json!({"name": "shared"});
    databases(&world).create(&PostParams::default(), &serde_json::from_value(shared).unwrap()).await.unwrap();
    let kind = world.unique_kind("App");
    let api = world.hub.namespaced("kro.run", &kind, &kross_api::plural(&kind), world.namespace());
    let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": "one"},
                        "spec": {"region": "eu"}});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let found = until(api.clone(), "one".to_owned(), |instance| {
        entry(instance)["message"].as_str().is_some_and(|text| text.contains("expected string, found int"))
    })
    .await;
    assert_eq!((&entry(&found)["state"], &entry(&found)["reason"]), (&json!("Error"), &json!("Invalid")));
    assert_eq!(entry(&found)["id"], "database", "{found:#}");
    assert!(entry(&found)["message"].as_str().unwrap().contains("eu-kubeconfig"), "{found:#}");
    let config_maps = world.hub.config_maps(world.namespace());
    assert!(
        config_maps.get_opt("one").await.unwrap().is_none(),
        "nothing is created from an object that does not match"
    );

    world.apply_database_crd("v1", &json!({"size": {"type": "string"}})).await;
    // The API server applies the new schema after a moment.
    wait::until("the patch to be accepted", || async {
        let patch = Patch::Merge(json!({"spec": {"size": "large"}}));
        let patched = databases(&world).patch("shared", &PatchParams::default(), &patch).await;
        patched.map_err(|error| error.to_string())
    })
    .await;
    wait::woken(until(config_maps, "one".to_owned(), |config_map| config_map["data"]["size"] == "large"))
        .await;
}

/// Mistakes in resources whose cluster the instance names: a Service, and a Deployment that reads it.
fn mistaken_resources(world: &World) -> Json {
    let metadata = |name: &str| json!({"name": name, "namespace": world.namespace()});
    json!([
        {"id": "db", "template": {
            "apiVersion": "v1", "kind": "Service", "metadata": metadata("db"),
            "spec": {"prots": [{"port": 80}]}}},
        {"id": "app", "template": {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("app"),
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "imagee": "nginx",
                    "env": [{"name": "DB", "value": "${db.spec.clusterIPP}"}]}]}}}}},
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn warns_about_mistakes_behind_a_reference_that_depends_on_the_instance() {
    let world = World::new().await;
    let name = world.unique_name("warned");
    let mut rgd = world.definition(&name, &world.config_map());
    rgd["spec"]["schema"]["spec"]["region"] = json!("string");
    rgd["spec"]["schema"]["status"] = json!({"address": "${db.spec.clusterIP}"});
    rgd["spec"]["cluster"] = json!({"name": "${schema.spec.region}-kubeconfig"});
    let mut resources = mistaken_resources(&world);
    let old = json!({"id": "old", "template": {"apiVersion": "apps/v2", "kind": "Deployment",
        "metadata": {"name": "old", "namespace": world.namespace()}}});
    // A custom kind that only the other cluster may have is no mistake.
    let custom =
        json!({"id": "custom", "template": world.database("v1", &json!({"size": "${schema.spec.size}"}))});
    resources.as_array_mut().unwrap().extend([old, custom]);
    rgd["spec"]["resources"] = resources;
    world.hub.create(&rgd).await;
    let found =
        world.until_cluster_conditions(&name, "True Deferred", "True Deferred", "True Deferred").await;
    let text = message(&found, "StaticAnalysisComplete");
    for word in ["the schemas of the hub", "`imagee`", "`prots`", "`clusterIPP`", "apps/v2"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert!(!text.contains("Database"), "{text}");
    assert_eq!(condition(&found, "GraphAccepted")["status"], "True", "{found:#}");
    world.hub.until_ready(&name).await;
    let events = world.hub.events("default");
    let is_warned = |event: &DynamicObject| {
        event.data["regarding"]["name"] == *name
            && event.data["reason"] == "StaticAnalysisComplete"
            && event.data["note"].as_str().is_some_and(|note| note.contains("`imagee`"))
    };
    wait::until("an Event has the warnings", || async {
        let listed = events.list(&Default::default()).await.unwrap();
        listed.items.iter().any(is_warned).then_some(()).ok_or_else(|| "no such Event".to_owned())
    })
    .await;
    // The generated API does not depend on schemas that the cluster may not have.
    let crd = format!("{}s.kro.run", world.unique_kind("App").to_lowercase());
    let crd = world.hub.get(&world.hub.crds(), &crd).await;
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    assert_eq!(
        schema["properties"]["address"],
        json!({"x-kubernetes-preserve-unknown-fields": true}),
        "{schema:#}"
    );

    // The warnings disappear with the mistakes.
    let correct = json!([{"id": "db", "template": world.config_map()}]);
    let patch = json!({"spec": {"resources": correct, "schema": {"status": {"address": "${db.data.size}"}}}});
    world.hub.definitions().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    world.hub.until(&name, |found| !message(found, "StaticAnalysisComplete").contains("warning")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_every_mistake_on_the_instance() {
    let world = World::new().await;
    world.apply_secret(&world.admin()).await;
    let name = world.unique_name("all");
    let mut rgd = world.definition(&name, &world.config_map());
    rgd["spec"].as_object_mut().unwrap().remove("cluster");
    rgd["spec"]["schema"]["spec"]["region"] = json!("string");
    let mut resources = mistaken_resources(&world);
    // Each resource has a reference of its own, and `app` waits for `db`.
    for resource in resources.as_array_mut().unwrap() {
        resource["cluster"] = json!({"name": "${schema.spec.region}-kubeconfig"});
    }
    rgd["spec"]["resources"] = resources;
    world.hub.create(&rgd).await;
    world.hub.until_ready(&name).await;
    let kind = world.unique_kind("App");
    let api = world.hub.namespaced("kro.run", &kind, &kross_api::plural(&kind), world.namespace());
    let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": "one"},
                        "spec": {"region": "eu"}});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let found = until(api, "one".to_owned(), |instance| {
        entry(instance)["message"].as_str().is_some_and(|text| text.contains("`prots`"))
    })
    .await;
    assert_eq!(entry(&found)["reason"], "Invalid", "{found:#}");
    let text = condition(&found, "ResourcesReady")["message"].as_str().unwrap().to_owned();
    for word in ["`prots`", "`imagee`", "`clusterIPP`"] {
        assert!(text.contains(word), "{word} in {text}");
    }
}
