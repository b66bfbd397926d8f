//! What is wrong with a definition: each mistake that its conditions name, with its code, and the lines of the definition that it is
//! about.

use std::collections::BTreeSet;

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::{parts, yaml};
use crate::read_model::Definition;

/// How the path of a mistake begins.
const ROOT: &str = "spec";
/// Lines before and after the one that a mistake is about.
const CONTEXT: usize = 2;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mistake {
    /// Where it is, such as `spec.resources[0].template`; empty if it is about the whole definition.
    path: String,
    message: String,
    /// Such as `K0601`; empty if it has none.
    code: String,
}

/// The conditions that are not true, each with its mistakes.
pub(super) fn mistakes(definition: &Definition, now: Timestamp) -> Markup {
    let all = definition.0.pointer("/status/conditions").and_then(Json::as_array);
    let open = all.into_iter().flatten().filter(|it| it["status"] == "False" && it["type"] != "Ready");
    let mut seen = BTreeSet::new();
    let open: Vec<&Json> =
        open.filter(|it| seen.insert(it["message"].as_str().unwrap_or_default())).collect();
    html! { @for condition in open { (shown(definition, condition, now)) } }
}

fn shown(definition: &Definition, condition: &Json, now: Timestamp) -> Markup {
    let found = parsed(condition["message"].as_str().unwrap_or_default());
    let codes: BTreeSet<&str> =
        found.iter().map(|it| it.code.as_str()).filter(|code| !code.is_empty()).collect();
    html! {
        section .answer.bad.diagnostics aria-label="What is wrong with it" {
            div {
                p {
                    strong { (condition["reason"].as_str().unwrap_or_default()) }
                    " " span .note { (condition["type"].as_str().unwrap_or_default()) " is false" }
                }
                @for mistake in &found {
                    p {
                        @if !mistake.code.is_empty() { strong .code { (mistake.code) } " " }
                        (parts::prose(&mistake.message, now))
                    }
                    (excerpt(definition, &mistake.path))
                }
            }
            div {
                (parts::command(&format!("kross why rgd/{}", definition.name())))
                @for code in codes { (parts::command(&format!("kross explain {code}"))) }
            }
        }
    }
}

/// The lines of the definition around a path, the one of the path marked.
fn excerpt(definition: &Definition, path: &str) -> Markup {
    let spec = definition.0.get(ROOT).unwrap_or(&Json::Null);
    let lines = yaml::lines(spec, ROOT);
    let Some(at) = lines.iter().position(|line| line.path == path) else {
        return html! { @if !path.is_empty() { p .note { code { (path) } } } };
    };
    let (from, to) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(lines.len()));
    let shown = lines.get(from..to).unwrap_or_default();
    html! {
        pre .excerpt tabindex="0" aria-label=(path) role="region" {
            span .path { (path) "\n" }
            @for (number, line) in (from..).zip(shown) {
                span .at[number == at] { (if number == at { "▸ " } else { "  " }) (line.text) "\n" }
            }
        }
    }
}

/// The mistakes in the message of a condition: `spec.a: message [K0001]; spec.b: …`.
fn parsed(message: &str) -> Vec<Mistake> {
    let mut parts: Vec<String> = Vec::new();
    for part in message.split("; ") {
        match parts.last_mut() {
            // A semicolon within a message.
            Some(last) if !part.starts_with("spec.") && !last.ends_with(']') => {
                last.push_str(&format!("; {part}"));
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts.iter().map(|part| mistake(part)).collect()
}

fn mistake(text: &str) -> Mistake {
    let (text, code) = match text.rsplit_once(" [K") {
        Some((text, rest)) if rest.ends_with(']') => (text, format!("K{}", rest.trim_end_matches(']'))),
        _ => (text, String::new()),
    };
    match text.split_once(": ") {
        Some((path, message)) if path.starts_with("spec.") && !path.contains(' ') => {
            Mistake { path: path.to_owned(), message: message.to_owned(), code }
        }
        _ => Mistake { path: String::new(), message: text.to_owned(), code },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_mistakes_of_a_message_have_their_paths_and_codes() {
        let found = parsed(
            "spec.a[0].b: unknown; maybe `x` [K0601]; spec.c: expected integer [K0720]; the hub is old",
        );
        let paths: Vec<(&str, &str)> = found.iter().map(|it| (it.path.as_str(), it.code.as_str())).collect();
        assert_eq!(paths, [("spec.a[0].b", "K0601"), ("spec.c", "K0720"), ("", "")]);
        assert_eq!(found[0].message, "unknown; maybe `x`");
    }

    #[test]
    fn the_excerpt_marks_the_line_of_the_mistake() {
        let definition = Definition::new(
            json!({"spec": {"resources": [{"id": "a", "template": {"data": {"x": "${b}"}}}]}}),
        );
        let shown = excerpt(&definition, "spec.resources[0].template.data.x").into_string();
        assert!(shown.contains("<span class=\"at\">▸       x: &quot;${b}&quot;"), "{shown}");
    }
}
