//! Writes the tree.

use granit_parser::ScalarStyle;
use kross_diagnostics::PathSegment;
use kross_value::Value;

use super::super::Document;
use super::Style;
use super::scalars::{self, Written};
use super::tree::{Comment, Item, ItemId, Kind, Node, NodeId, Tree};

/// A list or mapping in brackets that was written on several lines is joined if it fits into this width.
const WIDTH: usize = 110;

const STEP: usize = 2;

pub(super) fn print(tree: &Tree<'_>, text: &str, parsed: &[Document], style: &dyn Style) -> String {
    let mut printer = Printer {
        tree,
        text,
        style,
        document: &Value::Null,
        sorts: true,
        path: Vec::new(),
        out: String::new(),
    };
    let mut is_first = true;
    for (at, document) in tree.documents.iter().enumerate() {
        let end = tree.documents.get(at + 1).map_or(text.len(), |next| next.start);
        let has_comments = document.beside.is_some()
            || [&document.before, &document.leading, &document.after].iter().any(|list| !list.is_empty());
        let has_root = document.root.is_some();
        if !has_root && !has_comments {
            continue;
        }
        printer.comments(&document.before, 0, is_first);
        if !is_first || document.explicit {
            printer.out.push_str("---");
            printer.trailing(document.beside);
            printer.out.push('\n');
        }
        is_first = false;
        let found =
            parsed.iter().find(|parsed| (document.start..end).contains(&(parsed.span().start as usize)));
        printer.document = found.map_or(&Value::Null, Document::value);
        printer.sorts = !document.has_anchors;
        printer.comments(&document.leading, 0, true);
        if let Some(root) = document.root {
            printer.root(root, document.trailing);
        }
        printer.comments(&document.after, 0, !has_root);
    }
    printer.out
}

struct Printer<'a> {
    tree: &'a Tree<'a>,
    text: &'a str,
    style: &'a dyn Style,
    /// The value of the document.
    document: &'a Value,
    /// Whether keys are sorted: an alias must come after its anchor.
    sorts: bool,
    path: Vec<PathSegment>,
    out: String,
}

impl<'a> Printer<'a> {
    fn node(&self, id: NodeId) -> Option<&'a Node<'a>> {
        self.tree.nodes.get(id)
    }

    /// A scalar as it is written. That of a block begins with the indentation of its first line.
    fn raw(&self, node: &Node<'_>, style: ScalarStyle) -> &'a str {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let before = self.text.get(..node.start).unwrap_or_default();
        let start = if is_block { before.rfind('\n').map_or(0, |at| at + 1) } else { node.start };
        self.text.get(start..node.end).unwrap_or_default()
    }

    fn root(&mut self, id: NodeId, trailing: Option<&str>) {
        let Some(node) = self.node(id) else { return };
        if let Kind::Collection { is_map, flow: false, items, end } = &node.kind {
            if !node.properties.is_empty() {
                self.out.push_str(&node.properties.join(" "));
                self.out.push('\n');
            }
            self.block(*is_map, items, end, 0, false);
            return;
        }
        let before = self.out.len();
        self.value(id, 0, 0, trailing, false);
        // A value stands behind its key with a space; here there is no key.
        if self.out.get(before..).is_some_and(|written| written.starts_with(' ')) {
            self.out.remove(before);
        }
    }

    /// Writes comments on lines of their own.
    fn comments(&mut self, comments: &[Comment<'_>], indent: usize, mut is_first: bool) {
        for comment in comments {
            if comment.blank_before && !is_first {
                self.blank();
            }
            is_first = false;
            self.indent(indent);
            self.out.push_str(comment.text);
            self.out.push('\n');
        }
    }

    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn trailing(&mut self, comment: Option<&str>) {
        if let Some(comment) = comment {
            self.out.push(' ');
            self.out.push_str(comment);
        }
    }

    /// The items in the order of the style. Comments at the top of a document stay there.
    fn ordered(&self, items: &'a [ItemId]) -> (Vec<&'a Item<'a>>, Vec<Comment<'a>>) {
        let mut found: Vec<&Item<'_>> = items.iter().filter_map(|id| self.tree.items.get(*id)).collect();
        let (first, last) = self.style.keys(self.document, &self.path);
        if !self.sorts || first.is_empty() && last.is_empty() {
            return (found, Vec::new());
        }
        let rank = |item: &Item<'_>| {
            let key = self.key_text(item);
            let position = |keys: &[&str]| keys.iter().position(|known| *known == key);
            match (position(first), position(last)) {
                (Some(at), _) => at,
                (None, Some(at)) => first.len() + 1 + at,
                (None, None) => first.len(),
            }
        };
        let was_first = found.first().map(|item| item.start);
        found.sort_by_key(|item| rank(item));
        let moved = found.first().map(|item| item.start) != was_first;
        let header = match was_first.filter(|_| moved && self.path.is_empty()) {
            Some(start) => found.iter().find(|item| item.start == start).map(|item| item.leading.clone()),
            None => None,
        };
        (found, header.unwrap_or_default())
    }

    fn key_text(&self, item: &Item<'_>) -> &'a str {
        match item.key.and_then(|key| self.node(key)).map(|key| &key.kind) {
            Some(Kind::Scalar { text, .. }) => text,
            _ => "",
        }
    }

    fn step(&self, item: &Item<'_>, at: usize) -> PathSegment {
        match item.key {
            Some(_) => PathSegment::Key(self.key_text(item).into()),
            None => PathSegment::Index(at),
        }
    }

    /// Writes the items of a block. `compact`: the first one continues the line.
    fn block(
        &mut self,
        is_map: bool,
        items: &'a [ItemId],
        end: &[Comment<'_>],
        indent: usize,
        compact: bool,
    ) {
        let (ordered, header) = self.ordered(items);
        self.comments(&header, indent, true);
        for (at, item) in ordered.into_iter().enumerate() {
            let is_first = at == 0;
            let had_header = !header.is_empty();
            let leading = if had_header
                && header.first().map(|comment| comment.text.as_ptr())
                    == item.leading.first().map(|comment| comment.text.as_ptr())
            {
                &[][..]
            } else {
                &item.leading[..]
            };
            self.comments(leading, indent, is_first);
            if item.blank_before && (!is_first || !leading.is_empty()) {
                self.blank();
            }
            if !(is_first && compact && leading.is_empty()) {
                self.indent(indent);
            }
            let step = self.step(item, at);
            self.path.push(step);
            if is_map {
                self.key(item);
                self.out.push(':');
            } else {
                self.out.push('-');
            }
            self.value(item.value, indent, indent + STEP, item.trailing, !is_map);
            self.path.pop();
        }
        self.comments(end, indent, false);
    }

    fn key(&mut self, item: &Item<'_>) {
        let Some(key) = item.key.and_then(|key| self.node(key)) else { return };
        for property in &key.properties {
            self.out.push_str(property);
            self.out.push(' ');
        }
        let written = self.text.get(key.start..key.end).unwrap_or_default().trim();
        self.out.push_str(written);
        if matches!(key.kind, Kind::Alias) {
            self.out.push(' ');
        }
    }

    /// Writes a value behind its key or dash, up to the end of its last line.
    fn value(&mut self, id: NodeId, indent: usize, inner: usize, trailing: Option<&str>, in_list: bool) {
        let Some(node) = self.node(id) else { return };
        for property in &node.properties {
            self.out.push(' ');
            self.out.push_str(property);
        }
        match &node.kind {
            Kind::Empty => self.end_line(trailing),
            Kind::Alias => {
                self.out.push(' ');
                self.out.push_str(self.text.get(node.start..node.end).unwrap_or_default().trim());
                self.end_line(trailing);
            }
            Kind::Scalar { style, text } => {
                let raw = self.raw(node, *style);
                let formatted = self.style.text(self.document, &self.path, text);
                let scalar = scalars::Scalar {
                    style: *style,
                    text,
                    raw,
                    formatted: formatted.as_deref(),
                    tagged: !node.properties.is_empty(),
                };
                match scalar.write(inner.max(STEP), false) {
                    Written::Line(line) => {
                        self.out.push(' ');
                        self.out.push_str(&line);
                        self.end_line(trailing);
                    }
                    Written::Block { header, content } => {
                        self.out.push(' ');
                        self.out.push_str(&header);
                        self.end_line(trailing);
                        self.out.push_str(&content);
                    }
                }
            }
            Kind::Collection { flow: true, .. } => {
                self.out.push(' ');
                let column = self.out.len() - self.out.rfind('\n').map_or(0, |at| at + 1);
                let written = self.flow(id, indent, column);
                self.out.push_str(&written);
                self.end_line(trailing);
            }
            Kind::Collection { is_map, items, end, .. } => {
                let leads = items
                    .first()
                    .and_then(|id| self.tree.items.get(*id))
                    .is_some_and(|item| !item.leading.is_empty());
                let compact = in_list && trailing.is_none() && node.properties.is_empty() && !leads;
                if compact {
                    self.out.push(' ');
                } else {
                    self.end_line(trailing);
                }
                self.block(*is_map, items, end, inner, compact);
            }
        }
    }

    fn end_line(&mut self, trailing: Option<&str>) {
        self.trailing(trailing);
        self.out.push('\n');
    }

    fn has_comments(&self, id: NodeId) -> bool {
        let Some(Kind::Collection { items, end, .. }) = self.node(id).map(|node| &node.kind) else {
            return false;
        };
        !end.is_empty()
            || items.iter().filter_map(|id| self.tree.items.get(*id)).any(|item| {
                !item.leading.is_empty() || item.trailing.is_some() || self.has_comments(item.value)
            })
    }

    /// A collection in brackets. It stays on several lines if it was written with a line break after the bracket.
    fn flow(&mut self, id: NodeId, indent: usize, column: usize) -> String {
        let Some(Node { start, kind: Kind::Collection { is_map, items, .. }, .. }) = self.node(id) else {
            return String::new();
        };
        let (open, close) = if *is_map { ('{', '}') } else { ('[', ']') };
        let has_bracket = self.text.get(*start..).is_some_and(|rest| rest.starts_with(open));
        let after = self.text.get(start + 1..).unwrap_or_default();
        let breaks = after.split(['\n']).next().is_some_and(|line| line.trim().is_empty());
        let broken = self.has_comments(id) || has_bracket && breaks && !items.is_empty();
        if !broken {
            let line = self.flow_line(items, indent, column);
            let whole = format!("{open}{line}{close}");
            let was_one_line = self.node(id).is_some_and(|node| {
                self.text.get(node.start..node.end).is_some_and(|written| !written.contains('\n'))
            });
            if was_one_line || !whole.contains('\n') && column + whole.len() <= WIDTH {
                return whole;
            }
        }
        self.flow_broken(id, indent, open, close)
    }

    fn flow_line(&mut self, items: &'a [ItemId], indent: usize, column: usize) -> String {
        let parts: Vec<String> = self
            .ordered(items)
            .0
            .into_iter()
            .enumerate()
            .map(|(at, item)| self.flow_item(item, at, indent, column))
            .collect();
        parts.join(", ")
    }

    fn flow_broken(&mut self, id: NodeId, indent: usize, open: char, close: char) -> String {
        let Some(Node { kind: Kind::Collection { items, end, .. }, .. }) = self.node(id) else {
            return String::new();
        };
        let inner = indent + STEP;
        let pad = " ".repeat(inner);
        let mut out = format!("{open}\n");
        for (at, item) in self.ordered(items).0.into_iter().enumerate() {
            for comment in &item.leading {
                out.push_str(&format!("{pad}{}\n", comment.text));
            }
            let written = self.flow_item(item, at, inner, inner);
            let trailing = item.trailing.map(|comment| format!(" {comment}")).unwrap_or_default();
            out.push_str(&format!("{pad}{written},{trailing}\n"));
        }
        for comment in end {
            out.push_str(&format!("{pad}{}\n", comment.text));
        }
        out.push_str(&" ".repeat(indent));
        out.push(close);
        out
    }

    fn flow_item(&mut self, item: &'a Item<'a>, at: usize, indent: usize, column: usize) -> String {
        let step = self.step(item, at);
        self.path.push(step);
        let mut out = String::new();
        if item.key.is_some() {
            let kept = std::mem::take(&mut self.out);
            self.key(item);
            out = std::mem::replace(&mut self.out, kept);
            out.push(':');
        }
        let value = self.flow_value(item.value, indent, column + out.len());
        if !value.is_empty() {
            if item.key.is_some() {
                out.push(' ');
            }
            out.push_str(&value);
        }
        self.path.pop();
        out
    }

    fn flow_value(&mut self, id: NodeId, indent: usize, column: usize) -> String {
        let Some(node) = self.node(id) else { return String::new() };
        let mut parts: Vec<String> = node.properties.iter().map(ToString::to_string).collect();
        match &node.kind {
            Kind::Empty => {}
            Kind::Alias => {
                parts.push(self.text.get(node.start..node.end).unwrap_or_default().trim().to_owned());
            }
            Kind::Scalar { style, text } => {
                let raw = self.raw(node, *style);
                let formatted = self.style.text(self.document, &self.path, text);
                let scalar = scalars::Scalar {
                    style: *style,
                    text,
                    raw,
                    formatted: formatted.as_deref(),
                    tagged: !parts.is_empty(),
                };
                if let Written::Line(line) = scalar.write(indent + STEP, true) {
                    parts.push(line);
                }
            }
            Kind::Collection { .. } => parts.push(self.flow(id, indent, column)),
        }
        parts.join(" ")
    }
}
