//! Snapshots of diagnostics that do not come from a definition: for CRDs, and for changes between two versions of an API.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;

use kross_diagnostics::render::{Colour, terminal};
use kross_diagnostics::{Code, Diagnostics, Path, Sources};
use kross_schema::compatibility::compare_crds;
use kross_schema::{CrdSchemas, simple};
use kross_value::Value;

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

fn rendered(diagnostics: &Diagnostics) -> String {
    terminal(diagnostics, &Sources::new(), Colour::Never, None)
}

fn crd(scope: &str, properties: &str, required: &str) -> Value {
    parse(&format!(
        r#"{{"metadata": {{"name": "widgets.example.com"}}, "spec": {{
            "group": "example.com", "scope": "{scope}", "names": {{"kind": "Widget", "plural": "widgets"}},
            "versions": [{{"name": "v1", "served": true, "storage": true, "schema": {{"openAPIV3Schema": {{
                "type": "object", "properties": {{{properties}}}, "required": [{required}]
            }}}}}}]
        }}}}"#
    ))
}

#[test]
fn breaking_changes() {
    let old = crd(
        "Namespaced",
        r#""a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "string"}, "d": {"type": "string"}"#,
        "",
    );
    let new = crd(
        "Cluster",
        r#""b": {"type": "string"}, "c": {"type": "string"}, "d": {"type": "string", "maxLength": 3}"#,
        r#""c""#,
    );
    let diagnostics = compare_crds(&old, &new).diagnostics();
    let codes: BTreeSet<Code> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    let expected = [
        Code::PropertyRemoved,
        Code::TypeChanged,
        Code::RequirementAdded,
        Code::ConstraintTightened,
        Code::ServingChanged,
    ];
    assert_eq!(codes, BTreeSet::from(expected));
    insta::assert_snapshot!(rendered(&diagnostics));
}

#[test]
fn a_crd_that_cannot_be_used() {
    let problems = CrdSchemas::new().insert(&parse(r#"{"spec": {"group": "example.com"}}"#)).unwrap_err();
    assert!(problems.iter().all(|problem| problem.code == Code::InvalidCrd));
    let mut diagnostics = Diagnostics::new();
    diagnostics.extend(problems.iter().map(|problem| problem.diagnostic(None)));
    insta::assert_snapshot!(rendered(&diagnostics));
}

#[test]
fn a_schema_that_is_too_large() {
    let mut spec = Value::from("string");
    for _ in 0..70 {
        spec = Value::object([("a", spec)]);
    }
    let problems = simple::translate(Some(&spec), None, &Path::root()).problems;
    assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), [Code::SchemaTooLarge]);
    insta::assert_snapshot!(problems[0].message);
}
