//! Parses text into a syntax tree. Errors are collected with their positions; after each error the parser recovers at the
//! next comma or bracket, so that independent errors are all reported and none is reported twice.

mod conditions;
mod lexer;
mod literal;
mod macros;
mod parser;
mod primary;
mod token;

use kross_diagnostics::Code;
use kross_value::Text;

use crate::Span;
use crate::ast::{Ast, Expr, ExprId, Node};
use crate::error::Issue;

pub(crate) use token::{Kind, Token};

/// Limits on the size of an expression. Larger expressions are rejected early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub length: usize,
    /// Nesting depth of nodes and brackets; `a + b + c` has depth 2, `a && b && …` is balanced.
    pub depth: u32,
    /// Nodes in the tree.
    pub nodes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { length: 16 * 1024, depth: 250, nodes: 8 * 1024 }
    }
}

/// A syntax tree and the errors in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The tree, with [`Node::Error`] in place of invalid text.
    pub ast: Ast,
    /// The errors, sorted by position.
    pub issues: Vec<Issue>,
}

/// Parses an expression.
///
/// ```
/// use kross_cel::syntax::{Limits, parse};
///
/// let parsed = parse("items.map(item, item.name)", &Limits::default());
/// assert!(parsed.issues.is_empty());
///
/// let parsed = parse("f(1 +, 2 *)", &Limits::default());
/// assert_eq!(parsed.issues.len(), 2);
/// ```
pub fn parse(source: impl Into<Text>, limits: &Limits) -> Parsed {
    let source = source.into();
    if source.len() > limits.length {
        let span = Span::new(0, u32::try_from(source.len()).unwrap_or(u32::MAX));
        let message =
            format!("the expression has {} bytes, at most {} are allowed", source.len(), limits.length);
        let issue = Issue::new(Code::ExpressionTooLarge, span, message)
            .help("split the expression, for example into several fields or resources");
        let root = Expr { id: ExprId(0), span, node: Node::Error };
        return Parsed { ast: Ast { source, root, nodes: 1 }, issues: vec![issue] };
    }
    let (root, nodes, mut issues) = parser::Parser::new(&source, limits).run();
    issues.sort_by_key(|issue| (issue.span.start, issue.span.end));
    Parsed { ast: Ast { source, root, nodes }, issues }
}

/// The tokens of an expression, without the one for its end. None if one of them is invalid.
pub(crate) fn tokens(source: &str) -> Option<Vec<Token>> {
    let mut lexer = lexer::Lexer::new(source);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next();
        match token.kind {
            Kind::End => return lexer.issues.is_empty().then_some(tokens),
            Kind::Invalid => return None,
            _ => tokens.push(token),
        }
    }
}
