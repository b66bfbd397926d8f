//! Compares the project's CRDs with those of kro: kross has every field of kro, so that a definition for kro is valid for
//! kross.

use kross_local::{Kro, Progress};
use serde_json::Value as Json;

/// Where the CRDs of kross require less than those of kro, or express the same rule differently.
const KNOWN: [&str; 3] = [
    // A reference may have `selector` in place of `metadata`.
    "resources.items.properties.externalRef.required",
    // With `externalRef`, omitted fields are those of the existing kind.
    "schema.required",
    // The same rule, written shorter.
    "resources.items.x-kubernetes-validations[0].rule",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_crds_have_every_field_of_those_of_kro() {
    let kro = tokio::task::spawn_blocking(|| Kro::find_or_build(&Progress::stderr())).await.unwrap().unwrap();
    let ours: Vec<Json> =
        kross_api::graph_crds().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
    let theirs = kro.crds().unwrap();
    assert_eq!(theirs.len(), 2);
    let mut missing = Vec::new();
    for text in theirs {
        let theirs: Json = serde_saphyr::from_str(&text).unwrap();
        let name = &theirs["metadata"]["name"];
        let ours = ours.iter().find(|crd| crd["metadata"]["name"] == *name).unwrap();
        // No additional columns either, since people and scripts read them.
        let columns = |crd: &Json| crd["spec"]["versions"][0]["additionalPrinterColumns"].clone();
        assert_eq!(columns(&theirs).as_array().unwrap().len(), columns(ours).as_array().unwrap().len());
        compare(&theirs["spec"], &ours["spec"], name.as_str().unwrap(), &mut missing);
    }
    missing.retain(|missing| !KNOWN.iter().any(|known| missing.split(": ").next().unwrap().ends_with(known)));
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn compare(theirs: &Json, ours: &Json, path: &str, missing: &mut Vec<String>) {
    match (theirs, ours) {
        (Json::Object(left), Json::Object(right)) => {
            for (key, value) in left.iter().filter(|(key, _)| *key != "description") {
                let inner = format!("{path}.{key}");
                compare(value, right.get(key).unwrap_or(&Json::Null), &inner, missing);
            }
        }
        // `required`, in any order.
        (Json::Array(left), Json::Array(right)) if left.iter().all(Json::is_string) => {
            let sorted = |list: &[Json]| {
                let mut words: Vec<String> = list.iter().map(ToString::to_string).collect();
                words.sort();
                words
            };
            if sorted(left) != sorted(right) {
                missing.push(format!("{path}: {theirs} differs from {ours}"));
            }
        }
        // kross may have additional rules.
        (Json::Array(left), Json::Array(right)) if left.len() <= right.len() => {
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                compare(left, right, &format!("{path}[{at}]"), missing);
            }
        }
        _ if theirs == ours || theirs.as_f64().is_some_and(|number| ours.as_f64() == Some(number)) => {}
        _ => missing.push(format!("{path}: {theirs} differs from {ours}")),
    }
}
