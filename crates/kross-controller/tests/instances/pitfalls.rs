//! What kro got wrong at some point and mended, one test for each: none of it comes back here.

use k8s_openapi::api::core::v1::ConfigMap;
use kross_testing::{Action, Answer, Requests, Verb, objects, wait};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{condition, until};
use crate::world::{World, config_map, edit, value};

/// ConfigMaps, one for each value of an expression.
fn collection(id: &str, variable: &str, over: &str, name: &str, data: Json) -> Json {
    let mut resource = config_map(id, data);
    resource["forEach"] = json!([{variable: over}]);
    resource["template"]["metadata"]["name"] = json!(name);
    resource
}

async fn finalizers(api: &Api<ConfigMap>, name: &str, list: Json) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": list}}));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_goes_although_nothing_of_its_graph_can_be_evaluated() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "needed"}}});
    let resources =
        json!([outside, config_map("a", json!({"x": "${string(int(outside.data.x) / schema.spec.by)}"}))]);
    let world = World::new("Doomed", json!({"spec": {"by": "integer | default=1"}}), resources).await;
    let needed = objects::config_map("needed", &[("x", "4")]);
    world.config_maps.create(&PostParams::default(), &needed).await.unwrap();
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"by": 0}})).await;
    world.until_state("x", "ERROR").await;
    world.config_maps.delete("needed", &DeleteParams::default()).await.unwrap();
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_collections_use_one_variable_for_different_things() {
    let schema = json!({"spec": {"names": "[]string", "sizes": "[]integer"}});
    let resources = json!([
        collection(
            "names",
            "one",
            "${schema.spec.names}",
            "${schema.metadata.name}-${one}",
            json!({"x": "${one}"})
        ),
        collection(
            "sizes",
            "one",
            "${schema.spec.sizes}",
            "${schema.metadata.name}-${string(one)}",
            json!({"x": "${string(one + 1)}"})
        ),
    ]);
    let world = World::new("TwoLists", schema, resources).await;
    world.create("x", json!({"names": ["a"], "sizes": [1]})).await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(value(&world.config_maps.get("x-a").await.unwrap(), "x"), Some("a"));
    assert_eq!(value(&world.config_maps.get("x-1").await.unwrap(), "x"), Some("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_of_whole_and_broken_numbers_and_empty_lists_comes_to_rest() {
    let schema = json!({"spec": {"size": "float | default=2.0", "none": "[]string"},
        "status": {"whole": "${schema.spec.size / 2.0}", "broken": "${schema.spec.size / 4.0}",
            "empty": "${schema.spec.none.filter(n, n == '')}", "version": "${schema.metadata.resourceVersion}"}});
    let world = World::new("Numbers", schema, json!([config_map("a", json!({}))])).await;
    world.create("x", json!({"none": []})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    assert_eq!(instance["status"]["whole"], 1);
    assert_eq!(instance["status"]["broken"], 0.5);
    assert_eq!(instance["status"]["empty"], json!([]));
    // Others come through the same queue: by then the first one would have been written again. A write that is told before
    // it is answered is followed by another, though not for ever.
    let writes =
        || world.sent().into_iter().filter(|sent| sent.starts_with("update") && sent.ends_with("/x")).count();
    let mut before = 0;
    for round in 0..5 {
        let name = format!("other-{round}");
        world.create(&name, json!({"none": []})).await;
        world.until_state(&name, "ACTIVE").await;
        if std::mem::replace(&mut before, writes()) == writes() {
            break;
        }
        assert!(round < 4, "{:#?}", world.sent());
    }
    assert!(writes() <= 4, "{:#?}", world.sent());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_over_one_that_becomes_empty_leaves_nothing_behind() {
    let resources = json!([
        collection("first", "name", "${schema.spec.names}", "${schema.metadata.name}-${name}", json!({})),
        collection("second", "one", "${first}", "${one.metadata.name}-again", json!({})),
        config_map("count", json!({"n": "${string(size(second))}"})),
    ]);
    let world = World::new("Emptied", json!({"spec": {"names": "[]string"}}), resources).await;
    world.create("x", json!({"names": ["a", "b"]})).await;
    world.until_state("x", "ACTIVE").await;
    wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some("2")).await;
    world.patch("x", json!({"spec": {"names": []}})).await;
    wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some("0")).await;
    for name in ["x-a", "x-b", "x-a-again", "x-b-again"] {
        wait::until_deleted(&world.config_maps, name).await;
    }
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_item_of_a_collection_is_repaired() {
    let maps = collection(
        "maps",
        "name",
        "${schema.spec.names}",
        "${schema.metadata.name}-${name}",
        json!({"x": "1"}),
    );
    let world = World::new("EachItem", json!({"spec": {"names": "[]string"}}), json!([maps])).await;
    world.create("x", json!({"names": ["a", "b", "c"]})).await;
    world.until_state("x", "ACTIVE").await;
    for name in ["x-a", "x-b", "x-c"] {
        edit(&world.config_maps, name, json!({"x": "2"})).await;
        wait::until_object(&world.config_maps, name, |object| value(object, "x") == Some("1")).await;
        world.config_maps.delete(name, &DeleteParams::default()).await.unwrap();
        wait::until_object(&world.config_maps, name, |object| {
            value(object, "x") == Some("1") && object.metadata.deletion_timestamp.is_none()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_served_on_when_the_graph_that_also_made_it_goes() {
    let inner = World::new(
        "Lasting",
        json!({"spec": {"text": "string"}}),
        json!([config_map("a", json!({"x": "${schema.spec.text}"}))]),
    )
    .await;
    let nested = json!({"id": "inner", "template": {"apiVersion": "kro.run/v1alpha1", "kind": "Lasting",
        "metadata": {"name": "${schema.metadata.name}-inner"}, "spec": {"text": "outer"}}});
    let outer = World::new("Passing", json!({"spec": {}}), json!([nested])).await;
    inner.create("own", json!({"text": "1"})).await;
    outer.create("x", json!({})).await;
    outer.until_state("x", "ACTIVE").await;
    outer.delete("x").await;
    wait::until_deleted(&outer.instances, "x").await;
    outer.objects.delete("passing").await;
    wait::until_deleted(&outer.objects.definitions(), "passing").await;
    inner.patch("own", json!({"spec": {"text": "2"}})).await;
    wait::until_object(&inner.config_maps, "own-a", |object| value(object, "x") == Some("2")).await;
    edit(&inner.config_maps, "own-a", json!({"x": "3"})).await;
    wait::until_object(&inner.config_maps, "own-a", |object| value(object, "x") == Some("2")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pruned_goes_dependents_first_and_is_waited_for() {
    let mut first = config_map("a", json!({}));
    first["includeWhen"] = json!(["${schema.spec.wanted}"]);
    let resources =
        json!([first, config_map("b", json!({"a": "${a.metadata.name}"})), config_map("c", json!({}))]);
    let world = World::new("Pruned", json!({"spec": {"wanted": "boolean"}}), resources).await;
    world.create("x", json!({"wanted": true})).await;
    world.until_state("x", "ACTIVE").await;
    finalizers(&world.config_maps, "x-b", json!(["test.kross.run/hold"])).await;
    world.patch("x", json!({"spec": {"wanted": false}})).await;
    wait::until_object(&world.config_maps, "x-b", |object| object.metadata.deletion_timestamp.is_some())
        .await;
    assert!(world.config_maps.get("x-a").await.unwrap().metadata.deletion_timestamp.is_none());
    // The inventory does not shrink, and the instance does not go, while something of it is on its way out.
    world.delete("x").await;
    world.until("x", |instance| condition(instance, "ResourcesReady")["reason"] == "UnderDeletion").await;
    wait::until_deleted(&world.config_maps, "x-c").await;
    assert!(world.instances.get_opt("x").await.unwrap().is_some());
    finalizers(&world.config_maps, "x-b", json!([])).await;
    wait::until_deleted(&world.instances, "x").await;
    for name in ["x-a", "x-b"] {
        assert!(world.config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_rival_definition_leaves_the_kind_to_its_owner() {
    let resources = json!([config_map("a", json!({"x": "${schema.spec.text}"}))]);
    let world = World::new("Contested", json!({"spec": {"text": "string"}}), resources).await;
    world.create("x", json!({"text": "1"})).await;
    world.until_state("x", "ACTIVE").await;
    let rival = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "contested-rival"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Contested", "spec": {"text": "string"}}, "resources": []}});
    world.objects.create(&rival).await;
    world.objects.until_condition("contested-rival", "KindReady", "False").await;
    world.objects.delete("contested-rival").await;
    wait::until_deleted(&world.objects.definitions(), "contested-rival").await;
    world.patch("x", json!({"spec": {"text": "2"}})).await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("2")).await;
    world.objects.until_ready("contested").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_the_instance_of_their_own_kind() {
    let one = World::new("SameNameA", json!({"spec": {}}), json!([config_map("a", json!({"x": "a"}))])).await;
    let two = World::new("SameNameB", json!({"spec": {}}), json!([config_map("b", json!({"x": "b"}))])).await;
    // The same name, and the same namespace.
    let instance =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "SameNameB", "metadata": {"name": "x"}, "spec": {}});
    let others = two.objects.namespaced("kro.run", "SameNameB", "samenamebs", &one.namespace);
    others.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
    one.create("x", json!({})).await;
    one.until_state("x", "ACTIVE").await;
    until(others, "x".to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    for (name, own) in [("x-a", "a"), ("x-b", "b")] {
        edit(&one.config_maps, name, json!({"x": "changed"})).await;
        wait::until_object(&one.config_maps, name, |object| value(object, "x") == Some(own)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_carry_no_labels_of_the_definition_also_when_they_are_instances() {
    let inner = World::new("Unlabelled", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    let nested = json!({"id": "inner", "template": {"apiVersion": "kro.run/v1alpha1", "kind": "Unlabelled",
        "metadata": {"name": "${schema.metadata.name}-inner"}, "spec": {}}});
    let outer = World::new("Unlabelling", json!({"spec": {}}), json!([nested])).await;
    outer.create("x", json!({})).await;
    outer.until_state("x", "ACTIVE").await;
    let instances = inner.objects.namespaced("kro.run", "Unlabelled", "unlabelleds", &outer.namespace);
    let inner_instance =
        until(instances.clone(), "x-inner".to_owned(), |instance| instance["status"]["state"] == "ACTIVE")
            .await;
    // As an instance it says what its own definition is, and nobody takes that back.
    let name = &inner_instance["metadata"]["labels"]["kro.run/resource-graph-definition-name"];
    assert_eq!(name, "unlabelled");
    let child = outer.config_maps.get("x-inner-a").await.unwrap();
    let labels = child.metadata.labels.unwrap();
    assert!(labels.keys().all(|label| !label.contains("resource-graph-definition")), "{labels:?}");
    assert_eq!(child.metadata.owner_references, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_of_the_types_that_were_checked() {
    let secret = json!({"id": "secret", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-secret"}, "stringData": {"word": "hello"}}});
    let service = json!({"id": "service", "template": {"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "${schema.metadata.name}-service"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": "${schema.spec.port}"}]}}});
    let claim = json!({"id": "claim", "template": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "${schema.metadata.name}-claim"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "${schema.spec.size}"}}}}});
    let summary = config_map(
        "summary",
        json!({
            "word": "${string(secret.data.word)}",
            "port": "${string(service.spec.ports[0].port + 1)}",
            "age": "${string(service.metadata.creationTimestamp.getFullYear() > 2000)}",
            "size": "${string(quantity(string(claim.spec.resources.requests['storage'])).isGreaterThan(quantity('1Mi')))}",
        }),
    );
    let schema = json!({"spec": {"port": "integer | default=80", "size": "string | default=1Gi"}});
    let world = World::new("WellTyped", schema, json!([secret, service, claim, summary])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let summary = world.config_maps.get("x-summary").await.unwrap();
    let found =
        ["word", "port", "age", "size"].map(|key| value(&summary, key).unwrap_or_default().to_owned());
    assert_eq!(found, ["hello", "81", "true", "true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn external_objects_without_a_namespace_are_looked_for_in_all_of_them() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"selector": {"matchLabels": {"everywhere": "yes"}}}}});
    let resources = json!([outside, config_map("count", json!({"n": "${string(size(outside))}"}))]);
    let world = World::new("Everywhere", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let elsewhere: Api<ConfigMap> = Api::namespaced(world.objects.client.clone(), "default");
    for (api, name) in [(&world.config_maps, "here"), (&elsewhere, "everywhere-there")] {
        let mut found = objects::config_map(name, &[]);
        found.metadata.labels = Some([("everywhere".to_owned(), "yes".to_owned())].into());
        api.create(&PostParams::default(), &found).await.unwrap();
    }
    wait::until_object(&world.config_maps, "x-count", |object| value(object, "n") == Some("2")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_a_graph_makes_is_followed_like_any_object() {
    let template = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "made-by-a-graph"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "MadeByAGraph", "group": "kro.run",
            "scope": "Namespaced", "spec": {"a": "string"}}, "resources": []}});
    let made = json!({"id": "made", "readyWhen": ["${made.status.state == 'Active'}"], "template": template});
    let world = World::new("Maker", json!({"spec": {}}), json!([made])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    world.delete("x").await;
    wait::until_deleted(&world.objects.definitions(), "made-by-a-graph").await;
    wait::until_deleted(&world.instances, "x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_goes_although_a_kind_of_its_objects_is_gone() {
    // Any definition starts what tests share.
    let plain = World::new("Lonely", json!({"spec": {}}), json!([])).await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "fleetings.pitfalls.test"},
        "spec": {"group": "pitfalls.test", "scope": "Namespaced", "names": {"kind": "Fleeting", "plural": "fleetings"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let crds = plain.objects.crds();
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    let fleeting = json!({"id": "fleeting", "template": {"apiVersion": "pitfalls.test/v1", "kind": "Fleeting",
        "metadata": {"name": "${schema.metadata.name}"}}});
    let world =
        World::new("Survivor", json!({"spec": {}}), json!([fleeting, config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    crds.delete("fleetings.pitfalls.test", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&crds, "fleetings.pitfalls.test").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_names_a_kind_before_the_first_object_of_it_is_written() {
    let secret = json!({"id": "secret", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${map.metadata.name}"}}});
    let resources = json!([config_map("map", json!({})), secret]);
    let world = World::new("Foresighted", json!({"spec": {}}), resources).await;
    let kinds = "applyset.kubernetes.io/contains-group-kinds";
    let broken = || Action::Answer(Answer::status(500));
    let own = |resource: &str| Requests::any().resource(resource).namespace(&world.namespace);
    // As long as the instance cannot be held, nothing is made.
    let unheld = world.proxy.on(own("foresighteds.kro.run").verb(Verb::Patch), broken());
    world.create("x", json!({})).await;
    wait::until_true("the instance to be tried", || {
        world.sent().iter().any(|sent| sent.starts_with("patch foresighteds"))
    })
    .await;
    assert_eq!(world.sent().iter().filter(|sent| sent.starts_with("apply")).count(), 0);
    // Once it is, it says what is about to be made, and keeps that although it cannot be made.
    let unfinished_hooks = world.proxy.on(own("secrets").verb(Verb::Apply), broken());
    world.proxy.remove(unheld);
    let failed = |instance: &Json| {
        let message = &condition(instance, "ResourcesReady")["message"];
        message.as_str().is_some_and(|message| message.contains("Secret"))
    };
    let held = world.until("x", failed).await;
    assert_eq!(held["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
    assert_eq!(held["metadata"]["annotations"][kinds], "ConfigMap,Secret");
    world.proxy.remove(unfinished_hooks);
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_is_served_only_once_its_status_says_that_it_compiled() {
    let world = World::new("Impatient", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let status = Requests::any().resource("graphrevisions.internal.kro.run/status").name("impatient-r00002");
    let rule = world.proxy.on(status, Action::Answer(Answer::status(500)));
    let resources = json!([config_map("a", json!({"x": "new"}))]);
    world.objects.patch("impatient", &json!({"spec": {"resources": resources}})).await;
    let waiting = world.objects.until_condition("impatient", "GraphRevisionsResolved", "Unknown").await;
    let reason = condition(&waiting, "GraphRevisionsResolved")["reason"].clone();
    assert_eq!(reason, "WaitingForGraphRevisionCompilation");
    assert_eq!(value(&world.config_maps.get("x-a").await.unwrap(), "x"), None);
    world.proxy.remove(rule);
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("new")).await;
    world.objects.until_ready("impatient").await;
    let names = world.objects.revision_names("impatient").await;
    assert_eq!(names, ["impatient-r00001", "impatient-r00002"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_was_overtaken_says_all_the_same_what_came_of_it() {
    let world = World::new("Overtaken", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    let status = Requests::any().resource("graphrevisions.internal.kro.run/status").name("overtaken-r00002");
    let rule = world.proxy.on(status, Action::Answer(Answer::status(500)));
    let edit = async |text: &str| {
        let resources = json!([config_map("a", json!({"x": text}))]);
        world.objects.patch("overtaken", &json!({"spec": {"resources": resources}})).await;
    };
    edit("second").await;
    world.objects.until_condition("overtaken", "GraphRevisionsResolved", "Unknown").await;
    edit("third").await;
    world.objects.until_ready("overtaken").await;
    let second = world.objects.get(&world.objects.revisions(), "overtaken-r00002").await;
    assert_eq!(second["status"]["conditions"], Json::Null);
    world.proxy.remove(rule);
    edit("fourth").await;
    let verified = |revision: &Json| condition(revision, "Ready")["status"] == "True";
    until(world.objects.revisions(), "overtaken-r00002".to_owned(), verified).await;
}
