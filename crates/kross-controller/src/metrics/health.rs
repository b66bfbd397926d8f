//! Counts the definitions and instances that are not as their authors want them, from the caches at each scrape: alerts need that also
//! where nothing is retried, and without a series for each object.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kross_api::ConditionType;
use kross_cluster::{Cache, StoredObject};
use kross_value::Value;

use crate::graphs::Graphs;
use crate::instance::is_suspended;

/// For how long an instance has not been ready, at least.
pub(super) const AGES: [(&str, SignedDuration); 3] = [
    ("5m", SignedDuration::from_mins(5)),
    ("1h", SignedDuration::from_hours(1)),
    ("24h", SignedDuration::from_hours(24)),
];

/// The definitions that are not served as they are: they do not compile, or would break their instances.
pub(super) fn rejected_definitions(definitions: &Cache) -> usize {
    let is_rejected = |object: &Arc<StoredObject>| is_rejected(object.value());
    definitions.known().iter().filter(|object| is_rejected(object)).count()
}

fn is_rejected(definition: &Value) -> bool {
    let kinds = [ConditionType::GraphAccepted, ConditionType::KindReady];
    let mut found = kinds.into_iter().filter_map(|kind| condition(definition, kind));
    found.any(|condition| text(condition, "status") == "False")
}

/// How many instances have not been ready for each of the [`AGES`]. Suspended ones do not count, nor those of existing kinds, whose
/// status belongs to another controller.
pub(super) fn not_ready_instances(graphs: &Graphs, now: Timestamp) -> [usize; AGES.len()] {
    let mut counts = [0; AGES.len()];
    for served in graphs.all().into_iter().filter(|served| !served.external) {
        for instance in served.instances.known() {
            let Some(age) = not_ready_for(instance.value(), now).filter(|_| !is_suspended(&instance)) else {
                continue;
            };
            for (count, (_, least)) in counts.iter_mut().zip(&AGES) {
                *count += usize::from(age >= *least);
            }
        }
    }
    counts
}

/// For how long an instance has not been ready; none if it is, or if that is not known.
fn not_ready_for(instance: &Value, now: Timestamp) -> Option<SignedDuration> {
    let ready = condition(instance, ConditionType::Ready)?;
    if text(ready, "status") == "True" {
        return None;
    }
    let since: Timestamp = text(ready, "lastTransitionTime").parse().ok()?;
    Some(now.duration_since(since))
}

fn condition(object: &Value, kind: ConditionType) -> Option<&Value> {
    let list = object.at(&["status", "conditions"])?.as_list()?;
    list.iter().find(|condition| text(condition, "type") == kind.as_str())
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conditions(list: &serde_json::Value) -> Value {
        Value::from(json!({"status": {"conditions": list}}))
    }

    #[test]
    fn an_instance_counts_from_the_time_when_it_was_no_longer_ready() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let age = |status: &str| {
            let since = "2026-01-01T10:00:00Z";
            let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": since});
            not_ready_for(&conditions(&json!([{"type": "Other", "status": "False"}, ready])), now)
        };
        assert_eq!(age("False"), Some(SignedDuration::from_hours(2)));
        assert_eq!(age("Unknown"), Some(SignedDuration::from_hours(2)));
        assert_eq!(age("True"), None);
        assert_eq!(not_ready_for(&conditions(&json!([])), now), None);
    }

    #[test]
    fn a_definition_is_rejected_if_it_does_not_compile_or_would_break_its_instances() {
        let rejected = |kind: &str, status: &str| {
            let ready = json!({"type": "Ready", "status": "False"});
            is_rejected(&conditions(&json!([ready, {"type": kind, "status": status}])))
        };
        assert!(rejected("GraphAccepted", "False") && rejected("KindReady", "False"));
        assert!(!rejected("GraphAccepted", "True") && !rejected("KindReady", "Unknown"));
        assert!(!rejected("ClusterAccessible", "False"));
    }
}
