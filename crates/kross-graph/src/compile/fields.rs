//! Checks a template against its schema: unknown fields, literals of the wrong type, expressions whose type is not
//! assignable; and the rules on metadata that no schema contains.

use kross_api::Scope;
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_schema::{FieldView, SchemaView, Written, assignable, check_template, is_built_in_group};
use kross_value::{Object, Text, Value};

use super::Compiler;
use super::context::Context;
use super::draft::Draft;
use super::expressions::omit_problem;
use super::resource::{list, object};
use crate::template::{Field, Template};

/// Prefixes of the labels and annotations that record ownership. Those that an expression returns are checked after rendering.
const RESERVED_PREFIXES: [&str; 3] =
    [kross_api::KEY_PREFIX, kross_api::INTERNAL_KEY_PREFIX, kross_api::APPLYSET_KEY_PREFIX];

/// The fields of a resource that authors write into its template by mistake.
const RESOURCE_FIELDS: [&str; 8] =
    ["cluster", "target", "readyWhen", "includeWhen", "forEach", "lifecycle", "externalRef", "template"];

/// Adds to the diagnostic of an unknown field where the field belongs.
fn point_out_of_template(problem: &mut Problem, template: &Path) {
    let is_resource_field = |field: &&&str| problem.place.path == template.key(**field);
    if problem.code == Code::UnknownField
        && let Some(field) = RESOURCE_FIELDS.iter().find(is_resource_field)
    {
        problem.help = Some(format!("move `{field}` out of the template, next to `template`"));
        problem.replacement = None;
    }
}

impl<'a> Compiler<'a> {
    pub(super) fn object_template(
        &mut self,
        template: &Value,
        draft: &Draft<'a>,
        context: &Context,
    ) -> Template {
        let path = draft.path.key("template");
        let view = draft.resolved.as_ref().map(|resolved| &resolved.schema);
        if let Some(view) = view {
            let mut problems = Vec::new();
            check_template(template, view, &path, &mut |found| found.text.contains("${"), &mut problems);
            problems.iter_mut().for_each(|problem| point_out_of_template(problem, &path));
            self.problems.extend(problems);
            self.check_status(template, draft, &path);
        }
        self.check_metadata(template, draft, &path);
        let compiled = self.fields(template, view, &path, context);
        self.check_omit(&compiled, draft, &path);
        if draft.kind.kind == "CustomResourceDefinition" && draft.kind.group == "apiextensions.k8s.io" {
            self.check_crd_template(&compiled, &path);
        }
        compiled
    }

    /// The status of built-in kinds is a subresource. That of custom kinds may not be.
    fn check_status(&mut self, template: &Value, draft: &Draft<'a>, path: &Path) {
        let view = draft.resolved.as_ref().map(|resolved| resolved.schema.field("status"));
        if template.get("status").is_some()
            && is_built_in_group(&draft.kind.group)
            && matches!(view, Some(FieldView::Known(_)))
        {
            let message =
                format!("`status` has no effect: the API server ignores it in a {}", draft.kind.kind);
            let place = Place::key(&path.key("status"));
            self.report(Problem::new(Code::StatusInTemplate, place, message).help("remove `status`"));
        }
    }

    /// Compiles the expressions of a value, each against the schema of its field.
    pub(super) fn fields(
        &mut self,
        value: &Value,
        view: Option<&SchemaView>,
        path: &Path,
        context: &Context,
    ) -> Template {
        match value {
            Value::String(text) if text.contains("${") => self.field(text, view, path, context),
            Value::List(items) => {
                let inner = view.and_then(SchemaView::items);
                let items = items.iter().enumerate();
                list(
                    items
                        .map(|(at, item)| self.fields(item, inner.as_ref(), &path.index(at), context))
                        .collect(),
                )
            }
            Value::Object(entries) => {
                let compiled = entries.iter().map(|(key, value)| {
                    let inner = match view.map(|view| view.field(key)) {
                        Some(FieldView::Known(inner)) => Some(inner),
                        _ => None,
                    };
                    (key.clone(), self.fields(value, inner.as_ref(), &path.key(key.as_str()), context))
                });
                object(compiled.collect())
            }
            other => Template::Literal(other.clone()),
        }
    }

    fn field(&mut self, text: &Text, view: Option<&SchemaView>, path: &Path, context: &Context) -> Template {
        let Some(mut template) = self.text(text, path, context) else {
            return Template::default();
        };
        let found = match &template {
            Template::Expression(expression) => &expression.result,
            _ => &Type::String,
        };
        match view.map(|view| assignable(found, view)) {
            None | Some(Ok(Written::AsIs)) => {}
            Some(Ok(Written::BytesAsBase64)) => {
                if let Template::Expression(expression) = &mut template {
                    expression.bytes_as_base64 = true;
                }
            }
            Some(Err(mismatch)) => {
                let problem = Problem::new(Code::NotAssignable, Place::value(path), mismatch.to_string());
                self.report(match mismatch.help {
                    _ if !matches!(template, Template::Expression(_)) => {
                        problem.help("write one expression and no text around it")
                    }
                    Some(help) => problem.help(help),
                    None => problem.help("convert the value, or read another field"),
                });
            }
        }
        template
    }

    fn check_metadata(&mut self, template: &Value, draft: &Draft<'a>, path: &Path) {
        let Some(metadata) = template.get("metadata").and_then(Value::as_object) else {
            return;
        };
        let path = path.key("metadata");
        for field in ["labels", "annotations"] {
            if let Some(entries) = metadata.get(field).and_then(Value::as_object) {
                self.check_reserved(entries, field, &path.key(field));
            }
        }
        self.check_namespace(metadata, draft, &path);
        let text = |field: &str| metadata.get(field).and_then(Value::as_str);
        self.check_object_names(&draft.kind, text("name"), text("namespace"), &path);
    }

    fn check_reserved(&mut self, entries: &Object, field: &str, path: &Path) {
        let reserved =
            |key: &&kross_value::Key| RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        for key in entries.keys().filter(reserved) {
            let what = field.trim_end_matches('s');
            let place = Place::key(&path.key(key.as_str()));
            let problem = Problem::new(Code::ReservedLabel, place, format!("the {what} `{key}` is reserved"));
            self.report(problem.help("remove it, or use another prefix"));
        }
    }

    fn check_namespace(&mut self, metadata: &Object, draft: &Draft<'a>, path: &Path) {
        let Some(known) = &draft.kind.known else {
            return;
        };
        let written = metadata.get("namespace");
        let path_of = path.key("namespace");
        if !known.namespaced && written.is_some() {
            let message = format!("`{}` is cluster-scoped and cannot have a namespace", draft.kind.kind);
            self.report(
                Problem::new(Code::NamespaceOnClusterScoped, Place::key(&path_of), message)
                    .help("remove `namespace`"),
            );
        }
        let blank =
            written.is_none_or(|namespace| namespace.as_str().is_some_and(|text| text.trim().is_empty()));
        if known.namespaced && blank && self.scope == Scope::Cluster {
            let message =
                format!("`{}` needs a namespace, because instances are cluster-scoped", draft.kind.kind);
            let place = if written.is_some() { Place::value(&path_of) } else { Place::key(path) };
            self.report(
                Problem::new(Code::NamespaceRequired, place, message).help("add `metadata.namespace`"),
            );
        }
    }

    /// The scope rules of external references.
    pub(super) fn check_external_scope(&mut self, draft: &Draft<'a>, has_namespace: bool, path: &Path) {
        let Some(known) = &draft.kind.known else {
            return;
        };
        if !known.namespaced && has_namespace {
            let message = format!("`{}` is cluster-scoped and cannot have a namespace", draft.kind.kind);
            let place = Place::key(&path.key("namespace"));
            self.report(
                Problem::new(Code::NamespaceOnClusterScoped, place, message).help("remove `namespace`"),
            );
        }
        if known.namespaced && !has_namespace && !draft.is_list() && self.scope == Scope::Cluster {
            let message =
                format!("`{}` needs a namespace, because instances are cluster-scoped", draft.kind.kind);
            self.report(
                Problem::new(Code::NamespaceRequired, Place::key(path), message)
                    .help("add `metadata.namespace`"),
            );
        }
    }

    /// A name cannot be omitted, nor can a namespace where it is required.
    fn check_omit(&mut self, template: &Template, draft: &Draft<'a>, path: &Path) {
        let Some(metadata) = template.get("metadata") else {
            return;
        };
        let namespaced = draft.kind.known.as_ref().is_none_or(|known| known.namespaced);
        let required = namespaced && self.scope == Scope::Cluster;
        for field in ["name", "namespace"].into_iter().take(if required { 2 } else { 1 }) {
            if let Some(Field::Template(value)) = metadata.get(field)
                && value.expressions().iter().any(|expression| expression.uses_omit())
            {
                self.report(omit_problem(
                    Place::value(&path.key("metadata").key(field)),
                    &format!("the {field} of an object"),
                ));
            }
        }
    }

    fn check_crd_template(&mut self, template: &Template, path: &Path) {
        let Template::Object(entries) = template else {
            return;
        };
        for (key, field) in entries.iter().filter(|(key, _)| key.as_str() != "metadata") {
            if let Some(expression) = field.expressions().first() {
                let place = expression.path.parse::<Path>().unwrap_or_else(|_| path.key(key.as_str()));
                let message = "a CustomResourceDefinition can have expressions only under `metadata`";
                self.report(
                    Problem::new(Code::ExpressionInCrd, Place::value(&place), message)
                        .help("write a literal value"),
                );
            }
        }
    }
}
