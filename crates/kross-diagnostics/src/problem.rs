//! A problem located by path instead of by source position. Stages that see values but not text report problems, and
//! the caller that has the document turns them into diagnostics that point into the text.

use std::ops::Range;

use crate::{Code, Diagnostic, Path, Severity, Span};

/// The part of a value that a place refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Part {
    /// The whole value.
    #[default]
    Value,
    /// The key of the value.
    Key,
    /// A byte range of the string at the path.
    Within(Range<usize>),
}

/// The location of a value in a document, or of a part of the value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Path of the value.
    pub path: Path,
    /// Part of the value.
    pub part: Part,
}

impl Place {
    /// The whole value at a path.
    #[must_use]
    pub fn value(path: &Path) -> Self {
        Self { path: path.clone(), part: Part::Value }
    }

    /// The key of the value at a path.
    #[must_use]
    pub fn key(path: &Path) -> Self {
        Self { path: path.clone(), part: Part::Key }
    }

    /// A range of the string at a path.
    #[must_use]
    pub fn within(path: &Path, range: Range<usize>) -> Self {
        Self { path: path.clone(), part: Part::Within(range) }
    }
}

/// Maps places to source positions.
pub trait Locate {
    /// The span of a place, or of the closest enclosing value that has one.
    fn locate(&self, place: &Place) -> Option<Span>;
}

/// A problem in the user's text, located by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of problem.
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// One sentence, lower-case, without a final period.
    pub message: String,
    /// Text shown at the place itself.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
    /// The replacement text, if known.
    pub replacement: Option<String>,
    /// Other places that help to explain it.
    pub also: Vec<(Place, String)>,
    /// Additional background.
    pub notes: Vec<String>,
}

impl Problem {
    /// Creates a problem without help or notes, with the default severity of its code.
    pub fn new(code: Code, place: Place, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            place,
            message: message.into(),
            label: String::new(),
            help: None,
            replacement: None,
            also: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets the severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Sets the text shown at the place.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    /// Sets the help text.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Sets the replacement text.
    #[must_use]
    pub fn replace(mut self, text: impl Into<String>) -> Self {
        self.replacement = Some(text.into());
        self
    }

    /// Narrows the place to a range of the string at its path.
    #[must_use]
    pub fn within(mut self, range: Range<usize>) -> Self {
        self.place.part = Part::Within(range);
        self
    }

    /// Narrows the place to the key of its value.
    #[must_use]
    pub fn on_key(mut self) -> Self {
        self.place.part = Part::Key;
        self
    }

    /// Suggests the name that was probably meant, if there is one.
    #[must_use]
    pub fn did_you_mean(self, meant: Option<&str>) -> Self {
        match meant {
            Some(meant) => self.help(format!("did you mean `{meant}`?")).replace(meant),
            None => self,
        }
    }

    /// Adds another place that helps to explain the problem.
    #[must_use]
    pub fn also(mut self, place: Place, text: impl Into<String>) -> Self {
        self.also.push((place, text.into()));
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Converts to a diagnostic, with the spans that `document` knows.
    #[must_use]
    pub fn diagnostic(&self, document: Option<&dyn Locate>) -> Diagnostic {
        let locate = |place: &Place| document.and_then(|document| document.locate(place));
        let mut diagnostic =
            Diagnostic::new(self.code, self.message.clone()).path(self.place.path.to_string());
        diagnostic.severity = self.severity;
        let span = locate(&self.place);
        if let Some(span) = span {
            diagnostic = diagnostic.labelled(span, self.label.clone());
        }
        diagnostic = match (&self.help, &self.replacement, span) {
            (Some(help), Some(replacement), Some(span)) => {
                diagnostic.fix(help.clone(), span, replacement.clone())
            }
            (Some(help), _, _) => diagnostic.help(help.clone()),
            (None, Some(replacement), Some(span)) => {
                diagnostic.fix("write this instead", span, replacement.clone())
            }
            (None, _, _) => diagnostic,
        };
        for (place, text) in &self.also {
            diagnostic = match locate(place) {
                Some(span) => diagnostic.also(span, text.clone()),
                None => diagnostic.note(format!("{}: {text}", place.path)),
            };
        }
        self.notes.iter().fold(diagnostic, |diagnostic, note| diagnostic.note(note.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sources;

    struct Everywhere(Span);

    impl Locate for Everywhere {
        fn locate(&self, _: &Place) -> Option<Span> {
            Some(self.0)
        }
    }

    fn problem() -> Problem {
        let path = Path::root().key("spec").key("kind");
        Problem::new(Code::InvalidKind, Place::value(&path), "`web` is not a valid kind")
            .did_you_mean(Some("Web"))
            .also(Place::key(&path), "named here")
    }

    #[test]
    fn without_a_document_a_diagnostic_has_paths_only() {
        let diagnostic = problem().diagnostic(None);
        assert_eq!(diagnostic.path.as_deref(), Some("spec.kind"));
        assert!(diagnostic.primary.is_none() && diagnostic.secondary.is_empty());
        assert_eq!(diagnostic.notes, ["spec.kind: named here"]);
    }

    #[test]
    fn with_a_document_a_diagnostic_has_spans_and_an_edit() {
        let mut sources = Sources::new();
        let span = Span::new(sources.add("a.yaml", "kind: web"), 6, 9);
        let diagnostic = problem().diagnostic(Some(&Everywhere(span)));
        assert_eq!(diagnostic.primary.map(|label| label.span), Some(span));
        assert_eq!(diagnostic.help[0].edit.as_ref().map(|edit| edit.replacement.as_str()), Some("Web"));
        assert_eq!(diagnostic.secondary.len(), 1);
    }
}
