//! How a new revision of a definition reaches its instances.

use kross_testing::{Action, Answer, Requests, wait};
use serde_json::{Value as Json, json};

use crate::setup::{condition, until};
use crate::world::{World, config_map, value};

#[tokio::test(flavor = "multi_thread")]
async fn rolls_out_a_new_revision_to_every_instance_and_prunes_old_objects() {
    let world = World::new(
        "Rolled",
        json!({"spec": {}}),
        json!([config_map("a", json!({})), config_map("b", json!({}))]),
    )
    .await;
    for name in ["x", "y"] {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let secret = json!({"id": "s", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-s"}}});
    world.objects.patch("rolled", &json!({"spec": {"resources": [secret]}})).await;
    for name in ["x", "y"] {
        wait::until_deleted(&world.config_maps, &format!("{name}-a")).await;
        wait::until_deleted(&world.config_maps, &format!("{name}-b")).await;
        world
            .until(name, |instance| {
                let kinds = "applyset.kubernetes.io/contains-group-kinds";
                instance["metadata"]["annotations"][kinds] == "Secret"
                    && instance["status"]["state"] == "ACTIVE"
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_a_new_status_field_to_every_instance() {
    // The API server drops unknown fields, and uses a changed schema only some time after it accepted the CRD: the later the
    // more CRDs change at once.
    let grow = |kind: String| async move {
        let world = World::new(&kind, json!({"spec": {}}), json!([])).await;
        world.create("x", json!({})).await;
        world.until_state("x", "ACTIVE").await;
        for number in 0..8 {
            let field = format!("field{number}");
            let status = json!({"spec": {"schema": {"status": {&field: "${schema.metadata.name}"}}}});
            world.objects.patch(&kind.to_lowercase(), &status).await;
            world.until("x", |instance| instance["status"][&field] == "x").await;
        }
    };
    futures::future::join_all((0..12).map(|number| grow(format!("Growing{number}")))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_a_revision_only_once_its_status_says_that_it_compiled() {
    let world = World::new("ServedLate", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let status = Requests::any().resource("graphrevisions.internal.kro.run/status").name("servedlate-r00002");
    let rule = world.proxy.on(status, Action::Answer(Answer::status(500)));
    let resources = json!([config_map("a", json!({"x": "new"}))]);
    world.objects.patch("servedlate", &json!({"spec": {"resources": resources}})).await;
    let waiting = world.objects.until_condition("servedlate", "GraphRevisionsResolved", "Unknown").await;
    let reason = condition(&waiting, "GraphRevisionsResolved")["reason"].clone();
    assert_eq!(reason, "WaitingForGraphRevisionCompilation");
    assert_eq!(value(&world.config_maps.get("x-a").await.unwrap(), "x"), None);
    world.proxy.remove(rule);
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("new")).await;
    world.objects.until_ready("servedlate").await;
    let names = world.objects.revision_names("servedlate").await;
    assert_eq!(names, ["servedlate-r00001", "servedlate-r00002"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_the_compilation_of_a_superseded_revision() {
    let world = World::new("Superseded", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    let status = Requests::any().resource("graphrevisions.internal.kro.run/status").name("superseded-r00002");
    let rule = world.proxy.on(status, Action::Answer(Answer::status(500)));
    let edit = async |text: &str| {
        let resources = json!([config_map("a", json!({"x": text}))]);
        world.objects.patch("superseded", &json!({"spec": {"resources": resources}})).await;
    };
    edit("second").await;
    world.objects.until_condition("superseded", "GraphRevisionsResolved", "Unknown").await;
    edit("third").await;
    world.objects.until_ready("superseded").await;
    let second = world.objects.get(&world.objects.revisions(), "superseded-r00002").await;
    assert_eq!(second["status"]["conditions"], Json::Null);
    world.proxy.remove(rule);
    edit("fourth").await;
    let verified = |revision: &Json| condition(revision, "Ready")["status"] == "True";
    until(world.objects.revisions(), "superseded-r00002".to_owned(), verified).await;
}
