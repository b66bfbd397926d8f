//! The types of the tracked status: `resources.<id>` in any expression, and `<id>.status` inside `lifecycle`, where it
//! is merged with the object's own status.

use std::sync::{Arc, LazyLock};

use kross_cel::types::{ObjectType, Type, TypeId, TypeProvider};
use kross_value::Text;

/// Every provider in this file has a single type.
const ONLY: TypeId = TypeId(0);

/// The fields of a tracked status, with their types.
pub const FIELDS: &[(&str, Type)] = &[
    ("state", Type::String),
    ("ready", Type::Bool),
    ("reason", Type::String),
    ("error", Type::String),
    ("operation", Type::String),
    ("cluster", Type::String),
    ("clusterConnected", Type::Bool),
    ("observedGeneration", Type::Int),
    ("lastUpdateTime", Type::Timestamp),
    ("failingFor", Type::Duration),
];

/// The type of a tracked status. All of them share one provider, so that they have the same type.
static TRACKED: LazyLock<Type> =
    LazyLock::new(|| Type::Object(ObjectType::new(Arc::new(TrackedStatus), ONLY)));

#[derive(Debug)]
struct TrackedStatus;

impl TypeProvider for TrackedStatus {
    fn type_name(&self, _: TypeId) -> String {
        "tracked status".to_owned()
    }

    fn field(&self, _: TypeId, field: &str) -> Option<Type> {
        tracked_field(field)
    }

    fn field_names(&self, _: TypeId) -> Vec<Text> {
        FIELDS.iter().map(|(name, _)| Text::from(*name)).collect()
    }
}

/// `resources`: ids, and whether the node is a list.
#[derive(Debug)]
struct Resources {
    nodes: Vec<(Text, bool)>,
}

impl TypeProvider for Resources {
    fn type_name(&self, _: TypeId) -> String {
        "resources".to_owned()
    }

    fn field(&self, _: TypeId, field: &str) -> Option<Type> {
        let (_, is_list) = self.nodes.iter().find(|(name, _)| name == field)?;
        Some(if *is_list { Type::list(TRACKED.clone()) } else { TRACKED.clone() })
    }

    fn field_names(&self, _: TypeId) -> Vec<Text> {
        self.nodes.iter().map(|(name, _)| name.clone()).collect()
    }
}

fn tracked_field(field: &str) -> Option<Type> {
    FIELDS.iter().find(|(name, _)| *name == field).map(|(_, field_type)| field_type.clone())
}

/// The type of the variable `resources`, from the ids and whether each is a list.
#[must_use]
pub(crate) fn resources_type(nodes: Vec<(Text, bool)>) -> Type {
    Type::Object(ObjectType::new(Arc::new(Resources { nodes }), ONLY))
}

/// An object type whose `status` also has the tracked fields.
#[derive(Debug)]
struct LifecycleView {
    base: Type,
    status: Type,
}

/// The status of such an object.
#[derive(Debug)]
struct LifecycleStatus {
    base: Type,
    own: Option<Type>,
}

fn field_of(object: &Type, field: &str) -> Option<Type> {
    match object {
        Type::Object(object) => object.field(field),
        Type::Nullable(inner) => field_of(inner, field),
        Type::Map(entry) => Some(entry.1.clone()),
        Type::Dyn => Some(Type::Dyn),
        _ => None,
    }
}

fn names_of(object: &Type) -> Vec<Text> {
    match object {
        Type::Object(object) => object.field_names(),
        Type::Nullable(inner) => names_of(inner),
        _ => Vec::new(),
    }
}

impl TypeProvider for LifecycleView {
    fn type_name(&self, _: TypeId) -> String {
        self.base.to_string()
    }

    fn field(&self, _: TypeId, field: &str) -> Option<Type> {
        if field == "status" { Some(self.status.clone()) } else { field_of(&self.base, field) }
    }

    fn field_names(&self, _: TypeId) -> Vec<Text> {
        let mut names = names_of(&self.base);
        if !names.iter().any(|name| name == "status") {
            names.push("status".into());
        }
        names
    }
}

impl TypeProvider for LifecycleStatus {
    fn type_name(&self, _: TypeId) -> String {
        format!("{}.status", self.base)
    }

    fn field(&self, _: TypeId, field: &str) -> Option<Type> {
        tracked_field(field).or_else(|| field_of(self.own.as_ref()?, field))
    }

    fn field_names(&self, _: TypeId) -> Vec<Text> {
        let tracked = FIELDS.iter().map(|(name, _)| Text::from(*name));
        tracked.chain(self.own.iter().flat_map(names_of)).collect()
    }
}

/// The type of a node's variable inside `lifecycle`. A collection is a list of such views.
#[must_use]
pub(crate) fn lifecycle_view(node: &Type) -> Type {
    match node {
        Type::List(item) => Type::list(lifecycle_view(item)),
        Type::Dyn | Type::Error => Type::Dyn,
        base => {
            let status = LifecycleStatus { base: base.clone(), own: field_of(base, "status") };
            let status = Type::Object(ObjectType::new(Arc::new(status), ONLY));
            Type::Object(ObjectType::new(Arc::new(LifecycleView { base: base.clone(), status }), ONLY))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(object: &Type, path: &[&str]) -> Option<Type> {
        path.iter().try_fold(object.clone(), |object, field| field_of(&object, field))
    }

    #[test]
    fn resources_has_the_tracked_status_of_every_id() {
        let resources = resources_type(vec![("database".into(), false), ("shards".into(), true)]);
        assert_eq!(field(&resources, &["database", "failingFor"]), Some(Type::Duration));
        assert!(matches!(field(&resources, &["shards"]), Some(Type::List(_))));
        assert_eq!(field(&resources, &["databse"]), None);
        assert_eq!(field(&resources, &["database", "endpoint"]), None);
    }

    #[test]
    fn inside_lifecycle_tracked_fields_hide_the_objects_own() {
        let object = resources_type(vec![("spec".into(), false), ("status".into(), false)]);
        let view = lifecycle_view(&object);
        assert_eq!(field(&view, &["status", "error"]), Some(Type::String));
        assert_eq!(field(&view, &["status", "reason"]), Some(Type::String));
        assert!(field(&view, &["spec", "state"]).is_some());
        assert_eq!(field(&view, &["status", "endpoint"]), None);
    }

    #[test]
    fn a_kind_without_status_has_only_the_tracked_fields() {
        let view = lifecycle_view(&resources_type(vec![("data".into(), false)]));
        assert_eq!(field(&view, &["status", "clusterConnected"]), Some(Type::Bool));
        assert_eq!(field(&view, &["status", "phase"]), None);
    }
}
