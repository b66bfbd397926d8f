//! The colours of the text inside `${…}`: what each name stands for, operators, strings and numbers.

use std::ops::Range;

use gen_lsp_types::SemanticToken;
use kross_cel::Span;
use kross_cel::ast::{Expr, Literal, Node};
use kross_graph::is_definition;

use crate::embedded::Embedded;
use crate::origin::Named;
use crate::symbols::Definition;
use crate::text::Text;
use crate::workspace::Workspace;

/// The names of the token types, in the order of their numbers.
pub const TOKEN_TYPES: [&str; 7] =
    ["variable", "parameter", "property", "function", "operator", "string", "number"];

/// The names of the token modifiers, in the order of their bits.
pub const TOKEN_MODIFIERS: [&str; 2] = ["declaration", "readonly"];

const VARIABLE: u32 = 0;
const PARAMETER: u32 = 1;
const PROPERTY: u32 = 2;
const FUNCTION: u32 = 3;
const OPERATOR: u32 = 4;
const STRING: u32 = 5;
const NUMBER: u32 = 6;

/// A coloured range of a file.
#[derive(Clone, Debug)]
struct Token {
    bytes: Range<usize>,
    kind: u32,
    modifiers: u32,
}

impl Workspace {
    /// The tokens of a file, each relative to the one before it.
    #[must_use]
    pub fn semantic_tokens(&self, uri: &str) -> Vec<SemanticToken> {
        let Some(file) = self.file(uri) else { return Vec::new() };
        let mut tokens = Vec::new();
        for parsed in file.parsed.documents.iter().filter(|parsed| is_definition(&parsed.document)) {
            let definition = Definition::new(&parsed.document);
            for expression in &definition.expressions {
                of_expression(&definition, expression, &mut tokens);
            }
        }
        encode(&file.text, tokens)
    }
}

fn of_expression(definition: &Definition<'_>, expression: &Embedded, tokens: &mut Vec<Token>) {
    let document = definition.document;
    let mut add = |span: Span, kind: u32, modifiers: u32| {
        tokens.push(Token { bytes: expression.bytes(document, span), kind, modifiers });
    };
    let mut named: Vec<Span> = Vec::new();
    for mention in definition.resolve(expression).mentions {
        let (kind, modifiers) = match &mention.named {
            Named::Resource(_) => (VARIABLE, 2),
            Named::Field(..) => (PROPERTY, 0),
            Named::Axis(_) => (PARAMETER, 0),
            Named::Local(span) => (PARAMETER, u32::from(*span == mention.span)),
        };
        named.push(mention.span);
        add(mention.span, kind, modifiers);
    }
    syntax(&expression.ast.root, &mut |span, kind| {
        if !named.contains(&span) {
            add(span, kind, 0);
        }
    });
}

/// The tokens that need no names to be resolved.
fn syntax(expr: &Expr, add: &mut dyn FnMut(Span, u32)) {
    match &expr.node {
        Node::Literal(Literal::String(_) | Literal::Bytes(_)) => add(expr.span, STRING),
        Node::Literal(Literal::Int(_) | Literal::UInt(_) | Literal::Double(_)) => add(expr.span, NUMBER),
        Node::Ident { .. } => add(expr.span, VARIABLE),
        Node::Select { field, .. } => add(field.span, PROPERTY),
        Node::Call { function, .. } => add(function.span, FUNCTION),
        Node::Binary { operator_span, .. } => add(*operator_span, OPERATOR),
        Node::Comprehension(comprehension) => add(comprehension.name.span, FUNCTION),
        _ => {}
    }
    expr.children().into_iter().for_each(|child| syntax(child, add));
}

/// Sorts the tokens, drops those that overlap, and splits those of several lines.
fn encode(text: &Text, mut tokens: Vec<Token>) -> Vec<SemanticToken> {
    tokens.sort_by_key(|token| (token.bytes.start, token.bytes.end));
    let (mut line, mut column) = (0, 0);
    let mut encoded = Vec::new();
    let mut end = 0;
    for token in tokens.iter().flat_map(|token| lines(text, token)) {
        if token.bytes.start < end || token.bytes.is_empty() {
            continue;
        }
        end = token.bytes.end;
        let range = text.range(token.bytes);
        let delta_line = range.start.line - line;
        let delta_start =
            if delta_line == 0 { range.start.character - column } else { range.start.character };
        (line, column) = (range.start.line, range.start.character);
        encoded.push(SemanticToken {
            delta_line,
            delta_start,
            length: range.end.character.saturating_sub(range.start.character),
            token_type: token.kind,
            token_modifiers_bitset: token.modifiers,
        });
    }
    encoded
}

/// The parts of a token on each line.
fn lines(text: &Text, token: &Token) -> Vec<Token> {
    let (first, last) = (text.line_of(token.bytes.start), text.line_of(token.bytes.end));
    if first == last {
        return vec![token.clone()];
    }
    let part = |line: usize| {
        let whole = text.line_range(line);
        let start = token.bytes.start.max(whole.start);
        Token { bytes: start..token.bytes.end.min(whole.end).max(start), ..token.clone() }
    };
    (first..=last).map(part).collect()
}
