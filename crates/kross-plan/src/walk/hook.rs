//! Deletion hooks: nodes that exist only for the deletion of others, such as a backup. They read the observed objects of those, and
//! once created they are kept as they are, even when the objects that they read are deleted. A hook runs once for each deletion: one
//! that has completed is skipped, and an object that was created is not created again.

use std::collections::HashSet;

use kross_api::{DeletePolicy, LifecyclePhase, ObjectKey, Operation};
use kross_graph::{Node, Scope};
use kross_value::Text;

use super::object::withheld_progress;
use super::{Visit, Walk, value_of};
use crate::deletion::{Hook, HookRecord, OwnedObject};
use crate::lifecycle;
use crate::observed::{KindKey, Observed, ObservedObject};
use crate::plan::{MissingCause, MissingHook, NodePlan, PlannedObject};
use crate::progress::{Progress, ResourceFailure, Skip};

impl<'a> Walk<'a> {
    /// Whether a hook should exist now.
    pub(crate) fn is_due(&self, node: &Node) -> bool {
        match self.input.phase {
            LifecyclePhase::Deletion => !self.input.hook_record.is_completed(&node.id),
            LifecyclePhase::Active => self.input.due_hooks.contains(&node.id),
        }
    }

    pub(super) fn hook(&mut self, node: &'a Node, scope: &Scope<'_>) -> Visit {
        if !self.is_due(node) {
            let is_deletion = self.input.phase == LifecyclePhase::Deletion;
            let skip = if is_deletion { Skip::Completed } else { Skip::DeletionOnly };
            return Visit::from(Progress::Skipped(skip));
        }
        if self.has_former_objects(node) {
            return Visit::from(Progress::Waiting(
                "waiting for the objects of its last run to be deleted".into(),
            ));
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
            let objects = self.objects_of(&needed.id);
            let mut withheld =
                objects.iter().filter_map(|(key, object)| Some((key, object.withheld.as_ref()?)));
            if let Some((key, withheld)) = withheld.next() {
                // It exists, so the hook is not skipped: nothing that waits for it is deleted.
                return Visit::from(withheld_progress(withheld, &self.describe(key)));
            }
            match value_of(needed, objects.iter().map(|(_, object)| *object)) {
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
        let visit = self.without_missing(node, visit, scope);
        let undecided = matches!(
            visit.progress,
            Progress::Skipped(Skip::Dependency(_)) | Progress::Blocked { .. } | Progress::Unresolved(_)
        );
        if undecided && visit.objects.is_empty() && !self.objects_of(&node.id).is_empty() {
            return self.observed_hook(node, scope);
        }
        visit
    }

    /// Whether a hook that is due for an object to prune still has objects from its run for another one.
    fn has_former_objects(&self, node: &Node) -> bool {
        let record = self.input.hook_record;
        self.input.phase == LifecyclePhase::Active
            && self
                .objects_of(&node.id)
                .iter()
                .any(|(_, object)| record.is_completed_for(&node.id, object.uid()))
    }

    /// A hook without the objects that were created and are not observed any more: they are not created again. Until their
    /// cluster confirms that they do not exist, the hook waits. Nor does it wait for objects that cannot be created, because
    /// their namespace is being deleted or their kind is not served.
    fn without_missing(&mut self, node: &Node, visit: Visit, scope: &Scope<'_>) -> Visit {
        let (record, observed) = (self.input.hook_record, self.input.observed);
        let is_missing = |object: &PlannedObject| {
            let item = node.is_list().then_some(&object.key);
            let is_left_out = || {
                observed.namespace_terminating.contains(&object.key)
                    || record.is_created(&node.id, item)
                    || (record.creating_since(&node.id, item).is_some()
                        && !observed.never_created.contains(&object.key))
            };
            let is_unserved = observed.unserved.contains(&kind_of(&object.key));
            object.uid.is_none() && (is_unserved || (is_write(&object.progress) && is_left_out()))
        };
        if !visit.objects.iter().any(is_missing) {
            return visit;
        }
        if !node.is_list() && !self.objects_of(&node.id).is_empty() {
            // The template renders another name now.
            return self.observed_hook(node, scope);
        }
        let (missing, objects): (Vec<_>, Vec<_>) = visit.objects.into_iter().partition(is_missing);
        let missing = missing.into_iter().map(|object| MissingHook {
            node: node.id.clone(),
            cause: missing_cause(&object.key, observed),
            since: record.creating_since(&node.id, node.is_list().then_some(&object.key)),
            key: object.key,
            api_version: object.api_version,
        });
        let missing: Vec<MissingHook> = missing.collect();
        let progress = match missing.iter().find(|missing| missing.cause == MissingCause::Unconfirmed) {
            Some(missing) => {
                let object = self.describe(&missing.key);
                Progress::Unresolved(format!("checking whether {object} still exists").into())
            }
            None if objects.is_empty() => Progress::Skipped(Skip::Completed),
            None => super::collection::worst(&objects),
        };
        self.missing_hooks.extend(missing);
        Visit { progress, objects, value: visit.value }
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

    /// The hooks that should exist now.
    fn due_hooks(&self) -> impl Iterator<Item = (&'a Node, &NodePlan)> {
        let nodes = self.input.graph.nodes.iter().zip(&self.nodes);
        nodes.filter(|(node, _)| lifecycle::is_hook(node) && self.is_due(node))
    }

    /// The record of deletion hooks after this walk, for the deletion of the instance.
    pub(crate) fn hook_record_of_deletion(&self) -> HookRecord {
        let mut record = HookRecord::default();
        let hooks = self.input.graph.nodes.iter().filter(|node| lifecycle::is_hook(node));
        let own: HashSet<&str> =
            hooks.flat_map(|node| self.objects_of(&node.id)).map(|(_, object)| object.uid()).collect();
        // The objects of a run for a pruned object count for the deletion of the instance.
        record.keep_completed(self.input.hook_record, |uid| !own.contains(uid));
        for (node, plan) in self.due_hooks() {
            if has_completed(node, plan) {
                record.complete(&node.id);
            } else {
                self.record_created(node, &mut record);
            }
        }
        record
    }

    /// The record of deletion hooks after this walk, for objects to prune: a hook runs once for each of them. Unless it is known
    /// that there are no others (`complete`), a hook that ran for another object is kept.
    pub(crate) fn hook_record_of_prune(&self, pruned: &[&OwnedObject], complete: bool) -> HookRecord {
        let (before, mut record) = (self.input.hook_record, HookRecord::default());
        if !before.is_empty() {
            let planned = self.nodes.iter().flat_map(|node| &node.objects);
            let desired: HashSet<&str> =
                planned.filter_map(|object| object.uid.as_ref()).map(Text::as_str).collect();
            let own: HashSet<&str> = self.own_objects().map(|(_, object)| object.uid()).collect();
            // Objects in a cluster that is not connected, and those of a kind that is not listed, may still exist.
            let unseen = !self.input.observed.unlisted.is_empty()
                || self.clusters.iter().any(|used| used.unavailable().is_some());
            let is_pending = |uid: &str| if own.contains(uid) { !desired.contains(uid) } else { unseen };
            record.keep_completed(before, is_pending);
        }
        let hooks = self.input.graph.nodes.iter().filter(|node| lifecycle::is_hook(node));
        for node in hooks.filter(|node| !complete && !self.is_due(node)) {
            record.keep_created(before, &node.id);
        }
        for (node, plan) in self.due_hooks() {
            if self.has_former_objects(node) {
                continue;
            }
            if !has_completed(node, plan) {
                self.record_created(node, &mut record);
                continue;
            }
            let is_awaiting = |object: &&&OwnedObject| {
                let lifecycle = &object.lifecycle;
                lifecycle.policy == DeletePolicy::Delete && lifecycle.awaits.iter().any(|id| **id == *node.id)
            };
            for object in pruned.iter().filter(is_awaiting) {
                record.complete_for(&node.id, &object.uid);
            }
            for (_, object) in self.objects_of(&node.id) {
                record.complete_for(&node.id, object.uid());
            }
        }
        record
    }

    fn record_created(&self, node: &Node, record: &mut HookRecord) {
        record.keep_created(self.input.hook_record, &node.id);
        for (key, _) in self.objects_of(&node.id) {
            record.create(&node.id, node.is_list().then_some(*key));
        }
    }

    /// The hooks that should exist now and are not ready.
    pub(crate) fn hooks(&self, scope: &Scope<'_>) -> Vec<Hook> {
        let open = self.due_hooks().filter(|(_, plan)| !plan.progress.is_complete());
        open.map(|(node, plan)| Hook {
            id: node.id.clone(),
            why: plan.progress.message().unwrap_or_else(|| "being applied".into()),
            created: !self.objects_of(&node.id).is_empty(),
            lifecycle: self.lifecycle(node, scope),
        })
        .collect()
    }
}

/// Whether a hook that is due has completed: its objects are ready, or do not exist any more.
fn has_completed(node: &Node, plan: &NodePlan) -> bool {
    match &plan.progress {
        // A collection without items has not run: it may have items later.
        Progress::Ready => !node.is_external() && !plan.objects.is_empty(),
        Progress::Skipped(skip) => *skip == Skip::Completed,
        _ => false,
    }
}

fn missing_cause(key: &ObjectKey, observed: &Observed) -> MissingCause {
    if observed.namespace_terminating.contains(key) {
        MissingCause::NamespaceTerminating
    } else if observed.unserved.contains(&kind_of(key)) {
        MissingCause::KindNotServed
    } else if observed.confirmed_missing.contains(key) {
        MissingCause::Deleted
    } else {
        MissingCause::Unconfirmed
    }
}

fn kind_of(key: &ObjectKey) -> KindKey {
    (key.cluster.clone(), key.group.clone(), key.kind.clone())
}

/// Whether an object is to be written now.
fn is_write(progress: &Progress) -> bool {
    match progress {
        Progress::Applying => true,
        Progress::Failed(ResourceFailure { operation: Some(operation), .. }) => {
            matches!(operation, Operation::Create | Operation::Update | Operation::Delete)
        }
        _ => false,
    }
}
