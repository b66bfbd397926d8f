//! Reconciles applications: schedules them to a target, and keeps a KubernetesApplicationResource for each of their templates.
//!
//! | step | file |
//! |---|---|
//! | which events concern which application | here |
//! | the list of the steps, and scheduling | `reconcile.rs`, by `kross_plan::workload` |
//! | create, update and delete resources | `resources.rs` |
//! | write the status | `status.rs` |
//! | remember between reconciles | `memory.rs` |

mod memory;
mod reconcile;
mod resources;
mod status;

pub(crate) use memory::Applications;
pub(crate) use reconcile::reconcile;

use kross_api::Reason;
use kross_cluster::StoredObject;
use kross_plan::workload::PublishedTarget;
use kross_value::Value;

use crate::context::Context;
use crate::instance;
use crate::key::{InstanceKey, WorkloadKey};
use crate::workload::WorkloadKind;

/// An application was created, changed or deleted.
pub(crate) fn application_changed(
    context: &Context,
    old: Option<&StoredObject>,
    new: Option<&StoredObject>,
    ours: bool,
) {
    if let Some(application) = new.or(old).filter(|_| !ours) {
        requeue(context, application);
    }
}

/// A resource of an application was created, changed or deleted.
pub(crate) fn resource_changed(context: &Context, old: Option<&StoredObject>, new: Option<&StoredObject>) {
    let Some(resource) = new.or(old) else { return };
    let owner = new.and_then(controller).or_else(|| old.and_then(controller));
    if let (Some(name), Some(namespace)) = (owner, resource.namespace()) {
        let (kind, namespace) = (WorkloadKind::Application, namespace.clone());
        context.workload_queue.add(&WorkloadKey { kind, namespace, name: name.into() });
    }
    if old.is_none() || new.is_none() {
        // Another application may have a template of this name.
        let has_template =
            |application: &StoredObject| template_names(application).any(|it| it == &**resource.name());
        applications_of(context, resource, has_template);
    }
}

/// A target was created, changed or deleted: applications may be scheduled to it now.
pub(crate) fn target_changed(context: &Context, old: Option<&StoredObject>, new: Option<&StoredObject>) {
    let Some(target) = new.or(old) else { return };
    let facts = |target: &StoredObject| (PublishedTarget(target.value()).is_ready(), target.labels().clone());
    if old.map(facts) != new.map(facts) {
        applications_of(context, target, |application| {
            let chosen = application.value().at(&["spec", "targetRef", "name"]).and_then(Value::as_str);
            chosen.is_none_or(|chosen| chosen == &**target.name()) || waits_for_target(application)
        });
    }
    let secret = |target: &StoredObject| text(target, &["spec", "connectionSecretRef", "name"]);
    connection_secret_changed(context, target, old.and_then(secret), new.and_then(secret));
}

/// A claim was created, changed or deleted: its connection Secret is not copied any more, or may be copied now.
pub(crate) fn claim_changed(context: &Context, old: Option<&StoredObject>, new: Option<&StoredObject>) {
    let Some(claim) = new.or(old) else { return };
    let secret = |claim: &StoredObject| text(claim, &["spec", "writeConnectionSecretToRef", "name"]);
    connection_secret_changed(context, claim, old.and_then(secret), new.and_then(secret));
}

/// Requeues the resources that name a Secret which is, or was, the connection Secret of a target or a claim.
fn connection_secret_changed(
    context: &Context,
    object: &StoredObject,
    old: Option<String>,
    new: Option<String>,
) {
    if old == new {
        return;
    }
    let Some(resources) = context.workload.cache(WorkloadKind::ApplicationResource) else { return };
    let changed: Vec<String> = old.into_iter().chain(new).collect();
    for resource in resources.known() {
        let is_concerned = || changed.iter().any(|secret| instance::names_secret(&resource, secret));
        if resource.namespace() == object.namespace() && is_concerned() {
            context.instance_queue.add(&InstanceKey(resource.key(context.client.cluster())));
        }
    }
}

/// Requeues some applications of an object's namespace.
fn applications_of(context: &Context, object: &StoredObject, is_concerned: impl Fn(&StoredObject) -> bool) {
    let Some(applications) = context.workload.cache(WorkloadKind::Application) else { return };
    for application in applications.known() {
        if application.namespace() == object.namespace() && is_concerned(&application) {
            requeue(context, &application);
        }
    }
}

fn requeue(context: &Context, application: &StoredObject) {
    if let Some(key) = WorkloadKey::of(WorkloadKind::Application, application) {
        context.workload_queue.add(&key);
    }
}

/// The application that controls a resource.
fn controller(resource: &StoredObject) -> Option<&str> {
    let owners = resource.value().at(&["metadata", "ownerReferences"])?.as_list()?;
    let text = |owner: &Value, field: &str| owner.get(field).and_then(Value::as_str).map(str::to_owned);
    let controller = owners.iter().find(|owner| {
        owner.get("controller").and_then(Value::as_bool) == Some(true)
            && text(owner, "kind").as_deref() == Some("KubernetesApplication")
    })?;
    controller.get("name").and_then(Value::as_str)
}

/// The names of an application's templates.
fn template_names(application: &StoredObject) -> impl Iterator<Item = &str> {
    let templates = application.value().at(&["spec", "resourceTemplates"]).and_then(Value::as_list);
    templates
        .unwrap_or_default()
        .iter()
        .filter_map(|template| template.at(&["metadata", "name"]).and_then(Value::as_str))
}

/// Whether an application waits for a target that its selector matches.
fn waits_for_target(application: &StoredObject) -> bool {
    let conditions = application.value().at(&["status", "conditions"]).and_then(Value::as_list);
    let has_reason = |condition: &Value| {
        condition.get("reason").and_then(Value::as_str) == Some(Reason::NoTarget.as_str())
    };
    conditions.unwrap_or_default().iter().any(has_reason)
}

fn text(object: &StoredObject, path: &[&str]) -> Option<String> {
    object.value().at(path).and_then(Value::as_str).map(str::to_owned)
}
