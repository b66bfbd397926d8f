//! Every error and warning that a definition can have, in a file named after its code: the file reports that code and no
//! other, and the rendered diagnostic is a snapshot.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use kross_api::yaml;
use kross_diagnostics::{Code, Diagnostics, Sources, render};
use kross_graph::{Options, ReportAs, Resolvers, is_definition, validate};
use kross_schema::{Bundle, CrdSchemas, Overlay, SchemaResolver};

struct Schemas(Overlay);

impl Resolvers for Schemas {
    fn local(&self) -> &dyn SchemaResolver {
        &self.0
    }
}

/// The built-in kinds, and a kind whose fields have validation rules.
fn schemas() -> Schemas {
    let crds = CrdSchemas::new();
    let text = include_str!("crds/backup.yaml");
    let documents = yaml::parse(
        &mut Sources::new(),
        "backup.yaml",
        text,
        &yaml::Limits::default(),
        &mut Diagnostics::new(),
    );
    crds.insert(documents[0].value()).unwrap();
    Schemas(Overlay::new(vec![Arc::new(crds), Bundle::latest()]))
}

/// What `kross validate` does with one file.
fn diagnose(sources: &mut Sources, name: &str, bytes: &[u8]) -> Diagnostics {
    let mut found = Diagnostics::new();
    let documents = yaml::parse_bytes(sources, name, bytes, &yaml::Limits::default(), &mut found);
    for document in documents.iter().filter(|document| is_definition(document)) {
        let options = Options { deferred: ReportAs::Error, ..Options::default() };
        found.extend(validate(document, &schemas(), &options).diagnostics);
    }
    found.sort();
    found
}

fn files() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn every_file_reports_the_code_it_is_named_after_and_no_other() {
    let mut wrong = Vec::new();
    for (name, bytes) in files() {
        let mut sources = Sources::new();
        let found = diagnose(&mut sources, &name, &bytes);
        let codes: BTreeSet<&str> = found.iter().map(|diagnostic| diagnostic.code.id()).collect();
        if codes.iter().ne([&name[..5]].iter()) {
            wrong.push(format!(
                "{name} reports {codes:?}\n{}",
                render::terminal(&found, &sources, render::Colour::Never, None)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\n{} files", wrong.join("\n"), wrong.len());
}

#[test]
fn a_definition_with_only_warnings_compiles() {
    let mut warned = 0;
    for (name, bytes) in files() {
        let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
        let documents = yaml::parse_bytes(&mut sources, &*name, &bytes, &yaml::Limits::default(), &mut found);
        for document in documents.iter().filter(|document| is_definition(document)) {
            let validation = validate(document, &schemas(), &Options::default());
            let is_wrong = found.has_errors() || validation.diagnostics.has_errors();
            assert!(is_wrong || validation.graph.is_some(), "{name}");
            warned += usize::from(!is_wrong);
        }
    }
    assert!(warned >= 4, "{warned}");
}

#[test]
fn every_diagnostic_renders_as_in_its_snapshot() {
    for (name, bytes) in files() {
        let mut sources = Sources::new();
        let found = diagnose(&mut sources, &name, &bytes);
        insta::assert_snapshot!(
            name.trim_end_matches(".yaml"),
            render::terminal(&found, &sources, render::Colour::Never, None)
        );
    }
}

#[test]
fn every_code_of_a_definition_has_a_file() {
    // Reported when a file is read or formatted, about an instance, when an expression is evaluated, or when two CRDs are compared; tested there.
    let elsewhere = ["K0110", "K0111", "K0115", "K0503", "K0614", "K0711", "K0713"];
    let files = files();
    let tested = |code: &Code| files.iter().any(|(name, _)| name.starts_with(code.id()));
    let missing: Vec<&str> = Code::ALL
        .iter()
        .filter(|code| code.id() < "K1000" && !elsewhere.contains(&code.id()) && !tested(code))
        .map(|code| code.id())
        .collect();
    assert!(missing.is_empty(), "no file for {missing:?}");
}

#[test]
fn nothing_is_reported_where_the_definition_decides_which_secrets_are_used() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let cases = [
        ("K0813-copy.yaml", "${schema.spec.namespace}", "${schema.metadata.namespace}"),
        ("K0813-copy.yaml", "${schema.spec.namespace}", "platform"),
        ("K0813-copy.yaml", "  resources:\n", "  access: {serviceAccountName: reader}\n  resources:\n"),
        (
            "K0813-copy.yaml",
            "data: ${credentials.data}",
            "stringData: {secret: \"${credentials.metadata.name}\"}",
        ),
        ("K0925-short.yaml", "${schema.spec.namespace}", "${schema.metadata.namespace}"),
        ("K0925-short.yaml", "${schema.spec.namespace}", "platform"),
        ("K0925-text.yaml", "kubeconfigSecretRef: ${region}", "kubeconfigSecretRef: platform/${region}"),
    ];
    for (name, from, to) in cases {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        assert!(text.contains(from), "{name}: {from}");
        let mut sources = Sources::new();
        let found = diagnose(&mut sources, name, text.replace(from, to).as_bytes());
        assert!(found.is_empty(), "{to}: {}", render::lines(&found, &sources));
    }
}
