//! One reconcile of a definition, from top to bottom: resolve the revision to serve, serve it, delete old revisions, report.
//! Every end of it writes the status.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{FailureReason, ResourceGraphDefinitionSpec, managers};
use kross_cluster::{Lookup, Outcome};
use kross_schema::GroupVersionKind;
use kross_value::Text;
use tracing::field::Empty;

use super::cluster_checks::{self, ClusterChecks, Verdict};
use super::compile::{Compiled, compile_for};
use super::error::{CHANGED, CONNECTING, DefinitionError, Next, outcome};
use super::object::{Definition, hash, kinds_of, named_kinds};
use super::refused::{self, CompiledRevision, serve_or_stay};
use super::revisions::{self, Revision, Revisions};
use super::status::{StatusReport, ready_message};
use super::{deletion, orphan};
use crate::context::Context;
use crate::finalizer;
use crate::graphs::{self, NamedKinds};
use crate::metrics::{IssueReason, Issued, Resolution, Resolved};
use crate::unreadable;

/// Reconciles a definition.
#[tracing::instrument(
    level = "debug",
    skip_all,
    fields(rgd = %name, reason = Empty, otel.status_code = Empty)
)]
pub(crate) async fn reconcile(context: &Context, name: &Text) -> Outcome {
    let mut reported = None;
    let ended = match context.definitions.get(None, name) {
        Lookup::Found(object) => {
            let definition = Definition::read(object);
            reported = ready_message(&definition.status);
            if definition.is_deleting() {
                deletion::proceed(context, definition).await
            } else {
                reconcile_living(context, definition).await
            }
        }
        Lookup::Absent => {
            context.cluster_handles.release(name);
            orphan::proceed(context, name).await
        }
        Lookup::Unknown => match context.definitions.unreadable(None, name) {
            Some(outline) => return unreadable::report(context, &outline),
            None => Err(DefinitionError::NotSynced { what: "definitions" }),
        },
    };
    if let Err(error) = &ended {
        let span = tracing::Span::current();
        span.record("reason", error.reason()).record("otel.status_code", "ERROR");
        // An error that is retried again and again is a warning only once.
        if reported == Some(error.to_string()) {
            tracing::debug!(rgd = %name, reason = error.reason(), %error, "still cannot serve definition");
        } else {
            tracing::warn!(rgd = %name, reason = error.reason(), %error, "cannot serve definition");
        }
    }
    outcome(&ended)
}

/// Removes our finalizer from a revision that is being deleted.
pub(crate) async fn release_revision(context: &Context, name: &Text) -> Outcome {
    let object = match context.revisions.get(None, name) {
        Lookup::Found(object) => Some(object),
        Lookup::Unknown => context.revisions.unreadable(None, name),
        Lookup::Absent => None,
    };
    let Some(object) = object else { return Outcome::Done };
    if object.deletion_timestamp().is_none() {
        return Outcome::Done;
    }
    let ended = revisions::release(context, &object).await.map(|()| Next::Done);
    if let Err(error) = &ended {
        tracing::warn!(revision = %name, %error, "cannot release revision");
    }
    outcome(&ended)
}

async fn reconcile_living(context: &Context, definition: Definition) -> Result<Next, DefinitionError> {
    let definition = add_finalizer(context, definition).await?;
    let refers = definition.spec.as_ref().is_ok_and(|spec| cluster_checks::has_references(context, spec));
    let mut report = StatusReport::new(&definition, refers, Timestamp::now());
    let ended = run(context, &definition, &mut report).await;
    match report.write(context, &definition).await {
        // Somebody has changed it meanwhile. The event of that change requeues it.
        Err(DefinitionError::Api(error)) if error.reason() == FailureReason::Conflict => {
            tracing::debug!(rgd = %definition.name(), %error, "definition has changed");
            ended.and(Ok(Next::Wait(CHANGED)))
        }
        written => written.and(ended),
    }
}

async fn add_finalizer(context: &Context, definition: Definition) -> Result<Definition, DefinitionError> {
    if finalizer::is_set(&definition.object) {
        return Ok(definition);
    }
    let patch = finalizer::addition(&definition.object);
    let (kind, name) = (&context.definition_kind, definition.name());
    let written = context.client.merge_patch(kind, None, name, None, managers::CONTROLLER, &patch).await?;
    context.definitions.observe(&written);
    Ok(Definition::read(Arc::new(written)))
}

/// The steps of a reconcile of a living definition.
async fn run(
    context: &Context,
    definition: &Definition,
    report: &mut StatusReport,
) -> Result<Next, DefinitionError> {
    let now = Timestamp::now();
    let not_synced = DefinitionError::NotSynced { what: "revisions" };
    let revisions = Revisions::cached(context, definition.name()).ok_or(not_synced)?;
    store_named_kinds(context, definition, &revisions);
    if !revisions.is_settled() {
        report.settling();
        count(context, Resolution::wait);
        return Ok(Next::Wait(context.settings.progress_delay));
    }
    for orphan in revisions.orphans(definition.object.uid()) {
        revisions::adopt(context, definition, orphan).await?;
    }
    if let Some(latest) = revisions.latest() {
        report.issued(latest.number);
    }
    let resolved = match resolve(context, definition, &revisions, report, now).await {
        Ok(resolved) => resolved,
        Err(error) => {
            count(context, Resolution::failed);
            let latest = revisions.latest().map(|latest| latest.number);
            deletion::serve_without_graph(context, definition, latest, &error).await;
            return Err(error);
        }
    };
    let ended = serve_or_stay(context, definition, &revisions, &resolved.revision, report).await;
    count(context, if ended.is_ok() { Resolution::serve } else { Resolution::failed });
    let revisions = Revisions::cached(context, definition.name()).unwrap_or_default();
    let followed = refused::active(context, definition).map(|active| active.number);
    if followed.is_some() || ended.as_ref().is_err_and(DefinitionError::has_no_instances) {
        revisions::delete_surplus(context, &revisions, followed).await;
    }
    verify_old_revisions(context, definition, &revisions, now).await;
    match ended {
        Ok(Next::Done) if resolved.is_connecting => Ok(Next::Wait(CONNECTING)),
        ended => ended,
    }
}

/// The revision to serve.
struct ResolvedRevision {
    revision: CompiledRevision,
    /// Whether one of its clusters is still being connected.
    is_connecting: bool,
}

/// Resolves the revision to serve: the latest one if the spec has not changed since, else a new one.
async fn resolve(
    context: &Context,
    definition: &Definition,
    revisions: &Revisions,
    report: &mut StatusReport,
    now: Timestamp,
) -> Result<ResolvedRevision, DefinitionError> {
    let spec = match &definition.spec {
        Ok(spec) => spec,
        Err(message) => {
            report.invalid(message);
            return Err(DefinitionError::Invalid { message: message.clone(), unknown_kinds: false });
        }
    };
    // Before the clusters are checked: the scope of instances may depend on a schema, and the namespace of a Secret on that
    // scope.
    if let Err(error) = context.schemas.prepare(&named_kinds(spec)).await {
        report.without_schemas(&error.to_string());
        return Err(error.into());
    }
    let clusters = cluster_checks::check(context, definition.name(), spec);
    if let Some(clusters) = &clusters {
        clusters.report(report);
    }
    let current = hash(spec);
    let Some(latest) = revisions.latest().filter(|latest| latest.hash == current) else {
        let change = SpecChange { context, definition, spec, hash: &current, revisions };
        let revision = change.issue(clusters.as_ref(), report, now).await?;
        return Ok(ResolvedRevision { revision, is_connecting: false });
    };
    let compiled = compile_latest(context, definition, latest, clusters.as_ref(), report, now).await?;
    let is_connecting = clusters.is_some_and(|clusters| clusters.is_connecting());
    Ok(ResolvedRevision { revision: CompiledRevision { number: latest.number, compiled }, is_connecting })
}

/// A spec that is not the latest revision's.
struct SpecChange<'a> {
    context: &'a Context,
    definition: &'a Definition,
    spec: &'a ResourceGraphDefinitionSpec,
    hash: &'a Text,
    revisions: &'a Revisions,
}

impl SpecChange<'_> {
    /// Compiles the spec, checks it against its clusters, and issues it as a new revision. If that fails instances continue
    /// with the latest revision.
    async fn issue(
        &self,
        clusters: Option<&ClusterChecks>,
        report: &mut StatusReport,
        now: Timestamp,
    ) -> Result<CompiledRevision, DefinitionError> {
        let Self { context, definition, revisions, .. } = self;
        let latest = revisions.latest();
        if let Some(latest) = latest {
            report.resolved(latest.number);
        }
        let compiled = match self.accept(clusters, report).await {
            Ok(compiled) => compiled,
            Err(error) => {
                if matches!(error, DefinitionError::Invalid { .. } | DefinitionError::Clusters { .. }) {
                    serve_latest(context, definition, revisions, report, now).await;
                }
                return Err(error);
            }
        };
        let number = revisions.next_number(report.last_issued());
        let revision = match revisions::issue(context, definition, number, self.hash).await {
            Ok(revision) => revision,
            Err(error) => {
                if is_rejected(&error) {
                    report.invalid(&error.to_string());
                    serve_latest(context, definition, revisions, report, now).await;
                }
                return Err(error);
            }
        };
        let reason = if latest.is_some() { IssueReason::spec_changed } else { IssueReason::no_revision };
        context.metrics.definitions.revisions_issued.get_or_create(&Issued { reason }).inc();
        count(context, Resolution::issue);
        report.accepted(&compiled.graph);
        report.issued(number);
        report.compiling(number);
        revisions::record(context, &revision, Ok(&compiled.graph), now).await?;
        store_compiled(context, definition, number, &compiled);
        report.resolved(number);
        Ok(CompiledRevision { number, compiled })
    }

    /// Compiles the spec, and checks it against the clusters that it names.
    async fn accept(
        &self,
        clusters: Option<&ClusterChecks>,
        report: &mut StatusReport,
    ) -> Result<Compiled, DefinitionError> {
        let Self { context, definition, spec, .. } = self;
        let kinds: Vec<GroupVersionKind> = named_kinds(spec);
        let compiled = match compile_for(context, definition.name(), spec, &kinds, clusters).await {
            Ok(compiled) => compiled,
            Err(error) => {
                let error = DefinitionError::from(error);
                if matches!(error, DefinitionError::Invalid { .. }) {
                    report.invalid(&error.to_string());
                }
                return Err(error);
            }
        };
        let Some(clusters) = clusters else { return Ok(compiled) };
        let verdict = clusters.verdict(compiled.mismatch.as_deref());
        clusters.report_analysis(report, &verdict, compiled.deferred_message().as_deref());
        let error = match verdict {
            Verdict::Compatible => return Ok(compiled),
            Verdict::Pending => {
                let message = clusters.obstacle().unwrap_or_default();
                DefinitionError::Clusters { message, connecting: clusters.is_connecting() }
            }
            Verdict::Incompatible(_, message) => DefinitionError::Clusters { message, connecting: false },
        };
        report.accepted(&compiled.graph);
        report.not_accepted_by_clusters();
        Err(error)
    }
}

/// Whether a revision is rejected, by the API server or because nobody could read it. A retry does not help until somebody changes something.
fn is_rejected(error: &DefinitionError) -> bool {
    match error {
        DefinitionError::Api(error) => error.retry() == kross_cluster::Retry::WhenChanged,
        error => matches!(error, DefinitionError::Invalid { .. }),
    }
}

/// The graph of the latest revision: the one that is served, or a new one after a restart or a change of a schema. The
/// revision was accepted before: what its clusters say now is reported, and instances continue.
async fn compile_latest(
    context: &Context,
    definition: &Definition,
    revision: &Revision,
    clusters: Option<&ClusterChecks>,
    report: &mut StatusReport,
    now: Timestamp,
) -> Result<Compiled, DefinitionError> {
    match compiled(context, definition, revision, clusters).await {
        Ok(compiled) => {
            if let Some(clusters) = clusters {
                let verdict = clusters.verdict(compiled.mismatch.as_deref());
                clusters.report_analysis(report, &verdict, compiled.deferred_message().as_deref());
            }
            revisions::record(context, revision, Ok(&compiled.graph), now).await?;
            report.accepted(&compiled.graph);
            report.resolved(revision.number);
            Ok(compiled)
        }
        Err(DefinitionError::Invalid { message, unknown_kinds }) => {
            let error = DefinitionError::RevisionFailed {
                revision: revision.number,
                message: message.clone(),
                unknown_kinds,
            };
            report.revision_failed(&error.to_string());
            revisions::record(context, revision, Err(&message), now).await?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// The graph of a revision: the stored one, if it is of this revision and the schemas have not changed.
///
/// # Errors
/// It does not compile, or the schemas cannot be fetched.
pub(super) async fn compiled(
    context: &Context,
    definition: &Definition,
    revision: &Revision,
    clusters: Option<&ClusterChecks>,
) -> Result<Compiled, DefinitionError> {
    let spec = revision.spec()?;
    let kinds = named_kinds(spec);
    let known = context.graphs.compiled(definition.name()).filter(|known| {
        known.number == revision.number
            && known.graph.hash == revision.hash
            && known.fingerprint == context.schemas.fingerprint(&kinds)
    });
    // If a cluster is unreachable, the graph that was compiled with its schemas is better than a new one without.
    let is_current = |known: &graphs::Revision| {
        clusters.is_none_or(|clusters| !clusters.is_complete() || known.clusters == clusters.fingerprint())
    };
    if let Some(known) = known.clone().filter(is_current) {
        return Ok(known.into());
    }
    let mut compiled = compile_for(context, definition.name(), spec, &kinds, clusters).await?;
    if let (Some(known), Some(_)) = (known, &compiled.mismatch) {
        // Instances continue with the last graph that fitted the clusters.
        compiled.graph = known.graph;
    }
    store_compiled(context, definition, revision.number, &compiled);
    Ok(compiled)
}

/// Stores a compiled revision, so that the next reconcile does not compile it again.
fn store_compiled(context: &Context, definition: &Definition, number: i64, compiled: &Compiled) {
    context.graphs.store_compiled(definition.name(), compiled.clone().revision(number));
}

/// Serves the latest revision if the spec is invalid, after a restart too. The conditions of its API stay as they are,
/// unless they do not hold any more.
async fn serve_latest(
    context: &Context,
    definition: &Definition,
    revisions: &Revisions,
    report: &mut StatusReport,
    now: Timestamp,
) {
    let Some(revision) = revisions.latest() else { return };
    let compiled = match compiled(context, definition, revision, None).await {
        Ok(compiled) => compiled,
        Err(DefinitionError::Invalid { message, .. }) => {
            let message = format!("latest graph revision {} failed compilation: {message}", revision.number);
            report.latest_failed(&message);
            if let Err(error) = revisions::record(context, revision, Err(&message), now).await {
                tracing::warn!(rgd = %definition.name(), %error, "cannot write the status of a revision");
            }
            return;
        }
        Err(error) => {
            tracing::warn!(rgd = %definition.name(), %error, "cannot compile the latest revision");
            return;
        }
    };
    let mut discarded = report.clone();
    let latest = CompiledRevision { number: revision.number, compiled };
    if let Err(error) = serve_or_stay(context, definition, revisions, &latest, &mut discarded).await {
        report.kind_failed(&error.to_string());
    }
}

/// Writes the status of older revisions that have none, such as after two edits in a row or a restart. Nothing depends on
/// it; it is for people.
async fn verify_old_revisions(
    context: &Context,
    definition: &Definition,
    revisions: &Revisions,
    now: Timestamp,
) {
    for revision in revisions.unverified(context.settings.max_revisions) {
        let Ok(spec) = &revision.spec else { continue };
        let compiled = compile_for(context, definition.name(), spec, &named_kinds(spec), None).await;
        let recorded = match &compiled.map_err(DefinitionError::from) {
            Ok(compiled) => revisions::record(context, revision, Ok(&compiled.graph), now).await,
            Err(DefinitionError::Invalid { message, .. }) => {
                revisions::record(context, revision, Err(message), now).await
            }
            Err(_) => continue,
        };
        if let Err(error) = recorded {
            tracing::warn!(rgd = %definition.name(), %error, "cannot write the status of an old revision");
        }
    }
}

/// Stores the kinds whose CRDs concern a definition: those that its spec and its revisions name.
fn store_named_kinds(context: &Context, definition: &Definition, revisions: &Revisions) {
    let of = |spec: &ResourceGraphDefinitionSpec| kinds_of(spec, &named_kinds(spec));
    let mut kinds = definition.spec.as_ref().map_or_else(|_| NamedKinds::default(), of);
    // Instances may follow an older revision than the latest.
    kinds.extend(revisions.all().iter().filter_map(|revision| revision.spec.as_ref().ok()).flat_map(of));
    context.graphs.store_named_kinds(definition.name(), kinds);
}

fn count(context: &Context, result: Resolution) {
    context.metrics.definitions.revisions_resolved.get_or_create(&Resolved { result }).inc();
}
