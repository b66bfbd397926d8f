//! What counts as proof that a definition has no instances. Something between the controller and the hub's API server answers
//! what no API server answers; the instances are still there, so neither the CRD nor the definition may be deleted.

use kross_controller::Settings;
use kross_testing::{Action, Answer, FaultProxy, Requests, Verb, shared, wait};
use kube::api::DeleteParams;
use serde_json::json;

use crate::exclusive_plane::{PLANE, create_instance, exclusive, is_active};
use crate::setup::{Running, condition, definition, until};

/// A controller that may delete CRDs, behind a proxy.
async fn start() -> (FaultProxy, Running) {
    let admin = shared(PLANE).await.admin();
    let proxy = FaultProxy::start(admin).unwrap();
    let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
    let settings = Settings { allow_crd_deletion: true, ..Settings::default() };
    (proxy, Running::start_with(config, settings).await)
}

fn lists(resource: &str) -> Requests {
    Requests::any().verb(Verb::List).resource(resource)
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_definition_and_crd_while_it_is_not_proven_that_there_are_no_instances() {
    let (objects, _exclusive) = exclusive().await;
    let (proxy, running) = start().await;
    let answers = [
        ("unproven", Answer::bare(404)),
        ("statusonly", Answer::status(404)),
        ("welcomed", Answer::html(200)),
        ("hollow", Answer::json(200, &json!({"kind": "Status", "status": "Success"}))),
    ];
    for (name, answer) in answers {
        let kind = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        let plural = kross_api::plural(&kind);
        objects.create(&definition(name, &kind)).await;
        objects.until_ready(name).await;
        let api = objects.namespaced("kro.run", &kind, &plural, "default");
        create_instance(&api, &kind, "a").await;
        until(api.clone(), "a".to_owned(), is_active).await;
        let rule = proxy.on(lists(&format!("{plural}.kro.run")), Action::Answer(answer));
        objects.delete(name).await;
        let blocked = objects
            .until(name, |definition| {
                let message = condition(definition, "ControllerReady")["message"].to_string();
                message.contains("cannot verify that no instance exists") && message.contains(&kind)
            })
            .await;
        assert_eq!(blocked["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
        let crd = objects.crds().get(&format!("{plural}.kro.run")).await.unwrap();
        assert!(crd.metadata.deletion_timestamp.is_none(), "{name}");
        assert!(api.get("a").await.unwrap().metadata.deletion_timestamp.is_none(), "{name}");
        proxy.remove(rule);
        objects
            .until(name, |definition| {
                condition(definition, "ControllerReady")["message"]
                    .to_string()
                    .contains("waiting for 1 instance")
            })
            .await;
        api.delete("a", &DeleteParams::default()).await.unwrap();
        wait::until_deleted(&objects.definitions(), name).await;
        wait::until_deleted(&objects.crds(), &format!("{plural}.kro.run")).await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_the_instances_of_a_deleted_definition_once_they_can_be_listed() {
    let (objects, _exclusive) = exclusive().await;
    let (proxy, running) = start().await;
    objects.create(&definition("bereft", "Bereft")).await;
    objects.until_ready("bereft").await;
    let api = objects.namespaced("kro.run", "Bereft", "berefts", "default");
    create_instance(&api, "Bereft", "a").await;
    until(api.clone(), "a".to_owned(), is_active).await;
    let rule = proxy.on(lists("berefts.kro.run"), Action::Answer(Answer::bare(404)));
    objects.delete("bereft").await;
    let refused = || {
        let lists = proxy.requests(&lists("berefts.kro.run"));
        lists.iter().filter(|record| record.status() == Some(404)).count()
    };
    wait::until_true("the instances to be listed", || refused() > 0).await;
    objects.patch("bereft", &json!({"metadata": {"finalizers": null}})).await;
    wait::until_deleted(&objects.definitions(), "bereft").await;
    let before = refused();
    wait::until_true("the instances to be listed without a definition", || refused() > before + 1).await;
    assert!(api.get("a").await.unwrap().metadata.deletion_timestamp.is_none());
    proxy.remove(rule);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&api, "a").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_a_definition_whose_crd_was_deleted() {
    let (objects, _exclusive) = exclusive().await;
    let (proxy, running) = start().await;
    objects.create(&definition("stripped", "Stripped")).await;
    objects.until_ready("stripped").await;
    // The CRD is deleted while the definition is being deleted: it is not recreated.
    let crds = Requests::any().verb(Verb::List).resource("strippeds.kro.run");
    let rule = proxy.on(crds.clone(), Action::Hold);
    objects.delete("stripped").await;
    wait::until_true("the instances to be listed", || proxy.count(&crds) > 0).await;
    objects.crds().delete("strippeds.kro.run", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&objects.crds(), "strippeds.kro.run").await;
    proxy.remove(rule);
    wait::until_deleted(&objects.definitions(), "stripped").await;
    running.stop().await;
}
