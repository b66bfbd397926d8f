//! The first pass over the resources: id, shape, kind and schema of each. That is everything that is needed to check the
//! expressions of other resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use kross_api::{ExternalRef, Resource};
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_schema::resolver::{Nearest, nearest};
use kross_schema::{CrdSchemas, GroupVersionKind, ResolvedKind, SchemaResolver, is_built_in_group};
use kross_value::Value;

use super::{Compiler, ReportAs};
use crate::graph::{KnownKind, ObjectKind};
use crate::names::{self, NameError};

/// A resource before its expressions are compiled.
pub(super) struct Draft<'a> {
    pub(super) index: usize,
    pub(super) resource: &'a Resource,
    pub(super) path: Path,
    pub(super) kind: ObjectKind,
    /// The schema; none if it depends on the instance, or if an error was reported.
    pub(super) resolved: Option<Arc<ResolvedKind>>,
    /// The type of one object.
    pub(super) object_type: Type,
    /// The type that its objects are read as. It is known of kinds of Kubernetes itself even where the schemas of the cluster are
    /// not: expressions read the same values then as in a cluster that is known.
    pub(super) read_as: Type,
}

impl Draft<'_> {
    pub(super) fn id(&self) -> &str {
        &self.resource.id
    }

    /// Whether expressions see the resource as a list.
    pub(super) fn is_list(&self) -> bool {
        !self.resource.for_each.is_empty() || self.resource.external_ref.as_ref().is_some_and(is_collection)
    }

    /// The type of the resource's variable.
    pub(super) fn node_type(&self) -> Type {
        if self.is_list() { Type::list(self.object_type.clone()) } else { self.object_type.clone() }
    }
}

/// Whether an external reference means all objects that match, and not the one with a name.
pub(super) fn is_collection(external: &ExternalRef) -> bool {
    external.metadata.as_ref().is_none_or(|metadata| metadata.name.is_none())
}

impl<'a> Compiler<'a> {
    pub(super) fn drafts(&mut self) -> Vec<Draft<'a>> {
        let mut seen: BTreeMap<&'a str, Path> = BTreeMap::new();
        let mut drafts = Vec::new();
        let resources: &'a [Resource] = &self.spec.resources;
        for (index, resource) in resources.iter().enumerate() {
            let path = Path::root().key("spec").key("resources").index(index);
            self.check_id(resource, &path, &mut seen);
            drafts.push(self.draft(index, resource, path));
        }
        drafts
    }

    fn check_id(&mut self, resource: &'a Resource, path: &Path, seen: &mut BTreeMap<&'a str, Path>) {
        let place = Place::value(&path.key("id"));
        if let Err(reason) = names::validate(&resource.id) {
            self.report(invalid_name(reason, &resource.id, "id", place.clone()));
        }
        if let Some(first) = seen.get(resource.id.as_str()) {
            let problem =
                Problem::new(Code::DuplicateId, place, format!("the id `{}` is used twice", resource.id));
            let problem = problem.also(Place::value(&first.key("id")), "first used here");
            self.report(problem.help("give each resource a unique id"));
        } else {
            seen.insert(&resource.id, path.clone());
        }
    }

    fn draft(&mut self, index: usize, resource: &'a Resource, path: Path) -> Draft<'a> {
        let Some(gvk) = self.kind_of(resource, &path) else {
            // Nothing is known of the resource, so expressions that use it are not checked.
            let kind = ObjectKind { group: "".into(), version: "".into(), kind: "".into(), known: None };
            return Draft {
                index,
                resource,
                path,
                kind,
                resolved: None,
                object_type: Type::Dyn,
                read_as: Type::Dyn,
            };
        };
        let resolved = self.resolve_kind(index, &gvk, &path, resource);
        let object_type = resolved.as_ref().map_or(Type::Dyn, |resolved| resolved.schema.cel_type());
        let read_as = match &resolved {
            Some(_) => object_type.clone(),
            None => self.built_in_type(&gvk),
        };
        let known = resolved
            .as_ref()
            .map(|resolved| KnownKind { plural: resolved.plural.clone(), namespaced: resolved.namespaced });
        let kind = ObjectKind { group: gvk.group, version: gvk.version, kind: gvk.kind, known };
        Draft { index, resource, path, kind, resolved, object_type, read_as }
    }

    /// The type of a kind of Kubernetes itself, which all clusters agree on.
    fn built_in_type(&self, gvk: &GroupVersionKind) -> Type {
        if !is_built_in_group(&gvk.group) {
            return Type::Dyn;
        }
        self.resolvers.local().resolve(gvk).map_or(Type::Dyn, |resolved| resolved.schema.cel_type())
    }

    fn kind_of(&mut self, resource: &Resource, path: &Path) -> Option<GroupVersionKind> {
        let (api_version, kind) = match (&resource.template, &resource.external_ref) {
            (Some(template), None) => self.template_kind(template, &path.key("template"))?,
            (None, Some(external)) => (external.api_version.clone(), external_kind(external)),
            (template, _) => {
                let found = if template.is_some() {
                    "both `template` and `externalRef`"
                } else {
                    "neither `template` nor `externalRef`"
                };
                let message = format!("`{}` has {found}", resource.id);
                let problem = Problem::new(Code::TemplateOrExternalRef, Place::value(path), message);
                self.report(problem.help("exactly one of template or externalRef must be provided"));
                return None;
            }
        };
        Some(GroupVersionKind::new(&api_version, &kind))
    }

    /// `apiVersion` and `kind` of a template, which must be present and literal.
    fn template_kind(&mut self, template: &Value, path: &Path) -> Option<(String, String)> {
        if template.get("metadata").is_none_or(|metadata| metadata.as_object().is_none()) {
            self.report(missing_field("metadata", path, "add `metadata` with a `name`"));
        }
        let api_version =
            self.literal_field(template, "apiVersion", path, "add it, for example `apiVersion: v1`");
        let kind = self.literal_field(template, "kind", path, "add it, for example `kind: ConfigMap`");
        Some((api_version?, kind?))
    }

    fn literal_field(&mut self, template: &Value, field: &str, path: &Path, help: &str) -> Option<String> {
        match template.get(field).and_then(Value::as_str) {
            Some(text) if text.contains("${") => {
                let message = format!("`{field}` cannot be an expression");
                let problem = Problem::new(Code::ExpressionInKind, Place::value(&path.key(field)), message);
                self.report(problem.help("write one resource per kind and select one with `includeWhen`"));
                None
            }
            Some(text) if !text.is_empty() => Some(text.to_owned()),
            _ => {
                self.report(missing_field(field, path, help));
                None
            }
        }
    }

    /// The schema of a kind, from the cluster that the resource is in.
    fn resolve_kind(
        &mut self,
        index: usize,
        gvk: &GroupVersionKind,
        path: &Path,
        resource: &Resource,
    ) -> Option<Arc<ResolvedKind>> {
        let mut is_assumed = false;
        let resolver = match self.placement.place(index).reference() {
            None => self.resolvers.local(),
            Some(reference) => match reference.static_cluster(self.scope) {
                Some(cluster) => self.resolvers.remote(&cluster)?,
                None => match self.resolvers.resolved(index) {
                    Some(resolved) => resolved,
                    None => {
                        is_assumed = true;
                        self.resolvers.assumed()?
                    }
                },
            },
        };
        if let Some(resolved) = resolver.resolve(gvk).or_else(|| self.kind_from_graph(index, gvk)) {
            return Some(resolved);
        }
        let source = if resource.template.is_some() { "template" } else { "externalRef" };
        let problem = self.unknown_kind(resolver, gvk, &Place::value(&path.key(source).key("kind")));
        // The cluster may have custom kinds that are unknown here.
        let default =
            if is_assumed && !is_built_in_group(&gvk.group) { ReportAs::Warning } else { ReportAs::Error };
        if let Some(severity) = self.options.unknown_kinds.unwrap_or(default).severity() {
            self.report(problem.severity(severity));
        }
        None
    }

    /// The schema of a kind whose CustomResourceDefinition the graph itself applies to the same remote cluster.
    fn kind_from_graph(&self, index: usize, gvk: &GroupVersionKind) -> Option<Arc<ResolvedKind>> {
        let reference = self.placement.place(index).reference()?;
        let crds = CrdSchemas::new();
        for (other, resource) in self.spec.resources.iter().enumerate() {
            let Some(template) = &resource.template else { continue };
            let text = |path: &[&str]| template.at(path).and_then(Value::as_str).unwrap_or_default();
            let defines = text(&["kind"]) == "CustomResourceDefinition"
                && text(&["apiVersion"]).starts_with("apiextensions.k8s.io/")
                && text(&["spec", "group"]) == &*gvk.group
                && text(&["spec", "names", "kind"]) == &*gvk.kind;
            let same_cluster =
                || self.placement.place(other).reference().is_some_and(|other| other.is_same(reference));
            if defines && same_cluster() {
                // An invalid CRD is reported at its own template.
                let _ = crds.insert(template);
            }
        }
        crds.resolve(gvk)
    }

    /// The diagnostic for an unknown kind, with the most similar known one.
    pub(super) fn unknown_kind(
        &self,
        resolver: &dyn SchemaResolver,
        gvk: &GroupVersionKind,
        place: &Place,
    ) -> Problem {
        let message = format!("unknown kind `{}` in `{}`", gvk.kind, gvk.api_version());
        let problem = Problem::new(Code::UnknownKind, place.clone(), message);
        match nearest(resolver, gvk) {
            Nearest::OtherApiVersions(versions) => other_versions(gvk, &versions, place),
            Nearest::OtherKind(meant) if meant.api_version() == gvk.api_version() => {
                problem.did_you_mean(Some(&meant.kind))
            }
            Nearest::OtherKind(meant) => {
                problem.help(format!("did you mean `{}` in `{}`?", meant.kind, meant.api_version()))
            }
            Nearest::Nothing => problem.help(self.resolvers.missing_kind_help()),
        }
    }
}

/// The diagnostic for a kind that exists, but not in this group or version.
fn other_versions(gvk: &GroupVersionKind, versions: &[String], place: &Place) -> Problem {
    let place =
        place.path.parent().map_or_else(|| place.clone(), |object| Place::value(&object.key("apiVersion")));
    let message = format!("`{}` does not exist in `{}`", gvk.kind, gvk.api_version());
    let problem = Problem::new(Code::UnknownApiVersion, place, message);
    match versions {
        [only] => problem.help(format!("use `{only}`")).replace(only),
        several => {
            let several: Vec<String> = several.iter().map(|version| format!("`{version}`")).collect();
            problem.help(format!("use one of {}", several.join(", ")))
        }
    }
}

/// The kind of an external reference; `DeploymentList` with a selector means Deployments.
fn external_kind(external: &ExternalRef) -> String {
    let kind = external.kind.as_str();
    match kind.strip_suffix("List") {
        Some(item) if !item.is_empty() && is_collection(external) => item.to_owned(),
        _ => kind.to_owned(),
    }
}

fn missing_field(field: &str, path: &Path, help: &str) -> Problem {
    let message = format!("the template has no `{field}`");
    Problem::new(Code::MissingTemplateField, Place::value(path), message).help(help)
}

/// The diagnostic for a name that cannot be an id or a variable.
pub(super) fn invalid_name(reason: NameError, name: &str, what: &str, place: Place) -> Problem {
    let (code, message) = match reason {
        NameError::NotCamelCase => {
            (Code::InvalidName, format!("the {what} `{name}` is not in lower camel case"))
        }
        NameError::Reserved => (Code::ReservedName, format!("the {what} `{name}` is reserved")),
        NameError::Keyword => (Code::ReservedName, format!("the {what} `{name}` is a CEL keyword")),
    };
    let fixed = names::fix(name);
    Problem::new(code, place, message).help(format!("use another name, for example `{fixed}`")).replace(fixed)
}
