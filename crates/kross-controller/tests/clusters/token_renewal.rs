//! The tokens of registered clusters are renewed before they expire, and a renewal that fails says so long before.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kross_cluster::{CredentialLifetime, KubeconfigPolicy, accept};
use kross_local::{Access, Kubeconfig, rule};
use kross_testing::{Requests, wait};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::world::{World, config_map, running, value};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A ServiceAccount that may write ConfigMaps, read the UID of the cluster and, if `renew`, request tokens for itself.
fn access(namespace: &str, account: &str, renew: bool) -> Access {
    let mut uid = rule(&[""], &["namespaces"], &["get"]);
    uid.resource_names = Some(vec!["kube-system".to_owned()]);
    let mut own = rule(&[""], &["serviceaccounts/token"], &["create"]);
    own.resource_names = Some(vec![account.to_owned()]);
    let watch = rule(&[""], &["configmaps"], &["get", "list", "watch"]);
    let write = rule(&[""], &["configmaps"], &["create", "patch", "delete"]);
    let own = renew.then_some(own);
    Access::none().in_cluster([uid, watch]).in_namespace(namespace, [write].into_iter().chain(own))
}

/// A kubeconfig for `eu`, through the proxy, with a token of 30 days of which only some are left.
async fn aged(world: &World, account: &str, renew: bool, left: Duration) -> Kubeconfig {
    let eu = world.region("eu");
    let access = access(&world.namespace, account, renew);
    let age = (30 * DAY).saturating_sub(left);
    let minted = eu.cluster.plane.mint_aged_token(&world.namespace, account, &access, (age, left)).await;
    eu.proxy.kubeconfig(&minted.unwrap()).unwrap()
}

/// Stores a kubeconfig as `kross cluster add` does.
async fn register(world: &World, name: &str, account: &str, kubeconfig: &Kubeconfig) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "labels": {"kro.run/cluster-credentials": "true"},
            "annotations": {"kro.run/token-service-account": format!("{}/{account}", world.namespace)}},
        "stringData": {"kubeconfig": kubeconfig.to_string()}});
    world.secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(secret)).await.unwrap();
}

fn kubeconfig(secret: &Secret) -> String {
    let data = secret.data.as_ref().unwrap();
    String::from_utf8(data["kubeconfig"].0.clone()).unwrap()
}

/// From when until when the token in a Secret is valid.
fn lifetime(secret: &Secret) -> CredentialLifetime {
    accept(kubeconfig(secret).as_bytes(), "team", &KubeconfigPolicy::default()).unwrap().lifetime()
}

/// Waits for an Event on a Secret of the test. Returns its message.
async fn until_event(world: &World, secret: &str, reason: &str) -> String {
    let events = world.objects.events(&world.namespace);
    wait::until(format!("an Event {reason} on {secret}"), || async {
        let listed = events.list(&ListParams::default()).await.unwrap();
        let mut found = listed
            .items
            .iter()
            .filter(|event| event.data["regarding"]["name"] == secret && event.data["reason"] == reason);
        found.next().map(|event| event.data["note"].as_str().unwrap().to_owned()).ok_or("none".to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn renews_a_token_before_it_expires_and_running_instances_do_not_notice() {
    let world = World::without_definition("Renewed").await;
    let old = aged(&world, "kross", true, 9 * DAY).await;
    register(&world, "old", "kross", &old).await;
    let mut resource = config_map("app", None, json!({"text": "${schema.spec.text}"}));
    resource["cluster"] = json!({"name": "old"});
    world
        .define(json!({"schema": {"spec": {"text": "string | default=one"}}, "resources": [resource]}))
        .await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;

    let note = until_event(&world, "old", "TokenRenewed").await;
    let secret = world.secrets.get("old").await.unwrap();
    let lifetime = lifetime(&secret);
    assert_eq!(lifetime.duration().unwrap().as_hours(), 30 * 24, "it lives as long as the one before");
    let annotations = secret.metadata.annotations.clone().unwrap();
    let until = &annotations["kro.run/token-expires-at"];
    assert_eq!(*until, lifetime.expires_at.unwrap().to_string());
    let account = format!("{}/kross", world.namespace);
    assert_eq!(note, format!("renewed the token of ServiceAccount `{account}`; it expires at {until}"));
    let text = kubeconfig(&secret);
    assert!(
        text != old.to_string() && text.split("token: ").next() == old.to_string().split("token: ").next()
    );

    let eu = world.region("eu");
    for text in ["two", "three"] {
        world.patch("x", json!({"spec": {"text": text}})).await;
        wait::until_object(&eu.config_maps, "x-app", |object| value(object, "text") == Some(text)).await;
    }
    world.until_state("x", "ACTIVE").await;
    let sent = eu.proxy.requests(&Requests::any());
    let refused: Vec<_> = sent
        .iter()
        .filter(|record| record.status().is_some_and(|status| status == 401 || status == 403))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn renews_the_token_of_a_cluster_that_nobody_uses() {
    let world = World::without_definition("Unused").await;
    let old = aged(&world, "spare", true, DAY).await;
    register(&world, "spare", "spare", &old).await;
    until_event(&world, "spare", "TokenRenewed").await;
    assert_ne!(kubeconfig(&world.secrets.get("spare").await.unwrap()), old.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_fails_says_so_while_the_token_is_valid_until_it_succeeds() {
    let world = World::without_definition("Failing").await;
    let eu = world.region("eu");
    let old = aged(&world, "weak", false, 9 * DAY).await;
    register(&world, "weak", "weak", &old).await;
    let note = until_event(&world, "weak", "TokenRenewalFailed").await;
    let account = format!("{}/weak", world.namespace);
    assert!(note.starts_with(&format!("cannot renew the token of ServiceAccount `{account}`: ")), "{note}");
    for part in [
        "cannot create resource \"serviceaccounts/token\"",
        "; it expires at ",
        "; allow the ServiceAccount to create `serviceaccounts/token` for itself in the cluster",
    ] {
        assert!(note.contains(part), "{part} is not in {note}");
    }
    assert_eq!(kubeconfig(&world.secrets.get("weak").await.unwrap()), old.to_string(), "it is still used");
    let failures = || running().metric("kross_credential_renewals_total{result=\"failed\"}");
    assert!(failures() > 0.0);
    eu.cluster
        .plane
        .mint_token(&world.namespace, "weak", &access(&world.namespace, "weak", true))
        .await
        .unwrap();
    until_event(&world, "weak", "TokenRenewed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renews_no_token_that_is_not_due_or_not_that_of_the_annotation() {
    let world = World::without_definition("Untouched").await;
    let fresh = aged(&world, "fresh", true, 20 * DAY).await;
    register(&world, "fresh", "fresh", &fresh).await;
    let foreign = aged(&world, "foreign", true, DAY).await;
    register(&world, "foreign", "somebody", &foreign).await;
    let note = until_event(&world, "foreign", "TokenRenewalFailed").await;
    let somebody = format!("{}/somebody", world.namespace);
    let problem = format!("the token in the Secret is not one of ServiceAccount `{somebody}`");
    assert!(note.contains(&problem), "{note}");
    for (name, kubeconfig_before) in [("fresh", &fresh), ("foreign", &foreign)] {
        let now = kubeconfig(&world.secrets.get(name).await.unwrap());
        assert_eq!(now, kubeconfig_before.to_string(), "{name}");
    }
    let tokens = Requests::any().resource("serviceaccounts");
    assert_eq!(world.region("eu").proxy.count(&tokens), 0);
}
