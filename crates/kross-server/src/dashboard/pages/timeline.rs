//! What happened to an object: the changes of its conditions and its Events in one list, the newest first.

use jiff::Timestamp;
use kross_cluster::ClusterClient;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::viewer::Viewer;
use super::parts;
use crate::read_model::{InstanceView, Tone, find_kind, for_people, text};

/// Entries that a page shows.
const SHOWN: usize = 40;

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) time: String,
    tone: Tone,
    what: String,
    message: String,
    /// How often, if more than once.
    count: i64,
    is_event: bool,
}

/// The section of a page about an object of the hub.
pub(super) async fn section(viewer: &Viewer, object: &Json, now: Timestamp) -> Markup {
    let namespace = InstanceView(object).namespace().unwrap_or("default");
    let listed = viewer.list_named("events", Some(namespace)).await;
    let mut entries = of_conditions(object);
    let refused = match listed {
        Some(Ok(events)) => {
            entries.extend(events.iter().filter(|event| is_about(event, object)).map(of_event));
            None
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    entries.sort_by(|a, b| b.time.cmp(&a.time));
    html! {
        section .happened {
            h2 { "What happened" small { "conditions and Events; the API server keeps Events for an hour" } }
            @if let Some(error) = &refused { (parts::unreadable("Events", error)) }
            @if entries.is_empty() { p .note { "Nothing yet." } }
            (list(&entries, SHOWN, now))
        }
    }
}

/// The Events about an object in its own cluster; none if they cannot be listed.
pub(super) async fn about(client: &ClusterClient, object: &Json) -> Option<Vec<Entry>> {
    let kind = find_kind(&client.discovery().kinds(), "events").ok()?;
    let namespace = text(object, "/metadata/namespace").unwrap_or("default");
    let listed = client.list(&kind, Some(namespace), None).await.ok()?;
    let listed = listed.iter().filter_map(|event| serde_json::to_value(event.value()).ok());
    let mut entries: Vec<Entry> =
        listed.filter(|event| is_about(event, object)).map(|event| of_event(&event)).collect();
    entries.sort_by(|a, b| b.time.cmp(&a.time));
    Some(entries)
}

/// The list, as it is shown.
pub(super) fn list(entries: &[Entry], shown: usize, now: Timestamp) -> Markup {
    html! {
        ol .timeline {
            @for entry in entries.iter().take(shown) {
                li .(super::super::drawing::tone_class(entry.tone)) {
                    (parts::ago(Some(&entry.time), now))
                    (super::super::drawing::shape(entry.tone))
                    span {
                        strong { (entry.what) }
                        @if entry.count > 1 { small { " × " (entry.count) } }
                        " " (for_people(&entry.message, now))
                        @if entry.is_event { " " small .kind { "Event" } }
                    }
                }
            }
        }
        @if entries.len() > shown { p .note { (entries.len() - shown) " older ones are not shown." } }
    }
}

fn is_about(event: &Json, object: &Json) -> bool {
    let about = |path: &str| text(event, path);
    text(object, "/metadata/uid").is_some_and(|uid| about("/involvedObject/uid") == Some(uid))
}

fn of_event(event: &Json) -> Entry {
    let at = |path: &str| text(event, path).map(str::to_owned);
    let time = at("/lastTimestamp")
        .or_else(|| at("/series/lastObservedTime"))
        .or_else(|| at("/eventTime"))
        .or_else(|| at("/metadata/creationTimestamp"));
    Entry {
        // Conditions have no fractions of seconds.
        time: time.unwrap_or_default(),
        tone: if event["type"] == "Warning" { Tone::Bad } else { Tone::Plain },
        what: at("/reason").unwrap_or_default(),
        message: at("/message").unwrap_or_default(),
        count: event["count"].as_i64().unwrap_or_default(),
        is_event: true,
    }
}

/// When each condition became what it is, and when the object was created.
fn of_conditions(object: &Json) -> Vec<Entry> {
    let all = object.pointer("/status/conditions").and_then(Json::as_array);
    let of = |condition: &Json| {
        let field = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        let (tone, verb) = match condition["status"].as_str() {
            Some("True") => (Tone::Good, "became true"),
            Some("False") => (Tone::Bad, "became false"),
            _ => (Tone::Busy, "became unknown"),
        };
        let (reason, message) = (field("reason"), field("message"));
        let because = if condition["status"] == "True" || message.is_empty() {
            reason
        } else {
            format!("{reason}: {message}")
        };
        Entry {
            time: field("lastTransitionTime"),
            tone,
            what: format!("{} {verb}", field("type")),
            message: because,
            ..Entry::default()
        }
    };
    let created = text(object, "/metadata/creationTimestamp").map(|time| Entry {
        time: time.to_owned(),
        what: "Created".to_owned(),
        ..Entry::default()
    });
    all.into_iter().flatten().map(of).filter(|entry| !entry.time.is_empty()).chain(created).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_tells_when_it_became_what_it_is_and_why() {
        let object = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "NotReady", "message": "web waits", "lastTransitionTime": "2026-01-01T00:01:00Z"}]}});
        let entries = of_conditions(&object);
        assert_eq!(entries[0].what, "Ready became false");
        assert_eq!(entries[0].message, "NotReady: web waits");
        assert_eq!(entries[1].what, "Created");
    }

    #[test]
    fn only_events_about_the_same_object_count() {
        let object = json!({"metadata": {"uid": "1"}});
        assert!(is_about(&json!({"involvedObject": {"uid": "1"}}), &object));
        assert!(!is_about(&json!({"involvedObject": {"uid": "2"}}), &object));
        assert!(!is_about(&json!({"involvedObject": {}}), &json!({"metadata": {}})));
    }
}
