//! Turns lanes, nodes and edges into SVG. State is a word, a shape and a colour, and text does not leave its box. The same drawing
//! comes with its lanes side by side and, for narrow screens, on top of each other; the style sheet shows one of them.

use maud::{Markup, html};

use super::layout::{LaneBox, LaneGraph, Layout, NODE_HEIGHT, NODE_WIDTH, Point, side_by_side, stacked};
use crate::read_model::Tone;

/// Characters of an expression on an edge.
const LABEL_LENGTH: usize = 34;
/// Between lanes whose edges have no labels.
const LANE_GAP: i32 = 56;
/// Between lanes whose edges have labels: these are between the nodes then.
const LABEL_GAP: i32 = 176;
/// Larger drawings are not stacked on narrow screens, where they are panned instead.
const MAX_STACKED: usize = 150;

/// A cluster.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) note: String,
    pub(super) tone: Tone,
    /// The page of the cluster; empty if it has none.
    pub(super) link: String,
}

/// A resource in a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) lane: usize,
    pub(super) title: String,
    pub(super) note: String,
    /// The word for its state; empty in the graph of a definition.
    pub(super) state: String,
    /// Why it is in this state, in a word or a few.
    pub(super) reason: String,
    /// The whole sentence, for whoever points at it.
    pub(super) message: String,
    /// Since when it is in this state.
    pub(super) since: Markup,
    pub(super) tone: Tone,
    pub(super) link: String,
    pub(super) selected: bool,
    pub(super) external: bool,
    /// Several objects, drawn as one.
    pub(super) folded: bool,
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
    /// Whether every edge shows its expression.
    pub(super) labels: bool,
    /// Where collections are drawn as one node again.
    pub(super) fold: Option<String>,
}

/// How the lanes stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Wide,
    Stacked,
}

impl Drawing {
    /// Draws it, with what moves and enlarges it.
    pub(super) fn canvas(&self) -> Markup {
        let graph = LaneGraph {
            lanes: self.lanes.len(),
            nodes: self.nodes.iter().map(|node| node.lane).collect(),
            edges: self.edges.iter().map(|edge| (edge.from, edge.to)).collect(),
            lane_gap: if self.labels { LABEL_GAP } else { LANE_GAP },
        };
        let wide = side_by_side(&graph);
        let narrow = (self.nodes.len() <= MAX_STACKED).then(|| stacked(&graph));
        html! {
            div .drawing.both[narrow.is_some()] {
                div .tools role="group" aria-label="View of the graph" {
                    button type="button" data-zoom="out" aria-label="Zoom out" title="Zoom out (-)" { "−" }
                    button type="button" data-zoom="reset" title="Original size (0)" { "100%" }
                    button type="button" data-zoom="in" aria-label="Zoom in" title="Zoom in (+)" { "+" }
                    button type="button" data-zoom="fit" title="Fit everything (f)" { "Fit" }
                    @if let Some(fold) = &self.fold { a href=(fold) { "Fold collections" } }
                }
                div .canvas tabindex="0" role="region" aria-label=(self.label) {
                    (self.svg(&wide, Form::Wide))
                    @if let Some(narrow) = &narrow { (self.svg(narrow, Form::Stacked)) }
                }
                (self.minimap(&wide))
            }
        }
    }

    fn svg(&self, placed: &Layout, form: Form) -> Markup {
        let Layout { width, height, .. } = placed;
        let (class, prefix) = match form {
            Form::Wide => ("graph wide", "w"),
            Form::Stacked => ("graph stacked", "s"),
        };
        html! {
            svg class=(class) viewBox=(format!("-2 -2 {} {}", width + 4, height + 4)) width=(width + 4) height=(height + 4)
                role="group" aria-label=(self.label) {
                defs {
                    @for kind in ["plain", "blocked"] {
                        marker .(kind) id=(format!("{prefix}-{kind}")) viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"
                            markerHeight="7" markerUnits="userSpaceOnUse" orient="auto" { path d="M0 0 L8 4 L0 8 z" {} }
                    }
                }
                @for (lane, place) in self.lanes.iter().zip(&placed.lanes) { (lane_box(lane, *place)) }
                @for at in 0..self.edges.len() { (self.edge(at, placed, form, prefix)) }
                @for (node, place) in self.nodes.iter().zip(&placed.nodes) { (node_box(node, *place)) }
            }
        }
    }

    fn edge(&self, at: usize, placed: &Layout, form: Form, prefix: &str) -> Markup {
        let Some(edge) = self.edges.get(at) else { return html! {} };
        let (Some(from), Some(to)) = (placed.nodes.get(edge.from), placed.nodes.get(edge.to)) else {
            return html! {};
        };
        let lane = |node: usize| self.nodes.get(node).map(|node| node.lane).unwrap_or_default();
        let (first, second) = (lane(edge.from), lane(edge.to));
        let crossing = first != second;
        let is_between = |place: &Point| place.x == from.x && from.y < place.y && place.y < to.y;
        let is_obstructed = from.x == to.x && placed.nodes.iter().any(is_between);
        let route = match (crossing, form) {
            (false, _) if is_obstructed => beside(*from, *to),
            (false, _) => downwards(*from, *to),
            (true, Form::Wide) => across(*from, *to, first.abs_diff(second) > 1),
            (true, Form::Stacked) => around(*from, *to),
        };
        let is_selected = |node: usize| self.nodes.get(node).is_some_and(|node| node.selected);
        // The same expression of the same node is said once.
        let mut before = self.edges.iter().take(at);
        let is_first = !before.any(|it| it.from == edge.from && it.label == edge.label);
        let shown =
            (is_first && (self.labels || edge.blocked)) || is_selected(edge.from) || is_selected(edge.to);
        let marker = if edge.blocked { "blocked" } else { "plain" };
        html! {
            g .edge.crossing[crossing].blocked[edge.blocked].shown[shown && form == Form::Wide] {
                path .hit d=(route.path) { title { (edge.label) } }
                path .line d=(route.path) marker-end=(format!("url(#{prefix}-{marker})")) {}
                @if !edge.label.is_empty() {
                    text x=(route.label.x) y=(route.label.y) text-anchor="middle" { (shortened(&edge.label, LABEL_LENGTH)) }
                }
            }
        }
    }

    /// The whole graph, small: shown when it is larger than the window.
    fn minimap(&self, placed: &Layout) -> Markup {
        let Layout { width, height, .. } = placed;
        html! {
            svg .minimap viewBox=(format!("0 0 {width} {height}")) aria-hidden="true" hidden {
                @for (lane, place) in self.lanes.iter().zip(&placed.lanes) {
                    rect .lane.(tone_class(lane.tone)) x=(place.x) y=(place.y) width=(place.width) height=(place.height) {}
                }
                @for (node, place) in self.nodes.iter().zip(&placed.nodes) {
                    rect .(tone_class(node.tone)) x=(place.x) y=(place.y) width=(NODE_WIDTH) height=(NODE_HEIGHT) {}
                }
                rect .view x="0" y="0" width="0" height="0" {}
            }
        }
    }
}

/// The course of an edge, and where its expression is.
struct Route {
    path: String,
    label: Point,
}

/// From the lower edge to the upper edge, within a lane.
fn downwards(from: Point, to: Point) -> Route {
    let (x1, y1) = (from.x + NODE_WIDTH / 2, from.y + NODE_HEIGHT);
    let (x2, y2) = (to.x + NODE_WIDTH / 2, to.y - 1);
    let middle = (y1 + y2) / 2;
    let path = format!("M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}");
    Route { path, label: Point { x: (x1 + x2) / 2, y: middle + 4 } }
}

/// Past the nodes between its ends, within a lane.
fn beside(from: Point, to: Point) -> Route {
    let (x, y1, y2) = (from.x, from.y + NODE_HEIGHT / 2, to.y + NODE_HEIGHT / 2);
    let (side, middle) = (x - 18, (y1 + y2) / 2);
    let path =
        format!("M{x} {y1} C{side} {y1} {side} {} {side} {middle} S{side} {y2} {} {y2}", y1 + 30, x - 1);
    Route { path, label: Point { x: x + NODE_WIDTH / 2, y: from.y + NODE_HEIGHT + 14 } }
}

/// From side to side, between lanes that stand side by side.
fn across(from: Point, to: Point, far: bool) -> Route {
    let rightwards = from.x < to.x;
    let x1 = if rightwards { from.x + NODE_WIDTH } else { from.x };
    let x2 = if rightwards { to.x - 1 } else { to.x + NODE_WIDTH + 1 };
    let (y1, y2) = (from.y + NODE_HEIGHT / 2, to.y + NODE_HEIGHT / 2);
    let middle = (x1 + x2) / 2;
    let path = format!("M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}");
    // Past the lanes between them, the expression stays beside its source.
    let label = match far {
        true => Point { x: x1 + if rightwards { 100 } else { -100 }, y: y1 - 6 },
        false => Point { x: middle, y: (y1 + y2) / 2 + if y1 == y2 { -6 } else { 4 } },
    };
    Route { path, label }
}

/// Along the right side of lanes that stand on top of each other.
fn around(from: Point, to: Point) -> Route {
    let (x1, x2) = (from.x + NODE_WIDTH, to.x + NODE_WIDTH + 1);
    let (y1, y2) = (from.y + NODE_HEIGHT / 2, to.y + NODE_HEIGHT / 2);
    let side = x1 + 52;
    let path = format!("M{x1} {y1} C{side} {y1} {side} {y2} {x2} {y2}");
    Route { path, label: Point { x: from.x + NODE_WIDTH / 2, y: (y1 + y2) / 2 } }
}

fn lane_box(lane: &Lane, place: LaneBox) -> Markup {
    let LaneBox { x, y, width, height } = place;
    html! {
        g .lane.(tone_class(lane.tone)) {
            rect x=(x) y=(y) width=(width) height=(height) rx="10" {}
            foreignObject x=(x + 16) y=(y + 10) width=(width - 32) height="46" {
                div .lane-head {
                    (shape(lane.tone))
                    strong title=(lane.name) {
                        @if lane.link.is_empty() { (lane.name) } @else { a href=(lane.link) { (lane.name) } }
                    }
                    span .note title=(lane.note) { (lane.note) }
                }
            }
        }
    }
}

fn node_box(node: &Node, place: Point) -> Markup {
    let Point { x, y } = place;
    let title = [node.title.as_str(), &node.note, &node.message];
    let title = title.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    html! {
        foreignObject x=(x) y=(y) width=(NODE_WIDTH) height=(NODE_HEIGHT) {
            a .node.(tone_class(node.tone)).selected[node.selected].external[node.external].folded[node.folded]
                href=(node.link) title=(title) aria-current=[node.selected.then_some("true")] {
                span .head {
                    (shape(node.tone)) span .title { (node.title) }
                    @if !node.state.is_empty() { span .state { (node.state) } }
                }
                span .note { (node.note) }
                span .detail { span .reason { (node.reason) } (node.since) }
            }
        }
    }
}

/// A shape of its own for each tone, for those who do not see its colour.
pub(super) fn shape(tone: Tone) -> Markup {
    html! {
        svg .shape.(tone_class(tone)) viewBox="0 0 10 10" width="10" height="10" aria-hidden="true" {
            @match tone {
                Tone::Good => circle cx="5" cy="5" r="4.5" {},
                Tone::Bad => path d="M5 0 l5 5 l-5 5 l-5 -5 z" {},
                Tone::Busy => path d="M0 9.5 l5 -9 l5 9 z" {},
                Tone::Faint | Tone::Plain => circle .hollow cx="5" cy="5" r="3.8" {},
            }
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
pub(super) fn shortened(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_the_selected_node_is_marked() {
        let node = Node {
            title: "<script>".to_owned(),
            state: "Ready".to_owned(),
            tone: Tone::Good,
            link: "?node=a".to_owned(),
            selected: true,
            ..Node::default()
        };
        let lane =
            Lane { name: "hub".to_owned(), note: String::new(), tone: Tone::Plain, link: String::new() };
        let drawing = Drawing { lanes: vec![lane], nodes: vec![node], ..Drawing::default() };
        let svg = drawing.canvas().into_string();
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script>"), "{svg}");
        assert!(svg.contains("aria-current=\"true\""));
    }

    #[test]
    fn a_large_drawing_is_drawn_once() {
        let lane =
            || Lane { name: "hub".to_owned(), note: String::new(), tone: Tone::Plain, link: String::new() };
        let drawn = |nodes: usize| {
            let nodes = vec![Node::default(); nodes];
            Drawing { lanes: vec![lane()], nodes, ..Drawing::default() }.canvas().into_string()
        };
        assert!(drawn(MAX_STACKED).contains("graph stacked"));
        assert!(!drawn(MAX_STACKED + 1).contains("graph stacked"));
    }
}
