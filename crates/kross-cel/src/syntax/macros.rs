//! Turns calls of macros into nodes of their own: `has`, comprehensions, `cel.bind`, `optMap` and `optFlatMap`.

use kross_diagnostics::Code;

use super::conditions::is_new_condition;
use super::parser::Parser;
use crate::Span;
use crate::ast::{Access, Comprehension, ComprehensionKind, Expr, Item, Literal, Name, Node};
use crate::error::Issue;

/// A macro.
#[derive(Clone, Copy)]
enum Macro {
    Comprehension(ComprehensionKind),
    Optional { flat: bool },
}

fn find(name: &str) -> Option<(Macro, &'static [usize], &'static str)> {
    use ComprehensionKind as Kind;
    let (kind, counts, usage): (_, &'static [usize], _) = match name {
        "all" => (Kind::All, &[2, 3], "`all(item, condition)` or `all(key, value, condition)`"),
        "exists" => (Kind::Exists, &[2, 3], "`exists(item, condition)` or `exists(key, value, condition)`"),
        "exists_one" | "existsOne" => {
            (Kind::ExistsOne, &[2, 3], "`exists_one(item, condition)` or `exists_one(key, value, condition)`")
        }
        "map" => (Kind::Map, &[2, 3], "`map(item, result)` or `map(item, condition, result)`"),
        "filter" => (Kind::Filter, &[2], "`filter(item, condition)`"),
        "transformList" => (
            Kind::TransformList,
            &[3, 4],
            "`transformList(key, value, result)` or `transformList(key, value, condition, result)`",
        ),
        "transformMap" => (
            Kind::TransformMap,
            &[3, 4],
            "`transformMap(key, value, result)` or `transformMap(key, value, condition, result)`",
        ),
        "transformMapEntry" => (
            Kind::TransformMapEntry,
            &[3, 4],
            "`transformMapEntry(key, value, {k: v})` or `transformMapEntry(key, value, condition, {k: v})`",
        ),
        "sortBy" => (Kind::SortBy, &[2], "`sortBy(item, key)`"),
        "optMap" => return Some((Macro::Optional { flat: false }, &[2], "`optMap(value, result)`")),
        "optFlatMap" => return Some((Macro::Optional { flat: true }, &[2], "`optFlatMap(value, result)`")),
        _ => return None,
    };
    Some((Macro::Comprehension(kind), counts, usage))
}

impl Parser<'_> {
    /// The node of a call or a macro. `intact` is false if the arguments could not be separated.
    pub(super) fn call_or_macro(
        &mut self,
        start: u32,
        function: Name,
        receiver: Option<Expr>,
        mut arguments: Vec<Expr>,
        intact: bool,
    ) -> Expr {
        match receiver {
            Some(receiver) if is_new_condition(&receiver, &function) => {
                self.condition_fields(&function, &mut arguments);
                self.plain_call(start, function, Some(receiver), arguments)
            }
            None if function.text == "has" => self.has(start, &function, arguments, intact),
            Some(receiver) if function.text == "bind" && is_cel(&receiver) => {
                self.bind(start, &function, arguments, intact)
            }
            Some(receiver) if is_extreme(&receiver, &function) => {
                self.extreme(start, function, receiver, arguments)
            }
            Some(receiver) => match find(&function.text) {
                Some((kind, counts, usage)) => {
                    if !self.count(&function, arguments.len(), counts, usage, intact) {
                        return self.error(self.since(start));
                    }
                    match kind {
                        Macro::Comprehension(kind) => {
                            self.comprehension(start, kind, function, receiver, arguments)
                        }
                        Macro::Optional { flat } => self.optional_map(start, flat, receiver, arguments),
                    }
                }
                None => self.plain_call(start, function, Some(receiver), arguments),
            },
            None => self.plain_call(start, function, None, arguments),
        }
    }

    fn plain_call(
        &mut self,
        start: u32,
        function: Name,
        receiver: Option<Expr>,
        arguments: Vec<Expr>,
    ) -> Expr {
        let height = self.highest(receiver.iter().chain(&arguments));
        let span = self.since(start);
        let node = Node::Call { function, receiver: receiver.map(Box::new), arguments };
        self.node(span, height, node)
    }

    /// `math.greatest(a, b, c)` is `math.greatest([a, b, c])`. Arguments that cannot be numbers are rejected here, as in cel-go.
    fn extreme(&mut self, start: u32, function: Name, receiver: Expr, arguments: Vec<Expr>) -> Expr {
        let wrong = match &*arguments {
            [Expr { node: Node::List { items }, span, .. }] => {
                let wrong = items.iter().map(|item| &item.value).find(|item| !may_be_number(item));
                wrong.map(|item| item.span).or_else(|| items.is_empty().then_some(*span))
            }
            several => several.iter().find(|item| !may_be_number(item)).map(|item| item.span),
        };
        if let Some(span) = wrong {
            let found = self.lexer.shown(span);
            let message = format!("`math.{}` takes numbers, found `{found}`", function.text);
            self.lexer.issues.push(Issue::new(Code::NoMatchingOverload, span, message));
            return self.error(self.since(start));
        }
        if arguments.len() < 3 {
            return self.plain_call(start, function, Some(receiver), arguments);
        }
        let span = arguments.iter().map(|argument| argument.span).reduce(Span::to).unwrap_or(function.span);
        let height = self.highest(&arguments);
        let items = arguments.into_iter().map(|value| Item { value, optional: false }).collect();
        let list = self.node(span, height, Node::List { items });
        self.plain_call(start, function, Some(receiver), vec![list])
    }

    fn count(&mut self, function: &Name, found: usize, counts: &[usize], usage: &str, intact: bool) -> bool {
        if intact && counts.contains(&found) {
            return true;
        }
        if intact {
            let expected: Vec<String> = counts.iter().map(ToString::to_string).collect();
            let expected = expected.join(" or ");
            let plural = if expected == "1" { "" } else { "s" };
            let message =
                format!("the macro `{}` takes {expected} argument{plural}, found {found}", function.text);
            let issue = Issue::new(Code::MacroArguments, function.span, message);
            self.lexer.issues.push(issue.help(format!("write {usage}")));
        }
        false
    }

    fn has(&mut self, start: u32, function: &Name, mut arguments: Vec<Expr>, intact: bool) -> Expr {
        if !self.count(function, arguments.len(), &[1], "`has(object.field)`", intact) {
            return self.error(self.since(start));
        }
        let span = self.since(start);
        match arguments.pop() {
            Some(Expr { node: Node::Select { operand, field, access: Access::Plain }, .. }) => {
                let height = self.height(&operand);
                self.node(span, height, Node::Select { operand, field, access: Access::Test })
            }
            Some(Expr { node: Node::Error, .. }) | None => self.error(span),
            Some(other) => {
                let found = self.lexer.shown(other.span);
                let message = format!("`has()` takes a field such as `object.field`, found `{found}`");
                let issue = Issue::new(Code::InvalidHas, other.span, message);
                let issue = match &other.node {
                    Node::Index { operand, index, .. } => {
                        let (operand, key) = (self.lexer.shown(operand.span), self.lexer.shown(index.span));
                        issue.help(format!("to check for a key, write `{key} in {operand}`"))
                    }
                    Node::Ident { name, .. } => issue.help(format!(
                        "a variable always exists; check one of its fields: `has({name}.field)`"
                    )),
                    Node::Select { access: Access::Optional, .. } => {
                        issue.help("write `.` instead of `.?`, or call `hasValue()` on the optional")
                    }
                    _ => issue,
                };
                self.lexer.issues.push(issue);
                self.error(span)
            }
        }
    }

    fn bind(&mut self, start: u32, function: &Name, arguments: Vec<Expr>, intact: bool) -> Expr {
        let span = self.since(start);
        if !self.count(function, arguments.len(), &[3], "`cel.bind(name, value, result)`", intact) {
            return self.error(span);
        }
        let mut arguments = arguments.into_iter();
        let (Some(variable), Some(value), Some(body)) =
            (arguments.next(), arguments.next(), arguments.next())
        else {
            return self.error(span);
        };
        let Some(variable) = self.variable(variable) else { return self.error(span) };
        let height = self.highest([&value, &body]);
        self.node(span, height, Node::Bind { variable, value: Box::new(value), body: Box::new(body) })
    }

    fn optional_map(&mut self, start: u32, flat: bool, operand: Expr, arguments: Vec<Expr>) -> Expr {
        let span = self.since(start);
        let mut arguments = arguments.into_iter();
        let (Some(variable), Some(body)) = (arguments.next(), arguments.next()) else {
            return self.error(span);
        };
        let Some(variable) = self.variable(variable) else { return self.error(span) };
        let height = self.highest([&operand, &body]);
        let node = Node::OptionalMap { operand: Box::new(operand), variable, body: Box::new(body), flat };
        self.node(span, height, node)
    }

    fn comprehension(
        &mut self,
        start: u32,
        kind: ComprehensionKind,
        name: Name,
        range: Expr,
        mut arguments: Vec<Expr>,
    ) -> Expr {
        let span = self.since(start);
        let count = arguments.len();
        let (Some(body), mut arguments) = (arguments.pop(), arguments.into_iter()) else {
            return self.error(span);
        };
        let transforms = matches!(
            kind,
            ComprehensionKind::TransformList
                | ComprehensionKind::TransformMap
                | ComprehensionKind::TransformMapEntry
        );
        let two = transforms || count == 3 && kind != ComprehensionKind::Map;
        let first = arguments.next().and_then(|argument| self.variable(argument));
        let second = if two { arguments.next().map(|argument| self.variable(argument)) } else { None };
        let filter = arguments.next();
        let (Some(variable), None | Some(Some(_))) = (first, &second) else { return self.error(span) };
        let second = second.flatten();
        if let Some(second) = &second
            && second.text == variable.text
        {
            let message = format!("both variables have the name `{}`", variable.text);
            let issue = Issue::new(Code::DuplicateMacroVariable, second.span, message);
            self.lexer.issues.push(issue.help("rename one of the variables"));
            return self.error(span);
        }
        let height = self.highest([&range, &body].into_iter().chain(&filter));
        let comprehension = Comprehension { kind, name, range, variable, second, filter, body };
        self.node(span, height, Node::Comprehension(Box::new(comprehension)))
    }

    /// The variable of a macro: a simple name.
    fn variable(&mut self, argument: Expr) -> Option<Name> {
        match argument.node {
            Node::Ident { name, rooted: false } => Some(Name { text: name, span: argument.span }),
            Node::Error => None,
            _ => {
                self.not_a_variable(argument.span);
                None
            }
        }
    }

    fn not_a_variable(&mut self, span: Span) {
        let found = self.lexer.shown(span);
        let message = format!("the variable must be a simple name, found `{found}`");
        let issue = Issue::new(Code::MacroVariable, span, message);
        self.lexer.issues.push(issue.help("use a name such as `item`"));
    }
}

fn is_extreme(receiver: &Expr, function: &Name) -> bool {
    matches!(&receiver.node, Node::Ident { name, rooted: false } if *name == "math")
        && matches!(&*function.text, "greatest" | "least")
}

fn may_be_number(expr: &Expr) -> bool {
    match &expr.node {
        Node::Literal(literal) => matches!(literal, Literal::Int(_) | Literal::UInt(_) | Literal::Double(_)),
        Node::List { .. } | Node::Map { .. } | Node::Struct { .. } => false,
        _ => true,
    }
}

fn is_cel(expr: &Expr) -> bool {
    matches!(&expr.node, Node::Ident { name, rooted: false } if *name == "cel")
}
