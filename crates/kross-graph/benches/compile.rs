//! Measures how long a definition with 100 resources takes to compile, with its schemas loaded. Prints a name and the best
//! time of several runs in nanoseconds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use kross_api::yaml;
use kross_diagnostics::{Diagnostics, Sources};
use kross_graph::{Definition, Options, Resolvers, compile, load};
use kross_schema::{Bundle, SchemaResolver};

struct BuiltIn(Arc<Bundle>);

impl Resolvers for BuiltIn {
    fn local(&self) -> &dyn SchemaResolver {
        &*self.0
    }
}

/// A chain of Deployments, Services and ConfigMaps, each reading the one before.
fn definition(resources: usize) -> String {
    let mut text = "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: large}\nspec:\n  schema:\n    \
        kind: Large\n    apiVersion: v1alpha1\n    spec: {name: string, replicas: integer | default=3, image: string}\n  resources:\n"
        .to_owned();
    for index in 0..resources {
        let before = index.saturating_sub(1);
        let name =
            if index == 0 { "schema.metadata.name".to_owned() } else { format!("r{before}.metadata.name") };
        let body = match index % 3 {
            0 => {
                "apiVersion: v1, kind: ConfigMap, data: {name: \"${schema.spec.name}\", replicas: \"${string(schema.spec.replicas)}\"}"
            }
            1 => {
                "apiVersion: apps/v1, kind: Deployment, spec: {replicas: \"${schema.spec.replicas}\", selector: {matchLabels: {app: \"${schema.spec.name}\"}}, \
                template: {metadata: {labels: {app: \"${schema.spec.name}\"}}, spec: {containers: [{name: app, image: \"${schema.spec.image}\"}]}}}"
            }
            _ => {
                "apiVersion: v1, kind: Service, spec: {selector: {app: \"${schema.spec.name}\"}, ports: [{port: 80, targetPort: 8080}]}"
            }
        };
        writeln!(
            text,
            "    - {{id: r{index}, template: {{metadata: {{name: \"${{{name}}}-{index}\"}}, {body}}}}}"
        )
        .unwrap();
    }
    text
}

fn main() {
    let mut found = Diagnostics::new();
    let documents =
        yaml::parse(&mut Sources::new(), "large.yaml", definition(100), &yaml::Limits::default(), &mut found);
    let document = documents.first().unwrap();
    let loaded = load(document, &mut found).unwrap();
    assert!(found.is_empty(), "{found:?}");
    let schemas = BuiltIn(Bundle::latest());
    let mut best = u128::MAX;
    for _ in 0..50 {
        let start = Instant::now();
        let definition = Definition { name: "large", spec: &loaded.spec, document: None };
        let graph = compile(definition, &schemas, &Options::default()).unwrap();
        best = best.min(start.elapsed().as_nanos());
        assert_eq!(graph.nodes.len(), 100);
    }
    println!("compile_100 {best}");
}
