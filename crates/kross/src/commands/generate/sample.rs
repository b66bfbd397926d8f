//! A value for a schema: its default, its first choice, or the smallest value that it allows.

use serde_json::{Map, Value as Json, json};

use super::describe::fields;
use super::pattern;

/// A value that satisfies the schema. `name` is that of the field, and a good value for strings that are names.
pub(super) fn value(schema: &Json, name: &str, number: usize) -> Json {
    if let Some(default) = schema.get("default").filter(|_| number == 0) {
        return default.clone();
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices.get(number % choices.len().max(1)).cloned().unwrap_or_default();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(number + 1);
    }
    match schema["type"].as_str() {
        Some("string") => json!(string(schema, name, number)),
        Some("integer") => integer(schema, number),
        Some("number") => float(schema, number),
        Some("boolean") => json!(false),
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or(0).min(100);
            (0..count).map(|at| value(&schema["items"], name, usize::try_from(at).unwrap_or(0))).collect()
        }
        _ => object(schema, number),
    }
}

fn object(schema: &Json, number: usize) -> Json {
    let mut entries = Map::new();
    for (name, field, required) in fields(schema) {
        if required {
            entries.insert(name.to_owned(), value(field, name, number));
        }
    }
    let least = usize::try_from(schema["minProperties"].as_u64().unwrap_or(0)).unwrap_or(0).min(100);
    if let Json::Object(_) = &schema["additionalProperties"] {
        for at in entries.len()..least {
            entries.insert(format!("key{}", at + 1), value(&schema["additionalProperties"], "value", at));
        }
    }
    Json::Object(entries)
}

fn string(schema: &Json, name: &str, number: usize) -> String {
    let length = |keyword: &str| schema[keyword].as_u64().and_then(|length| usize::try_from(length).ok());
    let (least, most) = (length("minLength").unwrap_or(0), length("maxLength").unwrap_or(usize::MAX));
    if let Some(pattern) = schema["pattern"].as_str()
        && let Some(found) = pattern::example(pattern, least, most, number)
    {
        return found;
    }
    let base = match schema["format"].as_str() {
        Some("date-time") => "2030-01-01T00:00:00Z".to_owned(),
        Some("date") => "2030-01-01".to_owned(),
        Some("duration") => "1h".to_owned(),
        Some("byte") => "ZXhhbXBsZQ==".to_owned(),
        Some("uuid") => format!("00000000-0000-4000-8000-{number:012}"),
        Some("email") => "user@example.com".to_owned(),
        Some("hostname") => "example.com".to_owned(),
        Some("uri") => "https://example.com/".to_owned(),
        Some("ipv4") => format!("192.0.2.{}", number + 1),
        Some("ipv6") => format!("2001:db8::{}", number + 1),
        Some("cidr") => "192.0.2.0/24".to_owned(),
        _ if name.to_lowercase().ends_with("image") => "nginx".to_owned(),
        _ if number == 0 => "example".to_owned(),
        _ => format!("example{}", number + 1),
    };
    let padded: String =
        base.chars().chain(std::iter::repeat_n('x', least.saturating_sub(base.chars().count()))).collect();
    padded.chars().take(most).collect()
}

fn integer(schema: &Json, number: usize) -> Json {
    let bound = |keyword: &str| schema[keyword].as_f64();
    let step = bound("multipleOf").filter(|step| *step >= 1.0).unwrap_or(1.0);
    let above =
        bound("minimum").map(|least| if schema["exclusiveMinimum"] == true { least + 1.0 } else { least });
    let below =
        bound("maximum").map(|most| if schema["exclusiveMaximum"] == true { most - 1.0 } else { most });
    let start = above.unwrap_or_else(|| below.map_or(1.0, |most| most.min(1.0)));
    let offset = f64::from(u32::try_from(number).unwrap_or(0));
    let found = ((start / step).ceil() + offset) * step;
    #[expect(clippy::cast_possible_truncation, reason = "bounds of an integer field are integers")]
    let found = found as i64;
    json!(found)
}

fn float(schema: &Json, number: usize) -> Json {
    let bound = |keyword: &str| schema[keyword].as_f64();
    let offset = f64::from(u32::try_from(number).unwrap_or(0));
    let exclusive = |keyword: &str| schema[keyword] == true;
    let found = match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) if exclusive("exclusiveMinimum") => f64::midpoint(least, most),
        (Some(least), _) if exclusive("exclusiveMinimum") => least + 1.0 + offset,
        (Some(least), _) => least + offset,
        (None, Some(most)) if exclusive("exclusiveMaximum") => (most - 1.0).min(1.0),
        (None, Some(most)) => most.min(1.0),
        (None, None) => 1.0 + offset,
    };
    json!(found)
}
