//! A definition that is gone, taken away by force or by a controller that does not wait for instances: what it left behind is
//! served as far as its instances can be let go, by what is kept on them and on their objects alone.

use std::sync::Arc;

use kross_api::labels;
use kross_cluster::{ApiKind, Selection, StoredObject};
use kross_value::Text;

use super::crd;
use super::error::{DefinitionError, Next};
use crate::context::Context;
use crate::finalizer;
use crate::graphs::{Halt, Served};
use crate::kinds;

/// Serves the kind of a definition that is gone while instances of it are held, and withdraws it afterwards.
///
/// # Errors
/// The cluster does not tell whether there are instances.
pub(super) async fn proceed(context: &Context, name: &Text) -> Result<Next, DefinitionError> {
    let crds = context.crds.list().ok_or(DefinitionError::NotSynced { what: "CustomResourceDefinitions" })?;
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
    match context.client.list(kind, None, None).await {
        Ok(instances) => Ok(instances.iter().any(finalizer::is_set)),
        // The kind went meanwhile, and its objects with it.
        Err(error) if error.missing().is_some() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn serve(context: &Context, name: &Text, crd: &StoredObject, kind: &Arc<ApiKind>) {
    if context.graphs.get(name).is_some_and(|current| current.orphaned) {
        return;
    }
    tracing::warn!(rgd = %name, crd = %crd.name(), "the definition is gone and instances are left; they can be deleted");
    context.graphs.publish(Served {
        definition: name.clone(),
        uid: crd.label(labels::DEFINITION_ID).unwrap_or_default().into(),
        instances: context.caches.watch(&context.client, kind, Selection::All),
        kind: Arc::clone(kind),
        children: Vec::new(),
        external: false,
        revision: None,
        leaving: None,
        halt: Some(Halt::Ended(format!("definition `{name}` is gone, so that nothing new is made").into())),
        orphaned: true,
    });
    if let Some(served) = context.graphs.get(name) {
        context.wake_instances(&served);
    }
}
