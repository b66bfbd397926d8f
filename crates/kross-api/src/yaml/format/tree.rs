//! Reads the tokens of a text into a tree with the position of every part.

use std::borrow::Cow;

use granit_parser::{ScalarStyle, Scanner, StrInput, TokenType};

/// A comment, or what stands before it.
#[derive(Clone, Debug)]
pub(super) struct Comment<'t> {
    /// From `#` on.
    pub(super) text: &'t str,
    /// Whether the line before it is blank.
    pub(super) blank_before: bool,
}

/// Every document of a text, its collections' items and its comments.
#[derive(Debug, Default)]
pub(super) struct Tree<'t> {
    pub(super) documents: Vec<DocumentTree<'t>>,
    pub(super) nodes: Vec<Node<'t>>,
    /// In the order of the text.
    pub(super) items: Vec<Item<'t>>,
    /// The positions of comments, in the order of the text.
    pub(super) comments: Vec<(usize, usize)>,
}

#[derive(Debug)]
pub(super) struct DocumentTree<'t> {
    /// Where it begins: at its `---`, if it has one.
    pub(super) start: usize,
    pub(super) explicit: bool,
    pub(super) root: Option<NodeId>,
    /// Its first items.
    pub(super) items: std::ops::Range<usize>,
    pub(super) before: Vec<Comment<'t>>,
    /// Beside `---`.
    pub(super) beside: Option<&'t str>,
    /// Above a root that is not a collection.
    pub(super) leading: Vec<Comment<'t>>,
    pub(super) trailing: Option<&'t str>,
    pub(super) after: Vec<Comment<'t>>,
    pub(super) has_anchors: bool,
}

pub(super) type NodeId = usize;
pub(super) type ItemId = usize;

#[derive(Debug)]
pub(super) struct Node<'t> {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Anchor and tag, as written.
    pub(super) properties: Vec<&'t str>,
    pub(super) kind: Kind<'t>,
    /// The item that it is the value of.
    pub(super) item: Option<ItemId>,
}

#[derive(Debug)]
pub(super) enum Kind<'t> {
    Empty,
    Alias,
    Scalar { style: ScalarStyle, text: Cow<'t, str> },
    Collection { is_map: bool, flow: bool, items: Vec<ItemId>, end: Vec<Comment<'t>> },
}

#[derive(Debug)]
pub(super) struct Item<'t> {
    pub(super) start: usize,
    pub(super) parent: NodeId,
    /// None in a list.
    pub(super) key: Option<NodeId>,
    pub(super) value: NodeId,
    pub(super) leading: Vec<Comment<'t>>,
    pub(super) trailing: Option<&'t str>,
    pub(super) blank_before: bool,
}

/// YAML that is not formatted.
#[derive(Debug)]
pub(super) struct Unsupported {
    pub(super) at: usize,
    pub(super) why: &'static str,
}

struct Spanned<'t> {
    start: usize,
    end: usize,
    token: TokenType<'t>,
}

struct Reader<'t> {
    text: &'t str,
    tokens: Vec<Spanned<'t>>,
    at: usize,
    tree: Tree<'t>,
    anchors: bool,
}

type Result<T> = std::result::Result<T, Unsupported>;

pub(super) fn read(text: &str) -> Result<Tree<'_>> {
    let mut tree = Tree::default();
    let mut tokens = Vec::new();
    for token in Scanner::new(StrInput::new(text)) {
        let (span, token) = token
            .map_err(|_| Unsupported { at: 0, why: "the text cannot be split into tokens" })?
            .into_parts();
        let range = span.byte_range().unwrap_or_default();
        match token {
            TokenType::Comment(_) => tree.comments.push((range.start, range.end)),
            TokenType::StreamStart | TokenType::StreamEnd => {}
            TokenType::VersionDirective(..)
            | TokenType::TagDirective(..)
            | TokenType::ReservedDirective(..) => {
                return Err(Unsupported { at: range.start, why: "YAML directives are not formatted" });
            }
            TokenType::DocumentEnd => {
                return Err(Unsupported { at: range.start, why: "`...` is not formatted" });
            }
            token => tokens.push(Spanned { start: range.start, end: range.end, token }),
        }
    }
    tree.comments.sort_unstable();
    let mut reader = Reader { text, tokens, at: 0, tree, anchors: false };
    while reader.at < reader.tokens.len() {
        reader.document()?;
    }
    Ok(reader.tree)
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<&TokenType<'t>> {
        self.tokens.get(self.at).map(|spanned| &spanned.token)
    }

    /// The start of the next token.
    fn start(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |spanned| spanned.start)
    }

    /// The end of the last token.
    fn end(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |spanned| spanned.end)
    }

    fn accept(&mut self, wanted: impl Fn(&TokenType<'t>) -> bool) -> bool {
        let found = self.peek().is_some_and(wanted);
        self.at += usize::from(found);
        found
    }

    fn unsupported<T>(&self, why: &'static str) -> Result<T> {
        Err(Unsupported { at: self.start(), why })
    }

    fn document(&mut self) -> Result<()> {
        let start = if self.tree.documents.is_empty() { 0 } else { self.start() };
        let first = self.tree.items.len();
        let marker = self.start();
        let explicit = self.accept(|token| *token == TokenType::DocumentStart);
        let start = if explicit { marker } else { start };
        self.anchors = false;
        let is_empty = matches!(self.peek(), None | Some(TokenType::DocumentStart));
        let root = if is_empty { None } else { Some(self.node(None, false)?) };
        if !matches!(self.peek(), None | Some(TokenType::DocumentStart)) {
            return self.unsupported("this part of the document is not formatted");
        }
        self.tree.documents.push(DocumentTree {
            start,
            explicit,
            root,
            items: first..self.tree.items.len(),
            before: Vec::new(),
            beside: None,
            leading: Vec::new(),
            trailing: None,
            after: Vec::new(),
            has_anchors: self.anchors,
        });
        Ok(())
    }

    fn push(&mut self, start: usize, end: usize, kind: Kind<'t>, item: Option<ItemId>) -> NodeId {
        self.tree.nodes.push(Node { start, end, properties: Vec::new(), kind, item });
        self.tree.nodes.len() - 1
    }

    /// Reads a node. `indentless`: a list may stand here without indentation of its own.
    fn node(&mut self, item: Option<ItemId>, indentless: bool) -> Result<NodeId> {
        let mut properties = Vec::new();
        while let Some(TokenType::Anchor(_) | TokenType::Tag(..)) = self.peek() {
            self.anchors |= matches!(self.peek(), Some(TokenType::Anchor(_)));
            let written = self.tokens.get(self.at).and_then(|token| self.text.get(token.start..token.end));
            properties.extend(written.map(str::trim_end));
            self.at += 1;
        }
        let start = self.start();
        let id = match self.peek() {
            Some(TokenType::BlockSequenceStart) => {
                self.at += 1;
                self.block_list(item, true)?
            }
            Some(TokenType::BlockEntry) if indentless => self.block_list(item, false)?,
            Some(TokenType::BlockMappingStart) => {
                self.at += 1;
                self.block_map(item)?
            }
            Some(TokenType::FlowSequenceStart) => self.flow(item, false)?,
            Some(TokenType::FlowMappingStart) => self.flow(item, true)?,
            Some(TokenType::Alias(_)) => {
                self.anchors = true;
                self.at += 1;
                self.push(start, self.end(), Kind::Alias, item)
            }
            Some(TokenType::Scalar(style, text)) => {
                let kind = Kind::Scalar { style: *style, text: text.clone() };
                self.at += 1;
                self.push(start, self.end(), kind, item)
            }
            _ => {
                let end = self.end();
                self.push(end, end, Kind::Empty, item)
            }
        };
        if let Some(node) = self.tree.nodes.get_mut(id) {
            node.properties = properties;
        }
        Ok(id)
    }

    fn collection(&mut self, is_map: bool, flow: bool, item: Option<ItemId>) -> NodeId {
        let start = self.start();
        let kind = Kind::Collection { is_map, flow, items: Vec::new(), end: Vec::new() };
        self.push(start, start, kind, item)
    }

    fn close(&mut self, id: NodeId) {
        let end = self.end();
        if let Some(node) = self.tree.nodes.get_mut(id) {
            node.end = end;
        }
    }

    /// The position of the next dash: the scanner reports the position behind it.
    fn dash(&self) -> usize {
        let mut rest = self.text.get(self.end()..).unwrap_or_default();
        loop {
            rest = rest.trim_start();
            match rest.strip_prefix('#') {
                Some(comment) => {
                    rest = comment.find('\n').and_then(|end| comment.get(end..)).unwrap_or_default();
                }
                None if rest.starts_with('-') => return self.text.len() - rest.len(),
                None => return self.start(),
            }
        }
    }

    /// Begins an item; its key and value are set when they are read.
    fn begin(&mut self, parent: NodeId, start: usize) -> ItemId {
        let id = self.tree.items.len();
        self.tree.items.push(Item {
            start,
            parent,
            key: None,
            value: parent,
            leading: Vec::new(),
            trailing: None,
            blank_before: false,
        });
        if let Some(Node { kind: Kind::Collection { items, .. }, .. }) = self.tree.nodes.get_mut(parent) {
            items.push(id);
        }
        id
    }

    fn set(&mut self, item: ItemId, key: Option<NodeId>, value: NodeId) {
        if let Some(item) = self.tree.items.get_mut(item) {
            item.key = key;
            item.value = value;
        }
    }

    fn block_list(&mut self, item: Option<ItemId>, indented: bool) -> Result<NodeId> {
        let list = self.collection(false, false, item);
        while self.peek() == Some(&TokenType::BlockEntry) {
            let id = self.begin(list, self.dash());
            self.at += 1;
            let value = match self.peek() {
                Some(TokenType::BlockEntry | TokenType::BlockEnd) => {
                    let end = self.end();
                    self.push(end, end, Kind::Empty, Some(id))
                }
                _ => self.node(Some(id), false)?,
            };
            self.set(id, None, value);
        }
        self.close(list);
        if indented && !self.accept(|token| *token == TokenType::BlockEnd) {
            return self.unsupported("this list is not formatted");
        }
        Ok(list)
    }

    fn block_map(&mut self, item: Option<ItemId>) -> Result<NodeId> {
        let map = self.collection(true, false, item);
        while let Some(TokenType::Key | TokenType::Value) = self.peek() {
            let id = self.begin(map, self.start());
            let key = self.key(id)?;
            let value = if self.accept(|token| *token == TokenType::Value) {
                match self.peek() {
                    Some(TokenType::Key | TokenType::Value | TokenType::BlockEnd) => {
                        let end = self.end();
                        self.push(end, end, Kind::Empty, Some(id))
                    }
                    _ => self.node(Some(id), true)?,
                }
            } else {
                let end = self.end();
                self.push(end, end, Kind::Empty, Some(id))
            };
            self.set(id, Some(key), value);
        }
        self.close(map);
        if !self.accept(|token| *token == TokenType::BlockEnd) {
            return self.unsupported("this mapping is not formatted");
        }
        Ok(map)
    }

    /// Reads a key, which must be a scalar on one line.
    fn key(&mut self, item: ItemId) -> Result<NodeId> {
        if !self.accept(|token| *token == TokenType::Key) || self.peek() == Some(&TokenType::Value) {
            return self.unsupported("an entry without a key is not formatted");
        }
        let start = self.start();
        let before = self.text.get(..start).unwrap_or_default();
        if before.rsplit('\n').next().is_some_and(|line| line.trim_end().ends_with('?')) {
            return self.unsupported("a key with `?` is not formatted");
        }
        let key = self.node(Some(item), false)?;
        let until = self.start().min(self.text.len());
        let is_scalar = matches!(
            self.tree.nodes.get(key).map(|node| &node.kind),
            Some(Kind::Scalar { style, .. }) if !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
        ) || matches!(self.tree.nodes.get(key).map(|node| &node.kind), Some(Kind::Alias));
        let one_line = self.peek() != Some(&TokenType::Value)
            || self.text.get(start..until).is_some_and(|written| !written.contains(['\n', '#']));
        if is_scalar && one_line {
            Ok(key)
        } else {
            self.unsupported("a key that is not on one line is not formatted")
        }
    }

    fn flow(&mut self, item: Option<ItemId>, is_map: bool) -> Result<NodeId> {
        let node = self.collection(is_map, true, item);
        self.at += 1;
        loop {
            match self.peek() {
                None => return self.unsupported("this list is not formatted"),
                Some(TokenType::FlowEntry) => self.at += 1,
                Some(TokenType::FlowSequenceEnd | TokenType::FlowMappingEnd) => {
                    self.at += 1;
                    break;
                }
                Some(_) if is_map => self.flow_entry(node)?,
                Some(TokenType::Key | TokenType::Value) => {
                    // `[a: 1]` is a list with a mapping.
                    let id = self.begin(node, self.start());
                    let inner = self.collection(true, true, Some(id));
                    self.flow_entry(inner)?;
                    self.close(inner);
                    self.set(id, None, inner);
                }
                Some(_) => {
                    let id = self.begin(node, self.start());
                    let value = self.node(Some(id), false)?;
                    self.set(id, None, value);
                }
            }
        }
        self.close(node);
        Ok(node)
    }

    fn flow_entry(&mut self, map: NodeId) -> Result<()> {
        let id = self.begin(map, self.start());
        let key = match self.peek() {
            Some(TokenType::Key) => self.key(id)?,
            Some(TokenType::Scalar(..)) => self.node(Some(id), false)?,
            _ => return self.unsupported("an entry without a key is not formatted"),
        };
        let value = if self.accept(|token| *token == TokenType::Value) {
            match self.peek() {
                Some(TokenType::FlowEntry | TokenType::FlowMappingEnd | TokenType::FlowSequenceEnd) => {
                    let end = self.end();
                    self.push(end, end, Kind::Empty, Some(id))
                }
                _ => self.node(Some(id), false)?,
            }
        } else {
            let end = self.end();
            self.push(end, end, Kind::Empty, Some(id))
        };
        self.set(id, Some(key), value);
        Ok(())
    }
}
