//! One reconcile of a claim: observes, plans and acts until nothing is left to do, then reports.

use std::sync::Arc;

use kross_api::{BindingPhase, KubernetesClusterSpec, KubernetesClusterStatus};
use kross_cluster::{ApiError, ApiKind, Cache, Outcome, Retry, StoredObject};
use kross_plan::workload::{Claim, ObservedUsers, PropagationRefusal, plan_claim};

use crate::context::Context;
use crate::finalizer;
use crate::key::WorkloadKey;

/// A claim needs fewer writes than this. More would mean that the API server does not keep what is written.
const MAX_WRITES: usize = 16;

/// A claim during one reconcile.
pub(super) struct Pass<'c> {
    pub(super) context: &'c Context,
    pub(super) key: &'c WorkloadKey,
    pub(super) cache: Cache,
    pub(super) object: Arc<StoredObject>,
    pub(super) spec: KubernetesClusterSpec,
    pub(super) status: KubernetesClusterStatus,
    /// The managed resource and its kind, if it exists.
    pub(super) managed: Option<(Arc<StoredObject>, Arc<ApiKind>)>,
    /// The result of the copy.
    pub(super) copy: Option<Result<(), PropagationRefusal>>,
    /// Whether the copy was deleted.
    pub(super) is_secret_deleted: bool,
    pub(super) users: ObservedUsers,
    /// Whether the managed resource is in no cache, so that no event tells when it is deleted.
    pub(super) is_uncached: bool,
}

/// What follows a write.
pub(super) enum Next {
    /// The claim is planned again.
    Plan,
    /// An event is expected.
    Wait,
}

/// Reconciles a claim.
pub(super) async fn run(
    context: &Context,
    key: &WorkloadKey,
    cache: Cache,
    object: Arc<StoredObject>,
) -> Outcome {
    let (spec, status) = match (part(&object, "spec"), part(&object, "status")) {
        (Ok(spec), status) => (spec, status.unwrap_or_default()),
        (Err(error), _) => {
            // Its next version is an event.
            tracing::warn!(claim = %key, %error, "cannot read claim");
            return Outcome::Done;
        }
    };
    let users = ObservedUsers::Unknown;
    let mut pass = Pass {
        context,
        key,
        cache,
        object,
        spec,
        status,
        managed: None,
        copy: None,
        is_secret_deleted: false,
        users,
        is_uncached: false,
    };
    match pass.converge().await {
        Ok(()) if pass.is_uncached => Outcome::Retry,
        Ok(()) => Outcome::Done,
        Err(error) => pass.failed(&error).await,
    }
}

impl Pass<'_> {
    async fn converge(&mut self) -> Result<(), ApiError> {
        for _ in 0..MAX_WRITES {
            let observed = self.observe().await?;
            let plan = plan_claim(&self.claim(), &observed);
            match (plan.action, plan.report) {
                (Some(action), _) => {
                    if let Next::Wait = self.perform(action).await? {
                        return Ok(());
                    }
                }
                (None, Some(report)) => return self.report(report).await,
                (None, None) => return Ok(()),
            }
        }
        tracing::warn!(claim = %self.key, "claim does not converge; waiting for its next change");
        Ok(())
    }

    /// The claim, for the planner.
    pub(super) fn claim(&self) -> Claim<'_> {
        Claim {
            namespace: &self.key.namespace,
            name: &self.key.name,
            uid: self.object.uid(),
            labels: self.object.labels(),
            spec: &self.spec,
            phase: self.status.binding_phase.as_deref().and_then(BindingPhase::parse),
            has_finalizer: finalizer::is_set(&self.object),
            is_deleting: self.object.deletion_timestamp().is_some(),
        }
    }

    /// The claim was written.
    pub(super) fn observe_claim(&mut self, written: StoredObject) {
        self.cache.observe(&written);
        self.object = Arc::new(written);
        if let Ok(spec) = part(&self.object, "spec") {
            self.spec = spec;
        }
        self.status = part(&self.object, "status").unwrap_or_default();
    }

    /// Reports a request that failed, and when it is tried again.
    async fn failed(&mut self, error: &ApiError) -> Outcome {
        let is_outdated = error.code() == Some(409) && error.conflicts().is_empty();
        if !is_outdated && !error.is_fenced() {
            tracing::warn!(claim = %self.key, %error, "cannot reconcile claim");
            if let Err(error) = self.report_failure(error).await {
                tracing::debug!(claim = %self.key, %error, "cannot write the status of a claim");
            }
        }
        match error.retry() {
            Retry::After(wait) => Outcome::After(wait),
            Retry::Backoff | Retry::WhenChanged => Outcome::Retry,
        }
    }
}

/// Parses a part of an object.
fn part<T: serde::de::DeserializeOwned>(object: &StoredObject, name: &str) -> Result<T, String> {
    let json = object.value().get(name).map(serde_json::Value::from).unwrap_or_default();
    let json = if json.is_null() { serde_json::json!({}) } else { json };
    serde_json::from_value(json).map_err(|error| format!("cannot read `{name}`: {error}"))
}
