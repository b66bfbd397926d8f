//! Reserved labels, annotations and finalizers of rendered objects. The compiler refuses those that a template spells out; this
//! leaves out those that an expression has copied, as `labels: ${schema.metadata.labels}` does, and refuses all others.

use std::collections::HashSet;

use kross_api::{APPLYSET_KEY_PREFIX, INTERNAL_KEY_PREFIX, KEY_PREFIX};
use kross_graph::{Node, Scope};
use kross_value::{Object, Text, Value};

use super::Walk;
use super::object::unusable;
use crate::observed::ObservedObject;
use crate::progress::Progress;

/// The fields of metadata with reserved keys, and what one of their entries is called.
const MAPS: [(&str, &str); 2] = [("labels", "label"), ("annotations", "annotation")];
const FINALIZERS: &str = "finalizers";

/// Labels, annotations and finalizers with reserved keys: field, key and value.
pub(super) type ReservedEntries = HashSet<(&'static str, Text, Text)>;

impl Walk<'_> {
    /// Removes copied reserved keys from rendered metadata. A key was copied if the instance, or an object that the graph reads or
    /// owns, has it with the same value.
    ///
    /// # Errors
    /// There is a reserved key that was not copied. Such keys decide what an object may be used for, or whom it belongs to.
    pub(super) fn remove_copied_keys(
        &self,
        node: &Node,
        scope: &Scope<'_>,
        object: &str,
        metadata: &mut Object,
    ) -> Result<(), Progress> {
        for (field, what) in MAPS {
            let Some(entries) = metadata.get(field).and_then(Value::as_object) else { continue };
            if !entries.keys().any(|key| reserved_prefix(key).is_some()) {
                continue;
            }
            let mut kept = Object::new();
            for (key, value) in entries.iter() {
                match reserved_prefix(key) {
                    None => {
                        kept.insert(key.clone(), value.clone());
                    }
                    Some(_) if self.is_copied(field, key, value.as_str().unwrap_or_default()) => {}
                    Some(prefix) => {
                        let is_secret = self.reads_secret(node, scope);
                        return Err(refused((object, what, field), key, prefix, is_secret));
                    }
                }
            }
            metadata.insert(field, Value::Object(kept));
        }
        self.remove_copied_finalizers(node, scope, object, metadata)
    }

    fn remove_copied_finalizers(
        &self,
        node: &Node,
        scope: &Scope<'_>,
        object: &str,
        metadata: &mut Object,
    ) -> Result<(), Progress> {
        let finalizers = metadata.get(FINALIZERS).and_then(Value::as_list).unwrap_or_default();
        let is_reserved = |item: &Value| item.as_str().is_some_and(|name| reserved_prefix(name).is_some());
        if !finalizers.iter().any(is_reserved) {
            return Ok(());
        }
        let mut kept = Vec::new();
        for item in finalizers {
            let name = item.as_str().unwrap_or_default();
            match reserved_prefix(name) {
                None => kept.push(item.clone()),
                Some(_) if self.is_copied(FINALIZERS, name, "") => {}
                Some(prefix) => {
                    let is_secret = self.reads_secret(node, scope);
                    return Err(refused((object, "finalizer", FINALIZERS), name, prefix, is_secret));
                }
            }
        }
        metadata.insert(FINALIZERS, Value::list(kept));
        Ok(())
    }

    /// Whether the values of a node may come from a Secret.
    fn reads_secret(&self, node: &Node, scope: &Scope<'_>) -> bool {
        let mut dependencies = node.dependencies.iter().filter_map(|other| self.input.graph.node(other.node));
        dependencies.any(|other| scope.hides_keys(&other.id))
    }

    fn is_copied(&self, field: &'static str, key: &str, value: &str) -> bool {
        let own = self.input.instance.metadata().and_then(|metadata| metadata.get(field));
        let is_own = match own {
            Some(Value::Object(entries)) => entries.get(key).and_then(Value::as_str) == Some(value),
            Some(Value::List(names)) => names.iter().any(|name| name.as_str() == Some(key)),
            _ => false,
        };
        is_own || self.observed_entries().contains(&(field, key.into(), value.into()))
    }

    /// The reserved entries of all observed objects, for templates that copy the labels of another object.
    fn observed_entries(&self) -> &ReservedEntries {
        self.reserved_entries.get_or_init(|| {
            let observed = self.input.observed;
            let externals = observed.externals.values().flatten();
            let objects =
                observed.objects.values().chain(externals).chain(observed.collections.values().flatten());
            let mut entries = HashSet::new();
            for ObservedObject { value, .. } in objects {
                add_entries(value.get("metadata"), &mut entries);
            }
            entries
        })
    }
}

fn reserved_prefix(key: &str) -> Option<&'static str> {
    [KEY_PREFIX, INTERNAL_KEY_PREFIX, APPLYSET_KEY_PREFIX].into_iter().find(|prefix| key.starts_with(prefix))
}

fn add_entries(metadata: Option<&Value>, entries: &mut ReservedEntries) {
    let Some(metadata) = metadata else { return };
    for (field, _) in MAPS {
        let map = metadata.get(field).and_then(Value::as_object);
        for (key, value) in map.into_iter().flat_map(Object::iter) {
            if let (Some(_), Some(value)) = (reserved_prefix(key), value.as_str()) {
                entries.insert((field, key.text().clone(), value.into()));
            }
        }
    }
    let finalizers = metadata.get(FINALIZERS).and_then(Value::as_list).unwrap_or_default();
    let names = finalizers.iter().filter_map(Value::as_str).filter(|name| reserved_prefix(name).is_some());
    entries.extend(names.map(|name| (FINALIZERS, name.into(), "".into())));
}

/// The failure of an object with a reserved key. A key that may have been read from a Secret is not shown.
fn refused((object, what, field): (&str, &str, &str), key: &str, prefix: &str, is_secret: bool) -> Progress {
    let named =
        if is_secret { format!("a key with the prefix `{prefix}`") } else { format!("the {what} `{key}`") };
    unusable(&format!(
        "{object}: `metadata.{field}` has {named}, which is reserved: the controller alone sets it; remove it from what \
         the expression returns, or use another prefix"
    ))
}
