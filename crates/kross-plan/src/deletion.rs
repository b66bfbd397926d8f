//! The plan of deletion: which objects go now, which are waited for and why, which are left behind. It needs no graph and
//! no expressions, only the objects with what is kept on them; pruning is the same thing for a part of the objects.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kross_api::{DeletePolicy, FailureReason, ObjectKey, Operation};
use kross_value::Text;

use crate::lifecycle::Answers;
use crate::observed::{Failure, ObservedObject};
use crate::progress::Trouble;
use rank::ranks;

mod rank;
#[cfg(test)]
mod tests;

/// An object that is to go.
#[derive(Clone, Debug)]
pub struct DoomedObject {
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
    /// How it goes.
    pub answers: Answers,
    /// Why nothing can be done there, if so.
    pub closed: Option<Trouble>,
    /// What went wrong the last time.
    pub failure: Option<Failure>,
}

impl DoomedObject {
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
            answers,
            closed: None,
            failure: None,
            key,
        }
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

/// What a plan of deletion is made from.
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    /// Every object that is to go.
    pub objects: &'a [DoomedObject],
    /// Nodes that exist for the deletion and are not ready, with why. Objects may have to wait for them.
    pub unready: &'a BTreeMap<Text, Text>,
    /// When the deletion of an object was first attempted.
    pub attempts: &'a BTreeMap<ObjectKey, Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// Which objects go now, and what becomes of the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeletionPlan {
    /// To delete now, with their UID as a precondition.
    pub delete: Vec<Doom>,
    /// To release now: ownership labels, apply set and field manager go, the object stays.
    pub release: Vec<Doom>,
    /// No longer waited for, since their author said so. Those in `release` too lose their labels.
    pub left_behind: Vec<Doom>,
    /// Waited for.
    pub waiting: Vec<(Doom, Wait)>,
    /// When the deletion of an object was first attempted: to be kept, and given to the next plan.
    pub attempts: BTreeMap<ObjectKey, Timestamp>,
    /// When time alone changes the plan.
    pub recheck_at: Option<Timestamp>,
}

/// An object in a plan of deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Doom {
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
}

/// Why an object is waited for.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// Others go before it.
    Turn,
    /// It was deleted and is not gone yet.
    Gone(Text),
    /// A node that exists for the deletion is not ready.
    For(Text),
    /// Its cluster does not answer.
    Closed(Trouble),
    /// Its deletion failed, and is tried again.
    Failed(Trouble),
}

impl Wait {
    /// What is being waited for, in a few words.
    #[must_use]
    pub fn message(&self) -> Text {
        match self {
            Self::Turn => "waits for its turn".into(),
            Self::Gone(message) | Self::For(message) => message.clone(),
            Self::Closed(trouble) | Self::Failed(trouble) => trouble.message.clone(),
        }
    }
}

impl DeletionPlan {
    /// Whether nothing is left to do or to wait for.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.delete.is_empty() && self.release.is_empty() && self.waiting.is_empty()
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
///   kind after its objects, and what waits for another node after that node's objects.
/// - An object is left behind only where its author allowed it, counted from the first attempt.
#[must_use]
pub fn plan_deletion(deletion: Deletion<'_>) -> DeletionPlan {
    let mut plan = DeletionPlan::default();
    let mut doomed: Vec<(usize, &DoomedObject)> = Vec::new();
    let (retained, containers) = retained(deletion.objects);
    for (at, object) in deletion.objects.iter().enumerate() {
        if containers.contains(&at) {
            release(object, &deletion, &mut plan);
        } else if !retained.contains(&at) {
            doomed.push((at, object));
        } else if containers.is_empty() {
            release(object, &deletion, &mut plan);
        } else {
            let wait = Wait::For("stays, once what it is in was released".into());
            plan.waiting.push((doom(object), wait));
        }
    }
    let ranks = ranks(deletion.objects);
    let rank = |at: usize| ranks.get(at).copied().unwrap_or_default();
    doomed.sort_by(|(a, left), (b, right)| rank(*b).cmp(&rank(*a)).then_with(|| left.key.cmp(&right.key)));
    let mut rest = doomed.as_slice();
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
    plan.waiting.extend(rest.iter().map(|(_, object)| (doom(object), Wait::Turn)));
    plan
}

/// What stays, and the namespaces and definitions of kinds around it: they stay too, and are released first, since their
/// deletion would take it with them.
fn retained(objects: &[DoomedObject]) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let stays = |object: &DoomedObject| object.answers.policy == DeletePolicy::Retain && !object.terminating;
    let indexed = || objects.iter().enumerate();
    let retained: BTreeSet<usize> = indexed().filter(|(_, object)| stays(object)).map(|(at, _)| at).collect();
    if retained.is_empty() {
        return Default::default();
    }
    let around = |object: &DoomedObject| {
        !object.terminating
            && indexed().any(|(at, inner)| retained.contains(&at) && rank::contains(object, inner))
    };
    let containers = indexed().filter(|(_, object)| rank::is_container(object) && around(object));
    let containers = containers.map(|(at, _)| at).collect();
    (retained, containers)
}

/// An object whose turn it is. Gives whether those after it must wait.
fn due(object: &DoomedObject, deletion: &Deletion<'_>, plan: &mut DeletionPlan) -> bool {
    if forced(object, deletion, plan) {
        plan.left_behind.push(doom(object));
        if object.closed.is_none() {
            plan.release.push(doom(object));
        }
        return false;
    }
    if let Some(trouble) = &object.closed {
        plan.waiting.push((doom(object), Wait::Closed(trouble.clone())));
    } else if object.terminating {
        plan.waiting.push((doom(object), Wait::Gone(going(object))));
    } else if let Some(wait) = readiness(object, deletion.unready) {
        plan.waiting.push((doom(object), wait));
    } else {
        plan.delete.push(doom(object));
        if let Some(failure) = &object.failure {
            plan.waiting.push((doom(object), Wait::Failed(trouble(object, failure))));
        }
    }
    true
}

/// Whether waiting for the object ends here.
fn forced(object: &DoomedObject, deletion: &Deletion<'_>, plan: &mut DeletionPlan) -> bool {
    let first = deletion.attempts.get(&object.key).copied().unwrap_or(deletion.now);
    plan.attempts.insert(object.key.clone(), first);
    let Some(limit) = object.answers.force_after() else {
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
    // Whatever can be deleted is tried once before it is given up.
    let tried = object.closed.is_some() || object.terminating || deletion.attempts.contains_key(&object.key);
    tried && object.answers.force_when.unwrap_or(true)
}

fn readiness(object: &DoomedObject, unready: &BTreeMap<Text, Text>) -> Option<Wait> {
    let (id, why) = object.answers.after.iter().find_map(|id| unready.get_key_value(id.as_str()))?;
    Some(Wait::For(format!("waits for `{id}` to be ready: {why}").into()))
}

fn release(object: &DoomedObject, deletion: &Deletion<'_>, plan: &mut DeletionPlan) {
    match &object.closed {
        None => plan.release.push(doom(object)),
        Some(_) if forced(object, deletion, plan) => plan.left_behind.push(doom(object)),
        Some(trouble) => plan.waiting.push((doom(object), Wait::Closed(trouble.clone()))),
    }
}

fn going(object: &DoomedObject) -> Text {
    if object.finalizers.is_empty() {
        return "is being deleted".into();
    }
    let finalizers: Vec<&str> = object.finalizers.iter().map(Text::as_str).collect();
    format!("is being deleted, which waits for its finalizers: {}", finalizers.join(", ")).into()
}

fn trouble(object: &DoomedObject, failure: &Failure) -> Trouble {
    let key = &object.key;
    Trouble {
        operation: Some(Operation::Delete),
        reason: failure.reason,
        message: format!("cannot delete {} {}: {}", key.kind, key.namespaced_name(), failure.message).into(),
        error: failure.message.clone(),
        since: Some(failure.since),
    }
}

fn doom(object: &DoomedObject) -> Doom {
    Doom {
        key: object.key.clone(),
        api_version: object.api_version.clone(),
        node: object.node.clone(),
        uid: object.uid.clone(),
        generation: object.generation,
    }
}

impl Wait {
    /// The class of the failure, if there is one.
    #[must_use]
    pub fn reason(&self) -> Option<FailureReason> {
        match self {
            Self::Closed(trouble) | Self::Failed(trouble) => Some(trouble.reason),
            _ => None,
        }
    }
}
