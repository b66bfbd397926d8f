//! A compact, shared representation of JSON and YAML values with interned keys.
//!
//! Cloning a [`Value`] only increments a reference count: expressions, caches and plans share subtrees of one object
//! instead of copying them. Objects keep their entries sorted by key, so equal values serialize to the same bytes.
//!
//! ```
//! use kross_value::Value;
//!
//! let value: Value = serde_json::from_str(r#"{"spec":{"replicas":3}}"#).unwrap();
//! let replicas = value.get("spec").and_then(|spec| spec.get("replicas"));
//! assert_eq!(replicas.and_then(Value::as_int), Some(3));
//! ```

mod intern;
mod object;
mod serial;
mod text;
mod value;

pub use intern::Key;
pub use object::Object;
pub use text::Text;
pub use value::Value;
