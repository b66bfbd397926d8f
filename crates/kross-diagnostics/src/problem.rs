//! A mistake placed by path instead of by position: stages that see values and not text report these, and whoever
//! has the document turns them into diagnostics that point into the text.

use std::ops::Range;

use crate::{Code, Diagnostic, Path, Span};

/// Which part of the place at a path is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Part {
    /// The value, whole.
    #[default]
    Value,
    /// The key that the value stands under.
    Key,
    /// These bytes of the string at the path.
    Within(Range<usize>),
}

/// A value of a document, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The value.
    pub path: Path,
    /// The part.
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

/// Knows where in a text a place is.
pub trait Locate {
    /// The text of a place, or of the closest value around it that has one.
    fn locate(&self, place: &Place) -> Option<Span>;
}

/// A mistake in the user's text, placed by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of mistake.
    pub code: Code,
    /// Where.
    pub place: Place,
    /// One sentence, lower case, without a final period.
    pub message: String,
    /// A remark on the place itself.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
    /// The text to put in its place, where it is known.
    pub replacement: Option<String>,
    /// Other places that explain it.
    pub also: Vec<(Place, String)>,
    /// Background.
    pub notes: Vec<String>,
}

impl Problem {
    /// A mistake without advice yet.
    pub fn new(code: Code, place: Place, message: impl Into<String>) -> Self {
        Self {
            code,
            place,
            message: message.into(),
            label: String::new(),
            help: None,
            replacement: None,
            also: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Remarks on the place.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
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

    /// Narrows the place to a range of the string at its path.
    #[must_use]
    pub fn within(mut self, range: Range<usize>) -> Self {
        self.place.part = Part::Within(range);
        self
    }

    /// Narrows the place to the key that its value stands under.
    #[must_use]
    pub fn on_key(mut self) -> Self {
        self.place.part = Part::Key;
        self
    }

    /// Points to the name that was probably meant, if there is one.
    #[must_use]
    pub fn did_you_mean(self, meant: Option<&str>) -> Self {
        match meant {
            Some(meant) => self.help(format!("did you mean `{meant}`?")).replace(meant),
            None => self,
        }
    }

    /// Points at another place that explains the mistake.
    #[must_use]
    pub fn also(mut self, place: Place, text: impl Into<String>) -> Self {
        self.also.push((place, text.into()));
        self
    }

    /// Adds background.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// The diagnostic, with positions where `document` knows them.
    #[must_use]
    pub fn diagnostic(&self, document: Option<&dyn Locate>) -> Diagnostic {
        let locate = |place: &Place| document.and_then(|document| document.locate(place));
        let mut diagnostic =
            Diagnostic::new(self.code, self.message.clone()).path(self.place.path.to_string());
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
    fn without_a_document_a_problem_speaks_of_paths() {
        let diagnostic = problem().diagnostic(None);
        assert_eq!(diagnostic.path.as_deref(), Some("spec.kind"));
        assert!(diagnostic.primary.is_none() && diagnostic.secondary.is_empty());
        assert_eq!(diagnostic.notes, ["spec.kind: named here"]);
    }

    #[test]
    fn with_a_document_it_points_and_mends() {
        let mut sources = Sources::new();
        let span = Span::new(sources.add("a.yaml", "kind: web"), 6, 9);
        let diagnostic = problem().diagnostic(Some(&Everywhere(span)));
        assert_eq!(diagnostic.primary.map(|label| label.span), Some(span));
        assert_eq!(diagnostic.help[0].edit.as_ref().map(|edit| edit.replacement.as_str()), Some("Web"));
        assert_eq!(diagnostic.secondary.len(), 1);
    }
}
