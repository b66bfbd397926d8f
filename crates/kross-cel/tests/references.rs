//! The references of expressions: what they read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_cel::Env;
use kross_cel::references::References;
use kross_cel::types::Type;

fn env() -> Env {
    Env::standard().with_variables([
        ("schema", Type::Dyn),
        ("db", Type::Dyn),
        ("labels", Type::map(Type::String, Type::Dyn)),
        ("items", Type::list(Type::Dyn)),
        ("a.b.c", Type::Dyn),
        ("lists", Type::Dyn),
    ])
}

fn reads(text: &str) -> Vec<String> {
    let checked = env().compile(text).unwrap_or_else(|issues| panic!("{text}: {issues:?}"));
    let mut reads: Vec<String> = References::of(&checked)
        .reads
        .iter()
        .map(|read| {
            let (optional, shallow) =
                (if read.optional { "?" } else { "" }, if read.shallow { "#" } else { "" });
            format!("{read}{optional}{shallow}")
        })
        .collect();
    reads.sort();
    reads
}

fn variables(text: &str) -> Vec<String> {
    let checked = env().compile(text).unwrap_or_else(|issues| panic!("{text}: {issues:?}"));
    References::of(&checked).variables.iter().map(|mention| mention.variable.to_string()).collect()
}

#[test]
fn fields_and_constant_indexes_form_one_path() {
    assert_eq!(
        reads("schema.spec.name + '-' + string(schema.spec.replicas)"),
        ["schema.spec.name", "schema.spec.replicas"]
    );
    assert_eq!(reads("db.status.ports[0].port"), ["db.status.ports[0].port"]);
    assert_eq!(reads("labels['app.kubernetes.io/name']"), [r#"labels["app.kubernetes.io/name"]"#]);
    assert_eq!(reads("schema"), ["schema"]);
    assert_eq!(reads("a.b.c.d"), ["a.b.c.d"]);
    assert_eq!(reads("schema.spec[schema.spec.key].name"), ["schema.spec.key", "schema.spec[*].name"]);
    assert_eq!(reads("size(schema.spec.items)"), ["schema.spec.items#"]);
}

#[test]
fn optional_reads_are_marked() {
    assert_eq!(reads("has(db.status.endpoint) ? 1 : 2"), ["db.status.endpoint?#"]);
    assert_eq!(reads("db.?status.endpoint.orValue('none')"), ["db.status.endpoint?"]);
    assert_eq!(reads("labels[?'a'].orValue(db.x)"), ["db.x", "labels.a?"]);
    assert_eq!(reads("has(db.x) ? db.x : ''"), ["db.x"]);
}

#[test]
fn variables_of_macros_refer_to_the_elements_of_the_range() {
    assert_eq!(reads("items.map(i, i.name)"), ["items#", "items[*].name"]);
    assert_eq!(reads("items.filter(i, i.on).map(i, i.name)[0]"), ["items#", "items[*].name", "items[*].on"]);
    assert_eq!(reads("items.filter(i, i.on)[0].name"), ["items#", "items[*].name", "items[*].on"]);
    assert_eq!(
        reads("items.exists(i, i.ports.exists(p, p.name == schema.spec.name))"),
        ["items#", "items[*].ports#", "items[*].ports[*].name", "schema.spec.name"]
    );
    assert_eq!(reads("items.all(i, v, v.x > i)"), ["items#", "items[*].x"]);
    assert_eq!(reads("labels.map(k, k)"), ["labels#"]);
    assert_eq!(
        reads("cel.bind(s, schema.spec, s.name + s.suffix)"),
        ["schema.spec.name", "schema.spec.suffix"]
    );
    assert_eq!(reads("db.?status.optMap(s, s.endpoint).orValue('')"), ["db.status.endpoint?"]);
    assert_eq!(reads("[db, schema].map(o, o.metadata.name)"), ["db.metadata.name", "schema.metadata.name"]);
    assert_eq!(reads("{'a': db}.a.status"), ["db.status"]);
    assert_eq!(
        reads("(schema.spec.x ? db : schema).metadata.name"),
        ["db.metadata.name", "schema.metadata.name", "schema.spec.x"]
    );
}

#[test]
fn variables_of_macros_and_namespaces_are_not_references() {
    assert_eq!(variables("items.map(schema, schema.name)"), ["items"]);
    assert_eq!(variables("lists.range(3).map(i, items[i])"), ["items"]);
    assert_eq!(variables("lists.name + schema.name"), ["lists", "schema"]);
    assert_eq!(variables("cel.bind(x, db.y, 1)"), ["db"]);
    assert_eq!(reads("cel.bind(x, db.y, 1)"), Vec::<String>::new());
    assert_eq!(variables("type(schema) == int"), ["schema"]);
}

#[test]
fn values_with_too_many_places_are_read_as_a_whole() {
    let mut text = "x39.v".to_owned();
    for level in (0..40).rev() {
        let value = if level == 0 { "db".to_owned() } else { format!("x{}", level - 1) };
        text = format!("cel.bind(x{level}, true ? {value}.l : {value}.r, {text})");
    }
    assert!(reads(&text).len() < 2_000);
}
