//! The end of a definition: while it has instances it waits and says for whom, since nobody else could let them go. Then its
//! CRD goes, if that is allowed, and the definition itself.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{annotations, labels, managers};
use kross_cluster::{ApiKind, Delete, Lookup, Selection, StoredObject};
use kross_schema::SchemaResolver;
use kross_value::Text;

use super::clusters;
use super::crd;
use super::error::{DefinitionError, Next};
use super::object::{Definition, interests, named_kinds, own_crd};
use super::reconcile::compiled;
use super::report::Report;
use super::revisions::Revisions;
use crate::context::Context;
use crate::finalizer;
use crate::graphs::{Halt, Served};
use crate::kinds;
use crate::selector;

/// How many instances a message names.
const NAMED: usize = 5;

/// Whose instances have to go before a definition can.
struct Dependents {
    kind: Arc<ApiKind>,
    /// The CRD of the kind, if it is the definition's own.
    crd: Option<Arc<StoredObject>>,
}

/// Goes on with a deletion.
///
/// # Errors
/// The cluster refuses or does not answer.
pub(super) async fn proceed(context: &Context, definition: Definition) -> Result<Next, DefinitionError> {
    let name = definition.name().clone();
    if !finalizer::is_set(&definition.object) {
        context.graphs.withdraw(&name);
        return Ok(Next::Done);
    }
    if let Ok(spec) = &definition.spec {
        context.graphs.remember(definition.name(), interests(spec, &named_kinds(spec)));
    }
    let dependents = dependents(context, &definition)?;
    if let Some(dependents) = &dependents {
        recompile(context, &definition).await;
        let why = format!("definition `{name}` is being deleted, so that nothing new is made");
        keep_serving(context, &definition, &dependents.kind, Some(Halt::Ended(why.into())));
        let instances = instances(context, &definition, dependents).await?;
        if !instances.is_empty() {
            return wait(context, &definition, dependents, &instances).await;
        }
        if let (Some(crd), true) = (&dependents.crd, context.settings.allow_crd_deletion) {
            delete_crd(context, crd).await?;
        }
    }
    context.graphs.withdraw(&name);
    let (kind, patch) = (&context.definition_kind, finalizer::removal(&definition.object));
    match context.client.merge_patch(kind, None, &name, None, managers::CONTROLLER, &patch).await {
        Ok(_) => {}
        // The finalizer was removed before, and the cache does not have that yet.
        Err(error) if error.is_gone() => return Ok(Next::Done),
        Err(error) => return Err(error.into()),
    }
    let asked = definition.object.deletion_timestamp().and_then(|at| at.parse::<Timestamp>().ok());
    context.metrics.deleted(asked.and_then(|asked| Timestamp::now().duration_since(asked).try_into().ok()));
    tracing::info!(rgd = %name, "let a definition go");
    Ok(Next::Done)
}

/// Whose instances have to go; none for a definition that never owned its CRD.
fn dependents(context: &Context, definition: &Definition) -> Result<Option<Dependents>, DefinitionError> {
    let Ok(spec) = &definition.spec else { return Ok(None) };
    let Some(crd_name) = own_crd(spec) else {
        // The kind is somebody else's; those of its objects that are instances carry our label.
        let Some(external) = &spec.schema.external_ref else { return Ok(None) };
        let kind = kross_schema::GroupVersionKind::new(&external.api_version, &external.kind);
        let known = context.schemas.resolve(&kind);
        return Ok(known.map(|known| Dependents {
            kind: Arc::new(ApiKind::custom(
                &kind.group,
                &kind.version,
                &kind.kind,
                &known.plural,
                known.namespaced,
            )),
            crd: None,
        }));
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

/// Serves a definition that has a mistake, and had none when it was last served, as far as its instances can be let go.
/// Its instances say that there is no graph, and why, unless that is about to change.
pub(super) fn stand_in(
    context: &Context,
    definition: &Definition,
    latest: Option<i64>,
    error: &DefinitionError,
) {
    let current = context.graphs.get(definition.name());
    if current.is_some_and(|current| current.revision.is_some()) {
        return;
    }
    if let Ok(Some(dependents)) = dependents(context, definition) {
        keep_serving(context, definition, &dependents.kind, broken(latest, error).map(Halt::Broken));
    }
}

/// Why instances have no graph; none if it is only not known yet.
fn broken(latest: Option<i64>, error: &DefinitionError) -> Option<Text> {
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
        _ => return None,
    };
    Some(message.into())
}

/// After a restart: instances may have something to make before they go, such as a backup, and the graph knows it. If it does
/// not compile any more, they go without, or wait for whom they must.
async fn recompile(context: &Context, definition: &Definition) {
    if context.graphs.get(definition.name()).is_some() || context.graphs.compiled(definition.name()).is_some()
    {
        return;
    }
    let known = context.revisions.list().unwrap_or_default();
    let Some(latest) = Revisions::of(definition.name(), &known).latest().cloned() else { return };
    if let Err(error) = compiled(context, definition, &latest, None).await {
        tracing::warn!(rgd = %definition.name(), %error, "cannot compile the graph that instances go by");
    }
}

/// Instances are still let go, but nothing new is made for them: deletion needs no graph.
fn keep_serving(context: &Context, definition: &Definition, kind: &Arc<ApiKind>, halt: Option<Halt>) {
    let current = context.graphs.get(definition.name());
    if current.as_ref().is_some_and(|current| current.revision.is_none() && current.halt == halt) {
        return;
    }
    // A reference that cannot be read selects nothing; its objects are then found by their labels alone.
    let nothing =
        Selection::Labels { namespace: None, selector: format!("{}=", labels::DEFINITION_NAME).into() };
    let selection = definition.spec.as_ref().ok().and_then(|spec| selector::instances(spec).ok());
    let selection = selection.unwrap_or(nothing);
    let children = current.map(|current| current.children.clone()).unwrap_or_default();
    context.graphs.publish(Served {
        definition: definition.name().clone(),
        uid: definition.object.uid().clone(),
        instances: context.caches.watch(&context.client, kind, selection),
        kind: Arc::clone(kind),
        children,
        external: definition.spec.as_ref().is_ok_and(|spec| spec.schema.external_ref.is_some()),
        revision: None,
        leaving: context.graphs.compiled(definition.name()),
        halt,
        orphaned: false,
    });
    if let Some(served) = context.graphs.get(definition.name()) {
        context.wake_instances(&served);
    }
}

/// The instances that are still there. Asks the cluster: whether somebody is left behind is not decided by a copy.
async fn instances(
    context: &Context,
    definition: &Definition,
    dependents: &Dependents,
) -> Result<Vec<StoredObject>, DefinitionError> {
    let labelled = format!("{}={}", labels::DEFINITION_NAME, definition.name());
    let selector = dependents.crd.is_none().then_some(labelled.as_str());
    let mut instances = match context.client.list(&dependents.kind, None, selector).await {
        Ok(instances) => instances,
        // The kind went meanwhile, and its objects with it.
        Err(error) if error.missing().is_some() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if dependents.crd.is_none() {
        instances.retain(finalizer::is_set);
    }
    instances.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    Ok(instances)
}

async fn wait(
    context: &Context,
    definition: &Definition,
    dependents: &Dependents,
    instances: &[StoredObject],
) -> Result<Next, DefinitionError> {
    let asked = definition.deletes_instances() && dependents.crd.is_some();
    if asked {
        for instance in instances.iter().filter(|instance| instance.deletion_timestamp().is_none()) {
            let options = Delete { uid: Some(instance.uid()), ..Delete::default() };
            let namespace = instance.namespace().map(|namespace| &**namespace);
            match context.client.delete(&dependents.kind, namespace, instance.name(), options).await {
                Ok(_) => {}
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let refers = definition.spec.as_ref().is_ok_and(|spec| clusters::refers(context, spec));
    let mut report = Report::new(definition, refers, Timestamp::now());
    report.waiting_for_instances(&message(instances, asked));
    report.write(context, definition).await?;
    // Where every instance is watched, the last one to go wakes us; of one that the copy has never had we would not be told.
    let served = context.graphs.get(definition.name());
    let told = dependents.crd.is_some()
        && served.is_some_and(|served| {
            served.instances.is_live()
                && instances.iter().all(|instance| {
                    let namespace = instance.namespace().map(|namespace| &**namespace);
                    served.instances.will_tell_of(namespace, instance.name(), instance.uid())
                })
        });
    Ok(if told { Next::Done } else { Next::Wait(context.settings.progress_delay) })
}

/// Says how many instances are waited for, which, and what can be done about it.
fn message(instances: &[StoredObject], asked: bool) -> String {
    let name = |instance: &StoredObject| match instance.namespace() {
        Some(namespace) => format!("`{namespace}/{}`", instance.name()),
        None => format!("`{}`", instance.name()),
    };
    let count = instances.len();
    let mut names: Vec<String> = instances.iter().take(NAMED).map(name).collect();
    if count > NAMED {
        names.push(format!("and {} more", count - NAMED));
    }
    let (noun, them, they_are) =
        if count == 1 { ("instance", "it", "it is") } else { ("instances", "them", "they are") };
    let advice = if asked {
        format!("{they_are} being deleted")
    } else {
        format!(
            "delete {them}, or set the annotation `{}: \"true\"` to have {them} deleted",
            annotations::DELETE_INSTANCES
        )
    };
    format!("waiting for {count} {noun} to go: {}; {advice}", names.join(", "))
}

async fn delete_crd(context: &Context, crd: &StoredObject) -> Result<(), DefinitionError> {
    if crd.deletion_timestamp().is_some() {
        return Ok(());
    }
    let options = Delete { uid: Some(crd.uid()), ..Delete::default() };
    match context.client.delete(&context.crd_kind, None, crd.name(), options).await {
        Ok(_) => {
            tracing::info!(crd = %crd.name(), "deleted a CustomResourceDefinition");
            Ok(())
        }
        Err(error) if error.is_gone() => Ok(()),
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
    fn the_message_says_how_many_which_and_what_to_do() {
        assert_eq!(
            message(&[instance("a")], false),
            "waiting for 1 instance to go: `shop/a`; delete it, or set the annotation \
             `kro.run/delete-instances: \"true\"` to have it deleted"
        );
        let many: Vec<_> = (0..7).map(|number| instance(&number.to_string())).collect();
        assert_eq!(
            message(&many, true),
            "waiting for 7 instances to go: `shop/0`, `shop/1`, `shop/2`, `shop/3`, `shop/4`, and 2 more; \
             they are being deleted"
        );
    }
}
