//! Author-defined conditions: `runtime.newCondition({type: …, status: …})` and `runtime.condition(object, 'Ready')`. A
//! library of its own, because only conditions may use it.

use std::any::Any;

use kross_value::Text;

use super::super::arguments::{any, entries, functions, text};
use super::super::{Call, Library};
use crate::error::{Fault, sized};
use crate::types::Type;
use crate::value::{Map, Opaque, Value};

/// Conditions.
pub static LIBRARY: Library = Library {
    name: "kro.runtime",
    functions: functions! {
        "condition": "Returns the condition of the given type from `status.conditions` of the object, or one with empty fields." {
            "(kro.run.Runtime).condition(dyn, string) -> kro.run.Condition" => condition,
        }
        "newCondition": "Creates a condition. The keys are `type`, `status`, `reason` and `message`, without quotes." {
            "(kro.run.Runtime).newCondition(map(string, string)) -> kro.run.Condition" => new_condition,
        }
    },
};

/// The name of the receiver variable.
pub const VARIABLE: &str = "runtime";

/// The fields of a condition; all are strings.
pub const FIELDS: [&str; 4] = ["type", "status", "reason", "message"];

/// The type of the variable `runtime`.
#[must_use]
pub fn runtime_type() -> Type {
    Type::opaque("kro.run.Runtime")
}

/// The type of a field of an opaque type, if it has such a field.
#[must_use]
pub fn field_type(type_name: &str, field: &str) -> Option<Type> {
    (type_name == "kro.run.Condition" && FIELDS.contains(&field)).then_some(Type::String)
}

/// Whether a condition can have this status.
#[must_use]
pub fn is_status(status: &str) -> bool {
    matches!(status, "True" | "False" | "Unknown")
}

/// The value of the variable `runtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime;

impl Opaque for Runtime {
    fn type_name(&self) -> &'static str {
        "kro.run.Runtime"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().is::<Self>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A condition; missing fields are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `type`
    pub kind: Text,
    /// `status`
    pub status: Text,
    /// `reason`
    pub reason: Text,
    /// `message`
    pub message: Text,
}

impl Default for Condition {
    fn default() -> Self {
        let empty = Text::from("");
        Self { kind: empty.clone(), status: empty.clone(), reason: empty.clone(), message: empty }
    }
}

impl Condition {
    fn get(&self, field: &str) -> Option<&Text> {
        match field {
            "type" => Some(&self.kind),
            "status" => Some(&self.status),
            "reason" => Some(&self.reason),
            "message" => Some(&self.message),
            _ => None,
        }
    }

    fn get_mut(&mut self, field: &str) -> Option<&mut Text> {
        match field {
            "type" => Some(&mut self.kind),
            "status" => Some(&mut self.status),
            "reason" => Some(&mut self.reason),
            "message" => Some(&mut self.message),
            _ => None,
        }
    }

    /// A condition from an object's status. Fields that are not strings are empty.
    fn from_map(map: &Map) -> Self {
        let mut condition = Self::default();
        for field in FIELDS {
            if let (Some(place), Some(Value::String(text))) = (condition.get_mut(field), map.get_str(field)) {
                *place = text;
            }
        }
        condition
    }
}

impl Opaque for Condition {
    fn type_name(&self) -> &'static str {
        "kro.run.Condition"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self, name: &str) -> Option<Value> {
        self.get(name).cloned().map(Value::String)
    }
}

fn new_condition(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let mut condition = Condition::default();
    for (key, value) in entries(call, arguments, 1)? {
        let (key, value) = (text(std::slice::from_ref(&key), 0)?.clone(), value);
        let Value::String(given) = &value else {
            let found = value.type_name();
            return Err(Fault::invalid(format!(
                "runtime.newCondition: every field must be a string, found {found}"
            )));
        };
        match &*key {
            "type" if given.is_empty() => {
                return Err(Fault::invalid("runtime.newCondition: `type` must not be empty"));
            }
            "status" if !is_status(given) => {
                return Err(Fault::invalid(format!(
                    "runtime.newCondition: `status` must be `True`, `False` or `Unknown`, found {}",
                    sized(given)
                )));
            }
            field => {
                if let Some(place) = condition.get_mut(field) {
                    *place = given.clone();
                }
            }
        }
    }
    Ok(Value::opaque(condition))
}

fn condition(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (object, wanted) = (any(arguments, 1)?, text(arguments, 2)?);
    let invalid = |what: &str, found: &Value| {
        let found = found.type_name();
        Fault::invalid(format!("runtime.condition: {what}, found {found}"))
    };
    let Value::Map(object) = object else {
        return Err(invalid("the first argument must be an object", object));
    };
    let status = match object.get_str("status") {
        None => return Ok(Value::opaque(Condition::default())),
        Some(Value::Map(status)) => status,
        Some(other) => return Err(invalid("`status` must be an object", &other)),
    };
    let conditions = match status.get_str("conditions") {
        None => return Ok(Value::opaque(Condition::default())),
        Some(Value::List(conditions)) => conditions,
        Some(other) => return Err(invalid("`status.conditions` must be a list", &other)),
    };
    let mut found = None;
    for item in &conditions {
        call.charge(1)?;
        let candidate = match &item {
            Value::Map(map) => Condition::from_map(map),
            other => match other.downcast::<Condition>() {
                Some(condition) => condition.clone(),
                None => return Err(invalid("`status.conditions` must be a list of objects", other)),
            },
        };
        if found.is_none() && candidate.kind == *wanted {
            found = Some(candidate);
        }
    }
    Ok(Value::opaque(found.unwrap_or_default()))
}
