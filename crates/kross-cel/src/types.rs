//! The types of expressions. Object types are views into a schema that is looked at only where an expression looks.

use std::fmt;
use std::sync::Arc;

use kross_value::Text;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Already reported; compatible with everything so that one mistake is reported once.
    Error,
    /// Known only at run time.
    Dyn,
    /// `null_type`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    UInt,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `google.protobuf.Duration`
    Duration,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<(Type, Type)>),
    /// `optional_type(T)`
    Optional(Arc<Type>),
    /// `type(T)`
    Type(Arc<Type>),
    /// The value or null: a wrapper of the language, a `nullable` field of a schema.
    Nullable(Arc<Type>),
    /// An object with known fields.
    Object(ObjectType),
    /// A type known by name alone, such as `kubernetes.Quantity`.
    Opaque(Arc<OpaqueType>),
    /// A type parameter of a declaration, such as `A`.
    Parameter(char),
    /// A type still to be found, in the course of checking.
    Variable(u32),
}

impl Type {
    /// `list(item)`
    #[must_use]
    pub fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    /// `map(key, value)`
    #[must_use]
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// `optional_type(inner)`
    #[must_use]
    pub fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// The value or null. Nothing gets more nullable than it is.
    #[must_use]
    pub fn nullable(inner: Self) -> Self {
        match inner {
            Self::Nullable(_) | Self::Dyn | Self::Null | Self::Error => inner,
            inner => Self::Nullable(Arc::new(inner)),
        }
    }

    /// A declared type with its type parameters replaced; those that are not given become `dyn`.
    pub(crate) fn instantiate(&self, parameters: &[(char, Self)]) -> Self {
        match self {
            Self::Parameter(letter) => parameters
                .iter()
                .find(|(known, _)| known == letter)
                .map_or(Self::Dyn, |(_, replacement)| replacement.clone()),
            Self::List(inner) => Self::list(inner.instantiate(parameters)),
            Self::Optional(inner) => Self::optional(inner.instantiate(parameters)),
            Self::Type(inner) => Self::Type(Arc::new(inner.instantiate(parameters))),
            Self::Nullable(inner) => Self::nullable(inner.instantiate(parameters)),
            Self::Map(entry) => Self::map(entry.0.instantiate(parameters), entry.1.instantiate(parameters)),
            Self::Opaque(opaque) if !opaque.parameters.is_empty() => Self::Opaque(Arc::new(OpaqueType {
                name: opaque.name.clone(),
                parameters: opaque.parameters.iter().map(|inner| inner.instantiate(parameters)).collect(),
            })),
            other => other.clone(),
        }
    }

    /// A type known by name alone.
    #[must_use]
    pub fn opaque(name: &'static str) -> Self {
        Self::Opaque(Arc::new(OpaqueType { name: name.into(), parameters: Vec::new() }))
    }
}

/// A type known by name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpaqueType {
    /// The qualified name.
    pub name: Text,
    /// Type arguments.
    pub parameters: Vec<Type>,
}

/// Identifies an object type within its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// Knows the fields of object types. Implemented over OpenAPI by `kross-schema`, and by plain tables in tests.
pub trait TypeProvider: fmt::Debug + Send + Sync {
    /// What people call the type in a message, such as `Deployment.spec`.
    fn type_name(&self, id: TypeId) -> String;

    /// The type of a field, or none where the type has no such field.
    fn field(&self, id: TypeId, field: &str) -> Option<Type>;

    /// The names of all fields, for suggestions and for comparing two object types.
    fn field_names(&self, id: TypeId) -> Vec<Text>;

    /// Whether a field must be there.
    fn is_required(&self, _id: TypeId, _field: &str) -> bool {
        false
    }

    /// Whether raw JSON must be converted below this type: a byte string, a date, a double written as an integer.
    /// False lets the evaluator walk the raw tree without looking at types.
    fn needs_conversion(&self, _id: TypeId) -> bool {
        true
    }
}

/// An object type: a provider and a number it understands. Equal when both are the same.
#[derive(Clone, Debug)]
pub struct ObjectType {
    provider: Arc<dyn TypeProvider>,
    id: TypeId,
}

impl ObjectType {
    /// The object type that `provider` knows under `id`.
    #[must_use]
    pub fn new(provider: Arc<dyn TypeProvider>, id: TypeId) -> Self {
        Self { provider, id }
    }

    /// The number within the provider.
    #[must_use]
    pub fn id(&self) -> TypeId {
        self.id
    }

    /// What people call the type.
    #[must_use]
    pub fn name(&self) -> String {
        self.provider.type_name(self.id)
    }

    /// The type of a field.
    #[must_use]
    pub fn field(&self, field: &str) -> Option<Type> {
        self.provider.field(self.id, field)
    }

    /// The names of all fields.
    #[must_use]
    pub fn field_names(&self) -> Vec<Text> {
        self.provider.field_names(self.id)
    }

    /// Whether a field must be there.
    #[must_use]
    pub fn is_required(&self, field: &str) -> bool {
        self.provider.is_required(self.id, field)
    }

    /// Whether raw JSON must be converted below this type.
    #[must_use]
    pub fn needs_conversion(&self) -> bool {
        self.provider.needs_conversion(self.id)
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.provider, &other.provider)
    }
}

impl Eq for ObjectType {}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::UInt => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(inner) => write!(f, "optional({inner})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Nullable(inner) => write!(f, "nullable({inner})"),
            Self::Object(object) => f.write_str(&object.name()),
            Self::Opaque(opaque) => write_opaque(opaque, f),
            Self::Parameter(name) => write!(f, "{name}"),
            Self::Variable(number) => write!(f, "?{number}"),
        }
    }
}

fn write_opaque(opaque: &OpaqueType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&opaque.name)?;
    if opaque.parameters.is_empty() {
        return Ok(());
    }
    let parameters: Vec<String> = opaque.parameters.iter().map(ToString::to_string).collect();
    write!(f, "({})", parameters.join(", "))
}
