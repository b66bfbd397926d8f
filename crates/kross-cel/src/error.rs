//! What goes wrong: [`Issue`]s when an expression is parsed and checked, [`EvalError`]s when it runs. "Not there yet"
//! is a kind of its own, so that nobody has to look for words in a message.

use std::borrow::Cow;
use std::fmt;

use kross_diagnostics::Code;

use crate::Span;
use crate::value::Value;

/// A mistake in an expression's text, with a place relative to the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// What kind of mistake.
    pub code: Code,
    /// Where.
    pub span: Span,
    /// One sentence, lower case, without a final period; says what was expected and what was found.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The text to put in place of `span`, where it is known.
    pub replacement: Option<String>,
}

/// A piece of the author's text in one short line, as a message shows it.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 60;
    if text.len() <= LONGEST && !text.contains(['\n', '\r']) {
        return Cow::Borrowed(text);
    }
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{}…", line.get(..end).unwrap_or(""))),
        None => Cow::Owned(line),
    }
}

impl Issue {
    /// A mistake without advice.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { code, span, message: message.into(), help: None, replacement: None }
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Gives the corrected text.
    #[must_use]
    pub fn replace(mut self, text: impl Into<String>) -> Self {
        self.replacement = Some(text.into());
        self
    }
}

/// Why an evaluation failed, without a place: what functions of the library return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A map has no such key. Of an observed object: not there yet.
    NoSuchKey {
        /// The key, as it would be written.
        key: String,
        /// Keys that are there, a few at most.
        available: Vec<String>,
    },
    /// An object has no such field. Of an observed object: not there yet.
    NoSuchField {
        /// The field.
        field: String,
        /// Fields that are there, a few at most.
        available: Vec<String>,
    },
    /// A list is too short. Of an observed object: not there yet.
    IndexOutOfBounds {
        /// The index.
        index: i64,
        /// How long the list is.
        length: usize,
    },
    /// A variable has no value. Of a resource: not observed yet.
    NoSuchVariable(String),
    /// No overload of the function takes these values.
    NoSuchOverload {
        /// The function or operator.
        function: String,
        /// The types found.
        arguments: Vec<String>,
    },
    /// A number does not fit its type.
    Overflow(String),
    /// Division or modulo by zero.
    DivisionByZero,
    /// A function refused its arguments; the text says which and why.
    InvalidArgument(String),
    /// A value is not of the type that the place needs.
    WrongType {
        /// What the place needs.
        expected: String,
        /// What was found.
        found: String,
    },
    /// The cost budget is used up.
    BudgetExceeded,
    /// The caller withdrew.
    Cancelled,
}

impl Fault {
    /// A refusal with its reason.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::InvalidArgument(reason.into())
    }

    /// A call for which no overload takes the values.
    #[cold]
    pub fn no_such_overload(function: &str, arguments: &[Value]) -> Self {
        Self::NoSuchOverload {
            function: function.to_owned(),
            arguments: arguments.iter().map(|argument| argument.type_name().to_owned()).collect(),
        }
    }

    /// Whether the data is merely not there yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::NoSuchKey { .. }
                | Self::NoSuchField { .. }
                | Self::IndexOutOfBounds { .. }
                | Self::NoSuchVariable(_)
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchKey { key, available } => {
                write!(f, "no such key: {key}")?;
                write_available(available, f)
            }
            Self::NoSuchField { field, available } => {
                write!(f, "no such field: {field}")?;
                write_available(available, f)
            }
            Self::IndexOutOfBounds { index, length } => {
                write!(f, "index out of bounds: {index} in a list of {length}")
            }
            Self::NoSuchVariable(name) => write!(f, "no such attribute: {name}"),
            Self::NoSuchOverload { function, arguments } => {
                write!(f, "no such overload: {function} for ({})", arguments.join(", "))
            }
            Self::Overflow(what) => write!(f, "{what} overflows"),
            Self::DivisionByZero => f.write_str("division by zero"),
            Self::InvalidArgument(reason) => f.write_str(reason),
            Self::WrongType { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::BudgetExceeded => f.write_str("the expression costs more than its budget allows"),
            Self::Cancelled => f.write_str("the evaluation was cancelled"),
        }
    }
}

fn write_available(available: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if available.is_empty() { Ok(()) } else { write!(f, " (there are: {})", available.join(", ")) }
}

impl std::error::Error for Fault {}

/// Why an evaluation failed, and where in the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    /// Why.
    pub fault: Fault,
    /// Where.
    pub span: Span,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for EvalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.fault)
    }
}
