//! What a step of a test is checked against: the simulated world after it, and what the controller did.

use kross_api::ObjectKey;
use kross_api::yaml::Document;
use kross_diagnostics::{Diagnostic, Path, Problem};
use kross_graph::Graph;
use kross_plan::simulate::{Action, ActionKind, Location, Reconcile, Simulator};
use kross_plan::{NodePlan, Progress, Skip, Wait};
use kross_value::{Text, Value};

use super::expectation::{Done, Named};

/// The world after a step.
pub(super) struct Situation<'s> {
    pub(super) graph: &'s Graph,
    /// The definition, for places in it.
    pub(super) definition: &'s Document,
    pub(super) simulator: &'s Simulator,
    pub(super) reconcile: &'s Reconcile,
    /// What the controller did in this step.
    pub(super) actions: &'s [Action],
}

/// An expectation that is not met: a mistake at a place in the fixture, with the place in the definition that explains it.
#[derive(Clone, Debug)]
pub(super) struct Unmet {
    pub(super) problem: Problem,
    pub(super) cause: Option<Cause>,
}

/// A place in a definition, with what it led to.
#[derive(Clone, Debug)]
pub(super) struct Cause {
    pub(super) path: Path,
    pub(super) text: String,
}

impl Unmet {
    pub(super) fn new(problem: Problem) -> Self {
        Self { problem, cause: None }
    }

    pub(super) fn because(mut self, cause: Option<Cause>) -> Self {
        self.cause = cause;
        self
    }

    /// The diagnostic that shows both places.
    pub(super) fn diagnostic(&self, fixture: &Document, definition: &Document) -> Diagnostic {
        let diagnostic = self.problem.diagnostic(Some(fixture));
        match &self.cause {
            Some(Cause { path, text }) => diagnostic.also(definition.span_of(path), text.clone()),
            None => diagnostic,
        }
    }
}

impl Situation<'_> {
    pub(super) fn is_deleting(&self) -> bool {
        self.reconcile.deletion.is_some()
    }

    /// The path of a resource in the definition.
    pub(super) fn resource(&self, id: &str) -> Option<Path> {
        let (index, _) = self.graph.find(id)?;
        Some(Path::root().key("spec").key("resources").index(index.0))
    }

    /// Where the definition says why a node is as it is.
    pub(super) fn cause(&self, node: &NodePlan) -> Option<Cause> {
        let resource = self.resource(&node.id)?;
        let (_, compiled) = self.graph.find(&node.id)?;
        let parsed = |path: &Text| path.parse::<Path>().ok();
        let message = node.progress.message().map_or_else(|| "ready".to_owned(), |it| it.to_string());
        let path = match &node.progress {
            Progress::Skipped(Skip::Condition(source)) => {
                let condition = compiled.include_when.iter().find(|it| it.source == *source);
                condition.and_then(|condition| parsed(&condition.path))
            }
            Progress::Waiting(_) => compiled.ready_when.first().and_then(|condition| parsed(&condition.path)),
            _ => None,
        };
        let text = format!("`{}`: {message}", node.id);
        Some(Cause { path: path.unwrap_or_else(|| resource.key("id")), text })
    }

    /// The first node that is not complete, as the cause of a state or a condition.
    pub(super) fn first_incomplete(&self) -> Option<Cause> {
        let nodes = &self.reconcile.plan.nodes;
        let failed = nodes.iter().find(|node| node.progress.failure().is_some());
        let node = failed.or_else(|| nodes.iter().find(|node| !node.progress.is_complete()))?;
        self.cause(node)
    }

    /// Whether a name means an object.
    pub(super) fn is_meant(&self, named: &Named, node: &str, key: &ObjectKey) -> bool {
        let here = named.cluster.as_ref().is_none_or(|location| self.is_in(location, key));
        let by_kind = || named.what.split_once('/') == Some((key.kind.as_str(), key.name.as_str()));
        here && (named.what == node || by_kind())
    }

    /// Whether an object is in a cluster.
    pub(super) fn is_in(&self, location: &Location, key: &ObjectKey) -> bool {
        location.is_in(self.simulator.reference(&key.cluster))
    }

    /// What was done of one sort, in order.
    pub(super) fn done(&self, what: Done) -> Vec<&Action> {
        let is_hook = |id: &str| {
            self.graph
                .find(id)
                .is_some_and(|(_, node)| node.lifecycle.phase == kross_api::LifecyclePhase::Deletion)
        };
        let counts = |action: &&Action| match (what, action.kind) {
            (Done::Applied, ActionKind::Create | ActionKind::Update)
            | (Done::Created, ActionKind::Create)
            | (Done::Updated, ActionKind::Update)
            | (Done::Pruned, ActionKind::Prune)
            | (Done::Deleted, ActionKind::Delete)
            | (Done::Released, ActionKind::Release)
            | (Done::Orphaned, ActionKind::Orphan) => true,
            (Done::Hooks, ActionKind::Create | ActionKind::Update) => is_hook(&action.node),
            _ => false,
        };
        self.actions.iter().filter(counts).collect()
    }

    /// What was done in this step, as a note.
    pub(super) fn history(&self) -> String {
        if self.actions.is_empty() {
            return "the controller wrote and deleted nothing in this step".to_owned();
        }
        let shown = self.actions.iter().take(20).map(ToString::to_string);
        let mut lines: Vec<String> = shown.collect();
        if self.actions.len() > lines.len() {
            lines.push(format!("{} more", self.actions.len() - lines.len()));
        }
        format!("in this step the controller {}", lines.join(", "))
    }

    /// What waits: the nodes, and the objects that are pruned or deleted later, with the reasons.
    pub(super) fn waits(&self) -> Vec<(Text, Text)> {
        let Reconcile { plan, deletion } = self.reconcile;
        let mut waits: Vec<(Text, Text)> = Vec::new();
        let pruned = deletion.as_ref().unwrap_or(&plan.prune);
        let hidden = |wait: &Wait| matches!(wait, Wait::Failed(_));
        waits.extend(
            pruned
                .waiting
                .iter()
                .filter(|(_, wait)| !hidden(wait))
                .map(|(pending, wait)| (pending.node.clone(), wait.message())),
        );
        waits.extend(pruned.unfinished_hooks.iter().cloned());
        for node in &plan.nodes {
            let waits_itself = matches!(
                node.progress,
                Progress::Waiting(_)
                    | Progress::Contested(_)
                    | Progress::Held(_)
                    | Progress::Blocked { .. }
                    | Progress::Unresolved(_)
                    | Progress::NotConnected(_)
                    | Progress::Deleting(_)
            );
            if let (true, Some(message)) = (waits_itself, node.progress.message()) {
                waits.push((node.id.clone(), message));
            }
        }
        waits
    }

    /// What failed: the nodes, and the objects whose deletion failed, with the reasons.
    pub(super) fn failures(&self) -> Vec<(Text, Text)> {
        let Reconcile { plan, deletion } = self.reconcile;
        let pruned = deletion.as_ref().unwrap_or(&plan.prune);
        let mut failures: Vec<(Text, Text)> = Vec::new();
        for (pending, wait) in &pruned.waiting {
            if let Wait::Failed(failure) | Wait::Connection(failure) = wait {
                failures.push((pending.node.clone(), failure.message.clone()));
            }
        }
        for node in &plan.nodes {
            if let Some(failure) = node.progress.failure() {
                failures.push((node.id.clone(), failure.message.clone()));
            }
        }
        failures
    }

    /// What the status says of a resource: its state, reason, message and cluster.
    pub(super) fn resource_status(&self, id: &str) -> Value {
        let text = |text: Option<Text>| text.map_or(Value::Null, Value::from);
        if self.is_deleting() {
            let entries = self.simulator.status().get("managedResources").and_then(Value::as_list);
            let entry = entries
                .unwrap_or_default()
                .iter()
                .find(|entry| entry.get("id").and_then(Value::as_str) == Some(id));
            return entry.cloned().unwrap_or_else(|| Value::object([("state", Value::from("Deleted"))]));
        }
        let Some(node) = self.reconcile.plan.node(id) else { return Value::Null };
        let reason = node.progress.failure().map(|failure| failure.reason.as_str().into());
        let cluster = node.cluster.as_ref().and_then(|cluster| self.simulator.reference(cluster));
        Value::object([
            ("state", Value::from(node.progress.state().as_str())),
            ("reason", text(reason)),
            ("message", text(node.progress.message())),
            ("cluster", text(cluster.map(|cluster| cluster.display.as_str().into()))),
        ])
    }
}
