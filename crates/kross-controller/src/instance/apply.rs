//! Apply: writes the objects that a plan desires, all of a wave at once, and observes the results.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kross_api::{FailureReason, LifecyclePhase, Operation, labels, managers};
use kross_cluster::{ApiError, ApiKind, Apply, ClusterClient, Missing, ObjectKey, StoredObject};
use kross_plan::{AccessPath, ApplyAction, NodePlan, OperationFailure, Plan, PlannedObject};
use kross_value::{Text, Value};
use tokio::time::Instant;
use tracing::field::Empty;

use super::clients::{ClientError, InstanceClients};
use super::observation::version_of;
use super::pass::Pass;
use crate::context::Context;
use crate::permits::WriteCredential;

/// How many writes of one instance run at once with one credential.
const CONCURRENT_WRITES: usize = 16;

/// The name of the hub in traces.
const LOCAL: &str = "local";

/// What became of one write.
struct Written {
    key: ObjectKey,
    node: Text,
    operation: Operation,
    /// The hash of the desired object.
    hash: Text,
    /// Whether others had changed or deleted the object after it was applied.
    is_repair: bool,
    /// Whether it is an object of a deletion hook.
    is_hook: bool,
    /// Whether it may have values of a Secret.
    is_secret: bool,
    result: Result<WriteResult, ClientError>,
}

enum WriteResult {
    Applied(Box<StoredObject>),
    /// An object of another owner has the name.
    Taken(Box<StoredObject>),
    /// Another instance is writing the same object at this moment.
    Claimed,
}

impl Pass<'_> {
    /// Applies objects of a plan and observes the results.
    pub(super) async fn apply(&mut self, plan: &Plan, actions: &[&ApplyAction]) {
        // Boxed one by one: the compiler cannot infer the lifetimes of a stream of borrowing futures.
        let writes = actions.iter().filter_map(|action| {
            let (node, object) = (plan.nodes.get(action.node.0)?, plan.object(action)?);
            let applyset = plan.applysets.get(&object.key.cluster)?;
            let write = Write {
                context: self.context,
                instance: self.key,
                clients: &self.clients,
                object,
                access_path: plan.access_paths.to(&object.key),
                create: action.create,
                contested: self.memory.contested.contains(&object.key),
                is_hook: plan.lifecycles.get(&node.id).is_some_and(|lifecycle| lifecycle.deletion),
                is_repair: self.is_repair(&object.key),
            };
            let reference = plan.access_paths.to(&object.key).map(|access_path| &access_path.key);
            let credential = self.clients.credential(&object.key, reference);
            Some((credential, write.run(node, applyset, self.memory.writes_before).boxed()))
        });
        let objects = actions
            .iter()
            .filter_map(|action| Some((plan.nodes.get(action.node.0)?.secret, plan.object(action)?)));
        let repairs = self.pending_repairs(plan, objects);
        let written: Vec<Written> = concurrently(&self.clients, writes).await;
        if let (Some(acting), LifecyclePhase::Deletion) = (self.clients.acting(), self.phase)
            && written.iter().any(|write| is_forbidden(&write.result))
        {
            acting.ending().await;
        }
        for write in written {
            if let (Ok(WriteResult::Applied(object)), Some(repair)) = (&write.result, repairs.get(&write.key))
            {
                self.report_repaired(repair, object);
            }
            self.observe_written(write);
        }
    }

    fn observe_written(&mut self, written: Written) {
        let Written { key, node, operation, hash, is_repair, is_hook, is_secret, result } = written;
        self.observe_hook_creation(&key, !may_have_written(&result));
        match result {
            Ok(WriteResult::Applied(object)) => {
                tracing::debug!(%node, object = %key, "applied object");
                let object = Arc::from(object);
                self.succeed(&key);
                self.observe_repair(&key, &hash, &object, is_repair);
                self.memory.contested.remove(&key);
                match object.owned_digest() {
                    Some(digest) => self.memory.digests.insert(key.clone(), digest),
                    None => self.memory.digests.remove(&key),
                };
                self.observation.add(key, object, self.memory);
            }
            Ok(WriteResult::Taken(object)) => {
                self.memory.contested.insert(key.clone());
                self.observation.add(key, Arc::from(object), self.memory);
            }
            Ok(WriteResult::Claimed) => {
                let message = "another instance is writing the same object";
                self.fail(&key, &node, operation, FailureReason::Conflict, message);
            }
            // It was deleted meanwhile, and must not be created again.
            Err(error)
                if is_hook && operation == Operation::Update && error.reason() == FailureReason::Conflict =>
            {
                tracing::debug!(%node, object = %key, error = error.message(), "object of deletion hook is gone");
                self.observation.remove(&key);
            }
            Err(error) => {
                let message = self.explain(&key, &error, is_secret);
                tracing::debug!(%node, object = %key, error = message, "cannot apply object");
                let is_in_terminating = || {
                    let acting = self.clients.acting().filter(|_| error.reason() == FailureReason::Forbidden);
                    acting.is_some_and(|acting| acting.is_in_terminating_namespace(&key))
                };
                if matches!(&error, ClientError::Api(api) if api.namespace_terminating())
                    || is_in_terminating()
                {
                    self.observation.observed.namespace_terminating.insert(key.clone());
                }
                self.memory.throttle.failed(&key, &error, Instant::now());
                self.fail(&key, &node, operation, error.reason(), &message);
            }
        }
    }

    /// The cause of a failure, with what to do about it where the error does not say so.
    fn explain(&self, key: &ObjectKey, error: &ClientError, is_secret: bool) -> String {
        let ClientError::Api(api) = error else { return error.message().to_owned() };
        let message = if is_secret { api.message_without_values() } else { api.message().into() };
        let acting = self.clients.acting().filter(|_| key.cluster.is_local());
        let account = acting.map(|acting| acting.advice(api)).unwrap_or_default();
        format!("{message}{account}{}", advice(key, api))
    }

    /// Records that the last operation on an object succeeded.
    pub(super) fn succeed(&mut self, key: &ObjectKey) {
        self.memory.throttle.succeeded(key);
        self.memory.failures.remove(key);
        self.observation.observed.failures.remove(key);
    }

    /// Records that an operation on an object failed.
    pub(super) fn fail(
        &mut self,
        key: &ObjectKey,
        node: &Text,
        operation: Operation,
        reason: FailureReason,
        message: &str,
    ) {
        let (node, message, since) = (node.clone(), message.into(), Timestamp::now());
        let failure = self.memory.fail(key, OperationFailure { node, operation, reason, message, since });
        self.observation.observed.failures.insert(key.clone(), failure);
    }
}

/// Whether an API server may have carried out a write: it did so, or its response does not rule it out.
fn may_have_written(result: &Result<WriteResult, ClientError>) -> bool {
    match result {
        Ok(WriteResult::Applied(_)) => true,
        Ok(WriteResult::Taken(_) | WriteResult::Claimed) | Err(ClientError::NotConnected(_)) => false,
        Err(ClientError::Api(error)) => {
            !error.is_fenced() && error.code().is_none_or(|code| !(400..500).contains(&code) || code == 408)
        }
    }
}

/// An object that can be applied only as long as it has this UID.
fn with_uid(desired: &Value, uid: &Text) -> Value {
    let mut desired = desired.clone();
    let metadata = desired.as_object_mut().and_then(|object| object.get_mut("metadata"));
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.insert("uid", Value::String(uid.clone()));
    }
    desired
}

fn is_forbidden(result: &Result<WriteResult, ClientError>) -> bool {
    matches!(result, Err(error) if error.reason() == FailureReason::Forbidden)
}

/// What to do about a failure.
fn advice(key: &ObjectKey, error: &ApiError) -> String {
    match (error.missing(), error.reason()) {
        (_, FailureReason::Invalid) if error.message().ends_with("field is immutable") => {
            "; delete the object and it will be recreated".to_owned()
        }
        _ if key.cluster.is_local() => String::new(),
        (Some(Missing::Namespace(namespace)), _) => {
            format!("; create namespace `{namespace}` in that cluster, or add it to the graph")
        }
        (_, FailureReason::Forbidden) if error.message().contains("exceeded quota") => {
            "; raise the quota, or delete objects in that namespace".to_owned()
        }
        (_, FailureReason::Forbidden) => {
            "; `kross rbac FILE --remote` prints the permissions that the credential needs".to_owned()
        }
        _ => String::new(),
    }
}

/// Awaits operations concurrently, with a limit for each credential, so that a slow cluster does not delay the others.
pub(super) async fn concurrently<'f, T>(
    clients: &InstanceClients<'_>,
    operations: impl Iterator<Item = (WriteCredential, BoxFuture<'f, T>)>,
) -> Vec<T> {
    let mut by_credential: BTreeMap<WriteCredential, Vec<BoxFuture<'f, T>>> = BTreeMap::new();
    for (credential, operation) in operations {
        by_credential.entry(credential).or_default().push(operation);
    }
    let (credentials, operations): (Vec<WriteCredential>, Vec<_>) = by_credential.into_iter().unzip();
    let all = credentials.iter().zip(operations).map(|(credential, operations)| {
        let operations = stream::iter(operations).buffer_unordered(CONCURRENT_WRITES).collect::<Vec<T>>();
        clients.write(credential, operations)
    });
    let clusters = credentials.iter().map(|(cluster, _)| cluster);
    clients.request(clusters, join_all(all)).await.into_iter().flatten().collect()
}

/// An object that is to be written.
struct Write<'a> {
    context: &'a Context,
    instance: &'a ObjectKey,
    clients: &'a InstanceClients<'a>,
    object: &'a PlannedObject,
    access_path: Option<&'a AccessPath>,
    create: bool,
    /// Whether it may be another instance's, though the caches do not have it.
    contested: bool,
    /// Whether it is an object of a deletion hook: an update of it must not create it again.
    is_hook: bool,
    /// Whether others have changed or deleted it after it was applied.
    is_repair: bool,
}

impl Write<'_> {
    #[tracing::instrument(
        name = "apply",
        level = "debug",
        skip_all,
        fields(
            cluster = self.cluster_name(),
            node = %node.id,
            object = %self.object.key.group_kind(),
            reason = Empty,
            otel.status_code = Empty
        )
    )]
    async fn run(mut self, node: &NodePlan, applyset: &Text, writes_before: u64) -> Written {
        let operation = if self.create { Operation::Create } else { Operation::Update };
        let key = &self.object.key;
        let result = match self.context.instances.claim(key, applyset, writes_before) {
            None => Ok(WriteResult::Claimed),
            Some(mut claim) => {
                self.contested |= claim.contested;
                let result = self.apply(applyset, operation).await;
                if let Ok(WriteResult::Applied(object)) = &result {
                    // Before the claim ends: a pass that begins after it must find the object in the caches.
                    self.clients.observe_applied(&key.cluster, object);
                    claim.written();
                }
                result
            }
        };
        if let Err(error) = &result {
            let span = tracing::Span::current();
            span.record("reason", error.reason().as_str()).record("otel.status_code", "ERROR");
        }
        let (hash, is_repair, is_hook) = (self.object.hash.clone(), self.is_repair, self.is_hook);
        let (key, node, is_secret) = (key.clone(), node.id.clone(), node.secret);
        Written { key, node, operation, hash, is_repair, is_hook, is_secret, result }
    }

    /// The display name of the cluster, as in the status.
    fn cluster_name(&self) -> &str {
        self.access_path.map_or(LOCAL, |access_path| &access_path.reference.display)
    }

    /// Applies the object. The first apply of an object that the caches do not have is sent without force: if the object is
    /// in another apply set, there is a conflict on the label; any other conflict is forced.
    async fn apply(&self, applyset: &Text, operation: Operation) -> Result<WriteResult, ClientError> {
        let Self { object, create, .. } = *self;
        let Some(desired) = &object.desired else { return Ok(WriteResult::Claimed) };
        let key = &object.key;
        let reference = self.access_path.map(|access_path| &access_path.key);
        let client = self.clients.client_by(&key.cluster, reference)?;
        let version = version_of(&object.api_version);
        let kind = client.kind(&key.group, Some(&version), &key.kind).await?;
        if create && (object.exclusive || self.contested) {
            match self.get(client, &kind).await {
                Ok(other) if self.is_taken_by(&other, applyset) => {
                    return Ok(WriteResult::Taken(Box::new(other)));
                }
                Ok(_) => {}
                Err(error) if error.is_object_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let of_this_uid = object.uid.as_ref().filter(|_| self.is_hook).map(|uid| with_uid(desired, uid));
        let desired = of_this_uid.as_ref().unwrap_or(desired);
        let options = Apply { operation, ..Apply::by(managers::APPLYSET) };
        let first = if create { options } else { options.force() };
        match client.apply(&kind, desired, first).await {
            Ok(written) => Ok(WriteResult::Applied(Box::new(written))),
            Err(error) if create && error.label_conflict(labels::APPLYSET_PART_OF).is_some() => {
                Ok(WriteResult::Taken(Box::new(self.get(client, &kind).await?)))
            }
            Err(error) if create && !error.conflicts().is_empty() => {
                let written = client.apply(&kind, desired, options.force()).await?;
                Ok(WriteResult::Applied(Box::new(written)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the object that has the name. From before the request on, the instance is requeued when that object is deleted.
    async fn get(&self, client: &ClusterClient, kind: &ApiKind) -> Result<StoredObject, ApiError> {
        let key = &self.object.key;
        self.context.instances.contend_for(self.instance, key);
        client.get(kind, key.namespace.as_deref(), &key.name).await
    }

    fn is_taken_by(&self, other: &StoredObject, applyset: &Text) -> bool {
        match other.label(labels::APPLYSET_PART_OF) {
            None => self.object.exclusive,
            Some(holder) => holder != applyset.as_str(),
        }
    }
}
