//! What kro still gets wrong, one test for each: here it is right.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kross_testing::{Action, Answer, Requests, Verb, objects, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map, edit, value};

fn message(instance: &serde_json::Value) -> String {
    condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_in_another_namespace_is_repaired_by_its_event() {
    let mut maps = config_map("maps", json!({"x": "1"}));
    maps["forEach"] = json!([{"space": "${schema.spec.spaces}"}]);
    maps["template"]["metadata"] = json!({"name": "${schema.metadata.name}-far", "namespace": "${space}"});
    let world = World::new("Faraway", json!({"spec": {"spaces": "[]string"}}), json!([maps])).await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.objects.client.clone());
    let other = format!("{}-far", world.namespace);
    namespaces.create(&PostParams::default(), &objects::namespace(&other)).await.unwrap();
    world.create("x", json!({"spaces": [other]})).await;
    world.until_state("x", "ACTIVE").await;
    let far: Api<ConfigMap> = Api::namespaced(world.objects.client.clone(), &other);
    edit(&far, "x-far", json!({"x": "2"})).await;
    wait::until_object(&far, "x-far", |object| value(object, "x") == Some("1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn external_objects_found_by_labels_can_become_ready() {
    let outside = json!({"id": "outside", "readyWhen": ["${each.data.?ready.orValue('no') == 'yes'}"],
        "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "${schema.metadata.namespace}", "selector": {"matchLabels": {"ready": "maybe"}}}}});
    let resources = json!([outside, config_map("after", json!({"n": "${string(size(outside))}"}))]);
    let world = World::new("ReadyOutside", json!({"spec": {}}), resources).await;
    let mut one = objects::config_map("one", &[("ready", "no")]);
    one.metadata.labels = Some([("ready".to_owned(), "maybe".to_owned())].into());
    world.config_maps.create(&PostParams::default(), &one).await.unwrap();
    world.create("x", json!({})).await;
    world.until_state("x", "IN_PROGRESS").await;
    edit(&world.config_maps, "one", json!({"ready": "yes"})).await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(value(&world.config_maps.get("x-after").await.unwrap(), "n"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_when_sees_the_types_that_it_was_checked_with() {
    let mut single = config_map("single", json!({"a": "b"}));
    single["readyWhen"] = json!([
        "${single.metadata.creationTimestamp.getFullYear() > 2000}",
        "${single.data[?'a'].hasValue()}"
    ]);
    let mut many = config_map("many", json!({"a": "b"}));
    many["forEach"] = json!([{"name": "${['p', 'q']}"}]);
    many["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${name}");
    many["readyWhen"] = json!([
        "${each.metadata.creationTimestamp < timestamp('2100-01-01T00:00:00Z')}",
        "${each.metadata.?annotations['ready'].optMap(r, r == 'yes')}"
    ]);
    let secret = json!({"id": "secret", "readyWhen": ["${secret.data.word == b'hello'}"],
        "template": {"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "${schema.metadata.name}-secret"}, "stringData": {"word": "hello"}}});
    let world = World::new("TypedReady", json!({"spec": {}}), json!([single, many, secret])).await;
    world.create("x", json!({})).await;
    // An optional that is empty is not ready, and no error: for one object and for a collection alike.
    let waiting = world.until_state("x", "IN_PROGRESS").await;
    assert!(message(&waiting).starts_with("awaiting resource readiness: "), "{}", message(&waiting));
    assert!(!message(&waiting).contains("secret"), "{}", message(&waiting));
}

#[tokio::test(flavor = "multi_thread")]
async fn single_entries_of_a_secret_can_be_written() {
    let secret = json!({"id": "secret", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-secret"},
        "data": {"word": "${base64.encode(bytes(schema.spec.word))}"}}});
    let world = World::new("OneEntry", json!({"spec": {"word": "string"}}), json!([secret])).await;
    world.create("x", json!({"word": "hello"})).await;
    world.until_state("x", "ACTIVE").await;
    let secrets: Api<Secret> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let data = secrets.get("x-secret").await.unwrap().data.unwrap();
    assert_eq!(data["word"].0, b"hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_whose_text_sounds_like_waiting_is_an_error() {
    let resources = json!([config_map("a", json!({"x": "${string(int(schema.spec.text))}"}))]);
    let world = World::new("Sounding", json!({"spec": {"text": "string"}}), resources).await;
    world.create("x", json!({"text": "no such key: index out of bounds"})).await;
    let failed = world.until_state("x", "ERROR").await;
    assert!(message(&failed).starts_with("resource error: "), "{}", message(&failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_missing_is_waited_for_and_named_with_those_that_exist() {
    let resources =
        json!([config_map("a", json!({"present": "1"})), config_map("b", json!({"x": "${a.data.absent}"})),]);
    let world = World::new("KeyMissing", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    let waiting = world.until_state("x", "IN_PROGRESS").await;
    let text = message(&waiting);
    assert!(text.starts_with("resource reconciliation failed: waiting for unresolved resource: "), "{text}");
    assert!(text.contains("absent") && text.contains("present"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expression_that_costs_too_much_is_an_error_that_holds_up_nobody_else() {
    let costly = "${string(lists.range(2000).map(a, lists.range(2000).map(b, lists.range(2000).map(c, a + b + c))).size())}";
    let resources = json!([config_map("costly", json!({"x": costly})), config_map("cheap", json!({}))]);
    let world = World::new("Costly", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ERROR").await;
    wait::until_object(&world.config_maps, "x-cheap", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn braces_in_single_quotes_belong_to_the_string() {
    let resources = json!([config_map("a", json!({"x": "${'}' + schema.spec.text + '{'}"}))]);
    let world =
        World::new("Braced", json!({"spec": {"text": "string | default=\"say \\\"hi\\\"\""}}), resources)
            .await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    assert_eq!(value(&world.config_maps.get("x-a").await.unwrap(), "x"), Some("}say \"hi\"{"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_another_instance_lets_go_of_is_taken_at_once() {
    let mut shared = config_map("shared", json!({"of": "${schema.metadata.name}"}));
    shared["template"]["metadata"]["name"] = json!("the-only-one");
    let world = World::new("Waiting", json!({"spec": {}}), json!([shared])).await;
    world.create("first", json!({})).await;
    world.until_state("first", "ACTIVE").await;
    world.create("second", json!({})).await;
    world.until_state("second", "ERROR").await;
    world.delete("first").await;
    world.until_state("second", "ACTIVE").await;
    assert_eq!(value(&world.config_maps.get("the-only-one").await.unwrap(), "of"), Some("second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_may_not_be_read_degrades_only_those_who_use_it_and_says_so() {
    let others = World::new("Unlimited", json!({"spec": {}}), json!([config_map("map", json!({}))])).await;
    let refusal =
        Answer::status(403).message("resourcequotas is forbidden: User \"kross\" cannot list resourcequotas");
    // A kind that no other test uses.
    let rule = others.proxy.on(Requests::any().resource("resourcequotas"), Action::Answer(refusal));
    let limits = json!({"id": "limits", "template": {"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "${schema.metadata.name}"}, "spec": {"hard": {"pods": "2"}}}});
    let world = World::new("Limited", json!({"spec": {}}), json!([limits])).await;
    world.create("x", json!({})).await;
    let said = world.until("x", |instance| condition(instance, "Ready")["status"] == "False").await;
    let message = condition(&said, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("ResourceQuota") && message.contains("cannot list resourcequotas"), "{message}");
    others.create("y", json!({})).await;
    others.until_state("y", "ACTIVE").await;
    others.proxy.remove(rule);
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_collection_is_not_written_all_at_once() {
    let mut maps = config_map("maps", json!({}));
    maps["forEach"] = json!([{"n": "${lists.range(60)}"}]);
    maps["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${string(n)}");
    let world = World::new("Throng", json!({"spec": {}}), json!([maps])).await;
    let applies = Requests::any().verb(Verb::Apply).resource("configmaps").namespace(&world.namespace);
    let rule = world.proxy.on(applies.clone(), Action::Hold);
    world.create("x", json!({})).await;
    wait::until_true("some of it to be under way", || world.proxy.count(&applies) >= 16).await;
    // Another instance is made meanwhile, which is time enough for more.
    let others = World::new("Bystander", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    others.create("y", json!({})).await;
    others.until_state("y", "ACTIVE").await;
    assert_eq!(world.proxy.count(&applies), 16);
    world.proxy.remove(rule);
    world.until_state("x", "ACTIVE").await;
}
