//! Definitions whose cluster becomes unreachable, also over a restart of the controller.

use kross_testing::{Fault, Fixture, wait};
use serde_json::json;

use crate::setup::{Running, condition, install};
use crate::world::{World, settings};

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_lost_cluster_and_holds_back_an_edit_until_it_is_reachable() {
    let world = World::new().await;
    world.apply_secret(&world.admin()).await;
    let name = world.unique_name("lost");
    world.hub.create(&world.definition(&name, &world.config_map())).await;
    world.until_accepted(&name).await;

    world.proxy.set(Fault::Refuse);
    let not_reached = "Unknown NotReached";
    let found =
        wait::woken(world.until_cluster_conditions(&name, not_reached, "False Unreachable", not_reached))
            .await;
    assert_eq!(found["status"]["state"], "Active");
    assert_eq!(condition(&found, "Ready")["status"], "False");
    assert_eq!(condition(&found, "KindReady")["status"], "True");

    // An edit is not accepted while the cluster is unreachable.
    let patch = json!({"spec": {"schema": {"spec": {"color": "string"}}}});
    world.hub.patch(&name, &patch).await;
    let found =
        wait::woken(world.until_cluster_conditions(&name, not_reached, "False Unreachable", not_reached))
            .await;
    assert_eq!(found["status"]["state"], "Inactive");
    assert_eq!(world.hub.revision_names(&name).await.len(), 1);

    world.proxy.set(Fault::Pass);
    wait::woken(world.until_accepted(&name)).await;
    assert_eq!(world.hub.revision_names(&name).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_the_cluster_is_unreachable_keeps_the_api_and_validates_again_on_reconnect() {
    let mut fixture = Fixture::with(&["eu", "restarted"]).await;
    // Not the shared hub, since this test restarts the controller.
    fixture.hub = fixture.remote("restarted").clone();
    let world = World::without_controller(fixture);
    install(&world.hub.client).await;
    let running = Running::start("restarted", settings()).await;
    world.apply_secret(&world.admin()).await;
    world.apply_database_crd("v1", &json!({"size": {"type": "integer"}})).await;
    let name = world.unique_name("unreachable");
    let mut rgd = world.definition(&name, &world.database("v1", &json!({"size": "${schema.spec.size}"})));
    rgd["spec"]["schema"]["status"] = json!({"endpoint": "${one.status.endpoint}"});
    world.hub.create(&rgd).await;
    let accepted = world.until_accepted(&name).await;
    let crd = format!("{}s.kro.run", world.unique_kind("App").to_lowercase());
    let before = world.hub.get(&world.hub.crds(), &crd).await;
    running.stop().await;

    // No condition changes if nothing else has changed.
    let running = Running::start("restarted", settings()).await;
    wait::until_true("the definition to be served", || running.graphs.get(&name).is_some()).await;
    wait::until("the preflight of the cluster to finish", || {
        let served = running.graphs.get(&name);
        let revision = served.as_ref().and_then(|served| served.revision.as_ref());
        let state = revision.map(|revision| (revision.provisional, &revision.clusters, &revision.mismatch));
        std::future::ready(if matches!(state, Some((false, ..))) {
            Ok(())
        } else {
            Err(format!("{state:?}"))
        })
    })
    .await;
    let unchanged = world.until_accepted(&name).await;
    assert_eq!(unchanged["status"], accepted["status"]);
    assert_eq!(unchanged["metadata"]["resourceVersion"], accepted["metadata"]["resourceVersion"]);
    running.stop().await;

    world.proxy.set(Fault::Refuse);
    let running = Running::start("restarted", settings()).await;
    let not_reached = "Unknown NotReached";
    let found = world.until_cluster_conditions(&name, not_reached, "False Unreachable", not_reached).await;
    assert_eq!(found["status"]["state"], "Active");
    let served = running.graphs.get(&name).unwrap();
    assert!(served.revision.as_ref().unwrap().provisional);
    let after = world.hub.get(&world.hub.crds(), &crd).await;
    assert_eq!(before["spec"], after["spec"], "the API does not change without the schemas of the cluster");
    assert_eq!(before["metadata"]["generation"], after["metadata"]["generation"]);

    world.proxy.set(Fault::Pass);
    wait::woken(world.until_accepted(&name)).await;
    wait::until_true("the graph to have the types of the cluster again", || {
        running.graphs.get(&name).is_some_and(|served| !served.revision.as_ref().unwrap().provisional)
    })
    .await;
    running.stop().await;
}
