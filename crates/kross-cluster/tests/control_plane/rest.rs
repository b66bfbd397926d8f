//! The REST verbs: apply, release, patch, delete and list.

use kross_api::{FailureReason, Operation, labels, managers};
use kross_cluster::{
    Apply, Delete, Deleted, FieldValidation, Missing, OwnershipMarks, Propagation, ReleaseOutcome,
};
use kross_value::Value;
use serde_json::json;

use crate::setup::Setup;

const OURS: Apply<'static> = Apply {
    manager: managers::APPLYSET,
    force: false,
    validation: FieldValidation::Strict,
    subresource: None,
    operation: Operation::Update,
};

#[tokio::test(flavor = "multi_thread")]
async fn apply_returns_the_object_with_a_digest_of_our_fields() {
    let setup = Setup::new().await;
    let (client, kind) = (&setup.client, &setup.config_map);
    let desired = setup.object("web", &[("a", "1")]);
    let created = client.apply(kind, &desired, OURS).await.unwrap();
    assert!(created.is_applied(&desired));
    let digest = created.owned_digest().unwrap();

    // Applying the same again changes nothing, and the server agrees.
    let again = client.apply(kind, &desired, OURS).await.unwrap();
    assert_eq!((again.resource_version(), again.owned_digest()), (created.resource_version(), Some(digest)));

    // A field of another manager does not matter.
    let patch: Value = json!({"data": {"b": "2"}}).into();
    let noise = client.merge_patch(kind, setup.namespace(), "web", None, "kubectl", &patch).await.unwrap();
    assert_ne!(noise.resource_version(), created.resource_version());
    assert_eq!(noise.owned_digest(), Some(digest));
    assert!(noise.is_applied(&desired));

    // Another value in our field is drift, and so is its removal.
    for change in [json!({"data": {"a": "changed"}}), json!({"data": {"a": null}})] {
        let drifted = client
            .merge_patch(kind, setup.namespace(), "web", None, "kubectl", &change.into())
            .await
            .unwrap();
        assert_ne!(drifted.owned_digest(), Some(digest));
        assert!(!drifted.is_applied(&desired));
        let repaired = client.apply(kind, &desired, OURS.force()).await.unwrap();
        assert_eq!(repaired.owned_digest(), Some(digest));
        assert!(repaired.is_applied(&desired));
    }
    let read = client.get(kind, setup.namespace(), "web").await.unwrap();
    assert_eq!(read.owned_digest(), Some(digest));
    assert_eq!(read.value().at(&["data", "b"]), Some(&"2".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_names_the_manager_and_force_takes_the_field_over() {
    let setup = Setup::new().await;
    let (client, kind) = (&setup.client, &setup.config_map);
    let theirs = setup.labelled("web", &[(labels::APPLYSET_PART_OF, "applyset-theirs-v1")], &[("a", "1")]);
    client.apply(kind, &theirs, Apply::by("other-tool")).await.unwrap();

    let ours = setup.labelled("web", &[(labels::APPLYSET_PART_OF, "applyset-ours-v1")], &[("a", "2")]);
    let error = client.apply(kind, &ours, OURS).await.unwrap_err();
    assert_eq!((error.reason(), error.code()), (FailureReason::Conflict, Some(409)));
    assert_eq!(error.conflicts().len(), 2);
    assert_eq!(error.label_conflict(labels::APPLYSET_PART_OF).unwrap().manager, "other-tool");
    assert!(error.to_string().starts_with("cannot update ConfigMap `test-"), "{error}");

    let same = setup.labelled("web", &[], &[("a", "2")]);
    let error = client.apply(kind, &same, OURS).await.unwrap_err();
    assert_eq!(error.label_conflict(labels::APPLYSET_PART_OF), None);
    assert_eq!(error.conflicts()[0].field, ".data.a");

    let taken = client.apply(kind, &ours, OURS.force()).await.unwrap();
    assert_eq!(taken.label(labels::APPLYSET_PART_OF), Some("applyset-ours-v1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn release_removes_our_ownership_marks_and_managed_fields_only() {
    let setup = Setup::new().await;
    let (client, kind) = (&setup.client, &setup.config_map);
    let marks = OwnershipMarks { manager: managers::APPLYSET, is_mark: |key, _| key.starts_with("kro.run/") };
    let ours = setup.labelled("web", &[("kro.run/owned", "true"), ("tier", "web")], &[("a", "1")]);
    let applied = client.apply(kind, &ours, OURS).await.unwrap();
    let namespace = setup.namespace();
    let release = |uid: String| async move { client.release(kind, namespace, "web", &uid, marks).await };
    assert_eq!(release("another".to_owned()).await.unwrap(), ReleaseOutcome::NotFound);
    assert_eq!(release(applied.uid().to_string()).await.unwrap(), ReleaseOutcome::Released);
    let config_maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = setup.fixture.hub.api();
    let left = config_maps.get("web").await.unwrap();
    assert_eq!(left.data.clone().unwrap()["a"], "1");
    assert_eq!(
        left.metadata.labels.clone().unwrap().into_iter().collect::<Vec<_>>(),
        [("tier".to_owned(), "web".to_owned())]
    );
    assert_eq!(left.metadata.managed_fields.unwrap_or_default(), []);
    let version = left.metadata.resource_version.unwrap();
    assert_eq!(release(applied.uid().to_string()).await.unwrap(), ReleaseOutcome::Released);
    let again = client.get(kind, setup.namespace(), "web").await.unwrap();
    assert_eq!(*again.resource_version(), *version, "an object without marks is not written");

    // Managed fields of others stay.
    let other = setup.labelled("other", &[("kro.run/owned", "true")], &[("a", "1")]);
    let applied = client.apply(kind, &other, OURS).await.unwrap();
    let patch: Value = json!({"data": {"b": "2"}}).into();
    client.merge_patch(kind, namespace, "other", None, "kubectl", &patch).await.unwrap();
    let released = client.release(kind, namespace, "other", applied.uid(), marks).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released);
    let left = config_maps.get("other").await.unwrap();
    let managers: Vec<_> =
        left.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["kubectl"]);
    assert_eq!(left.data.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_of_an_outdated_version_is_a_conflict() {
    let setup = Setup::new().await;
    let (client, kind) = (&setup.client, &setup.config_map);
    let first = client.create(kind, &setup.object("web", &[]), "test").await.unwrap();
    let patch = |data: &str| -> Value {
        json!({"metadata": {"resourceVersion": first.resource_version().as_str()}, "data": {"a": data}})
            .into()
    };
    let namespace = setup.namespace();
    client.merge_patch(kind, namespace, "web", None, "test", &patch("1")).await.unwrap();
    let error = client.merge_patch(kind, namespace, "web", None, "test", &patch("2")).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Conflict);
    assert!(error.conflicts().is_empty());
    let exists = client.create(kind, &setup.object("web", &[]), "test").await.unwrap_err();
    assert_eq!((exists.reason(), exists.operation()), (FailureReason::Conflict, Operation::Create));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_with_another_uid_is_a_conflict() {
    let setup = Setup::new().await;
    let (client, kind, namespace) = (&setup.client, &setup.config_map, setup.namespace());
    let mut object = setup.object("web", &[]);
    let metadata = object.as_object_mut().unwrap().get_mut("metadata").unwrap().as_object_mut().unwrap();
    metadata.insert("finalizers", Value::list(["kro.run/finalizer".into()]));
    let created = client.create(kind, &object, "test").await.unwrap();

    let wrong = Delete { uid: Some("00000000-0000-0000-0000-000000000000"), ..Delete::default() };
    let error = client.delete(kind, namespace, "web", wrong).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Conflict);

    let right = Delete {
        uid: Some(created.uid()),
        resource_version: Some(created.resource_version()),
        propagation: Some(Propagation::Background),
    };
    let Deleted::Terminating(left) = client.delete(kind, namespace, "web", right).await.unwrap() else {
        panic!("the finalizer keeps it");
    };
    assert!(left.deletion_timestamp().is_some());
    let patch =
        json!({"metadata": {"finalizers": null, "resourceVersion": left.resource_version().as_str()}});
    client.merge_patch(kind, namespace, "web", None, "test", &patch.into()).await.unwrap();
    let error = client.delete(kind, namespace, "web", Delete::default()).await.unwrap_err();
    assert!(error.is_object_not_found());
    assert_eq!(error.missing(), Some(&Missing::Object));

    client.create(kind, &setup.object("web", &[]), "test").await.unwrap();
    assert!(matches!(
        client.delete(kind, namespace, "web", Delete::default()).await.unwrap(),
        Deleted::Removed
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn distinguishes_missing_namespaces_kinds_and_invalid_objects() {
    let setup = Setup::new().await;
    let (client, kind) = (&setup.client, &setup.config_map);

    let nowhere: Value =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "not-there"}})
            .into();
    let error = client.apply(kind, &nowhere, OURS).await.unwrap_err();
    assert_eq!(error.missing(), Some(&Missing::Namespace("not-there".into())));

    let mut unknown = setup.object("web", &[]);
    unknown.as_object_mut().unwrap().insert("dta", Value::object([]));
    let error = client.apply(kind, &unknown, OURS).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Invalid, "{error}");

    let nameless: Value =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}}).into();
    let error = client.apply(kind, &nameless, OURS).await.unwrap_err();
    assert_eq!((error.reason(), error.code()), (FailureReason::Invalid, None));

    let vanished = kross_cluster::ApiKind::custom("example.com", "v1", "Gone", "gones", true);
    let error = client.get(&vanished, Some("default"), "x").await.unwrap_err();
    assert_eq!(error.missing(), Some(&Missing::Kind));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_span_pages_and_namespaces() {
    let setup = Setup::new().await;
    let (client, kind) = (&setup.client, &setup.config_map);
    let names: Vec<String> = (0..620).map(|n| format!("item-{n}")).collect();
    let label = [("kro.run/instance-id", setup.fixture.namespace.as_str())];
    let writes = names.iter().map(|name| async {
        client.apply(kind, &setup.labelled(name, &label, &[]), OURS).await.unwrap();
    });
    futures::future::join_all(writes).await;

    let selector = format!("kro.run/instance-id={}", setup.fixture.namespace);
    let secret = client.kind("", None, "Secret").await.unwrap();
    for (kind, namespace, expected) in
        [(&**kind, setup.namespace(), 620), (&*secret, setup.namespace(), 0), (&**kind, None, 620)]
    {
        let listed = client.list(kind, namespace, Some(&selector)).await.unwrap();
        assert_eq!(listed.len(), expected);
    }
    // 620 writes at once fit on a few connections.
    let stats = client.stats().requests;
    assert!(stats.dials <= 4, "{stats:?}");
    assert_eq!((stats.failed, stats.streams), (0, 0), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kube_client_uses_the_same_connection() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let setup = Setup::new().await;
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(setup.client.client(), &setup.fixture.namespace);
    let map = kross_testing::objects::config_map("web", &[("a", "1")]);
    maps.create(&kube::api::PostParams::default(), &map).await.unwrap();
    assert_eq!(maps.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
    assert_eq!(setup.client.stats().requests.dials, 1);
}
