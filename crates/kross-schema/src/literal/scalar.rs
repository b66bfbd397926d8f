//! Checks a scalar against the constraints of its schema: allowed values, pattern, range, length, format.

use kross_diagnostics::{Code, suggest};
use kross_value::Value;
use regex::Regex;

use crate::openapi::{Schema, same_json};

use super::{Checking, format, shortened};

impl Checking<'_> {
    pub(super) fn scalar(&mut self, value: &Value, schema: &Schema) {
        self.allowed(value, schema);
        self.range(value, schema);
        if let Value::String(text) = value {
            self.text(text, schema);
        }
        self.format(value, schema);
    }

    fn allowed(&mut self, value: &Value, schema: &Schema) {
        if schema.values.is_empty() || schema.values.iter().any(|allowed| same_json(allowed, value)) {
            return;
        }
        let shown = |value: &Value| format!("`{}`", shortened(value));
        let allowed: Vec<String> = schema.values.iter().map(shown).collect();
        let message = format!("{} is not one of {}", shown(value), allowed.join(", "));
        let meant = value.as_str().and_then(|text| {
            suggest(text, schema.values.iter().filter_map(Value::as_str)).map(str::to_owned)
        });
        let problem = self.problem(Code::ValueNotAllowed, message).did_you_mean(meant.as_deref());
        self.problems.push(problem);
    }

    fn range(&mut self, value: &Value, schema: &Schema) {
        #[expect(clippy::cast_precision_loss, reason = "limits are doubles too")]
        let number = match value {
            Value::Int(number) => *number as f64,
            Value::Float(number) => *number,
            _ => return,
        };
        let details = schema.details();
        if let Some(minimum) = details.minimum {
            if details.exclusive_minimum && number <= minimum {
                self.report(Code::OutOfRange, format!("must be greater than {minimum}, found {value}"));
            } else if number < minimum {
                self.report(Code::OutOfRange, format!("must be at least {minimum}, found {value}"));
            }
        }
        if let Some(maximum) = details.maximum {
            if details.exclusive_maximum && number >= maximum {
                self.report(Code::OutOfRange, format!("must be less than {maximum}, found {value}"));
            } else if number > maximum {
                self.report(Code::OutOfRange, format!("must be at most {maximum}, found {value}"));
            }
        }
        if let Some(step) = details.multiple_of.filter(|step| *step > 0.0) {
            let steps = number / step;
            if (steps - steps.round()).abs() > 1e-9 {
                self.report(Code::OutOfRange, format!("must be a multiple of {step}, found {value}"));
            }
        }
    }

    fn text(&mut self, text: &str, schema: &Schema) {
        let details = schema.details();
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(least) = details.min_length.filter(|least| length < *least) {
            let message = format!("must have at least {least} characters, found {length}");
            self.report(Code::OutOfRange, message);
        }
        if let Some(most) = details.max_length.filter(|most| length > *most) {
            let message = format!("must have at most {most} characters, found {length}");
            self.report(Code::OutOfRange, message);
        }
        if let Some(pattern) = &details.pattern {
            // A pattern that the regex crate does not support is left to the API server.
            if Regex::new(pattern).is_ok_and(|expression| !expression.is_match(text)) {
                let shown = shortened(&Value::from(text));
                self.report(Code::PatternMismatch, format!("`{shown}` does not match `{pattern}`"));
            }
        }
    }

    fn format(&mut self, value: &Value, schema: &Schema) {
        let Some(name) = schema.format.as_deref() else { return };
        if let Some(expected) = format::violated(name, value) {
            let message = format!("`{}` is not {expected}", shortened(value));
            let mut problem = self.problem(Code::InvalidFormat, message);
            if name == "byte" {
                problem = problem.help("use `${base64.encode(bytes(…))}` or `stringData`");
            }
            self.problems.push(problem);
        }
    }

    /// Checks the number of an object's entries.
    pub(super) fn count(&mut self, entries: usize, schema: &Schema) {
        let details = schema.details();
        let entries = i64::try_from(entries).unwrap_or(i64::MAX);
        if let Some(least) = details.min_properties.filter(|least| entries < *least) {
            self.report(Code::OutOfRange, format!("must have at least {least} entries, found {entries}"));
        }
        if let Some(most) = details.max_properties.filter(|most| entries > *most) {
            self.report(Code::OutOfRange, format!("must have at most {most} entries, found {entries}"));
        }
    }
}
