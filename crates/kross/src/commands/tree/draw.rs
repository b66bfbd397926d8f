//! Turns the status of an instance into a tree: a branch for each cluster, a leaf for each object.

use std::fmt::Write;

use kross_api::{ClusterStatus, ManagedResource, annotations};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::row::{Row, Tone, cluster_note};

/// The name of the branch with the objects in the cluster of the instance itself.
const HUB: &str = "hub (local cluster)";

/// The objects of one cluster.
struct Branch {
    name: String,
    note: String,
    tone: Tone,
    rows: Vec<Row>,
}

/// Draws an instance.
pub(crate) fn draw(instance: &Json, coloured: bool) -> String {
    let text = |path: &str| instance.pointer(path).and_then(Json::as_str);
    let namespace = text("/metadata/namespace");
    let name = text("/metadata/name").unwrap_or_default();
    let name = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    // The status of an existing kind belongs to another controller, so kross writes annotations instead.
    let annotation = |key: &str| instance.pointer("/metadata/annotations")?.get(key)?.as_str();
    let state = annotation(annotations::STATE).or(text("/status/state")).unwrap_or("not reconciled yet");
    let tone = match state {
        "ACTIVE" | "Submitted" => Tone::Good,
        "ERROR" | "Failed" => Tone::Bad,
        _ => Tone::Busy,
    };
    let mut drawn =
        format!("{} {name}  {}\n", text("/kind").unwrap_or_default(), tone.paint(state, coloured));
    let message = annotation(annotations::MESSAGE).map(str::to_owned).filter(|message| !message.is_empty());
    if let Some(message) = message.or_else(|| unready(instance)) {
        // Writing to a string cannot fail.
        let _ = writeln!(drawn, "│ {}", tone.paint(&message, coloured));
    }
    let branches = branches(instance, namespace);
    let widths = widths(&branches);
    for (at, branch) in branches.iter().enumerate() {
        draw_branch(branch, at + 1 == branches.len(), widths, coloured, &mut drawn);
    }
    drawn
}

/// The message of the instance's `Ready` condition, if it is not true.
pub(super) fn unready(instance: &Json) -> Option<String> {
    let conditions = instance.pointer("/status/conditions")?.as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    let message = ready["message"].as_str().filter(|message| !message.is_empty())?;
    (ready["status"] != "True").then(|| message.to_owned())
}

/// The entries of a list in the status. Skips what does not parse: an author may define a field of the same name.
fn entries<T: DeserializeOwned>(instance: &Json, field: &str) -> Vec<T> {
    let list = instance.get("status").and_then(|status| status.get(field)).and_then(Json::as_array);
    list.into_iter().flatten().filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect()
}

/// The hub first, then the remote clusters in the order of the status.
fn branches(instance: &Json, namespace: Option<&str>) -> Vec<Branch> {
    let resources: Vec<ManagedResource> = entries(instance, "managedResources");
    let clusters: Vec<ClusterStatus> = entries(instance, "clusters");
    let rows = |name: Option<&str>| -> Vec<Row> {
        let entries = resources.iter().filter(|entry| entry.cluster.as_deref() == name);
        entries.map(|entry| Row::of(entry, namespace)).collect()
    };
    let mut branches = Vec::new();
    let local = rows(None);
    if !local.is_empty() {
        branches.push(Branch { name: HUB.to_owned(), note: String::new(), tone: Tone::Plain, rows: local });
    }
    for entry in &clusters {
        let (tone, note) = cluster_note(entry);
        branches.push(Branch { name: cluster_name(entry), note, tone, rows: rows(Some(&entry.name)) });
    }
    let known = |name: &str| clusters.iter().any(|entry| entry.name == name);
    let mut others: Vec<&String> = resources.iter().filter_map(|entry| entry.cluster.as_ref()).collect();
    others.retain(|name| !known(name));
    others.sort();
    others.dedup();
    for name in others {
        branches.push(Branch {
            name: name.clone(),
            note: String::new(),
            tone: Tone::Plain,
            rows: rows(Some(name)),
        });
    }
    branches
}

/// The name of a cluster, for a published one with its target and the Secret behind it.
fn cluster_name(entry: &ClusterStatus) -> String {
    let ClusterStatus { name, target, secret, .. } = entry;
    match (target, secret) {
        (Some(target), Some(secret)) => format!("{name} (KubernetesTarget {target}, Secret {secret})"),
        (Some(target), None) => format!("{name} (KubernetesTarget {target}, without Secret)"),
        (None, _) => name.clone(),
    }
}

/// The widths of ids, objects and states over all branches, so that columns line up.
fn widths(branches: &[Branch]) -> [usize; 3] {
    let rows = || branches.iter().flat_map(|branch| &branch.rows);
    let widest = |text: fn(&Row) -> &str| rows().map(|row| text(row).chars().count()).max().unwrap_or(0);
    [widest(|row| &row.id), widest(|row| &row.object), widest(|row| &row.state)]
}

fn draw_branch(branch: &Branch, last: bool, widths: [usize; 3], coloured: bool, drawn: &mut String) {
    let Branch { name, note, tone, rows } = branch;
    let (fork, trunk) = if last { ("└─", "  ") } else { ("├─", "│ ") };
    let note = if note.is_empty() { String::new() } else { format!("  {}", tone.paint(note, coloured)) };
    let _ = writeln!(drawn, "{fork} {name}{note}");
    let [id_width, object_width, state_width] = widths;
    for (at, row) in rows.iter().enumerate() {
        let fork = if at + 1 == rows.len() { "└─" } else { "├─" };
        let Row { id, object, state, tone, reason } = row;
        let state = tone.paint(&format!("{state:state_width$}"), coloured);
        let line = format!("{trunk} {fork} {id:id_width$}  {object:object_width$}  {state}  {reason}");
        let _ = writeln!(drawn, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance() -> Json {
        json!({
            "kind": "Shop", "metadata": {"name": "web", "namespace": "team"},
            "status": {
                "state": "ERROR",
                "conditions": [{"type": "Ready", "status": "False", "message": "resource error: `app`: cluster `us` is not connected"}],
                "managedResources": [
                    {"id": "settings", "kind": "ConfigMap", "namespace": "team", "name": "web-settings", "state": "Ready"},
                    {"id": "extra", "state": "Skipped"},
                    {"id": "app", "cluster": "us", "kind": "Deployment", "namespace": "other", "name": "web", "state": "Error",
                        "reason": "Unreachable", "message": "connection refused"},
                    {"id": "app", "cluster": "eu", "kind": "Deployment", "namespace": "team", "name": "web", "state": "Pending",
                        "message": "waiting for 2 replicas"},
                ],
                "clusters": [
                    {"name": "eu", "mode": "Watch", "connected": true, "ready": 0, "total": 1},
                    {"name": "us", "mode": "Poll", "connected": false, "since": "2026-01-01T00:00:00Z",
                        "lastContact": "2025-12-31T23:59:40Z", "ready": 0, "total": 1},
                ],
            },
        })
    }

    #[test]
    fn each_cluster_is_a_branch_and_columns_line_up() {
        insta::assert_snapshot!(draw(&instance(), false));
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let coloured = draw(&instance(), true);
        let mut plain = coloured.clone();
        for code in ["\u{1b}[0m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"] {
            plain = plain.replace(code, "");
        }
        let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_ne!(coloured, plain);
        assert_eq!(trimmed(&plain), trimmed(&draw(&instance(), false)));
    }

    #[test]
    fn the_state_of_an_existing_kind_is_read_from_annotations() {
        let existing = json!({
            "kind": "ConfigMap",
            "metadata": {"name": "web", "annotations": {"kro.run/state": "ERROR", "kro.run/message": "cluster `us` is unreachable"}},
        });
        assert_eq!(draw(&existing, false), "ConfigMap web  ERROR\n│ cluster `us` is unreachable\n");
    }

    #[test]
    fn a_published_cluster_is_shown_with_its_target_and_the_secret_behind_it() {
        let mut instance = instance();
        instance["status"]["clusters"][0]["target"] = json!("team/eu");
        let drawn = draw(&instance, false);
        assert!(drawn.contains("─ eu (KubernetesTarget team/eu, without Secret)"), "{drawn}");
        instance["status"]["clusters"][0]["secret"] = json!("team/eu-connection");
        let drawn = draw(&instance, false);
        assert!(drawn.contains("─ eu (KubernetesTarget team/eu, Secret team/eu-connection)"), "{drawn}");
        assert!(drawn.contains("waiting for 2 replicas"), "{drawn}");
    }

    #[test]
    fn an_instance_without_status_is_not_reconciled_yet() {
        let new = json!({"kind": "Shop", "metadata": {"name": "web"}});
        assert_eq!(draw(&new, false), "Shop web  not reconciled yet\n");
    }
}
