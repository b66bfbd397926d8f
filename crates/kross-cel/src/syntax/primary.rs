//! Parses literals, names and brackets, and the fields, calls, indexes and struct literals after them.

use kross_diagnostics::Code;

use super::literal::{self, InvalidEscape};
use super::parser::Parser;
use super::token::{Kind, Token, is_reserved};
use crate::Span;
use crate::ast::{Access, Entry, Expr, FieldInit, Item, Literal, Name, Node};
use crate::error::Issue;

impl Parser<'_> {
    /// A primary with its fields, calls and indexes.
    pub(super) fn member(&mut self, start: u32) -> Expr {
        let primary = self.primary();
        self.member_of(start, primary)
    }

    pub(super) fn member_of(&mut self, start: u32, mut operand: Expr) -> Expr {
        loop {
            operand = match self.token.kind {
                Kind::Dot => {
                    self.advance();
                    match self.after_dot(start, operand) {
                        Ok(next) => next,
                        Err(last) => return last,
                    }
                }
                Kind::OpenBracket => self.index(start, operand),
                Kind::OpenBrace => match qualified_name(&operand) {
                    Some(text) => {
                        let type_name = Name { text: text.into(), span: self.since(start) };
                        self.structure(start, type_name)
                    }
                    None => return operand,
                },
                _ => return operand,
            };
        }
    }

    /// Parses a field or call after a dot. Without a name the member expression ends here.
    fn after_dot(&mut self, start: u32, operand: Expr) -> Result<Expr, Expr> {
        let optional = self.eat(Kind::Question);
        let Some(field) = self.field_name() else {
            let error = self.error(self.since(start));
            return if self.lost { Err(error) } else { Ok(error) };
        };
        let escaped = self.lexer.text(field.span).starts_with('`');
        if self.at(Kind::OpenParenthesis) && !optional && !escaped {
            return Ok(self.call(start, field, Some(operand)));
        }
        let access = if optional { Access::Optional } else { Access::Plain };
        let height = self.height(&operand);
        let span = self.since(start);
        Ok(self.node(span, height, Node::Select { operand: Box::new(operand), field, access }))
    }

    /// The name of a field; may be a reserved word or a name in backticks.
    fn field_name(&mut self) -> Option<Name> {
        match self.token.kind {
            Kind::Identifier => Some(self.name()),
            Kind::Escaped => {
                let span = self.advance().span;
                let text = self.lexer.text(span).trim_matches('`');
                Some(Name { text: text.into(), span })
            }
            Kind::In | Kind::True | Kind::False | Kind::Null => {
                let span = self.token.span;
                let word = self.lexer.text(span);
                let message = format!("expected a field name, found the keyword `{word}`");
                let issue = Issue::new(Code::ReservedWord, span, message);
                self.report(issue.help("put the field name in backticks").replace(format!("`{word}`")));
                self.advance();
                self.lost = false;
                None
            }
            _ => {
                self.unexpected("a field name after `.`");
                None
            }
        }
    }

    fn name(&mut self) -> Name {
        let span = self.advance().span;
        Name { text: self.lexer.text(span).into(), span }
    }

    fn index(&mut self, start: u32, operand: Expr) -> Expr {
        let open = self.advance().span;
        let optional = self.eat(Kind::Question);
        let index = self.expression();
        self.close(Kind::CloseBracket, open, "`]`");
        let height = self.highest([&operand, &index]);
        let span = self.since(start);
        let node = Node::Index { operand: Box::new(operand), index: Box::new(index), optional };
        self.node(span, height, node)
    }

    fn primary(&mut self) -> Expr {
        let Token { kind, span } = self.token;
        match kind {
            Kind::Identifier => self.identifier(span.start, false),
            Kind::Dot => {
                self.advance();
                if self.at(Kind::Identifier) {
                    return self.identifier(span.start, true);
                }
                self.unexpected("a name after `.`");
                self.error(span)
            }
            Kind::OpenParenthesis => {
                self.advance();
                let inner = self.expression();
                self.close(Kind::CloseParenthesis, span, "an operator or `)`");
                inner
            }
            Kind::OpenBracket => self.list(),
            Kind::OpenBrace => self.map(),
            Kind::Int | Kind::UInt | Kind::Double => self.number(false),
            Kind::String | Kind::Bytes => self.string(),
            Kind::True | Kind::False | Kind::Null => {
                self.advance();
                let literal = match kind {
                    Kind::Null => Literal::Null,
                    kind => Literal::Bool(kind == Kind::True),
                };
                self.node(span, 0, Node::Literal(literal))
            }
            Kind::Escaped => self.escaped_variable(span),
            Kind::Invalid => {
                self.advance();
                self.lost = true;
                self.error(span)
            }
            _ => {
                self.unexpected("an expression");
                self.error(span)
            }
        }
    }

    fn escaped_variable(&mut self, span: Span) -> Expr {
        self.advance();
        let found = self.lexer.shown(span);
        let message = format!("expected an expression, found the quoted field name {found}");
        let issue = Issue::new(Code::UnexpectedToken, span, message);
        self.report(issue.help("a name in backticks is allowed only after a dot"));
        self.lost = false;
        self.error(span)
    }

    fn identifier(&mut self, start: u32, rooted: bool) -> Expr {
        let name = self.name();
        // Also before a `{`: otherwise `if {…}` of other languages would be reported as an unknown type.
        if is_reserved(&name.text) {
            let message = format!("`{}` is a reserved word", name.text);
            let issue = Issue::new(Code::ReservedWord, name.span, message);
            // Report each word once.
            self.lost |= self.lexer.issues.iter().any(|known| known.message == issue.message);
            self.report(issue.help("use another name; reserved words are allowed only as field names"));
            self.lost = false;
            if self.at(Kind::OpenParenthesis) {
                let open = self.advance().span;
                self.arguments(open);
            }
            return self.error(self.since(start));
        }
        if self.at(Kind::OpenParenthesis) {
            let text = if rooted { format!(".{}", name.text).into() } else { name.text };
            return self.call(start, Name { text, span: name.span }, None);
        }
        let span = self.since(start);
        self.node(span, 0, Node::Ident { name: name.text, rooted })
    }

    fn call(&mut self, start: u32, function: Name, receiver: Option<Expr>) -> Expr {
        let open = self.advance().span;
        let (arguments, intact) = self.arguments(open);
        self.call_or_macro(start, function, receiver, arguments, intact)
    }

    /// The arguments up to the closing parenthesis, and whether they could all be separated.
    fn arguments(&mut self, open: Span) -> (Vec<Expr>, bool) {
        let mut arguments = Vec::new();
        if self.eat(Kind::CloseParenthesis) {
            return (arguments, true);
        }
        let mut intact = true;
        loop {
            arguments.push(self.expression());
            if !self.item_end(Kind::CloseParenthesis, &mut intact) {
                break;
            }
        }
        let closed = self.close(Kind::CloseParenthesis, open, "`,` or `)`");
        (arguments, intact && closed)
    }

    /// After an element: whether another one follows. Recovers from an error in the element.
    fn item_end(&mut self, close: Kind, intact: &mut bool) -> bool {
        let mut ended = self.at(Kind::Comma) || self.at(close);
        if !ended && !self.at(Kind::End) && !self.lost {
            self.unexpected(&format!("an operator, `,` or {}", close.describe()));
        }
        if self.lost {
            *intact = *intact && ended;
            self.recover();
            ended = true;
        }
        ended && self.eat(Kind::Comma)
    }

    fn list(&mut self) -> Expr {
        let open = self.advance().span;
        let mut items = Vec::new();
        let mut intact = true;
        while !self.at(Kind::CloseBracket) && !self.at(Kind::End) {
            if self.at(Kind::Comma) && items.is_empty() {
                self.advance();
                break;
            }
            let optional = self.eat(Kind::Question);
            let value = self.expression();
            items.push(Item { value, optional });
            if !self.item_end(Kind::CloseBracket, &mut intact) {
                break;
            }
        }
        self.close(Kind::CloseBracket, open, "`,` or `]`");
        let height = self.highest(items.iter().map(|item| &item.value));
        let span = self.since(open.start);
        self.node(span, height, Node::List { items })
    }

    fn map(&mut self) -> Expr {
        let open = self.advance().span;
        let mut entries = Vec::new();
        let (mut intact, mut missing) = (true, false);
        while !self.at(Kind::CloseBrace) && !self.at(Kind::End) {
            if self.at(Kind::Comma) && entries.is_empty() {
                self.advance();
                break;
            }
            let optional = self.eat(Kind::Question);
            let key = self.expression();
            if !self.at(Kind::Colon) {
                // Braces around a list are one error, however many elements it has.
                self.lost |= missing;
                missing = true;
            }
            let value = self.after_colon("`:` and a value after the key");
            entries.push(Entry { key, value, optional });
            if !self.item_end(Kind::CloseBrace, &mut intact) {
                break;
            }
        }
        self.close(Kind::CloseBrace, open, "`,` or `}`");
        let height = self.highest(entries.iter().flat_map(|entry| [&entry.key, &entry.value]));
        let span = self.since(open.start);
        self.node(span, height, Node::Map { entries })
    }

    fn after_colon(&mut self, expected: &str) -> Expr {
        if self.eat(Kind::Colon) {
            return self.expression();
        }
        self.unexpected(expected);
        self.error(self.token.span)
    }

    fn structure(&mut self, start: u32, type_name: Name) -> Expr {
        let open = self.advance().span;
        let mut fields = Vec::new();
        let mut intact = true;
        while !self.at(Kind::CloseBrace) && !self.at(Kind::End) {
            if self.at(Kind::Comma) && fields.is_empty() {
                self.advance();
                break;
            }
            let optional = self.eat(Kind::Question);
            if matches!(self.token.kind, Kind::Identifier | Kind::Escaped) {
                if let Some(name) = self.field_name() {
                    let value = self.after_colon("`:` and a value after the field");
                    fields.push(FieldInit { name, value, optional });
                }
            } else {
                self.unexpected("a field name");
            }
            if !self.item_end(Kind::CloseBrace, &mut intact) {
                break;
            }
        }
        self.close(Kind::CloseBrace, open, "`,` or `}`");
        let height = self.highest(fields.iter().map(|field| &field.value));
        let span = self.since(start);
        self.node(span, height, Node::Struct { type_name, fields })
    }

    /// A number, with the sign before it.
    pub(super) fn number(&mut self, negative: bool) -> Expr {
        let sign = if negative { self.previous_end.saturating_sub(1) } else { self.token.span.start };
        let Token { kind, span } = self.advance();
        let text = self.lexer.text(span);
        let value = match kind {
            Kind::UInt => literal::uint(text),
            Kind::Double => literal::double(text, negative),
            _ => literal::int(text, negative),
        };
        let span = Span::new(sign, span.end);
        if let Some(value) = value {
            return self.node(span, 0, Node::Literal(value));
        }
        // The lexer has reported invalid numbers already.
        if !self.lexer.issues.iter().any(|issue| issue.span.end == span.end) {
            let (range, help) = match kind {
                Kind::UInt => ("an unsigned integer up to 18446744073709551615", "write a smaller number"),
                Kind::Double => ("a double up to 1.7976931348623157e308", "write a smaller number"),
                _ => (
                    "an integer from -9223372036854775808 to 9223372036854775807",
                    "write a smaller number, or a double such as `1e19`",
                ),
            };
            let message = format!("expected {range}, found `{}`", self.lexer.shown(span));
            self.lexer.issues.push(Issue::new(Code::InvalidNumber, span, message).help(help));
        }
        self.error(span)
    }

    fn string(&mut self) -> Expr {
        let Token { kind, span } = self.advance();
        let text = self.lexer.text(span);
        let value = if kind == Kind::Bytes { literal::bytes(text) } else { literal::string(text) };
        match value {
            Ok(value) => self.node(span, 0, Node::Literal(value)),
            Err(InvalidEscape { start, end, message, help }) => {
                let place = |offset: usize| span.start + u32::try_from(offset).unwrap_or(0);
                let at = Span::new(place(start), place(end));
                self.lexer.issues.push(Issue::new(Code::InvalidEscape, at, message).help(help));
                self.error(span)
            }
        }
    }
}

/// `a.b.C` of an identifier and plain selections.
fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.node {
        Node::Ident { name, rooted } => Some(if *rooted { format!(".{name}") } else { name.to_string() }),
        Node::Select { operand, field, access: Access::Plain } => {
            Some(format!("{}.{}", qualified_name(operand)?, field.text))
        }
        _ => None,
    }
}
