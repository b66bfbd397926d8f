//! What happens when an instance, its objects or its definition change.

use kross_testing::{objects, wait};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, config_map, edit, value};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_edited_or_deleted_is_repaired() {
    let world = World::new("Drift", json!({"spec": {}}), json!([config_map("a", json!({"x": "1"}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    edit(&world.config_maps, "x-a", json!({"x": "2"})).await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("1")).await;
    // A field that is not ours stays as it is.
    edit(&world.config_maps, "x-a", json!({"other": "3"})).await;
    edit(&world.config_maps, "x-a", json!({"x": "4"})).await;
    let repaired =
        wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("1")).await;
    assert_eq!(value(&repaired, "other"), Some("3"));
    world.config_maps.delete("x-a", &DeleteParams::default()).await.unwrap();
    let uid = repaired.metadata.uid;
    wait::until_object(&world.config_maps, "x-a", |object| object.metadata.uid != uid).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_instance_no_longer_wants_is_removed() {
    let mut optional = config_map("b", json!({}));
    optional["includeWhen"] = json!(["${schema.spec.both}"]);
    let mut secret = json!({"id": "s", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-s"}}});
    secret["includeWhen"] = json!(["${schema.spec.both}"]);
    let schema = json!({"spec": {"both": "boolean", "text": "string | default=a"}});
    let resources = json!([config_map("a", json!({"x": "${schema.spec.text}"})), optional, secret]);
    let world = World::new("Optional", schema, resources).await;
    world.create("x", json!({"both": true})).await;
    let with = world.until_state("x", "ACTIVE").await;
    let kinds = "applyset.kubernetes.io/contains-group-kinds";
    assert_eq!(with["metadata"]["annotations"][kinds], "ConfigMap,Secret");
    wait::until_object(&world.config_maps, "x-b", |_| true).await;
    world.patch("x", json!({"spec": {"both": false, "text": "b"}})).await;
    wait::until_deleted(&world.config_maps, "x-b").await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("b")).await;
    world
        .until("x", |instance| {
            instance["status"]["state"] == "ACTIVE"
                && instance["metadata"]["annotations"][kinds] == "ConfigMap"
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_grows_and_shrinks() {
    let mut zones = config_map("zones", json!({"zone": "${zone}"}));
    zones["forEach"] = json!([{"zone": "${schema.spec.zones}"}]);
    zones["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${zone}");
    let world = World::new("Zoned", json!({"spec": {"zones": "[]string"}}), json!([zones])).await;
    world.create("x", json!({"zones": ["a", "b"]})).await;
    world.until_state("x", "ACTIVE").await;
    let label = |object: &k8s_openapi::api::core::v1::ConfigMap, key: &str| {
        object.metadata.labels.as_ref().and_then(|labels| labels.get(key).cloned()).unwrap_or_default()
    };
    let second = world.config_maps.get("x-b").await.unwrap();
    assert_eq!(label(&second, "kro.run/collection-index"), "1");
    assert_eq!(label(&second, "kro.run/collection-size"), "2");
    world.patch("x", json!({"spec": {"zones": ["b", "c", "d"]}})).await;
    wait::until_deleted(&world.config_maps, "x-a").await;
    let size = |object: &_| label(object, "kro.run/collection-size") == "3";
    for name in ["x-b", "x-c", "x-d"] {
        wait::until_object(&world.config_maps, name, size).await;
    }
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_revision_reaches_every_instance_and_old_objects_go() {
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
async fn a_field_that_is_new_in_the_status_reaches_every_instance() {
    // The API server drops what it does not know, and learns of a changed CRD a moment after it has taken it: the more
    // change at once, the later.
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
async fn a_suspended_instance_is_left_alone() {
    let schema = json!({"spec": {"text": "string"}});
    let world =
        World::new("Suspended", schema, json!([config_map("a", json!({"x": "${schema.spec.text}"}))])).await;
    world.create("x", json!({"text": "1"})).await;
    world.until_state("x", "ACTIVE").await;
    let suspend =
        json!({"metadata": {"annotations": {"kro.run/reconcile": "Suspended"}}, "spec": {"text": "2"}});
    world.patch("x", suspend).await;
    let suspended = world
        .until("x", |instance| condition(instance, "ResourcesReady")["reason"] == "ReconciliationSuspended")
        .await;
    assert_eq!(suspended["status"]["state"], "ACTIVE");
    assert_eq!(value(&world.config_maps.get("x-a").await.unwrap(), "x"), Some("1"));
    world.patch("x", json!({"metadata": {"annotations": {"kro.run/reconcile": null}}})).await;
    wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("2")).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_labels_were_taken_off_is_taken_back() {
    let world =
        World::new("Stripped", json!({"spec": {}}), json!([config_map("a", json!({"x": "1"}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let before = world.config_maps.get("x-a").await.unwrap();
    let bare = json!({"metadata": {"labels": null, "annotations": null}, "data": {"x": "2"}});
    world.config_maps.patch("x-a", &PatchParams::default(), &Patch::Merge(bare)).await.unwrap();
    let after = wait::until_object(&world.config_maps, "x-a", |object| {
        object.metadata.labels == before.metadata.labels
            && object.metadata.annotations == before.metadata.annotations
    })
    .await;
    assert_eq!((value(&after, "x"), &after.metadata.uid), (Some("1"), &before.metadata.uid));
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_is_included_as_a_whole_or_not_at_all() {
    let mut zones = config_map("zones", json!({"zone": "${zone}"}));
    zones["forEach"] = json!([{"zone": "${['a', 'b']}"}]);
    zones["template"]["metadata"]["name"] = json!("${schema.metadata.name}-${zone}");
    zones["includeWhen"] = json!(["${schema.spec.wanted}"]);
    let world = World::new("AllOrNone", json!({"spec": {"wanted": "boolean"}}), json!([zones])).await;
    world.create("x", json!({"wanted": false})).await;
    world.until_state("x", "ACTIVE").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
    world.patch("x", json!({"spec": {"wanted": true}})).await;
    for name in ["x-a", "x-b"] {
        wait::until_object(&world.config_maps, name, |_| true).await;
    }
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"wanted": false}})).await;
    for name in ["x-a", "x-b"] {
        wait::until_deleted(&world.config_maps, name).await;
    }
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wanted_no_more_stays_until_everything_else_is_settled() {
    let mut old = config_map("old", json!({}));
    old["includeWhen"] = json!(["${schema.spec.old}"]);
    let outside = json!({"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.from}"}}});
    let resources = json!([old, outside, config_map("copy", json!({"x": "${outside.data.x}"}))]);
    let schema = json!({"spec": {"old": "boolean", "from": "string"}});
    let world = World::new("Cautious", schema, resources).await;
    let here = objects::config_map("here", &[("x", "here")]);
    world.config_maps.create(&PostParams::default(), &here).await.unwrap();
    world.create("x", json!({"old": true, "from": "here"})).await;
    world.until_state("x", "ACTIVE").await;
    world.patch("x", json!({"spec": {"old": false, "from": "there"}})).await;
    world.until_state("x", "IN_PROGRESS").await;
    assert!(world.config_maps.get("x-old").await.unwrap().metadata.deletion_timestamp.is_none());
    assert!(world.config_maps.get("x-copy").await.unwrap().metadata.deletion_timestamp.is_none());
    let there = objects::config_map("there", &[("x", "there")]);
    world.config_maps.create(&PostParams::default(), &there).await.unwrap();
    wait::until_deleted(&world.config_maps, "x-old").await;
    wait::until_object(&world.config_maps, "x-copy", |object| value(object, "x") == Some("there")).await;
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_instance_can_be_deleted() {
    let world = World::new("Resting", json!({"spec": {}}), json!([config_map("a", json!({}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    for word in ["suspended", "DISABLED"] {
        world.patch("x", json!({"metadata": {"annotations": {"kro.run/reconcile": word}}})).await;
        world
            .until("x", |instance| {
                condition(instance, "ResourcesReady")["reason"] == "ReconciliationSuspended"
            })
            .await;
        if word == "suspended" {
            world.patch("x", json!({"metadata": {"annotations": {"kro.run/reconcile": null}}})).await;
            world.until_state("x", "ACTIVE").await;
        }
    }
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_optional_counts_as_no() {
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
    world.until_state("x", "ACTIVE").await;
    for wanted in [true, false] {
        world.patch("x", json!({"spec": {"wanted": wanted}})).await;
        let there = async || match world.config_maps.get_opt("x-maybe").await.unwrap().is_some() {
            there if there == wanted => Ok(()),
            _ => Err("not yet".to_owned()),
        };
        wait::until("what was decided", there).await;
        world.until_state("x", "ACTIVE").await;
    }
}
