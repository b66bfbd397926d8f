//! Plans a deletion: which objects to delete now, which to wait for and why, which to release or to orphan. It needs no graph and
//! no expressions, only the objects with the lifecycle kept in their annotations. Pruning is the same for some of the objects.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kross_api::{ClusterId, DeletePolicy, FailureReason, ObjectKey, Operation};
use kross_value::Text;

use crate::lifecycle::EvaluatedLifecycle;
use crate::observed::{AccessObjects, ObservedObject, OperationFailure};
use crate::progress::ResourceFailure;
use rank::ranks;

pub use attempts::reported_orphans;
pub(crate) use attempts::{replacements, with_replacements};
pub use hook_record::HookRecord;
pub(crate) use rank::{contains, is_container};

mod attempts;
mod hook_record;
mod rank;
#[cfg(test)]
mod tests;

/// An object of the instance that is to be deleted or released.
#[derive(Clone, Debug)]
pub struct OwnedObject {
    /// Its identity.
    pub key: ObjectKey,
    /// Its API version, such as `apps/v1`.
    pub api_version: Text,
    /// The node it was created from; empty where the object does not say.
    pub node: Text,
    /// Its UID, the precondition of the deletion.
    pub uid: Text,
    /// Its generation.
    pub generation: Option<i64>,
    /// Its place in the order of deletion: the highest is deleted first.
    pub order: i64,
    /// Its layer in the graph it was created from.
    pub apply_order: i64,
    /// Whether it is being deleted already.
    pub terminating: bool,
    /// Its finalizers.
    pub finalizers: Vec<Text>,
    /// The group and kind that it defines, if it is a CustomResourceDefinition.
    pub defines: Option<(Text, Text)>,
    /// The clusters whose kubeconfig it holds, if it is a Secret: objects in them are deleted first.
    pub credentials_for: BTreeSet<ClusterId>,
    /// Why it must not be deleted yet, if so.
    pub held: Option<Text>,
    /// Its lifecycle.
    pub lifecycle: EvaluatedLifecycle,
    /// Why its cluster cannot be used, if so.
    pub unavailable: Option<ResourceFailure>,
    /// Why the last operation on it failed, if it did.
    pub failure: Option<OperationFailure>,
    /// Whether all objects of lower rank wait until it is deleted. Otherwise those that it may depend on are not in the plan.
    pub blocks: bool,
}

impl OwnedObject {
    /// An object as it was observed, with the lifecycle kept in its annotation.
    #[must_use]
    pub fn new(key: ObjectKey, object: &ObservedObject) -> Self {
        let lifecycle = EvaluatedLifecycle::of(object);
        let field =
            |path: &[&str]| object.value.at(path).and_then(kross_value::Value::as_str).map(Text::from);
        let is_definition = key.kind == *"CustomResourceDefinition";
        let defines =
            field(&["spec", "group"]).zip(field(&["spec", "names", "kind"])).filter(|_| is_definition);
        Self {
            api_version: object.api_version().into(),
            node: object.node().unwrap_or_default().into(),
            uid: object.uid().into(),
            generation: object.generation(),
            order: lifecycle.order.unwrap_or_else(|| object.apply_order()),
            apply_order: object.apply_order(),
            terminating: object.terminating(),
            finalizers: object.finalizers().into_iter().map(Text::from).collect(),
            defines,
            credentials_for: BTreeSet::new(),
            held: None,
            lifecycle,
            unavailable: None,
            failure: None,
            blocks: true,
            key,
        }
    }

    /// The same object with the clusters whose kubeconfig it holds, of those in which the instance may have objects.
    #[must_use]
    pub fn with_credentials_for(mut self, secrets: &AccessObjects<'_>) -> Self {
        let opened = secrets.opened_by(&self.key).filter(|recorded| recorded.holds_objects);
        self.credentials_for = opened.map(|recorded| recorded.id.clone()).collect();
        self
    }

    /// The same object with a newer lifecycle than the one kept in its annotation.
    #[must_use]
    pub fn with_lifecycle(mut self, lifecycle: EvaluatedLifecycle) -> Self {
        self.order = match (lifecycle.order, self.lifecycle.order) {
            (Some(order), _) => order,
            (None, Some(_)) => self.apply_order,
            (None, None) => self.order,
        };
        self.lifecycle = lifecycle;
        self
    }
}

/// The input of [`plan_deletion`].
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    /// Every object to delete or to release.
    pub objects: &'a [OwnedObject],
    /// The deletion hooks. Objects may have to wait for them.
    pub hooks: Hooks<'a>,
    /// Which of them were created and which have completed.
    pub hook_record: &'a HookRecord,
    /// When the deletion of an object was first attempted.
    pub attempts: &'a BTreeMap<ObjectKey, Timestamp>,
    /// [`DeletionPlan::persisted`] of an earlier plan, from before a restart.
    pub persisted: Option<&'a str>,
    /// UIDs of objects that were reported as orphaned, see [`reported_orphans`].
    pub reported_orphans: &'a BTreeSet<Text>,
    /// Whether orphaned objects are reported at once: then they must not be deleted later.
    pub reports_orphans: bool,
    /// The current time.
    pub now: Timestamp,
}

/// What is known of the deletion hooks: the nodes with `lifecycle.when: Deletion`.
#[derive(Clone, Copy, Debug)]
pub enum Hooks<'a> {
    /// They are planned; these are not ready yet.
    Planned(&'a [Hook]),
    /// There is no graph to plan them with, for this reason, but there may be one again.
    GraphUnavailable(&'a str),
    /// There is no graph, and there will be none. An object that waits for a hook is orphaned: it must not be deleted without it.
    GraphDeleted,
}

/// A deletion hook that is not ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// The node.
    pub id: Text,
    /// Why it is not ready.
    pub why: Text,
    /// Whether it has an object.
    pub created: bool,
    /// The lifecycle of its own objects.
    pub lifecycle: EvaluatedLifecycle,
}

/// What to do with each object of a deletion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeletionPlan {
    /// To delete now, with their UID as a precondition.
    pub delete: Vec<PendingDeletion>,
    /// To release now: the object stays, without ownership labels, apply set and field manager.
    pub release: Vec<PendingDeletion>,
    /// No longer waited for, as their lifecycle says. Those that are also in `release` lose their labels.
    pub orphaned: Vec<PendingDeletion>,
    /// Waited for, and why.
    pub waiting: Vec<(PendingDeletion, Wait)>,
    /// Deletion hooks without an object, and why they have none.
    pub unfinished_hooks: Vec<(Text, Text)>,
    /// UIDs of objects that were reported as orphaned: they are not deleted any more.
    pub reported_orphans: BTreeSet<Text>,
    /// Which deletion hooks were created and which have completed. To be persisted before the first object of this plan is deleted
    /// or released.
    pub hook_record: HookRecord,
    /// When the deletion of each object was first attempted: input of the next plan.
    pub attempts: BTreeMap<ObjectKey, Timestamp>,
    /// `reported_orphans`, `hook_record`, and as much of `attempts` as must survive a restart, as text. While objects are not pruned
    /// yet, it also has the nodes that may replace them.
    pub persisted: Option<Text>,
    /// When time alone changes the plan.
    pub recheck_at: Option<Timestamp>,
}

/// An object in a deletion plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingDeletion {
    /// Its identity.
    pub key: ObjectKey,
    /// Its API version.
    pub api_version: Text,
    /// The node it was created from.
    pub node: Text,
    /// Its UID.
    pub uid: Text,
    /// Its generation.
    pub generation: Option<i64>,
    /// Why it is orphaned, if it is.
    pub why: Option<Text>,
    /// Whether it was reported as orphaned before.
    pub reported: bool,
    /// Whether it is retained: it only loses the ownership labels.
    pub retained: bool,
    /// Whether it belongs to a deletion hook: it is deleted, not orphaned, when its time is over.
    pub hook: bool,
    /// When the wait for it ends.
    pub until: Option<Timestamp>,
}

/// Why a deletion waits for an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// Others are deleted before it.
    Dependents,
    /// Its deletion was requested and has not finished.
    Deletion(Text),
    /// A deletion hook is not ready.
    Hook(Text),
    /// Its cluster is not connected.
    Connection(ResourceFailure),
    /// Its deletion failed and is retried.
    Failed(ResourceFailure),
    /// It must not be pruned before this is the case.
    Until(Text),
}

impl Wait {
    /// What the deletion waits for.
    #[must_use]
    pub fn message(&self) -> Text {
        match self {
            Self::Dependents => "waiting for dependents to be deleted".into(),
            Self::Deletion(message) | Self::Hook(message) => message.clone(),
            Self::Connection(failure) | Self::Failed(failure) => failure.message.clone(),
            Self::Until(what) => format!("no longer desired; pruned once {what}").into(),
        }
    }

    /// The class of the failure, if there is one.
    #[must_use]
    pub fn reason(&self) -> Option<FailureReason> {
        match self {
            Self::Connection(failure) | Self::Failed(failure) => Some(failure.reason),
            _ => None,
        }
    }
}

impl DeletionPlan {
    /// Whether nothing is left to do or to wait for.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.delete.is_empty()
            && self.release.is_empty()
            && self.waiting.is_empty()
            && self.unfinished_hooks.is_empty()
    }

    /// A plan that has nothing to delete, and a record of deletion hooks to persist.
    pub(crate) fn with_record(hook_record: HookRecord) -> Self {
        let mut plan = Self { hook_record, ..Self::default() };
        plan.persisted = attempts::text(attempts::Moments::new(), &plan);
        plan
    }

    fn recheck(&mut self, at: Timestamp) {
        self.recheck_at = Some(self.recheck_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// Plans the next step of a deletion.
///
/// # Guarantees
///
/// - Only objects of the highest remaining rank are deleted. A namespace is deleted after the objects in it, a
///   CustomResourceDefinition after its custom resources, the Secret with a cluster's kubeconfig after the objects in that
///   cluster, and an object with `after` after the objects of the nodes it names.
/// - An object is orphaned only where its lifecycle allows it, counted from the first attempt.
/// - An object that was reported as orphaned is never deleted.
/// - The objects of a deletion hook are neither deleted nor released before it is ready, unless the wait for them is over.
#[must_use]
pub fn plan_deletion(deletion: Deletion<'_>) -> DeletionPlan {
    let attempts = attempts::merged(&deletion);
    let deletion = Deletion { attempts: &attempts, ..deletion };
    let mut plan = DeletionPlan {
        reported_orphans: deletion.reported_orphans.clone(),
        hook_record: deletion.hook_record.clone(),
        ..DeletionPlan::default()
    };
    let mut pending: Vec<(usize, &OwnedObject)> = Vec::new();
    let (retained, containers) = retained(deletion.objects);
    for (at, object) in deletion.objects.iter().enumerate() {
        if plan.reported_orphans.contains(&object.uid) {
            orphan(object, "its cluster was not connected in time", &mut plan);
        } else if containers.contains(&at) {
            release(object, &deletion, &mut plan);
        } else if is_of_former_run(object, &deletion) {
            plan_object(object, &deletion, &mut plan);
        } else if !retained.contains(&at) {
            pending.push((at, object));
        } else if let Some(why) = unready_hook(object, &deletion, &mut plan) {
            plan.waiting.push((PendingDeletion { retained: true, ..pending_deletion(object) }, why));
        } else if containers.is_empty() {
            release(object, &deletion, &mut plan);
        } else {
            let wait = Wait::Hook("waiting for its namespace or its kind to be released".into());
            plan.waiting.push((PendingDeletion { retained: true, ..pending_deletion(object) }, wait));
        }
    }
    let ranks = ranks(deletion.objects);
    let rank = |at: usize| ranks.get(at).copied().unwrap_or_default();
    pending.sort_by(|(a, left), (b, right)| rank(*b).cmp(&rank(*a)).then_with(|| left.key.cmp(&right.key)));
    let mut rest = pending.as_slice();
    // A wave whose objects are all orphaned does not block the next one.
    while let Some(((first, _), _)) = rest.split_first() {
        let end = rest.partition_point(|(at, _)| rank(*at) == rank(*first));
        let (wave, later) = rest.split_at(end);
        rest = later;
        let mut blocks = false;
        for (_, object) in wave {
            blocks |= plan_object(object, &deletion, &mut plan) && object.blocks;
        }
        if blocks {
            break;
        }
    }
    plan.waiting.extend(rest.iter().map(|(_, object)| (pending_deletion(object), Wait::Dependents)));
    unfinished_hooks(&deletion, &mut plan);
    if deletion.reports_orphans {
        let unreleased = plan.orphaned.iter().filter(|orphan| !plan.release.contains(orphan));
        let uids = unreleased.map(|orphan| orphan.uid.clone()).filter(|uid| !uid.is_empty());
        plan.reported_orphans.extend(uids);
    }
    plan.persisted = attempts::persisted(&plan, &deletion);
    plan
}

/// Adds the deletion hooks that have no object yet: the deletion does not finish before their wait is over.
fn unfinished_hooks(deletion: &Deletion<'_>, plan: &mut DeletionPlan) {
    let Hooks::Planned(hooks) = deletion.hooks else { return };
    for hook in hooks.iter().filter(|hook| !hook.created) {
        if !is_over(&attempts::key_of_hook(&hook.id), &hook.lifecycle, deletion, plan) {
            plan.unfinished_hooks.push((hook.id.clone(), hook.why.clone()));
        }
    }
}

/// Whether an object belongs to a deletion hook that has to run again, for another object: it is deleted before that, out of order.
fn is_of_former_run(object: &OwnedObject, deletion: &Deletion<'_>) -> bool {
    let Hooks::Planned(hooks) = deletion.hooks else { return false };
    object.lifecycle.deletion
        && deletion.hook_record.is_completed_for(&object.node, &object.uid)
        && hooks.iter().any(|hook| hook.id == object.node)
}

/// Why a retained object of a deletion hook is not released yet, if so.
fn unready_hook(object: &OwnedObject, deletion: &Deletion<'_>, plan: &mut DeletionPlan) -> Option<Wait> {
    let HookState::Pending(why) = hook_state(object, deletion) else { return None };
    let waits = object.lifecycle.deletion && !is_over(&object.key, &object.lifecycle, deletion, plan);
    waits.then_some(Wait::Hook(why))
}

/// The retained objects, and the namespaces and CustomResourceDefinitions that contain them. The containers are retained too, and
/// released first: their deletion would delete what they contain.
fn retained(objects: &[OwnedObject]) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let is_retained =
        |object: &OwnedObject| object.lifecycle.policy == DeletePolicy::Retain && !object.terminating;
    let indexed = || objects.iter().enumerate();
    let retained: BTreeSet<usize> =
        indexed().filter(|(_, object)| is_retained(object)).map(|(at, _)| at).collect();
    if retained.is_empty() {
        return Default::default();
    }
    let contains_retained = |object: &OwnedObject| {
        !object.terminating && indexed().any(|(at, inner)| retained.contains(&at) && contains(object, inner))
    };
    let containers = indexed().filter(|(_, object)| is_container(object) && contains_retained(object));
    let containers = containers.map(|(at, _)| at).collect();
    (retained, containers)
}

/// Plans an object of the highest remaining rank. Returns whether objects of lower rank must wait for it.
fn plan_object(object: &OwnedObject, deletion: &Deletion<'_>, plan: &mut DeletionPlan) -> bool {
    let over = is_over(&object.key, &object.lifecycle, deletion, plan);
    if over && is_orphaned(object, deletion) {
        let why = match hook_state(object, deletion) {
            HookState::Pending(why) => format!("it is {why}"),
            HookState::Ready | HookState::Never(_) => "it was not deleted in time".to_owned(),
        };
        orphan(object, &why, plan);
        return false;
    }
    let until = end_of_wait(&object.key, &object.lifecycle, plan);
    let awaited = PendingDeletion { until, ..pending_deletion(object) };
    if let Some(why) = &object.held {
        plan.waiting.push((awaited, Wait::Hook(why.clone())));
        return true;
    }
    if is_needed_for_release(object, plan) {
        plan.waiting.push((awaited, Wait::Dependents));
        return true;
    }
    if let Some(failure) = &object.unavailable {
        plan.waiting.push((awaited, Wait::Connection(failure.clone())));
        return true;
    }
    if object.terminating {
        plan.waiting.push((awaited, Wait::Deletion(terminating(object))));
        return true;
    }
    match hook_state(object, deletion) {
        HookState::Pending(_) if over && object.lifecycle.deletion => {}
        HookState::Pending(why) => {
            plan.waiting.push((awaited, Wait::Hook(why)));
            return true;
        }
        HookState::Never(why) => {
            orphan(object, &why, plan);
            return false;
        }
        HookState::Ready => {}
    }
    plan.delete.push(pending_deletion(object));
    if let Some(failure) = &object.failure {
        plan.waiting.push((pending_deletion(object), Wait::Failed(resource_failure(object, failure))));
    }
    true
}

/// Whether an object holds the kubeconfig of a cluster in which objects are still to be released.
fn is_needed_for_release(object: &OwnedObject, plan: &DeletionPlan) -> bool {
    let retained = plan.waiting.iter().map(|(pending, _)| pending).filter(|pending| pending.retained);
    !object.credentials_for.is_empty()
        && plan
            .release
            .iter()
            .chain(retained)
            .any(|pending| object.credentials_for.contains(&pending.key.cluster))
}

/// Orphans an object, and releases it where its cluster is connected.
fn orphan(object: &OwnedObject, why: &str, plan: &mut DeletionPlan) {
    let why = match (&object.unavailable, &object.failure) {
        (Some(failure), _) => failure.message.clone(),
        (None, Some(failure)) => resource_failure(object, failure).message,
        (None, None) if object.terminating => terminating(object),
        (None, None) => why.into(),
    };
    let pending = PendingDeletion {
        why: Some(why),
        reported: plan.reported_orphans.contains(&object.uid),
        ..pending_deletion(object)
    };
    if object.unavailable.is_none() {
        plan.release.push(pending.clone());
    }
    plan.orphaned.push(pending);
}

/// When the wait for an object or a hook ends, if its lifecycle limits it and nothing changes.
fn end_of_wait(key: &ObjectKey, lifecycle: &EvaluatedLifecycle, plan: &DeletionPlan) -> Option<Timestamp> {
    let limit = lifecycle.force_after().filter(|_| lifecycle.force_when != Some(false))?;
    plan.attempts.get(key)?.checked_add(SignedDuration::try_from(limit).ok()?).ok()
}

/// Whether the wait for an object or a hook is over, as its lifecycle says.
fn is_over(
    key: &ObjectKey,
    lifecycle: &EvaluatedLifecycle,
    deletion: &Deletion<'_>,
    plan: &mut DeletionPlan,
) -> bool {
    let first = deletion.attempts.get(key).copied().unwrap_or(deletion.now);
    plan.attempts.insert(key.clone(), first);
    let Some(limit) = lifecycle.force_after() else {
        return false;
    };
    let Some(end) = SignedDuration::try_from(limit).ok().and_then(|limit| first.checked_add(limit).ok())
    else {
        return false;
    };
    if deletion.now < end {
        plan.recheck(end);
        return false;
    }
    lifecycle.force_when.unwrap_or(true)
}

/// Whether an object whose wait is over is orphaned. An object that can be deleted is tried once before; that of a hook is deleted
/// even if it never got ready.
fn is_orphaned(object: &OwnedObject, deletion: &Deletion<'_>) -> bool {
    let stuck = object.unavailable.is_some() || object.terminating;
    if object.lifecycle.deletion {
        return stuck || object.failure.is_some();
    }
    stuck || deletion.attempts.contains_key(&object.key)
}

/// Whether the hooks are ready that an object waits for.
enum HookState {
    Ready,
    /// Not yet: what the deletion waits for.
    Pending(Text),
    /// They never will be.
    Never(Text),
}

fn hook_state(object: &OwnedObject, deletion: &Deletion<'_>) -> HookState {
    let is_open = |id: &&String| !deletion.hook_record.is_completed_for(id, &object.uid);
    let awaits: Vec<&String> = object.lifecycle.awaits.iter().filter(is_open).collect();
    let is_own_open = object.lifecycle.deletion && !deletion.hook_record.is_completed(&object.node);
    match deletion.hooks {
        Hooks::Planned(hooks) => {
            let own = hooks.iter().find(|hook| object.lifecycle.deletion && hook.id == object.node);
            if let Some(hook) = own.filter(|_| !is_of_former_run(object, deletion)) {
                return HookState::Pending(format!("not ready: {}", hook.why).into());
            }
            let awaited = hooks.iter().find(|hook| awaits.iter().any(|id| *hook.id == ***id));
            awaited.map_or(HookState::Ready, |hook| {
                HookState::Pending(format!("waiting for `{}` to be ready: {}", hook.id, hook.why).into())
            })
        }
        Hooks::GraphUnavailable(why) => match awaits.first() {
            Some(id) => {
                HookState::Pending(format!("waiting for `{id}`, which cannot be created: {why}").into())
            }
            None if is_own_open => HookState::Pending(format!("possibly not ready: {why}").into()),
            None => HookState::Ready,
        },
        Hooks::GraphDeleted => awaits.first().map_or(HookState::Ready, |id| {
            HookState::Never(format!("it waits for `{id}`, whose definition was deleted").into())
        }),
    }
}

fn release(object: &OwnedObject, deletion: &Deletion<'_>, plan: &mut DeletionPlan) {
    match &object.unavailable {
        None => plan.release.push(pending_deletion(object)),
        Some(failure) => {
            if is_over(&object.key, &object.lifecycle, deletion, plan) {
                orphan(object, &failure.message, plan);
            } else {
                let until = end_of_wait(&object.key, &object.lifecycle, plan);
                let pending = PendingDeletion { retained: true, until, ..pending_deletion(object) };
                plan.waiting.push((pending, Wait::Connection(failure.clone())));
            }
        }
    }
}

fn terminating(object: &OwnedObject) -> Text {
    if object.finalizers.is_empty() {
        return "being deleted".into();
    }
    let finalizers: Vec<&str> = object.finalizers.iter().map(Text::as_str).collect();
    format!("being deleted, waiting for its finalizers: {}", finalizers.join(", ")).into()
}

fn resource_failure(object: &OwnedObject, failure: &OperationFailure) -> ResourceFailure {
    let key = &object.key;
    let message = format!("cannot delete {} {}: {}", key.kind, key.namespaced_name(), failure.message);
    ResourceFailure { operation: Some(Operation::Delete), ..failure.reported(message) }
}

pub(crate) fn pending_deletion(object: &OwnedObject) -> PendingDeletion {
    PendingDeletion {
        key: object.key.clone(),
        api_version: object.api_version.clone(),
        node: object.node.clone(),
        uid: object.uid.clone(),
        generation: object.generation,
        why: None,
        reported: false,
        retained: false,
        hook: object.lifecycle.deletion,
        until: None,
    }
}
