//! What a consumer must not be able to do: publish, read credentials, or reach a cluster that is not published to its namespace.

use kross_local::Access;
use kross_testing::wait;
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{User, World, status_code};

const OWN: &str = "isolated-team";
const FOREIGN: &str = "other-team";

/// A target in the namespace of the consumer, and one in another namespace, each with its own Secret.
async fn published(world: &World) -> User {
    for (namespace, name, remote) in [(OWN, "own", "dev"), (FOREIGN, "foreign", "stage")] {
        world.admin.namespace(namespace).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-credentials"), "namespace": namespace},
            "stringData": {"kubeconfig": world.kubeconfig(remote).to_string()}});
        world.admin.apply(&secret).await.unwrap();
        let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"connectionSecretRef": {"name": format!("{name}-credentials")}}});
        world.admin.apply(&target).await.unwrap();
        let targets = world.admin.api("KubernetesTarget", Some(namespace));
        world.admin.until_condition(&targets, name, ("Ready", "True")).await;
    }
    let consumer = world.user("consumer", &[("kross-cluster-consumer", Some(OWN))], Access::none()).await;
    let targets = consumer.api("KubernetesTarget", Some(OWN));
    wait::until("the role to be in force", || async {
        targets.get("own").await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    consumer
}

fn application(name: &str, spec: Json) -> Json {
    json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
        "metadata": {"name": name, "namespace": OWN}, "spec": spec})
}

fn templates(secrets: Json) -> Json {
    json!([{"metadata": {"name": "settings"}, "spec": {"secrets": secrets, "template": {"apiVersion": "v1",
        "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": OWN}}}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_gets_no_further_than_the_targets_of_its_namespace() {
    let world = World::new().await;
    let consumer = published(&world).await;
    refuses_requests_of_a_consumer(&consumer).await;
    refuses_targets_of_other_namespaces(&world, &consumer).await;
    ships_no_credentials(&world, &consumer).await;
    binds_nothing_that_was_not_offered(&world).await;
}

/// Requests that RBAC refuses.
async fn refuses_requests_of_a_consumer(consumer: &User) {
    let object = |kind: &str, group: &str, namespace: &str, spec: Json| {
        json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind,
            "metadata": {"name": "mine", "namespace": namespace}, "spec": spec})
    };
    let (workload, compute) = ("workload.crossplane.io", "compute.crossplane.io");
    let secret = json!({"connectionSecretRef": {"name": "own-credentials"}});
    let attempts = [
        object("KubernetesTarget", workload, OWN, secret.clone()),
        object("KubernetesTarget", workload, FOREIGN, secret),
        object("KubernetesCluster", compute, OWN, json!({"classRef": {"name": "dev"}})),
        object("KubernetesApplicationResource", workload, OWN, json!({"template": {"kind": "ConfigMap"}})),
        json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
            "metadata": {"name": "mine", "namespace": FOREIGN}, "spec": {"resourceTemplates": []}}),
    ];
    for attempt in attempts {
        assert_eq!(status_code(consumer.apply(&attempt).await), Some(403), "{attempt:#}");
    }
    for (namespace, name) in
        [(OWN, "own-credentials"), (FOREIGN, "foreign-credentials"), ("infrastructure", "dev-pool")]
    {
        let read = consumer.api("Secret", Some(namespace)).get(name).await;
        assert_eq!(status_code(read), Some(403), "{namespace}/{name}");
    }
    let targets = consumer.api("KubernetesTarget", Some(OWN));
    let stolen = json!({"spec": {"connectionSecretRef": {"name": "another"}}});
    let patched = targets.patch("own", &PatchParams::default(), &Patch::Merge(&stolen)).await;
    assert_eq!(status_code(patched), Some(403));
    let ready = json!({"status": {"conditions": []}});
    let patched = targets.patch_status("own", &PatchParams::default(), &Patch::Merge(&ready)).await;
    assert_eq!(status_code(patched), Some(403));
    assert_eq!(status_code(targets.delete("own", &kube::api::DeleteParams::default()).await), Some(403));
}

/// Applications that name a target of another namespace.
async fn refuses_targets_of_other_namespaces(world: &World, consumer: &User) {
    let spec = json!({"targetRef": {"name": "foreign", "namespace": FOREIGN}, "resourceTemplates": []});
    let refused = consumer.apply(&application("by-namespace", spec)).await;
    assert_eq!(status_code(refused), Some(422), "a namespace is refused, not dropped");

    let spec = json!({"targetRef": {"name": "foreign"}, "resourceTemplates": templates(json!([]))});
    consumer.apply(&application("by-name", spec)).await.unwrap();
    let applications = consumer.api("KubernetesApplication", Some(OWN));
    let pending = consumer.until_condition(&applications, "by-name", ("Ready", "False")).await;
    assert!(condition(&pending, "Ready")["message"].as_str().unwrap().contains("foreign"), "{pending:#}");
    // A template that names another target gets that of its application.
    let mut named = templates(json!([]));
    named[0]["metadata"]["name"] = json!("redirected");
    named[0]["spec"]["targetRef"] = json!({"name": "foreign"});
    let spec = json!({"targetRef": {"name": "own"}, "resourceTemplates": named});
    world.remote("dev").namespace(OWN).await;
    world.remote("stage").namespace(OWN).await;
    consumer.apply(&application("redirect", spec)).await.unwrap();
    consumer.until(&applications, "redirect", |it| it["status"]["state"] == "Submitted").await;
    let resources = consumer.api("KubernetesApplicationResource", Some(OWN));
    let resource = resources.get("redirected").await.unwrap();
    assert_eq!(resource.data["spec"]["targetRef"]["name"], "own");
    let there = world.remote("stage").api("ConfigMap", Some(OWN));
    assert!(there.get_opt("settings").await.unwrap().is_none(), "nothing reached the other cluster");
    for name in ["by-name", "redirect"] {
        consumer.delete(&applications, name).await;
        wait::until_deleted(&applications, name).await;
    }
}

/// The Secret of a target is not copied into a cluster of the consumer.
async fn ships_no_credentials(world: &World, consumer: &User) {
    let spec = json!({"targetRef": {"name": "own"},
        "resourceTemplates": templates(json!([{"name": "own-credentials"}]))});
    consumer.apply(&application("exfiltrate", spec)).await.unwrap();
    let resources = consumer.api("KubernetesApplicationResource", Some(OWN));
    let refused = consumer.until_condition(&resources, "settings", ("Ready", "False")).await;
    assert!(
        condition(&refused, "Ready")["message"].as_str().unwrap().contains("own-credentials"),
        "{refused:#}"
    );
    let copies = world.remote("dev").api("Secret", Some(OWN));
    assert!(copies.get_opt("settings-own-credentials").await.unwrap().is_none());
    let applications = consumer.api("KubernetesApplication", Some(OWN));
    consumer.delete(&applications, "exfiltrate").await;
    wait::until_deleted(&applications, "exfiltrate").await;
}

/// Even who may claim cannot take a managed cluster that was not offered.
async fn binds_nothing_that_was_not_offered(world: &World) {
    let managed = json!({"apiVersion": "compute.gcp.crossplane.io/v1alpha3", "kind": "GKECluster",
        "metadata": {"name": "precious"},
        "spec": {"writeConnectionSecretToRef": {"namespace": "infrastructure", "name": "precious"}}});
    world.admin.apply(&managed).await.unwrap();
    world.provide("precious", "stage").await;
    let thief = world.user("thief", &[("kross-cluster-provisioner", Some(OWN))], Access::none()).await;
    let claim = json!({"apiVersion": "compute.crossplane.io/v1alpha1", "kind": "KubernetesCluster",
        "metadata": {"name": "taken", "namespace": OWN},
        "spec": {"writeConnectionSecretToRef": {"name": "taken"}, "resourceRef": {
            "apiVersion": "compute.gcp.crossplane.io/v1alpha3", "kind": "GKECluster", "name": "precious"}}});
    wait::until("the role to be in force", || async {
        thief.apply(&claim).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let claims = thief.api("KubernetesCluster", Some(OWN));
    let refused = thief.until(&claims, "taken", |it| condition(it, "Synced")["reason"] == "NotOffered").await;
    assert_ne!(refused["status"]["bindingPhase"], "Bound");
    assert!(world.admin.api("Secret", Some(OWN)).get_opt("taken").await.unwrap().is_none());
    let untouched = world.admin.api("GKECluster", None).get("precious").await.unwrap();
    assert!(untouched.data["spec"]["claimRef"].is_null(), "{:#}", untouched.data);
    thief.delete(&claims, "taken").await;
    wait::until_deleted(&claims, "taken").await;
    world.admin.api("GKECluster", None).get("precious").await.unwrap();
}
