//! Apply: writes what a plan says, at once where nothing needs the other, and takes the answers in.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kross_api::{ClusterId, FailureReason, Operation, labels, managers};
use kross_cluster::{
    ApiError, ApiKind, Apply, ClusterClient, Delete, Deleted, Missing, ObjectKey, OwnershipMarks,
    Propagation, StoredObject,
};
use kross_plan::{AccessPath, ApplyAction, NodePlan, OperationFailure, PendingDeletion, Plan, PlannedObject};
use kross_value::Text;

use super::memory::Memory;
use super::observe::{Observation, version_of};
use super::reach::{Reach, ReachError};
use crate::context::Context;

/// Writes of one instance in one cluster that run at once.
const AT_ONCE: usize = 16;

/// The outcome of one write.
type Answer = (ObjectKey, Text, Operation, Result<Written, ReachError>);

enum Written {
    Applied(Box<StoredObject>),
    /// Somebody else's object is in the way.
    Taken(Box<StoredObject>),
    /// A sibling writes the same object at this moment.
    Claimed,
}

/// Writes these objects of an instance's plan and takes the answers in.
pub(super) async fn wave(
    (context, instance): (&Context, &ObjectKey),
    reach: &Reach<'_>,
    plan: &Plan,
    actions: &[&ApplyAction],
    observation: &mut Observation,
    memory: &mut Memory,
) {
    // Boxed one by one: the compiler cannot see through a stream of borrowing futures.
    let writes = actions.iter().filter_map(|action| {
        let (node, object) = (plan.nodes.get(action.node.0)?, plan.object(action)?);
        let applyset = plan.applysets.get(&object.key.cluster)?;
        let access_path = plan.access_paths.to(&object.key);
        let contested = memory.contested.contains(&object.key);
        let write = Write { context, instance, reach, object, access_path, create: action.create, contested };
        let write = write.run(node, applyset, memory.since).boxed();
        Some((&object.key.cluster, write))
    });
    let answers: Vec<Answer> = at_once(reach, writes).await;
    let now = Timestamp::now();
    for (key, node, operation, answer) in answers {
        match answer {
            Ok(Written::Applied(object)) => {
                tracing::debug!(node = %node, object = %key, "applied");
                memory.failures.remove(&key);
                memory.contested.remove(&key);
                observation.observed.failures.remove(&key);
                match object.owned_digest() {
                    Some(digest) => memory.digests.insert(key.clone(), digest),
                    None => memory.digests.remove(&key),
                };
                observation.see(key, Arc::from(object), memory);
            }
            Ok(Written::Taken(object)) => {
                memory.contested.insert(key.clone());
                observation.see(key, Arc::from(object), memory);
            }
            Ok(Written::Claimed) => {
                let message = "another instance is writing the same object";
                fail(key, node, operation, FailureReason::Conflict, message, now, observation, memory);
            }
            Err(error) => {
                let message = explained(&key, &error);
                tracing::debug!(node = %node, object = %key, why = message, "cannot apply");
                fail(key, node, operation, error.reason(), &message, now, observation, memory);
            }
        }
    }
}

/// What went wrong, and what to do about it where the error itself does not say it.
fn explained(key: &ObjectKey, error: &ReachError) -> String {
    let ReachError::Api(api) = error else { return error.message().to_owned() };
    let advice = match (api.missing(), error.reason()) {
        (_, FailureReason::Invalid) if error.message().ends_with("field is immutable") => {
            "; delete the object to have it made anew".to_owned()
        }
        _ if key.cluster.is_local() => String::new(),
        (Some(Missing::Namespace(namespace)), _) => {
            format!("; create namespace `{namespace}` there, or have the graph make it")
        }
        (_, FailureReason::Forbidden) => {
            "; `kross rbac FILE --remote` prints what the credential must be allowed".to_owned()
        }
        _ => String::new(),
    };
    format!("{}{advice}", error.message())
}

/// Does things at once, so many in each cluster: a slow one takes no place from another.
async fn at_once<'f, T>(
    reach: &Reach<'_>,
    work: impl Iterator<Item = (&'f ClusterId, BoxFuture<'f, T>)>,
) -> Vec<T> {
    let mut by_cluster: BTreeMap<&ClusterId, Vec<BoxFuture<'f, T>>> = BTreeMap::new();
    for (cluster, work) in work {
        by_cluster.entry(cluster).or_default().push(work);
    }
    let clusters: Vec<&ClusterId> = by_cluster.keys().copied().collect();
    let all =
        by_cluster.into_values().map(|work| stream::iter(work).buffer_unordered(AT_ONCE).collect::<Vec<T>>());
    reach.wait(clusters, join_all(all)).await.into_iter().flatten().collect()
}

#[expect(clippy::too_many_arguments, reason = "every one of them is part of the record")]
pub(super) fn fail(
    key: ObjectKey,
    node: Text,
    operation: Operation,
    reason: FailureReason,
    message: &str,
    now: Timestamp,
    observation: &mut Observation,
    memory: &mut Memory,
) {
    // How long it fails goes on whatever the reason, but a deletion is another matter than what went before it.
    let same = |before: &&OperationFailure| {
        (before.operation == Operation::Delete) == (operation == Operation::Delete)
    };
    let since = memory.failures.get(&key).filter(same).map_or(now, |before| before.since);
    let failure = OperationFailure { node, operation, reason, message: message.into(), since };
    memory.failures.insert(key.clone(), failure.clone());
    observation.observed.failures.insert(key, failure);
}

/// An object that is to be written.
struct Write<'a> {
    context: &'a Context,
    instance: &'a ObjectKey,
    reach: &'a Reach<'a>,
    object: &'a PlannedObject,
    access_path: Option<&'a AccessPath>,
    create: bool,
    /// Whether it may be another instance's, though the copies do not say so.
    contested: bool,
}

impl Write<'_> {
    async fn run(mut self, node: &NodePlan, applyset: &Text, since: u64) -> Answer {
        let operation = if self.create { Operation::Create } else { Operation::Update };
        let key = &self.object.key;
        let answer = match self.context.instances.claim(key, applyset, since) {
            None => Ok(Written::Claimed),
            Some(mut claim) => {
                self.contested |= claim.contested;
                let answer = self.apply(applyset, operation).await;
                if let Ok(Written::Applied(object)) = &answer {
                    // Before others may claim it: whoever begins then reads it.
                    self.reach.observe(&key.cluster, object);
                    claim.written();
                }
                answer
            }
        };
        (key.clone(), node.id.clone(), operation, answer)
    }

    /// Applies the object. The first apply of an object that nobody has seen goes without force: if it is in another apply
    /// set, that shows as a conflict on the label; anything else is taken over.
    async fn apply(&self, applyset: &Text, operation: Operation) -> Result<Written, ReachError> {
        let Self { object, create, .. } = *self;
        let Some(desired) = &object.desired else { return Ok(Written::Claimed) };
        let key = &object.key;
        let client =
            self.reach.connection_by(&key.cluster, self.access_path.map(|access_path| &access_path.key))?;
        let version = version_of(&object.api_version);
        let kind = client.kind(&key.group, Some(&version), &key.kind).await?;
        if create && (object.exclusive || self.contested) {
            match self.look(client, &kind).await {
                Ok(other) if self.is_in_the_way(&other, applyset) => {
                    return Ok(Written::Taken(Box::new(other)));
                }
                Ok(_) => {}
                Err(error) if error.is_object_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let options = Apply { operation, ..Apply::by(managers::APPLYSET) };
        let first = if create { options } else { options.force() };
        match client.apply(&kind, desired, first).await {
            Ok(written) => Ok(Written::Applied(Box::new(written))),
            Err(error) if create && error.label_conflict(labels::APPLYSET_PART_OF).is_some() => {
                Ok(Written::Taken(Box::new(self.look(client, &kind).await?)))
            }
            Err(error) if create && !error.conflicts().is_empty() => {
                let written = client.apply(&kind, desired, options.force()).await?;
                Ok(Written::Applied(Box::new(written)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at what is in the place of the object. From before that on it is told when it goes.
    async fn look(&self, client: &ClusterClient, kind: &ApiKind) -> Result<StoredObject, ApiError> {
        let key = &self.object.key;
        self.context.instances.want_too(self.instance, key);
        client.get(kind, key.namespace.as_deref(), &key.name).await
    }

    fn is_in_the_way(&self, other: &StoredObject, applyset: &Text) -> bool {
        match other.label(labels::APPLYSET_PART_OF) {
            None => self.object.exclusive,
            Some(holder) => holder != applyset.as_str(),
        }
    }
}

/// Deletes objects. Gives whether all that could be done was done.
pub(super) async fn delete(
    reach: &Reach<'_>,
    deletions: &[PendingDeletion],
    observation: &mut Observation,
    memory: &mut Memory,
) -> bool {
    let deletes = deletions.iter().map(|pending| {
        let delete = async move { (pending, delete_one(reach, pending).await) };
        (&pending.key.cluster, delete.boxed())
    });
    let answers = at_once(reach, deletes).await;
    let now = Timestamp::now();
    let mut fine = true;
    for (pending, answer) in answers {
        let key = pending.key.clone();
        match answer {
            Ok(Some(terminating)) => {
                tracing::debug!(node = %pending.node, object = %key, "asked to go");
                memory.failures.remove(&key);
                observation.observed.failures.remove(&key);
                observation.see(key, Arc::new(terminating), memory);
            }
            Ok(None) => {
                tracing::debug!(node = %pending.node, object = %key, "deleted");
                memory.failures.remove(&key);
                memory.digests.remove(&key);
                observation.observed.failures.remove(&key);
                if let Some(object) = observation.stored.get(&key) {
                    reach.observe_gone(&key.cluster, object);
                }
                observation.lose(&key);
            }
            // Another object has its name: what that is has to be looked at.
            Err(error) if error.reason() == FailureReason::Conflict => {
                fine = false;
                observation.lose(&key);
            }
            Err(error) => {
                fine = false;
                let node = pending.node.clone();
                tracing::debug!(%node, object = %key, why = error.message(), "cannot delete");
                fail(key, node, Operation::Delete, error.reason(), error.message(), now, observation, memory);
            }
        }
    }
    fine
}

/// Deletes one object; gives it if it is still there.
async fn delete_one(
    reach: &Reach<'_>,
    pending: &PendingDeletion,
) -> Result<Option<StoredObject>, ReachError> {
    let key = &pending.key;
    let client = reach.connection_for(&key.cluster, &key.group, &key.kind)?;
    let kind = client.kind(&key.group, Some(&version_of(&pending.api_version)), &key.kind).await?;
    // As kubectl does: left to itself a Job would leave its Pods behind.
    let propagation = Some(Propagation::Background);
    let options = Delete { uid: Some(&pending.uid), propagation, ..Delete::default() };
    match client.delete(&kind, key.namespace.as_deref(), &key.name, options).await {
        Ok(Deleted::Removed) => Ok(None),
        Ok(Deleted::Terminating(object)) => Ok(Some(object)),
        Err(error) if error.is_object_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What became of objects that were to be released.
#[derive(Debug, Default)]
pub(super) struct Released {
    /// They belong to nobody now.
    pub(super) parted: Vec<PendingDeletion>,
    /// They could not be changed, and nobody waits for them any more.
    pub(super) stuck: Vec<(PendingDeletion, FailureReason)>,
    /// Whether one of them is to be tried again.
    pub(super) again: bool,
}

/// Lets objects stay without us: the labels, notes and claims that make them ours go.
pub(super) async fn release(
    reach: &Reach<'_>,
    deletions: &[PendingDeletion],
    observation: &mut Observation,
    memory: &mut Memory,
) -> Released {
    let releases = deletions.iter().map(|pending| {
        let release = async move { (pending, release_one(reach, pending).await) };
        (&pending.key.cluster, release.boxed())
    });
    let answers = at_once(reach, releases).await;
    let mut released = Released::default();
    for (pending, answer) in answers {
        let key = pending.key.clone();
        match answer {
            Ok(()) => {
                memory.digests.remove(&key);
                memory.failures.remove(&key);
                observation.lose(&key);
                released.parted.push(pending.clone());
            }
            // Its author does not wait for it any longer.
            Err(error) if pending.why.is_some() => {
                observation.lose(&key);
                released.stuck.push((pending.clone(), error.reason()));
            }
            Err(error) => {
                released.again = true;
                let (node, now) = (pending.node.clone(), Timestamp::now());
                fail(key, node, Operation::Update, error.reason(), error.message(), now, observation, memory);
            }
        }
    }
    released
}

async fn release_one(reach: &Reach<'_>, pending: &PendingDeletion) -> Result<(), ReachError> {
    let key = &pending.key;
    let client = reach.connection_for(&key.cluster, &key.group, &key.kind)?;
    let kind = client.kind(&key.group, Some(&version_of(&pending.api_version)), &key.kind).await?;
    let marks = OwnershipMarks { manager: managers::APPLYSET, is_mark };
    client.release(&kind, key.namespace.as_deref(), &key.name, &pending.uid, marks).await?;
    Ok(())
}

/// Whether a label or an annotation says that an object is an instance's.
fn is_mark(key: &str, value: &str) -> bool {
    key.starts_with(kross_api::KEY_PREFIX)
        || key.starts_with(kross_api::INTERNAL_KEY_PREFIX)
        || key == labels::APPLYSET_PART_OF
        || (key == labels::MANAGED_BY && value == labels::MANAGED_BY_KRO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_fails_since_it_is_one() {
        let (mut observation, mut memory) = (Observation::default(), Memory::default());
        let key = ObjectKey {
            cluster: ClusterId::local(),
            group: "".into(),
            kind: "ConfigMap".into(),
            namespace: None,
            name: "a".into(),
        };
        let mut since = |operation, reason, second| {
            let now = Timestamp::from_second(second).unwrap();
            fail(key.clone(), "a".into(), operation, reason, "", now, &mut observation, &mut memory);
            memory.failures[&key].since.as_second()
        };
        assert_eq!(since(Operation::Update, FailureReason::Invalid, 1), 1);
        assert_eq!(since(Operation::Update, FailureReason::Timeout, 2), 1);
        assert_eq!(since(Operation::Delete, FailureReason::ServerError, 3), 3);
        assert_eq!(since(Operation::Delete, FailureReason::Forbidden, 4), 3);
    }
}
