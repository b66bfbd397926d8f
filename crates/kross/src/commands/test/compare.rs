//! Compares a value with the part of it that is expected.

use kross_diagnostics::Path;
use kross_value::Value;

/// A field that is not as expected.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// Its path below what was compared.
    pub(super) path: Path,
    pub(super) expected: Value,
    /// None if the field does not exist.
    pub(super) found: Option<Value>,
}

/// The fields of `expected` that `found` does not have. Maps may have more fields; lists have the same length; an expected null is
/// a field that does not exist.
pub(super) fn differences(expected: &Value, found: Option<&Value>) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare(expected, found, &Path::root(), &mut differences);
    differences
}

fn compare(expected: &Value, found: Option<&Value>, path: &Path, differences: &mut Vec<Difference>) {
    match (expected, found) {
        (Value::Null, None | Some(Value::Null)) => {}
        (Value::Object(fields), Some(Value::Object(found))) => {
            for (key, value) in fields.iter() {
                compare(value, found.get(key.as_str()), &path.key(key.as_str()), differences);
            }
        }
        (Value::List(items), Some(Value::List(found))) if items.len() == found.len() => {
            for (at, (item, found)) in items.iter().zip(found.iter()).enumerate() {
                compare(item, Some(found), &path.index(at), differences);
            }
        }
        (expected, Some(found)) if is_equal(expected, found) => {}
        (expected, found) => differences.push(Difference {
            path: path.clone(),
            expected: expected.clone(),
            found: found.cloned(),
        }),
    }
}

/// Numbers are equal whether or not they are written with a fraction.
fn is_equal(expected: &Value, found: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    expected == found || number(expected).is_some_and(|expected| number(found) == Some(expected))
}

impl Difference {
    /// `found 2, expected 3`.
    pub(super) fn in_words(&self) -> String {
        let Self { expected, found, .. } = self;
        match (expected, found) {
            (Value::Null, Some(found)) => format!("is {}, expected none", short(found)),
            (Value::List(items), Some(Value::List(found))) if items.len() != found.len() => {
                format!(
                    "has {}, expected {}: {}",
                    items_of(found.len()),
                    items.len(),
                    short(&Value::list(found.iter().cloned()))
                )
            }
            (expected, None) => format!("does not exist, expected {}", short(expected)),
            (expected, Some(found)) => format!("is {}, expected {}", short(found), short(expected)),
        }
    }
}

fn items_of(count: usize) -> String {
    if count == 1 { "1 item".to_owned() } else { format!("{count} items") }
}

/// A value on one line, cut if it is long.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 120 {
        return format!("`{text}`");
    }
    let start: String = text.chars().take(117).collect();
    format!("`{start}...`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expected: &str, found: &str) -> Vec<String> {
        let value = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        let differences = differences(&value(expected), Some(&value(found)));
        differences.iter().map(|it| format!("{} {}", it.path, it.in_words())).collect()
    }

    #[test]
    fn maps_may_have_more_fields_and_lists_may_not_have_more_items() {
        assert!(found(r#"{"a": {"b": 1}}"#, r#"{"a": {"b": 1.0, "c": 2}, "d": 3}"#).is_empty());
        assert_eq!(found(r#"{"a": 1}"#, r#"{"a": 2}"#), ["a is `2`, expected `1`"]);
        assert_eq!(found(r#"{"a": {"b": 1}}"#, r#"{"a": {}}"#), ["a.b does not exist, expected `1`"]);
        assert_eq!(found(r#"{"a": [1]}"#, r#"{"a": [1, 2]}"#), ["a has 2 items, expected 1: `[1,2]`"]);
        assert_eq!(found(r#"{"a": null}"#, r#"{"a": 2}"#), ["a is `2`, expected none"]);
        assert!(found(r#"{"a": null}"#, "{}").is_empty());
        assert_eq!(found(r#"{"a": [{"b": 1}]}"#, r#"{"a": [{"b": 2}]}"#), ["a[0].b is `2`, expected `1`"]);
    }
}
