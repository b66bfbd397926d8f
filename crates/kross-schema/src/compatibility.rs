//! Compares two CRDs and classifies every change as breaking or harmless: an instance that is valid for the old CRD must
//! be valid for the new one. Fields that the API server defaults are not changes.

mod change;
mod schemas;
mod values;

use std::fmt;

use kross_diagnostics::{Diagnostic, Diagnostics};
use kross_value::{Object, Value};

use crate::openapi::{Keep, Schema};

pub use change::{Change, ChangeKind};

/// Maximum number of breaking changes in a summary.
const SUMMARY: usize = 3;

/// The changes from one CRD to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    changes: Vec<Change>,
}

impl Report {
    /// All changes, in the order of the schema.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The changes that may break an instance or a client of the API.
    pub fn breaking(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.breaking)
    }

    /// The changes that break nothing.
    pub fn harmless(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !change.breaking)
    }

    /// Whether there are no breaking changes.
    #[must_use]
    pub fn is_compatible(&self) -> bool {
        self.breaking().next().is_none()
    }

    /// Whether there are no changes at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The breaking changes as diagnostics, with their path in the served API.
    #[must_use]
    pub fn diagnostics(&self) -> Diagnostics {
        let mut diagnostics = Diagnostics::new();
        for change in self.breaking() {
            diagnostics
                .push(Diagnostic::new(change.kind.code(), change.to_string()).path(change.path.clone()));
        }
        diagnostics
    }

    fn add(&mut self, breaking: bool, kind: ChangeKind, path: &str, old: String, new: String) {
        self.changes.push(Change { kind, breaking, path: path.to_owned(), old, new });
    }
}

/// The first breaking changes, and the number of the others.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let breaking: Vec<&Change> = self.breaking().collect();
        if breaking.is_empty() {
            return f.write_str("no breaking changes");
        }
        let shown: Vec<String> = breaking.iter().take(SUMMARY).map(ToString::to_string).collect();
        f.write_str(&shown.join("; "))?;
        match breaking.len().saturating_sub(SUMMARY) {
            0 => Ok(()),
            more => write!(f, "; and {more} more changes"),
        }
    }
}

/// Compares two schemas of instances.
#[must_use]
pub fn compare_schemas(old: &Schema, new: &Schema) -> Report {
    let mut report = Report::default();
    schemas::compare("", old, new, &mut report);
    report
}

/// Compares two CRDs. `old` may come from a cluster, with everything that the API server adds. Labels and annotations
/// that only `old` has belong to others and are not changes.
#[must_use]
pub fn compare_crds(old: &Value, new: &Value) -> Report {
    let mut report = Report::default();
    compare_metadata(old, new, &mut report);
    compare_names(old, new, &mut report);
    let versions = |crd: &Value| -> Vec<Value> {
        crd.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default().to_vec()
    };
    let (old_versions, new_versions) = (versions(old), versions(new));
    for version in &old_versions {
        match new_versions.iter().find(|other| name_of(other) == name_of(version)) {
            Some(other) => compare_versions(version, other, &mut report),
            None => {
                let name = name_of(version).to_owned();
                report.add(true, ChangeKind::VersionRemoved, "spec.versions", name, String::new());
            }
        }
    }
    for version in &new_versions {
        if !old_versions.iter().any(|other| name_of(other) == name_of(version)) {
            let name = name_of(version).to_owned();
            report.add(false, ChangeKind::VersionAdded, "spec.versions", String::new(), name);
        }
    }
    report
}

fn name_of(version: &Value) -> &str {
    version.get("name").and_then(Value::as_str).unwrap_or("")
}

fn compare_metadata(old: &Value, new: &Value, report: &mut Report) {
    for map in ["labels", "annotations"] {
        let entries = |crd: &Value| crd.at(&["metadata", map]).and_then(Value::as_object).cloned();
        let (old, new) = (entries(old).unwrap_or_default(), entries(new).unwrap_or_default());
        for (key, value) in new.iter().filter(|(key, value)| old.get(key) != Some(value)) {
            let before = old.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
            let after = value.as_str().unwrap_or("").to_owned();
            let path = format!("metadata.{map}[{:?}]", key.as_str());
            report.add(false, ChangeKind::MetadataChanged, &path, before, after);
        }
    }
}

fn compare_names(old: &Value, new: &Value, report: &mut Report) {
    let text = |crd: &Value, path: &[&str]| crd.at(path).and_then(Value::as_str).unwrap_or("").to_owned();
    for (kind, path) in [
        (ChangeKind::ScopeChanged, ["spec", "scope"].as_slice()),
        (ChangeKind::GroupChanged, &["spec", "group"]),
        (ChangeKind::NamesChanged, &["spec", "names", "kind"]),
        (ChangeKind::NamesChanged, &["spec", "names", "plural"]),
    ] {
        let (before, after) = (text(old, path), text(new, path));
        if before != after {
            report.add(true, kind, &path.join("."), before, after);
        }
    }
    for name in ["singular", "listKind", "shortNames", "categories"] {
        let path = ["spec", "names", name];
        let (before, after) = (old.at(&path), new.at(&path));
        // The API server sets defaults for these fields.
        let defaulted = after.is_none() && matches!(name, "singular" | "listKind");
        if before != after && !defaulted {
            let shown = |value: Option<&Value>| value.map(ToString::to_string).unwrap_or_default();
            report.add(false, ChangeKind::NamesChanged, &path.join("."), shown(before), shown(after));
        }
    }
}

fn compare_versions(old: &Value, new: &Value, report: &mut Report) {
    let flag = |version: &Value, name: &str| version.get(name).and_then(Value::as_bool).unwrap_or(false);
    let (served_before, served_after) = (flag(old, "served"), flag(new, "served"));
    if served_before != served_after {
        let kind = if served_after { ChangeKind::ServedAdded } else { ChangeKind::ServedRemoved };
        report.add(served_before, kind, "spec.versions", name_of(old).to_owned(), name_of(new).to_owned());
    }
    let status = |version: &Value| version.at(&["subresources", "status"]).is_some();
    match (status(old), status(new)) {
        (true, false) => {
            report.add(true, ChangeKind::StatusRemoved, "spec.versions", String::new(), String::new());
        }
        (false, true) => {
            report.add(false, ChangeKind::StatusAdded, "spec.versions", String::new(), String::new());
        }
        _ => {}
    }
    if columns(old) != columns(new) {
        let shown = |version: &Value| {
            let columns = columns(version);
            let names = columns.iter().map(|column| name_of(column).to_owned());
            names.collect::<Vec<_>>().join(", ")
        };
        let (before, after) = (shown(old), shown(new));
        report.add(false, ChangeKind::PrinterColumnsChanged, "spec.versions", before, after);
    }
    let schema = |version: &Value| {
        let schema = version.at(&["schema", "openAPIV3Schema"])?;
        Schema::from_value(schema, Keep::Everything).ok()
    };
    match (schema(old), schema(new)) {
        (Some(old), Some(new)) => schemas::compare("", &old, &new, report),
        (None, None) => {}
        (None, Some(_)) => {
            report.add(true, ChangeKind::PreserveUnknownRemoved, "", String::new(), String::new());
        }
        (Some(_), None) => {
            report.add(false, ChangeKind::PreserveUnknownAdded, "", String::new(), String::new());
        }
    }
}

/// Printer columns without fields that have their default: a priority of 0, an empty description.
fn columns(version: &Value) -> Vec<Value> {
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_list).unwrap_or_default();
    let is_set = |value: &Value| !matches!(value, Value::Int(0) | Value::Null) && value.as_str() != Some("");
    let normalize = |column: &Value| match column {
        Value::Object(entries) => {
            let entries = entries.iter().filter(|(_, value)| is_set(value));
            Value::Object(entries.map(|(key, value)| (key.clone(), value.clone())).collect::<Object>())
        }
        other => other.clone(),
    };
    columns.iter().map(normalize).collect()
}
