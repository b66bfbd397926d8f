//! What is drawn of a graph, for every format: lanes, nodes and edges.

use kross_api::{Credentials, Published, SecretNamespace, TargetChoice};
use kross_graph::{Expression, Graph, Node, Placement, RemotePlacement, Source};
use kross_plan::{NodePlan, PlannedObject, Progress, Simulation};
use kross_value::Value;

/// A definition, or an instance of it.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The kind that the definition serves, or the instance.
    pub(super) title: String,
    /// The clusters.
    pub(super) lanes: Vec<String>,
    pub(super) nodes: Vec<Shown>,
    pub(super) edges: Vec<Edge>,
}

/// A resource in one cluster.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) lane: usize,
    pub(super) kind: String,
    pub(super) api_version: String,
    /// Only read, never written.
    pub(super) external: bool,
    /// The loops of a collection: `region in schema.spec.regions`.
    pub(super) each: Vec<String>,
    /// Whether it stands for several objects.
    pub(super) is_list: bool,
    /// When it exists.
    pub(super) conditions: Vec<String>,
    /// The objects of an instance.
    pub(super) objects: Vec<String>,
    /// Why it has no objects: it is skipped, waits or fails.
    pub(super) state: Option<String>,
}

/// One node reads another.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The expressions that read it.
    pub(super) expressions: Vec<String>,
}

/// The lane of the cluster that has the instance.
const HUB: &str = "hub";

impl View {
    pub(super) fn of_definition(graph: &Graph) -> Self {
        let instance = &graph.instance;
        let mut view = Self {
            title: format!("{}: {} ({}/{})", graph.name, instance.kind, instance.group, instance.version),
            ..Self::default()
        };
        for node in &graph.nodes {
            let lane = view.lane(placement(node));
            view.nodes.push(shown(node, lane));
        }
        view.finish(graph)
    }

    /// The objects of an instance: a collection over several clusters is one node in each of them.
    pub(super) fn of_instance(graph: &Graph, instance: &Value, simulation: &Simulation) -> Self {
        let name = instance.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
        let title = format!("{}: {} {name}", graph.name, graph.instance.kind);
        let mut view = Self { title, ..Self::default() };
        for (node, planned) in graph.nodes.iter().zip(&simulation.plan.nodes) {
            let mut placed: Vec<(String, Vec<String>)> = Vec::new();
            for object in &planned.objects {
                let cluster = cluster_of(simulation, object);
                let name = object.key.namespaced_name();
                match placed.iter_mut().find(|(known, _)| *known == cluster) {
                    Some((_, names)) => names.push(name),
                    None => placed.push((cluster, vec![name])),
                }
            }
            if placed.is_empty() {
                placed.push((placement(node), Vec::new()));
            }
            for (cluster, objects) in placed {
                let lane = view.lane(cluster);
                let state = state(planned).filter(|_| objects.is_empty());
                view.nodes.push(Shown { objects, state, ..shown(node, lane) });
            }
        }
        view.finish(graph)
    }

    fn lane(&mut self, name: String) -> usize {
        self.lanes.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.lanes.push(name);
            self.lanes.len() - 1
        })
    }

    fn finish(mut self, graph: &Graph) -> Self {
        for (to, node) in self.nodes.iter().enumerate() {
            let Some((_, reader)) = graph.find(&node.id) else { continue };
            for dependency in &reader.dependencies {
                let Some(read) = graph.node(dependency.node) else { continue };
                let mut expressions: Vec<String> = reader
                    .expressions()
                    .into_iter()
                    .filter(|expression| expression.uses(&read.id))
                    .map(written)
                    .collect();
                expressions.dedup();
                let sources = self.nodes.iter().enumerate().filter(|(_, node)| node.id == *read.id);
                for (from, _) in sources {
                    self.edges.push(Edge { from, to, expressions: expressions.clone() });
                }
            }
        }
        self
    }
}

/// The expression on one line.
fn written(expression: &Expression) -> String {
    format!("${{{}}}", one_line(&expression.source))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown(node: &Node, lane: usize) -> Shown {
    let each = match &node.source {
        Source::Collection { axes, .. } => {
            axes.iter().map(|axis| format!("{} in {}", axis.variable, one_line(&axis.items.source))).collect()
        }
        _ => Vec::new(),
    };
    Shown {
        id: node.id.to_string(),
        lane,
        kind: node.kind.kind.to_string(),
        api_version: node.kind.api_version(),
        external: node.is_external(),
        each,
        is_list: node.is_list(),
        conditions: node.include_when.iter().map(written).collect(),
        objects: Vec::new(),
        state: None,
    }
}

fn cluster_of(simulation: &Simulation, object: &PlannedObject) -> String {
    let used = simulation.plan.clusters.iter().find(|used| used.id == object.key.cluster);
    used.map_or_else(|| HUB.to_owned(), |used| used.reference.display.to_string())
}

/// Why a node has no objects.
fn state(planned: &NodePlan) -> Option<String> {
    let word = match &planned.progress {
        Progress::Ready | Progress::Applying => return None,
        Progress::Skipped(_) => "skipped",
        Progress::Failed(_) => "failed",
        _ => "pending",
    };
    let why = planned.progress.message().map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("{word}{why}"))
}

/// The cluster of a node as the definition writes it.
fn placement(node: &Node) -> String {
    match &node.placement {
        Placement::Local => HUB.to_owned(),
        Placement::Remote(remote) => remote_name(remote),
    }
}

fn remote_name(remote: &RemotePlacement) -> String {
    if let Some(fixed) = &remote.fixed {
        return fixed.display.clone();
    }
    match &remote.reference.credentials {
        Credentials::Secret(secret) => match &secret.namespace {
            SecretNamespace::Given(namespace) => format!("{}/{}", namespace.as_str(), secret.name.as_str()),
            SecretNamespace::Instance | SecretNamespace::System => secret.name.as_str().to_owned(),
        },
        Credentials::SecretByText(text) => text.as_str().to_owned(),
        Credentials::Published(Published { choice, .. }) => match choice {
            TargetChoice::Name(name) => format!("target {}", name.as_str()),
            TargetChoice::Selector(selector) => {
                let labels: Vec<String> = selector
                    .labels
                    .iter()
                    .map(|(label, value)| format!("{label}={}", value.as_str()))
                    .collect();
                format!("target with {}", labels.join(", "))
            }
        },
    }
}
