//! Where the cursor is: the path of the mapping that encloses it by indentation, and what is being typed. It reads lines and not the
//! parsed document, so that it answers in the middle of a key that is not YAML yet.

use std::ops::Range;

use kross_diagnostics::{Path, PathSegment};

use crate::text::Text;

/// What is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typing {
    /// A key of the mapping at the path.
    Key,
    /// The value of this key of the mapping at the path.
    Value(String),
    /// An item of the list at the path.
    Item,
}

/// The place of the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The path of the mapping, or of the list.
    pub(crate) path: Path,
    pub(crate) typing: Typing,
    /// The bytes of the key or value up to the cursor.
    pub(crate) typed: Range<usize>,
    /// The keys that the mapping has on other lines.
    pub(crate) siblings: Vec<String>,
}

impl Cursor {
    /// The path of the value that is being typed.
    pub(crate) fn value_path(&self) -> Path {
        match &self.typing {
            Typing::Value(key) => self.path.key(key),
            Typing::Key | Typing::Item => self.path.clone(),
        }
    }
}

/// The parts of a line.
struct Line<'a> {
    /// The columns of the dashes before its content.
    dashes: Vec<usize>,
    /// The column of its content.
    column: usize,
    content: &'a str,
}

impl<'a> Line<'a> {
    fn new(text: &'a str) -> Self {
        let mut column = text.len() - text.trim_start_matches(' ').len();
        let mut dashes = Vec::new();
        let mut content = text.get(column..).unwrap_or_default();
        while let Some(rest) =
            content.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' '))
        {
            dashes.push(column);
            let spaces = rest.len() - rest.trim_start_matches(' ').len();
            column += 1 + spaces;
            content = rest.trim_start_matches(' ');
        }
        Self { dashes, column, content }
    }

    fn is_blank(&self) -> bool {
        self.dashes.is_empty() && (self.content.is_empty() || self.content.starts_with('#'))
    }

    /// The key of the line, and where the text after its colon begins.
    fn key(&self) -> Option<(String, usize)> {
        let (key, after) = split_key(self.content)?;
        Some((key, self.column + after))
    }
}

/// The key at the start of a text, and the offset after its colon.
fn split_key(text: &str) -> Option<(String, usize)> {
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) {
        let end = text.get(1..)?.find(quote)? + 1;
        let after = text.get(end + 1..)?;
        return after.starts_with(':').then(|| (text.get(1..end).unwrap_or_default().to_owned(), end + 2));
    }
    if text.starts_with(['#', '[', '{', '$', '|', '>']) {
        return None;
    }
    let colon = text.match_indices(':').map(|(at, _)| at).find(|at| {
        let next = text.get(at + 1..).and_then(|rest| rest.chars().next());
        next.is_none_or(char::is_whitespace)
    })?;
    Some((text.get(..colon)?.trim_end().to_owned(), colon + 1))
}

/// The place of an offset.
pub(crate) fn locate(text: &Text, offset: usize) -> Cursor {
    let number = text.line_of(offset);
    let range = text.line_range(number);
    let before = text.as_str().get(range.start..offset.min(range.end)).unwrap_or_default();
    let line = Line::new(before);
    let at_cursor = |start: usize| {
        let typed = before.get(start..).unwrap_or_default();
        let spaces = typed.len() - typed.trim_start().len();
        range.start + start + spaces..offset
    };
    let (typing, typed) = match line.key() {
        Some((key, after)) => (Typing::Value(key), at_cursor(after)),
        None if line.dashes.is_empty() => (Typing::Key, at_cursor(line.column)),
        None => (Typing::Item, at_cursor(line.column)),
    };
    let mut climb =
        Climb { text, column: line.column, dash: None, segments: Vec::new(), siblings: Vec::new() };
    climb.line_dashes(&line);
    climb.up(number);
    if line.dashes.is_empty() {
        climb.siblings_below(number, line.column);
    }
    let mut segments: Vec<PathSegment> = climb.segments.into_iter().map(Segment::finish).collect();
    segments.reverse();
    Cursor { path: segments.into_iter().collect(), typing, typed, siblings: climb.siblings }
}

/// A part of the path, from the inside out. The index of an item is known when all items before it were counted.
enum Segment {
    Key(String),
    Item(usize),
}

impl Segment {
    fn finish(self) -> PathSegment {
        match self {
            Self::Key(key) => PathSegment::Key(key),
            Self::Item(index) => PathSegment::Index(index),
        }
    }
}

/// The walk from the cursor up to the start of the document.
struct Climb<'a> {
    text: &'a Text,
    /// The column of the keys of the current mapping.
    column: usize,
    /// The column of the dashes of the current list, while its key is searched.
    dash: Option<usize>,
    segments: Vec<Segment>,
    /// The keys of the innermost mapping.
    siblings: Vec<String>,
}

impl Climb<'_> {
    /// Enters the lists that begin on a line, from the inside out.
    fn line_dashes(&mut self, line: &Line<'_>) {
        for column in line.dashes.iter().rev() {
            if self.dash.is_none_or(|inner| *column < inner) && *column < self.column.max(1) {
                self.segments.push(Segment::Item(0));
                self.dash = Some(*column);
                self.column = *column;
            }
        }
    }

    fn up(&mut self, from: usize) {
        for number in (0..from).rev() {
            let content = self.text.line(number);
            if content.starts_with("---") || content.starts_with("...") {
                return;
            }
            let line = Line::new(content);
            if line.is_blank() {
                continue;
            }
            self.line(&line);
        }
    }

    fn line(&mut self, line: &Line<'_>) {
        if let Some((key, after)) = line.key() {
            self.key(line, key, after);
        }
        for column in line.dashes.iter().rev() {
            self.earlier_dash(*column);
        }
    }

    /// A key on a line above: a sibling, the key of the current mapping or list, or neither.
    fn key(&mut self, line: &Line<'_>, key: String, after: usize) {
        let encloses = match self.dash {
            Some(dash) => line.column <= dash,
            None => line.column < self.column,
        };
        if encloses {
            let value = line.content.get(after - line.column..).unwrap_or_default().trim_start();
            if value.starts_with(['|', '>']) {
                // Everything below is the text of this value.
                self.segments.clear();
                self.siblings.clear();
            }
            self.segments.push(Segment::Key(key));
            self.column = line.column;
            self.dash = None;
        } else if self.dash.is_none() && line.column == self.column && self.segments.is_empty() {
            self.siblings.push(key);
        }
    }

    /// A dash on a line above: the item that contains the current mapping, or an earlier item of the current list.
    fn earlier_dash(&mut self, column: usize) {
        match self.dash {
            Some(dash) if column == dash => {
                if let Some(Segment::Item(index)) = self.segments.last_mut() {
                    *index += 1;
                }
            }
            Some(dash) if column < dash => self.enter(column),
            Some(_) => {}
            None if column < self.column => self.enter(column),
            None => {}
        }
    }

    fn enter(&mut self, column: usize) {
        self.segments.push(Segment::Item(0));
        self.dash = Some(column);
        self.column = column;
    }

    /// The keys of the mapping on the lines after the cursor.
    fn siblings_below(&mut self, from: usize, column: usize) {
        for number in from + 1..self.text.line_count() {
            let content = self.text.line(number);
            let line = Line::new(content);
            if content.starts_with("---")
                || (!line.is_blank()
                    && (line.column < column || line.dashes.first().is_some_and(|dash| *dash < column)))
            {
                return;
            }
            if line.column == column && line.dashes.is_empty() {
                self.siblings.extend(line.key().map(|(key, _)| key));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of `|` in a text.
    fn place(text: &str) -> (String, Typing, String, Vec<String>) {
        let offset = text.find('|').unwrap();
        let text = Text::new(text.replacen('|', "", 1));
        let cursor = locate(&text, offset);
        let typed = text.as_str().get(cursor.typed.clone()).unwrap().to_owned();
        (cursor.path.to_string(), cursor.typing, typed, cursor.siblings)
    }

    const DEFINITION: &str = "\
kind: ResourceGraphDefinition
spec:
  resources:
    - id: web
      template:
        spec:
          containers:
          - name: a
            image: b
          - name: c
            im|
            ports: []
    - id: other
";

    #[test]
    fn a_key_is_in_the_mapping_of_its_column() {
        let (path, typing, typed, siblings) = place(DEFINITION);
        assert_eq!(path, "spec.resources[0].template.spec.containers[1]");
        assert_eq!((typing, typed.as_str()), (Typing::Key, "im"));
        assert_eq!(siblings, ["name", "ports"]);
    }

    #[test]
    fn an_empty_line_is_in_the_mapping_of_the_column_of_the_cursor() {
        assert_eq!(place("a:\n  b:\n    c: 1\n    |\n").0, "a.b");
        assert_eq!(place("a:\n  b:\n    c: 1\n  |\n").0, "a");
        assert_eq!(place("a:\n  b:\n    c: 1\n|\n").0, "");
        assert_eq!(place("a:\n  b:\n    |\n").0, "a.b");
    }

    #[test]
    fn a_value_belongs_to_the_key_before_it() {
        let (path, typing, typed, _) = place("a:\n- b: 1\n- c: 2\n  d: va|\n");
        assert_eq!((path.as_str(), typing, typed.as_str()), ("a[1]", Typing::Value("d".to_owned()), "va"));
        let (path, typing, ..) = place("a:\n  - b: |\n");
        assert_eq!((path.as_str(), typing), ("a[0]", Typing::Value("b".to_owned())));
    }

    #[test]
    fn an_item_belongs_to_the_list_of_its_dash() {
        let (path, typing, typed, _) = place("a:\n  after:\n  - x\n  - y|\n");
        assert_eq!((path.as_str(), typing, typed.as_str()), ("a.after[1]", Typing::Item, "y"));
    }

    #[test]
    fn the_text_of_a_block_scalar_belongs_to_its_key() {
        let text = "a:\n  b: >\n    one: 1\n      two\n  c: |\n";
        assert_eq!(place(text).0, "a");
        let text = Text::new("a:\n  b: >\n    one: 1\n    two");
        let end = text.as_str().len();
        assert_eq!(locate(&text, end).path.to_string(), "a.b");
    }

    #[test]
    fn each_document_has_its_own_paths() {
        assert_eq!(place("a:\n  b: 1\n---\nc:\n  |\n").0, "c");
    }
}
