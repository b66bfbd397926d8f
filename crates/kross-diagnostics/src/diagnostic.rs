//! The diagnostic itself: what is wrong, where, why, and what to type instead. Plain data without a renderer.

use crate::{Code, Span};

/// How much a diagnostic matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The text is refused.
    Error,
    /// The text is accepted, but probably not what was meant.
    Warning,
}

impl Severity {
    /// The lower-case word that outputs show.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A remark on a piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The piece of text.
    pub span: Span,
    /// What to say about it; may be empty for a primary span that speaks for itself.
    pub text: String,
}

/// A replacement that mends the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What to replace; a point inserts.
    pub span: Span,
    /// The text to put there.
    pub replacement: String,
}

/// Advice, with the corrected text where it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    /// What to do.
    pub text: String,
    /// The corrected text.
    pub edit: Option<Edit>,
}

/// A mistake in the user's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable identifier of the kind of mistake.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence, lower case, without a final period.
    pub message: String,
    /// Path of the value in its document, such as `spec.resources[2].template`, for outputs without source text.
    pub path: Option<String>,
    /// The text at fault.
    pub primary: Option<Label>,
    /// Other pieces of text that explain it.
    pub secondary: Vec<Label>,
    /// What to do about it.
    pub help: Vec<Help>,
    /// Background that is neither place nor advice.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// A diagnostic without a place yet, with the severity its code has.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            message: message.into(),
            path: None,
            primary: None,
            secondary: Vec::new(),
            help: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Points at the text at fault.
    #[must_use]
    pub fn at(self, span: Span) -> Self {
        self.labelled(span, "")
    }

    /// Points at the text at fault with a remark.
    #[must_use]
    pub fn labelled(mut self, span: Span, text: impl Into<String>) -> Self {
        self.primary = Some(Label { span, text: text.into() });
        self
    }

    /// Points at another piece of text that explains the mistake.
    #[must_use]
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// Names the value's path in its document.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(Help { text: text.into(), edit: None });
        self
    }

    /// Says what to do, with the corrected text.
    #[must_use]
    pub fn fix(mut self, text: impl Into<String>, span: Span, replacement: impl Into<String>) -> Self {
        self.help
            .push(Help { text: text.into(), edit: Some(Edit { span, replacement: replacement.into() }) });
        self
    }

    /// Adds background.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

/// Every mistake found so far. Stages take it by `&mut` and go on after a mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Nothing found.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.items.push(diagnostic);
    }

    /// Whether any of them refuses the text.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.items.iter().any(|item| item.severity == Severity::Error)
    }

    /// Whether there is none at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Orders by place in the text, then by code, keeping the order of discovery otherwise.
    pub fn sort(&mut self) {
        self.items.sort_by_key(|item| (item.primary.as_ref().map(|label| label.span), item.code));
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<T: IntoIterator<Item = Diagnostic>>(&mut self, items: T) {
        self.items.extend(items);
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}
