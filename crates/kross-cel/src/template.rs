//! Splits a string of a template into literal parts and `${…}` expressions, with byte ranges into the string. It knows the
//! lexical structure of CEL (quotes, prefixes, comments, braces), but not its grammar.
//!
//! kro's scanner recognizes only double quotes, so a brace between single quotes ends the expression early there; here
//! braces in any string literal are skipped. An expression that ends in a comment on its last line (`${a // why}`) is
//! closed by the first matching brace in the comment, as in kro. A `${` that is never closed is literal text, as in kro,
//! with a warning.

mod expression;

use std::ops::Range;

use expression::{End, Walk};
use kross_diagnostics::Code;

/// A part of a scanned string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScannedPart {
    /// Literal text.
    Literal(Range<usize>),
    /// An expression.
    Expression {
        /// From `${` to `}`.
        outer: Range<usize>,
        /// The text between them, including whitespace.
        inner: Range<usize>,
    },
}

impl ScannedPart {
    /// The part's range in the string, delimiters included.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        match self {
            Self::Literal(range) => range.clone(),
            Self::Expression { outer, .. } => outer.clone(),
        }
    }
}

/// An invalid `${…}`. It is part of the surrounding literal text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanProblem {
    /// The kind of error.
    pub code: Code,
    /// The invalid text.
    pub range: Range<usize>,
    /// One sentence.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

/// The parts of a string.
///
/// # Guarantees
///
/// The parts cover the string without gaps; no two literal parts are adjacent; none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The parts, in order.
    pub parts: Vec<ScannedPart>,
    /// Every error in it, sorted by position.
    pub problems: Vec<ScanProblem>,
}

impl Scan {
    /// Whether the string is exactly one expression, so that its value replaces the string and keeps its type. With a
    /// trailing line break, as from YAML's `|`, it is a string that contains an expression.
    #[must_use]
    pub fn is_standalone(&self) -> bool {
        matches!(self.parts.as_slice(), [ScannedPart::Expression { .. }])
    }

    /// Whether the string has expressions.
    #[must_use]
    pub fn has_expressions(&self) -> bool {
        self.expressions().next().is_some()
    }

    /// The ranges of the text between `${` and `}`, in order.
    pub fn expressions(&self) -> impl Iterator<Item = Range<usize>> {
        self.parts.iter().filter_map(|part| match part {
            ScannedPart::Expression { inner, .. } => Some(inner.clone()),
            ScannedPart::Literal(_) => None,
        })
    }
}

/// Splits a string into literal parts and expressions, in time linear in its length.
///
/// ```
/// use kross_cel::template::{ScannedPart, scan};
///
/// let text = "hello-${schema.spec.name}";
/// let scan = scan(text);
/// assert_eq!(scan.parts, [ScannedPart::Literal(0..6), ScannedPart::Expression { outer: 6..25, inner: 8..24 }]);
/// assert!(scan.problems.is_empty() && !scan.is_standalone());
/// ```
#[must_use]
pub fn scan(text: &str) -> Scan {
    let mut scanner =
        Scanner { text, scan: Scan::default(), literal: 0, at: 0, budget: text.len() * 8 + 1024 };
    while let Some(found) = text.get(scanner.at..).and_then(|rest| rest.find("${")) {
        scanner.expression(scanner.at + found);
    }
    scanner.finish()
}

struct Scanner<'a> {
    text: &'a str,
    scan: Scan,
    /// The start of the current literal part.
    literal: usize,
    /// The position from which to search the next `${`.
    at: usize,
    /// Bytes that may still be read: text after an error is read again, which must stay linear.
    budget: usize,
}

impl Scanner<'_> {
    fn expression(&mut self, start: usize) {
        let Walk { end, reached } = expression::walk(self.text, start + 2);
        self.budget = self.budget.saturating_sub(reached - start);
        match end {
            End::Closed { at, nested } => self.closed(start, at, nested),
            End::ClosedInComment { at } if self.budget > 0 => self.closed(start, at, None),
            End::ClosedInComment { at } => self.open_before(start, at),
            End::Open { nested: Some(nested) } => self.open_before(start, nested),
            End::Open { nested: None } => self.open(start),
            End::OpenString { quote, resume } => {
                self.at = resume;
                self.open_string(quote);
            }
        }
    }

    fn closed(&mut self, start: usize, brace: usize, nested: Option<usize>) {
        self.at = brace + 1;
        let inner = start + 2..brace;
        if let Some(nested) = nested {
            self.problem(
                Code::NestedExpression,
                nested..nested + 2,
                "`${` is not allowed inside an expression",
                "remove the inner `${` and `}`; to write a literal `${`, put it in quotes",
            );
        } else if self.text.get(inner.clone()).is_some_and(|inner| inner.trim().is_empty()) {
            self.problem(
                Code::EmptyExpression,
                start..brace + 1,
                "the expression is empty",
                "write a CEL expression between `${` and `}`, such as `${schema.spec.name}`",
            );
        } else {
            if self.literal < start {
                self.scan.parts.push(ScannedPart::Literal(self.literal..start));
            }
            self.scan.parts.push(ScannedPart::Expression { outer: start..brace + 1, inner });
            self.literal = brace + 1;
        }
    }

    /// An expression that is never closed is literal text, as in kro.
    fn open(&mut self, start: usize) {
        self.at = self.text.len();
        self.problem(
            Code::UnterminatedExpression,
            start..start + 2,
            "`${` is never closed and is treated as text",
            "close the expression with `}`; to write a literal `${`, use `${\"${\"}`",
        );
    }

    fn open_before(&mut self, start: usize, next: usize) {
        // The next `${` may be closed; it is read again as if this one were text.
        self.at = if self.budget > 0 { next } else { self.text.len() };
        self.problem(
            Code::NestedExpression,
            start..start + 2,
            "`${` is not closed before the next `${`",
            "close the expression with `}`; to write a literal `${`, use `${\"${\"}`",
        );
    }

    fn open_string(&mut self, quote: Range<usize>) {
        let mark = self.text.get(quote.clone()).unwrap_or_default();
        let message = format!("the string that begins with `{mark}` is never closed");
        let help = if mark.ends_with("'''") || mark.ends_with("\"\"\"") {
            format!("close it with `{}`", mark.trim_start_matches(char::is_alphabetic))
        } else {
            let closing = mark.trim_start_matches(char::is_alphabetic);
            format!("close it with `{closing}` on the same line, or use `\"\"\"` for a multi-line string")
        };
        self.problem(Code::UnterminatedString, quote, message, help);
    }

    fn problem(
        &mut self,
        code: Code,
        range: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.scan.problems.push(ScanProblem { code, range, message: message.into(), help: help.into() });
    }

    fn finish(mut self) -> Scan {
        if self.literal < self.text.len() {
            self.scan.parts.push(ScannedPart::Literal(self.literal..self.text.len()));
        }
        self.scan
    }
}
