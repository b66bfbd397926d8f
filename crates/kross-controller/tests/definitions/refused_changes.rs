//! Refused breaking changes of the schema: instances stay on the last revision that fits the API that is served.

use kross_controller::Settings;
use kross_testing::wait;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::exclusive_plane::{PLANE, create_instance, exclusive, is_active};
use crate::setup::{Objects, Running, Setup, condition, until};

/// A definition whose ConfigMap has the value of the field `text`.
fn definition(name: &str, kind: &str) -> Json {
    json!({
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": name},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"text": "string | default=a"}},
            "resources": [resource("text")],
        },
    })
}

fn resource(field: &str) -> Json {
    json!({"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}"}, "data": {"text": format!("${{schema.spec.{field}}}")}}})
}

/// A patch that renames the field `text`.
fn renamed(field: &str) -> Json {
    json!({"spec": {
        "schema": {"spec": {"text": null, field: "string | default=renamed"}},
        "resources": [resource(field)],
    }})
}

/// The number of the revision that instances follow.
fn followed(running: &Running, definition: &str) -> Option<i64> {
    running.graphs.get(definition)?.revision.as_ref().map(|revision| revision.number)
}

/// Renames the field, and waits until that is refused.
async fn refuse(objects: &Objects, name: &str, field: &str) -> Json {
    objects.patch(name, &renamed(field)).await;
    objects.until_condition(name, "KindReady", "False").await
}

async fn patch(api: &Api<DynamicObject>, name: &str, patch: Json) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Verifies that an instance is reconciled by the old graph: drift is repaired, and an edit applied.
async fn verify_reconciled(
    instances: &Api<DynamicObject>,
    maps: &Api<DynamicObject>,
    name: &str,
    text: &str,
) {
    let text = text.to_owned();
    patch(maps, name, json!({"data": {"text": "drift"}})).await;
    let before = instances.get(name).await.unwrap().data["spec"]["text"].clone();
    wait::woken(until(maps.clone(), name.to_owned(), move |map| map["data"]["text"] == before)).await;
    patch(instances, name, json!({"spec": {"text": text}})).await;
    wait::woken(until(maps.clone(), name.to_owned(), |map| map["data"]["text"] == text.as_str())).await;
    until(instances.clone(), name.to_owned(), |instance| {
        is_active(instance)
            && condition(instance, "Ready")["observedGeneration"] == instance["metadata"]["generation"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_stay_on_the_last_revision_that_fits_the_served_api() {
    let (objects, _exclusive) = exclusive().await;
    let running = Running::start(PLANE, Settings::default()).await;
    objects.create(&definition("renamed", "Renamed")).await;
    objects.until_ready("renamed").await;
    let instances = objects.namespaced("kro.run", "Renamed", "renameds", "default");
    let maps = objects.config_maps("default");
    create_instance(&instances, "Renamed", "renamed-old").await;
    until(instances.clone(), "renamed-old".to_owned(), is_active).await;

    let refused = refuse(&objects, "renamed", "other").await;
    let kind = condition(&refused, "KindReady")["message"].as_str().unwrap().to_owned();
    assert!(kind.starts_with("cannot update CRD renameds.kro.run: breaking changes detected: "), "{kind}");
    assert!(kind.ends_with("; instances stay on revision 1"), "{kind}");
    assert_eq!(condition(&refused, "GraphAccepted")["status"], "True");
    assert_eq!(refused["status"]["lastIssuedRevision"], 2);
    assert_eq!(followed(&running, "renamed"), Some(1));
    verify_reconciled(&instances, &maps, "renamed-old", "b").await;
    create_instance(&instances, "Renamed", "renamed-new").await;
    wait::woken(until(instances.clone(), "renamed-new".to_owned(), is_active)).await;

    // Five refused edits. The revision that instances follow is not deleted, and a restart finds it again.
    for number in 3..=7 {
        let refused = refuse(&objects, "renamed", &format!("other{number}")).await;
        assert_eq!(refused["status"]["lastIssuedRevision"], number);
    }
    let expected: Vec<String> = [1, 3, 4, 5, 6, 7].map(|number| format!("renamed-r{number:05}")).into();
    wait::until("the other old revision to be deleted", || async {
        let names = objects.revision_names("renamed").await;
        if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    running.stop().await;
    let running = Running::start(PLANE, Settings { max_revisions: Some(1), ..Settings::default() }).await;
    wait::until_true("the definition to be served", || followed(&running, "renamed").is_some()).await;
    assert_eq!(followed(&running, "renamed"), Some(1));
    verify_reconciled(&instances, &maps, "renamed-old", "c").await;
    create_instance(&instances, "Renamed", "renamed-newer").await;
    wait::woken(until(instances.clone(), "renamed-newer".to_owned(), is_active)).await;
    let kept = ["renamed-r00001", "renamed-r00007"];
    wait::until("the refused revisions to be deleted", || async {
        let names = objects.revision_names("renamed").await;
        if names == kept { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;

    // An invalid edit on top of a refused one does not change that either.
    objects.patch("renamed", &json!({"spec": {"schema": {"status": {"x": "${nobody.x}"}}}})).await;
    objects.until_condition("renamed", "GraphAccepted", "False").await;
    assert_eq!(followed(&running, "renamed"), Some(1));
    objects.patch("renamed", &json!({"spec": {"schema": {"status": null}}})).await;
    objects.until_condition("renamed", "GraphAccepted", "True").await;

    // The API and the graph change together.
    let allow = json!({"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}}});
    objects.patch("renamed", &allow).await;
    wait::woken(objects.until_ready("renamed")).await;
    assert_eq!(followed(&running, "renamed"), Some(7));
    let crd = objects.get(&objects.crds(), "renameds.kro.run").await;
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert!(spec.get("text").is_none() && spec.get("other7").is_some(), "{spec}");
    for name in ["renamed-old", "renamed-new"] {
        let has_default = |map: &Json| map["data"]["text"] == "renamed";
        wait::woken(until(maps.clone(), name.to_owned(), has_default)).await;
        until(instances.clone(), name.to_owned(), is_active).await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_revision_is_not_followed_after_a_restart_if_none_fits_the_crd() {
    let (objects, _exclusive) = exclusive().await;
    let running = Running::start(PLANE, Settings::default()).await;
    let mut first = definition("handedited", "HandEdited");
    let dropped = json!({"id": "dropped", "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "${schema.metadata.name}-dropped"}}});
    first["spec"]["resources"].as_array_mut().unwrap().push(dropped);
    objects.create(&first).await;
    objects.until_ready("handedited").await;
    let instances = objects.namespaced("kro.run", "HandEdited", "handediteds", "default");
    let maps = objects.config_maps("default");
    create_instance(&instances, "HandEdited", "handedited").await;
    until(instances.clone(), "handedited".to_owned(), is_active).await;
    let before = maps.get("handedited-dropped").await.unwrap();

    // The second revision drops an object. Then somebody adds a field to the CRD, so that the first does not fit any more.
    refuse(&objects, "handedited", "other").await;
    running.stop().await;
    let set_field = async |schema: Option<Json>| {
        let mut crd = objects.get(&objects.crds(), "handediteds.kro.run").await;
        let spec =
            &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let properties = spec.as_object_mut().unwrap();
        match schema {
            Some(schema) => properties.insert("byhand".to_owned(), schema),
            None => properties.remove("byhand"),
        };
        let versions = json!({"spec": {"versions": crd["spec"]["versions"]}});
        patch(&objects.crds(), "handediteds.kro.run", versions).await;
    };
    set_field(Some(json!({"type": "string"}))).await;

    let running = Running::start(PLANE, Settings::default()).await;
    objects
        .until("handedited", |definition| {
            let message = condition(definition, "KindReady")["message"].to_string();
            message.contains("allow-breaking-changes") && message.contains("instances are not reconciled")
        })
        .await;
    assert_eq!(followed(&running, "handedited"), None);
    let failed = until(instances.clone(), "handedited".to_owned(), |instance| {
        condition(instance, "GraphResolved")["reason"] == "ResolutionFailed"
    })
    .await;
    let message = condition(&failed, "GraphResolved")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("no older one fits CRD handediteds.kro.run"), "{message}");
    assert_eq!(maps.get("handedited-dropped").await.unwrap().metadata.uid, before.metadata.uid);

    // The first revision fits again.
    set_field(None).await;
    wait::woken(until(instances.clone(), "handedited".to_owned(), is_active)).await;
    assert_eq!(followed(&running, "handedited"), Some(1));
    assert_eq!(maps.get("handedited-dropped").await.unwrap().metadata.uid, before.metadata.uid);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_that_is_fixed_or_reverted_is_served() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("fixed", "Fixed")).await;
    objects.until_ready("fixed").await;
    let refused = refuse(&objects, "fixed", "other").await;
    assert_eq!(refused["status"]["lastIssuedRevision"], 2);

    // The old field is kept beside the new one.
    objects.patch("fixed", &json!({"spec": {"schema": {"spec": {"text": "string | default=a"}}}})).await;
    let fixed = wait::woken(objects.until_ready("fixed")).await;
    assert_eq!(fixed["status"]["lastIssuedRevision"], 3);
    assert_eq!(followed(setup.running, "fixed"), Some(3));

    // After another refused change, instances stay on the fixed revision; a revert to it is a new revision.
    let gone = json!({"spec": {"schema": {"spec": {"text": null}}}});
    objects.patch("fixed", &gone).await;
    let refused = objects.until_condition("fixed", "KindReady", "False").await;
    let message = condition(&refused, "KindReady")["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("; instances stay on revision 3"), "{message}");
    assert_eq!(followed(setup.running, "fixed"), Some(3));
    objects.patch("fixed", &json!({"spec": {"schema": {"spec": {"text": "string | default=a"}}}})).await;
    let reverted = wait::woken(objects.until_ready("fixed")).await;
    assert_eq!(reverted["status"]["lastIssuedRevision"], 5);
    assert_eq!(followed(setup.running, "fixed"), Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_reconciled_and_deleted_by_the_old_revision_after_refused_changes() {
    let setup = Setup::new().await;
    let (objects, namespace) = (setup.objects(), setup.fixture.namespace.clone());
    let mut first = definition("shrunk", "Shrunk");
    first["spec"]["schema"]["spec"]["size"] = json!("integer | default=1");
    objects.create(&first).await;
    objects.until_ready("shrunk").await;
    let instances = objects.namespaced("kro.run", "Shrunk", "shrunks", &namespace);
    let maps = objects.config_maps(&namespace);
    for name in ["kept", "deleted"] {
        create_instance(&instances, "Shrunk", name).await;
        until(instances.clone(), name.to_owned(), is_active).await;
    }
    let edits = [
        json!({"size": null}),
        json!({"size": "string | default=one"}),
        json!({"size": "integer | default=1 minimum=1"}),
    ];
    for (edit, number) in edits.into_iter().zip(2..) {
        objects.patch("shrunk", &json!({"spec": {"schema": {"spec": edit}}})).await;
        let refused = objects
            .until("shrunk", move |definition| {
                let kind = condition(definition, "KindReady");
                definition["status"]["lastIssuedRevision"] == number
                    && kind["status"] == "False"
                    && kind["observedGeneration"] == definition["metadata"]["generation"]
            })
            .await;
        let message = condition(&refused, "KindReady")["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with("; instances stay on revision 1"), "{message}");
        assert_eq!(followed(setup.running, "shrunk"), Some(1));
    }
    verify_reconciled(&instances, &maps, "kept", "b").await;
    instances.delete("deleted", &DeleteParams::default()).await.unwrap();
    for api in [&instances, &maps] {
        wait::woken(wait::until("the instance and its object to be deleted", || async {
            match api.get_opt("deleted").await.map_err(|error| error.to_string())? {
                None => Ok(()),
                Some(object) => Err(format!("{object:?}")),
            }
        }))
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_revision_whose_kind_belongs_to_somebody_else_is_followed_by_no_instance() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let mut foreign = definition("foreign-owner", "Occupied");
    foreign["spec"]["schema"]["spec"] = json!({"other": "string | default=a"});
    foreign["spec"]["resources"] = json!([resource("other")]);
    objects.create(&foreign).await;
    objects.until_ready("foreign-owner").await;
    objects.create(&definition("occupied", "Occupied")).await;
    let refused = objects.until_condition("occupied", "KindReady", "False").await;
    let message = condition(&refused, "KindReady")["message"].as_str().unwrap().to_owned();
    assert!(!message.contains("instances stay"), "{message}");
    assert!(setup.running.graphs.get("occupied").is_none());
    assert_eq!(followed(setup.running, "foreign-owner"), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_instances_get_a_new_field_without_an_interruption() {
    let setup = Setup::new().await;
    let (objects, namespace) = (setup.objects(), setup.fixture.namespace.clone());
    objects.create(&definition("grown", "Grown")).await;
    objects.until_ready("grown").await;
    let instances = objects.namespaced("kro.run", "Grown", "growns", &namespace);
    let maps = objects.config_maps(&namespace);
    create_instance(&instances, "Grown", "old").await;
    let before = until(instances.clone(), "old".to_owned(), is_active).await;

    let grown = json!({"spec": {
        "schema": {"spec": {"extra": "string | default=new"}, "status": {"extra": "${schema.spec.extra}"}},
        "resources": [resource("extra")],
    }});
    objects.patch("grown", &grown).await;
    wait::woken(until(maps.clone(), "old".to_owned(), |map| map["data"]["text"] == "new")).await;
    // The API server may have removed the new field of the status at first.
    let after = until(instances.clone(), "old".to_owned(), |instance| instance["status"]["extra"] == "new");
    let after = wait::woken(after).await;
    let ready_since = |instance: &Json| condition(instance, "Ready")["lastTransitionTime"].clone();
    assert!(is_active(&after), "{after:#}");
    assert_eq!(ready_since(&after), ready_since(&before), "{after:#}");

    // A value that was written while the API server still watched with the old schema.
    for number in 0..3 {
        let (field, value) = (format!("late{number}"), format!("value{number}"));
        let edit = json!({"spec": {
            "schema": {"spec": {&field: "string | default=none"}},
            "resources": [resource(&field)],
        }});
        objects.patch("grown", &edit).await;
        wait::until("the API server to accept the field", || async {
            let patch = Patch::Merge(json!({"spec": {&field: &value}}));
            let written = instances.patch("old", &PatchParams::default(), &patch).await.unwrap();
            if written.data["spec"][&field] == value.as_str() { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        wait::woken(until(maps.clone(), "old".to_owned(), move |map| map["data"]["text"] == value.as_str()))
            .await;
    }
}
