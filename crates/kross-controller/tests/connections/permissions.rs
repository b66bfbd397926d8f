//! Without the CRD or the permissions, and with many clusters.

use std::time::Duration;

use kross_testing::{Action, Answer, Requests, Verb, wait};
use kube::api::ListParams;

use crate::world::World;

const RESOURCE: &str = "clusterconnections.kro.run";

#[tokio::test(flavor = "multi_thread")]
async fn instances_work_without_the_crd_and_without_the_permissions_and_many_clusters_are_published_at_a_pace()
 {
    let world = World::new("permissions").await;
    let running = world.start().await;
    let clusters: Vec<String> = (0..60).map(|number| format!("c{number:02}-kubeconfig")).collect();
    world.create_secrets(&clusters).await;
    let shops = world.define().await;
    world.create(&shops, "one", &clusters[..1]).await;
    assert_eq!(world.requests(), Vec::<String>::new(), "nothing is asked about a kind that is not installed");

    // The controller may list the objects, and not create them: it tries once.
    let create = Requests::any().verb(Verb::Create).resource(RESOURCE);
    let denied = world.hub.on(create.clone(), Action::Answer(Answer::status(403)));
    crate::setup::install_crds(&world.client, vec![kross_api::connection_crd()]).await;
    wait::until_true("an attempt", || world.hub.count(&create) > 0).await;
    world.create(&shops, "two", &clusters[..1]).await;
    world.until_idle().await;
    assert_eq!(world.hub.count(&create), 1);
    running.stop().await;

    // The next controller may do it.
    world.hub.remove(denied);
    world.hub.clear_requests();
    let running = world.start().await;
    world.until("default.c00-kubeconfig", |status| status["instances"] == 2).await;
    world.hub.clear_requests();
    world.create(&shops, "all", &clusters).await;
    wait::until("all clusters to be published", async || {
        let objects = world.connections().list(&ListParams::default()).await.unwrap();
        let connected = objects.iter().filter(|object| object.data["status"]["state"] == "Connected").count();
        if connected == clusters.len() { Ok(()) } else { Err(format!("{connected}")) }
    })
    .await;
    let created = world.hub.requests(&create);
    assert_eq!(created.len(), clusters.len() - 1);
    let took = created.last().unwrap().at.duration_since(created[0].at);
    assert!(took > Duration::from_millis(25) * 58, "{took:?}");
    running.stop().await;
}
