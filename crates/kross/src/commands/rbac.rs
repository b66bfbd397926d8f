//! Turns definitions into the least privileges that their graphs need: on the hub, or over there where a cluster reference
//! leads. Offline, as YAML with the reason of every rule.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kross_diagnostics::{Diagnostics, Sources};
use kross_graph::{Graph, KnownKind, Options, Resolvers, is_definition, validate};
use kross_schema::{GroupVersionKind, SchemaResolver};

mod needs;
mod roles;

use crate::input::{Input, SchemaArguments};
use crate::output::{Outcome, Output};
use roles::{Roles, Subject};

/// What to derive.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Definitions: files, folders, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// What kubeconfigs need in the clusters that references lead to, instead of what the controller needs here
    #[arg(long)]
    remote: bool,
    /// Who gets the privileges: `User:NAME`, `Group:NAME` or `ServiceAccount:NAMESPACE/NAME`. Left out: roles without bindings
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<Subject>,
    /// The name of the roles. Left out: `kross-` and the name of the definition
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    schemas: SchemaArguments,
}

/// Prints the roles.
///
/// # Errors
/// A path cannot be read, or there is no definition.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { paths, remote, subject, name, schemas } = arguments;
    let mut input = Input::documents(paths)?;
    let schemas = input.schemas(schemas)?;
    let Input { sources, documents, mut diagnostics } = input;
    let mut graphs = Vec::new();
    for document in documents.iter().filter(|document| is_definition(document)) {
        let validation = validate(document, &schemas, &Options::default());
        diagnostics.extend(validation.diagnostics);
        graphs.extend(validation.graph.map(|graph| with_known_kinds(graph, schemas.local())));
    }
    if diagnostics.has_errors() {
        return Ok(mistakes(&mut diagnostics, &sources, output));
    }
    if graphs.is_empty() {
        anyhow::bail!("there is no ResourceGraphDefinition among the documents");
    }
    let name = name.clone().unwrap_or_else(|| match graphs.as_slice() {
        [graph] => format!("kross-{}", graph.name),
        _ => "kross".to_owned(),
    });
    let texts = if *remote {
        over_there(&graphs, &name, subject.as_ref())
    } else {
        here(&graphs, &name, subject.as_ref())
    };
    if texts.is_empty() {
        output.note("nothing is needed over there: no resource has a cluster reference");
        return Ok(Outcome::Success);
    }
    output.data(texts.join("---\n").trim_end())?;
    Ok(Outcome::Success)
}

/// The graph with what these schemas know of kinds that the compiler leaves open, because their cluster is not known yet.
fn with_known_kinds(mut graph: Graph, schemas: &dyn SchemaResolver) -> Graph {
    for kind in graph.nodes.iter_mut().map(|node| &mut node.kind).filter(|kind| kind.known.is_none()) {
        let resolved = schemas.resolve(&GroupVersionKind::new(&kind.api_version(), &kind.kind));
        kind.known = resolved
            .map(|resolved| KnownKind { plural: resolved.plural.clone(), namespaced: resolved.namespaced });
    }
    graph
}

fn mistakes(diagnostics: &mut Diagnostics, sources: &Sources, output: &mut Output) -> Outcome {
    diagnostics.sort();
    // Whoever pipes roles on gets roles or nothing.
    output.note(output.note_format().render(diagnostics, sources).trim_end());
    output.note("privileges are derived from definitions without mistakes");
    Outcome::No
}

/// What the controller needs on the hub, for all of the graphs together.
fn here(graphs: &[Graph], name: &str, subject: Option<&Subject>) -> Vec<String> {
    let mut roles = Roles::default();
    for graph in graphs {
        roles.extend(needs::on_the_hub(graph));
    }
    let names: Vec<String> = graphs.iter().map(|graph| format!("`{}`", graph.name)).collect();
    let header = format!(
        "# What the controller needs on the hub for {}.\n\
         # Discovery, OpenAPI and questions about one's own rights are open to everybody who is authenticated.\n",
        names.join(", ")
    );
    vec![roles.print(&header, name, subject)]
}

/// What a kubeconfig needs, for each cluster reference on its own: its cluster may be another.
fn over_there(graphs: &[Graph], name: &str, subject: Option<&Subject>) -> Vec<String> {
    let mut clusters: BTreeMap<String, Roles> = BTreeMap::new();
    for graph in graphs {
        for (cluster, needs) in needs::over_there(graph) {
            clusters.entry(cluster).or_default().extend(needs);
        }
    }
    let print = |(cluster, roles): (String, Roles)| {
        roles.print(&format!("# What the kubeconfig in {cluster} needs in its cluster.\n"), name, subject)
    };
    clusters.into_iter().map(print).collect()
}
