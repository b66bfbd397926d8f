//! Deletion hooks run once: the record of them is written before their objects are created and before anything is deleted, and
//! an object of a hook that is not observed any more is confirmed as deleted by its cluster, not by a cache.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use kross_api::{ClusterId, EventReason, FailureReason, Operation, labels};
use kross_cluster::{ApiError, ObjectKey, StoredObject};
use kross_graph::Graph;
use kross_plan::{
    ApplyAction, DeletionPlan, HookRecord, KindKey, MissingCause, MissingHook, Plan, PlannedObject,
};
use kross_value::Text;
use tokio::time::Instant;

use super::clients::{ClientError, InstanceClients};
use super::error::InstanceError;
use super::memory::HookCreation;
use super::observation::version_of;
use super::pass::Pass;
use crate::events;

/// How old the resource version before a creation may be: API servers forget them after some minutes.
const MAX_VERSION_AGE: Duration = Duration::from_secs(60);

/// Where objects are listed: a cluster, a kind and a namespace.
type ListPlace<'p> = (&'p ClusterId, &'p Text, &'p Text, &'p Option<Text>);

impl Pass<'_> {
    /// Reads the objects of deletion hooks that were created, or about to be created, and are not observed. Returns whether
    /// the plan may change: an object exists, or its cluster confirms that it does not, or that it does not serve its kind.
    pub(super) async fn confirm_missing_hooks(&mut self, plan: &Plan) -> bool {
        let mut learned = self.find_unserved_hooks(plan).await;
        let is_unconfirmed = |missing: &&MissingHook| missing.cause == MissingCause::Unconfirmed;
        let unconfirmed: Vec<&MissingHook> = plan.missing_hooks.iter().filter(is_unconfirmed).collect();
        self.observation.unconfirmed_hooks = false;
        let mut open = Vec::new();
        for missing in unconfirmed {
            let creation = self.memory.hook_creations.get(&missing.key);
            if missing.since.is_some() && creation.is_some_and(|creation| creation.refused) {
                learned |= self.observation.observed.never_created.insert(missing.key.clone());
            } else {
                open.push(missing);
            }
        }
        let finds = open.into_iter().map(|missing| {
            let find = find_hook(&self.clients, missing, self.instance.uid());
            (&missing.key.cluster, find.map(move |found| (&missing.key, found)).boxed())
        });
        for (key, found) in self.clients.request_all(finds.collect()).await {
            match found {
                Ok(FoundHook::Exists(object)) => {
                    self.observation.add(key.clone(), Arc::new(*object), self.memory);
                }
                Ok(FoundHook::Deleted) => {
                    self.observation.observed.confirmed_missing.insert(key.clone());
                }
                Ok(FoundHook::NeverCreated) => {
                    self.observation.observed.never_created.insert(key.clone());
                }
                Err(error) => {
                    tracing::debug!(object = %key, error = error.message(), "cannot read object of deletion hook");
                    let is_unserved = matches!(&error, ClientError::Api(error) if error.is_kind_not_served());
                    if !(is_unserved && self.prove_unserved(key).await) {
                        self.observation.unconfirmed_hooks = true;
                        continue;
                    }
                }
            }
            learned = true;
        }
        learned
    }

    /// Finds out whether the kinds of deletion hooks that cannot be written are not served. Returns whether there is one.
    async fn find_unserved_hooks(&mut self, plan: &Plan) -> bool {
        let due = plan.nodes.iter().filter(|node| plan.hooks.iter().any(|hook| hook.id == node.id));
        let is_unknown = |object: &&PlannedObject| {
            let failure = object.progress.failure();
            object.uid.is_none() && failure.is_some_and(|failure| failure.reason == FailureReason::NotFound)
        };
        let mut learned = false;
        for object in due.flat_map(|node| &node.objects).filter(is_unknown) {
            learned |= self.prove_unserved(&object.key).await;
        }
        learned
    }

    /// Asks a cluster whether it serves the kind of an object, once in a pass. Returns whether it newly proves that it does
    /// not: its discovery is complete, and it is the cluster that it should be.
    async fn prove_unserved(&mut self, key: &ObjectKey) -> bool {
        let kind: KindKey = (key.cluster.clone(), key.group.clone(), key.kind.clone());
        if !self.observation.checked_hook_kinds.insert(kind.clone()) {
            return self.observation.observed.unserved.contains(&kind);
        }
        let asked = async {
            if self.verify_cluster(&key.cluster, key.cluster.claim()).await.is_err() {
                return false;
            }
            let Ok(client) = self.clients.observer_of(&key.cluster, &key.group, &key.kind) else {
                return false;
            };
            matches!(client.served_kind(&key.group, &key.kind, Instant::now()).await, Ok(None))
        };
        let is_unserved = self.clients.request([&key.cluster], asked).await;
        is_unserved && self.observation.observed.unserved.insert(kind)
    }

    /// Adds to the record that objects of deletion hooks are about to be created, with the resource version of now. The
    /// caller writes it before it creates them. Returns the actions to carry out: without an object whose resource version
    /// cannot be read at the moment, because nobody could tell later whether it was created.
    pub(super) async fn expect_hooks<'p>(
        &mut self,
        graph: &Graph,
        plan: &'p Plan,
        mut actions: Vec<&'p ApplyAction>,
    ) -> Vec<&'p ApplyAction> {
        let record = HookRecord::parse(self.inventory.attempts.as_deref());
        let (mut versions, mut expected, mut failed) = (HashMap::new(), Vec::new(), HashSet::new());
        for action in actions.iter().filter(|action| action.create) {
            let (Some(node), Some(object)) = (graph.node(action.node), plan.object(action)) else { continue };
            if !plan.lifecycles.get(&node.id).is_some_and(|lifecycle| lifecycle.deletion) {
                continue;
            }
            let (now, item) = (Instant::now(), node.is_list().then_some(&object.key));
            let creation = self.memory.hook_creations.get_mut(&object.key);
            let is_recent = |creation: &&mut HookCreation| creation.recorded.elapsed() < MAX_VERSION_AGE;
            if let Some(creation) = creation.filter(is_recent)
                && record.creating_since(&node.id, item).is_some()
            {
                creation.refused = false;
                continue;
            }
            match self.version_before(&mut versions, object).await {
                Ok(version) => {
                    expected.push((&node.id, item, version));
                    let creation = HookCreation { recorded: now, refused: false };
                    self.memory.hook_creations.insert(object.key.clone(), creation);
                }
                Err(error) => {
                    let message = error.message();
                    tracing::debug!(node = %node.id, object = %object.key, error = message, "cannot create object of deletion hook");
                    self.memory.throttle.failed(&object.key, &error, now);
                    self.fail(&object.key, &node.id, Operation::Create, error.reason(), message);
                    failed.insert(&object.key);
                }
            }
        }
        if !expected.is_empty() {
            let expected =
                expected.iter().map(|(hook, item, version)| (hook.as_str(), *item, version.as_str()));
            self.inventory.attempts = HookRecord::with_creating(self.inventory.attempts.as_deref(), expected);
        }
        actions.retain(|action| plan.object(action).is_none_or(|object| !failed.contains(&object.key)));
        actions
    }

    /// The resource version of now where an object is to be created, read once for each kind and namespace. It is empty if the
    /// credential may not list the kind.
    async fn version_before<'p>(
        &self,
        versions: &mut HashMap<ListPlace<'p>, Text>,
        object: &'p PlannedObject,
    ) -> Result<Text, ClientError> {
        let ObjectKey { cluster, group, kind, namespace, .. } = &object.key;
        let place = (cluster, group, kind, namespace);
        if let Some(version) = versions.get(&place) {
            return Ok(version.clone());
        }
        let version = match self.clients.request([cluster], current_version(&self.clients, object)).await {
            Err(ClientError::Api(error)) if cannot_list(&error) => "".into(),
            read => read?,
        };
        versions.insert(place, version.clone());
        Ok(version)
    }

    /// Remembers whether the creation of an object of a deletion hook was refused for certain.
    pub(super) fn observe_hook_creation(&mut self, key: &ObjectKey, refused: bool) {
        if let Some(creation) = self.memory.hook_creations.get_mut(key) {
            creation.refused = refused;
            if refused {
                self.observation.observed.never_created.insert(key.clone());
            }
        }
    }

    /// Writes which deletion hooks were created and which have completed, if that has changed. Until it is written, nothing
    /// that waits for them and none of their objects may be deleted: after a restart they would run again.
    ///
    /// # Errors
    /// The inventory cannot be written.
    pub(super) async fn write_hook_record(&mut self, plan: &DeletionPlan) -> Result<(), InstanceError> {
        if HookRecord::parse(self.inventory.attempts.as_deref()) == plan.hook_record {
            return Ok(());
        }
        self.inventory.attempts.clone_from(&plan.persisted);
        self.write_inventory().await
    }

    /// Reports the objects of deletion hooks that nothing waits for although they never were ready. Each is reported once.
    pub(super) fn report_missing_hooks(&mut self, plan: &Plan) {
        for MissingHook { node, key, cause, .. } in &plan.missing_hooks {
            let (reason, what) = match cause {
                MissingCause::Unconfirmed => continue,
                MissingCause::Deleted => (
                    EventReason::HookDeleted,
                    "was deleted before the deletion hook was ready; it is not created again",
                ),
                MissingCause::NamespaceTerminating => {
                    (EventReason::HookSkipped, "is not created, because its namespace is being deleted")
                }
                MissingCause::KindNotServed => (
                    EventReason::HookSkipped,
                    "is skipped, because its cluster does not serve its kind any more",
                ),
            };
            if !self.memory.reported_releases.insert(format!("hook/{key}").into()) {
                continue;
            }
            let instance = self.instance.key(self.context.client.cluster());
            tracing::warn!(%instance, %node, object = %key, %reason, "deletion hook did not complete");
            let note = format!("{} {} of `{node}` {what}", key.kind, key.namespaced_name());
            events::emit(self.context, &*self.instance, reason, "Delete", note);
        }
    }
}

/// What became of an object of a deletion hook that is not observed.
enum FoundHook {
    Exists(Box<StoredObject>),
    /// It was created, and does not exist any more. Also if nobody knows whether it was created: it is not created twice.
    Deleted,
    NeverCreated,
}

/// Reads an object from its cluster. If it does not exist and it is not known whether it was created, the history of the cluster
/// tells.
async fn find_hook(
    clients: &InstanceClients<'_>,
    MissingHook { key, api_version, since, .. }: &MissingHook,
    instance: &Text,
) -> Result<FoundHook, ClientError> {
    let client = clients.observer_of(&key.cluster, &key.group, &key.kind)?;
    let kind = client.kind(&key.group, Some(&version_of(api_version)), &key.kind).await?;
    let namespace = key.namespace.as_deref();
    match client.get(&kind, namespace, &key.name).await {
        Ok(object) => return Ok(FoundHook::Exists(Box::new(object))),
        Err(error) if error.is_object_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let Some(since) = since.as_ref().filter(|since| !since.is_empty()) else { return Ok(FoundHook::Deleted) };
    let is_own = |object: &StoredObject| object.label(labels::INSTANCE_ID) == Some(instance.as_str());
    match client.existed_since(&kind, (namespace, &key.name), since, is_own).await {
        Ok(true) => Ok(FoundHook::Deleted),
        Ok(false) => Ok(FoundHook::NeverCreated),
        Err(error) if error.is_expired() => Ok(FoundHook::Deleted),
        Err(error) => Err(error.into()),
    }
}

/// Whether a list can never succeed: the credential may not list the kind, or the kind has no lists.
fn cannot_list(error: &ApiError) -> bool {
    error.reason() == FailureReason::Forbidden || error.code() == Some(405)
}

/// The resource version of now where an object is to be created.
async fn current_version(clients: &InstanceClients<'_>, object: &PlannedObject) -> Result<Text, ClientError> {
    let key = &object.key;
    let client = clients.observer_of(&key.cluster, &key.group, &key.kind)?;
    let kind = client.kind(&key.group, Some(&version_of(&object.api_version)), &key.kind).await?;
    Ok(client.current_version(&kind, key.namespace.as_deref()).await?)
}
