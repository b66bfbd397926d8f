//! Turns a string of a template into its literal parts and its `${…}` expressions, with byte ranges into the string.
//! Knows the lexical shape of CEL (quotes, prefixes, comments, braces), nothing of its grammar.
//!
//! kro's scanner takes double quotes alone for quotes, so a brace between single quotes ends the expression early
//! there; here any string literal of the language hides its braces. An expression that ends in a comment on its last
//! line (`${a // why}`) is closed by the first brace of the comment that fits, as in kro. A `${` that is never closed is
//! text, as in kro, and warned of.

mod expression;

use std::ops::Range;

use expression::{End, Walk};
use kross_diagnostics::{Code, Diagnostic};

/// A piece of a scanned string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text that is kept as it is.
    Literal(Range<usize>),
    /// Text that is evaluated.
    Expression {
        /// From `${` to `}`.
        outer: Range<usize>,
        /// What is between them, blanks included.
        inner: Range<usize>,
    },
}

impl Part {
    /// The part's range in the string, delimiters included.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        match self {
            Self::Literal(range) => range.clone(),
            Self::Expression { outer, .. } => outer.clone(),
        }
    }
}

/// A `${…}` that cannot be an expression. It stays in the literal part around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of mistake it is.
    pub code: Code,
    /// The text at fault.
    pub range: Range<usize>,
    /// One sentence.
    pub message: String,
    /// What to type instead.
    pub help: String,
}

impl Problem {
    /// The problem as a diagnostic that has no place yet.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::new(self.code, self.message.clone()).help(self.help.clone())
    }
}

/// What a string is made of.
///
/// # Guarantees
///
/// The parts follow each other without gaps and cover the string; no two literal parts are neighbours; none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The pieces in the order of the text.
    pub parts: Vec<Part>,
    /// Every mistake in it, in the order of the text.
    pub problems: Vec<Problem>,
}

impl Scan {
    /// Whether the string is exactly one expression, so that its value replaces the string and keeps its type. A line
    /// break after it, as YAML's `|` leaves one, makes the string a text with an expression in it.
    #[must_use]
    pub fn is_standalone(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Expression { .. }])
    }

    /// Whether anything in the string is evaluated.
    #[must_use]
    pub fn has_expressions(&self) -> bool {
        self.expressions().next().is_some()
    }

    /// The ranges of what is between `${` and `}`, in the order of the text.
    pub fn expressions(&self) -> impl Iterator<Item = Range<usize>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Expression { inner, .. } => Some(inner.clone()),
            Part::Literal(_) => None,
        })
    }
}

/// Splits a string into literal parts and expressions, in time linear in its length.
///
/// ```
/// use kross_cel::template::{Part, scan};
///
/// let text = "hello-${schema.spec.name}";
/// let scan = scan(text);
/// assert_eq!(scan.parts, [Part::Literal(0..6), Part::Expression { outer: 6..25, inner: 8..24 }]);
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
    /// Where the literal part that is being gathered begins.
    literal: usize,
    /// Where to look for the next `${`.
    at: usize,
    /// Bytes that may still be read: text after a mistake is read again, which must not happen without end.
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
                "`${` cannot stand inside an expression",
                "use the name or expression directly, without `${` and `}` of its own; a literal `${` goes in quotes",
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
                self.scan.parts.push(Part::Literal(self.literal..start));
            }
            self.scan.parts.push(Part::Expression { outer: start..brace + 1, inner });
            self.literal = brace + 1;
        }
    }

    /// As in kro, what is never closed is text.
    fn open(&mut self, start: usize) {
        self.at = self.text.len();
        self.problem(
            Code::UnterminatedExpression,
            start..start + 2,
            "`${` is never closed, so it is text",
            "close the expression with `}`; if text is meant, write `${\"${\"}`",
        );
    }

    fn open_before(&mut self, start: usize, next: usize) {
        // The next `${` may well be closed; it is read again as if this one were text.
        self.at = if self.budget > 0 { next } else { self.text.len() };
        self.problem(
            Code::NestedExpression,
            start..start + 2,
            "`${` is not closed before the next one",
            "close the expression with `}`; for the text `${` itself write `${\"${\"}`",
        );
    }

    fn open_string(&mut self, quote: Range<usize>) {
        let mark = self.text.get(quote.clone()).unwrap_or_default();
        let message = format!("the string that begins with `{mark}` is never closed");
        let help = if mark.ends_with("'''") || mark.ends_with("\"\"\"") {
            format!("close it with `{}`", mark.trim_start_matches(char::is_alphabetic))
        } else {
            let closing = mark.trim_start_matches(char::is_alphabetic);
            format!(
                "close it with `{closing}` on the same line; between `\"\"\"` a string may have several lines"
            )
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
        self.scan.problems.push(Problem { code, range, message: message.into(), help: help.into() });
    }

    fn finish(mut self) -> Scan {
        if self.literal < self.text.len() {
            self.scan.parts.push(Part::Literal(self.literal..self.text.len()));
        }
        self.scan
    }
}
