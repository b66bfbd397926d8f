//! Compares the constraints of two schemas for a value: limits, patterns, enums, validation rules, defaults.

use kross_value::{Text, Value};

use crate::openapi::{Details, Schema, same_json, write_number};

use super::{ChangeKind, Report};

/// A limit, and the kinds of its changes: added, removed, increased, decreased. `lower` distinguishes a lower limit from
/// an upper one.
pub(super) struct Limit {
    read: fn(&Details) -> Option<f64>,
    lower: bool,
    kinds: [ChangeKind; 4],
}

#[expect(clippy::cast_precision_loss, reason = "limits are compared, not computed with")]
fn float(count: Option<i64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// All limits of a schema.
pub(super) const LENGTHS: &[Limit] = &[
    Limit {
        read: |details| details.minimum,
        lower: true,
        kinds: [
            ChangeKind::MinimumAdded,
            ChangeKind::MinimumRemoved,
            ChangeKind::MinimumIncreased,
            ChangeKind::MinimumDecreased,
        ],
    },
    Limit {
        read: |details| details.maximum,
        lower: false,
        kinds: [
            ChangeKind::MaximumAdded,
            ChangeKind::MaximumRemoved,
            ChangeKind::MaximumIncreased,
            ChangeKind::MaximumDecreased,
        ],
    },
    Limit {
        read: |details| float(details.min_length),
        lower: true,
        kinds: [
            ChangeKind::MinLengthAdded,
            ChangeKind::MinLengthRemoved,
            ChangeKind::MinLengthIncreased,
            ChangeKind::MinLengthDecreased,
        ],
    },
    Limit {
        read: |details| float(details.max_length),
        lower: false,
        kinds: [
            ChangeKind::MaxLengthAdded,
            ChangeKind::MaxLengthRemoved,
            ChangeKind::MaxLengthIncreased,
            ChangeKind::MaxLengthDecreased,
        ],
    },
    Limit {
        read: |details| float(details.min_items),
        lower: true,
        kinds: [
            ChangeKind::MinItemsAdded,
            ChangeKind::MinItemsRemoved,
            ChangeKind::MinItemsIncreased,
            ChangeKind::MinItemsDecreased,
        ],
    },
    Limit {
        read: |details| float(details.max_items),
        lower: false,
        kinds: [
            ChangeKind::MaxItemsAdded,
            ChangeKind::MaxItemsRemoved,
            ChangeKind::MaxItemsIncreased,
            ChangeKind::MaxItemsDecreased,
        ],
    },
    Limit {
        read: |details| float(details.min_properties),
        lower: true,
        kinds: [
            ChangeKind::MinPropertiesAdded,
            ChangeKind::MinPropertiesRemoved,
            ChangeKind::MinPropertiesIncreased,
            ChangeKind::MinPropertiesDecreased,
        ],
    },
    Limit {
        read: |details| float(details.max_properties),
        lower: false,
        kinds: [
            ChangeKind::MaxPropertiesAdded,
            ChangeKind::MaxPropertiesRemoved,
            ChangeKind::MaxPropertiesIncreased,
            ChangeKind::MaxPropertiesDecreased,
        ],
    },
];

pub(super) fn compare_limits(path: &str, old: &Schema, new: &Schema, limit: &Limit, report: &mut Report) {
    let [added, removed, increased, decreased] = limit.kinds;
    let shown = |number: f64| write_number(number).to_string();
    match ((limit.read)(old.details()), (limit.read)(new.details())) {
        (None, Some(after)) => report.add(true, added, path, String::new(), shown(after)),
        (Some(before), None) => report.add(false, removed, path, shown(before), String::new()),
        (Some(before), Some(after)) if after > before => {
            report.add(limit.lower, increased, path, shown(before), shown(after));
        }
        (Some(before), Some(after)) if after < before => {
            report.add(!limit.lower, decreased, path, shown(before), shown(after));
        }
        _ => {}
    }
}

/// Compares a pattern or format: added, removed, changed.
pub(super) fn compare_text(
    path: &str,
    old: &Option<Text>,
    new: &Option<Text>,
    [added, removed, changed]: [ChangeKind; 3],
    report: &mut Report,
) {
    let shown = |text: &Text| format!("`{text}`");
    match (old, new) {
        (None, Some(after)) => report.add(true, added, path, String::new(), shown(after)),
        (Some(before), None) => report.add(false, removed, path, shown(before), String::new()),
        (Some(before), Some(after)) if before != after => {
            report.add(true, changed, path, shown(before), shown(after));
        }
        _ => {}
    }
}

pub(super) fn compare_description(path: &str, old: &Schema, new: &Schema, report: &mut Report) {
    let (before, after) = (old.details(), new.details());
    if before.description != after.description || before.title != after.title || before.rest != after.rest {
        report.add(false, ChangeKind::DescriptionChanged, path, String::new(), String::new());
    }
}

/// Compares the defaults. The removal of a required field's default is reported with the field.
pub(super) fn compare_default(path: &str, old: &Schema, new: &Schema, report: &mut Report) {
    let unchanged = match (&old.default, &new.default) {
        (None, None) => true,
        (Some(before), Some(after)) => same_json(before, after),
        _ => false,
    };
    if !unchanged {
        let shown = |default: &Option<Value>| default.as_ref().map(ToString::to_string).unwrap_or_default();
        report.add(false, ChangeKind::DefaultChanged, path, shown(&old.default), shown(&new.default));
    }
}

pub(super) fn compare_enum(path: &str, old: &Schema, new: &Schema, report: &mut Report) {
    let shown = |values: &[Value]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (old.values.is_empty(), new.values.is_empty()) {
        (true, true) => {}
        (true, false) => {
            report.add(true, ChangeKind::EnumAdded, path, String::new(), shown(&new.values));
        }
        (false, true) => {
            report.add(false, ChangeKind::EnumRemoved, path, shown(&old.values), String::new());
        }
        (false, false) => {
            let missing =
                |value: &&Value, values: &[Value]| !values.iter().any(|other| same_json(other, value));
            for value in old.values.iter().filter(|value| missing(value, &new.values)) {
                report.add(true, ChangeKind::EnumRestricted, path, value.to_string(), String::new());
            }
            for value in new.values.iter().filter(|value| missing(value, &old.values)) {
                report.add(false, ChangeKind::EnumExpanded, path, String::new(), value.to_string());
            }
        }
    }
}

pub(super) fn compare_validations(path: &str, old: &Schema, new: &Schema, report: &mut Report) {
    let (before, after) = (&old.details().validations, &new.details().validations);
    let shown = |rule: &Text| format!("`{rule}`");
    for rule in after {
        match before.iter().find(|other| other.rule == rule.rule) {
            None => report.add(true, ChangeKind::ValidationAdded, path, String::new(), shown(&rule.rule)),
            Some(other) if other != rule => {
                let message = |text: &Option<Text>| text.as_ref().map(shown).unwrap_or_default();
                let (old, new) = (message(&other.message), message(&rule.message));
                report.add(false, ChangeKind::ValidationMessageChanged, path, old, new);
            }
            Some(_) => {}
        }
    }
    for rule in before {
        if !after.iter().any(|other| other.rule == rule.rule) {
            report.add(false, ChangeKind::ValidationRemoved, path, shown(&rule.rule), String::new());
        }
    }
}

pub(super) fn compare_combinations(path: &str, old: &Schema, new: &Schema, report: &mut Report) {
    let (before, after) = (old.details(), new.details());
    let combined = |details: &Details| {
        (details.all_of.clone(), details.any_of.clone(), details.one_of.clone(), details.not.clone())
    };
    if combined(before) != combined(after) {
        let nothing = combined(after) == combined(&Details::default());
        report.add(!nothing, ChangeKind::CombinationChanged, path, String::new(), String::new());
    }
    let exclusive = |details: &Details| (details.exclusive_minimum, details.exclusive_maximum);
    if exclusive(before) != exclusive(after) {
        let tighter = (after.exclusive_minimum && !before.exclusive_minimum)
            || (after.exclusive_maximum && !before.exclusive_maximum);
        let kind = if before.exclusive_minimum == after.exclusive_minimum {
            if tighter { ChangeKind::MaximumDecreased } else { ChangeKind::MaximumIncreased }
        } else if tighter {
            ChangeKind::MinimumIncreased
        } else {
            ChangeKind::MinimumDecreased
        };
        report.add(tighter, kind, path, String::new(), String::new());
    }
    if before.multiple_of != after.multiple_of {
        let shown = |step: Option<f64>| step.map(|step| write_number(step).to_string()).unwrap_or_default();
        let (old, new) = (shown(before.multiple_of), shown(after.multiple_of));
        report.add(after.multiple_of.is_some(), ChangeKind::MultipleOfChanged, path, old, new);
    }
    if before.unique_items != after.unique_items {
        let (old, new) = (before.unique_items.to_string(), after.unique_items.to_string());
        report.add(after.unique_items, ChangeKind::ListTypeChanged, path, old, new);
    }
}
