//! The CRD of a definition: created, updated, restored, and which definition owns it.

use std::time::{Duration, Instant};

use kross_testing::wait;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::setup::{Setup, condition, create_once_served, definition, until, with_field};

#[tokio::test(flavor = "multi_thread")]
async fn the_crd_is_that_of_kro_and_stays_at_generation_1() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("webs", "Web")).await;
    let owner = objects.until_ready("webs").await;
    // Changes without an effect on the graph.
    objects.patch("webs", &json!({"metadata": {"labels": {"team": "web"}}})).await;
    objects.patch("webs", &json!({"spec": {"schema": {"group": "kro.run"}}})).await;
    objects.patch("webs", &json!({"spec": {"schema": {"shortNames": []}}})).await;
    objects.until_ready("webs").await;
    let crd = objects.get(&objects.crds(), "webs.kro.run").await;
    assert_eq!(crd["metadata"]["generation"], 1);
    assert_eq!(
        crd["metadata"]["labels"],
        json!({
            "kro.run/owned": "true", "kro.run/kro-version": "devel",
            "kro.run/resource-graph-definition-name": "webs",
            "kro.run/resource-graph-definition-id": owner["metadata"]["uid"],
        })
    );
    assert_eq!(crd["metadata"].get("ownerReferences"), None);
    let names = &crd["spec"]["names"];
    assert_eq!((&names["singular"], &names["listKind"]), (&json!("web"), &json!("WebList")));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(
        version["additionalPrinterColumns"],
        json!([
            {"name": "State", "type": "string", "jsonPath": ".status.state",
                "description": "The state of a ResourceGraphDefinition instance"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
                "description": "Whether a ResourceGraphDefinition instance is ready"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
                "description": "Age of the resource"},
        ])
    );
    assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
    assert_eq!(version["subresources"], json!({"status": {}}));
    assert_eq!(crd["spec"]["versions"].as_array().unwrap().len(), 1);
    assert_eq!(objects.revision_names("webs").await, ["webs-r00001"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_the_crd_for_a_compatible_change() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("harmless", "Harmless")).await;
    objects.until_ready("harmless").await;
    let change = json!({"spec": {"schema": {
        "spec": {"name": "string | default=a validation=\"self != 'b'\""},
        "shortNames": ["hrm"],
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "metadata": {"labels": {"team": "web"}, "annotations": {"note": "x"}},
    }}});
    objects.patch("harmless", &change).await;
    objects.until_ready("harmless").await;
    let crd = objects.get(&objects.crds(), "harmlesses.kro.run").await;
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["hrm"]));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["additionalPrinterColumns"][0]["name"], "Size");
    let name = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["name"];
    assert_eq!(name["x-kubernetes-validations"][0]["rule"], "self != 'b'");
    assert_eq!(crd["metadata"]["labels"]["team"], "web");
    assert_eq!(crd["metadata"]["annotations"]["note"], "x");
    assert_eq!(crd["metadata"]["generation"], 2);

    objects.patch("harmless", &json!({"spec": {"schema": {"shortNames": null}}})).await;
    objects.until_ready("harmless").await;
    let crd = objects.get(&objects.crds(), "harmlesses.kro.run").await;
    assert_eq!(crd["spec"]["names"].get("shortNames"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_back_a_breaking_crd_change_until_the_annotation_allows_it() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("breaking", "Breaking")).await;
    objects.until_ready("breaking").await;
    objects.patch("breaking", &with_field("size", "string | default=a")).await;
    let refused = objects.until_condition("breaking", "KindReady", "False").await;
    let kind = condition(&refused, "KindReady");
    assert_eq!(kind["reason"], "Failed");
    let message = kind["message"].as_str().unwrap();
    assert!(
        message.starts_with("cannot update CRD breakings.kro.run: breaking changes detected: ")
            && message.contains("; set the annotation `kro.run/allow-breaking-changes: \"true\"`"),
        "{message}"
    );
    assert_eq!(condition(&refused, "GraphAccepted")["status"], "True");
    assert_eq!(refused["status"]["state"], "Inactive");
    assert_eq!(objects.revision_names("breaking").await, ["breaking-r00001", "breaking-r00002"]);

    let allow = json!({"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}}});
    objects.patch("breaking", &allow).await;
    wait::woken(objects.until_ready("breaking")).await;
    let crd = objects.get(&objects.crds(), "breakings.kro.run").await;
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["properties"]["size"]["type"], "string");
    assert_eq!(objects.revision_names("breaking").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_a_crd_that_was_edited_or_deleted() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("damaged", "Damaged")).await;
    objects.until_ready("damaged").await;
    let crds = objects.crds();
    let before = objects.get(&crds, "damageds.kro.run").await;
    let edit = json!({"spec": {"names": {"shortNames": ["edited"]}}});
    crds.patch("damageds.kro.run", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    wait::woken(until(crds.clone(), "damageds.kro.run".to_owned(), |crd| {
        crd["spec"]["names"].get("shortNames").is_none() && crd["metadata"]["generation"] == 3
    }))
    .await;

    crds.delete("damageds.kro.run", &DeleteParams::default()).await.unwrap();
    wait::woken(until(crds.clone(), "damageds.kro.run".to_owned(), move |crd| {
        crd["metadata"]["uid"] != before["metadata"]["uid"]
    }))
    .await;
    wait::woken(objects.until_ready("damaged")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_restores_of_a_crd_that_another_client_changes_again_and_again_back_off() {
    const MEASURED: Duration = Duration::from_secs(10);
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("fought-over", "FoughtOver")).await;
    objects.until_ready("fought-over").await;
    let crds = objects.crds();
    let rival = tokio::spawn({
        let crds = crds.clone();
        let params = PatchParams { field_manager: Some("rival".to_owned()), ..PatchParams::default() };
        let edit = Patch::Merge(json!({"metadata": {"labels": {"kro.run/kro-version": "rival"}}}));
        async move {
            loop {
                if let Ok(crd) = crds.get("foughtovers.kro.run").await
                    && crd.metadata.labels.as_ref().is_some_and(|all| all["kro.run/kro-version"] != "rival")
                {
                    let _ = crds.patch("foughtovers.kro.run", &params, &edit).await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let message = |found: &serde_json::Value| condition(found, "KindReady")["message"].to_string();
    let contested = objects.until("fought-over", move |found| message(found).contains("rival")).await;
    let said = message(&contested);
    assert!(said.contains("`metadata.labels.kro.run/kro-version`"), "{said}");
    assert!(said.contains("stop the other client from writing it"), "{said}");
    // The API is served all the while.
    assert_eq!(contested["status"]["state"], "Active");
    let (begun, mut versions) = (Instant::now(), std::collections::BTreeSet::new());
    while begun.elapsed() < MEASURED {
        let crd = objects.get(&crds, "foughtovers.kro.run").await;
        versions.insert(crd["metadata"]["resourceVersion"].to_string());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Each round is a restore and an edit.
    assert!(versions.len() <= 10, "{} versions in {MEASURED:?}", versions.len());
    let events = objects.events("default").list(&ListParams::default()).await.unwrap().items;
    let is_about = |event: &&kube::api::DynamicObject| {
        event.data["regarding"]["name"] == "fought-over" && event.data["reason"] == "RepairsBackOff"
    };
    assert_eq!(events.iter().filter(is_about).count(), 1);

    // A change of the definition is applied at once.
    objects.patch("fought-over", &json!({"spec": {"schema": {"shortNames": ["fo"]}}})).await;
    wait::woken(until(crds.clone(), "foughtovers.kro.run".to_owned(), |crd| {
        crd["spec"]["names"]["shortNames"] == json!(["fo"])
    }))
    .await;
    rival.abort();
    until(crds, "foughtovers.kro.run".to_owned(), |crd| {
        crd["metadata"]["labels"]["kro.run/kro-version"] == "devel"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_belongs_to_the_definition_that_created_it_first() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    objects.create(&definition("owner", "Contested")).await;
    objects.until_ready("owner").await;
    objects.create(&definition("contender", "Contested")).await;
    let contender = objects.until_condition("contender", "KindReady", "False").await;
    assert_eq!(
        condition(&contender, "KindReady")["message"],
        "failed to update CRD contesteds.kro.run: CRD is owned by another ResourceGraphDefinition owner"
    );
    assert_eq!(condition(&contender, "GraphAccepted")["status"], "True");
    assert!(setup.running.graphs.get("contender").is_none());

    // It never owned the kind, so the owner's instances do not block its deletion.
    let api = objects.namespaced("kro.run", "Contested", "contesteds", &setup.fixture.namespace);
    let instance =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": "Contested", "metadata": {"name": "a"}, "spec": {}});
    create_once_served(&api, instance).await;
    objects.delete("contender").await;
    wait::until_deleted(&objects.definitions(), "contender").await;
    assert!(setup.running.graphs.get("owner").is_some());
    assert!(objects.crds().get_opt("contesteds.kro.run").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn never_updates_a_crd_that_it_does_not_own() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foreigns.kro.run"},
        "spec": {"group": "kro.run", "scope": "Namespaced", "names": {"kind": "Foreign", "plural": "foreigns"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    objects.crds().create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    objects.create(&definition("foreign", "Foreign")).await;
    let expected = "failed to update CRD foreigns.kro.run: CRD already exists and is not owned by KRO";
    objects.until("foreign", |foreign| condition(foreign, "KindReady")["message"] == expected).await;
    let crd = objects.get(&objects.crds(), "foreigns.kro.run").await;
    assert_eq!(crd["metadata"]["generation"], 1);

    // Once that CRD is deleted, the definition creates its own.
    objects.crds().delete("foreigns.kro.run", &DeleteParams::default()).await.unwrap();
    wait::woken(objects.until_ready("foreign")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_crd_names_that_are_taken_until_they_are_free() {
    let setup = Setup::new().await;
    let objects = setup.objects();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "taken.names.test"},
        "spec": {"group": "names.test", "scope": "Namespaced",
            "names": {"kind": "Taken", "plural": "taken", "shortNames": ["short"]},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let crds = objects.crds();
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    until(crds.clone(), "taken.names.test".to_owned(), |crd| {
        condition(crd, "Established")["status"] == "True"
    })
    .await;
    let mut late = definition("late-names", "LateNames");
    late["spec"]["schema"]["group"] = json!("names.test");
    late["spec"]["schema"]["shortNames"] = json!(["short"]);
    objects.create(&late).await;
    let refused = objects.until_condition("late-names", "KindReady", "False").await;
    let kind = condition(&refused, "KindReady");
    assert_eq!(kind["reason"], "Failed");
    let message = kind["message"].as_str().unwrap();
    assert!(message.contains("latenames.names.test") && message.contains("short"), "{message}");
    crds.delete("taken.names.test", &DeleteParams::default()).await.unwrap();
    wait::woken(objects.until_ready("late-names")).await;
}
