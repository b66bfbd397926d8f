//! Deletes and releases objects, and observes the results. A released object stays in its cluster without our labels,
//! annotations and field ownership.

use std::sync::Arc;

use futures::future::FutureExt;
use kross_api::{FailureReason, Operation, labels, managers};
use kross_cluster::{
    ApiError, ClusterClient, Delete, Deleted, ObjectKey, OwnershipMarks, Propagation, StoredObject,
};
use kross_plan::PendingDeletion;
use tokio::time::Instant;

use super::apply::concurrently;
use super::clients::{ClientError, InstanceClients};
use super::observation::version_of;
use super::pass::Pass;

/// What became of objects that were to be released.
#[derive(Debug, Default)]
pub(super) struct Released {
    /// Those that were released.
    pub(super) released: Vec<PendingDeletion>,
    /// Those that could not be patched and are orphaned with our labels, since their deadline has passed.
    pub(super) orphaned: Vec<(PendingDeletion, FailureReason)>,
    /// Whether the release of one of them is to be retried.
    pub(super) retry: bool,
}

/// Which deletions were carried out.
#[derive(Debug)]
pub(super) struct Requested {
    /// The objects that were deleted, or are being deleted now.
    pub(super) objects: Vec<PendingDeletion>,
    /// Whether these are all.
    pub(super) all: bool,
}

impl Pass<'_> {
    /// Deletes objects.
    pub(super) async fn delete(&mut self, deletions: &[PendingDeletion]) -> Requested {
        let (clients, throttle, now) = (&self.clients, &self.memory.throttle, Instant::now());
        let due: Vec<_> = deletions.iter().filter(|pending| !throttle.holds(&pending.key, now)).collect();
        let mut requested = Requested { objects: Vec::new(), all: due.len() == deletions.len() };
        let deletes = due.into_iter().map(|pending| {
            let delete = async move { (pending, delete_one(clients, pending).await) };
            (clients.credential(&pending.key, None), delete.boxed())
        });
        let results = concurrently(clients, deletes).await;
        for (pending, result) in results {
            if self.observe_deleted(pending, result) {
                requested.objects.push(pending.clone());
            } else {
                requested.all = false;
            }
        }
        requested
    }

    fn observe_deleted(
        &mut self,
        pending: &PendingDeletion,
        result: Result<Option<StoredObject>, ClientError>,
    ) -> bool {
        let (key, node) = (&pending.key, &pending.node);
        match result {
            Ok(Some(terminating)) => {
                tracing::debug!(%node, object = %key, "requested deletion of object");
                self.succeed(key);
                self.observation.add(key.clone(), Arc::new(terminating), self.memory);
                true
            }
            Ok(None) => {
                tracing::debug!(%node, object = %key, "deleted object");
                self.succeed(key);
                self.memory.digests.remove(key);
                if let Some(object) = self.observation.stored.get(key) {
                    self.clients.observe_deleted(&key.cluster, object);
                }
                self.observation.remove(key);
                true
            }
            // Another object has the name now. The next pass observes it.
            Err(error) if error.reason() == FailureReason::Conflict => {
                self.observation.remove(key);
                false
            }
            Err(error) => {
                tracing::debug!(%node, object = %key, error = error.message(), "cannot delete object");
                self.memory.throttle.failed(key, &error, Instant::now());
                let message = self.why(key, &error);
                self.fail(key, node, Operation::Delete, error.reason(), &message);
                false
            }
        }
    }

    /// Releases objects: removes the labels, annotations and field ownership that make them ours.
    pub(super) async fn release(&mut self, deletions: &[PendingDeletion]) -> Released {
        let (clients, throttle, now) = (&self.clients, &self.memory.throttle, Instant::now());
        let due: Vec<_> = deletions.iter().filter(|pending| !throttle.holds(&pending.key, now)).collect();
        let mut released = Released { retry: due.len() < deletions.len(), ..Released::default() };
        let releases = due.into_iter().map(|pending| {
            let release = async move { (pending, release_one(clients, pending).await) };
            (clients.credential(&pending.key, None), release.boxed())
        });
        let results = concurrently(clients, releases).await;
        for (pending, result) in results {
            let key = &pending.key;
            match result {
                Ok(()) => {
                    self.memory.throttle.succeeded(key);
                    self.memory.digests.remove(key);
                    self.memory.failures.remove(key);
                    self.observation.remove(key);
                    released.released.push(pending.clone());
                }
                // Its deadline has passed, so the deletion does not wait for it.
                Err(error) if pending.why.is_some() => {
                    self.observation.remove(key);
                    released.orphaned.push((pending.clone(), error.reason()));
                }
                Err(error) => {
                    released.retry = true;
                    self.memory.throttle.failed(key, &error, Instant::now());
                    let message = self.why(key, &error);
                    self.fail(key, &pending.node, Operation::Update, error.reason(), &message);
                }
            }
        }
        released
    }
}

impl Pass<'_> {
    fn why(&self, key: &ObjectKey, error: &ClientError) -> String {
        match error {
            ClientError::Api(api) => self.explained(key, api),
            ClientError::NotConnected(_) => error.message().to_owned(),
        }
    }
}

/// The controller's own client in place of one that was refused, if the ServiceAccount of the instance cannot act any more.
async fn own_client<'c>(
    clients: &'c InstanceClients<'_>,
    key: &ObjectKey,
    error: &ApiError,
) -> Option<&'c ClusterClient> {
    let acting = clients.acting().filter(|_| key.cluster.is_local())?;
    let client = acting.own_client_for(key, error).await?;
    tracing::info!(object = %key, account = %acting.account, "the ServiceAccount cannot act any more; deleting the object without it");
    Some(client)
}

/// Deletes one object. Returns it if a finalizer keeps it.
#[tracing::instrument(
    name = "delete",
    level = "debug",
    skip_all,
    fields(cluster = %pending.key.cluster, node = %pending.node, object = %pending.key.group_kind())
)]
async fn delete_one(
    clients: &InstanceClients<'_>,
    pending: &PendingDeletion,
) -> Result<Option<StoredObject>, ClientError> {
    let key = &pending.key;
    let client = clients.client_for(&key.cluster, &key.group, &key.kind)?;
    let kind = client.kind(&key.group, Some(&version_of(&pending.api_version)), &key.kind).await?;
    // As kubectl does: the default of a Job would orphan its Pods.
    let propagation = Some(Propagation::Background);
    let options = Delete { uid: Some(&pending.uid), propagation, ..Delete::default() };
    let mut deleted = client.delete(&kind, key.namespace.as_deref(), &key.name, options).await;
    if let Err(error) = &deleted
        && let Some(own) = own_client(clients, key, error).await
    {
        deleted = own.delete(&kind, key.namespace.as_deref(), &key.name, options).await;
    }
    match deleted {
        Ok(Deleted::Removed) => Ok(None),
        Ok(Deleted::Terminating(object)) => Ok(Some(object)),
        Err(error) if error.is_object_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn release_one(clients: &InstanceClients<'_>, pending: &PendingDeletion) -> Result<(), ClientError> {
    let key = &pending.key;
    let client = clients.client_for(&key.cluster, &key.group, &key.kind)?;
    let kind = client.kind(&key.group, Some(&version_of(&pending.api_version)), &key.kind).await?;
    let marks = OwnershipMarks { manager: managers::APPLYSET, is_mark: is_ownership };
    let namespace = key.namespace.as_deref();
    let released = client.release(&kind, namespace, &key.name, &pending.uid, marks).await;
    if let Err(error) = &released
        && let Some(own) = own_client(clients, key, error).await
    {
        own.release(&kind, namespace, &key.name, &pending.uid, marks).await?;
        return Ok(());
    }
    released?;
    Ok(())
}

/// Whether a label or an annotation marks an object as an instance's.
fn is_ownership(key: &str, value: &str) -> bool {
    key.starts_with(kross_api::KEY_PREFIX)
        || key.starts_with(kross_api::INTERNAL_KEY_PREFIX)
        || key == labels::APPLYSET_PART_OF
        || (key == labels::MANAGED_BY && value == labels::MANAGED_BY_KRO)
}
