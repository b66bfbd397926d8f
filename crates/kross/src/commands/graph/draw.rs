//! Writes a view as text, for Mermaid and for Graphviz.

use std::fmt::Write;

use super::view::{Shown, View};

/// Characters of an expression at an edge; a longer one is cut there, and whole in the text format.
const EDGE_LENGTH: usize = 60;

/// Lines of text: clusters, their resources, and what each reads.
pub(super) fn text(view: &View) -> String {
    let mut out = format!("{}\n", view.title);
    let width = view.nodes.iter().map(|node| node.id.chars().count()).max().unwrap_or(0);
    for (lane, name) in view.lanes.iter().enumerate() {
        let _ = writeln!(out, "\ncluster {name}");
        for (at, node) in view.nodes.iter().enumerate().filter(|(_, node)| node.lane == lane) {
            let _ = writeln!(out, "  {:<width$}  {} {}{}", node.id, node.kind, node.api_version, marks(node));
            let mut line = |text: String| {
                let _ = writeln!(out, "    {text}");
            };
            node.each.iter().for_each(|each| line(format!("for each {each}")));
            node.conditions.iter().for_each(|condition| line(format!("if {condition}")));
            node.state.iter().for_each(|state| line(state.clone()));
            node.objects.iter().for_each(|object| line(object.clone()));
            let mut seen: Vec<&str> = Vec::new();
            for edge in view.edges.iter().filter(|edge| edge.to == at) {
                let Some(from) = view.nodes.get(edge.from).filter(|from| !seen.contains(&from.id.as_str()))
                else {
                    continue;
                };
                seen.push(&from.id);
                line(format!("reads {}: {}", from.id, edge.expressions.join(", ")));
            }
        }
    }
    out
}

fn marks(node: &Shown) -> &'static str {
    match (node.external, node.is_list) {
        (true, true) => " (external collection)",
        (true, false) => " (external)",
        (false, true) => " (collection)",
        (false, false) => "",
    }
}

/// The lines of the box of a node, in formats that draw boxes.
pub(super) fn box_lines(node: &Shown) -> Vec<String> {
    let mut lines = vec![node.id.clone(), format!("{}{}", node.kind, marks(node))];
    lines.extend(node.each.iter().map(|each| format!("for each {each}")));
    lines.extend(node.conditions.iter().map(|condition| format!("if {condition}")));
    lines.extend(node.objects.iter().cloned());
    lines.extend(node.state.iter().cloned());
    lines.iter().map(|line| shortened(line, EDGE_LENGTH)).collect()
}

/// A text of at most so many characters.
pub(super) fn shortened(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length.saturating_sub(1)).chain(['…']).collect()
}

/// A flowchart for Mermaid.
pub(super) fn mermaid(view: &View) -> String {
    let mut out = String::from("flowchart TB\n");
    let _ = writeln!(out, "  %% {}", view.title);
    for (lane, name) in view.lanes.iter().enumerate() {
        let _ = writeln!(out, "  subgraph lane{lane}[\"cluster {}\"]", mermaid_text(name));
        for (at, node) in view.nodes.iter().enumerate().filter(|(_, node)| node.lane == lane) {
            let lines: Vec<String> = box_lines(node).iter().map(|line| mermaid_text(line)).collect();
            let label = lines.join("<br/>");
            let (open, close) = if node.is_list { ("[[", "]]") } else { ("[", "]") };
            let class = if node.external {
                ":::external"
            } else if node.conditions.is_empty() {
                ""
            } else {
                ":::conditional"
            };
            let _ = writeln!(out, "    node{at}{open}\"{label}\"{close}{class}");
        }
        out.push_str("  end\n");
    }
    for edge in &view.edges {
        let label = mermaid_text(&shortened(&edge.expressions.join(", "), EDGE_LENGTH));
        let _ = match label.is_empty() {
            true => writeln!(out, "  node{} --> node{}", edge.from, edge.to),
            false => writeln!(out, "  node{} -->|\"{label}\"| node{}", edge.from, edge.to),
        };
    }
    out.push_str("  classDef external stroke-dasharray: 4 4\n  classDef conditional stroke-dasharray: 1 3\n");
    out
}

/// Mermaid's own escapes: numeric entities with `#` in place of `&#`.
fn mermaid_text(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, letter| {
        match letter {
            '"' | '#' | '<' | '>' | '&' | '`' | '|' | '{' | '}' | '\\' => {
                let _ = write!(out, "#{};", u32::from(letter));
            }
            other => out.push(other),
        }
        out
    })
}

/// A graph for Graphviz.
pub(super) fn dot(view: &View) -> String {
    let mut out = String::from("digraph {\n");
    let _ = writeln!(out, "  label={};\n  labelloc=t;", dot_text(&view.title));
    out.push_str("  node [shape=box, style=rounded];\n");
    for (lane, name) in view.lanes.iter().enumerate() {
        let _ = writeln!(
            out,
            "  subgraph cluster_{lane} {{\n    label={};",
            dot_text(&format!("cluster {name}"))
        );
        for (at, node) in view.nodes.iter().enumerate().filter(|(_, node)| node.lane == lane) {
            let label = dot_text(&box_lines(node).join("\n"));
            let shape = if node.is_list { ", peripheries=2" } else { "" };
            let style =
                if node.external || !node.conditions.is_empty() { ", style=\"rounded,dashed\"" } else { "" };
            let _ = writeln!(out, "    node{at} [label={label}{shape}{style}];");
        }
        out.push_str("  }\n");
    }
    for edge in &view.edges {
        let label = dot_text(&shortened(&edge.expressions.join(", "), EDGE_LENGTH));
        let _ = writeln!(out, "  node{} -> node{} [label={label}];", edge.from, edge.to);
    }
    out.push_str("}\n");
    out
}

fn dot_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
