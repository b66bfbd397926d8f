//! Parses YAML into a tree of texts, lists and mappings. Refuses several documents, anchors, aliases, tags, repeated
//! keys, and more than a kubeconfig needs. All texts are wiped when the tree is dropped.
//!
//! `serde-saphyr` is not used here: it accepts anchors and merge keys, and does not wipe what it has read.

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use zeroize::Zeroizing;

use super::refusal::{Refusal, RefusalReason};

/// The maximum number of bytes.
const MAX_BYTES: usize = 256 << 10;
/// The maximum nesting of lists and mappings. A kubeconfig needs six levels.
const MAX_DEPTH: usize = 16;
/// The maximum number of values.
const MAX_NODES: usize = 10_000;

/// A value and its line.
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) content: Content,
}

pub(super) enum Content {
    /// A text, and whether it is unquoted.
    Scalar {
        text: Zeroizing<String>,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<MappingEntry>),
}

pub(super) struct MappingEntry {
    pub(super) key: Zeroizing<String>,
    pub(super) line: usize,
    pub(super) value: Node,
}

/// Parses the single document of a kubeconfig.
pub(super) fn read(bytes: &[u8]) -> Result<Node, Refusal> {
    let whole = |reason| Refusal::new(reason, "", None);
    if bytes.len() > MAX_BYTES {
        return Err(whole(RefusalReason::TooLarge));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| whole(RefusalReason::Encoding))?;
    if text.starts_with('\u{feff}') || text.contains('\0') {
        return Err(whole(RefusalReason::Encoding));
    }
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let root = Builder::default().document(&mut parser)?;
    root.ok_or_else(|| whole(RefusalReason::Empty))
}

/// A list or mapping that is not complete.
struct Open {
    line: usize,
    content: Content,
    /// A key without its value.
    key: Option<(Zeroizing<String>, usize)>,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    documents: usize,
}

impl Builder {
    fn document<'t>(mut self, parser: &mut Parser<'t, StrInput<'t>>) -> Result<Option<Node>, Refusal> {
        for event in parser {
            let (event, span) = event.map_err(|error| {
                let reason = match error.kind() {
                    granit_parser::ErrorKind::RecursionLimitExceeded => RefusalReason::TooDeep,
                    _ => RefusalReason::Syntax,
                };
                Refusal::new(reason, "", Some(error.marker().line()))
            })?;
            self.event(event, &span)?;
        }
        Ok(self.root)
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Refusal> {
        let line = span.start.line();
        let refuse = |reason| Err(Refusal::new(reason, "", Some(line)));
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 { refuse(RefusalReason::Documents) } else { Ok(()) }
            }
            Event::Scalar(_, _, anchor, tag) if anchor != 0 || tag.is_some() => {
                refuse(RefusalReason::Anchors)
            }
            Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag)
                if anchor != 0 || tag.is_some() =>
            {
                refuse(RefusalReason::Anchors)
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => refuse(RefusalReason::Anchors),
            Event::Scalar(text, style, ..) => {
                let (text, plain) = (Zeroizing::new(text.into_owned()), style == ScalarStyle::Plain);
                self.add(Node { line, content: Content::Scalar { text, plain } })
            }
            Event::SequenceStart(..) => self.begin(line, Content::List(Vec::new())),
            Event::MappingStart(..) => self.begin(line, Content::Map(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { line, content, .. }) => self.add(Node { line, content }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn begin(&mut self, line: usize, content: Content) -> Result<(), Refusal> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Refusal::new(RefusalReason::TooDeep, "", Some(line)));
        }
        self.open.push(Open { line, content, key: None });
        Ok(())
    }

    fn add(&mut self, node: Node) -> Result<(), Refusal> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Refusal::new(RefusalReason::TooMany, "", Some(node.line)));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(open) => open.add(node)?,
        }
        Ok(())
    }
}

impl Open {
    fn add(&mut self, node: Node) -> Result<(), Refusal> {
        match &mut self.content {
            Content::List(items) => items.push(node),
            Content::Map(entries) => match self.key.take() {
                Some((key, line)) => entries.push(MappingEntry { key, line, value: node }),
                None => self.key = Some(key_of(node, entries)?),
            },
            Content::Scalar { .. } => {}
        }
        Ok(())
    }
}

fn key_of(node: Node, earlier: &[MappingEntry]) -> Result<(Zeroizing<String>, usize), Refusal> {
    let line = node.line;
    let refuse = |reason| Err(Refusal::new(reason, "", Some(line)));
    match node.content {
        Content::Scalar { text, plain } if plain && *text == "<<" => refuse(RefusalReason::Anchors),
        Content::Scalar { text, .. } if earlier.iter().any(|entry| entry.key == text) => {
            refuse(RefusalReason::Duplicate)
        }
        Content::Scalar { text, .. } => Ok((text, line)),
        Content::List(_) | Content::Map(_) => refuse(RefusalReason::Type),
    }
}

impl Content {
    /// Whether it is null.
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar { text, plain: true } if ["", "~", "null", "Null", "NULL"].contains(&text.as_str()))
    }
}
