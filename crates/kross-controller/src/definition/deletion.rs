//! Deletes a definition: waits for its instances, which nothing else could release, then deletes the CRD, if that is
//! allowed, and removes the finalizer.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{annotations, labels, managers};
use kross_cluster::{ApiError, ApiKind, Delete, Lookup, Selection, StoredObject};
use kross_schema::GroupVersionKind;
use kross_value::Text;
use tokio::time::Instant;

use super::access;
use super::cluster_checks;
use super::crd;
use super::error::{DefinitionError, Next};
use super::object::{Definition, kinds_of, named_kinds, own_crd};
use super::reconcile::compiled;
use super::refused::{CompiledRevision, Found, find};
use super::revisions::Revisions;
use super::status::StatusReport;
use crate::context::Context;
use crate::finalizer;
use crate::graphs::{NoGraph, Served};
use crate::kinds;
use crate::selector;

/// How many instances a message names.
const MAX_NAMES: usize = 5;

/// The kind whose instances have to be deleted before a definition.
struct Dependents {
    kind: Arc<ApiKind>,
    /// The CRD of the kind, if the definition owns it.
    crd: Option<Arc<StoredObject>>,
}

/// Continues the deletion of a definition.
///
/// # Errors
/// A request fails.
pub(super) async fn proceed(context: &Context, definition: Definition) -> Result<Next, DefinitionError> {
    let name = definition.name().clone();
    if !finalizer::is_set(&definition.object) {
        context.graphs.withdraw(&name);
        return Ok(Next::Done);
    }
    if let Ok(spec) = &definition.spec {
        context.graphs.store_named_kinds(definition.name(), kinds_of(spec, &named_kinds(spec)));
    }
    let dependents = match dependents(context, &definition).await {
        Ok(dependents) => dependents,
        Err(error @ DefinitionError::Unproven { .. }) => {
            return report_unproven(context, &definition, error).await;
        }
        Err(error) => return Err(error),
    };
    if let Some(dependents) = &dependents {
        compile_followed(context, &definition, dependents.crd.as_deref()).await;
        let message = format!("definition `{name}` is being deleted; no objects are created or updated");
        publish_without_graph(context, &definition, &dependents.kind, Some(NoGraph::Deleted(message.into())));
        let instances = match list_instances(context, &definition, dependents).await {
            Ok(instances) => instances,
            Err(error) => return report_unproven(context, &definition, error).await,
        };
        if !instances.is_empty() {
            return wait_for_instances(context, &definition, dependents, &instances).await;
        }
        if let (Some(crd), true) = (&dependents.crd, context.settings.allow_crd_deletion) {
            delete_crd(context, crd).await?;
        }
    } else if let Err(error) = prove_absence_of_crd(context, &definition).await {
        return report_unproven(context, &definition, error).await;
    }
    context.graphs.withdraw(&name);
    context.crd_repairs.forget(&name);
    let (kind, patch) = (&context.definition_kind, finalizer::removal(&definition.object));
    match context.client.merge_patch(kind, None, &name, None, managers::CONTROLLER, &patch).await {
        Ok(_) => {}
        // The finalizer was removed before, and the cache does not have that yet.
        Err(error) if error.is_object_not_found() => return Ok(Next::Done),
        Err(error) => return Err(error.into()),
    }
    let requested = definition.object.deletion_timestamp().and_then(|at| at.parse::<Timestamp>().ok());
    let took = requested.and_then(|requested| Timestamp::now().duration_since(requested).try_into().ok());
    context.metrics.definitions.deleted(took);
    tracing::info!(rgd = %name, "deleted definition");
    Ok(Next::Done)
}

/// The kind whose instances have to be deleted; none if the definition has no kind of its own that is served.
///
/// # Errors
/// The CRDs are not known yet, or it cannot be verified that an existing kind is not served.
async fn dependents(
    context: &Context,
    definition: &Definition,
) -> Result<Option<Dependents>, DefinitionError> {
    let Ok(spec) = &definition.spec else { return Ok(None) };
    let Some(crd_name) = own_crd(spec) else {
        // The kind exists already; those of its objects that are instances have our label.
        let Some(external) = &spec.schema.external_ref else { return Ok(None) };
        let GroupVersionKind { group, version, kind } =
            GroupVersionKind::new(&external.api_version, &external.kind);
        // Schemas prove nothing: after a restart those of built-in kinds have not been fetched.
        let served = context.client.served_kind(&group, &kind, Instant::now()).await;
        let Some(preferred) = served.map_err(|error| unproven(&error))? else { return Ok(None) };
        let named = context.client.discovery().cached(&group, Some(&version), &kind);
        let ApiKind { version, plural, namespaced, .. } = &*named.unwrap_or(preferred);
        let kind = Arc::new(ApiKind::custom(&group, version, &kind, plural, *namespaced));
        return Ok(Some(Dependents { kind, crd: None }));
    };
    let crd = match context.crds.get(None, &crd_name) {
        Lookup::Found(crd) => crd,
        Lookup::Absent => return Ok(None),
        Lookup::Unknown => return Err(DefinitionError::NotSynced { what: "CustomResourceDefinitions" }),
    };
    if !crd::is_owned_by(&crd, definition.name()) {
        return Ok(None);
    }
    let served = kinds::served_by(crd.value()).filter(|_| kinds::is_established(crd.value()));
    Ok(served.map(|kind| Dependents { kind: Arc::new(kind), crd: Some(crd) }))
}

/// Serves an invalid definition, if none of its revisions is served, so that its instances can be deleted. The others report
/// that there is no graph, and why, unless that is not known yet.
pub(super) async fn serve_without_graph(
    context: &Context,
    definition: &Definition,
    latest: Option<i64>,
    error: &DefinitionError,
) {
    let current = context.graphs.get(definition.name());
    if current.is_some_and(|current| current.revision.is_some()) {
        return;
    }
    if let Ok(Some(dependents)) = dependents(context, definition).await {
        let message = no_graph_message(latest, error);
        publish_without_graph(context, definition, &dependents.kind, message.map(NoGraph::Invalid));
    }
}

/// Why instances have no graph; none if that is not known yet.
fn no_graph_message(latest: Option<i64>, error: &DefinitionError) -> Option<Text> {
    let message = match (error, latest) {
        (DefinitionError::RevisionFailed { revision, message, .. }, _) => {
            format!("latest issued graph revision {revision} failed: {message}")
        }
        (DefinitionError::Invalid { .. }, Some(revision)) => {
            format!("latest issued graph revision {revision} failed")
        }
        (DefinitionError::Invalid { message, .. }, None) => {
            format!("latest issued graph revision not available: {message}")
        }
        (DefinitionError::Breaking { crd, .. }, Some(revision)) => format!(
            "latest issued graph revision {revision} has breaking changes, and no older one fits CRD {crd}; set the annotation \
             `{}: \"true\"` on the definition to apply them, or revert the edit of the definition or of the CRD",
            annotations::ALLOW_BREAKING_CHANGES
        ),
        (DefinitionError::CrdDeleting { crd }, Some(_)) => {
            format!("CRD {crd} is being deleted, and no graph revision fits it; it is recreated afterwards")
        }
        _ => return None,
    };
    Some(message.into())
}

/// Compiles the revision that instances follow after a restart: the graph has their deletion hooks, such as a backup. If it
/// does not compile any more, they are deleted without hooks, or wait where a hook is required.
async fn compile_followed(context: &Context, definition: &Definition, crd: Option<&StoredObject>) {
    if context.graphs.get(definition.name()).is_some() || context.graphs.compiled(definition.name()).is_some()
    {
        return;
    }
    let revisions = Revisions::cached(context, definition.name()).unwrap_or_default();
    if let Ok(Found::Fitting(CompiledRevision { number, compiled })) =
        find(context, definition, revisions.all(), crd).await
    {
        context.graphs.store_compiled(definition.name(), compiled.revision(number));
        return;
    }
    let Some(latest) = revisions.latest().cloned() else { return };
    if let Err(error) = compiled(context, definition, &latest, None).await {
        tracing::warn!(rgd = %definition.name(), %error, "cannot compile the graph that instances are deleted by");
    }
}

/// Serves a definition without an active revision: its instances can be deleted, and no objects are applied for them.
fn publish_without_graph(
    context: &Context,
    definition: &Definition,
    kind: &Arc<ApiKind>,
    no_graph: Option<NoGraph>,
) {
    let current = context.graphs.get(definition.name());
    if current.as_ref().is_some_and(|current| current.revision.is_none() && current.no_graph == no_graph) {
        return;
    }
    // An invalid reference selects nothing; the instances are then found by their labels alone.
    let nothing =
        Selection::Labels { namespace: None, selector: format!("{}=", labels::DEFINITION_NAME).into() };
    let selection = definition.spec.as_ref().ok().and_then(|spec| selector::instances(spec).ok());
    let selection = selection.unwrap_or(nothing);
    let children = current.as_ref().map(|current| current.children.clone()).unwrap_or_default();
    // The latest revision that was compiled may be one that instances never followed.
    let followed = current.and_then(|current| current.revision.clone().or(current.deletion_revision.clone()));
    context.graphs.publish(Served {
        definition: definition.name().clone(),
        uid: definition.object.uid().clone(),
        instances: context.caches.watch(&context.client, kind, selection),
        kind: Arc::clone(kind),
        children,
        external: definition.spec.as_ref().is_ok_and(|spec| spec.schema.external_ref.is_some()),
        revision: None,
        deletion_revision: followed.or_else(|| context.graphs.compiled(definition.name())),
        recorded_access: access::defined(context, definition, kind),
        no_graph,
        orphaned: false,
        own_graphs: false,
    });
    if let Some(served) = context.graphs.get(definition.name()) {
        context.requeue_instances_of(&served);
    }
}

/// The instances that still exist, listed from the API server: a cache may lack one, which would be orphaned, or deleted
/// with the CRD. That there are none is only believed from a list of a kind that discovery lists now.
async fn list_instances(
    context: &Context,
    definition: &Definition,
    dependents: &Dependents,
) -> Result<Vec<StoredObject>, DefinitionError> {
    let (asked, kind) = (Instant::now(), &dependents.kind);
    let labelled = format!("{}={}", labels::DEFINITION_NAME, definition.name());
    let selector = dependents.crd.is_none().then_some(labelled.as_str());
    let mut instances = match context.client.list_with_outlines(kind, None, selector).await {
        Ok(instances) => instances,
        // The CRD was deleted meanwhile, and its objects with it.
        Err(error) if error.is_kind_not_served() => {
            if let Some(crd) = &dependents.crd {
                prove_deleted(context, crd.name()).await?;
            }
            return Ok(Vec::new());
        }
        Err(error) => return Err(unproven(&error)),
    };
    if instances.is_empty() {
        let served = context.client.served_kind(&kind.group, &kind.kind, asked).await;
        if served.map_err(|error| unproven(&error))?.is_none() {
            let message = format!(
                "{} objects can be listed, but discovery does not list the kind; check the load balancer or proxy in front of the API server",
                kind.kind
            );
            return Err(DefinitionError::Unproven { message });
        }
    }
    if dependents.crd.is_none() {
        instances.retain(finalizer::is_set);
    }
    instances.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    Ok(instances)
}

/// Makes sure that a CRD whose kind is not served does not exist.
async fn prove_deleted(context: &Context, crd: &str) -> Result<(), DefinitionError> {
    match context.client.get(&context.crd_kind, None, crd).await {
        Ok(_) => {
            let message = format!(
                "CustomResourceDefinition `{crd}` exists, but its kind is not served; check its condition `Established`"
            );
            Err(DefinitionError::Unproven { message })
        }
        Err(error) if error.is_object_not_found() => Ok(()),
        Err(error) => Err(unproven(&error)),
    }
}

/// Makes sure that a definition without instances to wait for has no CRD that only the cache lacks.
async fn prove_absence_of_crd(context: &Context, definition: &Definition) -> Result<(), DefinitionError> {
    let Some(crd) = definition.spec.as_ref().ok().and_then(own_crd) else { return Ok(()) };
    if context.crds.get(None, &crd) != Lookup::Absent {
        return Ok(());
    }
    match context.client.get(&context.crd_kind, None, &crd).await {
        // The cache will have it in a moment.
        Ok(found) if crd::is_owned_by(&found, definition.name()) => {
            Err(DefinitionError::NotSynced { what: "CustomResourceDefinitions" })
        }
        Ok(_) => Ok(()),
        Err(error) if error.is_object_not_found() => Ok(()),
        Err(error) => Err(unproven(&error)),
    }
}

fn unproven(error: &ApiError) -> DefinitionError {
    DefinitionError::Unproven { message: error.to_string() }
}

/// Writes into the status why the deletion waits although no instance is known.
async fn report_unproven(
    context: &Context,
    definition: &Definition,
    error: DefinitionError,
) -> Result<Next, DefinitionError> {
    let refers = definition.spec.as_ref().is_ok_and(|spec| cluster_checks::has_references(context, spec));
    let mut report = StatusReport::new(definition, refers, Timestamp::now());
    report.waiting_for_instances(&error.to_string());
    report.write(context, definition).await?;
    Err(error)
}

/// Deletes the instances, if the definition asks for that, and reports those that are left.
async fn wait_for_instances(
    context: &Context,
    definition: &Definition,
    dependents: &Dependents,
    instances: &[StoredObject],
) -> Result<Next, DefinitionError> {
    let delete = definition.deletes_instances() && dependents.crd.is_some();
    if delete {
        for instance in instances.iter().filter(|instance| instance.deletion_timestamp().is_none()) {
            let options = Delete { uid: Some(instance.uid()), ..Delete::default() };
            let namespace = instance.namespace().map(|namespace| &**namespace);
            match context.client.delete(&dependents.kind, namespace, instance.name(), options).await {
                Ok(_) => {}
                Err(error) if error.is_object_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let refers = definition.spec.as_ref().is_ok_and(|spec| cluster_checks::has_references(context, spec));
    let mut report = StatusReport::new(definition, refers, Timestamp::now());
    report.waiting_for_instances(&message(instances, delete));
    report.write(context, definition).await?;
    // The deletion of an instance requeues the definition only if the cache has that instance.
    let served = context.graphs.get(definition.name());
    let is_watched = dependents.crd.is_some()
        && served.is_some_and(|served| {
            served.instances.is_live()
                && instances.iter().all(|instance| {
                    let namespace = instance.namespace().map(|namespace| &**namespace);
                    served.instances.will_report_deletion_of(namespace, instance.name(), instance.uid())
                })
        });
    Ok(if is_watched { Next::Done } else { Next::Wait(context.settings.progress_delay) })
}

/// Says how many instances the deletion waits for, which they are, and what to do.
fn message(instances: &[StoredObject], delete: bool) -> String {
    let name = |instance: &StoredObject| match instance.namespace() {
        Some(namespace) => format!("`{namespace}/{}`", instance.name()),
        None => format!("`{}`", instance.name()),
    };
    let count = instances.len();
    let mut names: Vec<String> = instances.iter().take(MAX_NAMES).map(name).collect();
    if count > MAX_NAMES {
        names.push(format!("and {} more", count - MAX_NAMES));
    }
    let (noun, them, they_are) =
        if count == 1 { ("instance", "it", "it is") } else { ("instances", "them", "they are") };
    let advice = if delete {
        format!("{they_are} being deleted")
    } else {
        format!(
            "delete {them}, or set the annotation `{}: \"true\"` to have {them} deleted",
            annotations::DELETE_INSTANCES
        )
    };
    format!("waiting for {count} {noun} to be deleted: {}; {advice}", names.join(", "))
}

async fn delete_crd(context: &Context, crd: &StoredObject) -> Result<(), DefinitionError> {
    if crd.deletion_timestamp().is_some() {
        return Ok(());
    }
    let options = Delete { uid: Some(crd.uid()), ..Delete::default() };
    match context.client.delete(&context.crd_kind, None, crd.name(), options).await {
        Ok(_) => {
            tracing::info!(crd = %crd.name(), "deleted CustomResourceDefinition");
            Ok(())
        }
        Err(error) if error.is_object_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use kross_cluster::read_object;

    use super::*;

    fn instance(name: &str) -> StoredObject {
        let text = format!(
            r#"{{"apiVersion":"kro.run/v1","kind":"Web","metadata":{{"name":"{name}","namespace":"shop","uid":"1","resourceVersion":"1"}}}}"#
        );
        read_object(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_message_has_the_number_the_names_and_the_advice() {
        assert_eq!(
            message(&[instance("a")], false),
            "waiting for 1 instance to be deleted: `shop/a`; delete it, or set the annotation \
             `kro.run/delete-instances: \"true\"` to have it deleted"
        );
        let many: Vec<_> = (0..7).map(|number| instance(&number.to_string())).collect();
        assert_eq!(
            message(&many, true),
            "waiting for 7 instances to be deleted: `shop/0`, `shop/1`, `shop/2`, `shop/3`, `shop/4`, and 2 more; \
             they are being deleted"
        );
    }
}
