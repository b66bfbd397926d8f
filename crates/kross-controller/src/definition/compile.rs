//! Compiles a spec into a graph, with the current schemas of the hub and of the other clusters that it names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kross_api::{ResolvedCluster, ResolvedCredentials, ResourceGraphDefinitionSpec, SecretAddress};
use kross_cluster::{Selection, Task, catch_blocking};
use kross_diagnostics::{Code, Diagnostic, Diagnostics, Severity, render};
use kross_graph::{Graph, compile as compile_graph};
use kross_schema::{GroupVersionKind, SchemaResolver};
use kross_value::Text;

use super::cluster_checks::{self, ClusterChecks};
use super::error::DefinitionError;
use crate::context::Context;
use crate::graphs::Revision;
use crate::hub_schemas::HubSchemas;
use crate::openapi::SchemaError;
use crate::preflight::ClusterSchemas;
use crate::selector;

/// The longest message of a condition. Longer ones are summarized.
const MAX_MESSAGE: usize = 4096;

/// A graph, with the fingerprints of the schemas that it was compiled with.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) graph: Arc<Graph>,
    /// Of the hub's schemas.
    pub(super) fingerprint: Text,
    /// Which objects of its kind are instances.
    pub(super) selection: Selection,
    /// The spec that it was compiled from.
    pub(super) spec: Arc<ResourceGraphDefinitionSpec>,
    /// The fingerprint of the schemas of other clusters.
    pub(super) clusters: Text,
    /// Whether the schemas of a cluster are unknown: then the CRD is not updated.
    pub(super) provisional: bool,
    /// Why the spec does not fit the schemas of other clusters; the graph is then compiled without these.
    pub(super) mismatch: Option<Text>,
    /// What does not fit the hub's schemas in clusters that depend on the instance.
    pub(super) warnings: Option<Arc<Diagnostics>>,
}

impl Compiled {
    /// The revision of this number.
    pub(super) fn revision(self, number: i64) -> Revision {
        let Self { graph, fingerprint, selection, spec, clusters, provisional, mismatch, warnings } = self;
        Revision { number, fingerprint, graph, selection, spec, clusters, provisional, mismatch, warnings }
    }
}

impl From<Revision> for Compiled {
    fn from(revision: Revision) -> Self {
        let Revision {
            number: _,
            fingerprint,
            graph,
            selection,
            spec,
            clusters,
            provisional,
            mismatch,
            warnings,
        } = revision;
        Self { graph, fingerprint, selection, spec, clusters, provisional, mismatch, warnings }
    }
}

/// The schemas of all clusters of a definition.
#[derive(Debug)]
pub(crate) struct Resolvers {
    pub(crate) local: Arc<HubSchemas>,
    /// Those of the clusters that are known without an instance.
    pub(crate) fixed: HashMap<SecretAddress, Arc<ClusterSchemas>>,
    /// Those of the clusters that an instance resolved, by the index of the resource.
    pub(crate) resolved: HashMap<usize, Arc<ClusterSchemas>>,
}

impl kross_graph::Resolvers for Resolvers {
    fn local(&self) -> &dyn SchemaResolver {
        &*self.local
    }

    fn remote(&self, cluster: &ResolvedCluster) -> Option<&dyn SchemaResolver> {
        let ResolvedCredentials::Secret(secret) = &cluster.credentials else { return None };
        self.fixed.get(secret).map(|schemas| &**schemas as &dyn SchemaResolver)
    }

    fn resolved(&self, resource: usize) -> Option<&dyn SchemaResolver> {
        self.resolved.get(&resource).map(|schemas| &**schemas as &dyn SchemaResolver)
    }
}

/// What does not fit the hub's schemas in clusters that depend on the instance. These are warnings: a cluster may have other
/// schemas, and is checked for each instance.
pub(crate) fn deferred_warnings(
    definition: kross_graph::Definition<'_>,
    resolvers: &Resolvers,
    options: &kross_graph::Options,
    known: &Diagnostics,
) -> Diagnostics {
    let found = kross_graph::check_deferred(definition, resolvers, options, known);
    let errors = found.into_iter().filter(|found| found.severity == Severity::Error);
    let mut warnings = Diagnostics::new();
    warnings.extend(errors.map(|found| Diagnostic { severity: Severity::Warning, ..found }));
    warnings
}

/// Compiles a spec with the schemas of all its clusters whose preflight is complete. If it does not fit these schemas, it is
/// compiled without them, and the result has the mismatch.
///
/// # Errors
/// As [`compile`].
pub(super) async fn compile_for(
    context: &Context,
    name: &str,
    spec: &ResourceGraphDefinitionSpec,
    kinds: &[GroupVersionKind],
    clusters: Option<&ClusterChecks>,
) -> Result<Compiled, CompileError> {
    let Some(clusters) = clusters else {
        let compiled = compile(context, name, spec, kinds, HashMap::new()).await?;
        return Ok(Compiled { provisional: cluster_checks::has_references(context, spec), ..compiled });
    };
    let schemas = clusters.schemas();
    let compiled = compile(context, name, spec, kinds, schemas.clone()).await;
    let compiled = match compiled {
        Err(error) if error.is_invalid() && !schemas.is_empty() => {
            let plain = compile(context, name, spec, kinds, HashMap::new()).await?;
            let message = mismatch(context, name, spec, kinds, clusters).await;
            let message = message.unwrap_or_else(|| DefinitionError::from(error).to_string());
            Compiled { mismatch: Some(message.into()), provisional: true, ..plain }
        }
        compiled => Compiled { provisional: !clusters.is_complete(), ..compiled? },
    };
    Ok(Compiled { clusters: clusters.fingerprint(), ..compiled })
}

/// Why a spec has no graph.
#[derive(Debug)]
pub(super) enum CompileError {
    /// It has mistakes.
    Mistakes(Diagnostics),
    /// It is invalid for another reason.
    Invalid(String),
    /// The schemas that it needs cannot be fetched now.
    Schemas(SchemaError),
}

impl CompileError {
    fn is_invalid(&self) -> bool {
        matches!(self, Self::Mistakes(_) | Self::Invalid(_))
    }
}

impl From<SchemaError> for CompileError {
    fn from(error: SchemaError) -> Self {
        Self::Schemas(error)
    }
}

impl From<CompileError> for DefinitionError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Mistakes(diagnostics) => Self::Invalid {
                message: render::condition(&diagnostics, MAX_MESSAGE),
                unknown_kinds: diagnostics.iter().any(|diagnostic| diagnostic.code == Code::UnknownKind),
            },
            CompileError::Invalid(message) => Self::Invalid { message, unknown_kinds: false },
            CompileError::Schemas(error) => Self::Schemas(error),
        }
    }
}

/// Why a spec that is no definition's has no graph.
#[derive(Debug)]
pub(crate) enum NotCompiled {
    /// It is invalid: all mistakes.
    Invalid(String),
    /// The schemas that it needs cannot be fetched now.
    Later(String),
}

/// Compiles a spec that is no definition's: the graph of a single instance. The schemas of these kinds of the hub are fetched
/// first.
///
/// # Errors
/// The spec is invalid, or schemas cannot be fetched.
pub(crate) async fn compile_single(
    context: &Context,
    name: &str,
    spec: &ResourceGraphDefinitionSpec,
    kinds: &[GroupVersionKind],
    number: i64,
) -> Result<Revision, NotCompiled> {
    match compile(context, name, spec, kinds, HashMap::new()).await {
        Ok(compiled) => Ok(compiled.revision(number)),
        Err(error) => Err(match DefinitionError::from(error) {
            DefinitionError::Invalid { message, .. } => NotCompiled::Invalid(message),
            error => NotCompiled::Later(error.to_string()),
        }),
    }
}

/// Why a spec does not fit its clusters, one by one.
async fn mismatch(
    context: &Context,
    name: &str,
    spec: &ResourceGraphDefinitionSpec,
    kinds: &[GroupVersionKind],
    clusters: &ClusterChecks,
) -> Option<String> {
    let schemas = clusters.schemas();
    let mut found = Vec::new();
    for cluster in &clusters.clusters {
        let alone = schemas.get(&cluster.secret).map(|schemas| (cluster.secret.clone(), Arc::clone(schemas)));
        let compiled = compile(context, name, spec, kinds, alone.into_iter().collect()).await;
        if let Err(error) = compiled
            && error.is_invalid()
        {
            found.push(format!("cluster `{}`: {}", cluster.display, DefinitionError::from(error)));
        }
    }
    (!found.is_empty()).then(|| found.join("; "))
}

/// Compiles a spec, after it has fetched the schemas of the kinds that the spec names.
///
/// # Errors
/// The spec is invalid, or schemas cannot be fetched.
async fn compile(
    context: &Context,
    name: &str,
    spec: &ResourceGraphDefinitionSpec,
    kinds: &[GroupVersionKind],
    remotes: HashMap<SecretAddress, Arc<ClusterSchemas>>,
) -> Result<Compiled, CompileError> {
    let selection = selector::instances(spec).map_err(CompileError::Invalid)?;
    context.schemas.prepare(kinds).await?;
    let fingerprint = context.schemas.fingerprint(kinds);
    let started = Instant::now();
    let (name, spec) = (name.to_owned(), Arc::new(spec.clone()));
    let kept = Arc::clone(&spec);
    let options = context.settings.compile.clone();
    let resolvers =
        Resolvers { local: Arc::clone(&context.schemas), fixed: remotes, resolved: HashMap::new() };
    // Compiling a large graph would block the other tasks of this thread.
    let compiled = catch_blocking(Task::Compile, move || {
        let definition = kross_graph::Definition { name: &name, spec: &spec, document: None };
        let compiled = compile_graph(definition, &resolvers, &options);
        let known = compiled.as_ref().ok().map(|graph| &graph.warnings);
        let warnings = known.map(|known| deferred_warnings(definition, &resolvers, &options, known));
        (compiled, warnings.unwrap_or_default())
    })
    .await;
    let (compiled, warnings) = compiled
        .map_err(|panicked| CompileError::Invalid(format!("cannot compile the graph: {panicked}")))?;
    context.metrics.definitions.built(started.elapsed(), compiled.is_ok());
    Ok(Compiled {
        graph: Arc::new(compiled.map_err(CompileError::Mistakes)?),
        fingerprint,
        selection,
        spec: kept,
        clusters: "".into(),
        provisional: false,
        mismatch: None,
        warnings: (!warnings.is_empty()).then(|| Arc::new(warnings)),
    })
}

impl Compiled {
    /// The warnings about clusters that depend on the instance, as the end of a message of a condition.
    pub(super) fn deferred_message(&self) -> Option<String> {
        self.warnings.as_ref().map(|warnings| render::condition(warnings, MAX_MESSAGE))
    }
}
