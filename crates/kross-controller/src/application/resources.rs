//! Creates, updates and deletes the KubernetesApplicationResources of an application.

use std::collections::HashSet;
use std::sync::Arc;

use kross_api::managers;
use kross_cluster::{ApiError, Apply, Delete, Deleted, StoredObject};
use kross_plan::workload::{ResourceAnnotation, ResourceDeletion, ResourcePlan, controls, plan_resources};
use kross_value::Value;

use super::reconcile::Pass;
use super::template_names;
use crate::key::InstanceKey;
use crate::workload::WorkloadKind;

impl Pass<'_> {
    /// Makes the resources what the templates say. Returns the plan, and the first request that failed; the others were sent.
    pub(super) async fn reconcile_resources(&self, target: &str) -> (ResourcePlan, Option<ApiError>) {
        let existing = self.concerned_resources();
        let values: Vec<&Value> = existing.iter().map(|resource| resource.value()).collect();
        let plan = plan_resources(self.application.value(), &self.spec, target, &values);
        let mut failed = None;
        let kind = WorkloadKind::ApplicationResource.api_kind();
        for object in &plan.apply {
            let options = Apply::by(managers::WORKLOAD);
            // Only fields of a resource that is known to be ours are taken over: one that is not known yet is somebody else's.
            let is_known = object.at(&["metadata", "uid"]).is_some();
            let options = if is_known { options.force() } else { options };
            match self.context.client.apply(&kind, object, options).await {
                Ok(applied) => self.observe(&applied),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let not_deleted = self.delete_resources(&plan.delete).await;
        (plan, failed.or(not_deleted))
    }

    /// Stores a resource that was written, and requeues it as an instance: our own writes cause no event.
    fn observe(&self, resource: &StoredObject) {
        self.resources.observe(resource);
        self.context.instance_queue.add(&InstanceKey(resource.key(self.context.client.cluster())));
    }

    /// The resources that the application controls, and those with the name of one of its templates.
    fn concerned_resources(&self) -> Vec<Arc<StoredObject>> {
        let names: HashSet<&str> = template_names(&self.application).collect();
        let is_concerned = |resource: &StoredObject| {
            names.contains(&**resource.name()) || controls(self.application.value(), resource.value())
        };
        let known = self.resources.known().into_iter();
        known
            .filter(|resource| resource.namespace() == self.application.namespace() && is_concerned(resource))
            .collect()
    }

    /// Deletes resources. Their finalizers keep them until their objects are deleted. Returns the first request that failed.
    pub(super) async fn delete_resources(&self, deletions: &[ResourceDeletion]) -> Option<ApiError> {
        let kind = WorkloadKind::ApplicationResource.api_kind();
        let namespace = self.application.namespace().map(|namespace| &**namespace);
        let mut failed = None;
        for ResourceDeletion { name, uid } in deletions {
            let options = Delete { uid: Some(uid), ..Delete::default() };
            match self.context.client.delete(&kind, namespace, name, options).await {
                Ok(Deleted::Terminating(resource)) => self.observe(&resource),
                Ok(Deleted::Removed) => {}
                Err(error) if error.is_object_not_found() => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed
    }

    /// Sets annotations of resources. Returns the first request that failed.
    pub(super) async fn annotate_resources(&self, annotated: &[ResourceAnnotation]) -> Option<ApiError> {
        let kind = WorkloadKind::ApplicationResource.api_kind();
        let namespace = self.application.namespace().map(|namespace| &**namespace);
        let mut failed = None;
        for ResourceAnnotation { name, uid, key, value } in annotated {
            let entry = Value::object([(*key, Value::from(value.as_str()))]);
            let metadata = Value::object([("uid", Value::from(uid.as_str())), ("annotations", entry)]);
            let patch = Value::object([("metadata", metadata)]);
            let client = &self.context.client;
            match client.merge_patch(&kind, namespace, name, None, managers::WORKLOAD, &patch).await {
                Ok(resource) => self.observe(&resource),
                Err(error) if error.is_object_not_found() => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed
    }
}
