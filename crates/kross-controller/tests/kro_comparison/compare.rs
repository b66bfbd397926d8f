//! Compares two snapshots, and matches their differences with those that are listed with a reason.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::scenario::{Scenario, Step};
use crate::side::Snapshot;

/// The `object` of a difference between two rejections.
pub const REJECTION: &str = "API server";

/// A field that differs between the sides.
#[derive(Clone, Debug)]
pub struct Difference {
    pub scenario: String,
    pub step: String,
    pub object: String,
    pub path: String,
    pub kro: Json,
    pub kross: Json,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, step, object, path, kro, kross } = self;
        write!(formatter, "{scenario}, {step}: {object}: {path}\n     kro: {kro}\n   kross: {kross}")
    }
}

/// An intended difference. Each field is a pattern in which `*` matches any text; a field that is omitted is `*`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    #[serde(default = "anything")]
    pub scenario: String,
    #[serde(default = "anything")]
    pub step: String,
    pub object: String,
    pub path: String,
    #[serde(default = "anything")]
    pub kro: String,
    #[serde(default = "anything")]
    pub kross: String,
    pub reason: String,
    /// Whether it depends on the timing of kro, so that it may not occur.
    #[serde(default)]
    pub sometimes: bool,
}

fn anything() -> String {
    "*".to_owned()
}

impl Known {
    pub fn all(file: &Path) -> Vec<Self> {
        serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    /// Whether it is listed for exactly this step, so that it must occur.
    pub fn is_due(&self, scenario: &Scenario, step: &Step) -> bool {
        !self.sometimes
            && self.object != REJECTION
            && self.scenario == scenario.name
            && self.step == step.name
    }

    pub fn explains(&self, difference: &Difference) -> bool {
        let value = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        matches(&self.scenario, &difference.scenario)
            && matches(&self.step, &difference.step)
            && matches(&self.object, &difference.object)
            && matches(&self.path, &difference.path)
            && matches(self.kro.trim_end(), &value(&difference.kro))
            && matches(self.kross.trim_end(), &value(&difference.kross))
    }
}

/// Whether a text matches a pattern, in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// All differences between two snapshots.
pub fn differences(scenario: &str, step: &str, kro: &Snapshot, kross: &Snapshot) -> Vec<Difference> {
    let mut found = Vec::new();
    let names: BTreeSet<&String> = kro.keys().chain(kross.keys()).collect();
    for object in names {
        let mut comparison = Comparison { found: Vec::new() };
        let (kro, kross) = (kro.get(object), kross.get(object));
        comparison.compare("", kro.unwrap_or(&Json::Null), kross.unwrap_or(&Json::Null));
        found.extend(comparison.found.into_iter().map(|(path, kro, kross)| Difference {
            scenario: scenario.to_owned(),
            step: step.to_owned(),
            object: object.clone(),
            path,
            kro,
            kross,
        }));
    }
    found
}

struct Comparison {
    found: Vec<(String, Json, Json)>,
}

impl Comparison {
    fn compare(&mut self, path: &str, kro: &Json, kross: &Json) {
        if kro == kross {
            return;
        }
        if path == "status.order" {
            if !same_order(kro, kross) {
                self.found.push((path.to_owned(), kro.clone(), kross.clone()));
            }
            return;
        }
        match (kro, kross) {
            (Json::Object(left), Json::Object(right)) => {
                let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
                for key in keys {
                    let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.compare(
                        &inner,
                        left.get(key).unwrap_or(&Json::Null),
                        right.get(key).unwrap_or(&Json::Null),
                    );
                }
            }
            (Json::Array(left), Json::Array(right)) if left.len() == right.len() => {
                for (index, (left, right)) in left.iter().zip(right).enumerate() {
                    self.compare(&format!("{path}[{index}]"), left, right);
                }
            }
            _ => self.found.push((path.to_owned(), kro.clone(), kross.clone())),
        }
    }
}

/// Whether conditions are in the same order. They are sorted by transition time, in whole seconds, with `Ready` last. Only
/// for two conditions with the same time on both sides does the order of the writes show.
fn same_order(kro: &Json, kross: &Json) -> bool {
    let read = |order: &Json| -> Vec<(String, String)> {
        let pairs = order.as_array().cloned().unwrap_or_default();
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        pairs.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
    };
    let (kro, kross) = (read(kro), read(kross));
    let kinds =
        |order: &[(String, String)]| order.iter().map(|(kind, _)| kind.clone()).collect::<BTreeSet<_>>();
    if kinds(&kro) != kinds(&kross) || kro.last().map(|last| &last.0) != kross.last().map(|last| &last.0) {
        // Missing conditions are reported by the comparison of the conditions themselves.
        return kinds(&kro) != kinds(&kross);
    }
    let types = |order: &[(String, String)]| order.iter().map(|(kind, _)| kind.clone()).collect::<Vec<_>>();
    if types(&kro) == types(&kross) {
        return true;
    }
    let swapped = |left: usize, right: usize| {
        let place = |kind: &str| kross.iter().position(|(other, _)| other == kind).unwrap();
        let (first, second) = (place(&kro[left].0), place(&kro[right].0));
        first > second && kro[left].1 == kro[right].1 && kross[first].1 == kross[second].1
    };
    let pairs = (0..kro.len()).flat_map(|left| (left + 1..kro.len()).map(move |right| (left, right)));
    let mut pairs = pairs.filter(|(_, right)| kro[*right].0 != "Ready");
    !pairs.any(|(left, right)| swapped(left, right))
}
