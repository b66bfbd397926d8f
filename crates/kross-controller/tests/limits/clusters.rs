//! Instances that name more clusters than they may use. Each name is a watch in the hub, also if there is no such Secret.

use std::collections::BTreeSet;

use kross_testing::{Requests, wait};
use serde_json::{Value as Json, json};

use crate::limited;
use crate::world::{World, config_map};

async fn world(kind: &str) -> World {
    let mut resource = config_map("a", json!({}));
    resource["forEach"] = json!([{"index": "${lists.range(schema.spec.count)}"}]);
    resource["cluster"] = json!({"name": "${schema.metadata.name + string(index)}-kubeconfig"});
    resource["template"]["metadata"] = json!({"name": "a", "namespace": "default"});
    limited(kind, json!({"spec": {"count": "integer"}}), json!([resource])).await
}

/// The Secrets that the controller has watched in the namespace.
fn watched(world: &World) -> BTreeSet<String> {
    let sent = world.proxy.requests(&Requests::any().namespace(&world.namespace));
    let sent = sent.iter().map(|record| record.request.to_string());
    sent.filter(|request| request.starts_with("watch") && request.contains("secrets")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_too_many_clusters_says_so() {
    let world = world("TooManyClusters").await;
    world.create("x", json!({"count": 1_000})).await;
    let refused = world.until_state("x", "ERROR").await;
    let text = refused["status"].to_string();
    assert!(text.contains("the instance uses more than 30 clusters"), "{text}");
    assert!(text.contains("`--instance-max-clusters`"), "{text}");
    world.patch("x", json!({"spec": {"count": 2}})).await;
    world.until_state("x", "IN_PROGRESS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_instances_of_a_namespace_share_a_limit_and_the_next_gets_what_others_leave() {
    let world = world("ManyClusters").await;
    let has_text = |wanted: bool| {
        move |instance: &Json| {
            let text = instance["status"].to_string();
            instance["status"]["state"] != Json::Null
                && text.contains("`--namespace-max-clusters`") == wanted
                && text.contains("cannot use Secret")
        }
    };
    world.create("x", json!({"count": 25})).await;
    world.until("x", has_text(false)).await;
    world.create("y", json!({"count": 25})).await;
    let limited = world.until("y", has_text(true)).await;
    let text = limited["status"].to_string();
    let whose = format!("the instances in namespace `{}` use 40 clusters already", world.namespace);
    assert!(text.contains(&whose), "{text}");
    assert!(watched(&world).len() <= 40, "{:#?}", watched(&world));
    // Another namespace has its own limit.
    let other = self::world("OtherClusters").await;
    other.create("z", json!({"count": 25})).await;
    other.until("z", has_text(false)).await;
    world.delete("x").await;
    world.until("y", has_text(false)).await;
}
