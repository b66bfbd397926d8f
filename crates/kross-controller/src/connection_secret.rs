//! Copies of connection Secrets for targets and claims: watches the Secret of a managed resource and the copy by name, keeps the
//! copy in step, and deletes it. Both are in caches of their own, so that nothing else can read them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kross_api::{FailureReason, Reason, connection_keys, labels, managers};
use kross_cluster::{
    ApiError, ApiKind, Cache, CacheEvent, CacheOptions, Caches, Change, Delete, Deleted, Lookup, SecretName,
    Selection, StoredObject,
};
use kross_plan::workload::{
    CopyOwner, CopyPlan, PropagationRefusal, SecretReference, SourceSecret, check_source, is_controlled_by,
    plan_copy, source_secret,
};
use kross_value::Value;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::context::Context;
use crate::finalizer;
use crate::key::WorkloadKey;
use crate::kinds;
use crate::workload::WorkloadKind;

/// How long until the copies are listed again after a failure.
const LIST_WAIT: Duration = Duration::from_secs(5);

/// The Secrets that targets and claims copy. The lock is a leaf; caches are opened and dropped outside of it.
pub(crate) struct ConnectionSecrets {
    caches: Caches,
    kind: Arc<ApiKind>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: HashMap<SecretName, (Cache, HashSet<WorkloadKey>)>,
    /// The Secrets that each target or claim watches.
    secrets: HashMap<WorkloadKey, BTreeSet<SecretName>>,
}

impl ConnectionSecrets {
    pub(crate) fn new(options: &CacheOptions) -> Self {
        let options = CacheOptions { indexed_labels: Vec::new(), ..options.clone() };
        Self {
            caches: Caches::new(options),
            kind: Arc::new(ApiKind::custom("", "v1", "Secret", "secrets", true)),
            state: Mutex::default(),
        }
    }

    /// The events of the watched Secrets.
    pub(crate) fn subscribe(&self) -> mpsc::UnboundedReceiver<CacheEvent> {
        self.caches.subscribe()
    }

    /// Watches these Secrets for a target or a claim, and none else.
    fn watch(&self, context: &Context, user: &WorkloadKey, wanted: &BTreeSet<SecretName>) {
        let known: Vec<SecretName> = {
            let state = self.state.lock();
            if state.secrets.get(user) == Some(wanted) {
                return;
            }
            wanted.iter().filter(|name| state.watched.contains_key(*name)).cloned().collect()
        };
        // Opened outside of the lock. If somebody else opens one meanwhile, it is the same.
        let opened: Vec<(SecretName, Cache)> = wanted
            .iter()
            .filter(|name| !known.contains(name))
            .map(|name| {
                let selection =
                    Selection::Name { namespace: Some(name.namespace.clone()), name: name.name.clone() };
                (name.clone(), self.caches.watch(&context.client, &self.kind, selection))
            })
            .collect();
        let unused = self.state.lock().set(user, wanted, opened);
        drop(unused);
    }

    /// A target or a claim copies nothing any more.
    pub(crate) fn forget(&self, user: &WorkloadKey) {
        let unused = self.state.lock().set(user, &BTreeSet::new(), Vec::new());
        drop(unused);
    }

    /// The cache of a watched Secret.
    fn cache(&self, name: &SecretName) -> Option<Cache> {
        self.state.lock().watched.get(name).map(|(cache, _)| cache.clone())
    }

    fn users(&self, name: &SecretName) -> Vec<WorkloadKey> {
        self.state.lock().watched.get(name).into_iter().flat_map(|(_, users)| users).cloned().collect()
    }
}

impl State {
    /// Sets the Secrets of a user. Returns the caches that nobody uses, to be dropped outside of the lock.
    fn set(
        &mut self,
        user: &WorkloadKey,
        wanted: &BTreeSet<SecretName>,
        opened: Vec<(SecretName, Cache)>,
    ) -> Vec<Cache> {
        let mut unused = Vec::new();
        let before = self.secrets.remove(user).unwrap_or_default();
        for (name, cache) in opened {
            match self.watched.entry(name) {
                Entry::Occupied(_) => unused.push(cache),
                Entry::Vacant(entry) => drop(entry.insert((cache, HashSet::new()))),
            }
        }
        for name in wanted {
            if let Some((_, users)) = self.watched.get_mut(name) {
                users.insert(user.clone());
            }
        }
        for name in before.difference(wanted) {
            let Some((_, users)) = self.watched.get_mut(name) else { continue };
            users.remove(user);
            if users.is_empty()
                && let Some((cache, _)) = self.watched.remove(name)
            {
                unused.push(cache);
            }
        }
        // One that lost its only other user since it was found to be watched is opened by the next reconcile.
        let wanted: BTreeSet<SecretName> =
            wanted.iter().filter(|name| self.watched.contains_key(*name)).cloned().collect();
        if !wanted.is_empty() {
            self.secrets.insert(user.clone(), wanted);
        }
        unused
    }
}

/// Requeues the targets and claims that a change of a watched Secret concerns.
pub(crate) fn changed(context: &Context, event: &CacheEvent) {
    // Our own writes are what the copies should be.
    if matches!(event.change, Change::Applied { ours: true, .. }) {
        return;
    }
    let Selection::Name { namespace: Some(namespace), name } = &event.cache.selection else { return };
    let secret = SecretName { namespace: namespace.clone(), name: name.clone() };
    for user in context.connection_secrets.users(&secret) {
        context.workload_queue.add(&user);
    }
}

/// The target or the claim that a copy is made for.
pub(crate) fn copy_owner(object: &StoredObject) -> CopyOwner {
    CopyOwner {
        api_version: object.api_version().to_owned(),
        kind: object.kind().to_owned(),
        namespace: object.namespace().map(ToString::to_string).unwrap_or_default(),
        name: object.name().to_string(),
        uid: object.uid().to_string(),
    }
}

/// The state of a copy.
#[derive(Debug)]
pub(crate) enum Propagation {
    /// The copy has the content of the source.
    Current {
        /// The Secret that it is copied from.
        source: SecretReference,
        /// Whether somebody deletes the copy.
        is_terminating: bool,
    },
    /// A cache has not synced yet. The user is requeued when it has.
    Pending,
    /// Nothing was copied. The user is requeued when that changes.
    Refused(PropagationRefusal),
    /// A request failed.
    Failed(ApiError),
}

/// Copies the connection Secret of a managed resource into the Secret `name` of the owner's namespace, or keeps it in step. The
/// caller has checked that the managed resource is bound. From now on, the user is requeued when one of the Secrets changes.
pub(crate) async fn propagate(
    context: &Context,
    user: &WorkloadKey,
    owner: &CopyOwner,
    name: &str,
    managed: &StoredObject,
) -> Propagation {
    let Some(reference) = source_secret(managed.value()) else {
        context.connection_secrets.forget(user);
        return Propagation::Refused(PropagationRefusal::new(
            Reason::NoConnectionSecret,
            "the managed resource names no connection Secret with namespace and name in `spec.writeConnectionSecretToRef` or `status.connectionSecretRef`",
        ));
    };
    let source_name =
        SecretName { namespace: reference.namespace.as_str().into(), name: reference.name.as_str().into() };
    let copy_name = SecretName { namespace: owner.namespace.as_str().into(), name: name.into() };
    let wanted = BTreeSet::from([source_name.clone(), copy_name.clone()]);
    context.connection_secrets.watch(context, user, &wanted);
    let source = match look_up(context, &source_name) {
        Seen::Found(source) => source,
        Seen::Absent => {
            let message = format!("connection Secret `{reference}` of the managed resource does not exist");
            return Propagation::Refused(PropagationRefusal::new(Reason::NoConnectionSecret, message));
        }
        Seen::Pending => return Propagation::Pending,
        Seen::Failed(error) => return Propagation::Failed(error),
    };
    let owned_keys: Vec<&str> = connection_keys::ALL
        .into_iter()
        // A template may have `stringData`, which the API server stores as `data`.
        .filter(|key| source.owns(&["data", key]) || source.owns(&["stringData", key]))
        .collect();
    let content = SourceSecret { value: source.value(), owned_keys: &owned_keys };
    if let Err(refusal) = check_source(managed.value(), content, &reference, &owner.namespace) {
        return Propagation::Refused(refusal);
    }
    let live = match look_up(context, &copy_name) {
        Seen::Found(live) => Some(live),
        Seen::Absent => None,
        Seen::Pending => return Propagation::Pending,
        Seen::Failed(error) => return Propagation::Failed(error),
    };
    let plan = plan_copy(owner, name, source.value(), &reference, live.as_ref().map(|live| live.value()));
    let kind = &context.connection_secrets.kind;
    let written = match plan {
        CopyPlan::Refuse(refusal) => {
            let released = match &live {
                Some(live) => release_orphan(context, live).await,
                None => Ok(()),
            };
            return released.map_or_else(Propagation::Failed, |()| Propagation::Refused(refusal));
        }
        CopyPlan::Current => None,
        CopyPlan::Create(copy) => Some(context.client.create(kind, &copy, managers::WORKLOAD).await),
        CopyPlan::Replace(copy) => Some(context.client.replace(kind, &copy, None, managers::WORKLOAD).await),
    };
    match written {
        None => {}
        Some(Ok(copy)) => {
            tracing::info!(secret = %copy_name, source = %reference, owner = %user, "copied connection Secret");
            if let Some(cache) = context.connection_secrets.cache(&copy_name) {
                cache.observe(&copy);
            }
        }
        Some(Err(error)) => return Propagation::Failed(error),
    }
    let is_terminating = live.is_some_and(|live| live.deletion_timestamp().is_some());
    Propagation::Current { source: reference, is_terminating }
}

enum Seen {
    Found(Arc<StoredObject>),
    Absent,
    Pending,
    Failed(ApiError),
}

fn look_up(context: &Context, name: &SecretName) -> Seen {
    let Some(cache) = context.connection_secrets.cache(name) else { return Seen::Pending };
    match (cache.get(Some(&name.namespace), &name.name), cache.failure()) {
        (Lookup::Found(secret), _) => Seen::Found(secret),
        (Lookup::Absent, _) => Seen::Absent,
        (Lookup::Unknown, Some(error)) => Seen::Failed(error),
        (Lookup::Unknown, None) => Seen::Pending,
    }
}

/// Deletes the copy that was made for a target or a claim, with its finalizer. A Secret that the owner does not control is kept.
/// Reads it from the API server: after this, no copy is left.
///
/// # Errors
/// A request fails, or the copy has changed meanwhile.
pub(crate) async fn delete_copy(context: &Context, owner: &CopyOwner, name: &str) -> Result<(), ApiError> {
    let (client, kind) = (&context.client, &context.connection_secrets.kind);
    let namespace = Some(owner.namespace.as_str());
    let copy = match client.get(kind, namespace, name).await {
        Ok(copy) if is_controlled_by(copy.value(), &owner.uid) => copy,
        Ok(copy) => return release_orphan(context, &copy).await,
        Err(error) if error.is_object_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    let terminating = if copy.deletion_timestamp().is_some() {
        copy
    } else {
        let options = Delete { uid: Some(copy.uid()), ..Delete::default() };
        match client.delete(kind, namespace, name, options).await {
            Ok(Deleted::Terminating(copy)) => copy,
            Ok(Deleted::Removed) => return Ok(()),
            Err(error) if error.is_object_not_found() => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    release_copy(context, &terminating).await?;
    tracing::info!(secret = %format!("{}/{name}", owner.namespace), owner = owner.name, "deleted copy of connection Secret");
    Ok(())
}

/// Deletes the copies whose target or claim does not exist any more, as after a restore: nothing else reconciles them.
pub(crate) async fn delete_orphans(context: &Context) {
    loop {
        match find_and_delete_orphans(context).await {
            Ok(()) => return,
            Err(error) if error.reason() == FailureReason::Forbidden => {
                tracing::warn!(
                    %error,
                    advice = "if clusters are published, allow the controller to list Secrets in all namespaces",
                    "cannot list copies of connection Secrets; those without a target or claim are not deleted"
                );
                return;
            }
            Err(error) => tracing::warn!(%error, "cannot delete copies of connection Secrets; retrying"),
        }
        tokio::time::sleep(LIST_WAIT).await;
    }
}

async fn find_and_delete_orphans(context: &Context) -> Result<(), ApiError> {
    let (client, kind) = (&context.client, &context.connection_secrets.kind);
    for copy in client.list_with_outlines(kind, None, Some(labels::CONNECTION_COPY)).await? {
        if has_owner(context, &copy).await? {
            continue;
        }
        let namespace = copy.namespace().map(|namespace| &**namespace);
        tracing::info!(secret = %copy.name(), namespace, "deleting copy of connection Secret without target or claim");
        if copy.deletion_timestamp().is_some() {
            release_copy(context, &copy).await?;
            continue;
        }
        let options = Delete { uid: Some(copy.uid()), ..Delete::default() };
        match client.delete(kind, namespace, copy.name(), options).await {
            Ok(Deleted::Terminating(copy)) => release_copy(context, &copy).await?,
            Ok(Deleted::Removed) => {}
            Err(error) if error.is_object_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes our finalizer from a copy that is being deleted and whose target or claim does not exist any more, as after a restore.
///
/// # Errors
/// A request fails.
async fn release_orphan(context: &Context, copy: &StoredObject) -> Result<(), ApiError> {
    let is_copy = copy.label(labels::CONNECTION_COPY).is_some();
    if copy.deletion_timestamp().is_none() || !is_copy || has_owner(context, copy).await? {
        return Ok(());
    }
    release_copy(context, copy).await
}

/// Whether the target or the claim of a copy exists, by its UID.
async fn has_owner(context: &Context, copy: &StoredObject) -> Result<bool, ApiError> {
    let owners =
        copy.value().at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
    let namespace = copy.namespace().map(|namespace| &**namespace);
    for owner in owners {
        let text = |field| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let Some(kind) = WorkloadKind::find(kinds::group_of(text("apiVersion")), text("kind")) else {
            continue;
        };
        match context.client.get(&kind.api_kind(), namespace, text("name")).await {
            Ok(found) if **found.uid() == *text("uid") => return Ok(true),
            Ok(_) => {}
            Err(error) if error.is_object_not_found() || error.is_kind_not_served() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Removes our finalizer from a copy that is being deleted.
///
/// # Errors
/// The request fails, or the copy has changed meanwhile.
async fn release_copy(context: &Context, copy: &StoredObject) -> Result<(), ApiError> {
    if !finalizer::is_set(copy) {
        return Ok(());
    }
    let (kind, patch) = (&context.connection_secrets.kind, finalizer::removal(copy));
    let namespace = copy.namespace().map(|namespace| &**namespace);
    let patched = context.client.merge_patch(kind, namespace, copy.name(), None, managers::WORKLOAD, &patch);
    match patched.await {
        Ok(_) => Ok(()),
        Err(error) if error.is_object_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
