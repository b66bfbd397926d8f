//! Warns where whoever writes an instance decides what the controller's rights are used for: the namespace of a credentials Secret,
//! and the Secret whose content reaches the status or another object.

use kross_api::{ClusterReference, Credentials, Scope};
use kross_cel::references::{PathSegment, Read};
use kross_diagnostics::{Code, Path, Place, Problem};

use super::Compiler;
use super::draft::Draft;
use super::status::Status;
use crate::expression::Expression;
use crate::graph::{Node, Placement, Source};

/// The fields of an object's metadata that say nothing about its content.
const NAMING_FIELDS: [&str; 6] =
    ["name", "namespace", "uid", "labels", "resourceVersion", "creationTimestamp"];

impl<'a> Compiler<'a> {
    /// Warns where an expression over the instance gives the namespace of the credentials of a cluster.
    pub(super) fn check_chosen_namespaces(&mut self, nodes: &[Node]) {
        for node in nodes {
            let Placement::Remote(remote) = &node.placement else { continue };
            let Some(written) = remote.reference.computed_namespace() else { continue };
            let compiled = remote.templates.iter().find(|(path, _)| *path == *written.path());
            let chosen = compiled.is_some_and(|(_, template)| {
                template.expressions().iter().any(|expression| is_chosen(expression, node))
            });
            if let (true, Ok(path)) = (chosen, written.path().parse::<Path>()) {
                self.report(chosen_namespace(&remote.reference, &path));
            }
        }
    }

    /// Warns where an expression over the instance says which Secret is read, and its content goes elsewhere.
    pub(super) fn check_chosen_secrets(&mut self, nodes: &[Node], drafts: &[Draft<'a>], status: &Status) {
        // Instances read what their ServiceAccount may read.
        if self.spec.access.is_some() {
            return;
        }
        for (node, draft) in nodes.iter().zip(drafts) {
            if !(node.is_external() && node.kind.group.is_empty() && node.kind.kind == *"Secret") {
                continue;
            }
            // Who may create instances without namespace is decided for the whole cluster, as the definition is.
            if self.scope == Scope::Cluster && has_literal_namespace(node) {
                continue;
            }
            let Some(choice) = choices(node).into_iter().find(|expression| is_chosen(expression, node))
            else {
                continue;
            };
            let variable = self.variable(draft);
            let in_status = status.template.expressions().into_iter().chain(&status.conditions);
            let readers = in_status.map(|expression| ("the status".to_owned(), expression)).chain(
                nodes.iter().flat_map(|reader| {
                    written(reader).into_iter().map(|expression| (format!("`{}`", reader.id), expression))
                }),
            );
            let mut found = readers.filter_map(|(reader, expression)| {
                reads_content(expression, &variable).then(|| (reader, expression.path.parse::<Path>().ok()))
            });
            let Some((reader, read)) = found.next() else { continue };
            self.report(chosen_secret(draft, choice, &reader, read));
        }
    }
}

fn chosen_namespace(reference: &ClusterReference, path: &Path) -> Problem {
    let (what, allowed) = match &reference.credentials {
        Credentials::Published(_) => {
            ("KubernetesTarget", "`kro.run/allowed-namespaces: \"*\"` on KubernetesTargets")
        }
        Credentials::Secret(_) | Credentials::SecretByText(_) => (
            "kubeconfig Secret",
            "`kro.run/allowed-namespaces` on Secrets that are not in the namespace of the instance or in `kro-system`",
        ),
    };
    let message = format!("instances choose the namespace of the {what}");
    Problem::new(Code::ChosenNamespace, Place::value(path), message)
        .help(format!("write the namespace literally; otherwise the controller requires {allowed}"))
}

fn chosen_secret(draft: &Draft<'_>, choice: &Expression, reader: &str, read: Option<Path>) -> Problem {
    let path = choice.path.parse::<Path>().unwrap_or_else(|_| draft.path.key("externalRef"));
    let message =
        format!("instances choose which Secret `{}` reads, and {reader} shows its content", draft.id());
    let problem = Problem::new(Code::ChosenSecret, Place::value(&path), message)
        .help("write the name and the namespace literally, read only `metadata` of the Secret, or set `spec.access` so that instances read what their ServiceAccount may read");
    match read {
        Some(read) => problem.also(Place::value(&read), "its content is read here"),
        None => problem,
    }
}

fn has_literal_namespace(node: &Node) -> bool {
    match &node.source {
        Source::External { namespace, .. } | Source::ExternalCollection { namespace, .. } => {
            namespace.as_ref().is_some_and(|namespace| namespace.expressions().is_empty())
        }
        Source::Object(_) | Source::Collection { .. } => false,
    }
}

/// The expressions that decide which objects an external reference reads.
fn choices(node: &Node) -> Vec<&Expression> {
    let templates = match &node.source {
        Source::External { name, namespace } => vec![Some(name), namespace.as_ref()],
        Source::ExternalCollection { selector, namespace, namespace_selector } => {
            vec![Some(selector), namespace.as_ref(), namespace_selector.as_ref()]
        }
        Source::Object(_) | Source::Collection { .. } => Vec::new(),
    };
    templates.into_iter().flatten().flat_map(|template| template.expressions()).collect()
}

/// The expressions whose values an object contains.
fn written(node: &Node) -> Vec<&Expression> {
    match &node.source {
        Source::Object(template) => template.expressions(),
        Source::Collection { axes, template } => {
            template.expressions().into_iter().chain(axes.iter().map(|axis| &axis.items)).collect()
        }
        Source::External { .. } | Source::ExternalCollection { .. } => Vec::new(),
    }
}

/// Whether whoever writes an instance decides about the value of an expression, also through a variable of `forEach`. The
/// namespace of the instance is no choice: RBAC says who may write instances there.
fn is_chosen(expression: &Expression, node: &Node) -> bool {
    let axes = match &node.source {
        Source::Collection { axes, .. } => axes.as_slice(),
        _ => &[],
    };
    expression.references.reads.iter().any(|read| {
        let axis = axes.iter().find(|axis| axis.variable == read.variable);
        is_free(read) || axis.is_some_and(|axis| axis.items.references.reads.iter().any(is_free))
    })
}

fn is_free(read: &Read) -> bool {
    let path: Vec<&str> = read.path.iter().map_while(field).collect();
    read.variable == *"schema" && !matches!(path.as_slice(), ["metadata", "namespace" | "uid"])
}

/// Whether an expression reads more of a variable than which object it is.
fn reads_content(expression: &Expression, variable: &str) -> bool {
    let mut reads =
        expression.references.reads.iter().filter(|read| *read.variable == *variable && !read.shallow);
    reads.any(|read| {
        let is_item = |segment: &&PathSegment| matches!(segment, PathSegment::Any | PathSegment::Index(_));
        let path: Vec<&str> = read.path.iter().skip_while(is_item).map_while(field).collect();
        match path.as_slice() {
            ["apiVersion" | "kind" | "type", ..] => false,
            ["metadata", field, ..] => !NAMING_FIELDS.contains(field),
            _ => true,
        }
    })
}

fn field(segment: &PathSegment) -> Option<&str> {
    match segment {
        PathSegment::Field(name) => Some(name),
        PathSegment::Index(_) | PathSegment::Any => None,
    }
}
