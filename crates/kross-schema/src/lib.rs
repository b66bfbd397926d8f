//! Converts SimpleSchema to OpenAPI, OpenAPI to CEL types and definitions to CRDs, and compares CRDs for compatibility.
//!
//! ```
//! use kross_schema::simple;
//! use kross_value::Value;
//!
//! let spec: Value = serde_json::from_str(r#"{"replicas": "integer | default=3 minimum=1"}"#).unwrap();
//! let translation = simple::translate(Some(&spec), None, &"spec.schema".parse().unwrap());
//! assert!(translation.problems.is_empty());
//! assert_eq!(
//!     translation.schema.properties.get("replicas").unwrap().to_value().to_string(),
//!     r#"{"default":3,"minimum":1,"type":"integer"}"#
//! );
//! ```

mod assign;
pub mod compatibility;
pub mod crd;
pub mod documentation;
mod infer;
mod library;
mod literal;
pub mod openapi;
pub mod resolver;
pub mod simple;
mod types;
mod view;

pub use assign::{Mismatch, Written, assignable, describe};
pub use infer::schema_of;
pub use library::{CLUSTER_OBJECT_META, Library, OBJECT_META};
pub use literal::{FoundText, Texts, check_complete, check_template};
pub use resolver::{
    Bundle, CrdSchemas, GroupVersionKind, LiveSchemas, Overlay, ResolvedKind, SchemaResolver,
    is_built_in_group,
};
pub use view::{FieldView, SchemaView};
