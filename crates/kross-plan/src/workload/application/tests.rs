#![allow(clippy::needless_pass_by_value)]
use serde_json::{Value as Json, json};

use super::*;

fn application() -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1", "generation": 1}}).into()
}

fn spec(names: &[&str]) -> KubernetesApplicationSpec {
    let template = |name: &&str| {
        json!({"metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}}})
    };
    let templates: Vec<Json> = names.iter().map(template).collect();
    serde_json::from_value(json!({"resourceTemplates": templates})).unwrap()
}

/// A resource as the API server returns it after it was applied.
fn stored(desired: &Value, state: Option<&str>) -> Value {
    let mut object = Json::from(desired);
    object["metadata"]["uid"] = json!("r1");
    object["metadata"]["generation"] = json!(1);
    if let Some(state) = state {
        let condition =
            json!({"type": "Ready", "status": "False", "message": "over there", "observedGeneration": 1});
        object["status"] = json!({"state": state, "conditions": [condition]});
    }
    object.into()
}

fn planned(names: &[&str], existing: &[&Value]) -> ResourcePlan {
    plan_resources(&application(), &spec(names), "eu", existing)
}

#[test]
fn every_template_becomes_a_resource_that_the_application_controls() {
    let plan = planned(&["a", "b"], &[]);
    assert_eq!(plan.apply.len(), 2);
    let first = &plan.apply[0];
    assert!(controls(&application(), first));
    assert_eq!(first.at(&["spec", "targetRef", "name"]).and_then(Value::as_str), Some("eu"));
    assert_eq!(first.at(&["metadata", "labels", "app"]).and_then(Value::as_str), Some("web"));
}

#[test]
fn a_template_does_not_set_the_controllers_own_labels_and_annotations() {
    let mut spec = spec(&["a"]);
    let own = |keys: [&str; 2]| keys.map(|key| (key.to_owned(), "x".to_owned())).into();
    spec.resource_templates[0].metadata.labels = Some(own(["kro.run/owned", "app"]));
    let inventory = own([annotations::CLUSTER_INVENTORY, "kro.run/abandon-cluster"]);
    spec.resource_templates[0].metadata.annotations = Some(inventory);
    let resource = Json::from(&plan_resources(&application(), &spec, "eu", &[]).apply[0]);
    assert_eq!(resource["metadata"]["labels"], json!({"app": "x"}));
    let keys: Vec<&String> = resource["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(keys, [annotations::DESIRED_HASH, "kro.run/abandon-cluster"]);
}

#[test]
fn a_resource_that_is_as_desired_is_not_applied_again() {
    let desired = planned(&["a"], &[]).apply.remove(0);
    assert_eq!(planned(&["a"], &[&stored(&desired, None)]), ResourcePlan::default());
    let mut drifted = Json::from(&stored(&desired, None));
    drifted["spec"]["targetRef"]["name"] = json!("us");
    let applied = planned(&["a"], &[&drifted.into()]).apply;
    assert_eq!(applied.len(), 1);
    // Only to this one, not to another that has its name by then.
    assert_eq!((text(&applied[0], "uid"), text(&desired, "uid")), ("r1", ""));
    let mut older = Json::from(&stored(&desired, None));
    older["metadata"]["annotations"][annotations::DESIRED_HASH] = json!("other");
    assert_eq!(planned(&["a"], &[&older.into()]).apply.len(), 1);
}

#[test]
fn resources_without_a_template_are_deleted_and_those_of_others_are_refused() {
    let desired = planned(&["a"], &[]).apply.remove(0);
    let own = stored(&desired, None);
    let plan = planned(&["b"], &[&own]);
    assert_eq!(plan.delete, [ResourceDeletion { name: "a".to_owned(), uid: "r1".to_owned() }]);
    let mut foreign = Json::from(&own);
    foreign["metadata"]["ownerReferences"][0]["uid"] = json!("u2");
    let foreign: Value = foreign.into();
    assert_eq!(planned(&["b"], &[&foreign]).delete, []);
    let plan = planned(&["a"], &[&foreign]);
    assert_eq!((plan.apply.len(), plan.taken.as_slice()), (0, ["a".to_owned()].as_slice()));
    let mut terminating = Json::from(&own);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let plan = planned(&["a"], &[&terminating.into()]);
    assert_eq!((plan.apply.len(), plan.terminating.len()), (0, 1));
    assert_eq!(planned(&["a", "a"], &[]).repeated, ["a"]);
}

#[test]
fn a_resource_that_cannot_be_read_is_reported_and_not_changed() {
    let mut outline = Json::from(&stored(&planned(&["a"], &[]).apply.remove(0), None));
    outline.as_object_mut().unwrap().remove("spec");
    let plan = planned(&["a"], &[&outline.into()]);
    assert_eq!((plan.apply.len(), plan.unreadable.as_slice()), (0, ["a".to_owned()].as_slice()));
    let plan = ResourcePlan { unreadable: vec!["r1".to_owned()], ..ResourcePlan::default() };
    let status = status_of(&[Some("Submitted"), None], None, plan);
    let synced = status.conditions.iter().find(|one| one.type_ == "Synced").unwrap();
    assert_eq!(synced.reason.as_deref(), Some("Failed"));
    assert!(synced.message.as_deref().unwrap().contains("`r1` cannot be read"));
}

fn status(states: &[Option<&str>], problem: Option<(Reason, String)>) -> KubernetesApplicationStatus {
    status_of(states, problem, ResourcePlan::default())
}

fn status_of(
    states: &[Option<&str>],
    problem: Option<(Reason, String)>,
    planned_now: ResourcePlan,
) -> KubernetesApplicationStatus {
    let names: Vec<String> = (0..states.len()).map(|at| format!("r{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = planned(&names, &[]);
    let resources: Vec<Value> =
        plan.apply.iter().zip(states).map(|(desired, state)| stored(desired, *state)).collect();
    let resources: Vec<&Value> = resources.iter().collect();
    let (application, spec) = (application(), spec(&names));
    let report = ApplicationReport {
        application: &application,
        spec: &spec,
        target: Some("eu"),
        problem: problem.as_ref(),
        plan: &planned_now,
        resources: &resources,
        error: None,
        now: Timestamp::UNIX_EPOCH,
    };
    report.status()
}

#[test]
fn the_state_sums_up_those_of_the_resources() {
    let (submitted, failed, pending) = (Some("Submitted"), Some("Failed"), Some("Pending"));
    for (states, expected) in [
        (&[][..], ("Submitted", 0)),
        (&[None, None], ("Scheduled", 0)),
        (&[submitted, None], ("PartiallySubmitted", 1)),
        (&[submitted, failed], ("PartiallySubmitted", 1)),
        (&[submitted, submitted], ("Submitted", 2)),
        (&[failed, failed], ("Failed", 0)),
        (&[failed, None], ("Scheduled", 0)),
        (&[pending, pending], ("Scheduled", 0)),
    ] {
        let status = status(states, None);
        assert_eq!(
            (status.state.as_deref(), status.submitted_resources),
            (Some(expected.0), Some(expected.1))
        );
        assert_eq!(status.desired_resources, i64::try_from(states.len()).ok());
    }
    let problem = (Reason::TargetNotReady, "no target".to_owned());
    let waiting = status(&[pending, pending], Some(problem));
    assert_eq!(waiting.state.as_deref(), Some("Pending"));
}

#[test]
fn the_condition_names_the_resource_that_failed_and_why() {
    let status = status(&[Some("Submitted"), Some("Failed")], None);
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    let message = ready.message.as_deref().unwrap();
    assert_eq!(
        message,
        "1 of 2 resources are applied in KubernetesTarget `eu`; KubernetesApplicationResource `r1`: over there"
    );
}

#[test]
fn a_name_that_is_taken_does_not_hide_that_the_application_waits_for_a_target() {
    let plan = || ResourcePlan { taken: vec!["r0".to_owned()], ..ResourcePlan::default() };
    let reason = |problem| {
        let status = status_of(&[Some("Submitted"), None], problem, plan());
        let synced = status.conditions.iter().find(|one| one.type_ == "Synced").unwrap();
        assert!(synced.message.as_deref().unwrap().contains("`r0` exists"));
        synced.reason.clone().unwrap()
    };
    assert_eq!(reason(None), "NameTaken");
    assert_eq!(reason(Some((Reason::NoTarget, "no target".to_owned()))), "NoTarget");
}

#[test]
fn a_state_of_an_earlier_spec_does_not_count() {
    let desired = planned(&["a"], &[]).apply.remove(0);
    let mut resource = Json::from(&stored(&desired, Some("Submitted")));
    assert_eq!(resource_state(&resource.clone().into()), Some(ApplicationState::Submitted));
    resource["metadata"]["generation"] = json!(2);
    assert_eq!(resource_state(&resource.into()), None);
}

#[test]
fn the_message_says_how_many_failed_resources_keep_what_was_applied_before() {
    let (plan, spec) = (ResourcePlan::default(), spec(&["a", "b", "c"]));
    let resource = |name: &str, state: &str, entries: Json| -> Value {
        let mut desired = planned(&[name], &[]).apply.remove(0);
        desired = stored(&desired, Some(state));
        let mut object = Json::from(&desired);
        object["status"]["managedResources"] = entries;
        object.into()
    };
    let applied = json!([{"id": "template", "uid": "o1"}]);
    let resources = [
        resource("a", "Submitted", applied.clone()),
        resource("b", "Failed", applied),
        resource("c", "Failed", json!([{"id": "template"}])),
    ];
    let resources: Vec<&Value> = resources.iter().collect();
    let problem = (Reason::TargetNotReady, "it is being deleted".to_owned());
    let report = ApplicationReport {
        application: &application(),
        spec: &spec,
        target: Some("eu"),
        problem: Some(&problem),
        plan: &plan,
        resources: &resources,
        error: None,
        now: Timestamp::UNIX_EPOCH,
    };
    let status = report.status();
    assert_eq!(status.state.as_deref(), Some("PartiallySubmitted"));
    assert_eq!(
        status.conditions[0].message.as_deref(),
        Some(
            "1 of 3 resources are applied in KubernetesTarget `eu`; 1 keep what was applied before; it is being deleted"
        )
    );
}

#[test]
fn resources_are_not_deleted_while_the_garbage_collector_orphans_them() {
    let mut deleted = Json::from(&application());
    deleted["metadata"]["finalizers"] = json!(["orphan", "kro.run/finalizer"]);
    let (plan, spec, deleted) = (ResourcePlan::default(), spec(&["a"]), Value::from(deleted));
    let own = stored(&planned(&["a"], &[]).apply[0], Some("Submitted"));
    let resources = [&own];
    let mut report = ApplicationReport {
        application: &deleted,
        spec: &spec,
        target: None,
        problem: None,
        plan: &plan,
        resources: &resources,
        error: None,
        now: Timestamp::UNIX_EPOCH,
    };
    assert!(report.deletions().is_empty());
    let application = application();
    report.application = &application;
    assert_eq!(report.deletions().len(), 1);
}

#[test]
fn the_resources_give_up_the_clusters_that_their_application_gives_up() {
    let mut giving_up = Json::from(&application());
    giving_up["metadata"]["annotations"] = json!({"kro.run/abandon-cluster": "u-1"});
    let applied = |application: &Json| {
        let application = Value::from(application.clone());
        plan_resources(&application, &spec(&["a"]), "eu", &[]).apply.remove(0)
    };
    let (before, after) = (applied(&Json::from(&application())), applied(&giving_up));
    let annotation = |resource: &Value| {
        Some(resource.at(&["metadata", "annotations"])?.get("kro.run/abandon-cluster")?.as_str()?.to_owned())
    };
    assert_eq!((annotation(&before), annotation(&after).as_deref()), (None, Some("u-1")));

    // One that is being deleted applies no templates any more.
    let (plan, spec) = (ResourcePlan::default(), spec(&["a"]));
    let given_up = |application: &Json, resource: &Value| {
        let application = Value::from(application.clone());
        ApplicationReport {
            application: &application,
            spec: &spec,
            target: None,
            problem: None,
            plan: &plan,
            resources: &[resource],
            error: None,
            now: Timestamp::UNIX_EPOCH,
        }
        .given_up()
    };
    let (before, after) = (stored(&before, Some("Submitted")), stored(&after, Some("Submitted")));
    let annotations = given_up(&giving_up, &before);
    assert_eq!((annotations[0].name.as_str(), annotations[0].value.as_str()), ("a", "u-1"));
    assert!(
        given_up(&giving_up, &after).is_empty() && given_up(&Json::from(&application()), &before).is_empty()
    );
    giving_up["metadata"]["finalizers"] = json!(["orphan"]);
    assert!(given_up(&giving_up, &before).is_empty(), "orphaned resources are not changed");
}
