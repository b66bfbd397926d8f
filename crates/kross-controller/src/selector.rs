//! Turns label selectors into query strings, and a definition's reference to existing objects into the selection that its
//! instances are cached by.

use kross_api::{InstanceRef, LabelSelector, ResourceGraphDefinitionSpec};
use kross_cluster::Selection;
use kross_value::Text;

/// A selector as a query string.
pub(crate) fn text(selector: &LabelSelector) -> Text {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let requirements = selector.match_expressions.iter().map(|requirement| {
        let (key, values) = (&requirement.key, requirement.values.join(","));
        match requirement.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        }
    });
    labels.chain(requirements).collect::<Vec<_>>().join(",").into()
}

/// Which objects of its kind are instances of a definition: all of them, unless the kind existed before.
///
/// # Errors
/// The reference is invalid. Nothing is selected then, which is safer than selecting too much.
pub(crate) fn instances(spec: &ResourceGraphDefinitionSpec) -> Result<Selection, String> {
    let Some(InstanceRef { metadata, .. }) = &spec.schema.external_ref else { return Ok(Selection::All) };
    let namespace = metadata.namespace.as_deref().map(Text::from);
    match (&metadata.name, &metadata.selector) {
        (Some(name), None) => Ok(Selection::Name { namespace, name: name.as_str().into() }),
        (None, Some(selector)) => {
            let selector: LabelSelector = serde_json::from_value(serde_json::Value::from(selector))
                .map_err(|error| format!("`schema.externalRef.metadata.selector` cannot be read: {error}"))?;
            Ok(Selection::Labels { namespace, selector: text(&selector) })
        }
        _ => Err("`schema.externalRef.metadata` needs either `name` or `selector`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_become_query_strings() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": {"tier": "web"},
            "matchExpressions": [
                {"key": "env", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "team", "operator": "Exists"},
                {"key": "zone", "operator": "NotIn", "values": ["x"]},
            ],
        }))
        .unwrap();
        assert_eq!(text(&selector), "tier=web,env in (a,b),!old,team,zone notin (x)");
        assert_eq!(text(&LabelSelector::default()), "");
    }

    #[test]
    fn only_selected_objects_of_an_existing_kind_are_instances() {
        let spec = |metadata| {
            let external = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            serde_json::from_value(json!({"schema": {"externalRef": external}})).unwrap()
        };
        let name = Selection::Name { namespace: Some("a".into()), name: "b".into() };
        assert_eq!(instances(&spec(json!({"name": "b", "namespace": "a"}))), Ok(name));
        let labels = Selection::Labels { namespace: None, selector: "x=y".into() };
        assert_eq!(instances(&spec(json!({"selector": {"matchLabels": {"x": "y"}}}))), Ok(labels));
        assert!(instances(&spec(json!({"selector": "${x}"}))).is_err());
        assert!(instances(&spec(json!({}))).is_err());
    }
}
