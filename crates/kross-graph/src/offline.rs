//! The schemas for work without a cluster: built-in kinds, CustomResourceDefinitions, and the kinds that definitions generate.

use std::sync::Arc;

use kross_api::yaml::Document;
use kross_diagnostics::{Code, Diagnostics, Path, Place, Problem};
use kross_schema::openapi::Schema;
use kross_schema::{
    Bundle, CrdSchemas, FieldView, GroupVersionKind, Overlay, SchemaResolver, check_complete, crd, simple,
};
use kross_value::{Text, Value};

use crate::compile::Resolvers;
use crate::graph::{Graph, KnownKind};
use crate::load::load;

/// The schemas of every cluster. Offline, one set serves for all of them.
#[derive(Debug)]
pub struct OfflineSchemas {
    known: Overlay,
    /// The Kubernetes version of the built-in kinds.
    version: Text,
}

impl OfflineSchemas {
    /// The kinds of CustomResourceDefinitions, and the built-in ones.
    #[must_use]
    pub fn new(custom: CrdSchemas, bundle: Arc<Bundle>) -> Self {
        Self::layered([Arc::new(custom)], bundle)
    }

    /// The kinds of several collections, of which the first one that has a kind takes precedence, and the built-in ones.
    #[must_use]
    pub fn layered(custom: impl IntoIterator<Item = Arc<CrdSchemas>>, bundle: Arc<Bundle>) -> Self {
        let version = Text::from(bundle.minor());
        let layers = custom.into_iter().map(|layer| layer as Arc<dyn SchemaResolver>);
        Self::from_resolvers(layers.chain([bundle as Arc<dyn SchemaResolver>]).collect(), version)
    }

    /// The kinds of any resolvers, of which the first one that has a kind takes precedence. The built-in ones are those of this
    /// Kubernetes version.
    #[must_use]
    pub fn from_resolvers(resolvers: Vec<Arc<dyn SchemaResolver>>, version: Text) -> Self {
        Self { known: Overlay::new(resolvers), version }
    }

    /// Fills in the kinds that the compiler could not resolve, because their cluster is known only at run time.
    #[must_use]
    pub fn with_known_kinds(&self, mut graph: Graph) -> Graph {
        for kind in graph.nodes.iter_mut().map(|node| &mut node.kind).filter(|kind| kind.known.is_none()) {
            let resolved = self.known.resolve(&GroupVersionKind::new(&kind.api_version(), &kind.kind));
            kind.known = resolved.map(|resolved| KnownKind {
                plural: resolved.plural.clone(),
                namespaced: resolved.namespaced,
            });
        }
        graph
    }
}

impl Resolvers for OfflineSchemas {
    fn local(&self) -> &dyn SchemaResolver {
        &self.known
    }

    fn assumption(&self) -> String {
        format!("the built-in kinds of Kubernetes {} and the given CustomResourceDefinitions", self.version)
    }

    fn missing_kind_help(&self) -> &'static str {
        "pass its CustomResourceDefinition with `--crds`"
    }
}

/// The CustomResourceDefinition that a definition generates. Its status is not known before the definition is compiled, so any is
/// allowed.
#[must_use]
pub fn generated_crd(document: &Document) -> Option<Value> {
    let definition = load(document, &mut Diagnostics::new())?;
    let schema = &definition.spec.schema;
    if schema.external_ref.is_some() {
        return None;
    }
    let at = Path::root().key("spec").key("schema");
    let spec = simple::translate(schema.spec.as_ref(), schema.types.as_ref(), &at).schema;
    Some(crd::synthesize(schema, &spec, &Schema::free_object()))
}

/// Whether a document is a CustomResourceDefinition.
#[must_use]
pub fn is_crd(document: &Document) -> bool {
    document.value().get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition")
}

/// The reasons for which an API server would reject an instance of a kind.
#[must_use]
pub fn check_instance(
    instance: &Value,
    expected: &GroupVersionKind,
    resolver: &dyn SchemaResolver,
) -> Vec<Problem> {
    let text = |field: &str| instance.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = GroupVersionKind::new(text("apiVersion"), text("kind"));
    if (&kind.group, &kind.version) != (&expected.group, &expected.version) {
        let place = Place::value(&Path::root().key("apiVersion"));
        let version = expected.api_version();
        let message =
            format!("the apiVersion of `{}` is `{version}`, found `{}`", expected.kind, text("apiVersion"));
        let problem = Problem::new(Code::UnknownApiVersion, place, message);
        return vec![problem.help(format!("use `apiVersion: {version}`")).replace(version)];
    }
    let mut problems = Vec::new();
    let spec = resolver.resolve(&kind).map(|resolved| resolved.schema.field("spec"));
    if let (Some(FieldView::Known(spec)), Some(value)) = (spec, instance.get("spec")) {
        check_complete(value, &spec, &Path::root().key("spec"), Code::MissingInstanceField, &mut problems);
    }
    problems
}
