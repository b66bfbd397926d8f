//! The symbols of a definition, and every place that declares or uses one: ids, fields and types of the schema, `forEach` variables and
//! the variables of macros.

use std::ops::Range;

use kross_api::yaml::Document;
use kross_cel::Span;
use kross_diagnostics::{Path, PathSegment};
use kross_value::Value;

use crate::embedded::{Embedded, at, expressions, parsed, strings};
use crate::origin::{Mention, Named, Names, Origin, Resolved, Root, resolve};
use crate::recovery::bytes;
use crate::schema_fields::{
    Step, below_declaration, custom_type, declaration, schema_path, validation_rules,
};

/// A symbol of one definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// A resource, by its id.
    Resource(String),
    /// A field of the schema, by the path of its declaration.
    Field(Path),
    /// A custom type of the schema.
    Type(String),
    /// A `forEach` variable of the resource with this index.
    Axis(usize, String),
    /// A variable of a macro: the path of its string, the start of its expression and its own place in that.
    Local(Path, usize, Span),
}

/// A place that declares or uses a symbol.
#[derive(Clone, Debug)]
pub(crate) struct Occurrence {
    pub(crate) symbol: Symbol,
    pub(crate) bytes: Range<usize>,
    pub(crate) declares: bool,
}

/// The names of a definition.
#[derive(Debug)]
pub(crate) struct Definition<'d> {
    pub(crate) document: &'d Document,
    pub(crate) ids: Vec<String>,
    /// The `forEach` variables of each resource.
    pub(crate) axes: Vec<Vec<(String, Origin)>>,
    pub(crate) expressions: Vec<Embedded>,
}

impl<'d> Definition<'d> {
    pub(crate) fn new(document: &'d Document) -> Self {
        let resources = resources(document.value());
        let id = |resource: &Value| resource.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let ids: Vec<String> = resources.iter().map(id).collect();
        let axes = resources.iter().map(|resource| axes(resource, &ids)).collect();
        Self { document, ids, axes, expressions: expressions(document) }
    }

    /// The names that an expression at a path can use.
    pub(crate) fn names(&self, path: &Path) -> Names<'_> {
        let axes =
            axes_at(path).and_then(|index| self.axes.get(index)).map(Vec::as_slice).unwrap_or_default();
        Names { ids: &self.ids, axes, itself: None }
    }

    /// The names in an expression.
    pub(crate) fn resolve(&self, expression: &Embedded) -> Resolved {
        resolve(&expression.ast, &self.names(&expression.path))
    }

    /// Every place of every symbol.
    pub(crate) fn occurrences(&self) -> Vec<Occurrence> {
        let mut found = Vec::new();
        self.resources(&mut found);
        self.schema(&mut found);
        for expression in &self.expressions {
            for mention in self.resolve(expression).mentions {
                if let Some(symbol) = self.symbol(&mention, expression) {
                    let declares = matches!(&symbol, Symbol::Local(_, _, span) if *span == mention.span);
                    let bytes = expression.bytes(self.document, mention.span);
                    found.push(Occurrence { symbol, bytes, declares });
                }
            }
        }
        found.sort_by_key(|occurrence| occurrence.bytes.start);
        found
    }

    /// The symbol of a name in an expression.
    pub(crate) fn symbol(&self, mention: &Mention, expression: &Embedded) -> Option<Symbol> {
        match &mention.named {
            Named::Resource(id) => self.ids.contains(id).then(|| Symbol::Resource(id.clone())),
            Named::Field(root, steps) => self.declared(root, steps).map(Symbol::Field),
            Named::Axis(name) => Some(Symbol::Axis(axes_at(&expression.path)?, name.clone())),
            Named::Local(span) => Some(Symbol::Local(expression.path.clone(), expression.start, *span)),
        }
    }

    /// The path of the declaration of a field.
    pub(crate) fn declared(&self, root: &Root, steps: &[Step]) -> Option<Path> {
        let Some(Step::Field(_)) = steps.last() else { return None };
        let value = self.document.value();
        let found = match root {
            Root::Schema => declaration(value, steps),
            Root::Declared(path) => below_declaration(value, path, steps),
            Root::Resources | Root::Resource(_) => None,
        }?;
        // The constant key of a map is not a field.
        found.is_field().then_some(found.path)
    }

    fn resources(&self, found: &mut Vec<Occurrence>) {
        let spec = Path::root().key("spec");
        self.after(&spec, found);
        for (index, id) in self.ids.iter().enumerate() {
            let path = spec.key("resources").index(index);
            if !id.is_empty() {
                let bytes = bytes(self.document.span_within(&path.key("id"), 0..id.len()));
                found.push(Occurrence { symbol: Symbol::Resource(id.clone()), bytes, declares: true });
            }
            self.after(&path, found);
            for (at, (name, _)) in self.axes.get(index).into_iter().flatten().enumerate() {
                let key = path.key("forEach").index(at).key(name);
                self.key(&key, Symbol::Axis(index, name.clone()), found);
            }
        }
    }

    /// The ids in `lifecycle.delete.after` of the definition or of a resource.
    fn after(&self, owner: &Path, found: &mut Vec<Occurrence>) {
        let path = owner.key("lifecycle").key("delete").key("after");
        let ids = at(self.document.value(), &path).and_then(Value::as_list).unwrap_or_default();
        for (index, id) in ids.iter().enumerate() {
            if let Some(id) = id.as_str().filter(|id| self.ids.iter().any(|known| known == id)) {
                let bytes = bytes(self.document.span_within(&path.index(index), 0..id.len()));
                found.push(Occurrence { symbol: Symbol::Resource(id.to_owned()), bytes, declares: false });
            }
        }
    }

    /// A declaration by a key. A key in quotes is left alone.
    fn key(&self, path: &Path, symbol: Symbol, found: &mut Vec<Occurrence>) {
        let Some(PathSegment::Key(name)) = path.segments().last() else { return };
        if let Some(bytes) = self.document.key_span(path).map(bytes).filter(|bytes| bytes.len() == name.len())
        {
            found.push(Occurrence { symbol, bytes, declares: true });
        }
    }

    fn schema(&self, found: &mut Vec<Occurrence>) {
        let value = self.document.value();
        if let Some(spec) = value.at(&["spec", "schema", "spec"]) {
            self.fields(spec, &schema_path().key("spec"), found);
        }
        if let Some(types) = value.at(&["spec", "schema", "types"]).and_then(Value::as_object) {
            for (name, fields) in types.iter() {
                let path = schema_path().key("types").key(name.as_str());
                self.key(&path, Symbol::Type(name.to_string()), found);
                self.fields(fields, &path, found);
            }
        }
        self.printer_columns(found);
    }

    fn fields(&self, value: &Value, path: &Path, found: &mut Vec<Occurrence>) {
        for (name, value) in value.as_object().into_iter().flat_map(|object| object.iter()) {
            let path = path.key(name.as_str());
            self.key(&path, Symbol::Field(path.clone()), found);
            self.fields(value, &path, found);
        }
        let Value::String(text) = value else { return };
        if let Some((start, name)) = custom_type(text)
            && self.document.value().at(&["spec", "schema", "types", name]).is_some()
        {
            let bytes = bytes(self.document.span_within(path, start..start + name.len()));
            found.push(Occurrence { symbol: Symbol::Type(name.to_owned()), bytes, declares: false });
        }
        for (start, rule) in validation_rules(text) {
            self.rule(&Embedded { path: path.clone(), start, ast: parsed(rule) }, found);
        }
    }

    /// The fields in the rule of a validation marker.
    fn rule(&self, rule: &Embedded, found: &mut Vec<Occurrence>) {
        let itself = Origin::Part(Root::Declared(rule.path.clone()), Vec::new());
        let names = Names { itself: Some(&itself), ..Names::default() };
        for mention in resolve(&rule.ast, &names).mentions {
            if let Named::Field(root, steps) = &mention.named
                && let Some(path) = self.declared(root, steps)
            {
                let bytes = rule.bytes(self.document, mention.span);
                found.push(Occurrence { symbol: Symbol::Field(path), bytes, declares: false });
            }
        }
    }

    /// The fields in the paths of printer columns, such as `.spec.replicas`.
    fn printer_columns(&self, found: &mut Vec<Occurrence>) {
        let path = schema_path().key("additionalPrinterColumns");
        let Some(columns) = at(self.document.value(), &path) else { return };
        strings(columns, &mut path.clone(), &mut |path, text| {
            if !matches!(path.segments().last(), Some(PathSegment::Key(key)) if key == "jsonPath") {
                return;
            }
            let mut steps = Vec::new();
            let mut start = 0;
            for name in text.split('.') {
                if !name.is_empty() {
                    steps.push(Step::Field(name.to_owned()));
                    if let Some(declared) = self.declared(&Root::Schema, &steps) {
                        let bytes = bytes(self.document.span_within(path, start..start + name.len()));
                        found.push(Occurrence { symbol: Symbol::Field(declared), bytes, declares: false });
                    }
                }
                start += name.len() + 1;
            }
        });
    }
}

/// The fields of an instance that its definition declares.
pub(crate) fn instance_occurrences(instance: &Document, definition: &Document) -> Vec<Occurrence> {
    let names =
        Definition { document: definition, ids: Vec::new(), axes: Vec::new(), expressions: Vec::new() };
    let mut found = Vec::new();
    let path = Path::root().key("spec");
    if let Some(spec) = instance.value().get("spec") {
        let mut steps = vec![Step::Field("spec".to_owned())];
        instance_fields(instance, spec, &path, &names, &mut steps, &mut found);
    }
    found
}

fn instance_fields(
    instance: &Document,
    value: &Value,
    path: &Path,
    names: &Definition<'_>,
    steps: &mut Vec<Step>,
    found: &mut Vec<Occurrence>,
) {
    let mut inside = |step: Step, path: &Path, value: &Value, found: &mut Vec<Occurrence>| {
        steps.push(step);
        if let Some(declared) = names.declared(&Root::Schema, steps)
            && let Some(PathSegment::Key(name)) = path.segments().last()
            && let Some(bytes) = instance.key_span(path).map(bytes).filter(|bytes| bytes.len() == name.len())
        {
            found.push(Occurrence { symbol: Symbol::Field(declared), bytes, declares: false });
        }
        instance_fields(instance, value, path, names, steps, found);
        steps.pop();
    };
    match value {
        Value::Object(entries) => {
            for (name, value) in entries.iter() {
                inside(Step::Field(name.to_string()), &path.key(name.as_str()), value, found);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                inside(Step::Item, &path.index(index), item, found);
            }
        }
        _ => {}
    }
}

/// The resources of a definition.
pub(crate) fn resources(definition: &Value) -> &[Value] {
    definition.at(&["spec", "resources"]).and_then(Value::as_list).unwrap_or_default()
}

/// The index of the resource whose `forEach` variables an expression at a path can use.
fn axes_at(path: &Path) -> Option<usize> {
    let [
        PathSegment::Key(spec),
        PathSegment::Key(resources),
        PathSegment::Index(index),
        PathSegment::Key(field),
        ..,
    ] = path.segments()
    else {
        return None;
    };
    let visible = ["template", "externalRef", "cluster", "target"].contains(&field.as_str());
    (spec == "spec" && resources == "resources" && visible).then_some(*index)
}

/// The `forEach` variables of a resource, and where their values come from.
fn axes(resource: &Value, ids: &[String]) -> Vec<(String, Origin)> {
    let entries = resource.get("forEach").and_then(Value::as_list).unwrap_or_default();
    let names = Names { ids, ..Names::default() };
    let axis = |entry: &Value| {
        let (name, text) =
            entry.as_object()?.iter().next().map(|(name, text)| (name.to_string(), text.as_str()))?;
        let text = text.unwrap_or_default().trim();
        let inner = text.strip_prefix("${").and_then(|text| text.strip_suffix('}')).unwrap_or_default();
        let list = resolve(&parsed(inner), &names).origin;
        Some((name, list.item()))
    };
    entries.iter().filter_map(axis).collect()
}
