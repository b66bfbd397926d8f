//! Names of revisions, and the hash that detects changes of a definition since its last revision.

use kross_value::Value;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::{DEFAULT_GROUP, ResourceGraphDefinitionSpec, Scope};

const MAX_NAME: usize = 253;

/// The name of a definition's revision: `web-r00001`, truncated and with a hash if it would be too long.
#[must_use]
pub fn revision_name(definition: &str, revision: i64) -> String {
    let suffix = format!("-r{revision:05}");
    if definition.len() + suffix.len() <= MAX_NAME {
        return format!("{definition}{suffix}");
    }
    let suffix = format!("{suffix}-{:08x}", fnv32a(definition));
    // A valid name is ASCII; otherwise cut at a character boundary.
    let cut = definition.floor_char_boundary(MAX_NAME.saturating_sub(suffix.len()));
    let kept = definition.get(..cut).unwrap_or_default().trim_end_matches(['.', '-']);
    format!("{}{suffix}", if kept.is_empty() { "gr" } else { kept })
}

fn fnv32a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A short hash of a spec. It ignores differences without meaning: values that kro omits when it serializes (empty lists
/// and strings), defaults that the API server sets (group, scope), and the order of resources, `readyWhen` and
/// `includeWhen`.
#[must_use]
pub fn spec_hash(spec: &ResourceGraphDefinitionSpec) -> String {
    let mut spec = spec.clone();
    spec.schema.group.get_or_insert_with(|| DEFAULT_GROUP.to_owned());
    spec.schema.scope.get_or_insert(Scope::Namespaced);
    spec.resources.sort_by(|a, b| a.id.cmp(&b.id));
    for resource in spec.resources.iter_mut() {
        resource.ready_when.sort();
        resource.include_when.sort();
    }
    let mut json = serde_json::to_value(&spec).unwrap_or_default();
    drop_empty(&mut json);
    // Serialized with sorted keys, regardless of serde_json's `preserve_order` feature.
    let digest = Sha256::digest(Value::from(json).to_string());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Free-form fields, which are kept as they are. kro keeps `selector` raw only under `metadata`, but an empty selector
/// has a meaning everywhere.
const RAW: [&str; 5] = ["template", "spec", "types", "status", "selector"];

fn drop_empty(json: &mut Json) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(drop_empty),
        Json::Object(map) => {
            map.retain(|key, value| !is_empty(key, value));
            map.iter_mut()
                .filter(|(key, _)| !RAW.contains(&key.as_str()))
                .for_each(|(_, value)| drop_empty(value));
        }
        _ => {}
    }
}

fn is_empty(key: &str, value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty() && ["labels", "annotations", "matchLabels"].contains(&key),
        Json::Number(number) => key == "priority" && number.as_i64() == Some(0),
        Json::Bool(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_the_same_as_kros() {
        for line in include_str!("../../tests/fixtures/revisions.txt").lines() {
            let parts: Vec<&str> = line.split('|').collect();
            assert_eq!(revision_name(parts[0], parts[1].parse().unwrap()), parts[2]);
            assert!(parts[2].len() <= MAX_NAME);
        }
    }

    #[test]
    fn names_are_limited_in_length() {
        assert!(revision_name(&"é".repeat(200), 1).len() <= MAX_NAME);
        assert!(revision_name(&"-".repeat(300), 1).starts_with("gr-r00001-"));
    }

    fn hash(spec: Json) -> String {
        spec_hash(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn defaults_and_empty_fields_make_no_difference() {
        let plain = json!({"schema": {"kind": "A", "apiVersion": "v1"}});
        let written = json!({
            "schema": {
                "kind": "A", "apiVersion": "v1", "group": "kro.run", "scope": "Namespaced", "shortNames": [],
                "metadata": null,
            },
            "resources": [],
        });
        assert_eq!(hash(plain.clone()), hash(written));
        assert_eq!(hash(plain).len(), 16);
    }

    #[test]
    fn the_order_of_for_each_entries_makes_a_difference_but_not_that_of_resources_and_conditions() {
        let spec = |first: &str, second: &str, axes: [&str; 2]| {
            let axes = axes.map(|axis| json!({axis: "${[1]}"}));
            let a = json!({"id": "a", "template": {}, "readyWhen": [first, second], "includeWhen": [second, first]});
            let b = json!({"id": "b", "template": {}, "forEach": axes});
            let resources = if first < second { json!([a, b]) } else { json!([b, a]) };
            json!({"schema": {"kind": "A", "apiVersion": "v1"}, "resources": resources})
        };
        let plain = hash(spec("${1}", "${2}", ["x", "y"]));
        assert_eq!(plain, hash(spec("${2}", "${1}", ["x", "y"])));
        assert_ne!(plain, hash(spec("${1}", "${2}", ["y", "x"])));
    }

    #[test]
    fn everything_else_makes_a_difference() {
        let base = json!({"schema": {"kind": "A", "apiVersion": "v1"}, "resources": [{"id": "a", "template": {"data": {}}}]});
        for (pointer, value) in [
            ("/schema/kind", json!("B")),
            ("/resources/0/template/data", json!(null)),
            ("/resources/0/template/data", json!([])),
            ("/resources/0/template", json!({})),
            ("/resources/0/id", json!("b")),
        ] {
            let mut changed = base.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_ne!(hash(base.clone()), hash(changed), "{pointer}");
        }
    }
}
