//! Nodes that exist for the deletion of others, such as a backup: they read what is there of them, and once they are made
//! they stay as they are, also when what they read is gone.

use kross_api::LifecyclePhase;
use kross_graph::{Node, Scope};
use kross_value::Text;

use super::{Visit, Walk, value_of};
use crate::deletion::Hook;
use crate::lifecycle;
use crate::observed::ObservedObject;
use crate::plan::PlannedObject;
use crate::progress::{Progress, Skip};

impl<'a> Walk<'a> {
    /// Whether a node that exists for the deletion is to be there now.
    pub(crate) fn is_due(&self, node: &Node) -> bool {
        self.input.phase == LifecyclePhase::Deletion || self.input.awaited.contains(&node.id)
    }

    pub(super) fn hook(&mut self, node: &'a Node, scope: &Scope<'_>) -> Visit {
        if !self.is_due(node) {
            return Visit::from(Progress::Skipped(Skip::DeletionOnly));
        }
        let mut own = Scope::over(scope);
        let (mut given, mut gone): (Vec<Text>, Option<Text>) = (Vec::new(), None);
        for dependency in &node.dependencies {
            let needed = self.input.graph.node(dependency.node).zip(self.nodes.get(dependency.node.0));
            let Some((needed, plan)) = needed else { continue };
            if !matches!(plan.progress, Progress::Skipped(_)) {
                continue;
            }
            // Left out of the graph by now, but as long as it is there it can be read.
            let objects = self.objects_of(&needed.id).iter().map(|(_, object)| *object);
            match value_of(needed, objects) {
                Some(value) => {
                    own.set(needed.id.clone(), value);
                    given.push(needed.id.clone());
                }
                None => gone = Some(needed.id.clone()),
            }
        }
        let gate = match gone {
            Some(id) => Some(Progress::Skipped(Skip::Dependency(id))),
            None => self.excluded(node, &own, &given).or_else(|| self.blocked(node, &given)),
        };
        let visit = match gate {
            Some(progress) => Visit::from(progress),
            None => self.visit(node, &own).unwrap_or_else(Visit::from),
        };
        let undecided = matches!(
            visit.progress,
            Progress::Skipped(Skip::Dependency(_)) | Progress::Blocked { .. } | Progress::Unresolved(_)
        );
        if undecided && visit.objects.is_empty() && !self.objects_of(&node.id).is_empty() {
            return self.as_it_was_made(node, scope);
        }
        visit
    }

    /// What there is of a node that cannot be rendered any more: nothing is written, but whether it is ready can be said.
    fn as_it_was_made(&self, node: &Node, scope: &Scope<'_>) -> Visit {
        let there = self.objects_of(&node.id);
        let object = |found: &ObservedObject| match found.terminating() {
            true => Progress::Waiting("is being deleted".into()),
            false => self.readiness(node, found, scope),
        };
        let objects: Vec<PlannedObject> = there
            .iter()
            .map(|(key, found)| PlannedObject {
                key: (*key).clone(),
                api_version: found.api_version().into(),
                desired: None,
                hash: "".into(),
                uid: Some(found.uid().into()),
                generation: found.generation(),
                progress: object(found),
                differs: false,
                exclusive: false,
            })
            .collect();
        let value = value_of(node, there.iter().map(|(_, object)| *object));
        let progress = match objects.as_slice() {
            [only] if !node.is_list() => only.progress.clone(),
            objects => super::collection::worst(objects),
        };
        Visit { progress, objects, value }
    }

    /// Nodes that exist for the deletion, should be there now, and are not ready.
    pub(crate) fn hooks(&self, scope: &Scope<'_>) -> Vec<Hook> {
        let nodes = self.input.graph.nodes.iter().zip(&self.nodes);
        let open = nodes.filter(|(node, plan)| {
            lifecycle::is_hook(node) && self.is_due(node) && !plan.progress.is_settled()
        });
        open.map(|(node, plan)| Hook {
            id: node.id.clone(),
            why: plan.progress.message().unwrap_or_else(|| "is being applied".into()),
            made: !self.objects_of(&node.id).is_empty(),
            answers: self.answers(node, scope),
        })
        .collect()
    }
}
