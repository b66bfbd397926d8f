//! The kind of the instances: generated from SimpleSchema, or one that exists already.

use kross_api::{InstanceRef, Scope};
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_schema::openapi::Schema;
use kross_schema::{GroupVersionKind, SchemaView, simple};
use kross_value::Value;

use super::Compiler;
use crate::graph::InstanceKind;

/// What is known of the instances' kind.
pub(super) struct Instance {
    pub(super) kind: InstanceKind,
    /// The type of the variable `schema`.
    pub(super) schema_type: Type,
    /// The schema of `spec`, for the CRD.
    pub(super) spec: Schema,
}

impl Instance {
    pub(super) fn scope(&self) -> Scope {
        if self.kind.namespaced { Scope::Namespaced } else { Scope::Cluster }
    }
}

impl Compiler<'_> {
    pub(super) fn instance(&mut self) -> Instance {
        let path = Path::root().key("spec").key("schema");
        match &self.spec.schema.external_ref {
            Some(existing) => self.existing_kind(existing, &path.key("externalRef")),
            None => self.new_kind(&path),
        }
    }

    fn new_kind(&mut self, path: &Path) -> Instance {
        let schema = &self.spec.schema;
        if !is_kind(&schema.kind) {
            let message = format!("`{}` is not a valid kind", schema.kind);
            let problem = Problem::new(Code::InvalidKind, Place::value(&path.key("kind")), message);
            self.report(
                problem
                    .help("start with a capital letter, then use letters and digits, for example `WebApp`"),
            );
        }
        if !is_version(&schema.api_version) {
            let message = format!("`{}` is not a valid API version", schema.api_version);
            let problem =
                Problem::new(Code::InvalidSchemaVersion, Place::value(&path.key("apiVersion")), message);
            self.report(match schema.api_version.split_once('/') {
                Some((group, version)) if is_version(version) => problem
                    .help(format!("write `apiVersion: {version}` and `group: {group}`"))
                    .replace(version),
                _ => problem.help("write a version such as `v1`, `v1alpha1` or `v2beta1`"),
            });
        }
        let translation = simple::translate(schema.spec.as_ref(), schema.types.as_ref(), path);
        self.problems.extend(translation.problems);
        let namespaced = schema.scope() == Scope::Namespaced;
        let view = SchemaView::object(&schema.kind, namespaced, [("spec", translation.schema.clone())]);
        let kind = InstanceKind {
            group: schema.group().into(),
            version: schema.api_version.as_str().into(),
            kind: schema.kind.as_str().into(),
            plural: kross_api::plural(&schema.kind).into(),
            namespaced,
            external: false,
        };
        Instance { kind, schema_type: view.cel_type(), spec: translation.schema }
    }

    /// An existing kind as the instance kind. Expressions may read its status as well.
    fn existing_kind(&mut self, existing: &InstanceRef, path: &Path) -> Instance {
        if self.spec.schema.status.is_some()
            && let Some(schema) = path.parent()
        {
            let message =
                format!("`status` has no effect: another controller owns the status of `{}`", existing.kind);
            let place = Place::key(&schema.key("status"));
            self.report(Problem::new(Code::StatusOfExistingKind, place, message).help("remove `status`"));
        }
        let gvk = GroupVersionKind::new(&existing.api_version, &existing.kind);
        let resolved = self.resolvers.local().resolve(&gvk);
        if resolved.is_none() {
            let problem = self.unknown_kind(self.resolvers.local(), &gvk, &Place::value(&path.key("kind")));
            self.report(problem);
        }
        let kind = InstanceKind {
            group: gvk.group,
            version: gvk.version,
            plural: resolved
                .as_ref()
                .map_or_else(|| kross_api::plural(&gvk.kind).into(), |resolved| resolved.plural.clone()),
            kind: gvk.kind,
            namespaced: resolved.as_ref().is_none_or(|resolved| resolved.namespaced),
            external: true,
        };
        let schema_type = resolved.map_or(Type::Dyn, |resolved| resolved.schema.cel_type());
        Instance { kind, schema_type, spec: Schema::anything() }
    }

    /// The CustomResourceDefinition of a kind that the definition declares.
    pub(super) fn crd(&self, instance: &Instance, status: &Schema) -> Option<Value> {
        (!instance.kind.external)
            .then(|| kross_schema::crd::synthesize(&self.spec.schema, &instance.spec, status))
    }
}

/// `^[A-Z][a-zA-Z0-9]{0,62}$`
fn is_kind(kind: &str) -> bool {
    kind.len() <= 63
        && kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.chars().all(|character| character.is_ascii_alphanumeric())
}

/// `^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$`
fn is_version(version: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = version.strip_prefix('v') else { return false };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_kubernetes_versions() {
        for version in ["v1", "v1alpha1", "v12beta34"] {
            assert!(is_version(version), "{version}");
        }
        for version in
            ["", "1", "v", "v1alpha", "valpha1", "v1gamma1", "v1.0", "example.com/v1", "v1alpha1beta1"]
        {
            assert!(!is_version(version), "{version}");
        }
    }

    #[test]
    fn kinds_begin_with_a_capital_letter() {
        assert!(is_kind("WebApp2"));
        for kind in ["", "webApp", "Web-App", "2Web", &"A".repeat(64)] {
            assert!(!is_kind(kind), "{kind}");
        }
    }
}
