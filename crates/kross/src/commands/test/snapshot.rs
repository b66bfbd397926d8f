//! Snapshots: the whole outcome of a step as a file beside the fixture, compared in every run and written with `--update`.

use std::fs;
use std::path::{Path, PathBuf};

use kross_diagnostics::{Code, Place, Problem};
use kross_value::{Object, Value};

use super::fields::Located;
use super::fixture::LOCAL;
use super::situation::{Situation, Unmet};

/// What a snapshot is of.
pub(super) struct Name<'n> {
    pub(super) fixture: &'n Path,
    pub(super) test: &'n str,
    pub(super) step: usize,
}

impl Name<'_> {
    /// `snapshots/<fixture>/<test>-<step>.snap`, beside the fixture.
    fn path(&self) -> PathBuf {
        let letter = |letter: char| if letter.is_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        let slug: String = self.test.chars().map(letter).collect();
        let slug: Vec<&str> = slug.split('-').filter(|part| !part.is_empty()).collect();
        let stem = self.fixture.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let folder = self.fixture.parent().unwrap_or_else(|| Path::new("")).join("snapshots").join(stem);
        folder.join(format!("{}-{}.snap", slug.join("-"), self.step))
    }
}

/// Compares the outcome with the snapshot. With `update`, writes a snapshot that differs and returns its path.
pub(super) fn check(
    name: &Name<'_>,
    at: &Located,
    situation: &Situation<'_>,
    update: bool,
) -> Result<Option<PathBuf>, Box<Unmet>> {
    let path = name.path();
    let text = kross_api::to_yaml(&serde_json::Value::from(&outcome(situation)));
    let before = fs::read_to_string(&path).ok();
    if before.as_deref() == Some(text.as_str()) {
        return Ok(None);
    }
    let problem = |message: String| Problem::new(Code::SnapshotDiffers, Place::value(&at.path), message);
    if update {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        return match fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)) {
            Ok(()) => Ok(Some(path)),
            Err(error) => {
                let message = format!("the snapshot {} cannot be written: {error}", path.display());
                Err(Box::new(Unmet::new(problem(message))))
            }
        };
    }
    let help = "look at the difference, then write the snapshot with `kross test --update`";
    Err(Box::new(Unmet::new(match before {
        None => problem(format!("there is no snapshot {}", path.display())).help(help),
        Some(before) => {
            let message = format!("the outcome differs from the snapshot {}", path.display());
            problem(message).note(difference(&before, &text)).help(help)
        }
    })))
}

/// The outcome of a step: status, objects by cluster, and what the controller did.
fn outcome(situation: &Situation<'_>) -> Value {
    let simulator = situation.simulator;
    let mut clusters = Object::new();
    for (_, reference, object) in simulator.objects() {
        let cluster = reference.map_or(LOCAL, |reference| reference.display.as_str());
        let list = clusters.get(cluster).and_then(Value::as_list).unwrap_or_default();
        let list = Value::list(list.iter().cloned().chain([readable(&object.value)]));
        clusters.insert(cluster, list);
    }
    let actions = Value::list(situation.actions.iter().map(|action| Value::from(action.to_string())));
    Value::object([
        ("actions", actions),
        ("status", without_times(simulator.status())),
        ("objects", Value::Object(clusters)),
    ])
}

/// The object without what kross adds to every object.
fn readable(object: &Value) -> Value {
    let is_bookkeeping = |key: &str| {
        key.starts_with(kross_api::KEY_PREFIX)
            || key.starts_with(kross_api::INTERNAL_KEY_PREFIX)
            || key.starts_with(kross_api::APPLYSET_KEY_PREFIX)
            || key == kross_api::labels::MANAGED_BY
    };
    let Some(fields) = object.as_object() else { return object.clone() };
    let mut readable = fields.clone();
    let mut metadata = fields.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["uid", "generation", "creationTimestamp"] {
        metadata.remove(field);
    }
    for field in ["labels", "annotations"] {
        let Some(Value::Object(marks)) = metadata.get(field) else { continue };
        let kept = marks.iter().filter(|(key, _)| !is_bookkeeping(key.as_str()));
        let kept: Object = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        if kept.is_empty() {
            metadata.remove(field);
        } else {
            metadata.insert(field, Value::Object(kept));
        }
    }
    readable.insert("metadata", Value::Object(metadata));
    Value::Object(readable)
}

/// The value without points in time, UIDs and generations.
fn without_times(value: &Value) -> Value {
    const HIDDEN: [&str; 6] =
        ["lastTransitionTime", "lastUpdateTime", "observedGeneration", "uid", "since", "lastContact"];
    match value {
        Value::Object(fields) => {
            let shown = fields.iter().filter(|(key, _)| !HIDDEN.contains(&key.as_str()));
            Value::Object(shown.map(|(key, value)| (key.clone(), without_times(value))).collect())
        }
        Value::List(items) => Value::list(items.iter().map(without_times)),
        other => other.clone(),
    }
}

/// The lines that differ, with one line before and after each change.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same_start;
    let same_end =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let part = |lines: &[&str], mark: char| -> Vec<String> {
        let changed = lines.get(same_start..lines.len() - same_end).unwrap_or_default();
        changed.iter().map(|line| format!("{mark} {line}")).collect()
    };
    let mut shown: Vec<String> = Vec::new();
    if let Some(line) = same_start.checked_sub(1).and_then(|at| old.get(at)) {
        shown.push(format!("  {line}"));
    }
    shown.extend(part(&old, '-'));
    shown.extend(part(&new, '+'));
    if let Some(line) = old.get(old.len() - same_end) {
        shown.push(format!("  {line}"));
    }
    format!("the snapshot (-) and the outcome (+):\n{}", shown.join("\n"))
}
