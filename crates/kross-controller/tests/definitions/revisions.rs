//! Revisions: content, numbers, retention and adoption.

use kross_local::KubernetesVersion;
use kross_testing::wait;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::setup::{Setup, condition, definition, until, with_field};

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_is_an_immutable_snapshot_that_reports_its_compilation() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("frozen", "Frozen")).await;
    let owner = objects.until_ready("frozen").await;
    let revision = objects.get(&objects.revisions(), "frozen-r00001").await;
    let metadata = &revision["metadata"];
    let labels = metadata["labels"].as_object().unwrap();
    assert_eq!(labels["kro.run/owned"], "true");
    assert_eq!(labels["kro.run/kro-version"], "devel");
    assert_eq!(labels["kro.run/resource-graph-definition-name"], "frozen");
    assert_eq!(labels["kro.run/graph-revision-hash"].as_str().unwrap().len(), 16);
    assert_eq!(labels.len(), 4);
    assert_eq!(
        metadata["ownerReferences"],
        json!([{"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "name": "frozen",
            "uid": owner["metadata"]["uid"], "controller": true}])
    );
    assert_eq!(metadata["finalizers"], json!(["kro.run/finalizer"]));
    assert_eq!(revision["spec"]["revision"], 1);
    let snapshot = json!({"name": "frozen", "generation": 1, "spec": owner["spec"]});
    assert_eq!(revision["spec"]["snapshot"], snapshot);
    assert_eq!(revision["status"]["topologicalOrder"], json!(["first", "second"]));
    let verified = condition(&revision, "GraphVerified");
    assert_eq!(
        (&verified["status"], &verified["reason"], &verified["message"]),
        (&json!("True"), &json!("Verified"), &json!("graph revision compiled and verified"))
    );
    assert_eq!(condition(&revision, "Ready")["status"], "True");

    // Revisions can be selected by the name of their definition, and are immutable. Kubernetes supports field selectors for
    // custom resources since 1.31.
    if KubernetesVersion::from_environment().unwrap().minor() != "1.30" {
        let of = ListParams::default().fields("spec.snapshot.name=frozen");
        let found = objects.revisions().list(&of).await.unwrap();
        let names: Vec<_> = found.iter().map(|revision| revision.metadata.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["frozen-r00001"]);
    }
    let change = Patch::Merge(json!({"spec": {"snapshot": {"generation": 2}}}));
    let refused = objects.revisions().patch("frozen-r00001", &PatchParams::default(), &change).await;
    assert!(refused.unwrap_err().to_string().contains("immutable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_an_edit_during_a_status_write() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let edited = definition("edited-often", "EditedOften");
    objects.create(&edited).await;
    let mut resources = edited["spec"]["resources"].clone();
    for round in 0..12 {
        // The last edit comes while the status for the earlier ones is written.
        for step in 0..4 {
            resources[1]["template"]["data"] = json!({"edit": format!("{round}.{step}")});
            objects.patch("edited-often", &json!({"spec": {"resources": resources}})).await;
        }
        wait::woken(objects.until_ready("edited-often")).await;
    }
    // The same for a deletion directly after an edit.
    objects.patch("edited-often", &with_field("last", "string | default=a")).await;
    objects.delete("edited-often").await;
    wait::until_deleted(&objects.definitions(), "edited-often").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_newest_five_revisions_and_never_reuses_a_number() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("kept", "Kept")).await;
    objects.until_ready("kept").await;
    for number in 2..=7 {
        objects.patch("kept", &with_field(&format!("field{number}"), "string | default=a")).await;
        let ready = objects.until_ready("kept").await;
        assert_eq!(ready["status"]["lastIssuedRevision"], number);
    }
    let expected: Vec<String> = (3..=7).map(|number| format!("kept-r{number:05}")).collect();
    wait::until("the oldest revisions to be deleted", || async {
        let names = objects.revision_names("kept").await;
        if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;

    // The numbers continue even if all revisions are deleted.
    for name in expected {
        objects.revisions().delete(&name, &DeleteParams::default()).await.unwrap();
    }
    let reissued =
        wait::woken(objects.until("kept", |definition| definition["status"]["lastIssuedRevision"] == 8))
            .await;
    assert_eq!(reissued["metadata"]["generation"], 7);
    objects.until_ready("kept").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopts_revisions_and_crd_of_a_definition_that_was_created_again() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("again", "Again")).await;
    let first = objects.until_ready("again").await;
    objects.delete("again").await;
    wait::until_deleted(&objects.definitions(), "again").await;
    // There is no garbage collector here, which is like a deletion with `--cascade=orphan`.
    assert_eq!(objects.revision_names("again").await, ["again-r00001"]);
    objects.create(&definition("again", "Again")).await;
    let second = objects.until_ready("again").await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(second["status"]["lastIssuedRevision"], 1);
    assert_eq!(objects.revision_names("again").await, ["again-r00001"]);
    let revision = objects.get(&objects.revisions(), "again-r00001").await;
    let owners = revision["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0]["uid"]), (1, &second["metadata"]["uid"]));
    let crd = objects.get(&objects.crds(), "agains.kro.run").await;
    assert_eq!(crd["metadata"]["labels"]["kro.run/resource-graph-definition-id"], second["metadata"]["uid"]);
    assert_eq!(crd["metadata"]["generation"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_while_the_latest_revision_is_being_deleted() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("settling", "Settling")).await;
    objects.until_ready("settling").await;
    let revisions = objects.revisions();
    let finalizers = async |finalizers| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        revisions.patch("settling-r00001", &PatchParams::default(), &patch).await.unwrap();
    };
    finalizers(json!(["kro.run/finalizer", "test.kross.run/hold"])).await;
    revisions.delete("settling-r00001", &DeleteParams::default()).await.unwrap();
    // The controller removes its finalizer, so that only the other one blocks the deletion.
    wait::woken(until(revisions.clone(), "settling-r00001".to_owned(), |revision| {
        revision["metadata"]["finalizers"] == json!(["test.kross.run/hold"])
    }))
    .await;
    objects.patch("settling", &with_field("more", "string | default=a")).await;
    let waiting = objects.until_condition("settling", "GraphRevisionsResolved", "Unknown").await;
    let resolved = condition(&waiting, "GraphRevisionsResolved");
    assert_eq!(resolved["reason"], "WaitingForGraphRevisionSettlement");
    assert_eq!(resolved["message"], "waiting for terminating graph revisions to settle");
    assert_eq!(objects.revision_names("settling").await, ["settling-r00001"]);
    finalizers(json!([])).await;
    let ready = wait::woken(objects.until_ready("settling")).await;
    assert_eq!(ready["status"]["lastIssuedRevision"], 2);
    assert_eq!(objects.revision_names("settling").await, ["settling-r00002"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn adopts_a_revision_that_lost_its_owner() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("orphaned", "Orphaned")).await;
    let owner = objects.until_ready("orphaned").await;
    let bare = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    objects.revisions().patch("orphaned-r00001", &PatchParams::default(), &bare).await.unwrap();
    wait::woken(until(objects.revisions(), "orphaned-r00001".to_owned(), |revision| {
        revision["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    }))
    .await;
    assert_eq!(objects.revision_names("orphaned").await, ["orphaned-r00001"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reordered_resources_make_no_new_revision() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let made = definition("shuffled", "Shuffled");
    objects.create(&made).await;
    objects.until_ready("shuffled").await;
    let resources = &made["spec"]["resources"];
    objects.patch("shuffled", &json!({"spec": {"resources": [resources[1], resources[0]]}})).await;
    let ready = objects.until_ready("shuffled").await;
    assert_eq!(ready["metadata"]["generation"], 2);
    assert_eq!(ready["status"]["lastIssuedRevision"], 1);
    assert_eq!(objects.revision_names("shuffled").await, ["shuffled-r00001"]);
}
