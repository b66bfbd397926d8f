//! Turns a YAML document into a definition: validates it against the CRD's schema as the API server would, reports every
//! error, then deserializes it.

mod partial;
mod rules;

use std::sync::LazyLock;

use kross_api::ResourceGraphDefinition;
use kross_api::yaml::Document;
use kross_diagnostics::{
    Code, Diagnostic, Diagnostics, Path, PathSegment, Place, Problem, Severity, suggest,
};
use kross_schema::{CrdSchemas, GroupVersionKind, SchemaResolver, SchemaView, check_complete};
use kross_value::Value;

use crate::compile::{Definition, Options, Resolvers, compile};
use crate::deferred::check_deferred;
use crate::graph::Graph;
use crate::names;
pub use partial::load_partially;
use rules::Rules;

/// API version of definitions.
pub const API_VERSION: &str = "kro.run/v1alpha1";
/// Kind of definitions.
pub const KIND: &str = "ResourceGraphDefinition";

/// Whether a document is a definition, in any version.
#[must_use]
pub fn is_definition(document: &Document) -> bool {
    document.value().get("kind").and_then(Value::as_str) == Some(KIND)
}

/// The error for a document that is probably meant to be a definition: its kind is misspelled or missing, or it has another
/// kind and the fields of a definition.
#[must_use]
pub fn near_miss(document: &Document) -> Option<Diagnostic> {
    let value = document.value();
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let has = |field: &str| value.at(&["spec", field]).is_some();
    let is_similar = suggest(kind, [KIND]).is_some();
    if kind == KIND || !(is_similar || has("schema") && has("resources")) {
        return None;
    }
    let wanted = KIND;
    let problem = if kind.is_empty() {
        let message = "the document has the fields of a definition, but no `kind`";
        let problem = Problem::new(Code::NoDefinition, Place::value(&Path::root()), message);
        problem.help(format!("add `kind: {wanted}`"))
    } else {
        let place = Place::value(&Path::root().key("kind"));
        let problem = Problem::new(Code::NoDefinition, place, format!("unknown kind `{kind}`"));
        problem.did_you_mean(Some(wanted))
    };
    Some(problem.diagnostic(Some(document)))
}

/// Reads a definition. None if it cannot be deserialized; the errors are then in `diagnostics`.
pub fn load(document: &Document, diagnostics: &mut Diagnostics) -> Option<ResourceGraphDefinition> {
    let value = document.value();
    let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or("");
    if version != API_VERSION {
        let place = Place::value(&Path::root().key("apiVersion"));
        let problem = Problem::new(
            Code::NoDefinition,
            place,
            format!("`{KIND}` must have `apiVersion: {API_VERSION}`, found `{version}`"),
        );
        diagnostics.push(
            problem
                .help(format!("write `apiVersion: {API_VERSION}`"))
                .replace(API_VERSION)
                .diagnostic(Some(document)),
        );
        return None;
    }
    let problems = shape_problems(value);
    let is_valid = problems.is_empty();
    diagnostics.extend(problems.iter().map(|problem| problem.diagnostic(Some(document))));
    match serde_json::from_value(value.into()) {
        Ok(definition) => Some(definition),
        Err(_) if !is_valid => None,
        Err(error) => {
            let place = Place::value(&Path::root().key("spec"));
            let message = format!("cannot read the definition: {error}");
            diagnostics
                .push(Problem::new(Code::InvalidDefinitionField, place, message).diagnostic(Some(document)));
            None
        }
    }
}

/// The errors that the API server would report for the definition's schema.
fn shape_problems(value: &Value) -> Vec<Problem> {
    let Some(view) = &*DEFINITION else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    check_complete(value, view, &Path::root(), Code::InvalidDefinitionField, &mut problems);
    for problem in &mut problems {
        // The checks are those of templates; these errors are in the definition itself.
        problem.code = match problem.code {
            Code::UnknownField => Code::UnknownDefinitionField,
            _ => Code::InvalidDefinitionField,
        };
        explain(problem, value);
    }
    problems.extend(RULES.iter().flat_map(|rules| rules.check(value)));
    problems
}

/// Adds what to write instead, where the schema alone does not say it.
fn explain(problem: &mut Problem, definition: &Value) {
    let path = &problem.place.path;
    let (Some(text), Some(PathSegment::Key(field))) = (text_at(definition, path), path.segments().last())
    else {
        return;
    };
    if field == "cluster" {
        let written = format!("{{name: {text}}}");
        problem.help = Some("write the name of the kubeconfig Secret in `cluster.name`".to_owned());
        problem.replacement = (!text.contains([':', '{', '}', ',', '#'])).then_some(written);
    } else if field == "id" {
        let fixed = names::fix(text);
        problem.help = Some(format!("use another name, for example `{fixed}`"));
        problem.replacement = Some(fixed);
    }
}

/// The string at a path.
fn text_at<'v>(value: &'v Value, path: &Path) -> Option<&'v str> {
    let mut segments = path.segments().iter();
    let found = segments.try_fold(value, |value, segment| match segment {
        PathSegment::Key(key) => value.get(key),
        PathSegment::Index(at) => value.as_list()?.get(*at),
    });
    found?.as_str()
}

/// The result of validating a document.
#[derive(Debug)]
pub struct Validation {
    /// The definition, if it could be read.
    pub definition: Option<ResourceGraphDefinition>,
    /// The graph, if there is no error.
    pub graph: Option<Graph>,
    /// Every error and warning, sorted by position.
    pub diagnostics: Diagnostics,
}

/// Reads and compiles a definition.
pub fn validate(document: &Document, resolvers: &dyn Resolvers, options: &Options) -> Validation {
    let mut shape = Diagnostics::new();
    let definition = load(document, &mut shape);
    let compiled = definition.as_ref().map(|definition| {
        let name = definition.metadata.name.as_deref().unwrap_or("");
        compile(Definition { name, spec: &definition.spec, document: Some(document) }, resolvers, options)
    });
    let (graph, found) = match compiled {
        Some(Ok(graph)) => (Some(graph), Diagnostics::new()),
        Some(Err(found)) => (None, found),
        None => (None, Diagnostics::new()),
    };
    let mut diagnostics = Diagnostics::new();
    diagnostics.extend(shape.into_iter().filter(|diagnostic| !is_reported(diagnostic, &found)));
    diagnostics.extend(found);
    diagnostics.extend(graph.iter().flat_map(|graph| graph.warnings.iter().cloned()));
    if let (Some(definition), Some(most)) = (&definition, options.deferred.severity()) {
        let name = definition.metadata.name.as_deref().unwrap_or("");
        let definition = Definition { name, spec: &definition.spec, document: Some(document) };
        let found = check_deferred(definition, resolvers, options, &diagnostics);
        let relaxed = |found: Diagnostic| Diagnostic { severity: found.severity.max(most), ..found };
        diagnostics.extend(found.into_iter().map(relaxed));
    }
    let mut strict = Diagnostics::new();
    strict.extend(diagnostics.into_iter().map(|found| unclosed(found, document.value())));
    let mut diagnostics = strict;
    let graph = graph.filter(|_| !diagnostics.has_errors());
    diagnostics.sort();
    Validation { definition, graph, diagnostics }
}

/// An expression that is never closed is text in kro, and therefore only a warning in the controller. Here it is an error
/// if it begins with `schema` or with the id of a resource, as no other text does.
fn unclosed(found: Diagnostic, definition: &Value) -> Diagnostic {
    if found.code != Code::UnterminatedExpression {
        return found;
    }
    let path = found.path.as_deref().and_then(|path| path.parse::<Path>().ok());
    let text = path.and_then(|path| text_at(definition, &path)).unwrap_or_default();
    let resources = definition.at(&["spec", "resources"]).and_then(Value::as_list).into_iter().flatten();
    let ids = resources.filter_map(|resource| resource.get("id")?.as_str());
    let is_name =
        |name: &str| text.split("${").skip(1).any(|rest| rest.trim_start().split('.').next() == Some(name));
    if ids.chain(["schema"]).any(is_name) {
        return Diagnostic { severity: Severity::Error, ..found };
    }
    found
}

/// The codes with which the compiler reports rules about several fields of an object, at one of the fields.
const COMBINATIONS: [Code; 7] = [
    Code::TemplateOrExternalRef,
    Code::TwoClusterReferences,
    Code::ClusterNamedTwice,
    Code::TwoKubeconfigSecrets,
    Code::MisplacedSecretField,
    Code::TargetProtocol,
    Code::KubernetesTargetChoice,
];

/// Whether the compiler reports the same error. Its diagnostic is kept, because it knows what the field is for.
fn is_reported(shape: &Diagnostic, found: &Diagnostics) -> bool {
    found.iter().any(|diagnostic| {
        let below = || {
            let path = diagnostic.path.as_deref().and_then(|path| path.parse::<Path>().ok());
            let objects = std::iter::successors(path, Path::parent).skip(1).take(2);
            objects.map(|object| Some(object.to_string())).any(|object| object == shape.path)
        };
        diagnostic.path == shape.path || (COMBINATIONS.contains(&diagnostic.code) && below())
    })
}

/// The rules of definitions, from the CRD that ships with kross.
static RULES: LazyLock<Option<Rules>> = LazyLock::new(|| {
    let crd = kross_api::graph_crds().into_iter().find(|crd| crd.spec.names.kind == KIND)?;
    let schema = crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    Some(Rules::new(serde_json::to_value(schema).ok()?))
});

/// The CustomResourceDefinition of definitions, which ships with kross.
#[must_use]
pub fn definition_crd() -> Value {
    let crd = kross_api::graph_crds().into_iter().find(|crd| crd.spec.names.kind == KIND);
    crd.and_then(|crd| serde_json::to_value(crd).ok()).map(Value::from).unwrap_or_default()
}

/// The schema of definitions, from the CRD that ships with kross.
static DEFINITION: LazyLock<Option<SchemaView>> = LazyLock::new(|| {
    let crds = CrdSchemas::new();
    crds.insert(&definition_crd()).ok()?;
    Some(crds.resolve(&GroupVersionKind::new(API_VERSION, KIND))?.schema.clone())
});
