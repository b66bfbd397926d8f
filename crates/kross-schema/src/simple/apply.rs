//! Applies markers to the schema of their field, and reports markers that do not apply to its type.

use kross_diagnostics::Code;
use kross_value::Value;
use regex::Regex;

use crate::openapi::{Kind, Schema, Validation};
use kross_diagnostics::{Path, Place, Problem};

use super::marker_text::{Marker, MarkerName};

/// Applies all markers in order, then checks them for conflicts.
pub(super) fn apply(schema: &mut Schema, markers: &[Marker], path: &Path, problems: &mut Vec<Problem>) {
    let before = problems.len();
    for marker in markers {
        let mut applying = Applying { schema, marker, path };
        if let Err(problem) = applying.apply() {
            problems.push(*problem);
        }
    }
    if problems.len() == before {
        super::field_checks::check(schema, markers, path, problems);
    }
}

type Applied = Result<(), Box<Problem>>;

struct Applying<'a> {
    schema: &'a mut Schema,
    marker: &'a Marker,
    path: &'a Path,
}

impl Applying<'_> {
    fn apply(&mut self) -> Applied {
        let value = self.marker.value.clone();
        match self.marker.name {
            MarkerName::Required => {
                self.flag()?;
            }
            MarkerName::Default => self.schema.default = Some(self.default_value()?),
            MarkerName::Description => self.schema.details_mut().description = Some(value.into()),
            MarkerName::Minimum => self.schema.details_mut().minimum = Some(self.number()?),
            MarkerName::Maximum => self.schema.details_mut().maximum = Some(self.number()?),
            MarkerName::Validation => self.validation()?,
            MarkerName::Immutable => {
                if self.flag()? {
                    self.rule("self == oldSelf", "field is immutable");
                }
            }
            MarkerName::Enum => self.values()?,
            MarkerName::Pattern => self.pattern()?,
            MarkerName::MinLength => {
                self.only(Kind::String)?;
                self.schema.details_mut().min_length = Some(self.count()?);
            }
            MarkerName::MaxLength => {
                self.only(Kind::String)?;
                self.schema.details_mut().max_length = Some(self.count()?);
            }
            MarkerName::MinItems => {
                self.only(Kind::Array)?;
                self.schema.details_mut().min_items = Some(self.count()?);
            }
            MarkerName::MaxItems => {
                self.only(Kind::Array)?;
                self.schema.details_mut().max_items = Some(self.count()?);
            }
            MarkerName::UniqueItems => {
                self.only(Kind::Array)?;
                if self.flag()? {
                    self.list_type("set")?;
                }
            }
            MarkerName::ListType => self.chosen_list_type()?,
            MarkerName::ListMapKey => self.list_map_key()?,
        }
        Ok(())
    }

    fn problem(&self, code: Code, message: impl Into<String>) -> Box<Problem> {
        Box::new(Problem::new(code, Place::value(self.path), message).within(self.marker.value_range.clone()))
    }

    fn invalid(&self, expected: &str) -> Box<Problem> {
        let (name, value) = (self.marker.name.as_str(), &self.marker.value);
        let found = if value.trim().is_empty() { "nothing".to_owned() } else { format!("`{value}`") };
        self.problem(Code::InvalidMarkerValue, format!("`{name}` must be {expected}, found {found}"))
    }

    fn only(&self, kind: Kind) -> Applied {
        if self.schema.kind == Some(kind) {
            return Ok(());
        }
        let name = self.marker.name.as_str();
        let what = if kind == Kind::String { "strings" } else { "lists" };
        let message = format!("`{name}` applies to {what}, but the field is {}", self.found());
        let problem = Problem::new(Code::MarkerNotApplicable, Place::value(self.path), message);
        let meant = match (self.marker.name, self.schema.kind) {
            (MarkerName::MinLength, Some(Kind::Integer | Kind::Number)) => Some("minimum"),
            (MarkerName::MaxLength, Some(Kind::Integer | Kind::Number)) => Some("maximum"),
            (MarkerName::MinLength, Some(Kind::Array)) => Some("minItems"),
            (MarkerName::MaxLength, Some(Kind::Array)) => Some("maxItems"),
            (MarkerName::MinItems, Some(Kind::String)) => Some("minLength"),
            (MarkerName::MaxItems, Some(Kind::String)) => Some("maxLength"),
            _ => None,
        };
        Err(Box::new(problem.within(self.marker.key_range.clone()).did_you_mean(meant)))
    }

    fn found(&self) -> &'static str {
        match self.schema.kind {
            Some(Kind::String) => "a string",
            Some(Kind::Integer) => "an integer",
            Some(Kind::Number) => "a float",
            Some(Kind::Boolean) => "a boolean",
            Some(Kind::Array) => "a list",
            Some(Kind::Object) => "an object",
            None => "of any type",
        }
    }

    fn flag(&self) -> Result<bool, Box<Problem>> {
        parse_bool(&self.marker.value).ok_or_else(|| self.invalid("`true` or `false`"))
    }

    fn number(&self) -> Result<f64, Box<Problem>> {
        let number = self.marker.value.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| self.invalid("a number"))
    }

    fn count(&self) -> Result<i64, Box<Problem>> {
        let count = self.marker.value.parse::<i64>().ok().filter(|count| *count >= 0);
        count.ok_or_else(|| self.invalid("a non-negative integer"))
    }

    fn default_value(&self) -> Result<Value, Box<Problem>> {
        let text = self.marker.value.as_str();
        let invalid = |expected: &str| {
            let message = format!("the default must be {expected}, found `{text}`");
            self.problem(Code::InvalidDefault, message)
        };
        match self.schema.kind {
            // kro inserts the text into a JSON string, so `\n` is a line break. If the result is not valid JSON, for example
            // because of a quote, the text is used as it is.
            Some(Kind::String) => {
                Ok(serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| Value::from(text)))
            }
            Some(Kind::Integer) => text.parse::<i64>().map(Value::Int).map_err(|_| invalid("an integer")),
            Some(Kind::Number) => match text.parse::<i64>() {
                Ok(whole) => Ok(Value::Int(whole)),
                Err(_) => match text.parse::<f64>() {
                    Ok(number) if number.is_finite() => Ok(Value::Float(number)),
                    _ => Err(invalid("a number")),
                },
            },
            Some(Kind::Boolean) => {
                parse_bool(text).map(Value::Bool).ok_or_else(|| invalid("`true` or `false`"))
            }
            Some(Kind::Object | Kind::Array) | None => serde_json::from_str(text).map_err(|_| {
                let example = match self.schema.kind {
                    Some(Kind::Array) => "JSON, such as `[\"a\", \"b\"]`",
                    Some(Kind::Object) => "JSON, such as `{\"key\": \"value\"}`",
                    _ => "JSON",
                };
                invalid(example)
            }),
        }
    }

    fn rule(&mut self, rule: &str, message: &str) {
        self.schema.details_mut().validations.push(Validation::new(rule, message));
    }

    fn validation(&mut self) -> Applied {
        let rule = self.marker.value.clone();
        if rule.trim().is_empty() {
            return Err(self.invalid("an expression"));
        }
        self.rule(&rule, "validation failed");
        Ok(())
    }

    fn values(&mut self) -> Applied {
        let kind = match self.schema.kind {
            Some(kind @ (Kind::String | Kind::Integer)) => kind,
            _ => {
                let message =
                    format!("`enum` applies to strings and integers, but the field is {}", self.found());
                let problem = Problem::new(Code::MarkerNotApplicable, Place::value(self.path), message);
                return Err(Box::new(problem.within(self.marker.key_range.clone())));
            }
        };
        let mut values = Vec::new();
        for word in self.marker.value.split(',').map(str::trim) {
            if word.is_empty() {
                let problem = self.problem(Code::InvalidEnum, "empty enum values are not allowed");
                return Err(Box::new(problem.help("separate the values with single commas")));
            }
            let value =
                match kind {
                    Kind::String => Value::from(word),
                    _ => Value::Int(word.parse::<i64>().map_err(|_| {
                        self.problem(Code::InvalidEnum, format!("`{word}` is not an integer"))
                    })?),
                };
            values.push(value);
        }
        self.schema.values = values;
        Ok(())
    }

    fn pattern(&mut self) -> Applied {
        self.only(Kind::String)?;
        let pattern = self.marker.value.clone();
        if pattern.is_empty() {
            return Err(self.invalid("a regular expression"));
        }
        if let Err(error) = Regex::new(&pattern) {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or("").trim_start_matches("error: ").to_owned();
            let message = format!("`{pattern}` is not a valid regular expression: {reason}");
            return Err(self.problem(Code::InvalidPattern, message));
        }
        self.schema.details_mut().pattern = Some(pattern.into());
        Ok(())
    }

    fn list_type(&mut self, list_type: &str) -> Applied {
        match self.schema.details().list_type.clone() {
            Some(other) if other != list_type => {
                let message = format!("the list cannot be both `{other}` and `{list_type}`");
                let problem = self.problem(Code::ConflictingMarkers, message);
                Err(Box::new(
                    problem.help("`uniqueItems=true` is the same as `listType=set`; remove one of them"),
                ))
            }
            _ => {
                self.schema.details_mut().list_type = Some(list_type.into());
                Ok(())
            }
        }
    }

    fn chosen_list_type(&mut self) -> Applied {
        self.only(Kind::Array)?;
        let value = self.marker.value.clone();
        if !["atomic", "set", "map"].contains(&value.as_str()) {
            return Err(self.invalid("`atomic`, `set` or `map`"));
        }
        self.list_type(&value)
    }

    fn list_map_key(&mut self) -> Applied {
        self.only(Kind::Array)?;
        let key = self.marker.value.clone();
        if key.is_empty() {
            return Err(self.invalid("the name of a field"));
        }
        if self.schema.details().list_map_keys.iter().any(|other| *other == key.as_str()) {
            return Err(self.problem(Code::ConflictingMarkers, format!("duplicate `listMapKey` `{key}`")));
        }
        self.schema.details_mut().list_map_keys.push(key.into());
        Ok(())
    }
}

/// Parses a boolean like Go's `strconv.ParseBool`.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
