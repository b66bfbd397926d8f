//! Reads the fields of a mapping one by one. Fields that are left at the end are refused, so that a field that
//! Kubernetes adds later is refused until somebody has thought about it.

use zeroize::Zeroizing;

use super::document::{Content, MappingEntry, Node};
use super::refusal::{Refusal, RefusalReason};

/// The fields of a mapping that have not been read yet.
pub(super) struct Fields {
    path: String,
    line: usize,
    entries: Vec<MappingEntry>,
}

/// A text and where it is.
pub(super) struct LocatedText {
    pub(super) text: Zeroizing<String>,
    pub(super) path: String,
    pub(super) line: usize,
}

impl LocatedText {
    pub(super) fn refuse(&self, reason: RefusalReason) -> Refusal {
        Refusal::new(reason, self.path.clone(), Some(self.line))
    }
}

impl Fields {
    /// The fields of a mapping. Null is a mapping without fields.
    pub(super) fn of(node: Node, path: String) -> Result<Self, Refusal> {
        let line = node.line;
        match node.content {
            Content::Map(entries) => Ok(Self { path, line, entries }),
            content if content.is_null() => Ok(Self { path, line, entries: Vec::new() }),
            _ => Err(Refusal::new(RefusalReason::Type, path, Some(line))),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// A field, unless it is absent or null.
    fn take(&mut self, name: &str) -> Option<Node> {
        let at = self.entries.iter().position(|entry| *entry.key == name)?;
        Some(self.entries.swap_remove(at).value).filter(|node| !node.content.is_null())
    }

    fn child(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A text. An empty text counts as absent.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<LocatedText>, Refusal> {
        let Some(node) = self.take(name) else { return Ok(None) };
        let located = text_of(node, self.child(name))?;
        Ok(Some(located).filter(|located| !located.text.is_empty()))
    }

    pub(super) fn boolean(&mut self, name: &str) -> Result<bool, Refusal> {
        let Some(node) = self.take(name) else { return Ok(false) };
        match &node.content {
            Content::Scalar { text, plain: true } if **text == "true" => Ok(true),
            Content::Scalar { text, plain: true } if **text == "false" => Ok(false),
            _ => Err(Refusal::new(RefusalReason::Type, self.child(name), Some(node.line))),
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Vec<Node>, Refusal> {
        let Some(node) = self.take(name) else { return Ok(Vec::new()) };
        match node.content {
            Content::List(items) => Ok(items),
            _ => Err(Refusal::new(RefusalReason::Type, self.child(name), Some(node.line))),
        }
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<Zeroizing<String>>, Refusal> {
        let path = self.child(name);
        let items = self.list(name)?.into_iter().enumerate();
        items.map(|(at, node)| text_of(node, format!("{path}[{at}]")).map(|located| located.text)).collect()
    }

    pub(super) fn fields(&mut self, name: &str) -> Result<Option<Self>, Refusal> {
        let path = self.child(name);
        self.take(name).map(|node| Self::of(node, path)).transpose()
    }

    /// The items of a list, each as fields.
    pub(super) fn items(&mut self, name: &str) -> Result<Vec<Self>, Refusal> {
        let path = self.child(name);
        let items = self.list(name)?.into_iter().enumerate();
        items.map(|(at, node)| Self::of(node, format!("{path}[{at}]"))).collect()
    }

    /// Refuses the field if it is present.
    pub(super) fn forbid(&mut self, name: &str, reason: RefusalReason) -> Result<(), Refusal> {
        match self.take(name) {
            Some(node) => Err(Refusal::new(reason, self.child(name), Some(node.line))),
            None => Ok(()),
        }
    }

    /// Skips a field that has no effect here.
    pub(super) fn ignore(&mut self, name: &str) {
        drop(self.take(name));
    }

    pub(super) fn refuse(&self, reason: RefusalReason) -> Refusal {
        Refusal::new(reason, self.path.clone(), Some(self.line))
    }

    /// Refuses the remaining fields. Their names are not quoted, because they may be a part of a token that has a line
    /// of its own.
    pub(super) fn end(self) -> Result<(), Refusal> {
        match self.entries.first() {
            Some(entry) => {
                Err(Refusal::new(RefusalReason::UnknownField, self.path.clone(), Some(entry.line)))
            }
            None => Ok(()),
        }
    }
}

/// A text as in `kubectl`: what looks like a number or a boolean must be quoted.
fn text_of(node: Node, path: String) -> Result<LocatedText, Refusal> {
    let line = node.line;
    match node.content {
        Content::Scalar { text, plain } if !plain || !means_something_else(&text) => {
            Ok(LocatedText { text, path, line })
        }
        _ => Err(Refusal::new(RefusalReason::Type, path, Some(line))),
    }
}

fn means_something_else(text: &str) -> bool {
    const WORDS: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "y", "n"];
    let number = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    (number && text.replace('_', "").parse::<f64>().is_ok())
        || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}
