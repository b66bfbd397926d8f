//! Turns lanes, nodes and edges into SVG. State is a word, a shape and a colour, and text does not leave its box.

use maud::{Markup, html};

use super::layout::{LaneGraph, Layout, NODE_HEIGHT, NODE_WIDTH, Point, layout};
use crate::read_model::Tone;

/// Characters of a title that fit into a node.
const TITLE_LENGTH: usize = 26;
/// Characters of the smaller text that fit into a node.
const NOTE_LENGTH: usize = 34;

/// A cluster.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) note: String,
    pub(super) tone: Tone,
}

/// A resource in a cluster.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) lane: usize,
    pub(super) title: String,
    pub(super) note: String,
    /// The word for its state; empty in the graph of a definition.
    pub(super) state: String,
    pub(super) tone: Tone,
    pub(super) link: String,
    pub(super) selected: bool,
    pub(super) external: bool,
}

/// One node reads another.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The expression that makes it.
    pub(super) label: String,
    pub(super) blocked: bool,
}

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct Drawing {
    pub(super) label: String,
    pub(super) lanes: Vec<Lane>,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
}

impl Drawing {
    /// Draws it.
    pub(super) fn svg(&self) -> Markup {
        let placed = layout(&LaneGraph {
            lanes: self.lanes.len(),
            nodes: self.nodes.iter().map(|node| node.lane).collect(),
            edges: self.edges.iter().map(|edge| (edge.from, edge.to)).collect(),
        });
        let Layout { width, height, .. } = placed;
        html! {
            svg .graph viewBox=(format!("-2 -2 {} {}", width + 4, height + 4)) width=(width) height=(height)
                role="group" aria-label=(self.label) {
                defs {
                    marker #arrow viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" {
                        path d="M0 0 L8 4 L0 8 z" {}
                    }
                }
                @for (lane, place) in self.lanes.iter().zip(&placed.lanes) {
                    g .lane.(tone_class(lane.tone)) {
                        rect x=(place.x) y="0" width=(place.width) height=(height) rx="8" {}
                        text .lane-name x=(place.x + 20) y="26" { (shortened(&lane.name, 30)) title { (lane.name) } }
                        text .lane-note x=(place.x + 20) y="45" { (shortened(&lane.note, 36)) title { (lane.note) } }
                        (shape(lane.tone, Point { x: place.x + place.width - 20, y: 22 }))
                    }
                }
                @for edge in &self.edges { (self.edge(edge, &placed)) }
                @for (node, place) in self.nodes.iter().zip(&placed.nodes) { (node_box(node, *place)) }
            }
        }
    }

    fn edge(&self, edge: &Edge, placed: &Layout) -> Markup {
        let (Some(from), Some(to)) = (placed.nodes.get(edge.from), placed.nodes.get(edge.to)) else {
            return html! {};
        };
        let lane = |node: usize| self.nodes.get(node).map(|node| node.lane);
        let crossing = lane(edge.from) != lane(edge.to);
        let path = path(*from, *to, crossing);
        let middle = Point { x: (from.x + to.x + NODE_WIDTH) / 2, y: (from.y + to.y + NODE_HEIGHT) / 2 };
        html! {
            g .edge.crossing[crossing].blocked[edge.blocked] {
                path d=(path) marker-end="url(#arrow)" { title { (edge.label) } }
                @if edge.blocked && !edge.label.is_empty() {
                    text x=(middle.x) y=(middle.y) text-anchor="middle" { (shortened(&edge.label, 30)) }
                }
            }
        }
    }
}

/// From the lower edge to the upper edge within a lane, from side to side between lanes.
fn path(from: Point, to: Point, crossing: bool) -> String {
    if !crossing {
        let (x1, y1) = (from.x + NODE_WIDTH / 2, from.y + NODE_HEIGHT);
        let (x2, y2) = (to.x + NODE_WIDTH / 2, to.y - 3);
        let middle = (y1 + y2) / 2;
        return format!("M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}");
    }
    let rightwards = from.x < to.x;
    let x1 = if rightwards { from.x + NODE_WIDTH } else { from.x };
    let x2 = if rightwards { to.x - 3 } else { to.x + NODE_WIDTH + 3 };
    let (y1, y2) = (from.y + NODE_HEIGHT / 2, to.y + NODE_HEIGHT / 2);
    let middle = (x1 + x2) / 2;
    format!("M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}")
}

fn node_box(node: &Node, place: Point) -> Markup {
    let Point { x, y } = place;
    let second = match (node.note.as_str(), node.state.as_str()) {
        (note, "") => note.to_owned(),
        ("", state) => state.to_owned(),
        (note, state) => format!("{state} · {note}"),
    };
    html! {
        a .node.(tone_class(node.tone)).selected[node.selected].external[node.external] href=(node.link)
            aria-current=[node.selected.then_some("true")] {
            title { (node.title) ": " (second) }
            rect x=(x) y=(y) width=(NODE_WIDTH) height=(NODE_HEIGHT) rx="8" {}
            (shape(node.tone, Point { x: x + 18, y: y + 22 }))
            text .title x=(x + 32) y=(y + 26) { (shortened(&node.title, TITLE_LENGTH)) }
            text .note x=(x + 14) y=(y + 46) { (shortened(&second, NOTE_LENGTH)) }
        }
    }
}

/// A shape of its own for each tone, for those who do not see its colour.
fn shape(tone: Tone, at: Point) -> Markup {
    let Point { x, y } = at;
    let class = tone_class(tone);
    html! {
        @match tone {
            Tone::Good => circle .shape.(class) cx=(x) cy=(y) r="5" {},
            Tone::Bad => path .shape.(class) d=(format!("M{} {} l5 5 l5 -5 l-5 -5 z", x - 5, y)) {},
            Tone::Busy => path .shape.(class) d=(format!("M{} {} l5 -9 l5 9 z", x - 5, y + 4)) {},
            Tone::Faint | Tone::Plain => circle .shape.hollow.(class) cx=(x) cy=(y) r="4" {},
        }
    }
}

pub(super) fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Busy => "busy",
        Tone::Bad => "bad",
        Tone::Faint => "faint",
    }
}

/// A text of at most so many characters.
fn shortened(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shortened_and_escaped() {
        let node = Node {
            lane: 0,
            title: "<script>".repeat(9),
            note: String::new(),
            state: "Ready".to_owned(),
            tone: Tone::Good,
            link: "?node=a".to_owned(),
            selected: true,
            external: false,
        };
        let lane = Lane { name: "hub".to_owned(), note: String::new(), tone: Tone::Plain };
        let drawing =
            Drawing { label: "x".to_owned(), lanes: vec![lane], nodes: vec![node], edges: Vec::new() };
        let svg = drawing.svg().into_string();
        assert!(
            svg.contains("&lt;script&gt;&lt;script&gt;&lt;script&gt;&lt;…") && !svg.contains("<script>"),
            "{svg}"
        );
        assert!(svg.contains("aria-current=\"true\""));
    }
}
