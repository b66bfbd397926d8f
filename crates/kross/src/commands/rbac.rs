//! Turns definitions into the RBAC rules that their graphs need at least: on the hub, or in the clusters that they reference.
//! Prints YAML with the reason of every rule.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kross_diagnostics::render::Format;
use kross_diagnostics::{Diagnostics, Sources};
use kross_graph::{Graph, Options, is_definition, validate};
use serde_json::Value as Json;

mod account;
mod needs;
mod roles;

use crate::input::{Input, SchemaArguments, Schemas};
use crate::output::{Outcome, Output};
use account::Account;
use roles::{Roles, Subject};

/// The roles for publishing, claiming and consuming clusters.
const TARGET_ROLES: &str = include_str!("../../../../deploy/target-roles.yaml");

const EXAMPLES: &str = "\
Examples:
  # Print what the controller needs on the hub for a definition
  kross rbac shop.yaml | kubectl apply -f -

  # Print what a kubeconfig needs in remote clusters, bound to its user
  kross rbac --remote --subject User:kross shop.yaml";

/// Arguments of `kross rbac`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Definitions: files, folders, or `-` for standard input
    #[arg(value_name = "PATH", required_unless_present = "targets")]
    paths: Vec<PathBuf>,
    /// Print the roles for publishing, claiming and consuming clusters, for users and for the controller
    #[arg(long, exclusive = true)]
    targets: bool,
    /// Print the rules that kubeconfigs need in remote clusters, instead of those of the controller on the hub
    #[arg(long, conflicts_with = "account")]
    remote: bool,
    /// Print the rules that the ServiceAccount of the instances (`spec.access`) needs on the hub, instead of those of the
    /// controller
    #[arg(long)]
    account: bool,
    /// ServiceAccount of instances whose definition has no `access`, as given to the controller
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,
    /// Bind the roles to `User:NAME`, `Group:NAME` or `ServiceAccount:NAMESPACE/NAME` (default: no bindings)
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<Subject>,
    /// Name of the roles (default: `kross-` and the name of the definition)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    schemas: SchemaArguments,
}

/// Prints the roles.
///
/// # Errors
/// A path cannot be read, or no document is a definition.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { paths, targets, remote, account, default_service_account, subject, name, schemas } =
        arguments;
    if *targets {
        output.data(TARGET_ROLES.trim_end())?;
        return Ok(Outcome::Success);
    }
    let mut input = Input::documents(paths)?;
    let schemas = input.schemas(schemas)?;
    let (graphs, mut diagnostics, sources) = compiled(input, &schemas);
    if diagnostics.has_errors() {
        return Ok(report(&mut diagnostics, &sources, output));
    }
    if graphs.is_empty() {
        anyhow::bail!("no ResourceGraphDefinition found");
    }
    let name = name.clone().unwrap_or_else(|| match graphs.as_slice() {
        [graph] => format!("kross-{}", graph.name),
        _ => "kross".to_owned(),
    });
    let default = default_service_account.as_deref();
    let texts = if *remote {
        remote_roles(&graphs, &name, subject.as_ref())
    } else if *account {
        account_roles(&graphs, &format!("{name}-account"), subject.as_ref(), default)
    } else {
        hub_roles(&graphs, &name, subject.as_ref(), default)
    };
    if texts.is_empty() && *account {
        output.note(
            "no ServiceAccount needs rules: no definition has `access`; see also `--default-service-account`",
        );
        return Ok(Outcome::Success);
    }
    if texts.is_empty() {
        output.note("no rules needed in remote clusters: no resource has a cluster reference");
        return Ok(Outcome::Success);
    }
    output.data(texts.join("---\n").trim_end())?;
    Ok(Outcome::Success)
}

/// Compiles the definitions among the documents.
fn compiled(input: Input, schemas: &Schemas) -> (Vec<Graph>, Diagnostics, Sources) {
    let Input { sources, documents, mut diagnostics, empty: _ } = input;
    let mut graphs = Vec::new();
    for document in documents.iter().filter(|document| is_definition(document)) {
        let validation = validate(document, schemas, &Options::default());
        diagnostics.extend(validation.diagnostics);
        graphs.extend(validation.graph.map(|graph| schemas.with_known_kinds(graph)));
    }
    (graphs, diagnostics, sources)
}

/// Why no rules can be derived.
#[derive(Debug)]
pub(super) enum Underivable {
    /// A definition has errors: the diagnostics as text.
    Diagnostics(String),
    /// There is no definition.
    NoDefinition,
}

/// The rules of the kubeconfig in a Secret, given by namespace and name, in its cluster: for references that lead to this Secret, and
/// for those that depend on the instance and so may lead there. By namespace; those of the whole cluster have none.
///
/// # Errors
/// There is no definition, or one has errors.
pub(super) fn remote_rules(
    input: Input,
    schemas: &Schemas,
    secret: (&str, &str),
) -> Result<BTreeMap<Option<String>, Vec<Json>>, Underivable> {
    let (graphs, mut diagnostics, sources) = compiled(input, schemas);
    if diagnostics.has_errors() {
        diagnostics.sort();
        return Err(Underivable::Diagnostics(Format::Plain.render(&diagnostics, &sources)));
    }
    if graphs.is_empty() {
        return Err(Underivable::NoDefinition);
    }
    let mut roles = Roles::default();
    for graph in &graphs {
        roles.extend(needs::in_the_cluster_of(graph, secret));
    }
    Ok(roles.rules())
}

fn report(diagnostics: &mut Diagnostics, sources: &Sources, output: &mut Output) -> Outcome {
    diagnostics.sort();
    // Standard output is empty, so that a pipe into kubectl applies nothing.
    output.note(output.note_format().render(diagnostics, sources).trim_end());
    output.note("cannot derive RBAC rules from a definition with errors");
    Outcome::No
}

/// The rules of the controller on the hub, for all graphs together.
fn hub_roles(
    graphs: &[Graph],
    name: &str,
    subject: Option<&Subject>,
    default_account: Option<&str>,
) -> Vec<String> {
    let mut roles = Roles::default();
    for graph in graphs {
        roles.extend(needs::on_the_hub(graph, Account::of(graph, default_account).as_ref()));
    }
    let names: Vec<String> = graphs.iter().map(|graph| format!("`{}`", graph.name)).collect();
    let header = format!(
        "# RBAC rules of the controller on the hub, for {}.\n\
         # Discovery, OpenAPI and self-subject access reviews need no rules: every authenticated user may use them.\n",
        names.join(", ")
    );
    vec![roles.print(&header, name, subject)]
}

/// The rules of the ServiceAccounts of the instances on the hub, for all graphs that have one.
fn account_roles(
    graphs: &[Graph],
    name: &str,
    subject: Option<&Subject>,
    default_account: Option<&str>,
) -> Vec<String> {
    let mut roles = Roles::default();
    let mut names = Vec::new();
    for graph in graphs {
        if let Some(account) = Account::of(graph, default_account) {
            roles.extend(account::needs_of(graph));
            names.push(format!("{account} of `{}`", graph.name));
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    let header = format!("# RBAC rules on the hub of {}.\n", names.join(", "));
    vec![roles.print(&header, name, subject)]
}

/// The rules of each kubeconfig in its cluster. Two references may lead to two clusters, so each has roles of its own, and
/// they may lead to one cluster, so the roles have different names.
fn remote_roles(graphs: &[Graph], name: &str, subject: Option<&Subject>) -> Vec<String> {
    let mut clusters: BTreeMap<String, Roles> = BTreeMap::new();
    for graph in graphs {
        for (cluster, needs) in needs::in_remote_clusters(graph) {
            clusters.entry(cluster).or_default().extend(needs);
        }
    }
    let names = role_names(name, clusters.keys().map(String::as_str));
    let print = |((cluster, roles), name): ((String, Roles), String)| {
        let header = format!("# RBAC rules of the kubeconfig in {cluster}, in its cluster.\n");
        roles.print(&header, &name, subject)
    };
    clusters.into_iter().zip(names).map(print).collect()
}

/// A name for the roles of each cluster: the given one if there is only one cluster, else with the reference appended.
fn role_names<'c>(name: &str, clusters: impl ExactSizeIterator<Item = &'c str>) -> Vec<String> {
    if clusters.len() < 2 {
        return vec![name.to_owned()];
    }
    let mut names: Vec<String> = Vec::new();
    for cluster in clusters {
        let words = cluster.trim_start_matches("Secret ").to_lowercase();
        let words = words.split(|character: char| !character.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let wanted = format!("{name}-{}", words.join("-"));
        let taken = names.iter().filter(|known| **known == wanted).count();
        names.push(if taken == 0 { wanted } else { format!("{wanted}-{}", names.len()) });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roles_of_several_clusters_have_different_names() {
        assert_eq!(role_names("a", ["Secret `x/eu`"].into_iter()), ["a"]);
        let clusters = ["Secret `x/${schema.spec.region}`", "Secret `x/eu`", "Secret `x/EU`"];
        assert_eq!(role_names("a", clusters.into_iter()), ["a-x-schema-spec-region", "a-x-eu", "a-x-eu-2"]);
    }
}
