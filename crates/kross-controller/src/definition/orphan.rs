//! Serves the instances of a definition that was deleted before them, by force or by a controller that does not wait for
//! them: they can be deleted, by what is kept on them and on their objects alone.

use std::sync::Arc;

use kross_api::labels;
use kross_cluster::{ApiKind, Selection, StoredObject};
use kross_value::Text;

use super::access;
use super::crd;
use super::error::{DefinitionError, Next};
use crate::context::Context;
use crate::finalizer;
use crate::graphs::{NoGraph, Served};
use crate::kinds;

/// Serves the kind of a definition that was deleted as long as instances have our finalizer.
///
/// # Errors
/// The instances cannot be listed.
pub(super) async fn proceed(context: &Context, name: &Text) -> Result<Next, DefinitionError> {
    let crds = context
        .crds
        .list_readable()
        .ok_or(DefinitionError::NotSynced { what: "CustomResourceDefinitions" })?;
    let owned =
        crds.into_iter().find(|crd| crd::is_owned_by(crd, name) && kinds::is_established(crd.value()));
    let Some((crd, kind)) = owned.and_then(|crd| kinds::served_by(crd.value()).map(|kind| (crd, kind)))
    else {
        context.graphs.withdraw(name);
        return Ok(Next::Done);
    };
    let kind = Arc::new(kind);
    if !is_needed(context, &kind).await? {
        context.graphs.withdraw(name);
        return Ok(Next::Done);
    }
    serve(context, name, &crd, &kind);
    Ok(Next::Done)
}

async fn is_needed(context: &Context, kind: &ApiKind) -> Result<bool, DefinitionError> {
    match context.client.list_with_outlines(kind, None, None).await {
        Ok(instances) => Ok(instances.iter().any(finalizer::is_set)),
        // Also if the kind is not served: if its CRD was deleted, the cache will say so.
        Err(error) => Err(DefinitionError::Unproven { message: error.to_string() }),
    }
}

fn serve(context: &Context, name: &Text, crd: &StoredObject, kind: &Arc<ApiKind>) {
    if context.graphs.get(name).is_some_and(|current| current.orphaned) {
        return;
    }
    tracing::warn!(rgd = %name, crd = %crd.name(), "definition was deleted before its instances; they can still be deleted");
    context.graphs.publish(Served {
        definition: name.clone(),
        uid: crd.label(labels::DEFINITION_ID).unwrap_or_default().into(),
        instances: context.caches.watch(&context.client, kind, Selection::All),
        kind: Arc::clone(kind),
        children: Vec::new(),
        external: false,
        revision: None,
        deletion_revision: None,
        recorded_access: access::recorded(context, crd),
        no_graph: Some(NoGraph::Deleted(
            format!("definition `{name}` was deleted; no objects are created or updated").into(),
        )),
        orphaned: true,
        own_graphs: false,
    });
    if let Some(served) = context.graphs.get(name) {
        context.requeue_instances_of(&served);
    }
}
