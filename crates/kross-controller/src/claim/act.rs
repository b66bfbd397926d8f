//! Performs the writes of a claim. Each is for exactly the version or the UID that was observed, and its response goes into the
//! cache, so that the next step sees it.

use std::sync::Arc;

use kross_api::{ClassReference, ManagedClusterReference, Reason, managers};
use kross_cluster::{ApiError, ApiKind, Cache, Delete, Deleted, SecretName, Selection, StoredObject};
use kross_plan::workload::{ClaimAction, ObservedManaged, PropagationRefusal, managed_for};
use kross_value::Value;

use super::observe::fields_of;
use super::pass::{Next, Pass};
use crate::connection_secret::{self, Propagation};
use crate::finalizer;
use crate::key::{InstanceKey, WorkloadKey};
use crate::managed_resource;
use crate::target;
use crate::workload::WorkloadKind;

impl Pass<'_> {
    pub(super) async fn perform(&mut self, action: ClaimAction) -> Result<Next, ApiError> {
        match action {
            ClaimAction::AddFinalizer => self.patch_claim(finalizer::addition(&self.object)).await?,
            ClaimAction::Reference { class, resource } => self.write_references(class, resource).await?,
            ClaimAction::Provision { class } => return self.provision(&class).await,
            ClaimAction::PatchManaged(patch) => self.patch_managed(false, &patch).await?,
            ClaimAction::PatchManagedStatus(patch) => self.patch_managed(true, &patch).await?,
            ClaimAction::CopySecret => return self.copy_secret().await,
            ClaimAction::CreateTarget(target) => self.create_target(&target).await?,
            ClaimAction::PatchTarget(patch) => self.patch_target(&patch).await?,
            ClaimAction::DeleteTarget { uid } => return self.delete_target(&uid).await,
            ClaimAction::ListUsers => self.users = self.list_users().await?,
            ClaimAction::DeleteSecret => {
                if let Some(secret) = &self.spec.write_connection_secret_to_ref {
                    let owner = connection_secret::copy_owner(&self.object);
                    connection_secret::delete_copy(self.context, &owner, &secret.name).await?;
                }
                self.is_secret_deleted = true;
            }
            ClaimAction::DeleteManaged { uid } => return self.delete_managed(&uid).await,
            ClaimAction::RemoveFinalizer => {
                self.patch_claim(finalizer::removal(&self.object)).await?;
                self.context.managed.forget(self.key);
                self.context.connection_secrets.forget(self.key);
                return Ok(Next::Wait);
            }
        }
        Ok(Next::Plan)
    }

    async fn patch_claim(&mut self, patch: Value) -> Result<(), ApiError> {
        let kind = WorkloadKind::Claim.api_kind();
        let (namespace, name) = (Some(&*self.key.namespace), &self.key.name);
        let written =
            self.context.client.merge_patch(&kind, namespace, name, None, managers::WORKLOAD, &patch).await?;
        self.observe_claim(written);
        Ok(())
    }

    /// Writes class and managed resource into the claim. A class that the user wrote stays.
    async fn write_references(
        &mut self,
        class: String,
        resource: ManagedClusterReference,
    ) -> Result<(), ApiError> {
        let mut spec = serde_json::json!({"resourceRef": resource});
        if self.spec.class_ref.is_none() {
            let class = ClassReference {
                api_version: Some(format!("{}/v1alpha1", kross_api::COMPUTE_GROUP)),
                kind: Some("KubernetesClusterClass".to_owned()),
                name: class,
                namespace: None,
            };
            if let (Some(spec), Ok(class)) = (spec.as_object_mut(), serde_json::to_value(class)) {
                spec.insert("classRef".to_owned(), class);
            }
        }
        let metadata = Value::object([
            ("uid", Value::from(self.object.uid().clone())),
            ("resourceVersion", Value::from(self.object.resource_version().clone())),
        ]);
        self.patch_claim(Value::object([("metadata", metadata), ("spec", Value::from(spec))])).await
    }

    /// Creates the managed resource. If somebody else was faster, the planner decides whose it is.
    async fn provision(&mut self, class: &str) -> Result<Next, ApiError> {
        let Some(reference) = self.spec.resource_ref.clone() else { return Ok(Next::Wait) };
        let served = managed_resource::served_kind(self.context, &reference.api_version, &reference.kind);
        let Some(Ok(kind)) = served else { return Ok(Next::Wait) };
        let observed = self.observe().await?;
        let is_absent = matches!(observed.managed, ObservedManaged::Absent);
        let mut classes = observed.classes.into_iter().flatten();
        let Some(class) = classes.find(|found| found.name == class && is_absent) else {
            return Ok(Next::Wait);
        };
        let fields = fields_of(self.context, &kind, None);
        let object = managed_for(&self.claim(), &class, fields);
        let created = match self.context.client.create(&kind, &object, managers::WORKLOAD).await {
            Ok(created) => {
                tracing::info!(claim = %self.key, kind = %kind.kind, name = %created.name(), class = class.name, "created managed resource");
                created
            }
            Err(error) if error.code() == Some(409) => {
                self.context.client.get(&kind, None, &reference.name).await?
            }
            Err(error) => return Err(error),
        };
        self.observe_managed_write(&kind, &created);
        Ok(Next::Plan)
    }

    async fn patch_managed(&mut self, is_status: bool, patch: &Value) -> Result<(), ApiError> {
        let Some((object, kind)) = self.managed.clone() else { return Ok(()) };
        let subresource = (is_status && kind.has_status).then_some("status");
        let client = &self.context.client;
        let written =
            client.merge_patch(&kind, None, object.name(), subresource, managers::WORKLOAD, patch).await?;
        self.observe_managed_write(&kind, &written);
        self.managed = Some((Arc::new(written), kind));
        Ok(())
    }

    async fn copy_secret(&mut self) -> Result<Next, ApiError> {
        let (Some((managed, _)), Some(secret)) = (&self.managed, &self.spec.write_connection_secret_to_ref)
        else {
            return Ok(Next::Wait);
        };
        let is_deleting = self.object.deletion_timestamp().is_some();
        let owner = connection_secret::copy_owner(&self.object);
        let name = &secret.name;
        match connection_secret::propagate(self.context, self.key, &owner, name, managed).await {
            Propagation::Pending => return Ok(Next::Wait),
            // The deletion of the claim reports what it waits for.
            Propagation::Failed(error) if is_deleting => {
                let refusal = PropagationRefusal::new(Reason::RequestFailed, error.message().to_owned());
                self.copy = Some(Err(refusal));
            }
            Propagation::Failed(error) => return Err(error),
            Propagation::Refused(refusal) => self.copy = Some(Err(refusal)),
            // While a copy is terminating it serves deletions, which is all that a claim that is being deleted needs.
            Propagation::Current { is_terminating, .. } if is_deleting || !is_terminating => {
                self.copy = Some(Ok(()));
            }
            // A copy is kept as long as its target has users: they delete their objects with it.
            Propagation::Current { .. } if !self.is_copy_unused(name).await? => {
                let message = format!(
                    "Secret `{name}` is being deleted and serves deletions only; it is copied again once nobody uses the target"
                );
                self.copy = Some(Err(PropagationRefusal::new(Reason::Deleting, message)));
            }
            Propagation::Current { .. } => {
                // Its deletion is an event, and then it is copied again.
                connection_secret::delete_copy(self.context, &owner, name).await?;
                return Ok(Next::Wait);
            }
        }
        Ok(Next::Plan)
    }

    async fn is_copy_unused(&self, name: &str) -> Result<bool, ApiError> {
        let secret = SecretName { namespace: self.key.namespace.clone(), name: name.into() };
        target::is_unused(self.context, &secret).await
    }

    fn targets(&self) -> (ApiKind, Option<Cache>) {
        (WorkloadKind::Target.api_kind(), self.context.workload.cache(WorkloadKind::Target))
    }

    /// Creates the target. If somebody else was faster, the planner decides whose it is.
    async fn create_target(&mut self, target: &Value) -> Result<(), ApiError> {
        let (kind, cache) = self.targets();
        let client = &self.context.client;
        let created = match client.create(&kind, target, managers::WORKLOAD).await {
            Ok(created) => {
                tracing::info!(claim = %self.key, "created KubernetesTarget");
                created
            }
            Err(error) if error.code() == Some(409) && !error.namespace_terminating() => {
                client.get(&kind, Some(&self.key.namespace), &self.key.name).await?
            }
            Err(error) => return Err(error),
        };
        observe(cache.as_ref(), &created);
        self.requeue_target();
        Ok(())
    }

    async fn patch_target(&mut self, patch: &Value) -> Result<(), ApiError> {
        let (kind, cache) = self.targets();
        let (namespace, name) = (Some(&*self.key.namespace), &self.key.name);
        let client = &self.context.client;
        let patched = client.merge_patch(&kind, namespace, name, None, managers::WORKLOAD, patch).await?;
        observe(cache.as_ref(), &patched);
        Ok(())
    }

    async fn delete_target(&self, uid: &str) -> Result<Next, ApiError> {
        let (kind, cache) = self.targets();
        let (namespace, name) = (Some(&*self.key.namespace), &self.key.name);
        let options = Delete { uid: Some(uid), ..Delete::default() };
        let deleted = self.context.client.delete(&kind, namespace, name, options).await;
        if let Ok(Deleted::Terminating(target)) = &deleted {
            observe(cache.as_ref(), target);
            self.requeue_target();
        }
        after_delete(deleted, cache.as_ref(), (namespace, name, uid))
    }

    async fn delete_managed(&self, uid: &str) -> Result<Next, ApiError> {
        let Some((object, kind)) = self.managed.clone() else { return Ok(Next::Wait) };
        let name = object.name();
        tracing::info!(claim = %self.key, kind = %kind.kind, %name, "deleting managed resource");
        let options = Delete { uid: Some(uid), ..Delete::default() };
        let deleted = self.context.client.delete(&kind, None, name, options).await;
        if let Ok(Deleted::Terminating(managed)) = &deleted {
            self.observe_managed_write(&kind, managed);
        }
        after_delete(deleted, Some(&self.managed_cache(&kind)), (None, name, uid))
    }

    /// The event of our own write is none for the reconcile of the target.
    fn requeue_target(&self) {
        let key = WorkloadKey { kind: WorkloadKind::Target, ..self.key.clone() };
        self.context.workload_queue.add(&key);
    }

    /// Caches what was written. A managed resource may be the instance of a graph, whose reconcile gets no event for it.
    fn observe_managed_write(&self, kind: &Arc<ApiKind>, written: &StoredObject) {
        self.managed_cache(kind).observe(written);
        if !self.context.graphs.serving(&kind.group, &kind.kind).is_empty() {
            let key = written.key(self.context.client.cluster());
            self.context.instance_queue.add(&InstanceKey(key));
        }
    }

    /// The cache of a managed kind, which [`managed_resource::find`] has opened.
    fn managed_cache(&self, kind: &Arc<ApiKind>) -> Cache {
        self.context.caches.watch(&self.context.client, kind, Selection::All)
    }
}

/// What follows a delete: the cache reports when the object is deleted, if it has it.
fn after_delete(
    deleted: Result<Deleted, ApiError>,
    cache: Option<&Cache>,
    (namespace, name, uid): (Option<&str>, &str, &str),
) -> Result<Next, ApiError> {
    match deleted {
        Ok(Deleted::Terminating(_)) => Ok(Next::Plan),
        Err(error) if !error.is_object_not_found() => Err(error),
        Ok(Deleted::Removed) | Err(_) => {
            let is_expected =
                cache.is_some_and(|cache| cache.will_report_deletion_of(namespace, name, &uid.into()));
            Ok(if is_expected { Next::Wait } else { Next::Plan })
        }
    }
}

fn observe(cache: Option<&Cache>, written: &StoredObject) {
    if let Some(cache) = cache {
        cache.observe(written);
    }
}
