//! Finds for every comment the item that it belongs to: the item beside it, the item below it, or the end of the collection
//! that it is indented like. Notes which items have a blank line above them.

use super::tree::{Comment, ItemId, Kind, NodeId, Tree};

pub(super) fn attach<'t>(tree: &mut Tree<'t>, text: &'t str) {
    for (start, end) in std::mem::take(&mut tree.comments) {
        let written = text.get(start..end).unwrap_or_default().trim_end();
        if line_before(text, start).trim_matches('\u{feff}').trim().is_empty() {
            above(tree, text, start, Comment { text: written, blank_before: blank_above(text, start) });
        } else {
            beside(tree, text, start, written);
        }
    }
    for item in &mut tree.items {
        item.blank_before = line_before(text, item.start).trim().is_empty() && blank_above(text, item.start);
    }
}

/// The text of the line before a position.
fn line_before(text: &str, at: usize) -> &str {
    let before = text.get(..at).unwrap_or_default();
    before.rsplit_once('\n').map_or(before, |(_, line)| line)
}

fn column(text: &str, at: usize) -> usize {
    line_before(text, at).chars().count()
}

/// Whether the line above that of a position is blank.
fn blank_above(text: &str, at: usize) -> bool {
    let before = text.get(..at - line_before(text, at).len()).unwrap_or_default();
    let Some(before) = before.strip_suffix('\n') else { return false };
    before.rsplit_once('\n').map_or(before, |(_, line)| line).trim().is_empty()
}

/// The document of a position; none before the first `---`.
fn document_at(tree: &Tree<'_>, at: usize) -> Option<usize> {
    tree.documents.partition_point(|document| document.start <= at).checked_sub(1)
}

/// The innermost flow collection around a position, seen from the last item before it.
fn flow_around(tree: &Tree<'_>, last: Option<ItemId>, root: Option<NodeId>, at: usize) -> Option<NodeId> {
    let contains = |id: NodeId| {
        tree.nodes.get(id).is_some_and(|node| {
            matches!(node.kind, Kind::Collection { flow: true, .. }) && node.start < at && at < node.end
        })
    };
    let Some(last) = last else { return root.filter(|root| contains(*root)) };
    let value = tree.items.get(last).map(|item| item.value);
    if let Some(value) = value.filter(|value| contains(*value)) {
        return Some(value);
    }
    ancestors(tree, last).into_iter().find(|node| contains(*node))
}

/// The collections around an item, the innermost first.
fn ancestors(tree: &Tree<'_>, item: ItemId) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut next = tree.items.get(item).map(|item| item.parent);
    while let Some(node) = next {
        found.push(node);
        let holder = tree.nodes.get(node).and_then(|node| node.item);
        next = holder.and_then(|holder| tree.items.get(holder)).map(|item| item.parent);
    }
    found
}

fn above<'t>(tree: &mut Tree<'t>, text: &'t str, at: usize, comment: Comment<'t>) {
    let Some(document) = document_at(tree, at) else {
        if let Some(first) = tree.documents.first_mut() {
            first.before.push(comment);
        }
        return;
    };
    let Some((items, root)) = tree.documents.get(document).map(|it| (it.items.clone(), it.root)) else {
        return;
    };
    let next = items.start
        + tree.items.get(items.clone()).map_or(0, |all| all.partition_point(|item| item.start <= at));
    let last = next.checked_sub(1).filter(|last| items.contains(last));
    let next = Some(next).filter(|next| items.contains(next));
    let value_follows = last.and_then(|last| tree.items.get(last)).is_some_and(|item| {
        tree.nodes.get(item.value).is_some_and(|value| {
            value.start > at && !matches!(value.kind, Kind::Collection { flow: false, .. } | Kind::Empty)
        })
    });
    if let Some(flow) = flow_around(tree, last, root, at) {
        let end = tree.nodes.get(flow).map_or(0, |node| node.end);
        let inside = next.filter(|next| tree.items.get(*next).is_some_and(|item| item.start < end));
        return match inside {
            Some(next) => lead(tree, next, comment),
            None => end_of(tree, flow, comment),
        };
    }
    if let Some(last) = last.filter(|_| value_follows) {
        return lead(tree, last, comment);
    }
    let around_next = next.map(|next| ancestors(tree, next)).unwrap_or_default();
    let limit = next.and_then(|next| tree.items.get(next)).map(|item| column(text, item.start));
    let own = column(text, at);
    let closed = last.map(|last| ancestors(tree, last)).unwrap_or_default();
    let fitting = closed.into_iter().find(|node| {
        let first = tree.nodes.get(*node).and_then(|node| match &node.kind {
            Kind::Collection { flow: false, items, .. } => tree.items.get(*items.first()?),
            _ => None,
        });
        let Some(indentation) = first.map(|item| column(text, item.start)) else { return false };
        !around_next.contains(node) && indentation <= own && limit.is_none_or(|limit| indentation > limit)
    });
    match (fitting, next) {
        (Some(collection), _) => end_of(tree, collection, comment),
        (None, Some(next)) => lead(tree, next, comment),
        (None, None) => {
            let is_before = root.and_then(|root| tree.nodes.get(root)).is_some_and(|root| at < root.start);
            if let Some(document) = tree.documents.get_mut(document) {
                if is_before { document.leading.push(comment) } else { document.after.push(comment) }
            }
        }
    }
}

fn lead<'t>(tree: &mut Tree<'t>, item: ItemId, comment: Comment<'t>) {
    if let Some(item) = tree.items.get_mut(item) {
        item.leading.push(comment);
    }
}

fn end_of<'t>(tree: &mut Tree<'t>, collection: NodeId, comment: Comment<'t>) {
    if let Some(Kind::Collection { end, .. }) = tree.nodes.get_mut(collection).map(|node| &mut node.kind) {
        end.push(comment);
    }
}

fn beside<'t>(tree: &mut Tree<'t>, text: &'t str, at: usize, comment: &'t str) {
    let Some(document) = document_at(tree, at) else { return };
    let Some((items, root, start)) =
        tree.documents.get(document).map(|it| (it.items.clone(), it.root, it.start))
    else {
        return;
    };
    let begins = tree.items.get(items.clone()).map_or(0, |all| all.partition_point(|item| item.start <= at));
    let last = (begins > 0).then(|| items.start + begins - 1);
    let above = Comment { text: comment, blank_before: false };
    if let Some(flow) = flow_around(tree, last, root, at) {
        let flow_start = tree.nodes.get(flow).map_or(0, |node| node.start);
        let is_inside =
            last.and_then(|last| tree.items.get(last)).is_some_and(|item| item.start > flow_start);
        if !is_inside {
            // Beside the opening bracket.
            let first = match tree.nodes.get(flow).map(|node| &node.kind) {
                Some(Kind::Collection { items, .. }) => items.first().copied(),
                _ => None,
            };
            return match first {
                Some(first) => lead(tree, first, above),
                None => end_of(tree, flow, above),
            };
        }
    }
    let Some(mut owner) = last else {
        let root_start = root.and_then(|root| tree.nodes.get(root)).map(|root| root.start);
        let on_first_line = text.get(start..at).is_some_and(|before| !before.contains('\n'));
        if let Some(document) = tree.documents.get_mut(document) {
            if root_start.is_none_or(|root| at < root) && document.explicit && on_first_line {
                document.beside = Some(comment);
            } else if root_start.is_some_and(|root| at < root) || document.trailing.is_some() {
                document.leading.push(above);
            } else {
                document.trailing = Some(comment);
            }
        }
        return;
    };
    // Behind a closing bracket, the comment belongs to the item that holds the brackets.
    while let Some(parent) = tree.items.get(owner).and_then(|item| tree.nodes.get(item.parent)) {
        if !(matches!(parent.kind, Kind::Collection { flow: true, .. }) && parent.end <= at) {
            break;
        }
        match parent.item {
            Some(holder) => owner = holder,
            None => {
                if let Some(document) = tree.documents.get_mut(document) {
                    document.trailing = Some(comment);
                }
                return;
            }
        }
    }
    if let Some(item) = tree.items.get_mut(owner) {
        match item.trailing {
            None => item.trailing = Some(comment),
            Some(_) => item.leading.push(above),
        }
    }
}
