//! Lays the fields that were applied over an object in which others have changed them since.

use kross_value::Value;

use super::FieldSet;

impl FieldSet {
    /// The value `live` with the fields of this set as `applied` has them.
    pub(in crate::object) fn overlay(&self, live: Option<&Value>, applied: &Value) -> Value {
        if self.children.is_empty() {
            return applied.clone();
        }
        match (live, applied) {
            (Some(Value::Object(live)), Value::Object(_)) => {
                let mut object = live.clone();
                for (element, child) in &self.children {
                    let (super::PathElement::Field(name), Some(value)) = (element, element.resolve(applied))
                    else {
                        continue;
                    };
                    object.insert(name.clone(), child.overlay(live.get(name.as_str()), value));
                }
                Value::Object(object)
            }
            (Some(Value::List(live)), Value::List(_)) => {
                let mut items: Vec<Value> = live.to_vec();
                for (element, child) in &self.children {
                    let Some(value) = element.resolve(applied) else { continue };
                    let at =
                        items.iter().position(|item| element.resolve(&Value::list([item.clone()])).is_some());
                    match at.and_then(|at| items.get_mut(at)) {
                        Some(item) => *item = child.overlay(Some(item), value),
                        None => items.push(value.clone()),
                    }
                }
                Value::list(items)
            }
            _ => applied.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_applied_replaces_what_others_changed_and_removed() {
        let set = r#"{"f:metadata":{"f:labels":{"f:ours":{}}},"f:spec":{"f:replicas":{},"f:ports":{
            "k:{\"port\":80}":{".":{},"f:port":{},"f:name":{}},"k:{\"port\":90}":{".":{},"f:port":{}}}}}"#;
        let set = FieldSet::read(set).unwrap();
        let applied = json!({"metadata": {"labels": {"ours": "1"}, "resourceVersion": "1"},
            "spec": {"replicas": 1, "ports": [{"port": 80, "name": "a", "protocol": "TCP"}, {"port": 90}]},
            "status": {"ready": false}});
        let live = json!({"metadata": {"labels": {"theirs": "2"}, "resourceVersion": "2"},
            "spec": {"replicas": 3, "ports": [{"port": 70}, {"port": 80, "name": "b", "nodePort": 30000}]},
            "status": {"ready": true}});
        let expected = json!({"metadata": {"labels": {"theirs": "2", "ours": "1"}, "resourceVersion": "2"},
            "spec": {"replicas": 1, "ports": [{"port": 70}, {"port": 80, "name": "a", "nodePort": 30000}, {"port": 90}]},
            "status": {"ready": true}});
        let (live, applied) = (Value::from(live), Value::from(applied));
        assert_eq!(set.overlay(Some(&live), &applied), Value::from(expected));
    }
}
