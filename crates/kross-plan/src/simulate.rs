//! Reconciles instances without a cluster, with the planner of the controller: [`simulate`] does it once, until nothing changes, and
//! a [`Simulator`] step by step, while time passes and clusters, objects, the instance and its definition change.

use jiff::Timestamp;
use kross_api::ObjectKey;
use kross_graph::Graph;
use kross_value::{Text, Value};

use crate::observed::Observed;
use crate::plan::Plan;
use crate::settings::Settings;

mod action;
mod api_servers;
mod clusters;
mod defaults;
mod deleting;
mod deletion;
mod existing;
mod instance;
mod restore;
mod selector;
mod simulator;

pub use action::{Action, ActionKind};
pub use clusters::{Connection, is_named};
pub use defaults::admitted;
pub use existing::Location;
pub use selector::selects;
pub use simulator::{Reconcile, Refusal, Simulator};

/// A reconcile without a cluster.
#[derive(Debug)]
pub struct Simulation {
    /// The objects in the order in which they were first applied.
    pub applied: Vec<Applied>,
    /// The last plan, with nothing left to apply.
    pub plan: Plan,
    /// The state of the simulated clusters.
    pub observed: Observed,
    /// How many plans were made.
    pub steps: usize,
}

/// An object that was applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// Its node.
    pub node: Text,
    /// Its identity.
    pub key: ObjectKey,
    /// The object as it was applied last.
    pub desired: Value,
    /// The wave in which it was first applied.
    pub step: usize,
}

/// Reconciles an instance until nothing changes. `documents` are objects that the clusters have: external ones, and for objects of
/// the graph what their controllers would add, such as a status. Every cluster counts as connected.
#[must_use]
pub fn simulate(
    graph: &Graph,
    instance: &Value,
    documents: &[Value],
    settings: &Settings,
    now: Timestamp,
) -> Simulation {
    let mut simulator = Simulator::new(instance.clone(), settings, now);
    for document in documents {
        simulator.add_object(&Location::Anywhere, document);
    }
    let (plan, steps) = simulator.apply_all(graph);
    let mut applied: Vec<Applied> = Vec::new();
    for action in simulator.take_actions() {
        let Action { kind: ActionKind::Create | ActionKind::Update, node, key, wave: step, .. } = action
        else {
            continue;
        };
        let Some(desired) = simulator.desired(&key) else { continue };
        if !applied.iter().any(|known| known.key == key) {
            applied.push(Applied { node, desired: desired.clone(), key, step });
        }
    }
    Simulation { applied, plan, observed: simulator.into_observed(), steps }
}
