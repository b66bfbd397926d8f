#![allow(clippy::needless_pass_by_value)]
use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;

fn target(name: &str, labels: Json, ready: &str) -> Value {
    let conditions = json!([{"type": "Ready", "status": ready}]);
    json!({"metadata": {"name": name, "labels": labels}, "status": {"conditions": conditions}}).into()
}

fn fleet() -> Vec<Value> {
    vec![
        target("a", json!({"env": "test"}), "True"),
        target("b", json!({"env": "prod", "zone": "x"}), "True"),
        target("c", json!({"env": "prod", "zone": "y"}), "True"),
        target("d", json!({"env": "prod"}), "False"),
    ]
}

struct Case {
    targets: Vec<Value>,
    loads: BTreeMap<&'static str, usize>,
    used: BTreeSet<String>,
    annotations: Json,
    spec: Json,
}

impl Case {
    fn new(spec: Json) -> Self {
        Self { targets: fleet(), loads: BTreeMap::new(), used: BTreeSet::new(), annotations: json!({}), spec }
    }

    fn run(&self) -> Scheduling {
        let application: Value =
            json!({"metadata": {"namespace": "shop", "annotations": self.annotations}}).into();
        let targets: Vec<PublishedTarget<'_>> = self.targets.iter().map(PublishedTarget).collect();
        let load = |name: &str| self.loads.get(name).copied().unwrap_or_default();
        let surroundings = Surroundings { targets: &targets, load: &load, used: &self.used };
        let spec: KubernetesApplicationSpec = serde_json::from_value(self.spec.clone()).unwrap();
        schedule(&application, &spec, &surroundings)
    }

    /// The application as the controller leaves it after a run.
    fn record(mut self) -> Self {
        let scheduled = self.run();
        let annotations = self.annotations.as_object_mut().unwrap();
        annotations.insert(annotations::SCHEDULED.to_owned(), scheduled.record.into());
        annotations.insert(annotations::RESCHEDULED.to_owned(), scheduled.served.into());
        self.spec["targetRef"] = json!({"name": scheduled.target});
        self
    }

    fn target(&self) -> Option<String> {
        self.run().target
    }
}

fn prod() -> Json {
    json!({"targetSelector": {"matchLabels": {"env": "prod"}}})
}

#[test]
fn only_ready_targets_that_the_selector_matches_are_chosen() {
    assert_eq!(Case::new(json!({})).target().as_deref(), Some("a"));
    assert_eq!(Case::new(prod()).target().as_deref(), Some("b"));
    let expression = |operator: &str, values: Json| {
        let requirement = json!({"key": "zone", "operator": operator, "values": values});
        Case::new(json!({"targetSelector": {"matchExpressions": [requirement]}})).target()
    };
    assert_eq!(expression("In", json!(["y"])).as_deref(), Some("c"));
    assert_eq!(expression("DoesNotExist", json!([])).as_deref(), Some("a"));
}

#[test]
fn a_target_that_is_being_deleted_is_not_chosen() {
    let mut case = Case::new(prod());
    case.targets[1] = json!({"metadata": {"name": "b", "labels": {"env": "prod"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    .into();
    assert_eq!(case.target().as_deref(), Some("c"));
}

#[test]
fn the_least_loaded_target_is_chosen_and_preferences_count_more() {
    let mut case = Case::new(prod());
    case.loads = [("b", 3), ("c", 2)].into();
    assert_eq!(case.target().as_deref(), Some("c"));
    let zone =
        |zone: &str, weight: i64| json!({"weight": weight, "labelSelector": {"matchLabels": {"zone": zone}}});
    case.spec["targetPreferences"] = json!([zone("x", 10), zone("y", 4), zone("y", 5)]);
    assert_eq!(case.target().as_deref(), Some("b"));
    case.spec["targetPreferences"] = json!([zone("x", 10), zone("y", 5), zone("y", 6)]);
    assert_eq!(case.target().as_deref(), Some("c"));
}

#[test]
fn the_message_says_why_there_is_no_target() {
    let mut case = Case::new(json!({"targetSelector": {"matchLabels": {"env": "dev"}}}));
    let message = |case: &Case| case.run().problem.unwrap().1;
    assert!(message(&case).contains("matches `spec.targetSelector`; there are `a`, `b`, `c`, `d`"));
    case.spec = json!({"targetSelector": {"matchExpressions": [
        {"key": "zone", "operator": "DoesNotExist"}, {"key": "env", "operator": "In", "values": ["prod"]}]}});
    assert_eq!(message(&case), "no selected KubernetesTarget is Ready; waiting for `d`");
    case.targets.clear();
    assert!(message(&case).contains("namespace `shop` has no KubernetesTarget"));
    assert_eq!(case.target(), None);
}

#[test]
fn a_choice_is_kept_although_others_are_less_loaded_or_the_target_is_not_ready() {
    let mut case = Case::new(prod()).record();
    case.loads = [("b", 100)].into();
    assert_eq!(case.target().as_deref(), Some("b"));
    case.targets[1] = target("b", json!({"env": "prod"}), "False");
    let kept = case.run();
    assert_eq!(kept.target.as_deref(), Some("b"));
    assert_eq!(kept.problem.unwrap().0, Reason::TargetNotReady);
}

#[test]
fn a_choice_is_kept_where_somebody_removes_it_from_the_spec() {
    let mut case = Case::new(prod()).record();
    case.loads = [("b", 100)].into();
    case.spec = prod();
    assert_eq!(case.target().as_deref(), Some("b"));
    case.annotations = json!({});
    assert_eq!(case.target().as_deref(), Some("c"));
    case.used = ["b".to_owned()].into();
    assert_eq!(case.target().as_deref(), Some("b"));
}

#[test]
fn a_changed_selector_makes_the_choice_again_where_the_target_does_not_match_any_more() {
    let mut case = Case::new(prod()).record();
    case.spec["targetSelector"] = json!({"matchLabels": {"zone": "x"}});
    let kept = case.run();
    assert_eq!(kept.target.as_deref(), Some("b"));
    assert_ne!(kept.record.as_deref(), case.annotations[annotations::SCHEDULED].as_str());
    case.spec["targetSelector"] = json!({"matchLabels": {"zone": "y"}});
    assert_eq!(case.target().as_deref(), Some("c"));
    case.spec["targetSelector"] = json!({"matchLabels": {"zone": "z"}});
    let stays = case.run();
    assert_eq!(stays.target.as_deref(), Some("b"));
    assert_eq!(stays.problem.unwrap().0, Reason::NoTarget);
    assert_eq!(stays.record.as_deref(), case.annotations[annotations::SCHEDULED].as_str());
}

#[test]
fn the_choice_is_made_again_when_the_target_is_gone_and_nothing_is_left_there() {
    let mut case = Case::new(prod()).record();
    case.targets.remove(1);
    case.used = ["b".to_owned()].into();
    let waits = case.run();
    assert_eq!(waits.target.as_deref(), Some("b"));
    assert!(waits.problem.unwrap().1.contains("has objects in its cluster"));
    case.used.clear();
    assert_eq!(case.target().as_deref(), Some("c"));
}

#[test]
fn a_request_moves_the_application_once() {
    let mut case = Case::new(prod()).record();
    case.annotations[annotations::RESCHEDULE] = json!("1");
    let moved = case.run();
    assert_eq!((moved.target.as_deref(), moved.served.as_deref()), (Some("c"), Some("1")));
    let case = case.record();
    assert_eq!(case.target().as_deref(), Some("c"));
    // With a single target the request is served by the same one.
    let mut case = Case::new(json!({"targetSelector": {"matchLabels": {"zone": "x"}}})).record();
    case.annotations[annotations::RESCHEDULE] = json!("1");
    assert_eq!(case.run().served.as_deref(), Some("1"));
    assert_eq!(case.target().as_deref(), Some("b"));
}

#[test]
fn the_target_of_the_author_wins() {
    let mut case = Case::new(prod());
    case.spec["targetRef"] = json!({"name": "a"});
    let scheduled = case.run();
    assert_eq!((scheduled.target.as_deref(), scheduled.record.clone()), (Some("a"), None));
    assert_eq!(scheduled.problem, None);
    case.annotations[annotations::RESCHEDULE] = json!("1");
    assert_eq!(case.target().as_deref(), Some("a"));
    case.spec["targetRef"] = json!({"name": "nowhere"});
    let (reason, message) = case.run().problem.unwrap();
    assert_eq!(reason, Reason::TargetNotReady);
    assert_eq!(message, "KubernetesTarget `nowhere` does not exist in namespace `shop`");
    // A change of the controller's choice is the author's too.
    let mut case = Case::new(prod()).record();
    case.spec["targetRef"] = json!({"name": "c"});
    assert_eq!(case.run(), Scheduling { target: Some("c".to_owned()), ..Scheduling::default() });
}
