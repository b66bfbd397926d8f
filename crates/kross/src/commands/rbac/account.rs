//! The ServiceAccount of the instances: what it needs for the objects of a graph, and what the controller needs to act as it.

use std::fmt;

use kross_graph::{Field, Graph, Node, Placement, Source, Template};
use kross_value::Value;

use super::needs::{READ, escalation, instances, is_namespaced, literal, need_of};
use super::roles::{Need, Scope, Verb};

const GET: &[Verb] = &[Verb::Get];
const LIST: &[Verb] = &[Verb::List];
/// A server-side apply of an object that does not exist needs `create`.
const WRITE: &[Verb] = &[Verb::Get, Verb::Create, Verb::Patch, Verb::Delete];

/// The ServiceAccount of the instances of a graph.
pub(super) struct Account {
    /// Its name, if it does not depend on the instance.
    name: Option<String>,
    /// Where it is.
    scope: Scope,
}

impl Account {
    /// None if the controller itself reads and writes the objects.
    pub(super) fn of(graph: &Graph, default: Option<&str>) -> Option<Self> {
        match (&graph.account, default) {
            (Some(template), _) => {
                let namespace = template.namespace.as_ref().map(ToString::to_string);
                let scope = namespace.map_or(Scope::Instances, Scope::Namespace);
                Some(Self { name: literal(Some(&template.name)), scope })
            }
            (None, Some(name)) if graph.instance.namespaced => {
                Some(Self { name: Some(name.to_owned()), scope: Scope::Instances })
            }
            // A cluster-scoped instance has no default account, and is refused.
            (None, _) => None,
        }
    }

    /// What the controller needs to act as the account.
    pub(super) fn controller_needs(&self) -> Vec<Need> {
        let account = |verb: Verb, why: &str| {
            let need = Need::new("", "serviceaccounts", &[verb], why).named_by(self.name.clone());
            need.scoped(self.scope.clone())
        };
        let why = match self.name {
            Some(_) => "read and write the objects of instances as their ServiceAccount",
            None => {
                "read and write the objects of instances as their ServiceAccount, whose name depends on the instance"
            }
        };
        let deleted = "find out whether the ServiceAccount is being deleted with its namespace";
        vec![
            account(Verb::Impersonate, why),
            account(Verb::Get, deleted),
            Need::new("", "namespaces", GET, deleted).scoped(self.scope.clone()),
            Need::new(
                "authorization.k8s.io",
                "subjectaccessreviews",
                &[Verb::Create],
                "review what the ServiceAccount may read",
            ),
        ]
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.scope) {
            (Some(name), Scope::Namespace(namespace)) => write!(f, "ServiceAccount `{namespace}/{name}`"),
            (Some(name), _) => write!(f, "ServiceAccount `{name}`"),
            (None, _) => write!(f, "the ServiceAccounts"),
        }
    }
}

/// What the controller needs for objects that the account writes: it watches them, and deletes those in the namespace of the
/// instance if the account is deleted before.
pub(super) fn controller_needs_for(node: &Node, graph: &Graph) -> Vec<Need> {
    let id = &node.id;
    let mut needs = vec![need_of(&node.kind, READ, format!("watch `{id}` in all namespaces"))];
    if let Some(scope) = instances(graph).filter(|_| is_namespaced(&node.kind)) {
        let why =
            format!("delete `{id}`, or release it, when its namespace or the ServiceAccount is deleted");
        needs.push(need_of(&node.kind, &[Verb::Patch, Verb::Delete], why).scoped(scope));
    }
    needs
}

/// What the account needs for the objects of a graph.
pub(super) fn needs_of(graph: &Graph) -> Vec<Need> {
    let local = graph.nodes.iter().filter(|node| matches!(node.placement, Placement::Local));
    local.flat_map(|node| node_needs(node, graph)).collect()
}

fn node_needs(node: &Node, graph: &Graph) -> Vec<Need> {
    let id = &node.id;
    match &node.source {
        Source::Object(template) | Source::Collection { template, .. } => {
            let given = match template.get("metadata").and_then(|metadata| metadata.get("namespace")) {
                None => Given::Nothing,
                Some(Field::Literal(Value::String(namespace))) => Given::Literal(namespace.to_string()),
                Some(_) => Given::Expression,
            };
            let escalation = escalation(&node.kind);
            let why = format!("create, read, update and delete `{id}`{escalation}");
            vec![placed(node, graph, WRITE, (why, given))]
        }
        Source::External { name, namespace } => {
            let why = (format!("read `{id}`"), given(namespace.as_ref()));
            vec![placed(node, graph, GET, why).named_by(literal(Some(name)))]
        }
        Source::ExternalCollection { namespace, namespace_selector, .. } => {
            let given = match namespace {
                // Without a namespace it selects in all of them.
                None => return everywhere(node, namespace_selector.is_some()),
                Some(namespace) => given(Some(namespace)),
            };
            let mut needs = vec![placed(node, graph, LIST, (format!("read `{id}`"), given))];
            needs.extend(namespace_selector.as_ref().map(|_| selector_need(node)));
            needs
        }
    }
}

fn everywhere(node: &Node, selects_namespaces: bool) -> Vec<Need> {
    let need = need_of(&node.kind, LIST, format!("read `{}`", node.id));
    std::iter::once(need).chain(selects_namespaces.then(|| selector_need(node))).collect()
}

fn selector_need(node: &Node) -> Need {
    let why = format!("find the namespaces that the selector of `{}` matches", node.id);
    Need::new("", "namespaces", LIST, why)
}

/// The namespace that a definition gives an object.
enum Given {
    Nothing,
    Literal(String),
    Expression,
}

fn given(namespace: Option<&Template>) -> Given {
    match namespace {
        None => Given::Nothing,
        Some(template) => literal(Some(template)).map_or(Given::Expression, Given::Literal),
    }
}

/// A need where the objects are. In a namespace that depends on the instance, each namespace grants it for itself.
fn placed(node: &Node, graph: &Graph, verbs: &[Verb], (why, given): (String, Given)) -> Need {
    let need = |why: String| need_of(&node.kind, verbs, why);
    if !is_namespaced(&node.kind) {
        return need(why);
    }
    match given {
        Given::Literal(namespace) => need(why).within(Some(namespace), true),
        Given::Nothing => need(why).scoped(instances(graph).unwrap_or(Scope::Cluster)),
        Given::Expression => {
            need(format!("{why}; its namespace depends on the instance: bind the role there as well"))
                .scoped(Scope::Instances)
        }
    }
}
