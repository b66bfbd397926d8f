//! Asks before the first write to a cluster that only the instance resolved, and before the first read of one, whether the
//! graph fits there: its schemas, and what we may do. What does not fit is recorded as failed; what is still being found out
//! waits, and the instance is woken.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::Operation;
use kross_cluster::{ClusterClient, ObjectKey};
use kross_graph::{Graph, NodeIndex, Placement, RemotePlacement};
use kross_plan::{AccessPath, ApplyAction, ExternalRead, Plan};

use super::apply::fail;
use super::memory::Memory;
use super::observe::Observation;
use super::reach::Reach;
use crate::analysis::{Check, Question};
use crate::context::Context;
use crate::graphs::Served;

/// Who wants to write or to read.
pub(super) struct Visitor<'a> {
    pub(super) context: &'a Context,
    pub(super) served: &'a Served,
    pub(super) instance: &'a ObjectKey,
}

impl Visitor<'_> {
    /// Which of these writes may go ahead.
    pub(super) fn admitted<'p>(
        &self,
        plan: &'p Plan,
        actions: Vec<&'p ApplyAction>,
        reach: &Reach<'_>,
        observation: &mut Observation,
        memory: &mut Memory,
    ) -> Vec<&'p ApplyAction> {
        let now = Timestamp::now();
        let mut admitted = Vec::with_capacity(actions.len());
        for action in actions {
            match self.check(plan, action, reach) {
                Check::Passed => admitted.push(action),
                // What is there already has been through this; only what is new waits.
                Check::Pending if !action.create => admitted.push(action),
                Check::Pending => {}
                Check::Failed { reason, message } => {
                    let (Some(node), Some(object)) = (plan.nodes.get(action.node.0), plan.object(action))
                    else {
                        continue;
                    };
                    let operation = if action.create { Operation::Create } else { Operation::Update };
                    let (key, id) = (object.key.clone(), node.id.clone());
                    fail(key, id, operation, reason, &message, now, observation, memory);
                }
            }
        }
        admitted
    }

    fn check(&self, plan: &Plan, action: &ApplyAction, reach: &Reach<'_>) -> Check {
        let Some(object) = plan.object(action) else { return Check::Passed };
        let Some(access_path) = plan.access_paths.to(&object.key) else { return Check::Passed };
        match reach.connection_by(&object.key.cluster, Some(&access_path.key)) {
            Ok(client) => self.ask(action.node, access_path, client),
            Err(_) => Check::Passed,
        }
    }

    /// Whether an external reference may be read.
    pub(super) fn check_read(&self, plan: &Plan, read: &ExternalRead, client: &ClusterClient) -> Check {
        let Some((node, access_path)) = plan.access_paths.to_read(read) else { return Check::Passed };
        let revision = self.served.revision.as_ref();
        match revision.and_then(|revision| revision.graph.find(node)) {
            Some((index, _)) => self.ask(index, access_path, client),
            None => Check::Passed,
        }
    }

    fn ask(&self, node: NodeIndex, access_path: &AccessPath, client: &ClusterClient) -> Check {
        let Some(revision) = &self.served.revision else { return Check::Passed };
        let Some(Placement::Remote(placement)) = revision.graph.node(node).map(|node| &node.placement) else {
            return Check::Passed;
        };
        // What is known without an instance was held to its cluster with the definition.
        if placement.fixed.is_some() {
            return Check::Passed;
        }
        let watched = access_path.reference.poll.is_none();
        let resources: Vec<(usize, bool)> =
            companions(&revision.graph, node, placement).map(|index| (index, watched)).collect();
        self.context.analyses.check(
            self.context,
            &Question {
                instance: self.instance,
                revision,
                display: &access_path.reference.display,
                client,
                resources: &resources,
            },
        )
    }
}

/// The nodes that share a node's reference, itself among them: where one of them goes all go.
fn companions(
    graph: &Graph,
    node: NodeIndex,
    placement: &Arc<RemotePlacement>,
) -> impl Iterator<Item = usize> {
    graph.nodes.iter().enumerate().filter_map(move |(index, other)| {
        let shared = matches!(&other.placement, Placement::Remote(other) if Arc::ptr_eq(other, placement));
        (index == node.0 || shared).then_some(index)
    })
}
