//! Revisions: their content, numbers, retention and adoption.

use kube::api::DeleteParams;
use serde_json::json;

use crate::setup::{Setup, condition, definition, field};

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_is_a_frozen_copy_that_says_what_came_of_it() {
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
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_five_revisions_are_kept_and_no_number_comes_twice() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("kept", "Kept")).await;
    objects.until_ready("kept").await;
    for number in 2..=7 {
        objects.patch("kept", &field(&format!("field{number}"), "string | default=a")).await;
        let ready = objects.until_ready("kept").await;
        assert_eq!(ready["status"]["lastIssuedRevision"], number);
    }
    let expected: Vec<String> = (3..=7).map(|number| format!("kept-r{number:05}")).collect();
    kross_testing::wait::until("the oldest to be gone", || async {
        let names = objects.revision_names("kept").await;
        if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;

    // Even when all are gone the numbers go on.
    for name in expected {
        objects.revisions().delete(&name, &DeleteParams::default()).await.unwrap();
    }
    let again = objects.until("kept", |definition| definition["status"]["lastIssuedRevision"] == 8).await;
    assert_eq!(again["metadata"]["generation"], 7);
    objects.until_ready("kept").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_was_made_again_adopts_its_revisions_and_its_crd() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("again", "Again")).await;
    let first = objects.until_ready("again").await;
    objects.delete("again").await;
    kross_testing::wait::until_gone(&objects.definitions(), "again").await;
    // Nothing collects garbage here, as after a deletion with `--cascade=orphan`.
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
