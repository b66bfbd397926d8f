//! Valid definitions: each compiles, and the resulting graph is a snapshot.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kross_api::yaml::{self, Document};
use kross_diagnostics::{Diagnostics, Sources, render};
use kross_graph::{Graph, Options, Placement, Resolvers, Source, is_definition, validate};
use kross_schema::{Bundle, CrdSchemas, Overlay, SchemaResolver};

struct Schemas(Overlay);

impl Resolvers for Schemas {
    fn local(&self) -> &dyn SchemaResolver {
        &self.0
    }
}

fn read(sources: &mut Sources, path: &Path) -> Vec<Document> {
    let mut found = Diagnostics::new();
    let name = path.file_name().unwrap().to_str().unwrap();
    let documents =
        yaml::parse(sources, name, fs::read_to_string(path).unwrap(), &yaml::Limits::default(), &mut found);
    assert!(found.is_empty(), "{}", render::lines(&found, sources));
    documents
}

fn folder(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn schemas() -> Schemas {
    let crds = CrdSchemas::new();
    for file in folder("tests/crds") {
        for document in read(&mut Sources::new(), &file) {
            crds.insert(document.value()).unwrap();
        }
    }
    Schemas(Overlay::new(vec![Arc::new(crds), Bundle::latest()]))
}

/// The graph as readable text.
fn describe(graph: &Graph) -> String {
    let mut text = String::new();
    let instance = &graph.instance;
    writeln!(
        text,
        "{}.{}/{} {} namespaced={}",
        instance.plural, instance.group, instance.version, instance.kind, instance.namespaced
    )
    .unwrap();
    writeln!(
        text,
        "order: {}",
        graph.topological_order().map(|id| id.as_str()).collect::<Vec<_>>().join(" ")
    )
    .unwrap();
    for node in &graph.nodes {
        let source = match &node.source {
            Source::Object(_) => "object",
            Source::Collection { .. } => "collection",
            Source::External { .. } => "external",
            Source::ExternalCollection { .. } => "external collection",
        };
        let place = match &node.placement {
            Placement::Local => "local".to_owned(),
            Placement::Remote(remote) => {
                let inherited = if remote.inherited { "inherited " } else { "" };
                let cluster = remote
                    .fixed
                    .as_ref()
                    .map_or_else(|| "parameterized".to_owned(), |fixed| fixed.display.clone());
                let poll = if remote.reference.poll.is_some() { ", polled" } else { "" };
                format!("{inherited}{cluster}{poll}")
            }
        };
        let ObjectKindText(kind) = ObjectKindText::of(node);
        writeln!(
            text,
            "{}: {source} {kind} in {place}, layer {}, apply-order {}",
            node.id, node.layer, node.apply_order
        )
        .unwrap();
        for dependency in &node.dependencies {
            writeln!(
                text,
                "  reads {}: {}",
                graph.node(dependency.node).unwrap().id,
                dependency.fields.join(", ")
            )
            .unwrap();
        }
        for condition in node.include_when.iter().chain(&node.ready_when) {
            writeln!(
                text,
                "  {}: {} -> {}",
                condition.path.rsplit('.').next().unwrap(),
                condition.source,
                condition.result
            )
            .unwrap();
        }
    }
    for field in graph.status.expressions() {
        writeln!(text, "{}: {} -> {}", field.path, field.source, field.result).unwrap();
    }
    for condition in &graph.conditions {
        writeln!(text, "{}: {} -> {}", condition.path, condition.source, condition.result).unwrap();
    }
    text
}

struct ObjectKindText(String);

impl ObjectKindText {
    fn of(node: &kross_graph::Node) -> Self {
        Self(format!("{} {}", node.kind.api_version(), node.kind.kind))
    }
}

#[test]
fn every_definition_compiles_to_the_graph_in_its_snapshot() {
    let schemas = schemas();
    for file in folder("tests/definitions") {
        let mut sources = Sources::new();
        let mut text = String::new();
        for document in read(&mut sources, &file).iter().filter(|document| is_definition(document)) {
            let validation = validate(document, &schemas, &Options::default());
            text += &render::lines(&validation.diagnostics, &sources);
            if let Some(graph) = &validation.graph {
                text += &describe(graph);
            }
        }
        insta::assert_snapshot!(file.file_stem().unwrap().to_str().unwrap(), text);
    }
}

/// A remote cluster for static references, with other kinds than the local one.
struct TwoClusters {
    local: Overlay,
    remote: Option<Overlay>,
}

impl Resolvers for TwoClusters {
    fn local(&self) -> &dyn SchemaResolver {
        &self.local
    }

    fn remote(&self, cluster: &kross_api::ResolvedCluster) -> Option<&dyn SchemaResolver> {
        assert_eq!(cluster.display, "data-cluster (default/data-cluster-kubeconfig)");
        self.remote.as_ref().map(|remote| remote as &dyn SchemaResolver)
    }
}

fn cross_cluster(schemas: &TwoClusters) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions/cross-cluster-app.yaml");
    let mut sources = Sources::new();
    let documents = read(&mut sources, &file);
    render::lines(&validate(&documents[0], schemas, &Options::default()).diagnostics, &sources)
}

#[test]
fn a_resource_in_a_static_cluster_is_checked_against_the_schemas_of_that_cluster() {
    let without = || Overlay::new(vec![Bundle::latest()]);
    let with = || schemas().0;
    // The Deployment of the proposal is incomplete.
    let warning = "cross-cluster-app.yaml:33:9: warning[K0712]: the required field `selector` is missing\n";
    assert_eq!(cross_cluster(&TwoClusters { local: without(), remote: Some(with()) }), warning);
    let found = cross_cluster(&TwoClusters { local: with(), remote: Some(without()) });
    assert!(found.contains("error[K0804]: unknown kind `Database` in `db.example.com/v1`"), "{found}");
    // An unreachable cluster is not an error in the definition.
    assert_eq!(cross_cluster(&TwoClusters { local: without(), remote: None }), warning);
}

#[test]
fn a_graph_has_the_crd_of_its_instances_unless_the_kind_exists() {
    let schemas = schemas();
    let graph = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions").join(name);
        let mut sources = Sources::new();
        validate(&read(&mut sources, &file)[0], &schemas, &Options::default()).graph.unwrap()
    };
    let crd = graph("web-application.yaml").crd.unwrap();
    assert_eq!(crd.at(&["metadata", "name"]).unwrap().as_str(), Some("webapplications.platform.example.com"));
    let status = ["spec", "versions", "0", "schema", "openAPIV3Schema", "properties", "status", "properties"];
    let status = crd.at(&status).unwrap();
    assert_eq!(status.at(&["availableReplicas", "type"]).unwrap().as_str(), Some("integer"));
    assert_eq!(status.at(&["addresses", "items", "type"]).unwrap().as_str(), Some("string"));
    let existing = graph("existing-kind.yaml");
    assert!(existing.crd.is_none() && existing.instance.external);
}

#[test]
fn instances_of_an_existing_kind_have_the_scope_of_that_kind() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions/existing-kind.yaml");
    let text =
        fs::read_to_string(file).unwrap().replace("          namespace: ${schema.metadata.name}\n", "");
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    let documents = yaml::parse(&mut sources, "a.yaml", text, &yaml::Limits::default(), &mut found);
    let found =
        render::lines(&validate(&documents[0], &schemas(), &Options::default()).diagnostics, &sources);
    assert!(found.contains("error[K0724]: `NetworkPolicy` needs a namespace"), "{found}");
}
