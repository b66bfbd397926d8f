//! Checks a list: its items, their number, and that they are unique if the list type requires it.

use std::collections::HashMap;

use kross_diagnostics::{Code, PathSegment, Place};
use kross_value::Value;

use crate::view::SchemaView;

use super::Checking;

impl Checking<'_> {
    pub(super) fn list(&mut self, items: &[Value], target: &SchemaView) {
        let details = target.schema().details();
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(least) = details.min_items.filter(|least| count < *least) {
            self.report(Code::OutOfRange, format!("must have at least {least} items, found {count}"));
        }
        if let Some(most) = details.max_items.filter(|most| count > *most) {
            self.report(Code::OutOfRange, format!("must have at most {most} items, found {count}"));
        }
        let inner = target.items();
        for (index, item) in items.iter().enumerate() {
            self.inside(PathSegment::Index(index), |this| this.value(item, inner.as_ref()));
        }
        match details.list_type.as_deref() {
            Some("set") => self.unique(items, "value", |item| Some(item.clone())),
            Some("map") => {
                let keys = &details.list_map_keys;
                let default = |key: &str| {
                    let item = inner.as_ref()?.schema();
                    item.properties.get(key)?.default.clone()
                };
                self.unique(items, &format!("`{}`", keys.join("`, `")), |item| {
                    let item = item.as_object()?;
                    let values = keys.iter().map(|key| item.get(key).cloned().or_else(|| default(key)));
                    Some(Value::list(values.map(Option::unwrap_or_default)))
                });
            }
            _ => {}
        }
    }

    /// Reports items with the identity of an earlier item. Identities with expressions are only known at run time.
    fn unique(&mut self, items: &[Value], what: &str, identity: impl Fn(&Value) -> Option<Value>) {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            let Some(identity) = identity(item) else { continue };
            if has_expressions(&identity) {
                continue;
            }
            let Some(first) = seen.insert(identity.to_string(), index) else { continue };
            seen.insert(identity.to_string(), first);
            let place = Place::value(&self.path.index(first));
            self.path.push(PathSegment::Index(index));
            let message = format!("the item has the same {what} as the item at index {first}");
            let problem = self.problem(Code::DuplicateListItem, message);
            self.problems.push(problem.also(place, "first item"));
            self.path.pop();
        }
    }
}

fn has_expressions(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("${"),
        Value::List(items) => items.iter().any(has_expressions),
        Value::Object(object) => object.iter().any(|(_, value)| has_expressions(value)),
        _ => false,
    }
}
