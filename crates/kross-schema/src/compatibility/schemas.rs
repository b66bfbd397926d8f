//! Compares two schemas field by field, including lists and maps.

use crate::openapi::{Additional, Schema};

use super::values::{
    LENGTHS, compare_combinations, compare_default, compare_description, compare_enum, compare_limits,
    compare_text, compare_validations,
};
use super::{ChangeKind, Report};

/// Maximum depth; a CRD cannot be nested more deeply.
const MAX_DEPTH: usize = 120;

/// Adds the changes at `path` and below.
pub(super) fn compare(path: &str, old: &Schema, new: &Schema, report: &mut Report) {
    compare_at(path, old, new, report, 0);
}

fn compare_at(path: &str, old: &Schema, new: &Schema, report: &mut Report, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    compare_description(path, old, new, report);
    let (before, after) = (kind_name(old), kind_name(new));
    if before != after {
        let breaking = !is_status(path) || ![before, after].contains(&ANY_TYPE);
        report.add(breaking, ChangeKind::TypeChanged, path, before.into(), after.into());
        return;
    }
    compare_flags(path, old, new, report);
    compare_default(path, old, new, report);
    compare_enum(path, old, new, report);
    let patterns = [ChangeKind::PatternAdded, ChangeKind::PatternRemoved, ChangeKind::PatternChanged];
    compare_text(path, &old.details().pattern, &new.details().pattern, patterns, report);
    let formats = [ChangeKind::FormatAdded, ChangeKind::FormatRemoved, ChangeKind::FormatChanged];
    compare_text(path, &old.format, &new.format, formats, report);
    for length in LENGTHS {
        compare_limits(path, old, new, length, report);
    }
    compare_validations(path, old, new, report);
    compare_list(path, old, new, report);
    compare_combinations(path, old, new, report);
    compare_properties(path, old, new, report, depth);
    compare_inner(path, old, new, report, depth);
}

/// The name of the type in messages.
fn kind_name(schema: &Schema) -> &'static str {
    match schema.kind {
        _ if schema.int_or_string => "integer or string",
        Some(kind) => kind.as_str(),
        None => ANY_TYPE,
    }
}

const ANY_TYPE: &str = "any type";

/// Whether the path is in the status. Only the controller writes the status, so that a more or less specific type breaks
/// nobody. kro's types are less specific for optional values, times and nested objects.
fn is_status(path: &str) -> bool {
    path.strip_prefix("status").is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The name that kro escapes as `__name__`, because it is a reserved word in CEL.
fn unescaped(name: &str) -> Option<&str> {
    name.strip_prefix("__")?.strip_suffix("__")
}

fn compare_flags(path: &str, old: &Schema, new: &Schema, report: &mut Report) {
    let mut flag = |before: bool, after: bool, loss: ChangeKind, gain: ChangeKind| {
        if before != after {
            let kind = if before { loss } else { gain };
            report.add(before, kind, path, String::new(), String::new());
        }
    };
    flag(old.nullable, new.nullable, ChangeKind::NullableRemoved, ChangeKind::NullableAdded);
    flag(
        old.preserve_unknown,
        new.preserve_unknown,
        ChangeKind::PreserveUnknownRemoved,
        ChangeKind::PreserveUnknownAdded,
    );
    if old.embedded != new.embedded {
        let kind = ChangeKind::EmbeddedResourceChanged;
        report.add(new.embedded, kind, path, old.embedded.to_string(), new.embedded.to_string());
    }
}

fn compare_list(path: &str, old: &Schema, new: &Schema, report: &mut Report) {
    let list_type = |schema: &Schema| {
        let details = schema.details();
        let name = details.list_type.as_deref().unwrap_or("atomic").to_owned();
        if details.list_map_keys.is_empty() {
            name
        } else {
            format!("{name} of {}", details.list_map_keys.join(", "))
        }
    };
    let (before, after) = (list_type(old), list_type(new));
    if before != after {
        // Items of an atomic list need not be unique.
        report.add(after != "atomic", ChangeKind::ListTypeChanged, path, before, after);
    }
    let map_type = |schema: &Schema| schema.details().map_type.as_deref().unwrap_or("granular").to_owned();
    let (before, after) = (map_type(old), map_type(new));
    if before != after {
        report.add(false, ChangeKind::MapTypeChanged, path, before, after);
    }
}

fn compare_properties(path: &str, old: &Schema, new: &Schema, report: &mut Report, depth: usize) {
    for (name, before) in old.properties.iter() {
        let inner = joined(path, name);
        let Some(after) = new.properties.get(name) else {
            // The property is still accepted if unknown or additional properties are.
            let plain = unescaped(name).filter(|_| is_status(path));
            let kept = new.preserve_unknown
                || new.additional != Additional::Unspecified
                || plain.is_some_and(|plain| new.properties.get(plain).is_some());
            report.add(!kept, ChangeKind::PropertyRemoved, &inner, String::new(), String::new());
            continue;
        };
        compare_at(&inner, before, after, report, depth + 1);
        let (required_before, required_after) = (old.requires(name), new.requires(name));
        match (required_before, required_after) {
            (false, true) => {
                // The API server sets the default on instances that do not have the property.
                let breaking = after.default.is_none();
                report.add(breaking, ChangeKind::RequiredAdded, &inner, String::new(), String::new());
            }
            (true, false) => {
                report.add(false, ChangeKind::RequiredRemoved, &inner, String::new(), String::new());
            }
            (true, true) if before.default.is_some() && after.default.is_none() => {
                let default = before.default.as_ref().map(ToString::to_string).unwrap_or_default();
                report.add(true, ChangeKind::RequiredDefaultRemoved, &inner, default, String::new());
            }
            _ => {}
        }
    }
    for (name, added) in new.properties.iter() {
        if old.properties.get(name).is_none() {
            let breaking = new.requires(name) && added.default.is_none();
            let inner = joined(path, name);
            report.add(breaking, ChangeKind::PropertyAdded, &inner, String::new(), String::new());
        }
    }
}

/// Compares the items of lists and the values of maps.
fn compare_inner(path: &str, old: &Schema, new: &Schema, report: &mut Report, depth: usize) {
    let inner = format!("{path}[]");
    match (&old.items, &new.items) {
        (Some(before), Some(after)) => compare_at(&inner, before, after, report, depth + 1),
        (Some(_), None) => {
            report.add(true, ChangeKind::PropertyRemoved, &inner, String::new(), String::new());
        }
        (None, Some(_)) => {
            report.add(false, ChangeKind::PropertyAdded, &inner, String::new(), String::new());
        }
        (None, None) => {}
    }
    match (&old.additional, &new.additional) {
        (Additional::Schema(before), Additional::Schema(after)) => {
            compare_at(&inner, before, after, report, depth + 1);
        }
        (
            Additional::Unspecified | Additional::Allowed(false),
            Additional::Unspecified | Additional::Allowed(false),
        )
        | (Additional::Allowed(true), Additional::Allowed(true)) => {}
        (_, Additional::Unspecified | Additional::Allowed(false)) => {
            let breaking = !new.preserve_unknown;
            report.add(breaking, ChangeKind::PropertyRemoved, &inner, String::new(), String::new());
        }
        (Additional::Allowed(true), Additional::Schema(_)) => {
            report.add(true, ChangeKind::TypeChanged, &inner, ANY_TYPE.into(), "a schema".into());
        }
        (_, Additional::Schema(_) | Additional::Allowed(true)) => {
            report.add(false, ChangeKind::PropertyAdded, &inner, String::new(), String::new());
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    let plain = name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'));
    match (path.is_empty(), plain) {
        (_, false) => format!("{path}[{name:?}]"),
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
    }
}
