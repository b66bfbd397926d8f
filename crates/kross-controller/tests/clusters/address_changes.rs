//! The address of a cluster that leads to another cluster, which accepts the same credential.

use std::sync::atomic::{AtomicBool, Ordering};

use kross_testing::{Diverted, Requests, wait};
use serde_json::json;

use crate::moving::one_region;
use crate::setup::condition;
use crate::world::{World, value};

const INSTANCES: [&str; 3] = ["x", "y", "z"];

/// The requests for objects in the test's namespace that the other cluster received.
fn diverted(world: &World) -> Vec<String> {
    let sent = world.region("eu").proxy.requests(&Requests::any().namespace(&world.namespace));
    sent.iter().filter(|record| record.diverted).map(|record| record.request.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_nothing_to_another_cluster_that_took_over_the_address_under_steady_traffic() {
    let world = World::new("Diverted", one_region()).await;
    for name in INSTANCES {
        world.create(name, json!({"region": "eu"})).await;
        world.until_state(name, "ACTIVE").await;
    }
    let (eu, us) = (world.region("eu"), world.region("us"));
    let stop = AtomicBool::new(false);
    let edit = async {
        let mut round = 0;
        while !stop.load(Ordering::Relaxed) {
            for name in INSTANCES {
                world.patch(name, json!({"spec": {"text": format!("round {round}")}})).await;
            }
            round += 1;
        }
        round - 1
    };
    let divert = async {
        wait::until_true("writes", || eu.writes().len() > 30).await;
        eu.proxy.divert(Diverted::New, us.cluster.plane.admin()).unwrap();
        eu.proxy.cut_connections();
        for name in INSTANCES {
            world.until_condition(name, ("RemoteClusterConnected", "False", "IdentityChanged")).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (last, ()) = tokio::join!(edit, divert);
    for name in INSTANCES {
        let stopped = world.until_state(name, "ERROR").await;
        let message = condition(&stopped, "RemoteClusterConnected")["message"].as_str().unwrap().to_owned();
        assert!(message.contains("now points to cluster"), "{message}");
        assert!(us.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_none());
    }
    assert_eq!(diverted(&world), [""; 0]);

    // Deletions are not sent there either, and nothing counts as deleted.
    world.delete("z").await;
    world.until("z", |instance| instance["status"]["state"] == "DELETING").await;
    assert_eq!(diverted(&world), [""; 0]);

    eu.proxy.end_diversion();
    eu.proxy.cut_connections();
    wait::until_deleted(&world.instances, "z").await;
    assert!(eu.config_maps.get_opt("z-app").await.unwrap().is_none());
    for name in ["x", "y"] {
        world.until_state(name, "ACTIVE").await;
        let map = eu.config_maps.get(&format!("{name}-app")).await.unwrap();
        assert_eq!(value(&map, "text"), Some(format!("round {last}").as_str()));
    }
    assert_eq!(diverted(&world), [""; 0]);
}
