//! A Markdown page about the API of a definition.

use std::fmt::Write;

use serde_json::Value as Json;

use super::describe::{constraints, fields, type_name};
use super::{Api, instance};

/// The status that every instance has.
const BUILT_IN: [&str; 4] = ["clusters", "conditions", "managedResources", "state"];

/// The page.
pub(super) fn markdown(api: &Api) -> String {
    let graph = &api.graph;
    let kind = &graph.instance.kind;
    let mut out = format!("# {kind}\n\n");
    if let Some(description) = api.schema()["description"].as_str() {
        let _ = writeln!(out, "{description}\n");
    }
    let scope = if graph.instance.namespaced { "in a namespace" } else { "cluster-scoped" };
    let _ = writeln!(
        out,
        "`{kind}` in `{}`, {scope}; served by the definition `{}`.\n",
        api.api_version(),
        graph.name
    );
    let options = instance::Options { name: "example", namespace: None, all: false };
    let _ = writeln!(out, "```yaml\n{}\n```\n", instance::yaml(api, &options).trim_end());
    section(&mut out, "Spec", "spec", api.property("spec"), true);
    section(&mut out, "Status", "status", api.property("status"), false);
    out.push_str("`status.state` and `status.conditions` say whether the instance is ready, and what it waits for.\n\n");
    out.push_str(
        "## Resources\n\nWhat each instance consists of.\n\n| Resource | Kind | |\n| --- | --- | --- |\n",
    );
    for node in &graph.nodes {
        let mut about = Vec::new();
        if node.is_external() {
            about.push("read, not created".to_owned());
        } else if node.is_list() {
            about.push("several".to_owned());
        }
        about.extend(node.include_when.iter().map(|condition| format!("if `{}`", cell(&condition.source))));
        if matches!(node.placement, kross_graph::Placement::Remote(_)) {
            about.push("in another cluster".to_owned());
        }
        let _ = writeln!(
            out,
            "| `{}` | {} `{}` | {} |",
            node.id,
            node.kind.kind,
            node.kind.api_version(),
            about.join("; ")
        );
    }
    out
}

fn section(out: &mut String, title: &str, path: &str, schema: Option<&Json>, writable: bool) {
    let mut rows = Vec::new();
    if let Some(schema) = schema {
        collect(schema, path, writable, &mut rows);
    }
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "## {title}\n");
    out.push_str("| Field | Type | Description |\n| --- | --- | --- |\n");
    for row in rows {
        let _ = writeln!(out, "{row}");
    }
    out.push('\n');
}

fn collect(schema: &Json, path: &str, writable: bool, rows: &mut Vec<String>) {
    for (name, field, required) in fields(schema) {
        if path == "status" && BUILT_IN.contains(&name) {
            continue;
        }
        let path = format!("{path}.{name}");
        let mut about = Vec::new();
        if let Some(description) = field["description"].as_str() {
            about.push(cell(description.trim_end_matches('.')));
        }
        if required && writable {
            about.push("**required**".to_owned());
        }
        if writable {
            about.extend(constraints(field).iter().map(
                |constraint| match constraint.split_once("pattern ") {
                    Some(("", pattern)) => format!("pattern `{}`", cell(pattern)),
                    _ => cell(constraint),
                },
            ));
        }
        rows.push(format!("| `{path}` | {} | {} |", type_name(field).replace('[', "\\["), about.join("; ")));
        collect(inner(field), &format!("{path}{}", suffix(field)), writable, rows);
    }
}

/// The schema whose fields are those of a field: of the items of a list, the values of a map.
fn inner(field: &Json) -> &Json {
    match field["type"].as_str() {
        Some("array") => inner(&field["items"]),
        Some("object") if field["additionalProperties"].is_object() => inner(&field["additionalProperties"]),
        _ => field,
    }
}

fn suffix(field: &Json) -> String {
    match field["type"].as_str() {
        Some("array") => format!("[]{}", suffix(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => {
            format!(".*{}", suffix(&field["additionalProperties"]))
        }
        _ => String::new(),
    }
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}
