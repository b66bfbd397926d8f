//! Converts OpenAPI schemas to CEL types. The type of an object is created when an expression first uses it, and is then
//! reused.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};

use kross_cel::types::{ObjectType, Type, TypeId, TypeProvider};
use kross_value::Text;

use crate::library::{Library, OBJECT_META};
use crate::openapi::{Additional, Kind, Schema};

/// How deep lists and maps may be nested, and how far a schema is searched. The schemas of a cluster are the server's choice: a
/// list may be one of itself.
const MAX_NESTED: u32 = 32;

/// The object types of a library that have been created.
#[derive(Default)]
pub(crate) struct TypeTable {
    entries: Vec<Arc<TypeEntry>>,
    /// Index by the address of the schema, which the entry keeps alive.
    by_address: HashMap<usize, TypeId>,
}

struct TypeEntry {
    schema: Arc<Schema>,
    name: Text,
    needs_conversion: OnceLock<bool>,
    /// The type of each property, in order, created on demand.
    fields: Vec<OnceLock<FieldType>>,
}

/// A type that does not keep its library alive, to avoid reference cycles.
enum FieldType {
    /// A type that contains no object of a library.
    Plain(Type),
    Object(Weak<Library>, TypeId),
    List(Box<Self>),
    Map(Box<Self>),
    Nullable(Box<Self>),
}

impl FieldType {
    /// The type, unless its library was dropped.
    fn get(&self) -> Option<Type> {
        Some(match self {
            Self::Plain(plain) => plain.clone(),
            Self::Object(library, id) => {
                Type::Object(ObjectType::new(library.upgrade()? as Arc<dyn TypeProvider>, *id))
            }
            Self::List(item) => Type::list(item.get()?),
            Self::Map(value) => Type::map(Type::String, value.get()?),
            Self::Nullable(inner) => Type::nullable(inner.get()?),
        })
    }
}

/// The name of a new type: the name of its definition, or a path from the enclosing type.
#[derive(Clone, Copy)]
pub(crate) enum Named<'a> {
    /// The last part of the name of a definition.
    Definition(&'a str),
    /// This name.
    Exact(&'a str),
    /// A field of an object.
    Field(&'a str, &'a str),
    /// The items of a list, or the values of a map.
    Items(&'a Named<'a>),
}

impl Named<'_> {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Definition(name) => short_name(name).to_owned(),
            Self::Exact(name) => (*name).to_owned(),
            Self::Field(parent, field) => format!("{parent}.{field}"),
            Self::Items(list) => format!("{}[]", list.text()),
        }
    }
}

/// The last part of a definition's name: `PodSpec` for `io.k8s.api.core.v1.PodSpec`.
pub(crate) fn short_name(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

impl Library {
    /// The CEL type of a schema.
    pub(crate) fn type_of(self: &Arc<Self>, schema: &Arc<Schema>, named: Named<'_>) -> Type {
        self.field_type(schema, named, 0).get().unwrap_or(Type::Dyn)
    }

    fn field_type(self: &Arc<Self>, schema: &Arc<Schema>, named: Named<'_>, depth: u32) -> FieldType {
        if depth > MAX_NESTED {
            return FieldType::Plain(Type::Dyn);
        }
        let reference = last_reference(schema);
        let named = reference.as_deref().map_or(named, Named::Definition);
        let (library, schema) = self.resolve(schema);
        let plain = library.plain_type(&schema, named, depth);
        if schema.nullable { FieldType::Nullable(Box::new(plain)) } else { plain }
    }

    fn plain_type(self: &Arc<Self>, schema: &Arc<Schema>, named: Named<'_>, depth: u32) -> FieldType {
        if schema.preserve_unknown || schema.int_or_string {
            return FieldType::Plain(Type::Dyn);
        }
        FieldType::Plain(match schema.kind {
            Some(Kind::String) => string_type(schema.format.as_deref()),
            Some(Kind::Integer) => Type::Int,
            Some(Kind::Number) => Type::Double,
            Some(Kind::Boolean) => Type::Bool,
            Some(Kind::Array) => match &schema.items {
                Some(items) => {
                    return FieldType::List(Box::new(self.field_type(
                        items,
                        Named::Items(&named),
                        depth + 1,
                    )));
                }
                None => Type::list(Type::Dyn),
            },
            Some(Kind::Object) => return self.object_type(schema, named, depth),
            None if !schema.properties.is_empty() => return self.object_type(schema, named, depth),
            None => Type::Dyn,
        })
    }

    fn object_type(self: &Arc<Self>, schema: &Arc<Schema>, named: Named<'_>, depth: u32) -> FieldType {
        match &schema.additional {
            Additional::Schema(values) if schema.properties.is_empty() => {
                FieldType::Map(Box::new(self.field_type(values, Named::Items(&named), depth + 1)))
            }
            Additional::Allowed(true) if schema.properties.is_empty() => {
                FieldType::Plain(Type::map(Type::String, Type::Dyn))
            }
            // CEL has no type for an object with both named and additional properties.
            Additional::Schema(_) | Additional::Allowed(true) => FieldType::Plain(Type::Dyn),
            Additional::Unspecified | Additional::Allowed(false) => {
                FieldType::Object(Arc::downgrade(self), self.type_id(schema, named))
            }
        }
    }

    fn type_id(&self, schema: &Arc<Schema>, named: Named<'_>) -> TypeId {
        let address = Arc::as_ptr(schema) as usize;
        let known = self.types.read().by_address.get(&address).copied();
        if let Some(id) = known {
            return id;
        }
        let mut table = self.types.write();
        if let Some(id) = table.by_address.get(&address) {
            return *id;
        }
        let id = TypeId(u32::try_from(table.entries.len()).unwrap_or(u32::MAX));
        let entry = TypeEntry {
            schema: Arc::clone(schema),
            name: named.text().into(),
            needs_conversion: OnceLock::new(),
            fields: schema.properties.iter().map(|_| OnceLock::new()).collect(),
        };
        table.entries.push(Arc::new(entry));
        table.by_address.insert(address, id);
        id
    }

    fn entry(&self, id: TypeId) -> Option<Arc<TypeEntry>> {
        let table = self.types.read();
        table.entries.get(id.0 as usize).map(Arc::clone)
    }

    /// Whether raw JSON of a schema must be converted for expressions, at any depth. It is if the schema is too deep to tell.
    fn converts(self: &Arc<Self>, schema: &Arc<Schema>, seen: &mut HashSet<usize>, depth: u32) -> bool {
        if depth > MAX_NESTED {
            return true;
        }
        let (library, schema) = self.resolve(schema);
        if schema.preserve_unknown || schema.int_or_string {
            return false;
        }
        match schema.kind {
            Some(Kind::String) => !matches!(string_type(schema.format.as_deref()), Type::String),
            Some(Kind::Number) => true,
            Some(Kind::Integer | Kind::Boolean) => false,
            Some(Kind::Array) => schema.items.iter().any(|items| library.converts(items, seen, depth + 1)),
            Some(Kind::Object) | None => {
                // Stop at recursive schemas.
                if !seen.insert(Arc::as_ptr(&schema) as usize) {
                    return false;
                }
                if let Additional::Schema(values) = &schema.additional {
                    return schema.properties.is_empty() && library.converts(values, seen, depth + 1);
                }
                schema.embedded
                    || schema.properties.iter().any(|(_, field)| library.converts(field, seen, depth + 1))
            }
        }
    }
}

/// The definition that a schema only refers to.
fn last_reference(schema: &Schema) -> Option<Text> {
    match (&schema.reference, schema.details().all_of.as_slice()) {
        (Some(name), _) => Some(name.clone()),
        (None, [only]) => only.reference.clone(),
        (None, _) => None,
    }
}

fn string_type(format: Option<&str>) -> Type {
    match format {
        Some("byte") => Type::Bytes,
        Some("date-time" | "date") => Type::Timestamp,
        Some("duration") => Type::Duration,
        _ => Type::String,
    }
}

impl TypeProvider for Library {
    fn type_name(&self, id: TypeId) -> String {
        self.entry(id).map_or_else(|| "object".to_owned(), |entry| entry.name.to_string())
    }

    fn field(&self, id: TypeId, field: &str) -> Option<Type> {
        let entry = self.entry(id)?;
        if let Some((at, schema)) = entry.schema.properties.find(field) {
            let found = entry.fields.get(at)?.get_or_init(|| {
                let me = self.me();
                me.map_or(FieldType::Plain(Type::Dyn), |me| {
                    me.field_type(schema, Named::Field(&entry.name, field), 0)
                })
            });
            return found.get();
        }
        let me = self.me()?;
        match field {
            "apiVersion" | "kind" if entry.schema.embedded => Some(Type::String),
            "metadata" if entry.schema.embedded => {
                let (library, schema) = me.definition(OBJECT_META)?;
                Some(library.type_of(&schema, Named::Definition(OBJECT_META)))
            }
            _ => None,
        }
    }

    fn field_names(&self, id: TypeId) -> Vec<Text> {
        let Some(entry) = self.entry(id) else { return Vec::new() };
        let mut names: Vec<Text> = entry.schema.properties.names().map(|name| name.text().clone()).collect();
        if entry.schema.embedded {
            let implied = ["apiVersion", "kind", "metadata"].map(Text::from);
            let missing: Vec<Text> = implied.into_iter().filter(|name| !names.contains(name)).collect();
            names.extend(missing);
        }
        names
    }

    fn is_required(&self, id: TypeId, field: &str) -> bool {
        self.entry(id).is_some_and(|entry| entry.schema.requires(field))
    }

    fn needs_conversion(&self, id: TypeId) -> bool {
        let (Some(entry), Some(me)) = (self.entry(id), self.me()) else { return true };
        *entry.needs_conversion.get_or_init(|| me.converts(&entry.schema, &mut HashSet::new(), 0))
    }
}
