//! One entry of `spec.resources`: a template or an external reference, and the conditions around it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kross_value::Value;
use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::resource_rules;
use crate::openapi::{ID_PATTERN, raw_object};
use crate::{Cluster, ExternalRef, Lifecycle, List, Target};

/// A resource of the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = resource_rules()))]
pub struct Resource {
    /// The name of the resource in expressions.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: String,
    /// The object to create, with `${}` expressions. Mutually exclusive with `externalRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "raw_object")]
    pub template: Option<Value>,
    /// Existing objects to read. Mutually exclusive with `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_ref: Option<ExternalRef>,
    /// Expressions that must all be true for the resource to be ready.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub ready_when: List<String>,
    /// Expressions that must all be true for the resource to be created.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub include_when: List<String>,
    /// Turns the resource into a collection with one object per combination of the variables' values.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub for_each: List<ForEach>,
    /// The cluster of the object. Defaults to the cluster of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The cluster of the object, as an alternative to `cluster`. Defaults to the cluster of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// When the object is created and how it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
}

/// One dimension of a collection. On the wire it is a map with one entry: `{region: "${schema.spec.regions}"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForEach {
    /// The variable for the current item.
    pub variable: String,
    /// The expression that returns the list.
    pub expression: String,
}

impl Serialize for ForEach {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(&self.variable, &self.expression)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ForEach {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut entries = BTreeMap::<String, String>::deserialize(deserializer)?.into_iter();
        match (entries.next(), entries.next()) {
            (Some((variable, expression)), None) => Ok(Self { variable, expression }),
            _ => Err(D::Error::custom("a `forEach` entry must have exactly one variable")),
        }
    }
}

impl JsonSchema for ForEach {
    fn schema_name() -> Cow<'static, str> {
        "ForEach".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        json_schema!({
            "type": "object",
            "description": "One dimension of a collection: a variable and the expression that returns the list.",
            "additionalProperties": {"type": "string"},
            "minProperties": 1,
            "maxProperties": 1,
        })
    }
}
