//! Validates a definition before it is stored: turns an object of an admission request into the mistakes that a reconcile
//! would report, and into warnings. Nothing is written, connected or started.

use std::sync::Arc;

use kross_api::annotations;
use kross_cluster::StoredObject;
use kross_diagnostics::render::{self, Cause};
use kross_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use kross_graph::Graph;
use kross_schema::compatibility::compare_crds;
use kross_schema::{GroupVersionKind, SchemaResolver};

use super::cluster_checks::{self, ClusterChecks, Verdict};
use super::compile::{CompileError, Compiled, compile_for};
use super::error::DefinitionError;
use super::object::{Definition, named_kinds};
use super::serve::DesiredCrd;
use crate::context::Context;

/// What is known of a definition before it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Why it is rejected; empty if it is allowed.
    pub causes: Vec<Cause>,
    /// What its author should know, in lines of the length that the API server passes on.
    pub warnings: Vec<String>,
}

impl Validation {
    /// It is allowed, since it could not be checked.
    pub(crate) fn unchecked(reason: &str) -> Self {
        let warning = format!("the definition was not checked: {reason}; its conditions will tell");
        Self { causes: Vec::new(), warnings: vec![warning] }
    }

    fn rejected(message: String) -> Self {
        Self { causes: vec![Cause { reason: "", field: "spec".to_owned(), message }], warnings: Vec::new() }
    }
}

/// Validates a definition that is created, or that replaces an older version of it.
pub(crate) async fn validate(
    context: &Context,
    object: StoredObject,
    old: Option<&StoredObject>,
) -> Validation {
    let definition = Definition::read(Arc::new(object));
    // Whoever removes a finalizer or sets an annotation must not be stopped by a spec that is stored already.
    let spec_value = definition.object.value().get("spec");
    if definition.is_deleting() || old.is_some_and(|old| old.value().get("spec") == spec_value) {
        return Validation::default();
    }
    let spec = match &definition.spec {
        Ok(spec) => spec,
        Err(message) => return Validation::rejected(message.clone()),
    };
    let kinds = named_kinds(spec);
    // Before the clusters, as in a reconcile.
    if let Err(error) = context.schemas.prepare(&kinds).await {
        return Validation::unchecked(&error.to_string());
    }
    let clusters = cluster_checks::known(context, spec);
    match compile_for(context, definition.name(), spec, &kinds, clusters.as_ref()).await {
        Ok(compiled) => Validation {
            causes: Vec::new(),
            warnings: warnings(context, &definition, &compiled, clusters.as_ref()),
        },
        Err(CompileError::Mistakes(found)) if may_be_resolved(context, &found, &kinds) => {
            let mut warnings =
                vec!["the definition stays inactive until the API server serves all of its kinds".to_owned()];
            warnings.extend(render::warnings(&as_warnings(found)));
            Validation { causes: Vec::new(), warnings }
        }
        Err(CompileError::Mistakes(found)) => {
            Validation { causes: render::causes(&found), warnings: render::warnings(&found) }
        }
        Err(CompileError::Invalid(message)) => Validation::rejected(message),
        Err(CompileError::Schemas(error)) => Validation::unchecked(&error.to_string()),
    }
}

/// Whether all mistakes are kinds that a CRD may still define, such as one that is applied next. A definition that names them is
/// compiled again when they appear, so it must not be rejected.
fn may_be_resolved(context: &Context, found: &Diagnostics, kinds: &[GroupVersionKind]) -> bool {
    let mut errors = found.iter().filter(|found| found.severity == Severity::Error);
    let mut unknown = kinds.iter().filter(|kind| context.schemas.resolve(kind).is_none());
    errors.all(|error| error.code == Code::UnknownKind)
        && unknown.all(|kind| context.schemas.may_appear(kind))
}

fn as_warnings(found: Diagnostics) -> Diagnostics {
    let mut warnings = Diagnostics::new();
    warnings.extend(found.into_iter().map(|found| Diagnostic { severity: Severity::Warning, ..found }));
    warnings
}

/// What the author of a definition that compiles should know.
fn warnings(
    context: &Context,
    definition: &Definition,
    compiled: &Compiled,
    clusters: Option<&ClusterChecks>,
) -> Vec<String> {
    let mut warnings = render::warnings(&compiled.graph.warnings);
    if let Some(deferred) = &compiled.warnings {
        warnings
            .push("where the cluster depends on the instance, assuming the schemas of the hub:".to_owned());
        warnings.extend(render::warnings(deferred));
    }
    let inactive = clusters.and_then(|clusters| match clusters.verdict(compiled.mismatch.as_deref()) {
        Verdict::Compatible => None,
        Verdict::Incompatible(_, message) => Some(message),
        Verdict::Pending => clusters.failure(),
    });
    warnings.extend(inactive.map(|message| format!("the definition stays inactive: {message}")));
    warnings.extend(crd_warnings(context, definition, compiled));
    warnings
}

/// What happens to the CRD that exists.
fn crd_warnings(context: &Context, definition: &Definition, compiled: &Compiled) -> Vec<String> {
    let Some(crd) = &compiled.graph.crd else { return Vec::new() };
    let Ok(wanted) = DesiredCrd::find(context, definition, crd, compiled.provisional) else {
        return Vec::new();
    };
    match wanted.decide(definition) {
        Ok(_) | Err(DefinitionError::Breaking { .. }) => {}
        Err(error) => return vec![format!("the definition stays inactive: {error}")],
    }
    let Some(existing) = &wanted.existing else { return Vec::new() };
    let report = compare_crds(existing.value(), &wanted.desired);
    if report.is_compatible() {
        return Vec::new();
    }
    let mut warnings = vec![breaking(context, definition, &compiled.graph)];
    warnings.extend(report.breaking().map(|change| format!("breaking: {change}")));
    warnings
}

fn breaking(context: &Context, definition: &Definition, graph: &Graph) -> String {
    // Only the leader serves definitions, and knows their instances.
    let served =
        context.graphs.get(definition.name()).filter(|served| served.uid == *definition.object.uid());
    let count =
        served.filter(|served| served.instances.is_complete()).map(|served| served.instances.known().len());
    let instances = match count {
        Some(1) => "1 instance".to_owned(),
        Some(count) => format!("{count} instances"),
        None => "instances".to_owned(),
    };
    let (kind, annotation) = (&graph.instance.kind, annotations::ALLOW_BREAKING_CHANGES);
    if definition.allows_breaking_changes() {
        return format!(
            "breaking change for {instances} of `{kind}`, allowed by the annotation `{annotation}`"
        );
    }
    format!(
        "breaking change for {instances} of `{kind}`: the CRD is not updated, and instances stay on their revision, until \
         the definition has the annotation `{annotation}: \"true\"`"
    )
}
