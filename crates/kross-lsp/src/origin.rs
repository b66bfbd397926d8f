//! Resolves the names in an expression: resources, fields of the schema, `forEach` variables and the variables of macros. It needs no
//! types, so that it also answers for an expression that does not compile.

use kross_cel::Span;
use kross_cel::ast::{Ast, Comprehension, ComprehensionKind, Expr, Literal, Name, Node};
use kross_diagnostics::Path;
use kross_value::Text;

use crate::schema_fields::Step;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Not known, or built by the expression.
    Unknown,
    /// A part of a variable.
    Part(Root, Vec<Step>),
    /// A list that is built of such values.
    List(Box<Origin>),
}

/// A variable that values come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Root {
    /// `schema`
    Schema,
    /// `resources`
    Resources,
    /// A resource, by its id.
    Resource(String),
    /// A field of the schema, by the path of its declaration: `self` in its validation rule.
    Declared(Path),
}

impl Origin {
    fn step(self, step: Step) -> Self {
        match (self, step) {
            (Self::Part(root, mut steps), step) => {
                steps.push(step);
                Self::Part(root, steps)
            }
            (Self::List(item), Step::Item) => *item,
            _ => Self::Unknown,
        }
    }

    /// The elements of the value.
    pub(crate) fn item(self) -> Self {
        self.step(Step::Item)
    }
}

/// What a name in an expression stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// A resource, by its id.
    Resource(String),
    /// A part of a variable: the field that was selected last.
    Field(Root, Vec<Step>),
    /// A `forEach` variable.
    Axis(String),
    /// A variable of a macro, by the place where it is declared.
    Local(Span),
}

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) span: Span,
    pub(crate) named: Named,
}

/// The names that an expression can use from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names<'a> {
    /// The ids of the resources.
    pub(crate) ids: &'a [String],
    /// The `forEach` variables, and where their values come from.
    pub(crate) axes: &'a [(String, Origin)],
    /// What the variable `self` is, in a validation rule.
    pub(crate) itself: Option<&'a Origin>,
}

/// A variable of a macro.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) name: Text,
    pub(crate) declared: Span,
    pub(crate) origin: Origin,
}

/// The names of an expression, and where its value comes from.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) mentions: Vec<Mention>,
    pub(crate) origin: Origin,
}

/// Resolves the names in an expression.
pub(crate) fn resolve(ast: &Ast, names: &Names<'_>) -> Resolved {
    let mut walk = Walk { ast, names, mentions: Vec::new(), locals: Vec::new(), wanted: None, found: None };
    let origin = walk.origin(&ast.root);
    Resolved { mentions: walk.mentions, origin }
}

/// Where the value of a node comes from, and the variables of macros that it can use.
pub(crate) fn origin_of(ast: &Ast, node: &Expr, names: &Names<'_>) -> (Origin, Vec<Local>) {
    let mut walk =
        Walk { ast, names, mentions: Vec::new(), locals: Vec::new(), wanted: Some(node), found: None };
    walk.origin(&ast.root);
    walk.found.unwrap_or((Origin::Unknown, Vec::new()))
}

struct Walk<'a> {
    ast: &'a Ast,
    names: &'a Names<'a>,
    mentions: Vec<Mention>,
    locals: Vec<Local>,
    wanted: Option<&'a Expr>,
    found: Option<(Origin, Vec<Local>)>,
}

impl Walk<'_> {
    fn origin(&mut self, expr: &Expr) -> Origin {
        let locals = self.wanted.filter(|wanted| wanted.id == expr.id).map(|_| self.locals.clone());
        let origin = self.node(expr);
        if let Some(locals) = locals {
            self.found = Some((origin.clone(), locals));
        }
        origin
    }

    fn node(&mut self, expr: &Expr) -> Origin {
        match &expr.node {
            Node::Literal(_) | Node::Error => Origin::Unknown,
            Node::Ident { name, rooted } => self.ident(name, *rooted, expr.span),
            Node::Select { operand, field, .. } => {
                let from = self.origin(operand);
                self.field(from, &field.text, field.span)
            }
            Node::Index { operand, index, .. } => {
                let from = self.origin(operand);
                self.index(from, index)
            }
            Node::Unary { operand, .. } => {
                self.origin(operand);
                Origin::Unknown
            }
            Node::Binary { left, right, .. } => {
                self.origin(left);
                self.origin(right);
                Origin::Unknown
            }
            Node::Conditional { condition, then, otherwise } => {
                self.origin(condition);
                let then = self.origin(then);
                let otherwise = self.origin(otherwise);
                if then == Origin::Unknown { otherwise } else { then }
            }
            Node::Call { function, receiver, arguments } => {
                self.call(&function.text, receiver.as_deref(), arguments)
            }
            Node::List { items } => {
                let items: Vec<Origin> = items.iter().map(|item| self.origin(&item.value)).collect();
                items.into_iter().next().map_or(Origin::Unknown, |first| Origin::List(Box::new(first)))
            }
            Node::Map { entries } => {
                for entry in entries {
                    self.origin(&entry.key);
                    self.origin(&entry.value);
                }
                Origin::Unknown
            }
            Node::Struct { fields, .. } => {
                for field in fields {
                    self.origin(&field.value);
                }
                Origin::Unknown
            }
            Node::Comprehension(comprehension) => self.comprehension(comprehension),
            Node::Bind { variable, value, body } => {
                let value = self.origin(value);
                self.inside(&[(variable, value)], |walk| walk.origin(body))
            }
            Node::OptionalMap { operand, variable, body, .. } => {
                let operand = self.origin(operand);
                self.inside(&[(variable, operand)], |walk| walk.origin(body))
            }
        }
    }

    fn ident(&mut self, name: &Text, rooted: bool, span: Span) -> Origin {
        // The span of `.x` includes the dot.
        let span = Span::new(span.start + u32::from(rooted), span.end);
        let local = self.locals.iter().rev().find(|local| !rooted && local.name == *name).cloned();
        if let Some(local) = local {
            self.mention(span, Named::Local(local.declared));
            return local.origin;
        }
        if let Some((axis, origin)) = self.names.axes.iter().find(|(axis, _)| *axis == **name) {
            self.mention(span, Named::Axis(axis.clone()));
            return origin.clone();
        }
        match (&**name, self.names.itself) {
            ("schema", _) => Origin::Part(Root::Schema, Vec::new()),
            ("resources", _) => Origin::Part(Root::Resources, Vec::new()),
            ("self", Some(itself)) => itself.clone(),
            (id, _) if self.names.ids.iter().any(|known| known == id) => {
                self.mention(span, Named::Resource(id.to_owned()));
                Origin::Part(Root::Resource(id.to_owned()), Vec::new())
            }
            _ => Origin::Unknown,
        }
    }

    fn mention(&mut self, span: Span, named: Named) {
        self.mentions.push(Mention { span, named });
    }

    /// A field of a value, written as `.name` or `['name']`.
    fn field(&mut self, from: Origin, name: &str, span: Span) -> Origin {
        let found = from.step(Step::Field(name.to_owned()));
        match &found {
            Origin::Part(Root::Resources, steps) => {
                if let [Step::Field(id)] = steps.as_slice() {
                    self.mention(span, Named::Resource(id.clone()));
                }
            }
            Origin::Part(root, steps) => {
                let named = Named::Field(root.clone(), steps.clone());
                self.mention(span, named);
            }
            Origin::Unknown | Origin::List(_) => {}
        }
        found
    }

    fn index(&mut self, from: Origin, index: &Expr) -> Origin {
        self.origin(index);
        let Node::Literal(Literal::String(name)) = &index.node else { return from.item() };
        // The quotes are not part of the name; a name with escapes or a prefix cannot be pointed at.
        let plain = index.span.end.checked_sub(index.span.start).map(|length| length as usize)
            == Some(name.len() + 2);
        let written = self.ast.source.get(index.span.range()).unwrap_or_default();
        if plain && written.get(1..=name.len()) == Some(&**name) {
            return self.field(from, name, Span::new(index.span.start + 1, index.span.end - 1));
        }
        from.step(Step::Field(name.to_string()))
    }

    fn call(&mut self, function: &str, receiver: Option<&Expr>, arguments: &[Expr]) -> Origin {
        let receiver = receiver.map(|receiver| self.origin(receiver));
        let arguments: Vec<Origin> = arguments.iter().map(|argument| self.origin(argument)).collect();
        let first = || arguments.first().cloned().unwrap_or(Origin::Unknown);
        match (function, receiver) {
            (
                "orValue" | "or" | "value" | "slice" | "sort" | "reverse" | "distinct" | "setAtIndex",
                Some(from),
            ) => from,
            ("first" | "last", Some(from)) => from.item(),
            ("of" | "ofNonZeroValue", Some(_)) | ("dyn", None) => first(),
            _ => Origin::Unknown,
        }
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Origin {
        let Comprehension { kind, range, variable, second, filter, body, .. } = comprehension;
        let from = self.origin(range);
        let item = from.clone().item();
        let variables = match second {
            Some(second) => vec![(variable, Origin::Unknown), (second, item)],
            None => vec![(variable, item)],
        };
        let result = self.inside(&variables, |walk| {
            if let Some(filter) = filter {
                walk.origin(filter);
            }
            walk.origin(body)
        });
        match kind {
            ComprehensionKind::Filter | ComprehensionKind::SortBy => from,
            ComprehensionKind::Map | ComprehensionKind::TransformList => Origin::List(Box::new(result)),
            _ => Origin::Unknown,
        }
    }

    fn inside<T>(&mut self, variables: &[(&Name, Origin)], step: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.locals.len();
        for (name, origin) in variables {
            self.mention(name.span, Named::Local(name.span));
            self.locals.push(Local { name: name.text.clone(), declared: name.span, origin: origin.clone() });
        }
        let result = step(self);
        self.locals.truncate(before);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::parsed;

    fn mentions(text: &str) -> Vec<String> {
        let ids = ["web".to_owned(), "db".to_owned()];
        let axes = [("region".to_owned(), Origin::Unknown)];
        let ast = parsed(text);
        let resolved = resolve(&ast, &Names { ids: &ids, axes: &axes, itself: None });
        let show = |steps: &[Step]| {
            let step = |step: &Step| match step {
                Step::Field(name) => format!(".{name}"),
                Step::Item => "[*]".to_owned(),
            };
            steps.iter().map(step).collect::<String>()
        };
        let name = |mention: &Mention| {
            let text = &text[mention.span.range()];
            match &mention.named {
                Named::Resource(id) => format!("{text}: resource {id}"),
                Named::Field(Root::Schema, steps) => format!("{text}: schema{}", show(steps)),
                Named::Field(..) => format!("{text}: field"),
                Named::Axis(name) => format!("{text}: axis {name}"),
                Named::Local(span) => format!("{text}: local {}", span.start),
            }
        };
        resolved.mentions.iter().map(name).collect()
    }

    #[test]
    fn fields_are_followed_through_macros_and_indexes() {
        let found = mentions("schema.spec.ports.filter(p, p.on).map(q, q['name'] + region)");
        assert_eq!(
            found,
            [
                "spec: schema.spec",
                "ports: schema.spec.ports",
                "p: local 25",
                "p: local 25",
                "on: schema.spec.ports[*].on",
                "q: local 38",
                "q: local 38",
                "name: schema.spec.ports[*].name",
                "region: axis region",
            ]
        );
    }

    #[test]
    fn the_variable_of_a_macro_hides_a_resource() {
        assert_eq!(
            mentions("[1].all(web, web > 0) && web.x"),
            ["web: local 8", "web: local 8", "web: resource web", "x: field"]
        );
    }

    #[test]
    fn the_status_of_a_resource_names_it() {
        assert_eq!(mentions("resources.db.ready"), ["db: resource db"]);
        assert_eq!(mentions("resources['db'].ready"), ["db: resource db"]);
    }

    #[test]
    fn names_of_an_expression_with_errors_are_resolved() {
        assert_eq!(
            mentions("f(web.status +, schema.spec.x"),
            ["web: resource web", "status: field", "spec: schema.spec", "x: schema.spec.x"]
        );
    }
}
