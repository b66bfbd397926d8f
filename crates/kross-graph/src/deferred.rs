//! Checks the resources whose cluster depends on the instance against the schemas that the cluster is assumed to have. The
//! types are used for diagnostics alone: the graph stays without them, and with it the status schema of the generated API.

use kross_api::{ResolvedCluster, ResourceGraphDefinitionSpec, Scope, lower_placement};
use kross_diagnostics::{Diagnostic, Diagnostics, Severity};
use kross_schema::SchemaResolver;

use crate::compile::{Definition, Options, Resolvers, compile};

/// What does not fit the local schemas, and was not found without them. Each diagnostic names the assumption in a note.
///
/// `known` are the diagnostics of [`compile`].
#[must_use]
pub fn check_deferred(
    definition: Definition<'_>,
    resolvers: &dyn Resolvers,
    options: &Options,
    known: &Diagnostics,
) -> Diagnostics {
    let mut deferred = Diagnostics::new();
    if !has_deferred(definition.spec, options) {
        return deferred;
    }
    let found = match compile(definition, &Assuming(resolvers), options) {
        Ok(graph) => graph.warnings,
        Err(found) => found,
    };
    let note =
        format!("a cluster that depends on the instance is assumed to have {}", resolvers.assumption());
    let is_new = |found: &Diagnostic| !known.iter().any(|known| is_same(known, found));
    deferred.extend(found.into_iter().filter(is_new).map(|found| found.note(note.clone())));
    deferred
}

/// Whether the clusters of any resources are unknown without an instance.
fn has_deferred(spec: &ResourceGraphDefinitionSpec, options: &Options) -> bool {
    // Invalid references are reported when the definition is compiled.
    let placement = lower_placement(spec, options.placement, &mut Diagnostics::new());
    // The scope of an existing kind is in its schema; instances with a namespace have more references that depend on them.
    placement.references().any(|(_, reference)| !reference.is_static(Scope::Namespaced))
}

/// Whether two diagnostics are about the same mistake. With the types of a cluster its message may be another one.
fn is_same(known: &Diagnostic, found: &Diagnostic) -> bool {
    let span = |diagnostic: &Diagnostic| diagnostic.primary.as_ref().map(|label| label.span);
    known.path == found.path
        && span(known) == span(found)
        && (known.code == found.code || known.severity == Severity::Error)
}

/// The resolvers of a definition, and the local schemas for clusters that depend on the instance.
pub(crate) struct Assuming<'a>(pub(crate) &'a dyn Resolvers);

impl Resolvers for Assuming<'_> {
    fn local(&self) -> &dyn SchemaResolver {
        self.0.local()
    }

    fn remote(&self, cluster: &ResolvedCluster) -> Option<&dyn SchemaResolver> {
        self.0.remote(cluster)
    }

    fn resolved(&self, resource: usize) -> Option<&dyn SchemaResolver> {
        self.0.resolved(resource)
    }

    fn assumed(&self) -> Option<&dyn SchemaResolver> {
        Some(self.0.local())
    }

    fn missing_kind_help(&self) -> &'static str {
        self.0.missing_kind_help()
    }
}
