//! The admission webhook, with a real API server and `kubectl apply`: mistakes are refused, all of them are shown, warnings are
//! shown, and certificates are rotated while it is called.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "webhook/world.rs"]
mod world;

use kross_testing::wait;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use world::{CONFIGURATION, World, config_map, configurations, create, definition, invalid};

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_apply_shows_every_mistake_of_a_definition_that_is_refused() {
    let world = World::get().await;
    for webhook in ["leader", "standby"] {
        let answer = world.apply(&invalid("shop", webhook));
        assert!(!answer.accepted);
        insta::assert_snapshot!("refused", answer.notes);
        assert!(world.definitions().get_opt("shop").await.unwrap().is_none());
    }
    // A client that does not know causes shows the message.
    let list = json!({"apiVersion": "v1", "kind": "List",
        "items": [invalid("shop", "leader"), invalid("shop", "standby")]});
    insta::assert_snapshot!("refused_in_a_list", world.apply(&list).notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mistakes_are_those_that_the_controller_finds_without_the_webhook() {
    let world = World::get().await;
    assert!(world.apply(&invalid("same", "none")).accepted, "without the webhook, all is as on kro");
    let message = world.until_condition("same", "GraphAccepted", "False").await;
    let patched = world.patch("same", &json!({"metadata": {"labels": {"webhook": "leader"}}})).await;
    assert!(patched.is_ok(), "the spec is stored already");
    let refused = world.patch("same", &json!({"spec": {"schema": {"spec": {"more": "string"}}}})).await;
    let kube::Error::Api(status) = refused.unwrap_err() else { panic!() };
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.len(), 3, "{causes:?}");
    let joined: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    assert_eq!(joined.join("; "), message);
    // A definition with mistakes can be deleted, and its finalizer removed.
    world.definitions().delete("same", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&world.definitions(), "same").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_may_be_served_later_is_a_warning() {
    let world = World::get().await;
    let gizmo = json!([{"id": "gizmo", "template": {"apiVersion": "example.com/v1", "kind": "Gizmo",
        "metadata": {"name": "${schema.metadata.name}"}}}]);
    let answer = world.dry_run(&definition("early", "leader", &gizmo));
    assert!(answer.accepted, "{answer:?}");
    insta::assert_snapshot!("kind_that_may_be_served_later", answer.notes);
    let typo = json!([{"id": "web", "template": {"apiVersion": "apps/v1", "kind": "Deploymnt",
        "metadata": {"name": "${schema.metadata.name}"}}}]);
    let answer = world.dry_run(&definition("early", "leader", &typo));
    assert!(!answer.accepted && answer.notes.contains("Deployment"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaking_change_is_a_warning_that_counts_the_instances() {
    let world = World::get().await;
    let mut wide = definition("wide", "leader", &config_map("${string(schema.spec.size)}"));
    let answer = world.apply(&wide);
    assert!(answer.accepted && answer.notes.is_empty(), "{answer:?}");
    world.until_condition("wide", "Ready", "True").await;
    for name in ["one", "two"] {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Wide", "metadata": {"name": name}});
        let instance = serde_json::from_value(instance).unwrap();
        wait::create_once_served(&world.instances("Wide"), &instance).await;
    }
    wide["spec"]["schema"]["spec"]["size"] = json!("string");
    wide["spec"]["resources"] = config_map("${schema.spec.size}");
    // The count is that of the cache.
    let answer = wait::until("both instances to be counted", || async {
        let answer = world.dry_run(&wide);
        if answer.notes.contains("2 instances") { Ok(answer) } else { Err(answer.notes) }
    })
    .await;
    assert!(answer.accepted);
    insta::assert_snapshot!("breaking_change", answer.notes);
    // A webhook is asked if the old object or the new one has its label.
    world.patch("wide", &json!({"metadata": {"labels": {"webhook": "standby"}}})).await.unwrap();
    wide["metadata"]["labels"]["webhook"] = json!("standby");
    insta::assert_snapshot!("breaking_change_on_a_standby", world.dry_run(&wide).notes);
    wide["metadata"]["annotations"] = json!({"kro.run/allow-breaking-changes": "true"});
    wide["metadata"]["labels"]["webhook"] = json!("leader");
    world.patch("wide", &json!({"metadata": {"labels": {"webhook": "leader"}}})).await.unwrap();
    insta::assert_snapshot!("breaking_change_that_is_allowed", world.apply(&wide).notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_down_lets_definitions_pass() {
    let world = World::get().await;
    let answer = world.dry_run(&invalid("down", "down"));
    assert!(answer.accepted, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_rotated_without_an_unanswered_request() {
    let world = World::get().await;
    let seen = std::sync::Mutex::new(vec![world.certificate().await]);
    wait::until("the certificate to be rotated twice", || async {
        for webhook in ["leader", "standby"] {
            let definition = definition("rotation", webhook, &config_map("${schema.spec.sise}"));
            let refused = world.dry_run_directly(&definition).await;
            assert!(refused.contains("is invalid"), "{refused}");
        }
        let current = world.certificate().await;
        let mut seen = seen.lock().unwrap();
        if !seen.contains(&current) {
            seen.push(current);
        }
        if seen.len() > 2 { Ok(()) } else { Err(format!("{} certificates", seen.len())) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_somebody_empties_is_written_again() {
    let world = World::get().await;
    let configurations = configurations(&world.client);
    let bundle = |configuration: &kube::api::DynamicObject| {
        configuration.data["webhooks"][2]["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned()
    };
    wait::until("the bundle to be removed", || async {
        let mut found = configurations.get(CONFIGURATION).await.unwrap();
        found.data["webhooks"][2]["clientConfig"].as_object_mut().unwrap().remove("caBundle");
        let replaced = configurations.replace(CONFIGURATION, &PostParams::default(), &found).await;
        replaced.map_err(|error| error.to_string())
    })
    .await;
    wait::until_object(&configurations, CONFIGURATION, |found| !bundle(found).is_empty()).await;
    create(&world.definitions(), definition("after", "leader", &config_map("x"))).await;
}
