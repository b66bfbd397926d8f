//! Serves a revision, unless the API that exists refuses it: while its CRD is held back because of breaking changes, or the
//! existing CRD is being deleted, instances stay on the newest revision that fits the CRD that exists.

use std::sync::Arc;

use kross_cluster::{Lookup, StoredObject};
use kross_value::Value;

use super::compile::{Compiled, compile_for};
use super::crd;
use super::deletion::serve_without_graph;
use super::error::{DefinitionError, Next};
use super::object::{Definition, named_kinds};
use super::revisions::{Revision, Revisions};
use super::serve::{ensure_crd, instance_kind, publish, serve};
use super::status::StatusReport;
use crate::context::Context;
use crate::graphs;

/// A revision with its graph.
pub(super) struct CompiledRevision {
    pub(super) number: i64,
    pub(super) compiled: Compiled,
}

/// Serves a revision, or the newest older one that fits the CRD if the CRD of this one is refused.
///
/// # Errors
/// As [`serve`]; the error of a breaking change has the revision that instances stay on.
pub(super) async fn serve_or_stay(
    context: &Context,
    definition: &Definition,
    revisions: &Revisions,
    latest: &CompiledRevision,
    report: &mut StatusReport,
) -> Result<Next, DefinitionError> {
    let refused = match serve(context, definition, latest.number, &latest.compiled, report).await {
        Err(error @ (DefinitionError::Breaking { .. } | DefinitionError::CrdDeleting { .. })) => error,
        ended => return ended,
    };
    let stayed = stay(context, definition, revisions, latest, &refused).await?;
    match refused {
        DefinitionError::Breaking { crd, report: changes, .. } => {
            let error = DefinitionError::Breaking { crd, report: changes, followed: stayed.into() };
            report.kind_failed(&error.to_string());
            Err(error)
        }
        // Deleted instances still need a graph.
        error => Err(error),
    }
}

/// Publishes the newest revision that fits the CRD that exists, and returns its number. If none fits, such as because
/// somebody edited the CRD, instances continue with what they have. After a restart that is not known: they are not
/// reconciled then, since the refused revision could prune objects of the one that they followed.
async fn stay(
    context: &Context,
    definition: &Definition,
    revisions: &Revisions,
    latest: &CompiledRevision,
    refused: &DefinitionError,
) -> Result<Option<i64>, DefinitionError> {
    let existing = existing_crd(context, &latest.compiled)?;
    // While the CRD is being deleted, the latest revision may be the one that fits.
    if fits(definition, context, existing.as_deref(), &latest.compiled) {
        publish(context, definition, latest.number, &latest.compiled, instance_kind(&latest.compiled.graph));
        return Ok(Some(latest.number));
    }
    let older = revisions.before(latest.number);
    match find(context, definition, older, existing.as_deref()).await? {
        Found::Fitting(CompiledRevision { number, compiled }) => {
            publish(context, definition, number, &compiled, instance_kind(&compiled.graph));
            if let (Some(crd), Some(existing)) = (&compiled.graph.crd, &existing)
                && existing.deletion_timestamp().is_none()
            {
                // An edit of the CRD by somebody else is reverted, as for the latest revision.
                let crd = ensure_crd(context, definition, crd, compiled.provisional).await?;
                context.schemas.sync_crd(&context.crds, &crd);
            }
            return Ok(Some(number));
        }
        Found::Failed(error) => {
            let number = older.last().map(|revision| revision.number);
            serve_without_graph(context, definition, number, &error).await;
        }
        Found::None if active(context, definition).is_some() => {}
        Found::None if older.is_empty() => {
            let kind = instance_kind(&latest.compiled.graph);
            publish(context, definition, latest.number, &latest.compiled, kind);
        }
        Found::None => serve_without_graph(context, definition, Some(latest.number), refused).await,
    }
    Ok(active(context, definition).map(|active| active.number))
}

/// The result of a search for the revision that fits a CRD.
pub(super) enum Found {
    /// The newest one.
    Fitting(CompiledRevision),
    /// None fits, and this is why one of them does not compile any more.
    Failed(DefinitionError),
    /// None fits.
    None,
}

/// Finds the revision that fits a CRD: the active one, or else the newest, so that a restart finds it too.
///
/// # Errors
/// Schemas cannot be fetched: whether a revision fits is not known then.
pub(super) async fn find(
    context: &Context,
    definition: &Definition,
    revisions: &[Revision],
    existing: Option<&StoredObject>,
) -> Result<Found, DefinitionError> {
    let active = active(context, definition).map(|active| active.number);
    let is_active = |revision: &&Revision| Some(revision.number) == active;
    let active_first = revisions.iter().filter(is_active);
    let others = revisions.iter().rev().filter(|revision| !is_active(revision));
    let mut failed = None;
    for revision in active_first.chain(others) {
        match compiled(context, definition, revision).await {
            Ok(compiled) if fits(definition, context, existing, &compiled) => {
                return Ok(Found::Fitting(CompiledRevision { number: revision.number, compiled }));
            }
            Ok(_) => {}
            Err(DefinitionError::Invalid { message, unknown_kinds }) => {
                let revision = revision.number;
                failed.get_or_insert(DefinitionError::RevisionFailed { revision, message, unknown_kinds });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(failed.map_or(Found::None, Found::Failed))
}

/// The revision that instances are reconciled by.
pub(super) fn active(context: &Context, definition: &Definition) -> Option<graphs::Revision> {
    context.graphs.get(definition.name())?.revision.clone()
}

/// The graph of an older revision: the active one, if the schemas have not changed. The latest one stays the stored one.
async fn compiled(
    context: &Context,
    definition: &Definition,
    revision: &Revision,
) -> Result<Compiled, DefinitionError> {
    let spec = revision.spec()?;
    let kinds = named_kinds(spec);
    let known = active(context, definition).filter(|active| {
        active.number == revision.number
            && active.graph.hash == revision.hash
            && active.fingerprint == context.schemas.fingerprint(&kinds)
    });
    match known {
        Some(known) => Ok(known.into()),
        None => Ok(compile_for(context, definition.name(), spec, &kinds, None).await?),
    }
}

/// Whether a graph's CRD is the one that exists, without breaking changes.
fn fits(
    definition: &Definition,
    context: &Context,
    existing: Option<&StoredObject>,
    compiled: &Compiled,
) -> bool {
    let (Some(existing), Some(crd)) = (existing, &compiled.graph.crd) else { return false };
    let mut desired = crd::desired(crd, &context.ownership_labels(), &definition.object);
    if compiled.provisional {
        crd::keep_status(&mut desired, existing.value());
    }
    crd::fits(existing, &desired)
}

/// The CRD that exists for a graph.
fn existing_crd(
    context: &Context,
    compiled: &Compiled,
) -> Result<Option<Arc<StoredObject>>, DefinitionError> {
    let name =
        compiled.graph.crd.as_ref().and_then(|crd| crd.at(&["metadata", "name"]).and_then(Value::as_str));
    match context.crds.get(None, name.unwrap_or_default()) {
        Lookup::Found(existing) => Ok(Some(existing)),
        Lookup::Absent => Ok(None),
        Lookup::Unknown => Err(DefinitionError::NotSynced { what: "CustomResourceDefinitions" }),
    }
}
