//! Label selectors, as Kubernetes evaluates them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_api::LabelSelector;
use kross_plan::simulate::selects;
use kross_value::Value;

fn selected(selector: &str, labels: &str) -> bool {
    let selector: LabelSelector = serde_json::from_str(selector).unwrap();
    let labels: Value = serde_json::from_str(labels).unwrap();
    selects(&selector, Some(&labels))
}

#[test]
fn selectors_match_as_in_kubernetes() {
    let labels = r#"{"app": "web", "tier": "front"}"#;
    assert!(selected("{}", labels));
    assert!(selected(r#"{"matchLabels": {"app": "web"}}"#, labels));
    assert!(!selected(r#"{"matchLabels": {"app": "db"}}"#, labels));
    let requires = |key: &str, operator: &str, values: &str| {
        let selector = format!(
            r#"{{"matchExpressions": [{{"key": "{key}", "operator": "{operator}", "values": {values}}}]}}"#
        );
        selected(&selector, labels)
    };
    assert!(requires("tier", "In", r#"["front", "back"]"#));
    assert!(!requires("tier", "NotIn", r#"["front"]"#));
    assert!(requires("zone", "NotIn", r#"["a"]"#), "a missing label matches NotIn");
    assert!(requires("app", "Exists", "[]") && !requires("zone", "Exists", "[]"));
    assert!(requires("zone", "DoesNotExist", "[]"));
    assert!(!requires("app", "Like", r#"["web"]"#));
}
