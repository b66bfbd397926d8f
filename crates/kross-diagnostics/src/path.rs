//! Turns the place of a value in its document into text and back: `spec.resources[2].template.metadata["a.b/c"]`.
//! Diagnostics of every stage carry such a text, and the document they are about turns it into a span.

use std::fmt;
use std::str::FromStr;

/// One segment down into a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathSegment {
    /// The entry of an object.
    Key(String),
    /// The item of an array, from 0.
    Index(usize),
}

/// The place of a value in its document; empty for the document itself.
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

    /// The path one segment further down.
    #[must_use]
    pub fn then(&self, segment: PathSegment) -> Self {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.extend_from_slice(&self.segments);
        segments.push(segment);
        Self { segments }
    }

    /// The path of this path under another one.
    #[must_use]
    pub fn under(&self, parent: &Self) -> Self {
        Self { segments: parent.segments.iter().chain(&self.segments).cloned().collect() }
    }

    /// The path of what contains the value; none for the document.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (_, segments) = self.segments.split_last()?;
        Some(Self { segments: segments.to_vec() })
    }

    /// The segments from the document down.
    #[must_use]
    pub fn segments(&self) -> &[PathSegment] {
        &self.segments
    }

    /// Whether it is the document itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// Adds a segment at the end, for walks that go down and up again with [`Path::pop`].
    pub fn push(&mut self, segment: PathSegment) {
        self.segments.push(segment);
    }

    /// Takes the last segment off.
    pub fn pop(&mut self) -> Option<PathSegment> {
        self.segments.pop()
    }
}

impl FromIterator<PathSegment> for Path {
    fn from_iter<T: IntoIterator<Item = PathSegment>>(segments: T) -> Self {
        Self { segments: segments.into_iter().collect() }
    }
}

/// Whether a key stands in a path without quotes.
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

/// The text is no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Byte at which it stops to be one.
    pub offset: usize,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the path from byte {} on", self.offset)
    }
}

impl std::error::Error for PathError {}

/// Reads what [`Path`] displays, and more: a key without quotes may hold anything but `.`, `[` and `]`.
impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let refused = || PathError { offset: text.len() - rest.len() };
            let (segment, after) = if let Some(bracket) = rest.strip_prefix('[') {
                in_brackets(bracket).ok_or_else(refused)?
            } else {
                let name = if segments.is_empty() { Some(rest) } else { rest.strip_prefix('.') };
                let name = name.ok_or_else(refused)?;
                let end = name.find(['.', '[', ']']).unwrap_or(name.len());
                let (key, after) = name.split_at(end);
                if key.is_empty() {
                    return Err(refused());
                }
                (PathSegment::Key(key.to_owned()), after)
            };
            segments.push(segment);
            rest = after;
        }
        Ok(Self { segments })
    }
}

/// Reads `2]` or `"a.b/c"]` and gives what follows.
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
    fn a_path_is_written_and_read_back() {
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
    fn keys_without_quotes_may_be_unusual() {
        let path: Path = "metadata.labels.app/name".parse().unwrap();
        assert_eq!(path.to_string(), r#"metadata.labels["app/name"]"#);
        assert_eq!("data.0".parse(), Ok(Path::root().key("data").key("0")));
    }

    #[test]
    fn what_is_no_path_says_where_it_ends() {
        for (text, offset) in
            [("a..b", 1), ("a[x]", 1), ("a[1", 1), ("a]b", 1), (".a", 0), ("a[\"b]", 1), ("a[1]b", 4)]
        {
            assert_eq!(text.parse::<Path>(), Err(PathError { offset }), "{text}");
        }
    }

    #[test]
    fn paths_go_down_and_up() {
        let base: Path = "spec.resources".parse().unwrap();
        let inner: Path = "template.kind".parse().unwrap();
        assert_eq!(inner.under(&base.index(1)).to_string(), "spec.resources[1].template.kind");
        assert_eq!(base.parent().unwrap().to_string(), "spec");
        assert_eq!(Path::root().parent(), None);
    }
}
