//! Turns the status of an instance into a tree: a branch for each cluster, a leaf for each object.

use std::fmt::Write;

use jiff::Timestamp;
use kross_api::ClusterStatus;
use kross_diagnostics::render::Format;
use serde_json::Value as Json;

use super::super::wrap::wrap;
use super::row::{Row, cluster_note};
use crate::hub::{InstanceView, Tone, for_people};
use crate::output::Output;

/// The name of the branch with the objects in the cluster of the instance itself.
const HUB: &str = "hub (local cluster)";

/// The objects of one cluster.
struct Branch {
    name: String,
    note: String,
    tone: Tone,
    rows: Vec<Row>,
}

/// How a tree is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) coloured: bool,
    /// The width of the terminal, if it is one.
    pub(crate) width: Option<usize>,
    /// The time that ages are counted from; times are shown as they are if there is none.
    pub(crate) now: Option<Timestamp>,
}

impl Style {
    /// As it suits the standard output of a command.
    pub(crate) fn of(output: &Output) -> Self {
        let coloured = output.format() == Format::Coloured;
        Self { coloured, width: output.width(), now: Some(Timestamp::now()) }
    }

    /// A sentence for people: ages in place of times.
    pub(super) fn sentence(self, text: &str) -> String {
        self.now.map_or_else(|| text.to_owned(), |now| for_people(text, now))
    }

    /// Adds a note to a line of this length, on the same line if it fits, else below it with a prefix. Colours have no length.
    pub(super) fn noted(self, line: &str, length: usize, note: &str, prefix: &str) -> String {
        let note = self.sentence(note);
        let is_short = self.width.is_none_or(|width| length + 2 + note.chars().count() <= width);
        if note.is_empty() || is_short {
            return format!("{line}  {note}").trim_end().to_owned();
        }
        let width = self.width.map(|width| width.saturating_sub(prefix.chars().count()));
        let wrapped = wrap(&note, width, 0);
        let below: Vec<String> = wrapped.lines().map(|line| format!("{prefix}{line}")).collect();
        format!("{}\n{}", line.trim_end(), below.join("\n"))
    }
}

/// Draws an instance.
pub(crate) fn draw(instance: &Json, style: Style) -> String {
    let view = InstanceView(instance);
    let state = if view.is_suspended() && !view.is_deleting() {
        format!("{} (suspended)", view.state())
    } else {
        view.state().to_owned()
    };
    let tone = match view.state() {
        _ if view.is_suspended() => Tone::Busy,
        "ACTIVE" | "Submitted" => Tone::Good,
        "ERROR" | "Failed" => Tone::Bad,
        _ => Tone::Busy,
    };
    let mut drawn = format!("{}  {}\n", view.title(), tone.paint(&state, style.coloured));
    let mut said = Vec::new();
    if let Some(message) = view.message() {
        said.push(message.to_owned());
        let width = style.width.map(|width| width.saturating_sub(2));
        for line in wrap(&style.sentence(message), width, 0).lines() {
            // Writing to a string cannot fail.
            let _ = writeln!(drawn, "│ {}", tone.paint(line, style.coloured));
        }
    }
    let branches = branches(view);
    let widths = widths(&branches);
    for (at, branch) in branches.iter().enumerate() {
        draw_branch(branch, at + 1 == branches.len(), widths, style, &mut said, &mut drawn);
    }
    drawn
}

/// The hub first, then the remote clusters in the order of the status.
fn branches(view: InstanceView<'_>) -> Vec<Branch> {
    let (resources, clusters, namespace) = (view.resources(), view.clusters(), view.namespace());
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

fn draw_branch(
    branch: &Branch,
    last: bool,
    widths: [usize; 3],
    style: Style,
    said: &mut Vec<String>,
    drawn: &mut String,
) {
    let Branch { name, note, tone, rows } = branch;
    let (fork, trunk) = if last { ("└─", "  ") } else { ("├─", "│ ") };
    let note = tone.paint(&style.sentence(note), style.coloured);
    let _ = writeln!(drawn, "{}", format!("{fork} {name}  {note}").trim_end());
    let [id_width, object_width, state_width] = widths;
    for (at, row) in rows.iter().enumerate() {
        let (fork, below) = if at + 1 == rows.len() { ("└─", "  ") } else { ("├─", "│ ") };
        let Row { id, object, state, tone, .. } = row;
        let start = format!("{trunk} {fork} {id:id_width$}  {object:object_width$}  ");
        let length = start.chars().count() + state_width;
        let line = format!("{start}{}", tone.paint(&format!("{state:state_width$}"), style.coloured));
        let noted = style.noted(&line, length, &row.note(said), &format!("{trunk} {below}   "));
        let _ = writeln!(drawn, "{}", noted.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Style = Style { coloured: false, width: None, now: None };

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
        insta::assert_snapshot!(draw(&instance(), PLAIN));
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let coloured = draw(&instance(), Style { coloured: true, ..PLAIN });
        let mut plain = coloured.clone();
        for code in ["\u{1b}[0m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"] {
            plain = plain.replace(code, "");
        }
        let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_ne!(coloured, plain);
        assert_eq!(trimmed(&plain), trimmed(&draw(&instance(), PLAIN)));
    }

    #[test]
    fn a_narrow_terminal_gets_its_lines_and_each_sentence_once() {
        let mut instance = instance();
        let message = "cluster `us` is not connected, last seen at 2025-12-31T23:59:40Z: connection refused; run \
                       `kubectl annotate shop web kro.run/abandon-cluster=1` (since 2026-01-01T00:00:00Z)";
        instance["status"]["conditions"][0]["message"] = json!(format!("resource error: `app`: {message}"));
        instance["status"]["managedResources"][2]["message"] = json!(message);
        instance["status"]["managedResources"][3]["message"] =
            json!("the Deployment waits for 2 of its 3 replicas to be available, as it has for a long time");
        let now = Some("2026-01-01T00:05:00Z".parse().unwrap());
        insta::assert_snapshot!(draw(&instance, Style { width: Some(80), now, ..PLAIN }));
    }

    #[test]
    fn the_state_of_an_existing_kind_is_read_from_annotations() {
        let existing = json!({
            "kind": "ConfigMap",
            "metadata": {"name": "web", "annotations": {"kro.run/state": "ERROR", "kro.run/message": "cluster `us` is unreachable"}},
        });
        assert_eq!(draw(&existing, PLAIN), "ConfigMap web  ERROR\n│ cluster `us` is unreachable\n");
    }

    #[test]
    fn a_published_cluster_is_shown_with_its_target_and_the_secret_behind_it() {
        let mut instance = instance();
        instance["status"]["clusters"][0]["target"] = json!("team/eu");
        let drawn = draw(&instance, PLAIN);
        assert!(drawn.contains("─ eu (KubernetesTarget team/eu, without Secret)"), "{drawn}");
        instance["status"]["clusters"][0]["secret"] = json!("team/eu-connection");
        let drawn = draw(&instance, PLAIN);
        assert!(drawn.contains("─ eu (KubernetesTarget team/eu, Secret team/eu-connection)"), "{drawn}");
        assert!(drawn.contains("waiting for 2 replicas"), "{drawn}");
    }

    #[test]
    fn an_instance_without_status_is_not_reconciled_yet() {
        let new = json!({"kind": "Shop", "metadata": {"name": "web"}});
        assert_eq!(draw(&new, PLAIN), "Shop web  not reconciled yet\n");
    }
}
