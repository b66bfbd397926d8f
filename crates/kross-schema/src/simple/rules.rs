//! Compiles `validation` rules as the API server does when the CRD is created: `self` is the value of the field.

use std::ops::Range;

use kross_cel::Env;
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem};

use crate::openapi::Schema;
use crate::view::SchemaView;

use super::marker_text::{Marker, MarkerName};

/// Checks the validation rules of a field.
pub(super) fn check(schema: &Schema, markers: &[Marker], path: &Path, problems: &mut Vec<Problem>) {
    let mut rules = markers.iter().filter(|marker| marker.name == MarkerName::Validation).peekable();
    if rules.peek().is_none() {
        return;
    }
    let value = SchemaView::of("self", schema.clone()).cel_type();
    let env = Env::standard().with_variables([("self", value.clone()), ("oldSelf", value)]);
    for marker in rules {
        check_rule(&env, marker, path, problems);
    }
}

fn check_rule(env: &Env, marker: &Marker, path: &Path, problems: &mut Vec<Problem>) {
    let rule = marker.value.as_str();
    // The API server uses names such as `__namespace__` for fields whose names are reserved in CEL.
    if rule.contains("__") {
        return;
    }
    let problem = |message: String, range: Range<usize>| {
        Problem::new(Code::InvalidValidation, Place::within(path, range), message)
    };
    match env.compile(rule) {
        Ok(checked) => {
            let result = checked.result();
            if !matches!(result, Type::Bool | Type::Dyn | Type::Error) {
                let message = format!("a validation rule must return a bool, found {result}");
                problems.push(problem(message, marker.value_range.clone()));
            }
        }
        Err(issues) => {
            for issue in issues {
                let (start, end) = (issue.span.start as usize, issue.span.end as usize);
                let range = marker.within(start..end);
                let exact = range.is_some();
                let mut found = problem(issue.message, range.unwrap_or_else(|| marker.value_range.clone()));
                found.help = issue.help;
                found.replacement = issue.replacement.filter(|_| exact);
                problems.push(found);
            }
        }
    }
}
