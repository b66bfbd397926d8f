//! The state of the parser, its error recovery, and the operators, by precedence climbing.

use kross_diagnostics::Code;

use super::Limits;
use super::lexer::Lexer;
use super::token::{Kind, Token};
use crate::Span;
use crate::ast::{BinaryOperator, Expr, ExprId, Node, UnaryOperator};
use crate::error::Issue;

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) token: Token,
    /// The end of the last consumed token.
    pub(super) previous_end: u32,
    /// The height of the tree below each node, by [`ExprId`].
    heights: Vec<u32>,
    /// The current nesting depth of brackets and operators.
    depth: u32,
    limits: &'a Limits,
    /// Whether the parser has not recovered from an error yet; until then nothing more is reported.
    pub(super) lost: bool,
    too_large: bool,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, limits: &'a Limits) -> Self {
        let mut lexer = Lexer::new(text);
        let token = lexer.next();
        Self {
            lexer,
            token,
            previous_end: 0,
            heights: Vec::with_capacity(16),
            depth: 0,
            limits,
            lost: false,
            too_large: false,
        }
    }

    /// Parses the whole text: the tree, its number of nodes, and the errors.
    pub(super) fn run(mut self) -> (Expr, u32, Vec<Issue>) {
        if self.token.kind == Kind::End {
            let issue =
                Issue::new(Code::MissingExpression, self.token.span, "expected an expression, found nothing")
                    .help("write an expression, such as `schema.spec.name`");
            self.lexer.issues.push(issue);
            self.lost = true;
        }
        let root = self.expression();
        if self.token.kind != Kind::End {
            self.unexpected_rest();
        }
        let nodes = u32::try_from(self.heights.len()).unwrap_or(u32::MAX);
        (root, nodes, self.lexer.issues)
    }

    fn unexpected_rest(&mut self) {
        let closes =
            matches!(self.token.kind, Kind::CloseParenthesis | Kind::CloseBracket | Kind::CloseBrace);
        if closes && !self.lost {
            let found = self.token.kind.describe();
            let message = format!("unmatched {found}");
            self.report(
                Issue::new(Code::UnbalancedBracket, self.token.span, message).help("remove it").replace(""),
            );
        } else {
            self.unexpected("an operator or the end of the expression");
        }
    }

    pub(super) fn advance(&mut self) -> Token {
        let token = self.token;
        self.previous_end = token.span.end;
        self.token = self.lexer.next();
        token
    }

    pub(super) fn at(&self, kind: Kind) -> bool {
        self.token.kind == kind
    }

    pub(super) fn eat(&mut self, kind: Kind) -> bool {
        let found = self.at(kind);
        if found {
            self.advance();
        }
        found
    }

    /// Reports an error, unless the parser has not recovered from another.
    pub(super) fn report(&mut self, issue: Issue) {
        if !self.lost {
            self.lexer.issues.push(issue);
        }
        self.lost = true;
    }

    /// Reports the current token, unless the lexer has reported it already.
    pub(super) fn unexpected(&mut self, expected: &str) {
        if self.at(Kind::Invalid) {
            self.lost = true;
            return;
        }
        let found = match self.token.kind {
            Kind::End => Kind::End.describe().to_owned(),
            _ => format!("`{}`", self.lexer.shown(self.token.span)),
        };
        let message = format!("expected {expected}, found {found}");
        let issue = Issue::new(Code::UnexpectedToken, self.token.span, message);
        let issue = match self.token.kind {
            Kind::Identifier => match self.lexer.text(self.token.span) {
                "and" => issue.help("did you mean `&&`?").replace("&&"),
                "or" => issue.help("did you mean `||`?").replace("||"),
                "is" => issue.help("did you mean `==`?").replace("=="),
                _ => issue,
            },
            Kind::End if self.token.span.start > 0 => issue.help("complete the expression"),
            _ => issue,
        };
        self.report(issue);
    }

    /// Skips to the next comma of the current list, or to its end.
    pub(super) fn recover(&mut self) {
        let mut open = 0u32;
        loop {
            match self.token.kind {
                Kind::End => return,
                Kind::Comma if open == 0 => break,
                Kind::OpenParenthesis | Kind::OpenBracket | Kind::OpenBrace => open += 1,
                Kind::CloseParenthesis | Kind::CloseBracket | Kind::CloseBrace => {
                    if open == 0 {
                        break;
                    }
                    open -= 1;
                }
                _ => {}
            }
            self.advance();
        }
        self.lost = false;
    }

    /// Consumes the bracket that closes `open`, or reports that it is missing.
    pub(super) fn close(&mut self, kind: Kind, open: Span, expected: &str) -> bool {
        if self.eat(kind) {
            return true;
        }
        if self.at(Kind::End) && !self.too_large {
            let (bracket, closing) = (self.lexer.text(open), kind.describe());
            let message =
                format!("expected {closing} to close this `{bracket}`, found the end of the expression");
            let issue = Issue::new(Code::UnbalancedBracket, open, message);
            self.report(issue.help(format!("add {closing}")));
            return false;
        }
        self.unexpected(expected);
        self.recover();
        // Skip the rest of the list.
        while self.eat(Kind::Comma) {
            self.lost = true;
            self.recover();
        }
        self.eat(kind);
        false
    }

    /// Creates a node whose height is one more than that of its highest child.
    pub(super) fn node(&mut self, span: Span, children: u32, node: Node) -> Expr {
        let height = children + 1;
        let id = ExprId(u32::try_from(self.heights.len()).unwrap_or(u32::MAX));
        self.heights.push(height);
        if height > self.limits.depth {
            self.give_up(
                format!("the expression is nested more than {} levels deep", self.limits.depth),
                span,
            );
            return Expr { id, span, node: Node::Error };
        }
        if id.0 >= self.limits.nodes {
            self.give_up(format!("the expression has more than {} nodes", self.limits.nodes), span);
        }
        Expr { id, span, node }
    }

    pub(super) fn error(&mut self, span: Span) -> Expr {
        self.node(span, 0, Node::Error)
    }

    pub(super) fn height(&self, expr: &Expr) -> u32 {
        self.heights.get(expr.id.0 as usize).copied().unwrap_or(0)
    }

    pub(super) fn highest<'e>(&self, children: impl IntoIterator<Item = &'e Expr>) -> u32 {
        children.into_iter().map(|child| self.height(child)).max().unwrap_or(0)
    }

    /// The span from `start` to the last consumed token.
    pub(super) fn since(&self, start: u32) -> Span {
        Span::new(start, self.previous_end.max(start))
    }

    fn give_up(&mut self, message: String, span: Span) {
        if !self.too_large {
            self.too_large = true;
            let issue = Issue::new(Code::ExpressionTooLarge, span, message)
                .help("split the expression, for example into several fields or resources");
            self.lexer.issues.push(issue);
        }
        self.lost = true;
        self.lexer.stop();
        self.token = self.lexer.next();
    }

    /// Runs `step` one level deeper, unless that exceeds the limit.
    pub(super) fn nested(&mut self, step: impl FnOnce(&mut Self) -> Expr) -> Expr {
        if self.depth >= self.limits.depth {
            let span = self.token.span;
            self.give_up(
                format!("the expression is nested more than {} levels deep", self.limits.depth),
                span,
            );
            return self.error(span);
        }
        self.depth += 1;
        let expr = step(self);
        self.depth -= 1;
        expr
    }

    /// `a ? b : c` and everything that binds tighter.
    pub(super) fn expression(&mut self) -> Expr {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> Expr {
        let start = self.token.span.start;
        let condition = self.logical(Kind::Or);
        if !self.at(Kind::Question) {
            return condition;
        }
        self.advance();
        let inner = self.token.span.start;
        let then = self.logical(Kind::Or);
        if self.at(Kind::Question) && !self.lost {
            return self.nested_conditional(start, inner, condition, then);
        }
        if !self.eat(Kind::Colon) {
            self.unexpected("`:` and the value for the other case");
            return self.error(self.since(start));
        }
        let otherwise = self.expression();
        self.choose(start, condition, then, otherwise)
    }

    fn choose(&mut self, start: u32, condition: Expr, then: Expr, otherwise: Expr) -> Expr {
        let height = self.highest([&condition, &then, &otherwise]);
        let span = self.since(start);
        let node = Node::Conditional {
            condition: Box::new(condition),
            then: Box::new(then),
            otherwise: Box::new(otherwise),
        };
        self.node(span, height, node)
    }

    /// `a ? b ? c : d : e`: reports the missing parentheses, with a fix.
    fn nested_conditional(&mut self, start: u32, inner: u32, condition: Expr, first: Expr) -> Expr {
        self.advance();
        let then = self.expression();
        if !self.eat(Kind::Colon) {
            self.unexpected("`:`");
            return self.error(self.since(start));
        }
        let otherwise = self.expression();
        let span = self.since(inner);
        let text = self.lexer.text(span);
        let issue =
            Issue::new(Code::NestedConditional, span, "a conditional between `?` and `:` needs parentheses");
        self.lexer
            .issues
            .push(issue.help("put the inner conditional in parentheses").replace(format!("({text})")));
        let then = self.choose(inner, first, then, otherwise);
        if !self.eat(Kind::Colon) {
            self.unexpected("`:` and the value for the other case");
            return self.error(self.since(start));
        }
        let otherwise = self.expression();
        self.choose(start, condition, then, otherwise)
    }

    /// Chains of `||` and of `&&` become balanced trees: long ones are common, and their order does not matter.
    fn logical(&mut self, operator: Kind) -> Expr {
        let start = self.token.span.start;
        let first = self.logical_operand(operator);
        if !self.at_logical(operator) {
            return first;
        }
        let mut terms = vec![(start, first)];
        let mut operators = Vec::new();
        while self.at_logical(operator) {
            operators.push(self.advance().span);
            let start = self.token.span.start;
            let term = self.logical_operand(operator);
            terms.push((start, term));
        }
        let end = self.previous_end;
        let kind = if operator == Kind::Or { BinaryOperator::Or } else { BinaryOperator::And };
        self.balance(kind, terms, &operators, end).1
    }

    fn logical_operand(&mut self, operator: Kind) -> Expr {
        if operator == Kind::Or { self.logical(Kind::And) } else { self.binary(0) }
    }

    /// Whether the token is this operator, or its name in other languages, which is reported.
    fn at_logical(&mut self, operator: Kind) -> bool {
        if self.at(Kind::Identifier) && !self.lost {
            let (word, meant) = if operator == Kind::Or { ("or", "||") } else { ("and", "&&") };
            if self.lexer.text(self.token.span) == word {
                let message = format!("unknown operator `{word}`");
                let issue = Issue::new(Code::UnknownOperator, self.token.span, message);
                self.lexer.issues.push(issue.help(format!("did you mean `{meant}`?")).replace(meant));
                self.token.kind = operator;
            }
        }
        self.at(operator)
    }

    fn balance(
        &mut self,
        operator: BinaryOperator,
        mut terms: Vec<(u32, Expr)>,
        operators: &[Span],
        end: u32,
    ) -> (u32, Expr) {
        if terms.len() == 1
            && let Some(term) = terms.pop()
        {
            return term;
        }
        let middle = terms.len().div_ceil(2);
        let rest = terms.split_off(middle);
        let at = operators.get(middle - 1).copied().unwrap_or_default();
        let (start, left) =
            self.balance(operator, terms, operators.get(..middle - 1).unwrap_or(&[]), at.start);
        let (_, right) = self.balance(operator, rest, operators.get(middle..).unwrap_or(&[]), end);
        let height = self.highest([&left, &right]);
        let node = Node::Binary { operator, operator_span: at, left: Box::new(left), right: Box::new(right) };
        (start, self.node(Span::new(start, end), height, node))
    }

    /// Relations and arithmetic, from the given precedence upwards.
    fn binary(&mut self, least: u8) -> Expr {
        let start = self.token.span.start;
        let mut left = self.unary();
        while let Some((operator, precedence)) = infix(self.token.kind) {
            if precedence < least {
                break;
            }
            let operator_span = self.advance().span;
            let right = self.nested(|parser| parser.binary(precedence + 1));
            let height = self.highest([&left, &right]);
            let span = self.since(start);
            let node = Node::Binary { operator, operator_span, left: Box::new(left), right: Box::new(right) };
            left = self.node(span, height, node);
        }
        left
    }

    fn unary(&mut self) -> Expr {
        let start = self.token.span.start;
        let (kind, operator) = match self.token.kind {
            Kind::Minus => (Kind::Minus, UnaryOperator::Negate),
            Kind::Exclamation => (Kind::Exclamation, UnaryOperator::Not),
            _ => return self.member(start),
        };
        let mut count = 0u32;
        while self.at(kind) {
            self.advance();
            count += 1;
        }
        // The sign is part of a number, so that the smallest integer can be written.
        if kind == Kind::Minus && matches!(self.token.kind, Kind::Int | Kind::Double) {
            count -= 1;
            let number = self.number(true);
            let number_start = number.span.start;
            let operand = self.member_of(number_start, number);
            return self.prefix(start, operator, count, operand);
        }
        let operand = match self.token.kind {
            // Only the sign of a number may follow the other prefix.
            Kind::Minus if self.lexer.is_at_number() => {
                self.advance();
                let number = self.number(true);
                self.member_of(number.span.start, number)
            }
            Kind::Minus | Kind::Exclamation => {
                let prefix = operator.symbol();
                self.unexpected(&format!("a value or parentheses after `{prefix}`"));
                self.nested(Self::unary);
                return self.error(self.since(start));
            }
            _ => self.member(self.token.span.start),
        };
        self.prefix(start, operator, count, operand)
    }

    /// Two equal prefix operators cancel each other, as in cel-go.
    fn prefix(&mut self, start: u32, operator: UnaryOperator, count: u32, operand: Expr) -> Expr {
        if count.is_multiple_of(2) {
            return operand;
        }
        let height = self.height(&operand);
        let span = self.since(start);
        self.node(span, height, Node::Unary { operator, operand: Box::new(operand) })
    }
}

/// The infix operator and its precedence.
fn infix(kind: Kind) -> Option<(BinaryOperator, u8)> {
    Some(match kind {
        Kind::Equal => (BinaryOperator::Equal, 0),
        Kind::NotEqual => (BinaryOperator::NotEqual, 0),
        Kind::Less => (BinaryOperator::Less, 0),
        Kind::LessOrEqual => (BinaryOperator::LessOrEqual, 0),
        Kind::Greater => (BinaryOperator::Greater, 0),
        Kind::GreaterOrEqual => (BinaryOperator::GreaterOrEqual, 0),
        Kind::In => (BinaryOperator::In, 0),
        Kind::Plus => (BinaryOperator::Add, 1),
        Kind::Minus => (BinaryOperator::Subtract, 1),
        Kind::Star => (BinaryOperator::Multiply, 2),
        Kind::Slash => (BinaryOperator::Divide, 2),
        Kind::Percent => (BinaryOperator::Modulo, 2),
        _ => return None,
    })
}
