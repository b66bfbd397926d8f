//! Turns label selectors into the text that requests carry, and a definition's reference to existing objects into the
//! selection that its instances are watched by.

use kross_api::{InstanceRef, LabelSelector, ResourceGraphDefinitionSpec};
use kross_cluster::Selection;
use kross_value::Text;

/// A selector as requests write it.
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
/// What is wrong with the reference. Nothing is selected then: to take too many would be worse than to take none.
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
    fn selectors_are_written_as_queries() {
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
    fn existing_objects_are_instances_only_where_the_definition_says_so() {
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
