//! An environment from `schemas.txt`: object types with their fields, and variables.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_cel::Env;
use kross_cel::types::{ObjectType, Type, TypeId, TypeProvider};
use kross_value::Text;

/// Object types by id, with the types of their fields as text.
#[derive(Debug, Default)]
struct Schemas {
    objects: Vec<(String, BTreeMap<String, String>)>,
    /// The types of fields are parsed on demand and refer to this provider.
    itself: std::sync::OnceLock<std::sync::Weak<Schemas>>,
}

impl TypeProvider for Schemas {
    fn type_name(&self, id: TypeId) -> String {
        self.objects[id.0 as usize].0.clone()
    }

    fn field(&self, id: TypeId, field: &str) -> Option<Type> {
        let text = self.objects[id.0 as usize].1.get(field)?;
        Some(read_type(&self.itself.get()?.upgrade()?, text))
    }

    fn field_names(&self, id: TypeId) -> Vec<Text> {
        self.objects[id.0 as usize].1.keys().map(|name| name.as_str().into()).collect()
    }
}

/// The environment of the lists.
pub(crate) fn environment() -> Env {
    let mut schemas = Schemas::default();
    let mut variables = Vec::new();
    for line in include_str!("schemas.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (name, rest) = line.split_once(' ').expect("two words");
        match name {
            "object" => schemas.objects.push((rest.to_owned(), BTreeMap::new())),
            "variable" => variables.push(rest.split_once(' ').expect("a name and a type")),
            field => {
                let object = schemas.objects.last_mut().expect("fields follow an object");
                object.1.insert(field.to_owned(), rest.to_owned());
            }
        }
    }
    let schemas = Arc::new(schemas);
    schemas.itself.set(Arc::downgrade(&schemas)).expect("set once");
    let variables: Vec<(&str, Type)> =
        variables.into_iter().map(|(name, text)| (name, read_type(&schemas, text))).collect();
    let types: Vec<(String, Type)> =
        schemas.objects.iter().map(|(name, _)| (name.clone(), read_type(&schemas, name))).collect();
    // Leak the schemas, because the types only have weak references to them.
    std::mem::forget(Arc::clone(&schemas));
    Env::standard().with_types(types).with_variables(variables)
}

fn read_type(schemas: &Arc<Schemas>, text: &str) -> Type {
    let inner = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    let read = |text: &str| read_type(schemas, text);
    if let Some(item) = inner("list") {
        return Type::list(read(item));
    }
    if let Some(entry) = inner("map") {
        let (key, value) = entry.split_once(", ").expect("a key and a value");
        return Type::map(read(key), read(value));
    }
    if let Some(value) = inner("optional") {
        return Type::optional(read(value));
    }
    if let Some(value) = inner("nullable") {
        return Type::nullable(read(value));
    }
    match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::UInt,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        name => {
            let number = schemas.objects.iter().position(|(known, _)| known == name);
            let number = number.unwrap_or_else(|| panic!("there is no object {name}"));
            let provider: Arc<dyn TypeProvider> = Arc::clone(schemas) as _;
            Type::Object(ObjectType::new(provider, TypeId(number as u32)))
        }
    }
}
