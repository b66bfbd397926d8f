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
    /// Whether it matches labels, which `value` looks up by their keys.
    #[must_use]
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        let mut labels = self.match_labels.iter().flatten();
        labels.all(|(key, wanted)| value(key) == Some(wanted.as_str()))
            && self.match_expressions.iter().all(|requirement| requirement.matches(value(&requirement.key)))
    }

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
    /// Whether it holds for a label of this value, or without the label. An unknown operator never holds.
    fn matches(&self, value: Option<&str>) -> bool {
        let is_listed = |value| self.values.iter().any(|listed| listed == value);
        match self.operator.as_str() {
            "In" => value.is_some_and(is_listed),
            "NotIn" => !value.is_some_and(is_listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }

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
    fn selectors_match_labels_as_in_kubernetes() {
        let matches = |selector: Value, labels: &[(&str, &str)]| {
            let selector: LabelSelector = serde_json::from_value(selector).unwrap();
            selector.matches(|key| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value))
        };
        let requirement = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "env", "operator": operator, "values": values}]});
        let (prod, none) = ([("env", "prod"), ("zone", "a")], []);
        assert!(matches(json!({}), &none));
        assert!(matches(json!({"matchLabels": {"env": "prod", "zone": "a"}}), &prod));
        assert!(!matches(json!({"matchLabels": {"env": "prod", "zone": "b"}}), &prod));
        for (operator, values, on_prod, on_none) in [
            ("In", json!(["test", "prod"]), true, false),
            ("In", json!(["test"]), false, false),
            ("NotIn", json!(["prod"]), false, true),
            ("NotIn", json!(["test"]), true, true),
            ("Exists", json!([]), true, false),
            ("DoesNotExist", json!([]), false, true),
            ("Like", json!(["prod"]), false, false),
        ] {
            let selector = requirement(operator, values);
            assert_eq!(matches(selector.clone(), &prod), on_prod, "{selector}");
            assert_eq!(matches(selector.clone(), &none), on_none, "{selector}");
        }
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
