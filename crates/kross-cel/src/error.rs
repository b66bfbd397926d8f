//! Errors: [`Issue`]s of parsing and checking, [`EvalError`]s of evaluation. Data that does not exist yet is an error of
//! its own, so that callers need not match message text.

use std::borrow::Cow;
use std::fmt;

use kross_diagnostics::Code;

use crate::Span;
use crate::value::Value;

/// An error in an expression's text, with its position in the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The kind of error.
    pub code: Code,
    /// The position.
    pub span: Span,
    /// One sentence, lower case, without a final period.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The text to replace `span` with, if it is known.
    pub replacement: Option<String>,
}

/// The author's text, shortened to one line for a message.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    const MAX_LENGTH: usize = 60;
    if text.len() <= MAX_LENGTH && !text.contains(['\n', '\r']) {
        return Cow::Borrowed(text);
    }
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => Cow::Owned(format!("{}…", line.get(..end).unwrap_or(""))),
        None => Cow::Owned(line),
    }
}

impl Issue {
    /// An issue without help.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { code, span, message: message.into(), help: None, replacement: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Adds the corrected text.
    #[must_use]
    pub fn replace(mut self, text: impl Into<String>) -> Self {
        self.replacement = Some(text.into());
        self
    }
}

/// Why an evaluation failed, without a position: the error of library functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A map has no such key. In an observed object it may still appear.
    NoSuchKey {
        /// The key, as a literal; none if it must not be shown.
        key: Option<String>,
        /// The first few existing keys.
        available: Vec<String>,
    },
    /// An object has no such field. In an observed object it may still appear.
    NoSuchField {
        /// The field.
        field: String,
        /// The first few existing fields.
        available: Vec<String>,
    },
    /// A list is too short. In an observed object the item may still appear.
    IndexOutOfBounds {
        /// The index; none if it must not be shown.
        index: Option<i64>,
        /// The length of the list.
        length: usize,
    },
    /// A variable has no value. A resource may not be observed yet.
    NoSuchVariable(String),
    /// No overload of the function accepts these values.
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
    /// A function rejected its arguments; the text says which and why.
    InvalidArgument(String),
    /// A value has the wrong type.
    WrongType {
        /// The required type.
        expected: String,
        /// The actual type.
        found: String,
    },
    /// The cost budget is exhausted.
    BudgetExceeded,
    /// More memory was allocated than the budget allows.
    OutOfMemory,
    /// The caller cancelled the evaluation.
    Cancelled,
}

/// A string in a message: only its size, because a value may come from a Secret and messages reach status, Events and logs.
pub(crate) fn sized(text: &str) -> String {
    match text.chars().count() {
        1 => "a string of 1 character".to_owned(),
        count => format!("a string of {count} characters"),
    }
}

impl Fault {
    /// An invalid argument, with the reason. The reason must not contain values: see [`sized`].
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::InvalidArgument(reason.into())
    }

    /// A call for which no overload accepts the values.
    #[cold]
    pub fn no_such_overload(function: &str, arguments: &[Value]) -> Self {
        Self::NoSuchOverload {
            function: function.to_owned(),
            arguments: arguments.iter().map(|argument| argument.type_name().to_owned()).collect(),
        }
    }

    /// The same fault without computed keys and the keys that exist, for an evaluation that reads a Secret. Field names stay:
    /// they are part of the expression.
    #[must_use]
    pub fn without_keys(self) -> Self {
        match self {
            Self::NoSuchKey { .. } => Self::NoSuchKey { key: None, available: Vec::new() },
            Self::NoSuchField { field, .. } => Self::NoSuchField { field, available: Vec::new() },
            Self::IndexOutOfBounds { length, .. } => Self::IndexOutOfBounds { index: None, length },
            other => other,
        }
    }

    /// Whether data is missing that may still appear.
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
                match key {
                    Some(key) => write!(f, "no such key: {key}")?,
                    None => f.write_str("no such key")?,
                }
                write_available(available, f)
            }
            Self::NoSuchField { field, available } => {
                write!(f, "no such field: {field}")?;
                write_available(available, f)
            }
            Self::IndexOutOfBounds { index: Some(index), length } => {
                write!(f, "index out of bounds: {index} (list length: {length})")
            }
            Self::IndexOutOfBounds { index: None, length } => {
                write!(f, "index out of bounds (list length: {length})")
            }
            Self::NoSuchVariable(name) => write!(f, "no such attribute: {name}"),
            Self::NoSuchOverload { function, arguments } => {
                write!(f, "no such overload: {function} for ({})", arguments.join(", "))
            }
            Self::Overflow(what) => write!(f, "{what} overflows"),
            Self::DivisionByZero => f.write_str("division by zero"),
            Self::InvalidArgument(reason) => f.write_str(reason),
            Self::WrongType { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::BudgetExceeded => f.write_str("the expression exceeds its cost budget"),
            Self::OutOfMemory => f.write_str("the expression allocates too much memory"),
            Self::Cancelled => f.write_str("the evaluation was cancelled"),
        }
    }
}

fn write_available(available: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if available.is_empty() { Ok(()) } else { write!(f, " (available: {})", available.join(", ")) }
}

impl std::error::Error for Fault {}

/// Why an evaluation failed, and the position in the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    /// The cause.
    pub fault: Fault,
    /// The position.
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
