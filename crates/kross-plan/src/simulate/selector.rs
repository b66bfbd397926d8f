//! Matches label selectors, as Kubernetes does.

use kross_api::LabelSelector;
use kross_value::Value;

use crate::observed::{CollectionQuery, ObservedObject};

/// Whether a selector matches an object with these labels.
#[must_use]
pub fn selects(selector: &LabelSelector, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value));
    let required = selector.match_expressions.iter().all(|requirement| {
        let found = label(&requirement.key);
        let among = || found.is_some_and(|found| requirement.values.iter().any(|value| value == found));
        match requirement.operator.as_str() {
            "In" => among(),
            "NotIn" => !among(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => false,
        }
    });
    equal && required
}

/// The documents that a query matches.
pub(super) fn find<'d, D>(query: &CollectionQuery, documents: &D) -> Vec<ObservedObject>
where
    D: Iterator<Item = &'d Value> + Clone,
{
    let api_version = if query.group.is_empty() {
        query.version.to_string()
    } else {
        format!("{}/{}", query.group, query.version)
    };
    let of_kind = |document: &&Value| {
        text(document, &["apiVersion"]) == Some(&api_version)
            && text(document, &["kind"]) == Some(&query.kind)
    };
    let (selector, namespaces) = (query.selector(), query.namespace_selector());
    let in_namespace = |document: &&Value| {
        let namespace = text(document, &["metadata", "namespace"]);
        let named = query.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted));
        let selected = namespaces.as_ref().is_none_or(|selector| {
            let mut all = documents.clone();
            let found = all.find(|other| {
                text(other, &["kind"]) == Some("Namespace") && text(other, &["metadata", "name"]) == namespace
            });
            found.is_some_and(|found| selects(selector, found.at(&["metadata", "labels"])))
        });
        named && selected
    };
    let selected = |document: &&Value| selects(&selector, document.at(&["metadata", "labels"]));
    let found = documents.clone().filter(of_kind).filter(in_namespace).filter(selected);
    found.map(|document| ObservedObject::new(document.clone())).collect()
}

fn text<'d>(document: &'d Value, path: &[&str]) -> Option<&'d str> {
    document.at(path).and_then(Value::as_str)
}
