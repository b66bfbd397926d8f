//! What expressions evaluate to against a real API server, and how their errors are reported.

use k8s_openapi::api::core::v1::Secret;
use kross_testing::wait;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map, value};

fn message(instance: &serde_json::Value) -> String {
    condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn treats_an_empty_optional_as_false() {
    let mut maybe = config_map("maybe", json!({}));
    maybe["includeWhen"] = json!(["${schema.spec.?wanted}"]);
    let mut slow = config_map("slow", json!({}));
    slow["readyWhen"] = json!(["${slow.metadata.?annotations['ready'].optMap(word, word == 'yes')}"]);
    let world = World::new("Optionally", json!({"spec": {"wanted": "boolean"}}), json!([maybe, slow])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "IN_PROGRESS").await;
    assert!(world.config_maps.get_opt("x-maybe").await.unwrap().is_none());
    let ready = json!({"metadata": {"annotations": {"ready": "yes"}}});
    world.config_maps.patch("x-slow", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    wait::woken(world.until_state("x", "ACTIVE")).await;
    for wanted in [true, false] {
        world.patch("x", json!({"spec": {"wanted": wanted}})).await;
        let included = async || match world.config_maps.get_opt("x-maybe").await.unwrap().is_some() {
            exists if exists == wanted => Ok(()),
            _ => Err("not yet".to_owned()),
        };
        wait::woken(wait::until("the object to exist only if it is included", included)).await;
        world.until_state("x", "ACTIVE").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_when_has_the_types_that_it_was_validated_with() {
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
    // An empty optional means not ready, and is no error, for a single object and for a collection.
    let waiting = world.until_state("x", "IN_PROGRESS").await;
    assert!(message(&waiting).starts_with("awaiting resource readiness: "), "{}", message(&waiting));
    assert!(!message(&waiting).contains("secret"), "{}", message(&waiting));
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_single_entries_of_a_secret() {
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
async fn reports_an_error_as_such_even_if_its_text_resembles_waiting() {
    let resources = json!([config_map("a", json!({"x": "${string(int(schema.spec.text))}"}))]);
    let world = World::new("ResemblesWaiting", json!({"spec": {"text": "string"}}), resources).await;
    world.create("x", json!({"text": "no such key: index out of bounds"})).await;
    let failed = world.until_state("x", "ERROR").await;
    assert!(message(&failed).starts_with("resource error: "), "{}", message(&failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_a_missing_key_and_names_the_existing_ones() {
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
async fn an_expression_over_budget_is_an_error_that_blocks_no_other_resource() {
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
async fn does_not_loop_on_a_status_of_numbers_and_empty_lists() {
    let schema = json!({"spec": {"size": "float | default=2.0", "none": "[]string"},
        "status": {"whole": "${schema.spec.size / 2.0}", "broken": "${schema.spec.size / 4.0}",
            "empty": "${schema.spec.none.filter(n, n == '')}", "version": "${schema.metadata.resourceVersion}"}});
    let world = World::new("Numbers", schema, json!([config_map("a", json!({}))])).await;
    world.create("x", json!({"none": []})).await;
    let instance = world.until_state("x", "ACTIVE").await;
    assert_eq!(instance["status"]["whole"], 1);
    assert_eq!(instance["status"]["broken"], 0.5);
    assert_eq!(instance["status"]["empty"], json!([]));
    // Other instances go through the same queue: by then the first one would have been written again. A watch event that
    // arrives before the response to the write causes another write, but not endlessly.
    let writes = || {
        world
            .sent_requests()
            .into_iter()
            .filter(|sent| sent.starts_with("update") && sent.ends_with("/x"))
            .count()
    };
    let mut before = 0;
    for round in 0..5 {
        let name = format!("other-{round}");
        world.create(&name, json!({"none": []})).await;
        world.until_state(&name, "ACTIVE").await;
        if std::mem::replace(&mut before, writes()) == writes() {
            break;
        }
        assert!(round < 4, "{:#?}", world.sent_requests());
    }
    assert!(writes() <= 4, "{:#?}", world.sent_requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_have_the_types_that_were_validated() {
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
