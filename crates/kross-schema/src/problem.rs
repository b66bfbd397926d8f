//! A mistake in the user's schema, placed by path and by range within the string at that path. Whoever has the
//! document turns it into a diagnostic with a position.

use std::fmt;
use std::ops::Range;

use kross_diagnostics::{Code, Diagnostic};
use kross_value::Text;

/// One step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// The entry of an object.
    Key(Text),
    /// The element of an array.
    Index(usize),
}

/// The way from a document's root to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(Vec<Step>);

impl Path {
    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The path of these keys: `spec.schema` is `Path::of(&["spec", "schema"])`.
    #[must_use]
    pub fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| Step::Key((*key).into())).collect())
    }

    /// One step further, into an entry.
    #[must_use]
    pub fn key(&self, key: impl Into<Text>) -> Self {
        self.step(Step::Key(key.into()))
    }

    /// One step further, into an element.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    /// One step further.
    #[must_use]
    pub fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The steps from the root.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if is_plain(key) => {
                    f.write_str(if at == 0 { "" } else { "." })?;
                    f.write_str(key)?;
                }
                Step::Key(key) => write!(f, "[{:?}]", key.as_str())?,
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
}

/// Which part of the place at a path is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The value, whole.
    Value,
    /// The key that the value stands under.
    Key,
    /// These bytes of the string at the path.
    Within(Range<usize>),
}

/// A mistake, without a document yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of mistake.
    pub code: Code,
    /// The value at fault.
    pub path: Path,
    /// The part of it.
    pub part: Part,
    /// One sentence, lower case, without a final period; says what was expected and what was found.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The text to put in place of `part`, where it is known.
    pub replacement: Option<String>,
}

impl Problem {
    /// A mistake in the whole value at `path`.
    pub fn new(code: Code, path: &Path, message: impl Into<String>) -> Self {
        Self {
            code,
            path: path.clone(),
            part: Part::Value,
            message: message.into(),
            help: None,
            replacement: None,
        }
    }

    /// Narrows the mistake to a part.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.part = part;
        self
    }

    /// Narrows the mistake to a range of the string at the path.
    #[must_use]
    pub fn within(self, range: Range<usize>) -> Self {
        self.part(Part::Within(range))
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

    /// Points to the name that was probably meant, if there is one.
    #[must_use]
    pub fn did_you_mean(self, meant: Option<&str>) -> Self {
        match meant {
            Some(meant) => self.help(format!("did you mean `{meant}`?")).replace(meant),
            None => self,
        }
    }

    /// The diagnostic without a position: for those who have no source text.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        let diagnostic = Diagnostic::new(self.code, self.message.clone()).path(self.path.to_string());
        match &self.help {
            Some(help) => diagnostic.help(help.clone()),
            None => diagnostic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_like_the_document() {
        let path = Path::of(&["spec", "resources"]).index(2).key("template").key("app.kubernetes.io/name");
        assert_eq!(path.to_string(), r#"spec.resources[2].template["app.kubernetes.io/name"]"#);
        assert_eq!(Path::root().key("").to_string(), r#"[""]"#);
    }
}
