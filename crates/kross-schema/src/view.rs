//! A schema together with the library that resolves its references. Templates are checked against it.

use std::sync::Arc;

use kross_cel::types::Type;
use kross_value::Text;

use crate::library::{CLUSTER_OBJECT_META, Library, OBJECT_META};
use crate::openapi::{Additional, Kind, Schema};
use crate::types::{Named, short_name};

/// How many choices a schema may offer.
const MAX_CHOICES: usize = 16;

/// A schema with resolved references. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct SchemaView {
    library: Arc<Library>,
    schema: Arc<Schema>,
    /// The name of its type: the name of a definition, or a path from one.
    name: Text,
}

/// The schema of one field of an object.
#[derive(Clone, Debug)]
pub enum FieldView {
    /// The field has this schema.
    Known(SchemaView),
    /// The field is allowed, but has no schema.
    Free,
    /// There is no such field.
    Unknown,
}

impl SchemaView {
    /// A definition of a library.
    #[must_use]
    pub fn definition(library: &Arc<Library>, name: &str) -> Option<Self> {
        let (library, schema) = library.definition(name)?;
        Some(Self::new(&library, &schema, short_name(name)))
    }

    /// A single schema with a name.
    #[must_use]
    pub fn of(name: &str, schema: Schema) -> Self {
        let library = Library::of_schemas([(name.into(), schema)]);
        Self::definition(&library, name).unwrap_or_else(|| Self {
            library,
            schema: Arc::new(Schema::anything()),
            name: short_name(name).into(),
        })
    }

    /// An object in expressions: `apiVersion`, `kind`, `metadata`, and the given properties.
    #[must_use]
    pub fn object<'a>(
        kind: &str,
        namespaced: bool,
        properties: impl IntoIterator<Item = (&'a str, Schema)>,
    ) -> Self {
        let metadata = if namespaced { OBJECT_META } else { CLUSTER_OBJECT_META };
        let own = [
            ("apiVersion", Schema::of(Kind::String)),
            ("kind", Schema::of(Kind::String)),
            ("metadata", Schema::reference(metadata)),
        ];
        Self::of(kind, Schema::object(own.into_iter().chain(properties)))
    }

    fn new(library: &Arc<Library>, schema: &Arc<Schema>, name: &str) -> Self {
        let (library, schema) = library.resolve(schema);
        Self { library, schema, name: name.into() }
    }

    /// The schema itself.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Its name in messages: `Deployment`, `Widget.spec.ports[]`.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// The type of its values in expressions.
    #[must_use]
    pub fn cel_type(&self) -> Type {
        self.library.type_of(&self.schema, Named::Exact(&self.name))
    }

    /// The schema of an entry of an object.
    #[must_use]
    pub fn field(&self, name: &str) -> FieldView {
        if let Some(schema) = self.schema.properties.get(name) {
            return FieldView::Known(self.inner(schema, Named::Field(&self.name, name)));
        }
        match &self.schema.additional {
            Additional::Schema(values) => {
                FieldView::Known(self.inner(values, Named::Items(&Named::Exact(&self.name))))
            }
            Additional::Allowed(true) => FieldView::Free,
            Additional::Unspecified | Additional::Allowed(false) => self.unnamed_field(name),
        }
    }

    fn unnamed_field(&self, name: &str) -> FieldView {
        let implied = match name {
            "apiVersion" | "kind" => Some(Arc::new(Schema::of(Kind::String))),
            "metadata" => Some(Arc::new(Schema::reference(OBJECT_META))),
            _ => None,
        };
        match implied {
            Some(schema) if self.schema.embedded => {
                FieldView::Known(self.inner(&schema, Named::Field(&self.name, name)))
            }
            _ if self.is_free() => FieldView::Free,
            _ => FieldView::Unknown,
        }
    }

    /// The names of the object's fields.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.schema.properties.names().map(|name| name.as_str())
    }

    /// The schema of the elements of an array, if known.
    #[must_use]
    pub fn items(&self) -> Option<Self> {
        let items = self.schema.items.as_ref()?;
        Some(self.inner(items, Named::Items(&Named::Exact(&self.name))))
    }

    /// The schema of the values of a map.
    #[must_use]
    pub fn values(&self) -> Option<Self> {
        match &self.schema.additional {
            Additional::Schema(values) => Some(self.inner(values, Named::Items(&Named::Exact(&self.name)))),
            Additional::Unspecified | Additional::Allowed(_) => None,
        }
    }

    /// The schemas of which a value must satisfy at least one, if the schema has no type itself. None if there are more than
    /// any API has: then every value is accepted here, and the API server decides.
    #[must_use]
    pub fn choices(&self) -> Vec<Self> {
        if self.schema.kind.is_some() || self.schema.int_or_string {
            return Vec::new();
        }
        let details = self.schema.details();
        if details.one_of.len() + details.any_of.len() > MAX_CHOICES {
            return Vec::new();
        }
        let schemas = details.one_of.iter().chain(&details.any_of);
        schemas.map(|schema| self.inner(schema, Named::Exact(&self.name))).collect()
    }

    /// Whether any value is allowed, apart from known properties.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let details = self.schema.details();
        self.schema.preserve_unknown
            || (self.schema.kind.is_none()
                && !self.schema.int_or_string
                && self.schema.properties.is_empty()
                && self.schema.additional == Additional::Unspecified
                && details.one_of.is_empty()
                && details.any_of.is_empty())
    }

    fn inner(&self, schema: &Arc<Schema>, named: Named<'_>) -> Self {
        let reference = schema.reference.as_ref().or_else(|| match schema.details().all_of.as_slice() {
            [only] => only.reference.as_ref(),
            _ => None,
        });
        let (library, resolved) = self.library.resolve(schema);
        let name = match (reference, resolved.kind) {
            (Some(reference), _) => short_name(reference).into(),
            // The name of a scalar type is never shown.
            (None, Some(Kind::String | Kind::Integer | Kind::Number | Kind::Boolean)) => self.name.clone(),
            (None, Some(Kind::Object | Kind::Array) | None) => named.text().into(),
        };
        Self { library, schema: resolved, name }
    }

    /// Whether both are the same schema of the same library.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.schema, &other.schema)
    }
}
