//! Reads the fields of a fixture: each with its path, so that a mistake is reported at its line and column.

use std::time::Duration;

use kross_api::parse_duration;
use kross_diagnostics::{Code, Path, Place, Problem, suggest};
use kross_value::Value;

/// A value of a fixture with its path.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) value: Value,
    pub(super) path: Path,
}

/// The mistakes that were found.
pub(super) type Problems = Vec<Problem>;

impl Located {
    pub(super) fn new(value: &Value, path: Path) -> Self {
        Self { value: value.clone(), path }
    }

    /// A mistake at this value.
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(Code::InvalidFixture, Place::value(&self.path), message)
    }

    fn wrong(&self, expected: &str, problems: &mut Problems) {
        let name = self.path.to_string();
        let message = format!("`{name}` must be {expected}, found {}", article(self.value.kind()));
        problems.push(self.problem(message));
    }

    /// The field of this name, unless it is null.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Self::new(value, self.path.key(name)))
    }

    /// Reports the fields that do not exist, and a value that is no map. Returns whether it is a map.
    pub(super) fn has_only(&self, known: &[&'static str], problems: &mut Problems) -> bool {
        let Some(fields) = self.value.as_object() else {
            self.wrong("a map", problems);
            return false;
        };
        for key in fields.keys().map(kross_value::Key::as_str) {
            if known.contains(&key) {
                continue;
            }
            let place = Place::key(&self.path.key(key));
            let problem = Problem::new(Code::UnknownFixtureField, place, format!("unknown field `{key}`"));
            let meant = suggest(key, known.iter().copied());
            problems.push(match meant {
                Some(meant) => problem.did_you_mean(Some(meant)),
                None => problem.help(format!("the fields here are {}", quoted(known))),
            });
        }
        true
    }

    pub(super) fn text(&self, problems: &mut Problems) -> Option<String> {
        match &self.value {
            Value::String(text) => Some(text.to_string()),
            _ => {
                self.wrong("a string", problems);
                None
            }
        }
    }

    pub(super) fn flag(&self, problems: &mut Problems) -> Option<bool> {
        if self.value.as_bool().is_none() {
            self.wrong("`true` or `false`", problems);
        }
        self.value.as_bool()
    }

    pub(super) fn duration(&self, problems: &mut Problems) -> Option<Duration> {
        let found = self.value.as_str().and_then(parse_duration);
        if found.is_none() {
            let problem = self.problem(format!("`{}` is not a duration", self.path));
            problems.push(problem.help("write a duration such as `30s`, `5m` or `1h30m`"));
        }
        found
    }

    /// The items of a list.
    pub(super) fn items(&self, problems: &mut Problems) -> Vec<Self> {
        let Some(items) = self.value.as_list() else {
            self.wrong("a list", problems);
            return Vec::new();
        };
        items.iter().enumerate().map(|(at, item)| Self::new(item, self.path.index(at))).collect()
    }

    /// The entries of a map. A value may be null.
    pub(super) fn entries(&self, problems: &mut Problems) -> Vec<(String, Self)> {
        let Some(fields) = self.value.as_object() else {
            self.wrong("a map", problems);
            return Vec::new();
        };
        let entry = |(key, value): (&kross_value::Key, &Value)| {
            (key.as_str().to_owned(), Self::new(value, self.path.key(key.as_str())))
        };
        fields.iter().map(entry).collect()
    }

    /// An object in a cluster: it needs these fields.
    pub(super) fn object(&self, needed: &[&[&str]], problems: &mut Problems) -> Option<Self> {
        if self.value.as_object().is_none() {
            self.wrong("an object", problems);
            return None;
        }
        for path in needed {
            if self.value.at(path).and_then(Value::as_str).is_none_or(str::is_empty) {
                let field = path.join(".");
                problems.push(
                    self.problem(format!("the object has no `{field}`")).help(format!("add `{field}`")),
                );
                return None;
            }
        }
        Some(self.clone())
    }
}

fn article(kind: &str) -> String {
    match kind {
        "null" => "nothing".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "a map".to_owned(),
        "integer" => "an integer".to_owned(),
        other => format!("a {other}"),
    }
}

/// `a`, `b` and `c` in backticks.
pub(super) fn quoted<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
