//! Published clusters, claims and applications: the caches of their kinds, which exist only where their CRDs are installed, and
//! the way from a cache event to a reconcile.

use std::collections::HashMap;
use std::sync::Arc;

use kross_api::managers;
use kross_cluster::{ApiError, ApiKind, Cache, Outcome, Selection, StoredObject};
use kross_value::Value;
use parking_lot::RwLock;

use crate::context::Context;
use crate::key::WorkloadKey;
use crate::kinds;
use crate::{application, claim, instance, target};

/// The kinds of published clusters, claims and applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WorkloadKind {
    /// KubernetesTarget.
    Target,
    /// KubernetesApplication.
    Application,
    /// KubernetesApplicationResource. It is reconciled as an instance.
    ApplicationResource,
    /// KubernetesCluster.
    Claim,
    /// KubernetesClusterClass.
    Class,
}

impl WorkloadKind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Target, Self::Application, Self::ApplicationResource, Self::Claim, Self::Class];

    /// The kind of this group and kind.
    pub(crate) fn find(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.names() == (group, kind))
    }

    /// Group and kind.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Target => kinds::TARGET,
            Self::Application => kinds::APPLICATION,
            Self::ApplicationResource => kinds::APPLICATION_RESOURCE,
            Self::Claim => kinds::CLAIM,
            Self::Class => kinds::CLASS,
        }
    }

    /// The kind in the version that the controller uses.
    pub(crate) fn api_kind(self) -> ApiKind {
        let (group, kind) = self.names();
        let (version, plural, namespaced) = match self {
            Self::Target => ("v1alpha1", "kubernetestargets", true),
            Self::Application => ("v1alpha2", "kubernetesapplications", true),
            Self::ApplicationResource => ("v1alpha1", "kubernetesapplicationresources", true),
            Self::Claim => ("v1alpha1", "kubernetesclusters", true),
            Self::Class => ("v1alpha1", "kubernetesclusterclasses", false),
        };
        ApiKind::custom(group, version, kind, plural, namespaced)
    }
}

/// The caches of the kinds whose CRDs are installed.
///
/// # Lock order
///
/// The lock is a leaf; caches are opened and dropped outside of it.
#[derive(Default)]
pub(crate) struct Workload {
    caches: RwLock<HashMap<WorkloadKind, Cache>>,
}

impl Workload {
    /// The cache of a kind; none where its CRD is not installed.
    pub(crate) fn cache(&self, kind: WorkloadKind) -> Option<Cache> {
        self.caches.read().get(&kind).cloned()
    }

    /// Every cache.
    pub(crate) fn caches(&self) -> Vec<(WorkloadKind, Cache)> {
        self.caches.read().iter().map(|(kind, cache)| (*kind, cache.clone())).collect()
    }

    /// Opens the cache of a kind whose CRD is established.
    pub(crate) fn open(&self, context: &Context, kind: WorkloadKind) {
        if self.caches.read().contains_key(&kind) {
            return;
        }
        let cache = context.caches.watch(&context.client, &Arc::new(kind.api_kind()), Selection::All);
        if kind == WorkloadKind::ApplicationResource {
            instance::serve_resources(context, cache.clone());
        }
        let before = self.caches.write().insert(kind, cache);
        drop(before);
    }

    /// Closes the cache of a kind whose CRD was deleted.
    pub(crate) fn close(&self, context: &Context, kind: WorkloadKind) {
        if kind == WorkloadKind::ApplicationResource {
            instance::withdraw_resources(context);
        }
        let before = self.caches.write().remove(&kind);
        // Events of the last deletions may be lost with the watch.
        for object in before.iter().flat_map(Cache::known) {
            match WorkloadKey::of(kind, &object) {
                Some(key) => context.workload_queue.add(&key),
                None if kind == WorkloadKind::ApplicationResource => {
                    context.forget_inventory(&object.key(context.client.cluster()));
                }
                None => {}
            }
        }
        drop(before);
        requeue_all(context);
    }
}

/// An object of one of the kinds was created, changed or deleted. `ours` is a write of this controller.
pub(crate) fn changed(
    context: &Context,
    kind: WorkloadKind,
    old: Option<&StoredObject>,
    new: Option<&StoredObject>,
    ours: bool,
) {
    match kind {
        WorkloadKind::Target => {
            target::target_changed(context, old, new, ours);
            application::target_changed(context, old, new);
            claim::target_changed(context, old, new);
            context.requeue_target_users(old, new);
        }
        WorkloadKind::Application => {
            application::application_changed(context, old, new, ours);
            target::user_changed(context, old, new);
        }
        WorkloadKind::ApplicationResource => {
            application::resource_changed(context, old, new);
            target::user_changed(context, old, new);
        }
        WorkloadKind::Claim => {
            claim::claim_changed(context, old, new, ours);
            application::claim_changed(context, old, new);
            target::claim_changed(context, old, new);
        }
        WorkloadKind::Class => claim::class_changed(context, old, new),
    }
}

/// The cache of a kind has synced, failed or resumed: all that depends on it is reconciled.
pub(crate) fn requeue_all(context: &Context) {
    context.requeue_all_target_users();
    for (kind, cache) in context.workload.caches() {
        for object in cache.known() {
            if let Some(key) = WorkloadKey::of(kind, &object) {
                context.workload_queue.add(&key);
            }
        }
    }
}

/// Writes the status of exactly this version of an object. The response goes into the cache as our own write: without the version
/// it would hide a change of somebody else.
///
/// # Errors
/// The request fails, or the object was changed meanwhile.
pub(crate) async fn write_status(
    context: &Context,
    kind: WorkloadKind,
    object: &StoredObject,
    status: Value,
) -> Result<StoredObject, ApiError> {
    let metadata = Value::object([
        ("uid", Value::from(object.uid().clone())),
        ("resourceVersion", Value::from(object.resource_version().clone())),
    ]);
    let patch = Value::object([("metadata", metadata), ("status", status)]);
    let (namespace, api_kind) = (object.namespace().map(|namespace| &**namespace), kind.api_kind());
    let written = context
        .client
        .merge_patch(&api_kind, namespace, object.name(), Some("status"), managers::WORKLOAD, &patch)
        .await?;
    if let Some(cache) = context.workload.cache(kind) {
        cache.observe(&written);
    }
    Ok(written)
}

/// Reconciles a target, an application or a claim.
#[tracing::instrument(level = "debug", skip_all, fields(object = %key))]
pub(crate) async fn reconcile(context: &Context, key: &WorkloadKey) -> Outcome {
    match key.kind {
        WorkloadKind::Target => target::reconcile(context, &key.namespace, &key.name).await,
        WorkloadKind::Application => application::reconcile(context, &key.namespace, &key.name).await,
        WorkloadKind::Claim => claim::reconcile(context, &key.namespace, &key.name).await,
        WorkloadKind::ApplicationResource | WorkloadKind::Class => Outcome::Done,
    }
}
