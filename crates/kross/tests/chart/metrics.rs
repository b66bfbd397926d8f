//! Checks PromQL expressions against the page of metrics: every metric exists, has the labels, and the labels have the values.
//! Reads as much of PromQL as the alerts and the dashboard use.
#![allow(unreachable_pub)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

/// Labels that Prometheus adds. `exported_namespace` is a label of the metric that Prometheus renames.
const ADDED: [&str; 6] = ["namespace", "pod", "job", "instance", "le", "exported_namespace"];
/// Words that are neither metrics nor functions.
const KEYWORDS: [&str; 9] = ["and", "or", "unless", "by", "without", "on", "ignoring", "offset", "bool"];

/// The metrics with their labels, and the values of those that have a closed set.
pub struct Reference(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Reference {
    /// Reads the table of the page.
    pub fn parse(page: &str) -> Self {
        let mut metrics = BTreeMap::new();
        for row in page.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let name = cells[1].trim_matches('`');
            let labels: BTreeMap<String, BTreeSet<String>> = cells[3]
                .split(';')
                .filter_map(|label| label.split_once(": "))
                .map(|(label, values)| {
                    let values = values.split(", ").filter(|value| *value != "…");
                    let values =
                        values.map(|value| value.trim().trim_matches('`').trim_matches('"').to_owned());
                    (label.trim().trim_matches('`').to_owned(), values.collect())
                })
                .collect();
            let suffixes: &[&str] =
                if cells[2] == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            for suffix in suffixes {
                metrics.insert(format!("{name}{suffix}"), labels.clone());
            }
        }
        Self(metrics)
    }

    /// Checks an expression. Returns how many metrics it has.
    pub fn check(&self, expression: &str) -> Result<usize, String> {
        let mut grouped = Vec::new();
        let mut used = Vec::new();
        let mut rest = expression;
        while let Some(start) = rest.find(|letter: char| {
            letter.is_ascii_alphabetic() || letter == '_' || letter == '[' || letter == '"'
        }) {
            rest = &rest[start..];
            if let Some(close) = rest.strip_prefix('[').and_then(|inner| inner.find(']')) {
                rest = &rest[close + 2..];
                continue;
            }
            if let Some(close) = rest.strip_prefix('"').and_then(|inner| inner.find('"')) {
                rest = &rest[close + 2..];
                continue;
            }
            let end =
                rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'));
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after;
            let next = after.trim_start();
            if ["by", "on", "without", "ignoring"].contains(&word) {
                let (labels, after) = next.trim_start_matches('(').split_once(')').unwrap();
                grouped.extend(labels.split(',').map(|label| label.trim().to_owned()));
                rest = after;
            } else if word == "label_values" {
                let (_, label) = next.trim_end_matches(')').rsplit_once(',').unwrap();
                grouped.push(label.trim().to_owned());
                rest = next.rsplit_once(',').unwrap().0;
            } else if !KEYWORDS.contains(&word) && !is_function(next) && !is_duration(word) {
                let selector = next.strip_prefix('{').and_then(|inner| inner.split_once('}'));
                if let Some((selector, after)) = selector {
                    self.check_selector(word, selector)?;
                    rest = after;
                }
                used.push(self.labels(word)?);
            }
        }
        for label in grouped {
            let known =
                ADDED.contains(&label.as_str()) || used.iter().any(|labels| labels.contains_key(&label));
            if !known {
                return Err(format!("no label `{label}`"));
            }
        }
        Ok(used.len())
    }

    fn labels(&self, metric: &str) -> Result<&BTreeMap<String, BTreeSet<String>>, String> {
        self.0.get(metric).ok_or_else(|| format!("no metric `{metric}`"))
    }

    fn check_selector(&self, metric: &str, selector: &str) -> Result<(), String> {
        let labels = self.labels(metric)?;
        for matcher in selector.split(", ") {
            let (label, value) = matcher.split_once('=').unwrap();
            let label = label.trim_end_matches('!').trim();
            if ADDED.contains(&label) {
                continue;
            }
            let values = labels.get(label).ok_or_else(|| format!("`{metric}` has no label `{label}`"))?;
            for value in value.trim_start_matches('~').trim_matches('"').split('|') {
                if !values.is_empty() && !values.contains(value) {
                    return Err(format!("no value `{value}` of `{label}`"));
                }
            }
        }
        Ok(())
    }
}

/// Whether what follows a word makes it a function or an aggregation.
fn is_function(next: &str) -> bool {
    ["(", "by ", "by(", "without "].iter().any(|start| next.starts_with(start))
}

/// Whether a word is the rest of a number with a unit, such as `m` of `15m`, or of a variable.
fn is_duration(word: &str) -> bool {
    ["s", "m", "h", "d", "e"].contains(&word)
}

/// Every PromQL expression of alerts or of a dashboard.
pub fn expressions(json: &Json) -> Vec<String> {
    match json {
        Json::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match (name.as_str(), value) {
                ("expr" | "definition", Json::String(text)) => vec![text.replace('\n', " ")],
                _ => expressions(value),
            })
            .collect(),
        Json::Array(items) => items.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}
