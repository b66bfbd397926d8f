//! One pass over a definition: look at the copies, decide which revision to serve, serve it, report. Every way out goes
//! through the report.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{FailureReason, ResourceGraphDefinitionSpec, managers};
use kross_cluster::{Lookup, Outcome};
use kross_schema::GroupVersionKind;
use kross_value::Text;

use super::clusters::{self, Clusters, Verdict};
use super::compile::{Compiled, compile_for};
use super::error::{CHANGED, CONNECTING, DefinitionError, Next, outcome};
use super::object::{Definition, hash, interests, named_kinds};
use super::report::{Report, ready_message};
use super::revisions::{self, Revision, Revisions};
use super::serve::serve;
use super::{deletion, orphan};
use crate::context::Context;
use crate::finalizer;
use crate::graphs::{self, Interests};
use crate::metrics::{IssueReason, Issued, Resolution, Resolved};

/// Looks at a definition.
#[tracing::instrument(level = "debug", skip_all, fields(rgd = %name))]
pub(crate) async fn reconcile(context: &Context, name: &Text) -> Outcome {
    let mut said = None;
    let ended = match context.definitions.get(None, name) {
        Lookup::Found(object) => {
            let definition = Definition::read(object);
            said = ready_message(&definition.status);
            if definition.is_deleting() {
                deletion::proceed(context, definition).await
            } else {
                pass(context, definition).await
            }
        }
        Lookup::Absent => {
            context.links.forget(name);
            orphan::proceed(context, name).await
        }
        Lookup::Unknown => Err(DefinitionError::NotSynced { what: "definitions" }),
    };
    if let Err(error) = &ended {
        // What waits for somebody is tried again and again, and is news only once.
        if said == Some(error.to_string()) {
            tracing::debug!(rgd = %name, reason = error.reason(), %error, "still cannot serve a definition");
        } else {
            tracing::warn!(rgd = %name, reason = error.reason(), %error, "cannot serve a definition");
        }
    }
    outcome(&ended)
}

/// Lets a revision go that is being deleted.
pub(crate) async fn release_revision(context: &Context, name: &Text) -> Outcome {
    let Lookup::Found(object) = context.revisions.get(None, name) else { return Outcome::Done };
    if object.deletion_timestamp().is_none() {
        return Outcome::Done;
    }
    let ended = revisions::release(context, &object).await.map(|()| Next::Done);
    if let Err(error) = &ended {
        tracing::warn!(revision = %name, %error, "cannot let go of a revision");
    }
    outcome(&ended)
}

async fn pass(context: &Context, definition: Definition) -> Result<Next, DefinitionError> {
    let definition = hold(context, definition).await?;
    let refers = definition.spec.as_ref().is_ok_and(|spec| clusters::refers(context, spec));
    let mut report = Report::new(&definition, refers, Timestamp::now());
    let ended = walk(context, &definition, &mut report).await;
    match report.write(context, &definition).await {
        // Somebody changed it meanwhile, which wakes us.
        Err(DefinitionError::Api(error)) if error.reason() == FailureReason::Conflict => {
            tracing::debug!(rgd = %definition.name(), %error, "the definition has changed");
            ended.and(Ok(Next::Wait(CHANGED)))
        }
        written => written.and(ended),
    }
}

/// Adds our finalizer, if it is not there.
async fn hold(context: &Context, definition: Definition) -> Result<Definition, DefinitionError> {
    if finalizer::is_set(&definition.object) {
        return Ok(definition);
    }
    let patch = finalizer::addition(&definition.object);
    let (kind, name) = (&context.definition_kind, definition.name());
    let written = context.client.merge_patch(kind, None, name, None, managers::CONTROLLER, &patch).await?;
    context.definitions.observe(&written);
    Ok(Definition::read(Arc::new(written)))
}

async fn walk(
    context: &Context,
    definition: &Definition,
    report: &mut Report,
) -> Result<Next, DefinitionError> {
    let now = Timestamp::now();
    let known = context.revisions.list().ok_or(DefinitionError::NotSynced { what: "revisions" })?;
    let revisions = Revisions::of(definition.name(), &known);
    remember(context, definition, revisions.latest());
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
    let (revision, compiled, connecting) = match resolve(context, definition, &revisions, report, now).await {
        Ok(resolved) => resolved,
        Err(error) => {
            count(context, Resolution::failed);
            let latest = revisions.latest().map(|latest| latest.number);
            deletion::stand_in(context, definition, latest, &error);
            return Err(error);
        }
    };
    let ended = serve(context, definition, revision.number, &compiled, report).await;
    count(context, if ended.is_ok() { Resolution::serve } else { Resolution::failed });
    let known = context.revisions.list().unwrap_or_default();
    let revisions = Revisions::of(definition.name(), &known);
    revisions::collect(context, &revisions).await;
    catch_up(context, definition, &revisions, now).await;
    match ended {
        Ok(Next::Done) if connecting => Ok(Next::Wait(CONNECTING)),
        ended => ended,
    }
}

/// Records what comes of revisions that were overtaken before anybody did, as by one edit after the other or the end of the
/// process. Nothing depends on it; people look at them.
async fn catch_up(context: &Context, definition: &Definition, revisions: &Revisions, now: Timestamp) {
    for revision in revisions.unverified(context.settings.max_revisions) {
        let Ok(spec) = &revision.spec else { continue };
        let compiled = compile_for(context, definition.name(), spec, &named_kinds(spec), None).await;
        let recorded = match &compiled {
            Ok(compiled) => revisions::record(context, revision, Ok(&compiled.graph), now).await,
            Err(DefinitionError::Invalid { message, .. }) => {
                revisions::record(context, revision, Err(message), now).await
            }
            Err(_) => continue,
        };
        if let Err(error) = recorded {
            tracing::warn!(rgd = %definition.name(), %error, "cannot record what came of an old revision");
        }
    }
}

/// Which revision to serve: the latest if the definition is as it was, else a new one. And whether a cluster is about to be
/// connected.
async fn resolve(
    context: &Context,
    definition: &Definition,
    revisions: &Revisions,
    report: &mut Report,
    now: Timestamp,
) -> Result<(Revision, Compiled, bool), DefinitionError> {
    let spec = definition
        .spec
        .as_ref()
        .map_err(|message| DefinitionError::Invalid { message: message.clone(), unknown_kinds: false });
    let spec = match spec {
        Ok(spec) => spec,
        Err(error) => {
            report.invalid(&error.to_string());
            return Err(error);
        }
    };
    let current = hash(spec);
    let kinds = named_kinds(spec);
    // Where instances live may depend on a schema, and where the clusters are on that.
    if let Err(error) = context.schemas.prepare(&kinds).await {
        report.without_schemas(&error.to_string());
        return Err(error.into());
    }
    let clusters = clusters::look(context, definition.name(), spec);
    if let Some(clusters) = &clusters {
        clusters.report(report);
    }
    match revisions.latest() {
        Some(latest) if latest.hash == current => {
            let compiled = revive(context, definition, latest, clusters.as_ref(), report, now).await?;
            let connecting = clusters.is_some_and(|clusters| clusters.is_connecting());
            Ok((latest.clone(), compiled, connecting))
        }
        latest => {
            if let Some(latest) = latest {
                report.resolved(latest.number);
            }
            let compiled = accept(context, definition, spec, &kinds, clusters.as_ref(), report).await;
            let compiled = match compiled {
                Ok(compiled) => compiled,
                Err(error) => {
                    if matches!(error, DefinitionError::Invalid { .. } | DefinitionError::Clusters { .. }) {
                        go_on(context, definition, latest, report, now).await;
                    }
                    return Err(error);
                }
            };
            let number = revisions.next_number(report.last_issued());
            let revision = match revisions::issue(context, definition, number, &current).await {
                Ok(revision) => revision,
                Err(error) => {
                    if is_refused(&error) {
                        report.invalid(&error.to_string());
                        go_on(context, definition, latest, report, now).await;
                    }
                    return Err(error);
                }
            };
            let reason = if latest.is_some() { IssueReason::spec_changed } else { IssueReason::no_revision };
            context.metrics.issued.get_or_create(&Issued { reason }).inc();
            count(context, Resolution::issue);
            report.accepted(&compiled.graph);
            report.issued(number);
            report.compiling(number);
            revisions::record(context, &revision, Ok(&compiled.graph), now).await?;
            keep(context, definition, number, &compiled);
            report.resolved(number);
            Ok((revision, compiled, false))
        }
    }
}

/// Whether the API server does not take a revision as it is: nothing becomes of the definition until somebody acts.
fn is_refused(error: &DefinitionError) -> bool {
    matches!(error, DefinitionError::Api(error) if error.retry() == kross_cluster::Retry::WhenChanged)
}

/// Compiles a spec that is new, and asks the clusters that it names.
async fn accept(
    context: &Context,
    definition: &Definition,
    spec: &ResourceGraphDefinitionSpec,
    kinds: &[GroupVersionKind],
    clusters: Option<&Clusters>,
    report: &mut Report,
) -> Result<Compiled, DefinitionError> {
    let compiled = match compile_for(context, definition.name(), spec, kinds, clusters).await {
        Ok(compiled) => compiled,
        Err(error) => {
            if matches!(error, DefinitionError::Invalid { .. }) {
                report.invalid(&error.to_string());
            }
            return Err(error);
        }
    };
    let Some(clusters) = clusters else { return Ok(compiled) };
    let verdict = clusters.judge(compiled.mismatch.as_deref());
    clusters.report_analysis(report, &verdict);
    let error = match verdict {
        Verdict::Fit => return Ok(compiled),
        Verdict::Open => {
            let message = clusters.obstacle().unwrap_or_default();
            DefinitionError::Clusters { message, connecting: clusters.is_connecting() }
        }
        Verdict::Unfit(_, message) => DefinitionError::Clusters { message, connecting: false },
    };
    report.accepted(&compiled.graph);
    report.hold();
    Err(error)
}

/// The graph of a revision that exists: the one that is being served, or compiled again after a restart or after a schema
/// that it uses has changed. It was accepted once: what its clusters say now is reported, and it goes on.
async fn revive(
    context: &Context,
    definition: &Definition,
    revision: &Revision,
    clusters: Option<&Clusters>,
    report: &mut Report,
    now: Timestamp,
) -> Result<Compiled, DefinitionError> {
    match compiled(context, definition, revision, clusters).await {
        Ok(compiled) => {
            if let Some(clusters) = clusters {
                clusters.report_analysis(report, &clusters.judge(compiled.mismatch.as_deref()));
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

/// The graph of a revision: the one that was compiled last, if it is of this revision and the schemas are as they were.
///
/// # Errors
/// It does not compile, or the cluster does not tell its schemas.
pub(super) async fn compiled(
    context: &Context,
    definition: &Definition,
    revision: &Revision,
    clusters: Option<&Clusters>,
) -> Result<Compiled, DefinitionError> {
    let spec = revision
        .spec
        .as_ref()
        .map_err(|message| DefinitionError::Invalid { message: message.clone(), unknown_kinds: false })?;
    let kinds = named_kinds(spec);
    let known = context.graphs.compiled(definition.name()).filter(|known| {
        known.number == revision.number
            && known.graph.hash == revision.hash
            && known.fingerprint == context.schemas.fingerprint(&kinds)
    });
    // A cluster that does not answer is no reason to know less than before.
    let current = |known: &graphs::Revision| {
        clusters.is_none_or(|clusters| !clusters.is_known() || known.clusters == clusters.fingerprint())
    };
    if let Some(known) = known.clone().filter(current) {
        return Ok(known.into());
    }
    let mut compiled = compile_for(context, definition.name(), spec, &kinds, clusters).await?;
    if let (Some(known), Some(_)) = (known, &compiled.mismatch) {
        // What instances go on with is the last graph that fitted.
        compiled.graph = known.graph;
    }
    keep(context, definition, revision.number, &compiled);
    Ok(compiled)
}

/// Remembers a compiled revision, so that the next pass need not compile it again.
fn keep(context: &Context, definition: &Definition, number: i64, compiled: &Compiled) {
    context.graphs.keep_compiled(definition.name(), compiled.clone().revision(number));
}

/// After an invalid edit instances go on with the last good revision, after a restart too. What the conditions say about
/// its API stays as it was, unless that does not hold any more.
async fn go_on(
    context: &Context,
    definition: &Definition,
    last_good: Option<&Revision>,
    report: &mut Report,
    now: Timestamp,
) {
    let Some(revision) = last_good else { return };
    let compiled = match compiled(context, definition, revision, None).await {
        Ok(compiled) => compiled,
        Err(DefinitionError::Invalid { message, .. }) => {
            let message = format!("latest graph revision {} failed compilation: {message}", revision.number);
            report.last_good_failed(&message);
            if let Err(error) = revisions::record(context, revision, Err(&message), now).await {
                tracing::warn!(rgd = %definition.name(), %error, "cannot record that a revision fails");
            }
            return;
        }
        Err(error) => {
            tracing::warn!(rgd = %definition.name(), %error, "cannot compile the last good revision");
            return;
        }
    };
    let mut served = report.clone();
    if let Err(error) = serve(context, definition, revision.number, &compiled, &mut served).await {
        report.kind_failed(&error.to_string());
    }
}

/// Keeps in mind whose CRDs concern a definition: those that its spec names, and its latest revision.
fn remember(context: &Context, definition: &Definition, latest: Option<&Revision>) {
    let of = |spec: &ResourceGraphDefinitionSpec| interests(spec, &named_kinds(spec));
    let mut kinds = definition.spec.as_ref().map_or_else(|_| Interests::default(), of);
    if let Some(Ok(spec)) = latest.map(|latest| latest.spec.as_ref()) {
        kinds.extend(of(spec));
    }
    context.graphs.remember(definition.name(), kinds);
}

fn count(context: &Context, result: Resolution) {
    context.metrics.resolved.get_or_create(&Resolved { result }).inc();
}
