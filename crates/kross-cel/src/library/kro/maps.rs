//! Merges maps, shallowly or deeply.

use super::super::arguments::{entries, functions};
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::{BuiltMap, Map, Value};

/// The largest depth to which maps are merged.
const MAX_DEPTH: usize = 200;

/// Merging of maps.
pub static LIBRARY: Library = Library {
    name: "maps",
    functions: functions! {
        "deepMerge": "Merges two maps recursively; for a key that both have, maps are merged and other values are taken from the argument." {
            "(dyn).deepMerge(dyn) -> dyn" => |call, a| deep_merge(call, a, 0),
        }
        "merge": "Merges two maps; for a key that both have, the value of the argument is taken." {
            "(map(K, V)).merge(map(K, V)) -> map(K, V)" => merge,
        }
    },
};

fn map_at(arguments: &[Value], at: usize) -> Option<&Map> {
    if let Some(Value::Map(map)) = arguments.get(at) { Some(map) } else { None }
}

fn merge(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (first, mut merged) = (entries(call, arguments, 0)?, entries(call, arguments, 1)?);
    let second = map_at(arguments, 1);
    merged.extend(first.into_iter().filter(|(key, _)| second.is_none_or(|second| !second.contains_key(key))));
    Ok(built(merged))
}

fn built(entries: Vec<(Value, Value)>) -> Value {
    Value::Map(Map::Built(BuiltMap::new(entries).into()))
}

fn deep_merge(call: &mut Call<'_>, arguments: &[Value], depth: usize) -> Result<Value, Fault> {
    if depth > MAX_DEPTH {
        return Err(Fault::invalid(format!(
            "deepMerge: the maps are nested more than {MAX_DEPTH} levels deep"
        )));
    }
    let (first, second) = (entries(call, arguments, 0)?, entries(call, arguments, 1)?);
    let over = map_at(arguments, 1);
    let mut merged = Vec::with_capacity(first.len().max(second.len()));
    for (key, value) in first {
        let value = match over.and_then(|over| over.get(&key)) {
            Some(other @ Value::Map(_)) if matches!(value, Value::Map(_)) => {
                deep_merge(call, &[value, other], depth + 1)?
            }
            Some(other) => other,
            None => value,
        };
        merged.push((key, value));
    }
    let under = map_at(arguments, 0);
    merged.extend(second.into_iter().filter(|(key, _)| under.is_none_or(|under| !under.contains_key(key))));
    Ok(built(merged))
}
