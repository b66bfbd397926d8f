//! Deletion hooks: nodes that exist only for the deletion of others, such as a backup. They read the observed objects of those, and
//! once created they are kept as they are, even when the objects that they read are deleted.

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
    /// Whether a hook should exist now.
    pub(crate) fn is_due(&self, node: &Node) -> bool {
        self.input.phase == LifecyclePhase::Deletion || self.input.due_hooks.contains(&node.id)
    }

    pub(super) fn hook(&mut self, node: &'a Node, scope: &Scope<'_>) -> Visit {
        if !self.is_due(node) {
            return Visit::from(Progress::Skipped(Skip::DeletionOnly));
        }
        let mut own = Scope::over(scope);
        let (mut given, mut deleted): (Vec<Text>, Option<Text>) = (Vec::new(), None);
        for dependency in &node.dependencies {
            let needed = self.input.graph.node(dependency.node).zip(self.nodes.get(dependency.node.0));
            let Some((needed, plan)) = needed else { continue };
            if !matches!(plan.progress, Progress::Skipped(_)) {
                continue;
            }
            // The node is skipped, but its objects can be read as long as they exist.
            let objects = self.objects_of(&needed.id).iter().map(|(_, object)| *object);
            match value_of(needed, objects) {
                Some(value) => {
                    own.set(needed.id.clone(), value);
                    given.push(needed.id.clone());
                }
                None => deleted = Some(needed.id.clone()),
            }
        }
        let gate = match deleted {
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
            return self.observed_hook(node, scope);
        }
        visit
    }

    /// A hook that cannot be rendered any more: its observed objects, which are not applied again, and whether they are ready.
    fn observed_hook(&self, node: &Node, scope: &Scope<'_>) -> Visit {
        let observed = self.objects_of(&node.id);
        let progress = |found: &ObservedObject| match found.terminating() {
            true => Progress::Waiting("being deleted".into()),
            false => self.readiness(node, found, scope),
        };
        let objects: Vec<PlannedObject> = observed
            .iter()
            .map(|(key, found)| PlannedObject {
                key: (*key).clone(),
                api_version: found.api_version().into(),
                desired: None,
                hash: "".into(),
                uid: Some(found.uid().into()),
                generation: found.generation(),
                progress: progress(found),
                differs: false,
                exclusive: false,
            })
            .collect();
        let value = value_of(node, observed.iter().map(|(_, object)| *object));
        let progress = match objects.as_slice() {
            [only] if !node.is_list() => only.progress.clone(),
            objects => super::collection::worst(objects),
        };
        Visit { progress, objects, value }
    }

    /// The hooks that should exist now and are not ready.
    pub(crate) fn hooks(&self, scope: &Scope<'_>) -> Vec<Hook> {
        let nodes = self.input.graph.nodes.iter().zip(&self.nodes);
        let open = nodes.filter(|(node, plan)| {
            lifecycle::is_hook(node) && self.is_due(node) && !plan.progress.is_complete()
        });
        open.map(|(node, plan)| Hook {
            id: node.id.clone(),
            why: plan.progress.message().unwrap_or_else(|| "being applied".into()),
            created: !self.objects_of(&node.id).is_empty(),
            lifecycle: self.lifecycle(node, scope),
        })
        .collect()
    }
}
