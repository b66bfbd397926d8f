//! The path of a value in its document, and its text form: `spec.resources[2].template.metadata["a.b/c"]`.
//! Diagnostics of every stage carry such a path, and the document converts it to a span.

use std::fmt;
use std::str::FromStr;

/// One segment of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathSegment {
    /// The key of an object entry.
    Key(String),
    /// The index of an array item, from 0.
    Index(usize),
}

/// The path of a value in its document; empty for the document itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    segments: Vec<PathSegment>,
}

impl Path {
    /// The document itself.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The path of an entry of the object at this path.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.then(PathSegment::Key(key.into()))
    }

    /// The path of an item of the array at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(PathSegment::Index(index))
    }

    /// The path of a direct child.
    #[must_use]
    pub fn then(&self, segment: PathSegment) -> Self {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.extend_from_slice(&self.segments);
        segments.push(segment);
        Self { segments }
    }

    /// This path, relative to `parent`.
    #[must_use]
    pub fn under(&self, parent: &Self) -> Self {
        Self { segments: parent.segments.iter().chain(&self.segments).cloned().collect() }
    }

    /// The path of the enclosing value; `None` for the document.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (_, segments) = self.segments.split_last()?;
        Some(Self { segments: segments.to_vec() })
    }

    /// The segments, starting at the document.
    #[must_use]
    pub fn segments(&self) -> &[PathSegment] {
        &self.segments
    }

    /// Whether it is the document itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// Appends a segment, for traversals that remove it again with [`Path::pop`].
    pub fn push(&mut self, segment: PathSegment) {
        self.segments.push(segment);
    }

    /// Removes the last segment.
    pub fn pop(&mut self) -> Option<PathSegment> {
        self.segments.pop()
    }
}

impl FromIterator<PathSegment> for Path {
    fn from_iter<T: IntoIterator<Item = PathSegment>>(segments: T) -> Self {
        Self { segments: segments.into_iter().collect() }
    }
}

/// Whether a key needs no quotes in a path.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '$'))
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.segments.iter().enumerate() {
            match segment {
                PathSegment::Index(index) => write!(f, "[{index}]")?,
                PathSegment::Key(key) if is_plain(key) && position == 0 => f.write_str(key)?,
                PathSegment::Key(key) if is_plain(key) => write!(f, ".{key}")?,
                PathSegment::Key(key) => {
                    write!(f, "[{}]", serde_json::to_string(key).map_err(|_| fmt::Error)?)?;
                }
            }
        }
        Ok(())
    }
}

/// The text is not a valid path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Offset of the first byte that cannot be parsed.
    pub offset: usize,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid path at byte {}", self.offset)
    }
}

impl std::error::Error for PathError {}

/// Parses what [`Path`] displays, and more: an unquoted key may contain anything but `.`, `[` and `]`.
impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let invalid = || PathError { offset: text.len() - rest.len() };
            let (segment, after) = if let Some(bracket) = rest.strip_prefix('[') {
                in_brackets(bracket).ok_or_else(invalid)?
            } else {
                let name = if segments.is_empty() { Some(rest) } else { rest.strip_prefix('.') };
                let name = name.ok_or_else(invalid)?;
                let end = name.find(['.', '[', ']']).unwrap_or(name.len());
                let (key, after) = name.split_at(end);
                if key.is_empty() {
                    return Err(invalid());
                }
                (PathSegment::Key(key.to_owned()), after)
            };
            segments.push(segment);
            rest = after;
        }
        Ok(Self { segments })
    }
}

/// Parses `2]` or `"a.b/c"]` and returns the rest of the text.
fn in_brackets(text: &str) -> Option<(PathSegment, &str)> {
    if !text.starts_with('"') {
        let (index, after) = text.split_once(']')?;
        return Some((PathSegment::Index(index.parse().ok()?), after));
    }
    let mut literals = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let key = literals.next()?.ok()?;
    let after = text.get(literals.byte_offset()..)?.strip_prefix(']')?;
    Some((PathSegment::Key(key), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_round_trips_through_its_text() {
        let path =
            Path::root().key("spec").key("resources").index(2).key("a.b/c").key("größe").key("").key("x-y");
        assert_eq!(path.to_string(), r#"spec.resources[2]["a.b/c"].größe[""].x-y"#);
        assert_eq!(path.to_string().parse(), Ok(path));
        assert_eq!(Path::root().to_string(), "");
        assert_eq!("".parse(), Ok(Path::root()));
        let first = Path::root().index(0).key("a\"]\n");
        assert_eq!(first.to_string(), r#"[0]["a\"]\n"]"#);
        assert_eq!(first.to_string().parse(), Ok(first));
    }

    #[test]
    fn unquoted_keys_may_contain_special_characters() {
        let path: Path = "metadata.labels.app/name".parse().unwrap();
        assert_eq!(path.to_string(), r#"metadata.labels["app/name"]"#);
        assert_eq!("data.0".parse(), Ok(Path::root().key("data").key("0")));
    }

    #[test]
    fn an_invalid_path_reports_the_offset_of_the_error() {
        for (text, offset) in
            [("a..b", 1), ("a[x]", 1), ("a[1", 1), ("a]b", 1), (".a", 0), ("a[\"b]", 1), ("a[1]b", 4)]
        {
            assert_eq!(text.parse::<Path>(), Err(PathError { offset }), "{text}");
        }
    }

    #[test]
    fn paths_are_joined_and_have_parents() {
        let base: Path = "spec.resources".parse().unwrap();
        let inner: Path = "template.kind".parse().unwrap();
        assert_eq!(inner.under(&base.index(1)).to_string(), "spec.resources[1].template.kind");
        assert_eq!(base.parent().unwrap().to_string(), "spec");
        assert_eq!(Path::root().parent(), None);
    }
}
