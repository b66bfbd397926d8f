//! Deleting an instance and its objects.

use std::time::Duration;

use kross_testing::{Action, Answer, Requests, Verb, objects, wait};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn deletes_objects_in_reverse_order_and_then_the_instance() {
    let resources = json!([config_map("a", json!({})), config_map("b", json!({"a": "${a.metadata.name}"}))]);
    let world = World::new("ReverseOrder", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let hold = |finalizers| json!({"metadata": {"finalizers": finalizers}});
    let held = hold(json!(["test.kross.run/hold"]));
    world.config_maps.patch("x-b", &PatchParams::default(), &Patch::Merge(held)).await.unwrap();
    world.delete("x").await;
    let deleting =
        world.until("x", |instance| condition(instance, "ResourcesReady")["reason"] == "UnderDeletion").await;
    assert_eq!(deleting["status"]["state"], "DELETING");
    wait::until_object(&world.config_maps, "x-b", |object| object.metadata.deletion_timestamp.is_some())
        .await;
    // `b` depends on `a`, so `a` is not deleted while `b` exists.
    assert!(world.config_maps.get("x-a").await.unwrap().metadata.deletion_timestamp.is_none());
    let release = hold(json!([]));
    world.config_maps.patch("x-b", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_a_chain_without_finalizers_in_one_pass() {
    let resources = json!([
        config_map("a", json!({})),
        config_map("b", json!({"a": "${a.metadata.name}"})),
        config_map("c", json!({"b": "${b.metadata.name}"})),
    ]);
    let world = World::new("Swift", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let before = world.sent_requests().len();
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    let ns = &world.namespace;
    let sent = world.sent_requests();
    let expected = [
        format!("list configmaps {ns}"),
        format!("update swifts.kro.run/status {ns}/x"),
        format!("delete configmaps {ns}/x-c"),
        format!("delete configmaps {ns}/x-b"),
        format!("delete configmaps {ns}/x-a"),
        // The proof that nothing is left.
        format!("list configmaps {ns}"),
        format!("patch swifts.kro.run {ns}/x"),
    ];
    assert_eq!(sent.get(before..).unwrap(), expected);
    for id in ["a", "b", "c"] {
        assert!(world.config_maps.get_opt(&format!("x-{id}")).await.unwrap().is_none(), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_an_instance_whose_graph_cannot_be_evaluated() {
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "needed"}}});
    let resources =
        json!([outside, config_map("a", json!({"x": "${string(int(outside.data.x) / schema.spec.by)}"}))]);
    let world = World::new("Unevaluable", json!({"spec": {"by": "integer | default=1"}}), resources).await;
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
async fn deletes_an_instance_after_the_crd_of_its_objects_was_deleted() {
    // Any definition starts the shared hub and controller.
    let plain = World::new("StartsController", json!({"spec": {}}), json!([])).await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "removeds.removed-kind.test"},
        "spec": {"group": "removed-kind.test", "scope": "Namespaced", "names": {"kind": "Removed", "plural": "removeds"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let crds = plain.objects.crds();
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    let removed = json!({"id": "removed", "template": {"apiVersion": "removed-kind.test/v1", "kind": "Removed",
        "metadata": {"name": "${schema.metadata.name}"}}});
    let world =
        World::new("KindDeleted", json!({"spec": {}}), json!([removed, config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    crds.delete("removeds.removed-kind.test", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&crds, "removeds.removed-kind.test").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn observes_again_after_a_delete_fails_on_its_uid_precondition() {
    let mut second = config_map("b", json!({}));
    second["includeWhen"] = json!(["${schema.spec.both}"]);
    let resources = json!([config_map("a", json!({})), second]);
    let world = World::new("OutdatedUid", json!({"spec": {"both": "boolean"}}), resources).await;
    world.create("x", json!({"both": true})).await;
    world.until_state("x", "ACTIVE").await;
    let deletes = |name: &str| Requests::any().verb(Verb::Delete).namespace(&world.namespace).name(name);
    let conflict =
        || Action::Answer(Answer::status(409).message("the UID in the precondition is another one"));
    world.proxy.on_next(1, deletes("x-b"), conflict());
    world.patch("x", json!({"spec": {"both": false}})).await;
    wait::until_deleted(&world.config_maps, "x-b").await;
    world.proxy.on_next(1, deletes("x-a"), conflict());
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_continues_although_somebody_changed_the_labels_of_the_object_that_it_waits_for() {
    let resources = json!([config_map("a", json!({})), config_map("b", json!({"a": "${a.metadata.name}"}))]);
    let world = World::new("Relabelled", json!({"spec": {}}), resources).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let patch = async |metadata: serde_json::Value| {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        world.config_maps.patch("x-b", &PatchParams::default(), &patch).await.unwrap();
    };
    patch(json!({"finalizers": ["test.kross.run/hold"]})).await;
    world.delete("x").await;
    wait::until_object(&world.config_maps, "x-b", |object| object.metadata.deletion_timestamp.is_some())
        .await;
    // From now on the events of the object lead to another instance.
    patch(json!({"labels": {"kro.run/instance-name": "another"}})).await;
    world.until_quiet(Duration::from_secs(1)).await;
    patch(json!({"finalizers": []})).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}
