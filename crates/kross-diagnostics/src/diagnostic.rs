//! The diagnostic type: what is wrong, where, why, and what to type instead. Plain data, independent of the renderers.

use crate::{Code, Span};

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The input is rejected.
    Error,
    /// The input is accepted, but probably not what was meant.
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

/// A span with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The span.
    pub span: Span,
    /// The text; may be empty for a primary span.
    pub text: String,
}

/// A text edit that fixes the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The span to replace; an empty span inserts.
    pub span: Span,
    /// The new text.
    pub replacement: String,
}

/// A help text, with an edit if the fix is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    /// What to do.
    pub text: String,
    /// The edit that does it.
    pub edit: Option<Edit>,
}

/// A problem in the user's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of problem.
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// One sentence, lower-case, without a final period.
    pub message: String,
    /// Path of the value in its document, such as `spec.resources[2].template`, for outputs without source text.
    pub path: Option<String>,
    /// The span at fault.
    pub primary: Option<Label>,
    /// Other spans that help to explain it.
    pub secondary: Vec<Label>,
    /// What to do about it.
    pub help: Vec<Help>,
    /// Additional background.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// Creates a diagnostic without a location, with the default severity of its code.
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

    /// Sets the span at fault.
    #[must_use]
    pub fn at(self, span: Span) -> Self {
        self.labelled(span, "")
    }

    /// Sets the span at fault and the text shown there.
    #[must_use]
    pub fn labelled(mut self, span: Span, text: impl Into<String>) -> Self {
        self.primary = Some(Label { span, text: text.into() });
        self
    }

    /// Adds another span that helps to explain the problem.
    #[must_use]
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    /// Sets the path of the value in its document.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Adds a help text.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(Help { text: text.into(), edit: None });
        self
    }

    /// Adds a help text with the edit that fixes the problem.
    #[must_use]
    pub fn fix(mut self, text: impl Into<String>, span: Span, replacement: impl Into<String>) -> Self {
        self.help
            .push(Help { text: text.into(), edit: Some(Edit { span, replacement: replacement.into() }) });
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

/// The diagnostics found so far. Stages take it by `&mut` and continue after an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Creates an empty collection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.items.push(diagnostic);
    }

    /// Whether any of them is an error.
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

    /// Sorts by position in the source, then by code; the sort is stable.
    pub fn sort(&mut self) {
        self.items.sort_by_key(|item| (item.primary.as_ref().map(|label| label.span), item.code));
    }

    /// Iterates over all of them.
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
