//! Label selectors of Kubernetes, whose strings may contain expressions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::List;

/// Selects objects by their labels. All requirements must be met; an empty selector matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Labels and their required values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Requirements other than equality.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: List<SelectorRequirement>,
}

/// A requirement for one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectorRequirement {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: List<String>,
}

impl LabelSelector {
    /// The first error for which Kubernetes would reject it.
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        let labels = self.match_labels.iter().flatten();
        labels
            .map(|(key, value)| key_mistake(key).or_else(|| value_mistake(value)))
            .chain(self.match_expressions.iter().map(SelectorRequirement::mistake))
            .find_map(|mistake| mistake)
    }
}

impl SelectorRequirement {
    /// The first error for which Kubernetes would reject it.
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        let Self { key, operator, values } = self;
        let of_operator = match (operator.as_str(), values.iter().next().is_some()) {
            ("In" | "NotIn", false) => Some(format!("`{operator}` requires `values`")),
            ("Exists" | "DoesNotExist", true) => Some(format!("`{operator}` does not allow `values`")),
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => None,
            _ => Some(format!("expected `In`, `NotIn`, `Exists` or `DoesNotExist`, found `{operator}`")),
        };
        of_operator
            .or_else(|| key_mistake(key))
            .or_else(|| values.iter().find_map(|value| value_mistake(value)))
    }
}

fn key_mistake(key: &str) -> Option<String> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_part = |part: &str| {
        let outer =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        outer(part.as_bytes().first()) && outer(part.as_bytes().last()) && part.bytes().all(inner)
    };
    let is_prefix = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(is_part);
    let sound = !name.is_empty() && is_word(name) && prefix.is_none_or(is_prefix);
    (!sound).then(|| format!("`{key}` is not a valid label key"))
}

fn value_mistake(value: &str) -> Option<String> {
    (!is_word(value)).then(|| format!("`{value}` is not a valid label value"))
}

/// At most 63 letters, digits, dashes, underscores and dots, with a letter or digit at both ends.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let outer = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && outer(bytes.first())
        && outer(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::LabelSelector;

    fn mistake(selector: Value) -> Option<String> {
        serde_json::from_value::<LabelSelector>(selector).unwrap().mistake()
    }

    #[test]
    fn invalid_selectors_are_rejected_as_in_kubernetes() {
        for good in [
            json!({}),
            json!({"matchLabels": {"app.kubernetes.io/name": "web", "a_b.c": "", "tier": "A-1"}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]},
                {"key": "a", "operator": "Exists"}, {"key": "a", "operator": "DoesNotExist"}]}),
        ] {
            assert_eq!(mistake(good), None);
        }
        let requirement = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        for (bad, expected) in [
            (requirement("Like", json!(["b"])), "found `Like`"),
            (requirement("In", json!([])), "`In` requires `values`"),
            (requirement("Exists", json!(["b"])), "`Exists` does not allow `values`"),
            (requirement("NotIn", json!(["not one"])), "`not one` is not a valid label value"),
            (json!({"matchLabels": {"a": "-"}}), "`-` is not a valid label value"),
            (json!({"matchLabels": {"": "a"}}), "`` is not a valid label key"),
            (json!({"matchLabels": {"Not.Dns/a": "a"}}), "`Not.Dns/a` is not a valid label key"),
            (json!({"matchLabels": {"a": "x".repeat(64)}}), "is not a valid label value"),
        ] {
            let found = mistake(bad).unwrap_or_default();
            assert!(found.contains(expected), "{found}");
        }
    }
}
