//! Admits writes and reads in clusters that only the instance resolved, before the first of them is sent there: whether the
//! graph fits the schemas of the cluster, and whether the credential has the permissions. What does not fit fails; what is
//! still being analyzed waits, and the instance is requeued.

use std::sync::Arc;

use kross_api::Operation;
use kross_cluster::ClusterClient;
use kross_graph::{Graph, NodeIndex, Placement, RemotePlacement};
use kross_plan::{AccessPath, ApplyAction, ExternalRead, Plan};

use super::pass::Pass;
use crate::analysis::{AnalysisRequest, Check};

impl Pass<'_> {
    /// The writes that are admitted. The others fail, or wait for the analysis of their cluster.
    pub(super) fn admit<'p>(
        &mut self,
        plan: &'p Plan,
        actions: Vec<&'p ApplyAction>,
    ) -> Vec<&'p ApplyAction> {
        let mut admitted = Vec::with_capacity(actions.len());
        for action in actions {
            match self.check_write(plan, action) {
                Check::Passed => admitted.push(action),
                // An object that exists has passed before; only a new one waits.
                Check::Pending if !action.create => admitted.push(action),
                Check::Pending => {}
                Check::Failed { reason, message } => {
                    let (Some(node), Some(object)) = (plan.nodes.get(action.node.0), plan.object(action))
                    else {
                        continue;
                    };
                    let operation = if action.create { Operation::Create } else { Operation::Update };
                    self.fail(&object.key, &node.id, operation, reason, &message);
                }
            }
        }
        admitted
    }

    fn check_write(&self, plan: &Plan, action: &ApplyAction) -> Check {
        let Some(object) = plan.object(action) else { return Check::Passed };
        let Some(access_path) = plan.access_paths.to(&object.key) else { return Check::Passed };
        match self.clients.client_by(&object.key.cluster, Some(&access_path.key)) {
            Ok(client) => self.check(action.node, access_path, client),
            Err(_) => Check::Passed,
        }
    }

    /// Whether an external reference may be read.
    pub(super) fn check_read(&self, plan: &Plan, read: &ExternalRead, client: &ClusterClient) -> Check {
        let Some((node, access_path)) = plan.access_paths.to_read(read) else { return Check::Passed };
        let revision = self.served.revision.as_ref();
        match revision.and_then(|revision| revision.graph.find(node)) {
            Some((index, _)) => self.check(index, access_path, client),
            None => Check::Passed,
        }
    }

    fn check(&self, node: NodeIndex, access_path: &AccessPath, client: &ClusterClient) -> Check {
        let Some(revision) = &self.served.revision else { return Check::Passed };
        let Some(Placement::Remote(placement)) = revision.graph.node(node).map(|node| &node.placement) else {
            return Check::Passed;
        };
        // A cluster that is known without an instance was checked with the definition.
        if placement.fixed.is_some() {
            return Check::Passed;
        }
        let watched = access_path.reference.poll.is_none();
        let resources: Vec<(usize, bool)> =
            placed_together(&revision.graph, node, placement).map(|index| (index, watched)).collect();
        let request = AnalysisRequest {
            instance: self.key,
            revision,
            display: &access_path.reference.display,
            client,
            resources: &resources,
        };
        self.context.analyses.check(self.context, &request)
    }
}

/// The nodes that share a node's cluster reference, itself among them: they are analyzed together.
fn placed_together(
    graph: &Graph,
    node: NodeIndex,
    placement: &Arc<RemotePlacement>,
) -> impl Iterator<Item = usize> {
    graph.nodes.iter().enumerate().filter_map(move |(index, other)| {
        let shared = matches!(&other.placement, Placement::Remote(other) if Arc::ptr_eq(other, placement));
        (index == node.0 || shared).then_some(index)
    })
}
