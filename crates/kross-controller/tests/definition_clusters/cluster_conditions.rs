//! The conditions of a definition about its clusters: which one reports which connection step.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kross_local::Access;
use kross_testing::{Fault, wait};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::{condition, definition};
use crate::world::{World, message, types};

/// Replaces the data of the Secret that definitions name.
async fn apply_secret_data(world: &World, key: &str, text: &str) {
    let mut secret = Secret::default();
    secret.metadata.name = Some("eu-kubeconfig".to_owned());
    secret.data = Some([(key.to_owned(), ByteString(text.as_bytes().to_vec()))].into());
    let params = PatchParams::apply("test").force();
    world.secrets().patch("eu-kubeconfig", &params, &Patch::Apply(&secret)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_each_connection_step_in_its_condition_until_the_cluster_is_usable() {
    let world = World::new().await;
    let name = world.unique_name("steps");
    world.hub.create(&world.definition(&name, &world.config_map())).await;
    let (not_reached, missing) = ("Unknown NotReached", "False SecretNotAvailable");
    let found = wait::woken(world.until_cluster_conditions(&name, missing, not_reached, not_reached)).await;
    assert_eq!(found["status"]["state"], "Inactive");
    let reference = format!("`{}/eu-kubeconfig`", world.namespace());
    assert!(message(&found, "ClusterValidated").contains(&reference), "{found:#}");
    assert_eq!(condition(&found, "Ready")["status"], "False");
    assert_eq!(condition(&found, "GraphAccepted")["status"], "True");
    assert!(
        world.hub.revision_names(&name).await.is_empty(),
        "no revision is issued before the definition is accepted"
    );

    apply_secret_data(&world, "config", "x").await;
    let found = wait::woken(world.until_cluster_conditions(
        &name,
        "False SecretKeyMissing",
        not_reached,
        not_reached,
    ))
    .await;
    assert!(message(&found, "ClusterValidated").contains("`kubeconfig`"), "{found:#}");

    apply_secret_data(&world, "kubeconfig", "not a kubeconfig").await;
    wait::woken(world.until_cluster_conditions(&name, "False KubeconfigInvalid", not_reached, not_reached))
        .await;

    world.proxy.set(Fault::Refuse);
    world.apply_secret(&world.admin()).await;
    let found =
        wait::woken(world.until_cluster_conditions(&name, not_reached, "False Unreachable", not_reached))
            .await;
    assert!(message(&found, "ClusterAccessible").contains(&reference), "{found:#}");
    assert_eq!(found["status"]["state"], "Inactive");
    world.proxy.set(Fault::Pass);
    wait::woken(world.until_accepted(&name)).await;

    let other = world.unique_name("refused");
    let eu = world.fixture.remote("eu").plane;
    let revoked = eu.mint_revoked_token(world.namespace(), "revoked", &Access::all()).await.unwrap();
    world.apply_secret(&world.proxy.kubeconfig(&revoked).unwrap()).await;
    let authentication = "False AuthenticationFailed";
    // The first definition was accepted before, so it stays active.
    let found =
        wait::woken(world.until_cluster_conditions(&name, authentication, "True Accessible", not_reached))
            .await;
    assert_eq!(found["status"]["state"], "Active");
    let mut second = world.definition(&other, &world.config_map());
    second["spec"]["schema"]["kind"] = json!(world.unique_kind("Refused"));
    world.hub.create(&second).await;
    let found =
        wait::woken(world.until_cluster_conditions(&other, authentication, "True Accessible", not_reached))
            .await;
    assert_eq!(found["status"]["state"], "Inactive");
    world.apply_secret(&world.admin()).await;
    wait::woken(world.until_accepted(&other)).await;
    wait::woken(world.until_accepted(&name)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn defers_references_that_need_an_instance_and_reports_no_clusters_for_local_graphs() {
    let world = World::new().await;
    let deferred = world.unique_name("deferred");
    let mut rgd = world.definition(&deferred, &world.config_map());
    rgd["spec"]["cluster"] = json!({"name": "${schema.metadata.name}-kubeconfig"});
    world.hub.create(&rgd).await;
    let found = world.hub.until_ready(&deferred).await;
    assert_eq!(found["status"]["state"], "Active");
    world.until_cluster_conditions(&deferred, "True Deferred", "True Deferred", "True Deferred").await;

    let local = world.unique_name("local");
    world.hub.create(&definition(&local, &world.unique_kind("Local"))).await;
    let found = world.hub.until_ready(&local).await;
    let expected = ["ControllerReady", "GraphAccepted", "GraphRevisionsResolved", "KindReady", "Ready"];
    assert_eq!(types(&found), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_the_state_of_every_cluster_of_a_graph() {
    let world = World::new().await;
    world.apply_secret(&world.admin()).await;
    let name = world.unique_name("several");
    let mut rgd = world.definition(&name, &world.config_map());
    let second = json!({"id": "two", "template": world.config_map(),
        "cluster": {"name": "us", "kubeconfigSecret": {"name": "us-kubeconfig", "namespace": world.namespace()}}});
    rgd["spec"]["resources"].as_array_mut().unwrap().push(second);
    world.hub.create(&rgd).await;
    let (missing, not_reached) = ("False SecretNotAvailable", "Unknown NotReached");
    let found = world.until_cluster_conditions(&name, missing, not_reached, not_reached).await;
    let text = message(&found, "ClusterValidated");
    let (connected, failed) = (
        text.find(&format!(
            "cluster `{}/eu-kubeconfig`: kubeconfig and credentials are good",
            world.namespace()
        )),
        text.find(&format!("{}/us-kubeconfig", world.namespace())),
    );
    assert!(failed < connected, "the failed cluster comes first: {text}");
    assert_eq!(found["status"]["state"], "Inactive");

    let params = PatchParams::apply("test").force();
    let secret = kross_testing::objects::kubeconfig_secret("us-kubeconfig", &world.admin());
    world.secrets().patch("us-kubeconfig", &params, &Patch::Apply(&secret)).await.unwrap();
    let found = wait::woken(world.until_accepted(&name)).await;
    let text = message(&found, "StaticAnalysisComplete");
    assert!(text.contains("/eu-kubeconfig`") && text.contains("us ("), "{text}");
}
