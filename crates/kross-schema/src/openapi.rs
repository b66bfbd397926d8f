//! A compact, shared representation of Kubernetes' OpenAPI schemas: rare keywords are boxed, and descriptions are dropped
//! if they are not needed. Parsed from OpenAPI v3 documents and CRDs, and serialized to CRDs without loss.

mod read;
mod value_reader;
mod write;

use std::sync::{Arc, LazyLock};

use kross_value::{Key, Object, Text, Value};

pub use read::Keep;
pub(crate) use write::{same_json, write_number};

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
    /// `object`
    Object,
    /// `array`
    Array,
}

impl Kind {
    /// The value of `type` in a schema.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::Array => "array",
        }
    }

    /// Parses the value of `type` in a schema.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        [Self::String, Self::Integer, Self::Number, Self::Boolean, Self::Object, Self::Array]
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }
}

/// The additional properties that an object allows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Additional {
    /// Not specified.
    #[default]
    Unspecified,
    /// Any or none.
    Allowed(bool),
    /// Values of a schema: the object is a map.
    Schema(Arc<Schema>),
}

/// A CEL validation rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// The expression.
    pub rule: Text,
    /// The message if it is false.
    pub message: Option<Text>,
    /// Everything else: `reason`, `fieldPath`, `messageExpression`, `optionalOldSelf`.
    pub rest: Object,
}

impl Validation {
    /// Creates a rule with a message.
    #[must_use]
    pub fn new(rule: &str, message: &str) -> Self {
        Self { rule: rule.into(), message: Some(message.into()), rest: Object::new() }
    }
}

/// Keywords that only few schemas have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Documentation.
    pub title: Option<Text>,
    /// Documentation.
    pub description: Option<Text>,
    /// Regular expression for strings.
    pub pattern: Option<Text>,
    /// Minimum of a number.
    pub minimum: Option<f64>,
    /// Whether `minimum` itself is not allowed.
    pub exclusive_minimum: bool,
    /// Maximum of a number.
    pub maximum: Option<f64>,
    /// Whether `maximum` itself is not allowed.
    pub exclusive_maximum: bool,
    /// The number must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// Minimum length of a string.
    pub min_length: Option<i64>,
    /// Maximum length of a string.
    pub max_length: Option<i64>,
    /// Minimum number of array items.
    pub min_items: Option<i64>,
    /// Maximum number of array items.
    pub max_items: Option<i64>,
    /// Whether items must be unique. Forbidden in CRDs, which use the list type `set` instead.
    pub unique_items: bool,
    /// Minimum number of object entries.
    pub min_properties: Option<i64>,
    /// Maximum number of object entries.
    pub max_properties: Option<i64>,
    /// All of these must be satisfied.
    pub all_of: Vec<Arc<Schema>>,
    /// At least one of these must be satisfied.
    pub any_of: Vec<Arc<Schema>>,
    /// Exactly one of these must be satisfied.
    pub one_of: Vec<Arc<Schema>>,
    /// This must not be satisfied.
    pub not: Option<Arc<Schema>>,
    /// `x-kubernetes-list-type`
    pub list_type: Option<Text>,
    /// `x-kubernetes-list-map-keys`
    pub list_map_keys: Vec<Text>,
    /// `x-kubernetes-map-type`
    pub map_type: Option<Text>,
    /// `x-kubernetes-validations`
    pub validations: Vec<Validation>,
    /// `example` and `externalDocs`, kept so that a CRD round-trips.
    pub rest: Object,
}

/// Empty details.
static NO_DETAILS: LazyLock<Details> = LazyLock::new(Details::default);

/// A schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// `type`
    pub kind: Option<Kind>,
    /// `nullable`
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve_unknown: bool,
    /// `x-kubernetes-int-or-string`, or the equivalent format
    pub int_or_string: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded: bool,
    /// `format`
    pub format: Option<Text>,
    /// `$ref`, shortened to the name of the definition
    pub reference: Option<Text>,
    /// `properties`
    pub properties: Properties,
    /// `required`, in the order written
    pub required: Vec<Text>,
    /// `items`
    pub items: Option<Arc<Schema>>,
    /// `additionalProperties`
    pub additional: Additional,
    /// `enum`
    pub values: Vec<Value>,
    /// `default`
    pub default: Option<Value>,
    /// The rest
    details: Option<Box<Details>>,
}

impl Schema {
    /// A schema with only a type.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }

    /// An object with these properties.
    pub fn object<'a>(properties: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        let properties =
            properties.into_iter().map(|(name, schema)| (Key::new(name), Arc::new(schema))).collect();
        Self::of_properties(properties)
    }

    /// An object with these properties.
    #[must_use]
    pub fn of_properties(properties: Properties) -> Self {
        Self { properties, ..Self::of(Kind::Object) }
    }

    /// The same schema, but nullable.
    #[must_use]
    pub fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// An array.
    pub fn array(items: impl Into<Arc<Self>>) -> Self {
        Self { items: Some(items.into()), ..Self::of(Kind::Array) }
    }

    /// A map: an object with arbitrary keys.
    pub fn map(values: impl Into<Arc<Self>>) -> Self {
        Self { additional: Additional::Schema(values.into()), ..Self::of(Kind::Object) }
    }

    /// An object with arbitrary fields.
    #[must_use]
    pub fn free_object() -> Self {
        Self { preserve_unknown: true, ..Self::of(Kind::Object) }
    }

    /// Any value.
    #[must_use]
    pub fn anything() -> Self {
        Self { preserve_unknown: true, ..Self::default() }
    }

    /// A string with a format.
    #[must_use]
    pub fn format(format: &str) -> Self {
        Self { format: Some(format.into()), ..Self::of(Kind::String) }
    }

    /// A reference to a definition.
    #[must_use]
    pub fn reference(name: &str) -> Self {
        Self { reference: Some(name.into()), ..Self::default() }
    }

    /// The rare keywords of the schema.
    #[must_use]
    pub fn details(&self) -> &Details {
        self.details.as_deref().unwrap_or(&NO_DETAILS)
    }

    /// Mutable access to the rare keywords of the schema.
    pub fn details_mut(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    /// Whether a property is required.
    #[must_use]
    pub fn requires(&self, property: &str) -> bool {
        self.required.iter().any(|name| name == property)
    }

    /// Drops empty details, so that equivalent schemas compare equal.
    fn normalize(&mut self) {
        if self.details.as_deref().is_some_and(|details| *details == *NO_DETAILS) {
            self.details = None;
        }
    }
}

/// The named properties of an object, sorted by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(Vec<(Key, Arc<Schema>)>);

impl Properties {
    /// The schema of a property.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Schema>> {
        let at = self.position(name).ok()?;
        self.0.get(at).map(|(_, schema)| schema)
    }

    /// The schema of a property, and its position.
    pub(crate) fn find(&self, name: &str) -> Option<(usize, &Arc<Schema>)> {
        let at = self.position(name).ok()?;
        self.0.get(at).map(|(_, schema)| (at, schema))
    }

    /// Sets the schema of a property.
    pub fn insert(&mut self, name: impl Into<Key>, schema: impl Into<Arc<Schema>>) {
        let name = name.into();
        match self.position(&name) {
            Ok(at) => {
                if let Some(entry) = self.0.get_mut(at) {
                    entry.1 = schema.into();
                }
            }
            Err(at) => self.0.insert(at, (name, schema.into())),
        }
    }

    /// The number of properties.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no properties.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The properties, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Key, &Arc<Schema>)> {
        self.0.iter().map(|(name, schema)| (name, schema))
    }

    /// The names, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.0.iter().map(|(name, _)| name)
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(key, _)| key.as_str().cmp(name))
    }
}

/// For duplicate names the last property wins, as in JSON.
impl FromIterator<(Key, Arc<Schema>)> for Properties {
    fn from_iter<T: IntoIterator<Item = (Key, Arc<Schema>)>>(entries: T) -> Self {
        let mut sorted: Vec<_> = entries.into_iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        sorted.dedup_by(|later, first| {
            let repeated = later.0 == first.0;
            if repeated {
                std::mem::swap(later, first);
            }
            repeated
        });
        sorted.shrink_to_fit();
        Self(sorted)
    }
}
