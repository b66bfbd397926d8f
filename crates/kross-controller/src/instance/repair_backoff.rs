//! Back off: holds back the repair of an object that others change or delete again after every repair, and reports who they
//! are. Until then the planner sees the object as it was last applied, so that nothing else waits for it.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::FutureExt;
use jiff::Timestamp;
use kross_api::{EventReason, LifecyclePhase, managers};
use kross_cluster::{ChangedFields, Digest, ObjectKey, StoredObject, without_keys};
use kross_plan::{AccessPath, Plan, PlannedObject};
use kross_value::{Text, Value};
use tokio::time::Instant;

use super::apply::concurrently;
use super::clients::{ClientError, InstanceClients};
use super::memory::{Memory, OwnMetadata};
use super::observation::version_of;
use super::pass::Pass;
use crate::events;
use crate::finalizer;
use crate::repairs::{Cause, Repairs};

impl Pass<'_> {
    /// Observes which objects are contested.
    pub(super) fn observe_contested(&mut self) {
        self.memory.repairs.expire(Instant::now());
        let contested = self.memory.repairs.contested();
        self.observation.observed.contested.extend(contested.map(|(key, contest)| (key.clone(), contest)));
        self.observe_contested_metadata();
    }

    /// Requeues the instance for the next repair that is held back, or for the time when nothing is contested any more.
    pub(super) fn requeue_for_repairs(&self) {
        let Memory { repairs, metadata, state_metadata, .. } = &*self.memory;
        let all = [repairs, &metadata.repairs, &state_metadata.repairs];
        if let Some(due) = all.into_iter().filter_map(Repairs::next_due).min() {
            self.requeue_after(due.saturating_duration_since(Instant::now()));
        }
    }

    /// Whether the next apply of an object repairs it: others changed or deleted it after it was applied.
    pub(super) fn is_repair(&self, key: &ObjectKey) -> bool {
        match self.observation.observed.objects.get(key) {
            Some(found) => found.drifted,
            None => self.memory.digests.contains_key(key),
        }
    }

    /// Remembers that an object was applied.
    pub(super) fn observe_repair(
        &mut self,
        key: &ObjectKey,
        hash: &Text,
        applied: &Arc<StoredObject>,
        is_repair: bool,
    ) {
        let now = (Instant::now(), Timestamp::now());
        self.memory.repairs.applied(key, hash, applied, is_repair, now);
        if let Some(repair) = self.memory.repairs.get_mut(key).filter(|repair| repair.is_contested()) {
            self.observation.observed.contested.insert(key.clone(), repair.contest());
        }
    }

    /// Holds back the repairs of a plan that are not due. Returns whether there is one that was not held back before.
    pub(super) async fn hold_repairs(&mut self, plan: &Plan) -> bool {
        if self.phase != LifecyclePhase::Active {
            return false;
        }
        let now = Instant::now();
        let (mut held, mut contested): (Vec<&PlannedObject>, Vec<&PlannedObject>) = (Vec::new(), Vec::new());
        for object in plan.apply.iter().filter_map(|action| plan.object(action)) {
            let is_new = !self.observation.held.contains(&object.key) && self.is_repair(&object.key);
            let repair = self.memory.repairs.get_mut(&object.key).filter(|_| is_new);
            let Some(repair) = repair else { continue };
            if repair.must_wait(&object.hash, now) {
                held.push(object);
            }
            // Before a repair that is due as well: it would hide what others did.
            if repair.is_contested() && !repair.has_cause() {
                contested.push(object);
            }
        }
        self.find_causes(plan, &contested).await;
        for object in &held {
            self.hold(&object.key);
        }
        !held.is_empty()
    }

    /// Shows the planner an object as it was last applied, and one that does not exist as contested.
    fn hold(&mut self, key: &ObjectKey) {
        self.observation.held.insert(key.clone());
        let Some(repair) = self.memory.repairs.get_mut(key) else { return };
        let stored = self.observation.stored.get(key);
        if repair.is_contested() || stored.is_none() {
            self.observation.observed.contested.insert(key.clone(), repair.contest());
        }
        let observed = self.observation.observed.objects.get_mut(key);
        if let (Some(observed), Some(stored)) = (observed, stored) {
            observed.value = stored.with_fields_of(repair.last_applied());
            observed.drifted = false;
        }
    }

    /// Finds out and reports what others do to contested objects. One request for each object until it is not contested any
    /// more.
    async fn find_causes(&mut self, plan: &Plan, contested: &[&PlannedObject]) {
        let (clients, secret) = (&self.clients, secret_objects(plan));
        let reads = contested.iter().map(|object| {
            let access_path = plan.access_paths.to(&object.key);
            let read = async move { (&object.key, changed_fields(clients, object, access_path).await) };
            (clients.credential(&object.key, access_path.map(|path| &path.key)), read.boxed())
        });
        for (key, read) in concurrently(clients, reads).await {
            let Some(repair) = self.memory.repairs.get_mut(key) else { continue };
            let is_secret = secret.contains(key);
            repair.set_cause(cause(if is_secret { read.map(hide_keys) } else { read }));
            let message = repair.contest().message;
            let used = plan.clusters.iter().find(|used| used.id == key.cluster);
            let cluster =
                used.map_or_else(String::new, |used| format!(" in cluster `{}`", used.reference.display));
            self.report_contested(&cluster, key, &message);
        }
    }

    /// Whether to write metadata of the instance itself, by a field manager of ours: not while the same was removed again
    /// and again and the next repair is not due. What an apply needs is written at once. Without our finalizer the instance could
    /// vanish and orphan its objects, so that waits for a second at most.
    pub(super) async fn may_write_metadata(
        &mut self,
        at_once: bool,
        (digest, desired): (Digest, &Value),
        manager: &'static str,
    ) -> bool {
        let lacks_finalizer = manager == managers::LABELLER && !finalizer::is_set(&self.instance);
        let own = own_metadata(self.memory, manager);
        let is_repair = own.written == Some(digest) && self.phase == LifecyclePhase::Active;
        let repair = own.repairs.get_mut(self.key).filter(|_| is_repair);
        let Some(repair) = repair else { return true };
        repair.set_urgent(lacks_finalizer);
        let must_wait = repair.must_wait(&digest.to_string().into(), Instant::now());
        if repair.is_contested() && !repair.has_cause() {
            let (client, name) = (&self.context.client, &self.key.name);
            let namespace = self.key.namespace.as_deref();
            let fields = client.changed_fields(&self.served.kind, namespace, name, manager, desired).await;
            repair.set_cause(Cause::of(fields.as_deref().map(<[_]>::to_vec)));
            let message = repair.contest().message;
            self.report_contested("", self.key, &message);
        }
        self.observe_contested_metadata();
        at_once || !must_wait
    }

    /// Remembers that metadata of the instance itself was written.
    pub(super) fn observe_metadata(&mut self, digest: Digest, manager: &'static str) {
        let now = (Instant::now(), Timestamp::now());
        let own = own_metadata(self.memory, manager);
        let is_repair = own.written.replace(digest) == Some(digest);
        own.repairs.applied(self.key, &digest.to_string().into(), &self.instance, is_repair, now);
        self.observe_contested_metadata();
    }

    /// Observes who removes metadata of the instance itself again and again.
    fn observe_contested_metadata(&mut self) {
        let now = Instant::now();
        for own in [&mut self.memory.metadata, &mut self.memory.state_metadata] {
            own.repairs.expire(now);
        }
        let Memory { metadata, state_metadata, .. } = &*self.memory;
        let mut contested = metadata.repairs.contested().chain(state_metadata.repairs.contested());
        let message = contested.next().map(|(_, contest)| contest.message);
        self.observation.observed.contested_metadata = message;
    }

    fn report_contested(&self, cluster: &str, key: &ObjectKey, message: &str) {
        let note = format!("{} {}{cluster}: {message}", key.kind, key.namespaced_name());
        tracing::warn!(instance = %self.key, object = %key, cause = message, "repairs of an object back off");
        events::emit(self.context, &*self.instance, EventReason::RepairsBackOff, "Reconcile", note);
    }
}

/// What a field manager of ours wrote into the metadata of the instance.
fn own_metadata<'m>(memory: &'m mut Memory, manager: &str) -> &'m mut OwnMetadata {
    if manager == managers::STATE { &mut memory.state_metadata } else { &mut memory.metadata }
}

/// What others do to an object, as the response to a read of it says.
fn cause(read: Result<Vec<ChangedFields>, ClientError>) -> Cause {
    match read {
        Ok(fields) => Cause::of(Ok(fields)),
        Err(ClientError::Api(error)) => Cause::of(Err(&error)),
        Err(ClientError::NotConnected(_)) => Cause::Changed(Vec::new()),
    }
}

/// The objects that may have values of a Secret.
fn secret_objects(plan: &Plan) -> HashSet<&ObjectKey> {
    let nodes = plan.nodes.iter().filter(|node| node.secret);
    nodes.flat_map(|node| &node.objects).map(|object| &object.key).collect()
}

/// The changes of an object without the keys of a Secret.
fn hide_keys(mut changes: Vec<ChangedFields>) -> Vec<ChangedFields> {
    for change in &mut changes {
        change.fields = change.fields.iter().map(|field| without_keys(field)).collect();
        change.fields.dedup();
    }
    changes
}

async fn changed_fields(
    clients: &InstanceClients<'_>,
    object: &PlannedObject,
    access_path: Option<&AccessPath>,
) -> Result<Vec<ChangedFields>, ClientError> {
    let (key, Some(desired)) = (&object.key, &object.desired) else { return Ok(Vec::new()) };
    let client = clients.client_by(&key.cluster, access_path.map(|access_path| &access_path.key))?;
    let kind = client.kind(&key.group, Some(&version_of(&object.api_version)), &key.kind).await?;
    let namespace = key.namespace.as_deref();
    Ok(client.changed_fields(&kind, namespace, &key.name, managers::APPLYSET, desired).await?)
}
