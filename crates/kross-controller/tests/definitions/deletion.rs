//! Deleting a definition.

use kross_testing::wait;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::setup::{Setup, condition, create_once_served, definition, until};

#[tokio::test(flavor = "multi_thread")]
async fn blocks_the_deletion_of_a_definition_on_its_instances_and_names_them() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let namespace = &setup.fixture.namespace;
    objects.create(&definition("held", "Held")).await;
    objects.until_ready("held").await;
    let api = objects.namespaced("kro.run", "Held", "helds", namespace);
    for name in ["a", "b"] {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Held", "metadata": {"name": name,
            "finalizers": ["test.kross.run/hold"]}, "spec": {}});
        create_once_served(&api, instance).await;
    }
    objects.delete("held").await;
    let waiting = objects.until_condition("held", "ControllerReady", "Unknown").await;
    let blocked = condition(&waiting, "ControllerReady");
    assert_eq!(blocked["reason"], "UnderDeletion");
    let message = blocked["message"].as_str().unwrap();
    let expected = format!(
        "waiting for 2 instances to go: `{namespace}/a`, `{namespace}/b`; delete them, or set the annotation "
    );
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(condition(&waiting, "Ready")["message"], message);

    // With the annotation the controller deletes them, and then the definition.
    let cascade = json!({"metadata": {"annotations": {"kro.run/delete-instances": "true"}}});
    objects.patch("held", &cascade).await;
    for name in ["a", "b"] {
        wait::until_object(&api, name, |instance| instance.metadata.deletion_timestamp.is_some()).await;
        let release = json!({"metadata": {"finalizers": null}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    }
    wait::woken(wait::until_deleted(&objects.definitions(), "held")).await;
    // The CRD is retained, since the controller is not allowed to delete CRDs.
    assert!(objects.crds().get_opt("helds.kro.run").await.unwrap().is_some());
    wait::until_true("the definition to be served no more", || setup.running.graphs.get("held").is_none())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_a_definition_as_soon_as_its_last_instance_is_deleted() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("last", "Last")).await;
    objects.until_ready("last").await;
    let api = objects.namespaced("kro.run", "Last", "lasts", &setup.fixture.namespace);
    let instance =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Last", "metadata": {"name": "a"}, "spec": {}});
    create_once_served(&api, instance).await;
    objects.delete("last").await;
    objects.until_condition("last", "ControllerReady", "Unknown").await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    wait::woken(wait::until_deleted(&objects.definitions(), "last")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_a_definition_that_was_never_accepted_at_once() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let mut invalid = definition("never", "Never");
    invalid["spec"]["resources"][1]["template"]["dat"] = json!({});
    objects.create(&invalid).await;
    objects.until_condition("never", "GraphAccepted", "False").await;
    objects.delete("never").await;
    wait::until_deleted(&objects.definitions(), "never").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_instances_that_are_created_or_changed_while_the_definition_is_being_deleted() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("ending", "Ending")).await;
    objects.until_ready("ending").await;
    let api = objects.namespaced("kro.run", "Ending", "endings", &setup.fixture.namespace);
    let create = async |name: &str| {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Ending", "metadata": {"name": name}, "spec": {}});
        create_once_served(&api, instance).await;
    };
    for name in ["early", "changed"] {
        create(name).await;
        until(api.clone(), name.to_owned(), |instance| instance["status"]["state"] == "ACTIVE").await;
    }
    objects.delete("ending").await;
    objects.until_condition("ending", "ControllerReady", "Unknown").await;
    let change = Patch::Merge(json!({"spec": {"size": 2}}));
    api.patch("changed", &PatchParams::default(), &change).await.unwrap();
    create("late").await;
    for name in ["changed", "late"] {
        let failed =
            until(api.clone(), name.to_owned(), |instance| instance["status"]["state"] == "ERROR").await;
        let message = condition(&failed, "GraphResolved")["message"].clone();
        assert_eq!(message, "definition `ending` is being deleted, so that nothing new is made");
    }
    // The status of an unchanged instance stays as it is.
    let early = api.get("early").await.unwrap();
    assert_eq!(early.data["status"]["state"], "ACTIVE");
    for name in ["early", "changed", "late"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    wait::woken(wait::until_deleted(&objects.definitions(), "ending")).await;
}
