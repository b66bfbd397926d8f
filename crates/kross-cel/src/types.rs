//! The types of expressions. Object types are lazy views of a schema.

use std::fmt;
use std::sync::Arc;

use kross_value::Text;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// The type of an error that was reported; assignable to everything, so that the error is reported once.
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
    /// The value or null: a wrapper type of CEL, or a `nullable` field of a schema.
    Nullable(Arc<Type>),
    /// An object with known fields.
    Object(ObjectType),
    /// A type without visible structure, such as `kubernetes.Quantity`.
    Opaque(Arc<OpaqueType>),
    /// A type parameter of a declaration, such as `A`.
    Parameter(char),
    /// A type variable of the checker.
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

    /// The value or null. A type that already includes null stays the same.
    #[must_use]
    pub fn nullable(inner: Self) -> Self {
        match inner {
            Self::Nullable(_) | Self::Dyn | Self::Null | Self::Error => inner,
            inner => Self::Nullable(Arc::new(inner)),
        }
    }

    /// The name of the type with an article, for messages: `an int`.
    #[must_use]
    pub fn with_article(&self) -> String {
        let name = self.to_string();
        let vowel = name.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']);
        format!("{} {name}", if vowel { "an" } else { "a" })
    }

    /// A declared type with its type parameters replaced; missing ones become `dyn`.
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

    /// An opaque type.
    #[must_use]
    pub fn opaque(name: &'static str) -> Self {
        Self::Opaque(Arc::new(OpaqueType { name: name.into(), parameters: Vec::new() }))
    }
}

/// A type that is identified by its name only.
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

/// Provides the fields of object types. `kross-schema` implements it for OpenAPI schemas.
pub trait TypeProvider: fmt::Debug + Send + Sync {
    /// The name of the type in messages, such as `Deployment.spec`.
    fn type_name(&self, id: TypeId) -> String;

    /// The type of a field, or none if there is no such field.
    fn field(&self, id: TypeId, field: &str) -> Option<Type>;

    /// The names of all fields, for suggestions and for comparing two object types.
    fn field_names(&self, id: TypeId) -> Vec<Text>;

    /// Whether a field is required.
    fn is_required(&self, _id: TypeId, _field: &str) -> bool {
        false
    }

    /// Whether raw JSON of this type contains values to convert: byte strings, dates, doubles written as integers. If
    /// false, the evaluator walks the raw tree without types.
    fn needs_conversion(&self, _id: TypeId) -> bool {
        true
    }
}

/// An object type: a provider and an id in it. Equal if both are the same.
#[derive(Clone, Debug)]
pub struct ObjectType {
    provider: Arc<dyn TypeProvider>,
    id: TypeId,
}

impl ObjectType {
    /// The object type with this id in `provider`.
    #[must_use]
    pub fn new(provider: Arc<dyn TypeProvider>, id: TypeId) -> Self {
        Self { provider, id }
    }

    /// The id in the provider.
    #[must_use]
    pub fn id(&self) -> TypeId {
        self.id
    }

    /// The name of the type in messages.
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

    /// Whether a field is required.
    #[must_use]
    pub fn is_required(&self, field: &str) -> bool {
        self.provider.is_required(self.id, field)
    }

    /// Whether raw JSON of this type contains values to convert.
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
