//! Decides whether a change of the status is minor, so that its write may be delayed: how many of a thousand items are ready is minor;
//! the state of a resource, a condition, a cluster's connection or a field of the author is not.

use kross_api::MORE_CLUSTERS;
use kross_value::{Object, Value};

/// Whether two statuses differ only in messages, in counts, and in which items of a large collection are listed.
#[must_use]
pub fn is_minor_change(before: &Value, after: &Value) -> bool {
    outline(before) == outline(after)
}

fn outline(status: &Value) -> Value {
    let mut outline = status.as_object().cloned().unwrap_or_default();
    reduce(&mut outline, "conditions", &["type", "status", "reason", "observedGeneration"]);
    reduce(&mut outline, "clusters", &["name", "secret", "uid", "mode", "connected", "since"]);
    // Which clusters of a large fleet are listed is minor: the conditions tell whether one that is needed is lost.
    let clusters = outline.get("clusters").and_then(Value::as_list).unwrap_or_default();
    let name = |entry: &Value| entry.get("name").and_then(Value::as_str).map(str::to_owned);
    if clusters.last().and_then(name).is_some_and(|name| name.ends_with(MORE_CLUSTERS)) {
        outline.insert("clusters", Value::from(MORE_CLUSTERS));
    }
    let list = outline.get("managedResources").and_then(Value::as_list).map(<[Value]>::to_vec);
    let summarized: Vec<Value> = list
        .iter()
        .flatten()
        .filter(|entry| entry.get("name").is_none())
        .filter_map(|entry| entry.get("id").cloned())
        .collect();
    if let Some(list) = list {
        let is_item = |entry: &Value| {
            entry.get("name").is_some() && entry.get("id").is_some_and(|id| summarized.contains(id))
        };
        let kept = list.into_iter().filter(|entry| !is_item(entry));
        outline.insert("managedResources", Value::list(kept));
    }
    let fields =
        ["id", "cluster", "kind", "namespace", "name", "uid", "state", "reason", "observedGeneration"];
    reduce(&mut outline, "managedResources", &fields);
    Value::Object(outline)
}

/// Keeps only these fields of each item of a built-in list. A list that the author defined has none of them.
fn reduce(outline: &mut Object, name: &str, fields: &[&str]) {
    let Some(list) = outline.get(name).and_then(Value::as_list) else { return };
    let reduced = list.iter().map(|item| match item {
        Value::Object(item) if fields.first().is_some_and(|first| item.get(first).is_some()) => {
            let kept = item.iter().filter(|(key, _)| fields.contains(&key.as_str()));
            Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        other => other.clone(),
    });
    let reduced = Value::list(reduced.collect::<Vec<_>>());
    outline.insert(name, reduced);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn counts_messages_and_listed_items_are_minor() {
        let before = status(
            r#"{"state":"IN_PROGRESS","conditions":[{"type":"Ready","status":"False","reason":"NotReady","message":"3 of 9"}],
                "managedResources":[{"id":"many","state":"Pending","message":"3 of 9"},{"id":"many","name":"m4","state":"Pending"}]}"#,
        );
        let after = status(
            r#"{"state":"IN_PROGRESS","conditions":[{"type":"Ready","status":"False","reason":"NotReady","message":"5 of 9"}],
                "managedResources":[{"id":"many","state":"Pending","message":"5 of 9"},{"id":"many","name":"m6","state":"Pending"}]}"#,
        );
        assert!(is_minor_change(&before, &after));
    }

    #[test]
    fn which_clusters_of_a_large_fleet_are_listed_is_minor() {
        let fleet = |first: &str, others: &str| {
            status(&format!(
                r#"{{"clusters":[{{"name":"{first}","connected":false}},{{"name":"{others}"}}]}}"#
            ))
        };
        let before = fleet("a", "1900 more clusters");
        assert!(is_minor_change(&before, &fleet("b", "1899 more clusters")));
        assert!(!is_minor_change(&before, &fleet("a", "b")));
    }

    #[test]
    fn states_conditions_and_fields_of_the_author_are_not_minor() {
        let before =
            status(r#"{"state":"ACTIVE","managedResources":[{"id":"a","name":"x","state":"Ready"}]}"#);
        for after in [
            r#"{"state":"ERROR","managedResources":[{"id":"a","name":"x","state":"Ready"}]}"#,
            r#"{"state":"ACTIVE","managedResources":[{"id":"a","name":"x","state":"Pending"}]}"#,
            r#"{"state":"ACTIVE","count":1,"managedResources":[{"id":"a","name":"x","state":"Ready"}]}"#,
        ] {
            assert!(!is_minor_change(&before, &status(after)), "{after}");
        }
    }
}
