//! Tests of the generated CustomResourceDefinitions, which are the files in `crds/`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;

use kross_api::{crd_yaml, crds, generated_files};
use serde_json::Value;

fn find<'a>(value: &'a Value, key: &str, path: &str, found: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let path = format!("{path}.{name}");
                if name == key {
                    found.push((path.clone(), inner));
                }
                find(inner, key, &path, found);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| find(item, key, &format!("{path}[{at}]"), found));
        }
        _ => {}
    }
}

/// The files in `crds/` are the snapshot: every change of a type changes them.
#[test]
fn the_committed_files_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, contents) in generated_files() {
        let committed = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        assert!(committed == contents, "{path} is out of date: run `cargo xtask generate`");
    }
}

#[test]
fn the_yaml_parses_to_the_same_crd() {
    for crd in crds() {
        let read: Value = serde_saphyr::from_str(&crd_yaml(&crd)).unwrap();
        let mut written = serde_json::to_value(&crd).unwrap();
        floats_to_integers(&mut written);
        assert_eq!(read, written);
    }
}

/// `1.0` is written as `1`.
fn floats_to_integers(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(floats_to_integers),
        Value::Array(items) => items.iter_mut().for_each(floats_to_integers),
        #[allow(clippy::cast_possible_truncation)]
        Value::Number(number) if number.is_f64() => *value = Value::from(number.as_f64().unwrap() as i64),
        _ => {}
    }
}

#[test]
fn only_fields_that_kro_defaults_have_defaults() {
    for crd in crds() {
        let crd = serde_json::to_value(&crd).unwrap();
        let mut found = Vec::new();
        find(&crd, "default", "", &mut found);
        let mut defaults: Vec<_> = found
            .iter()
            .map(|(path, value)| (path.rsplit('.').nth(1).unwrap(), value.as_str().unwrap()))
            .collect();
        defaults.sort_unstable();
        let expected = [("group", "kro.run"), ("scope", "Namespaced")];
        assert_eq!(defaults, if is_of_graphs(&crd) { &expected[..] } else { &[] });
    }
}

/// Whether a CRD has the fields of definitions.
fn is_of_graphs(crd: &Value) -> bool {
    crd["spec"]["group"].as_str().unwrap().ends_with("kro.run")
        && crd["spec"]["names"]["kind"] != "ClusterConnection"
}

#[test]
fn no_field_is_nullable_and_every_rule_has_a_message() {
    for crd in crds() {
        let crd = serde_json::to_value(&crd).unwrap();
        let mut found = Vec::new();
        find(&crd, "nullable", "", &mut found);
        assert!(found.is_empty(), "{found:?}");
        let mut rules = Vec::new();
        find(&crd, "x-kubernetes-validations", "", &mut rules);
        assert!(rules.len() >= 10 || !is_of_graphs(&crd));
        for (path, rules) in rules {
            for rule in rules.as_array().unwrap() {
                assert!(!rule["message"].as_str().unwrap_or_default().is_empty(), "{path}");
            }
        }
    }
}
