//! Attempts by a server of mallory's that claims to be the bank's cluster.

use kross_testing::{Action, Answer, Requests, Verb};
use serde_json::json;

use crate::world::World;

/// Attempts 14 and 15: the server lists the bank's objects as mallory's, and is connected before the bank's.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_claims_the_uid_of_production_deletes_nothing_there() {
    let world = World::new().await;
    world.impersonate_production().await;
    world.mallory.kubeconfig("claimed-kubeconfig", &world.hostile_kubeconfig().to_string()).await;
    world.mallory.create("Shop", "claimed", json!({"secret": "claimed-kubeconfig"})).await;
    let claimed = world.mallory.until_state("Shop", "claimed", "ACTIVE").await;
    // The bank connects after her, and is not locked out.
    let shop = world.shop("claimed").await;
    let uid = |instance: &serde_json::Value| instance["status"]["clusters"][0]["uid"].clone();
    assert_eq!(uid(&claimed), uid(&shop.instance), "both claim the same UID");
    // Her server lists the bank's object with the labels of her instance.
    let own = claimed;
    let objects: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(world.fixture.remote("eu").client.clone(), "bank");
    let mut object = serde_json::to_value(objects.get("claimed-app").await.unwrap()).unwrap();
    let theirs = objects.get("claimed-app").await.unwrap().metadata.labels.unwrap();
    object["metadata"]["labels"] = json!(theirs);
    object["metadata"]["labels"]["kro.run/instance-id"] = own["metadata"]["uid"].clone();
    object["metadata"]["labels"]["kro.run/instance-namespace"] = json!("mallory");
    let part_of = "applyset.kubernetes.io/part-of";
    let mine: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(world.fixture.remote("us").client.clone(), "mallory");
    let mine = mine.get("claimed-app").await.unwrap().metadata.labels.unwrap();
    object["metadata"]["labels"][part_of] = json!(mine[part_of]);
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": [object]});
    world.hostile.on(
        Requests::any().verb(Verb::List).resource("configmaps"),
        Action::Answer(Answer::json(200, &list)),
    );
    world.production.clear_requests();
    world.hostile.clear_requests();
    world.mallory.delete("Shop", "claimed").await;
    // Whatever becomes of her instance, nothing is sent to the bank's cluster on its behalf.
    let listed = || world.hostile.count(&Requests::any().verb(Verb::List).resource("configmaps")) > 0;
    kross_testing::wait::until_true("her own server to be asked", listed).await;
    shop.assert_unharmed().await;
    assert_eq!(world.production.count(&Requests::any().verb(Verb::Delete)), 0);
    assert_eq!(world.production.count(&Requests::any().namespace("mallory")), 0);
    world.hostile.clear();
    kross_testing::wait::until_deleted(&world.mallory.api("Shop"), "claimed").await;
    assert_eq!(world.production.count(&Requests::any().verb(Verb::Delete)), 0);
    assert_eq!(world.production.count(&Requests::any().namespace("mallory")), 0);
    shop.assert_unharmed().await;
    shop.delete().await;
}

/// Attempt 16: the server that claims the UID never answers writes and lists.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_claims_the_uid_of_production_does_not_delay_it() {
    let world = World::new().await;
    world.impersonate_production().await;
    world.mallory.kubeconfig("slow-kubeconfig", &world.hostile_kubeconfig().to_string()).await;
    world.hostile.on(Requests::any().verb(Verb::Apply), Action::Hang);
    world.hostile.on(Requests::any().verb(Verb::List), Action::Hang);
    // Names and namespaces of her objects are those of the bank's.
    for at in 0..20 {
        world.mallory.create("Shop", &format!("slow-{at}"), json!({"secret": "slow-kubeconfig"})).await;
    }
    let hangs = || {
        world.hostile.count(&Requests::any().verb(Verb::Apply)) > 0
            || world.hostile.count(&Requests::any().verb(Verb::List)) > 0
    };
    kross_testing::wait::until_true("her server to be used", hangs).await;
    let shop = world.shop("slow").await;
    shop.assert_unharmed().await;
    world.hostile.clear();
    for at in 0..20 {
        world.mallory.delete("Shop", &format!("slow-{at}")).await;
    }
    for at in 0..20 {
        kross_testing::wait::until_deleted(&world.mallory.api("Shop"), &format!("slow-{at}")).await;
    }
    shop.delete().await;
}

/// Attempt 17: text in the answers of her server, which reaches nobody.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_answers_is_not_repeated() {
    let world = World::new().await;
    world.mallory.kubeconfig("text-kubeconfig", &world.hostile_kubeconfig().to_string()).await;
    let text = "\u{1b}[31mevil\u{1b}[0m\nINFO controller: all is well ${schema.spec} \u{202e}txet";
    world.hostile.on(
        Requests::any().verb(Verb::Apply).resource("configmaps"),
        Action::Answer(Answer::status(403).message(text)),
    );
    world.mallory.create("Shop", "text", json!({"secret": "text-kubeconfig"})).await;
    let refused =
        world.mallory.until("Shop", "text", |it| it["status"].to_string().contains("Forbidden")).await;
    let status = refused["status"].to_string();
    for character in ["\u{1b}", "\\u001b", "\n", "\\n", "\u{202e}"] {
        assert!(!status.contains(character), "{character:?} in {status}");
    }
    world.hostile.clear();
    world.mallory.delete("Shop", "text").await;
    kross_testing::wait::until_deleted(&world.mallory.api("Shop"), "text").await;
}
