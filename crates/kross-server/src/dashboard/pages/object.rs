//! The panel of one object: what the status says about it, and the object itself where the user may read it. Values of Secrets
//! are not shown.

use jiff::Timestamp;
use kross_api::ManagedResource;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::query::Query;
use super::super::viewer::Viewer;
use super::instance::{key_of, tone};
use super::parts;
use crate::read_model::{InstanceView, RemoteClusters, for_people, read_object};

/// The panel of the selected node.
pub(super) async fn panel(
    viewer: &Viewer,
    view: InstanceView<'_>,
    node: &str,
    query: &Query,
    now: Timestamp,
) -> Markup {
    let Some(entry) = view.resources().into_iter().find(|entry| key_of(entry) == node) else {
        return html! { section { h2 { "Not found" } p { "This object is not in the status any more." } } };
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let found = read(viewer, view, &entry).await;
    html! {
        section .object {
            h2 { (entry.id) " " (parts::badge(entry.state.as_str(), tone(entry.state))) }
            a .close href=(query.with("node", "")) aria-label="Close the details" { "✕" }
            dl {
                dt { "Object" } dd { (text(&entry.api_version)) " " (text(&entry.kind)) }
                dt { "Name" } dd {
                    @if let Some(namespace) = &entry.namespace { (namespace) "/" } (text(&entry.name))
                }
                dt { "Cluster" } dd { (entry.cluster.as_deref().unwrap_or("hub")) }
                @if let Some(reason) = entry.reason { dt { "Reason" } dd { (reason.as_str()) } }
                @if let Some(message) = &entry.message { dt { "Message" } dd { (for_people(message, now)) } }
                dt { "Since" } dd { (parts::ago(entry.last_update_time.as_deref(), now)) }
            }
            @match found {
                Ok(object) => details { summary { "YAML" } pre tabindex="0" { code { (yaml(object)) } } },
                Err(why) => p .note { (why) },
            }
        }
    }
}

/// Reads the object in its cluster with the user's own rights.
async fn read(viewer: &Viewer, view: InstanceView<'_>, entry: &ManagedResource) -> Result<Json, String> {
    let (Some(version), Some(kind), Some(name)) = (&entry.api_version, &entry.kind, &entry.name) else {
        return Err("It has no object yet.".to_owned());
    };
    let hub = viewer.hub();
    let remotes = RemoteClusters::new(hub);
    let client = match &entry.cluster {
        None => hub.client.clone(),
        Some(cluster) => {
            let clusters = view.clusters();
            let known = clusters.iter().find(|known| known.name == *cluster);
            let known = known.ok_or_else(|| format!("Cluster {cluster} is not in the status."))?;
            if !known.connected {
                return Err(format!("Cluster {cluster} is not connected."));
            }
            remotes.client(known).await.map_err(|error| error.to_string())?
        }
    };
    match read_object(&client, version, kind, entry.namespace.as_deref(), name).await {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err("It does not exist.".to_owned()),
        Err(error) if error.code() == Some(403) => Err("You may not read it.".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// An object as YAML, without the values of a Secret.
fn yaml(mut object: Json) -> String {
    if object.get("kind").and_then(Json::as_str) == Some("Secret") {
        for field in ["data", "stringData"] {
            for value in
                object.get_mut(field).and_then(Json::as_object_mut).into_iter().flat_map(|it| it.values_mut())
            {
                *value = Json::from("*****");
            }
        }
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Json::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    let mut text = String::new();
    write_yaml(&object, 0, &mut text);
    text
}

/// Block style, as kubectl prints it. Texts that could be read as something else are quoted as in JSON, which is YAML too.
fn write_yaml(value: &Json, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Json::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                text.push_str(&format!("{pad}{key}:"));
                write_field(field, indent + 2, text);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                write_yaml(item, indent + 2, &mut inner);
                text.push_str(&format!("{pad}- {}", inner.get(indent + 2..).unwrap_or(&inner)));
            }
        }
        other => text.push_str(&format!("{pad}{}\n", scalar(other))),
    }
}

fn write_field(field: &Json, indent: usize, text: &mut String) {
    let is_nested = field.as_object().is_some_and(|it| !it.is_empty())
        || field.as_array().is_some_and(|it| !it.is_empty());
    if is_nested {
        text.push('\n');
        // kubectl does not indent lists.
        write_yaml(field, if field.is_array() { indent.saturating_sub(2) } else { indent }, text);
    } else {
        text.push_str(&format!(" {}\n", scalar(field)));
    }
}

fn scalar(value: &Json) -> String {
    let Json::String(text) = value else { return value.to_string() };
    let plain = !text.is_empty()
        && text.chars().all(|it| it.is_ascii_alphanumeric() || "-_./".contains(it))
        && text.starts_with(|it: char| it.is_ascii_alphabetic())
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if plain { text.clone() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_a_secret_are_not_shown() {
        let secret = json!({"kind": "Secret", "metadata": {"name": "x", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "hunter2"}}, "data": {"password": "aHVudGVyMg=="},
            "stringData": {"other": "hunter2"}});
        let shown = yaml(secret);
        assert!(
            shown.contains("password: \"*****\"") && !shown.contains("hunter2") && !shown.contains("aHVu"),
            "{shown}"
        );
    }

    #[test]
    fn yaml_is_block_style() {
        let object = json!({"kind": "Pod", "spec": {"containers": [{"name": "a", "args": ["1", "x: y"]}], "none": {}, "on": "yes"}});
        assert_eq!(
            yaml(object),
            "kind: Pod\nspec:\n  containers:\n  - args:\n    - \"1\"\n    - \"x: y\"\n    name: a\n  none: {}\n  on: \"yes\"\n"
        );
    }
}
