//! Formats expressions: one space around binary operators and after commas, none inside brackets. The author's line breaks,
//! indentation, comments and parentheses are kept, and the tokens never change.

use crate::syntax::{Kind, Limits, Token, parse, tokens};
use crate::template::{ScannedPart, scan};

/// Formats one expression. None if it has syntax errors.
///
/// ```
/// use kross_cel::format::expression;
///
/// assert_eq!(expression("a+b*( -1 )").as_deref(), Some("a + b * (-1)"));
/// assert_eq!(expression("x.?y . orValue( [1,2] )").as_deref(), Some("x.?y.orValue([1, 2])"));
/// assert_eq!(expression("a ?b:{'k' :1}").as_deref(), Some("a ? b : {'k': 1}"));
/// assert_eq!(expression("a +"), None);
/// ```
#[must_use]
pub fn expression(text: &str) -> Option<String> {
    if !parse(text, &Limits::default()).issues.is_empty() {
        return None;
    }
    let before = tokens(text)?;
    let formatted = Printer::new(text).print(&before);
    let after = tokens(&formatted)?;
    let same = before.len() == after.len()
        && before.iter().zip(&after).all(|(old, new)| {
            old.kind == new.kind && text.get(old.span.range()) == formatted.get(new.span.range())
        });
    same.then_some(formatted)
}

/// Formats every `${…}` of a string. Text outside of them, and expressions with syntax errors, stay as they are.
///
/// ```
/// use kross_cel::format::template;
///
/// assert_eq!(template("http://${ a.name }:${port+1}/"), "http://${a.name}:${port + 1}/");
/// assert_eq!(template("${a +}"), "${a +}");
/// ```
#[must_use]
pub fn template(text: &str) -> String {
    let mut formatted = String::with_capacity(text.len());
    for part in scan(text).parts {
        let whole = text.get(part.range()).unwrap_or_default();
        let inner = match &part {
            ScannedPart::Literal(_) => None,
            ScannedPart::Expression { inner, .. } => text.get(inner.clone()).and_then(expression),
        };
        match inner {
            Some(inner) => {
                formatted.push_str("${");
                formatted.push_str(&inner);
                formatted.push('}');
            }
            None => formatted.push_str(whole),
        }
    }
    formatted
}

/// How a token is used, where its kind alone does not say it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A name or a literal, or a closing bracket: what an operator can follow.
    Operand,
    Binary,
    Unary,
    /// The `?` of an optional field, index or entry.
    Optional,
    MapColon,
    Comma,
    Dot,
    Open,
    Close,
}

struct Printer<'t> {
    text: &'t str,
    out: String,
    /// For each open bracket, how many `?` still wait for their `:`.
    conditions: Vec<u32>,
}

impl<'t> Printer<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, out: String::with_capacity(text.len()), conditions: vec![0] }
    }

    fn print(mut self, tokens: &[Token]) -> String {
        let mut previous: Option<(Role, Kind)> = None;
        let mut end = 0;
        for token in tokens {
            let role = self.role(token.kind, previous);
            let range = token.span.range();
            let gap = self.text.get(end..range.start).unwrap_or_default();
            if !self.keep_lines(gap, previous.is_some())
                && previous.is_some_and(|(left, _)| spaced(left, role))
            {
                self.out.push(' ');
            }
            self.out.push_str(self.text.get(range.clone()).unwrap_or_default());
            end = range.end;
            previous = Some((role, token.kind));
        }
        let rest = self.text.get(end..).unwrap_or_default();
        self.keep_lines(rest, true);
        self.out
    }

    /// Writes the line breaks and comments between two tokens; false if there are none.
    fn keep_lines(&mut self, gap: &str, follows: bool) -> bool {
        if !gap.contains(['\n', '/']) {
            return false;
        }
        let mut blank = 0;
        let mut lines = gap.split('\n').peekable();
        let mut is_first = true;
        while let Some(line) = lines.next() {
            let is_last = lines.peek().is_none();
            let content = line.trim();
            if is_first {
                if !content.is_empty() {
                    self.out.push_str(if follows { " " } else { "" });
                    self.out.push_str(content);
                }
            } else if content.is_empty() && !is_last {
                blank += 1;
                if blank == 1 {
                    self.out.push('\n');
                }
            } else {
                blank = 0;
                self.out.push('\n');
                let indentation = line.len() - line.trim_start().len();
                self.out.push_str(line.get(..indentation).unwrap_or_default().trim_end_matches('\r'));
                self.out.push_str(content);
            }
            is_first = false;
        }
        true
    }

    fn role(&mut self, kind: Kind, previous: Option<(Role, Kind)>) -> Role {
        let after_operand = previous.is_some_and(|(role, _)| matches!(role, Role::Operand | Role::Close));
        match kind {
            Kind::OpenParenthesis | Kind::OpenBracket | Kind::OpenBrace => {
                self.conditions.push(0);
                Role::Open
            }
            Kind::CloseParenthesis | Kind::CloseBracket | Kind::CloseBrace => {
                self.conditions.pop();
                Role::Close
            }
            Kind::Comma => Role::Comma,
            Kind::Dot => Role::Dot,
            Kind::Question if after_operand => {
                if let Some(open) = self.conditions.last_mut() {
                    *open += 1;
                }
                Role::Binary
            }
            Kind::Question => Role::Optional,
            Kind::Colon => match self.conditions.last_mut() {
                Some(open) if *open > 0 => {
                    *open -= 1;
                    Role::Binary
                }
                _ => Role::MapColon,
            },
            Kind::Exclamation => Role::Unary,
            Kind::Minus if !after_operand => Role::Unary,
            Kind::Or
            | Kind::And
            | Kind::Equal
            | Kind::NotEqual
            | Kind::Less
            | Kind::LessOrEqual
            | Kind::Greater
            | Kind::GreaterOrEqual
            | Kind::Plus
            | Kind::Minus
            | Kind::Star
            | Kind::Slash
            | Kind::Percent => Role::Binary,
            Kind::In if after_operand => Role::Binary,
            _ => Role::Operand,
        }
    }
}

/// Whether a space separates two neighbouring tokens.
fn spaced(left: Role, right: Role) -> bool {
    match (left, right) {
        (_, Role::Comma | Role::MapColon | Role::Close)
        | (Role::Open | Role::Unary | Role::Optional | Role::Dot, _) => false,
        (Role::Binary | Role::Comma | Role::MapColon, _) | (_, Role::Binary) => true,
        // A call, an index, a message; a field.
        (_, Role::Open | Role::Dot | Role::Optional) => false,
        (Role::Operand | Role::Close, Role::Operand | Role::Unary) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{expression, template};

    #[test]
    fn operators_get_spaces_and_brackets_get_none() {
        for (written, formatted) in [
            ("a", "a"),
            (" a ", "a"),
            ("a&&!b||c", "a && !b || c"),
            ("a- -1", "a - -1"),
            ("a-1", "a - 1"),
            ("( a )[ 0 ]", "(a)[0]"),
            ("(a)-1", "(a) - 1"),
            ("x in[1,2]", "x in [1, 2]"),
            ("a.b . c( 1 ,2 )", "a.b.c(1, 2)"),
            ("a[ ?0 ].?b", "a[?0].?b"),
            ("{ ?'a':b , 'c' : d }", "{?'a': b, 'c': d}"),
            ("[ ?a,?b ]", "[?a, ?b]"),
            ("a?1:b?2:3", "a ? 1 : b ? 2 : 3"),
            ("a?(b?1:2):3", "a ? (b ? 1 : 2) : 3"),
            ("{'a':x?1:2}", "{'a': x ? 1 : 2}"),
            ("x.map( v,v!=\"a  b\" )", "x.map(v, v != \"a  b\")"),
            ("-x", "-x"),
            ("!( a )", "!(a)"),
            ("((a))", "((a))"),
            ("r'\\d'+b'x'", "r'\\d' + b'x'"),
            (".a.b", ".a.b"),
            ("a<=b", "a <= b"),
            ("7%2==1", "7 % 2 == 1"),
        ] {
            assert_eq!(expression(written).as_deref(), Some(formatted), "{written}");
            assert_eq!(expression(formatted).as_deref(), Some(formatted), "{formatted}");
        }
    }

    #[test]
    fn line_breaks_and_comments_are_kept() {
        for (written, formatted) in [
            ("\n  a&&  // first\n    b  \n", "\n  a && // first\n    b\n"),
            ("a // why", "a // why"),
            ("// all\na+b", "// all\na + b"),
            ("a +\n\n\n\n b", "a +\n\n b"),
            ("f(\n  x,\n  y\n)", "f(\n  x,\n  y\n)"),
        ] {
            assert_eq!(expression(written).as_deref(), Some(formatted), "{written:?}");
            assert_eq!(expression(formatted).as_deref(), Some(formatted), "{formatted:?}");
        }
    }

    #[test]
    fn text_and_invalid_expressions_are_kept() {
        assert_eq!(template("a ${ b } $c ${d"), "a ${b} $c ${d");
        assert_eq!(template("${ b + } ${c+d}"), "${ b + } ${c + d}");
        assert_eq!(template("${a == \"}\"}"), "${a == \"}\"}");
    }
}
