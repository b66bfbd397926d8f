//! A cluster becomes unreachable while applications are being scheduled.

use std::time::Duration;

use futures::future::join_all;
use kross_testing::{Action, Fault, Requests, Verb, wait};
use kube::api::ListParams;
use serde_json::{Value as Json, json};

use crate::setup::{condition, until};
use crate::world::{Region, World, has_state, message, template};

const APPLICATIONS: usize = 10;

async fn create_all(world: &World, names: &[String]) {
    join_all(names.iter().map(async |name| world.create(name, &[(name, "1")], json!({})).await)).await;
}

/// The target of an application.
fn target(application: &Json) -> &str {
    application["spec"]["targetRef"]["name"].as_str().unwrap_or_default()
}

async fn all(world: &World) -> Vec<Json> {
    let all = world.applications.list(&ListParams::default()).await.unwrap().items;
    all.into_iter().map(|it| serde_json::to_value(it).unwrap()).collect()
}

/// Waits until each application is as expected.
async fn until_all(world: &World, what: &str, is_expected: impl Fn(&Json) -> bool) -> Vec<Json> {
    wait::until(format!("all applications to be {what}"), || async {
        let all = all(world).await;
        match all.iter().find(|application| !is_expected(application)) {
            Some(other) => Err(format!("{other:#}")),
            None => Ok(all),
        }
    })
    .await
}

/// The names and UIDs of the objects of the applications in a cluster.
async fn objects(region: &Region) -> Vec<(String, String)> {
    let owned = ListParams::default().labels("kro.run/owned=true");
    let listed = region.config_maps.list(&owned).await.unwrap().items;
    listed.into_iter().map(|it| (it.metadata.name.unwrap(), it.metadata.uid.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_while_applications_are_scheduled_concerns_those_of_its_target_alone() {
    let world = World::new().await;
    world.publish("a", "eu", json!({"zone": "a"})).await;
    world.publish("b", "us", json!({"zone": "b"})).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    // Two objects reach the cluster of `a`, and the third does not.
    let applies = Requests::any().verb(Verb::Apply).resource("configmaps");
    eu.proxy.on_next(2, applies.clone(), Action::Delay(Duration::ZERO));
    let hanging = eu.proxy.on(applies.clone(), Action::Hang);
    let names: Vec<String> = (0..APPLICATIONS).map(|at| format!("web-{at}")).collect();
    create_all(&world, &names).await;
    wait::until_true("two objects and a third apply", || {
        let sent = eu.proxy.requests(&applies);
        sent.len() >= 3 && sent.iter().filter(|record| record.status().is_some()).count() == 2
    })
    .await;
    eu.proxy.set(Fault::Refuse);
    eu.proxy.remove(hanging);
    let before = objects(eu).await;
    assert_eq!(before.len(), 2, "{before:?}");

    // Those of `b` are submitted, those of `a` say that it is not reachable.
    let is_expected = |it: &Json| match target(it) {
        "a" => condition(it, "Ready")["status"] == "False" && message(it, "Ready").contains("`a`"),
        "b" => has_state(it, "Submitted"),
        _ => false,
    };
    let settled = wait::woken(until_all(&world, "submitted or blocked", is_expected)).await;
    assert!(settled.iter().filter(|it| target(it) == "a").count() >= 3);
    let of_b = settled.iter().find(|it| target(it) == "b").unwrap().clone();

    // As soon as `a` is known to be lost, new ones get `b`, and the one that only `a` can serve waits for it.
    until(world.targets.clone(), "a".to_owned(), |it| condition(it, "Ready")["status"] == "False").await;
    let late: Vec<String> = (0..3).map(|at| format!("late-{at}")).collect();
    create_all(&world, &late).await;
    for name in &late {
        world.until_state(name, "Submitted").await;
        assert_eq!(world.scheduled(name).await, "b");
    }
    let only_a = json!({"targetSelector": {"matchLabels": {"zone": "a"}}});
    world.create("picky", &[("picky", "1")], only_a).await;
    let waiting = world.until_state("picky", "Pending").await;
    assert_eq!(condition(&waiting, "Synced")["reason"], "NoTarget");
    assert!(
        message(&waiting, "Ready").contains("waiting for `a`") && target(&waiting).is_empty(),
        "{waiting:#}"
    );
    let edited = of_b["metadata"]["name"].as_str().unwrap();
    world.patch(edited, json!({"spec": {"resourceTemplates": [template(edited, "2")]}})).await;
    world.until_state(edited, "Submitted").await;

    eu.proxy.set(Fault::Pass);
    let recovered = wait::woken(until_all(&world, "submitted", |it| has_state(it, "Submitted"))).await;
    assert_eq!(world.scheduled("picky").await, "a");
    for before in &settled {
        let after = recovered.iter().find(|it| it["metadata"]["name"] == before["metadata"]["name"]).unwrap();
        assert_eq!(target(after), target(before), "an application was moved");
    }
    let (in_eu, in_us) = (objects(eu).await, objects(us).await);
    assert!(before.iter().all(|object| in_eu.contains(object)), "an object was created twice");
    let count = |name: &str| recovered.iter().filter(|it| target(it) == name).count();
    assert_eq!((in_eu.len(), in_us.len()), (count("a"), count("b")));
}
