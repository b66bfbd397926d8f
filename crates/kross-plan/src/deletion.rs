//! The plan of deletion: which objects go now, which are waited for and why, which are left behind. It needs no graph and
//! no expressions, only the objects with what is kept on them; pruning is the same thing for a part of the objects.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kross_api::{ClusterId, DeletePolicy, FailureReason, ObjectKey, Operation, ResolvedCredentials};
use kross_value::Text;

use crate::lifecycle::Answers;
use crate::observed::{InventoryCluster, ObservedObject, OperationFailure};
use crate::progress::ResourceFailure;
use rank::ranks;

pub use attempts::promised;

mod attempts;
mod rank;
#[cfg(test)]
mod tests;

/// An object that is to go.
#[derive(Clone, Debug)]
pub struct OwnedObject {
    /// What identifies it.
    pub key: ObjectKey,
    /// Its API version, such as `apps/v1`.
    pub api_version: Text,
    /// The node it was made from; empty where nobody wrote that down.
    pub node: Text,
    /// Its UID, for the precondition.
    pub uid: Text,
    /// Its generation.
    pub generation: Option<i64>,
    /// Its place in the order: the highest goes first.
    pub order: i64,
    /// Its layer in the graph it was made from.
    pub apply_order: i64,
    /// Whether it is being deleted already.
    pub terminating: bool,
    /// What must be done before it can go.
    pub finalizers: Vec<Text>,
    /// The group and kind that it defines, if it is a CustomResourceDefinition.
    pub defines: Option<(Text, Text)>,
    /// The clusters that it is the way to, if it is a Secret with a kubeconfig: what is there goes first.
    pub opens: BTreeSet<ClusterId>,
    /// Why it must not go yet, if so.
    pub held: Option<Text>,
    /// How it goes.
    pub answers: Answers,
    /// Why nothing can be done there, if so.
    pub closed: Option<ResourceFailure>,
    /// What went wrong the last time.
    pub failure: Option<OperationFailure>,
}

impl OwnedObject {
    /// An object as it was observed, with the answers kept on it.
    #[must_use]
    pub fn new(key: ObjectKey, object: &ObservedObject) -> Self {
        let answers = Answers::of(object);
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
            order: answers.order.unwrap_or_else(|| object.apply_order()),
            apply_order: object.apply_order(),
            terminating: object.terminating(),
            finalizers: object.finalizers().into_iter().map(Text::from).collect(),
            defines,
            opens: BTreeSet::new(),
            held: None,
            answers,
            closed: None,
            failure: None,
            key,
        }
    }

    /// The same object with the clusters that it is the way to, of those where the instance may have something.
    #[must_use]
    pub fn with_credentials_for(mut self, recorded: &[InventoryCluster]) -> Self {
        let is_secret =
            self.key.cluster.is_local() && self.key.group.is_empty() && self.key.kind == *"Secret";
        if is_secret {
            let led = recorded.iter().filter(|recorded| recorded.holds_objects && leads(&self.key, recorded));
            self.opens = led.map(|recorded| recorded.id.clone()).collect();
        }
        self
    }

    /// The same object with newer answers than those kept on it.
    #[must_use]
    pub fn with_answers(mut self, answers: Answers) -> Self {
        self.order = match (answers.order, self.answers.order) {
            (Some(order), _) => order,
            (None, Some(_)) => self.apply_order,
            (None, None) => self.order,
        };
        self.answers = answers;
        self
    }
}

/// Whether a Secret is the way to a cluster.
fn leads(secret: &ObjectKey, recorded: &InventoryCluster) -> bool {
    recorded.key.resolved().is_some_and(|reference| match &reference.credentials {
        ResolvedCredentials::Secret(address) => {
            *secret.name == *address.name && secret.namespace.as_deref() == Some(&*address.namespace)
        }
        _ => false,
    })
}

/// What a plan of deletion is made from.
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    /// Every object that is to go.
    pub objects: &'a [OwnedObject],
    /// The nodes that exist for the deletion. Objects may have to wait for them.
    pub hooks: Hooks<'a>,
    /// When the deletion of an object was first attempted.
    pub attempts: &'a BTreeMap<ObjectKey, Timestamp>,
    /// The same as [`DeletionPlan::kept`] of an earlier plan, for who forgot the rest.
    pub kept: Option<&'a str>,
    /// UIDs of objects that people were told are left behind, see [`promised`].
    pub promised: &'a BTreeSet<Text>,
    /// Whether people are told at once what is left behind, so that it has to stay whatever happens later.
    pub told: bool,
    /// The time.
    pub now: Timestamp,
}

/// What is known of the nodes that exist for the deletion.
#[derive(Clone, Copy, Debug)]
pub enum Hooks<'a> {
    /// They are planned; these are not ready yet.
    Planned(&'a [Hook]),
    /// There is no graph to plan them with, but there may be one again.
    Unplanned(&'a str),
    /// There is no graph, and none will come. What waits for one of them stays: it must not go without it.
    Gone,
}

/// A node that exists for the deletion and is not ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// The node.
    pub id: Text,
    /// Why it is not ready.
    pub why: Text,
    /// Whether there is an object of it.
    pub made: bool,
    /// How its own objects go.
    pub answers: Answers,
}

/// Which objects go now, and what becomes of the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeletionPlan {
    /// To delete now, with their UID as a precondition.
    pub delete: Vec<PendingDeletion>,
    /// To release now: ownership labels, apply set and field manager go, the object stays.
    pub release: Vec<PendingDeletion>,
    /// No longer waited for, since their author said so. Those in `release` too lose their labels.
    pub orphaned: Vec<PendingDeletion>,
    /// Waited for.
    pub waiting: Vec<(PendingDeletion, Wait)>,
    /// Nodes that exist for the deletion, of which there is no object yet, with why.
    pub unfinished_hooks: Vec<(Text, Text)>,
    /// UIDs of objects that people were told would be left behind: they are not deleted any more.
    pub promised: BTreeSet<Text>,
    /// When the deletion of an object was first attempted: to be kept, and given to the next plan.
    pub attempts: BTreeMap<ObjectKey, Timestamp>,
    /// `promised`, and as much of `attempts` as must outlive the process, as a text.
    pub kept: Option<Text>,
    /// When time alone changes the plan.
    pub recheck_at: Option<Timestamp>,
}

/// An object in a plan of deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingDeletion {
    /// What identifies it.
    pub key: ObjectKey,
    /// Its API version.
    pub api_version: Text,
    /// The node it was made from.
    pub node: Text,
    /// Its UID.
    pub uid: Text,
    /// Its generation.
    pub generation: Option<i64>,
    /// Why it is left behind, if it is.
    pub why: Option<Text>,
    /// Whether people were told before that it is left behind.
    pub told: bool,
    /// Whether it stays, and only loses our labels.
    pub stays: bool,
    /// Whether it exists for the deletion: it is deleted, not left behind, when nobody waits for it any more.
    pub hook: bool,
    /// When nobody waits for it any more.
    pub until: Option<Timestamp>,
}

/// Why an object is waited for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// Others go before it.
    Dependents,
    /// It was deleted and is not gone yet.
    Deletion(Text),
    /// A node that exists for the deletion is not ready.
    Hook(Text),
    /// Its cluster does not answer.
    Connection(ResourceFailure),
    /// Its deletion failed, and is tried again.
    Failed(ResourceFailure),
}

impl Wait {
    /// What is being waited for, in a few words.
    #[must_use]
    pub fn message(&self) -> Text {
        match self {
            Self::Dependents => "waits for its turn".into(),
            Self::Deletion(message) | Self::Hook(message) => message.clone(),
            Self::Connection(failure) | Self::Failed(failure) => failure.message.clone(),
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

    fn recheck(&mut self, at: Timestamp) {
        self.recheck_at = Some(self.recheck_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// Plans the next step of a deletion.
///
/// # Guarantees
///
/// - Only objects of the highest rank that is left are deleted; a namespace goes after what is in it, the definition of a
///   kind after its objects, the Secret that leads to a cluster after what is there, and what waits for another node after
///   that node's objects.
/// - An object is left behind only where its author allowed it, counted from the first attempt.
/// - What people were told is left behind is never deleted.
#[must_use]
pub fn plan_deletion(deletion: Deletion<'_>) -> DeletionPlan {
    let remembered = attempts::remembered(&deletion);
    let deletion = Deletion { attempts: &remembered, ..deletion };
    let mut plan = DeletionPlan { promised: deletion.promised.clone(), ..DeletionPlan::default() };
    let mut pending: Vec<(usize, &OwnedObject)> = Vec::new();
    let (retained, containers) = retained(deletion.objects);
    for (at, object) in deletion.objects.iter().enumerate() {
        if plan.promised.contains(&object.uid) {
            leave(object, "its cluster did not answer in time", &mut plan);
        } else if containers.contains(&at) {
            release(object, &deletion, &mut plan);
        } else if !retained.contains(&at) {
            pending.push((at, object));
        } else if containers.is_empty() {
            release(object, &deletion, &mut plan);
        } else {
            let wait = Wait::Hook("stays, once what it is in was released".into());
            plan.waiting.push((PendingDeletion { stays: true, ..pending_deletion(object) }, wait));
        }
    }
    let ranks = ranks(deletion.objects);
    let rank = |at: usize| ranks.get(at).copied().unwrap_or_default();
    pending.sort_by(|(a, left), (b, right)| rank(*b).cmp(&rank(*a)).then_with(|| left.key.cmp(&right.key)));
    let mut rest = pending.as_slice();
    // A wave whose objects are all left behind does not hold up the next one.
    while let Some(((first, _), _)) = rest.split_first() {
        let end = rest.partition_point(|(at, _)| rank(*at) == rank(*first));
        let (wave, later) = rest.split_at(end);
        rest = later;
        let mut holds = false;
        for (_, object) in wave {
            holds |= due(object, &deletion, &mut plan);
        }
        if holds {
            break;
        }
    }
    plan.waiting.extend(rest.iter().map(|(_, object)| (pending_deletion(object), Wait::Dependents)));
    unfinished_hooks(&deletion, &mut plan);
    if deletion.told {
        let closed = plan.orphaned.iter().filter(|left| !plan.release.contains(left));
        plan.promised.extend(closed.map(|left| left.uid.clone()).filter(|uid| !uid.is_empty()));
    }
    plan.kept = attempts::text(&plan, &deletion);
    plan
}

/// Nodes that exist for the deletion and were never made hold up its end, as long as their author waits for them.
fn unfinished_hooks(deletion: &Deletion<'_>, plan: &mut DeletionPlan) {
    let Hooks::Planned(hooks) = deletion.hooks else { return };
    for hook in hooks.iter().filter(|hook| !hook.made) {
        if !is_over(&attempts::of_hook(&hook.id), &hook.answers, deletion, plan) {
            plan.unfinished_hooks.push((hook.id.clone(), hook.why.clone()));
        }
    }
}

/// What stays, and the namespaces and definitions of kinds around it: they stay too, and are released first, since their
/// deletion would take it with them.
fn retained(objects: &[OwnedObject]) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let stays = |object: &OwnedObject| object.answers.policy == DeletePolicy::Retain && !object.terminating;
    let indexed = || objects.iter().enumerate();
    let retained: BTreeSet<usize> = indexed().filter(|(_, object)| stays(object)).map(|(at, _)| at).collect();
    if retained.is_empty() {
        return Default::default();
    }
    let around = |object: &OwnedObject| {
        !object.terminating
            && indexed().any(|(at, inner)| retained.contains(&at) && rank::contains(object, inner))
    };
    let containers = indexed().filter(|(_, object)| rank::is_container(object) && around(object));
    let containers = containers.map(|(at, _)| at).collect();
    (retained, containers)
}

/// An object whose turn it is. Gives whether those after it must wait.
fn due(object: &OwnedObject, deletion: &Deletion<'_>, plan: &mut DeletionPlan) -> bool {
    let over = is_over(&object.key, &object.answers, deletion, plan);
    if over && is_forced(object, deletion) {
        let why = match readiness(object, deletion) {
            Readiness::Wait(why) => format!("it {why}"),
            Readiness::Go | Readiness::Never(_) => "it did not go in time".to_owned(),
        };
        leave(object, &why, plan);
        return false;
    }
    let awaited =
        PendingDeletion { until: end(&object.key, &object.answers, plan), ..pending_deletion(object) };
    if let Some(why) = &object.held {
        plan.waiting.push((awaited, Wait::Hook(why.clone())));
        return true;
    }
    if is_needed(object, plan) {
        plan.waiting.push((awaited, Wait::Dependents));
        return true;
    }
    if let Some(failure) = &object.closed {
        plan.waiting.push((awaited, Wait::Connection(failure.clone())));
        return true;
    }
    if object.terminating {
        plan.waiting.push((awaited, Wait::Deletion(going(object))));
        return true;
    }
    match readiness(object, deletion) {
        Readiness::Wait(_) if over && object.answers.deletion => {}
        Readiness::Wait(why) => {
            plan.waiting.push((awaited, Wait::Hook(why)));
            return true;
        }
        Readiness::Never(why) => {
            leave(object, &why, plan);
            return false;
        }
        Readiness::Go => {}
    }
    plan.delete.push(pending_deletion(object));
    if let Some(failure) = &object.failure {
        plan.waiting.push((pending_deletion(object), Wait::Failed(resource_failure(object, failure))));
    }
    true
}

/// Whether an object is the way to others that are about to lose our labels.
fn is_needed(object: &OwnedObject, plan: &DeletionPlan) -> bool {
    let stays = plan.waiting.iter().map(|(pending, _)| pending).filter(|pending| pending.stays);
    !object.opens.is_empty()
        && plan.release.iter().chain(stays).any(|pending| object.opens.contains(&pending.key.cluster))
}

/// Leaves an object behind, without our labels where they can be removed.
fn leave(object: &OwnedObject, short: &str, plan: &mut DeletionPlan) {
    let why = match (&object.closed, &object.failure) {
        (Some(failure), _) => failure.message.clone(),
        (None, Some(failure)) => resource_failure(object, failure).message,
        (None, None) if object.terminating => going(object),
        (None, None) => short.into(),
    };
    let pending = PendingDeletion {
        why: Some(why),
        told: plan.promised.contains(&object.uid),
        ..pending_deletion(object)
    };
    if object.closed.is_none() {
        plan.release.push(pending.clone());
    }
    plan.orphaned.push(pending);
}

/// When waiting for something ends, if its author lets it end and nothing changes.
fn end(key: &ObjectKey, answers: &Answers, plan: &DeletionPlan) -> Option<Timestamp> {
    let limit = answers.force_after().filter(|_| answers.force_when != Some(false))?;
    plan.attempts.get(key)?.checked_add(SignedDuration::try_from(limit).ok()?).ok()
}

/// Whether waiting for something ends here, as its author says.
fn is_over(key: &ObjectKey, answers: &Answers, deletion: &Deletion<'_>, plan: &mut DeletionPlan) -> bool {
    let first = deletion.attempts.get(key).copied().unwrap_or(deletion.now);
    plan.attempts.insert(key.clone(), first);
    let Some(limit) = answers.force_after() else {
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
    answers.force_when.unwrap_or(true)
}

/// Whether an object that need not be waited for any more is to be left behind. Whatever can be deleted is tried once before
/// it is given up; what exists for the deletion is also deleted where it never got ready.
fn is_forced(object: &OwnedObject, deletion: &Deletion<'_>) -> bool {
    let stuck = object.closed.is_some() || object.terminating;
    if object.answers.deletion {
        return stuck || object.failure.is_some();
    }
    stuck || deletion.attempts.contains_key(&object.key)
}

enum Readiness {
    Go,
    Wait(Text),
    /// What it waits for will never be.
    Never(Text),
}

/// Whether everything is ready that must be before an object goes.
fn readiness(object: &OwnedObject, deletion: &Deletion<'_>) -> Readiness {
    let awaits = &object.answers.awaits;
    match deletion.hooks {
        Hooks::Planned(hooks) => {
            let own = hooks.iter().find(|hook| object.answers.deletion && hook.id == object.node);
            if let Some(hook) = own {
                return Readiness::Wait(format!("is not ready: {}", hook.why).into());
            }
            let awaited = hooks.iter().find(|hook| awaits.iter().any(|id| *hook.id == **id));
            awaited.map_or(Readiness::Go, |hook| {
                Readiness::Wait(format!("waits for `{}` to be ready: {}", hook.id, hook.why).into())
            })
        }
        Hooks::Unplanned(why) => match awaits.first() {
            Some(id) => Readiness::Wait(format!("waits for `{id}`, which cannot be made: {why}").into()),
            None if object.answers.deletion => Readiness::Wait(format!("may not be ready: {why}").into()),
            None => Readiness::Go,
        },
        Hooks::Gone => awaits.first().map_or(Readiness::Go, |id| {
            Readiness::Never(format!("it waits for `{id}`, whose definition is gone").into())
        }),
    }
}

fn release(object: &OwnedObject, deletion: &Deletion<'_>, plan: &mut DeletionPlan) {
    match &object.closed {
        None => plan.release.push(pending_deletion(object)),
        Some(failure) => {
            if is_over(&object.key, &object.answers, deletion, plan) {
                leave(object, &failure.message, plan);
            } else {
                let until = end(&object.key, &object.answers, plan);
                let waits = PendingDeletion { stays: true, until, ..pending_deletion(object) };
                plan.waiting.push((waits, Wait::Connection(failure.clone())));
            }
        }
    }
}

fn going(object: &OwnedObject) -> Text {
    if object.finalizers.is_empty() {
        return "is being deleted".into();
    }
    let finalizers: Vec<&str> = object.finalizers.iter().map(Text::as_str).collect();
    format!("is being deleted, which waits for its finalizers: {}", finalizers.join(", ")).into()
}

fn resource_failure(object: &OwnedObject, failure: &OperationFailure) -> ResourceFailure {
    let key = &object.key;
    let message = format!("cannot delete {} {}: {}", key.kind, key.namespaced_name(), failure.message);
    ResourceFailure { operation: Some(Operation::Delete), ..failure.reported(message) }
}

fn pending_deletion(object: &OwnedObject) -> PendingDeletion {
    PendingDeletion {
        key: object.key.clone(),
        api_version: object.api_version.clone(),
        node: object.node.clone(),
        uid: object.uid.clone(),
        generation: object.generation,
        why: None,
        told: false,
        stays: false,
        hook: object.answers.deletion,
        until: None,
    }
}

impl Wait {
    /// The class of the failure, if there is one.
    #[must_use]
    pub fn reason(&self) -> Option<FailureReason> {
        match self {
            Self::Connection(failure) | Self::Failed(failure) => Some(failure.reason),
            _ => None,
        }
    }
}
