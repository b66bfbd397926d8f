//! One reconcile of an application, from top to bottom: observe, schedule, apply its resources, report.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{
    ClusterInventory, FailureReason, KubernetesApplicationSpec, annotations, applyset_id, managers,
};
use kross_cluster::{ApiError, ApiKind, Cache, Lookup, Outcome, StoredObject};
use kross_plan::ReferenceKey;
use kross_plan::workload::{
    ApplicationReport, PublishedTarget, ResourcePlan, Scheduling, Surroundings, controls, schedule,
};
use kross_value::{Object, Text, Value};

use super::memory::Decision;
use super::template_names;
use crate::context::Context;
use crate::finalizer;
use crate::instance::GivenUp;
use crate::kinds;
use crate::unreadable;
use crate::workload::WorkloadKind;

/// Reconciles an application.
pub(crate) async fn reconcile(context: &Context, namespace: &str, name: &str) -> Outcome {
    let cache = |kind| context.workload.cache(kind);
    let (Some(applications), Some(targets), Some(resources)) = (
        cache(WorkloadKind::Application),
        cache(WorkloadKind::Target),
        cache(WorkloadKind::ApplicationResource),
    ) else {
        // The cache of the last CRD requeues all applications.
        return Outcome::Done;
    };
    let application = match applications.get(Some(namespace), name) {
        Lookup::Found(application) => application,
        Lookup::Absent => return Outcome::Done,
        Lookup::Unknown => {
            let outline = applications.unreadable(Some(namespace), name);
            return outline.map_or(Outcome::Done, |outline| unreadable::report(context, &outline));
        }
    };
    // Once they have synced, all applications are requeued.
    // A resource that cannot be read is an outline, which has its owner: it concerns its own application alone. A target that
    // cannot be read exists, and is not Ready.
    if !targets.is_authoritative() || !resources.is_authoritative() {
        return Outcome::Done;
    }
    let spec = application.value().get("spec").map(serde_json::Value::from).unwrap_or_default();
    let Ok(spec) = serde_json::from_value::<KubernetesApplicationSpec>(spec) else {
        // Its schema does not allow that.
        tracing::warn!(namespace, name, "cannot read the spec of the application");
        return Outcome::Done;
    };
    let mut targets = targets.known();
    targets.retain(|target| target.namespace() == application.namespace());
    let kind = WorkloadKind::Application.api_kind();
    let mut pass = Pass { context, kind, application, spec, applications, targets, resources };
    let ended = match pass.application.deletion_timestamp() {
        None => pass.run().await,
        Some(_) => pass.delete().await,
    };
    match ended {
        Ok(outcome) => outcome,
        Err(error) if error.is_object_not_found() => Outcome::Done,
        Err(error) => {
            if error.reason() != FailureReason::Conflict {
                tracing::warn!(namespace, name, %error, "cannot reconcile application");
            }
            Outcome::Retry
        }
    }
}

/// One reconcile of an application.
pub(super) struct Pass<'a> {
    pub(super) context: &'a Context,
    pub(super) kind: ApiKind,
    /// The application as it was read or written last.
    pub(super) application: Arc<StoredObject>,
    pub(super) spec: KubernetesApplicationSpec,
    pub(super) applications: Cache,
    /// The targets of its namespace.
    targets: Vec<Arc<StoredObject>>,
    /// The resources of all applications.
    pub(super) resources: Cache,
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<Outcome, ApiError> {
        let own = self.own_resources();
        let scheduling = self.schedule(&own);
        let uid = self.application.uid().clone();
        let written = self.write_scheduling(&scheduling).await;
        self.context.applications.written(&uid);
        written?;
        let (mut plan, mut failed) = (ResourcePlan::default(), None);
        if let Some(target) = &scheduling.target {
            (plan, failed) = self.reconcile_resources(target).await;
        }
        let resources = self.own_resources();
        let values: Vec<&Value> = resources.iter().map(|resource| resource.value()).collect();
        let error = failed.as_ref().map(ToString::to_string);
        let application = Arc::clone(&self.application);
        let report = ApplicationReport {
            application: application.value(),
            spec: &self.spec,
            target: scheduling.target.as_deref(),
            problem: scheduling.problem.as_ref(),
            plan: &plan,
            resources: &values,
            error: error.as_deref(),
            now: Timestamp::now(),
        };
        let status = report.status();
        self.write_status(status).await?;
        Ok(if failed.is_some() { Outcome::Retry } else { Outcome::Done })
    }

    /// Deletes the resources, then removes the finalizer.
    async fn delete(&mut self) -> Result<Outcome, ApiError> {
        if !finalizer::is_set(&self.application) {
            return Ok(Outcome::Done);
        }
        let resources = self.own_resources();
        if resources.is_empty() {
            if self.has_live_resources().await? {
                // The cache does not have them yet.
                return Ok(Outcome::Retry);
            }
            let patch = finalizer::removal(&self.application);
            let written = self.patch(&patch).await?;
            self.applications.observe(&written);
            self.context.applications.forget_progress(written.uid());
            return Ok(Outcome::Done);
        }
        let (application, plan) = (Arc::clone(&self.application), ResourcePlan::default());
        let values: Vec<&Value> = resources.iter().map(|resource| resource.value()).collect();
        let mut report = ApplicationReport {
            application: application.value(),
            spec: &self.spec,
            target: None,
            problem: None,
            plan: &plan,
            resources: &values,
            error: None,
            now: Timestamp::now(),
        };
        let not_given_up = self.annotate_resources(&report.given_up()).await;
        let failed = self.delete_resources(&report.deletions()).await.or(not_given_up);
        let error = failed.as_ref().map(ToString::to_string);
        report.error = error.as_deref();
        let status = report.deletion_status();
        self.write_status(status).await?;
        // The deletion of a resource requeues the application.
        Ok(if failed.is_some() { Outcome::Retry } else { Outcome::Done })
    }

    /// Whether the API server has resources that the application controls: a cache may lag behind, and nobody deletes what an
    /// application leaves behind.
    async fn has_live_resources(&self) -> Result<bool, ApiError> {
        let kind = WorkloadKind::ApplicationResource.api_kind();
        let namespace = self.application.namespace().map(|namespace| &**namespace);
        match self.context.client.list_with_outlines(&kind, namespace, None).await {
            Ok(listed) => {
                Ok(listed.iter().any(|resource| controls(self.application.value(), resource.value())))
            }
            // Its CRD was deleted, and the resources with it.
            Err(error) if error.is_kind_not_served() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The resources that the application controls.
    pub(super) fn own_resources(&self) -> Vec<Arc<StoredObject>> {
        let is_own = |resource: &StoredObject| {
            resource.namespace() == self.application.namespace()
                && controls(self.application.value(), resource.value())
        };
        self.resources.known().into_iter().filter(|resource| is_own(resource)).collect()
    }

    /// Chooses a target, or keeps the one that was chosen.
    fn schedule(&self, own: &[Arc<StoredObject>]) -> Scheduling {
        let targets: Vec<PublishedTarget<'_>> =
            self.targets.iter().map(|target| PublishedTarget(target.value())).collect();
        let given_up = GivenUp::of(&self.application);
        let used: BTreeSet<String> =
            own.iter().flat_map(|resource| used_targets(resource, &given_up)).collect();
        let uid = self.application.uid();
        let mut decisions = self.context.applications.decisions();
        let loads = std::cell::OnceCell::new();
        let load = |target: &str| {
            let loads = loads.get_or_init(|| {
                let others = decisions.others(uid);
                self.loads(others)
            });
            loads.get(target).copied().unwrap_or_default()
        };
        let surroundings = Surroundings { targets: &targets, load: &load, used: &used };
        let scheduling = schedule(self.application.value(), &self.spec, &surroundings);
        let in_spec = self.spec.target_ref.as_ref().map(|target| &target.name);
        if let (Some(target), Some(namespace)) = (&scheduling.target, self.application.namespace())
            && in_spec != Some(target)
        {
            let resources = self.spec.resource_templates.len();
            let (namespace, target) = (namespace.clone(), target.clone());
            decisions.add(uid, Decision { namespace, target, resources });
        }
        scheduling
    }

    /// How many resources other applications have in each target, or will have.
    fn loads<'d>(&self, decided: impl Iterator<Item = (&'d Text, &'d Decision)>) -> HashMap<String, usize> {
        let mut loads: HashMap<String, usize> = HashMap::new();
        let mut counted: BTreeSet<Text> = BTreeSet::from([self.application.uid().clone()]);
        let namespace = self.application.namespace();
        for (uid, decision) in decided.filter(|(_, decision)| Some(&decision.namespace) == namespace) {
            *loads.entry(decision.target.clone()).or_default() += decision.resources;
            counted.insert(uid.clone());
        }
        for application in self.applications.known() {
            let target = application.value().at(&["spec", "targetRef", "name"]).and_then(Value::as_str);
            if let Some(target) = target
                && application.namespace() == namespace
                && !counted.contains(application.uid())
            {
                *loads.entry(target.to_owned()).or_default() += template_names(&application).count();
            }
        }
        for resource in self.resources.known() {
            let target = resource.value().at(&["spec", "targetRef", "name"]).and_then(Value::as_str);
            if let Some(target) = target
                && resource.namespace() == namespace
                && super::controller(&resource).is_none()
            {
                *loads.entry(target.to_owned()).or_default() += 1;
            }
        }
        loads
    }

    /// Writes the finalizer, the target and the record of the choice, as far as they are missing.
    async fn write_scheduling(&mut self, scheduling: &Scheduling) -> Result<(), ApiError> {
        let Some(patch) = scheduling_patch(&self.application, &self.spec, scheduling) else { return Ok(()) };
        let written = self.patch(&patch).await?;
        self.applications.observe(&written);
        self.application = Arc::new(written);
        Ok(())
    }

    async fn patch(&self, patch: &Value) -> Result<StoredObject, ApiError> {
        let Self { context, application, kind, .. } = self;
        let namespace = application.namespace().map(|namespace| &**namespace);
        let name = application.name();
        context.client.merge_patch(kind, namespace, name, None, managers::WORKLOAD, patch).await
    }
}

/// A merge patch of what is missing of the finalizer, the target and the record of its choice; none if nothing is.
fn scheduling_patch(
    application: &StoredObject,
    spec: &KubernetesApplicationSpec,
    scheduling: &Scheduling,
) -> Option<Value> {
    let in_spec = spec.target_ref.as_ref().map(|target| &target.name);
    if scheduling.target.is_none() && in_spec.is_none() {
        // It has no resources: there is nothing to record, and nothing to clean up.
        return None;
    }
    let (mut metadata, mut wanted) = (Object::new(), Object::new());
    for (key, value) in
        [(annotations::SCHEDULED, &scheduling.record), (annotations::RESCHEDULED, &scheduling.served)]
    {
        if application.annotation(key) != value.as_deref() {
            wanted.insert(key, value.as_deref().map_or(Value::Null, Value::from));
        }
    }
    if !wanted.is_empty() {
        metadata.insert("annotations", wanted.into());
    }
    if !finalizer::is_set(application) {
        metadata.insert("finalizers", finalizer::with_ours(application));
    }
    let is_moved = scheduling.target.as_ref() != in_spec;
    if metadata.is_empty() && !is_moved {
        return None;
    }
    metadata.insert("resourceVersion", application.resource_version().clone().into());
    let mut patch = Object::new();
    patch.insert("metadata", metadata.into());
    if is_moved {
        let target = scheduling.target.as_deref();
        let reference = target.map_or(Value::Null, |name| Value::object([("name", Value::from(name))]));
        patch.insert("spec", Value::object([("targetRef", reference)]));
    }
    Some(patch.into())
}

/// The targets in whose clusters a resource has objects that its application does not give up, by its inventory.
fn used_targets(resource: &StoredObject, given_up: &GivenUp<'_>) -> Vec<String> {
    let Some(text) = resource.annotation(annotations::CLUSTER_INVENTORY) else { return Vec::new() };
    let namespace = resource.namespace().map(|namespace| &**namespace).unwrap_or_default();
    let (group, kind) = kinds::APPLICATION_RESOURCE;
    let applyset = applyset_id(resource.name(), namespace, kind, group);
    let Ok(inventory) = ClusterInventory::parse(&applyset, text) else {
        // What it has where is not known: it may be in the target that it was scheduled to.
        let target = resource.value().at(&["spec", "targetRef", "name"]).and_then(Value::as_str);
        return target.map(str::to_owned).into_iter().collect();
    };
    let has_objects = inventory
        .clusters()
        .iter()
        .filter(|cluster| !cluster.contents.group_kinds.is_empty() && !given_up.contains(&cluster.uid));
    has_objects
        .filter_map(|cluster| {
            let key = ReferenceKey::parse(&cluster.reference)?;
            let target = key.as_str().strip_prefix("target/")?.split('/').nth(1)?.to_owned();
            Some(target)
        })
        .collect()
}
