//! Targets that cannot be used: what the instance says, and that it goes on as soon as they can.

use kross_testing::wait;
use kube::Api;
use serde_json::{Value as Json, json};

use crate::instance_api::InstanceApi;
use crate::published::{Published, by_name, entry};
use crate::setup::condition;
use crate::world::config_map;

fn spec() -> Json {
    json!({"schema": {"spec": {"target": "string"}}, "target": by_name("${schema.spec.target}"),
        "resources": [config_map("app", None, json!({}))]})
}

fn message(instance: &Json, kind: &str) -> String {
    condition(instance, kind)["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_says_which_part_of_a_target_is_missing() {
    let published = Published::new("UnusableTarget").await;
    published.define(spec()).await;
    published.create("x", json!({"target": "later"})).await;
    let namespace = published.namespace.clone();
    let absent = published.until_condition("x", ("ClusterResolved", "False", "NoTarget")).await;
    let text = message(&absent, "ClusterResolved");
    assert!(text.contains(&format!("KubernetesTarget `{namespace}/later` does not exist")), "{text}");

    let managed = json!({"clusterRef": {"apiVersion": "example.com/v1", "kind": "Absent", "name": "eu"}});
    published.targets.apply("managed", json!({}), managed).await;
    published.patch("x", json!({"spec": {"target": "managed"}})).await;
    let without = published.until_condition("x", ("ClusterResolved", "False", "TargetNotReady")).await;
    let text = message(&without, "ClusterResolved");
    assert!(
        text.contains(&format!("KubernetesTarget `{namespace}/managed` has no connection Secret")),
        "{text}"
    );

    let local = json!({"connectionSecretRef": {"name": "late-connection"}});
    published.targets.apply("later", json!({}), local).await;
    published.patch("x", json!({"spec": {"target": "later"}})).await;
    let missing = published.until_condition("x", ("ClusterResolved", "False", "SecretNotAvailable")).await;
    let text = message(&missing, "ClusterResolved");
    assert!(
        text.contains(&format!("connection Secret `{namespace}/late-connection` does not exist")),
        "{text}"
    );
    assert!(published.region("eu").config_maps.get_opt("x-app").await.unwrap().is_none());

    published.connect("late-connection", "eu").await;
    published.targets.set_ready("later").await;
    wait::woken(wait::until_object(&published.region("eu").config_maps, "x-app", |_| true)).await;
    published.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_another_namespace_cannot_be_used() {
    let published = Published::new("ForeignTarget").await;
    published.publish("eu", json!({})).await;
    published.define(spec()).await;
    let client = published.objects.client.clone();
    let other = format!("{}-other", published.namespace);
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
    namespaces.create(&Default::default(), &kross_testing::objects::namespace(&other)).await.unwrap();
    let instances = InstanceApi::new(&published.objects, "ForeignTarget", &other);
    instances.create("x", json!({"target": "eu"})).await;
    let is_refused = |instance: &Json| condition(instance, "ClusterResolved")["reason"] == "NoTarget";
    let refused = instances.until("x", is_refused).await;
    let text = message(&refused, "ClusterResolved");
    assert!(text.contains(&format!("KubernetesTarget `{other}/eu` does not exist")), "{text}");
    assert_eq!(entry(&refused, "eu")["uid"], Json::Null, "{refused:#}");
    // Nor is its connection Secret a kubeconfig Secret that a reference can name.
    let direct = Published::new("DirectSecret").await;
    direct.publish("eu", json!({})).await;
    let cluster = json!({"name": "eu-connection"});
    let resources = json!([config_map("app", None, json!({}))]);
    direct.define(json!({"schema": {"spec": {}}, "cluster": cluster, "resources": resources})).await;
    direct.create("x", json!({})).await;
    direct.until_condition("x", ("ClusterResolved", "False", "SecretNotAvailable")).await;
    assert!(direct.region("eu").config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_on_another_cluster_stops_its_users_until_that_is_confirmed_on_the_target() {
    let published = Published::new("MovedTarget").await;
    published.publish("eu", json!({})).await;
    published.define(spec()).await;
    for name in ["x", "y"] {
        published.create(name, json!({"target": "eu"})).await;
        published.until_state(name, "ACTIVE").await;
    }
    published.connect("us-connection", "us").await;
    published.targets.patch("eu", json!({"spec": {"connectionSecretRef": {"name": "us-connection"}}})).await;
    let us = published.region("us");
    let mut uid = String::new();
    for name in ["x", "y"] {
        let stopped =
            published.until_condition(name, ("RemoteClusterConnected", "False", "IdentityChanged")).await;
        let text = message(&stopped, "RemoteClusterConnected");
        let command = format!(
            "kubectl annotate kubernetestarget eu -n {} kro.run/confirm-cluster=",
            published.namespace
        );
        assert!(text.contains(&command), "{text}");
        let after = text.split(&command).nth(1).unwrap();
        uid = after.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
        assert!(us.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_none());
    }
    assert_eq!(uid.len(), 36, "{uid}");
    published
        .targets
        .patch("eu", json!({"metadata": {"annotations": {"kro.run/confirm-cluster": uid}}}))
        .await;
    for name in ["x", "y"] {
        wait::woken(wait::until_object(&us.config_maps, &format!("{name}-app"), |_| true)).await;
    }
}
