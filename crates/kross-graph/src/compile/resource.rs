//! The second pass over the resources: compiles the expressions, with the types of all variables known.

use kross_api::{ExternalRef, ExternalRefMetadata, ForEach, LabelSelector};
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_value::{Object, Text, Value};

use super::Compiler;
use super::context::{Context, Position, Variables};
use super::draft::{Draft, invalid_name};
use crate::graph::{Axis, Source};
use crate::names;
use crate::template::Template;

impl<'a> Compiler<'a> {
    /// The `forEach` axes of a collection, and the types of their variables.
    pub(super) fn axes(
        &mut self,
        draft: &Draft<'a>,
        variables: &Variables,
    ) -> (Vec<Axis>, Vec<(Text, Type)>) {
        let path = draft.path.key("forEach");
        let declared: &'a [ForEach] = &draft.resource.for_each;
        if declared.is_empty() {
            return (Vec::new(), Vec::new());
        }
        self.check_axes(draft, declared, &path);
        let context = self.template_context(Position::ForEach, draft, variables, &[]);
        let (mut axes, mut types) = (Vec::new(), Vec::new());
        for (at, ForEach { variable, expression }) in declared.iter().enumerate() {
            let path = path.index(at).key(variable);
            let items = self.standalone(expression, &path, &context);
            let item = items.as_ref().map_or(Type::Dyn, |items| self.item_type(&items.result, &path));
            types.push((variable.as_str().into(), item));
            axes.extend(items.map(|items| Axis { variable: variable.as_str().into(), items }));
        }
        (axes, types)
    }

    fn check_axes(&mut self, draft: &Draft<'a>, declared: &[ForEach], path: &Path) {
        if draft.resource.external_ref.is_some() {
            let problem = Problem::new(
                Code::ForEachOnExternalRef,
                Place::key(path),
                "an external reference cannot have `forEach`",
            );
            self.report(problem.help("to read several objects, use `metadata.selector`"));
        }
        if declared.len() > self.options.max_axes {
            let message = format!(
                "the collection has {} `forEach` entries, at most {} are allowed",
                declared.len(),
                self.options.max_axes
            );
            self.report(
                Problem::new(Code::TooManyAxes, Place::key(path), message)
                    .help("combine lists in one expression"),
            );
        }
        for (at, ForEach { variable, .. }) in declared.iter().enumerate() {
            let place = Place::key(&path.index(at).key(variable));
            if let Err(reason) = names::validate(variable) {
                self.report(invalid_name(reason, variable, "variable", place));
                continue;
            }
            let taken = if self.ids.contains_key(variable.as_str()) {
                Some(format!("the variable `{variable}` has the same name as a resource"))
            } else if declared.iter().take(at).any(|earlier| earlier.variable == *variable) {
                Some(format!("the variable `{variable}` is used twice"))
            } else {
                None
            };
            if let Some(message) = taken {
                self.report(Problem::new(Code::DuplicateVariable, place, message).help("use another name"));
            }
        }
    }

    /// The type of a list's items.
    fn item_type(&mut self, list: &Type, path: &Path) -> Type {
        match list {
            Type::List(item) => (**item).clone(),
            Type::Nullable(inner) | Type::Optional(inner) => self.item_type(inner, path),
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let problem = Problem::new(
                    Code::ForEachNotList,
                    Place::value(path),
                    format!("`forEach` needs a list, found {other}"),
                );
                self.report(match other {
                    Type::Map(_) => problem.help("to iterate over the keys, use `.map(key, key)`"),
                    _ => problem.help("wrap a single value in `[…]`"),
                });
                Type::Dyn
            }
        }
    }

    /// Where the objects come from.
    pub(super) fn source(
        &mut self,
        draft: &Draft<'a>,
        variables: &Variables,
        axes: Vec<Axis>,
        axis_types: &[(Text, Type)],
    ) -> Source {
        let context = self.template_context(Position::Template, draft, variables, axis_types);
        if let Some(external) = &draft.resource.external_ref {
            return self.external(external, draft, &context);
        }
        let template = match &draft.resource.template {
            Some(template) => self.object_template(template, draft, &context),
            None => Template::default(),
        };
        if draft.resource.for_each.is_empty() {
            Source::Object(template)
        } else {
            Source::Collection { axes, template }
        }
    }

    fn external(&mut self, external: &'a ExternalRef, draft: &Draft<'a>, context: &Context) -> Source {
        let path = draft.path.key("externalRef");
        let metadata_path = path.key("metadata");
        let metadata = external.metadata.as_ref();
        let namespace = metadata.and_then(|metadata| metadata.namespace.as_ref());
        let namespace =
            namespace.and_then(|text| self.string(text, &metadata_path.key("namespace"), context));
        self.check_external_scope(draft, namespace.is_some(), &metadata_path);
        self.check_selection(external, &path);
        let text =
            |text: fn(&ExternalRefMetadata) -> Option<&String>| metadata.and_then(text).map(String::as_str);
        let (name, own) =
            (text(|metadata| metadata.name.as_ref()), text(|metadata| metadata.namespace.as_ref()));
        self.check_object_names(&draft.kind, name, own, &metadata_path);
        if let Some(name) = metadata.and_then(|metadata| metadata.name.as_ref()) {
            let name = self.string(name, &metadata_path.key("name"), context).unwrap_or_default();
            return Source::External { name, namespace };
        }
        let selector = match (metadata.and_then(|metadata| metadata.selector.as_ref()), &external.selector) {
            (Some(selector), _) => self.label_selector(selector, &metadata_path.key("selector"), context),
            (None, Some(selector)) => self.selector(selector, &path.key("selector"), context),
            (None, None) => Template::Literal(Value::Object(Object::new())),
        };
        let namespaces = external.namespace_selector.as_ref();
        let namespace_selector =
            namespaces.map(|selector| self.selector(selector, &path.key("namespaceSelector"), context));
        Source::ExternalCollection { selector, namespace, namespace_selector }
    }

    /// A name or one selector is required. The CRD cannot express it, because `metadata.selector` is untyped there.
    fn check_selection(&mut self, external: &ExternalRef, path: &Path) {
        let metadata = external.metadata.as_ref();
        let named = metadata.is_some_and(|metadata| metadata.name.is_some());
        let inner = metadata.is_some_and(|metadata| metadata.selector.is_some());
        let code = Code::InvalidDefinitionField;
        if inner && external.selector.is_some() {
            let message = "`selector` and `metadata.selector` are mutually exclusive";
            let problem = Problem::new(code, Place::key(&path.key("selector")), message);
            self.report(problem.help("keep one of them, with the labels of both"));
        }
        if !named && !inner && external.selector.is_none() {
            let message = "the external reference has neither a name nor a selector";
            let problem = Problem::new(code, Place::value(path), message);
            self.report(problem.help("add `metadata.name`, or `metadata.selector` to read several objects"));
        }
    }

    fn selector(&mut self, selector: &LabelSelector, path: &Path, context: &Context) -> Template {
        let wire = serde_json::to_value(selector).map(Value::from).unwrap_or_default();
        self.label_selector(&wire, path, context)
    }

    /// A string that may contain expressions.
    pub(super) fn string(&mut self, text: &str, path: &Path, context: &Context) -> Option<Template> {
        let template = self.text(&text.into(), path, context)?;
        if let Template::Expression(expression) = &template
            && !matches!(expression.result, Type::String | Type::Dyn | Type::Error)
        {
            let message = format!("expected string, found {}", expression.result);
            self.report(
                Problem::new(Code::NotAssignable, Place::value(path), message)
                    .help("convert it with `string(…)`"),
            );
        }
        Some(template)
    }
}

/// A list, or a literal if nothing in it is an expression.
pub(super) fn list(items: Vec<Template>) -> Template {
    if items.iter().all(Template::is_literal) {
        return Template::Literal(Value::list(items.into_iter().filter_map(Template::into_literal)));
    }
    Template::List(items)
}

/// An object, or a literal if nothing in it is an expression.
pub(super) fn object(entries: Vec<(kross_value::Key, Template)>) -> Template {
    if entries.iter().all(|(_, template)| template.is_literal()) {
        let literals =
            entries.into_iter().filter_map(|(key, template)| Some((key, template.into_literal()?)));
        return Template::Literal(Value::Object(literals.collect()));
    }
    Template::Object(entries)
}
