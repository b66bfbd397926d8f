//! Draws a view as an image that needs no style sheet, with the lanes of the dashboard.

use std::fmt::Write;

use kross_server::layout::{LaneGraph, Layout, NODE_HEIGHT, NODE_WIDTH, Point, side_by_side};

use super::draw::{box_lines, shortened};
use super::view::{Edge, Shown, View};

/// Characters that fit into a node.
const NODE_LENGTH: usize = 34;
/// Characters of an expression beside its edge.
const LABEL_LENGTH: usize = 40;
/// Between lanes: the edges that cross, with their expressions.
const LANE_GAP: i32 = 176;
/// The height of the title above the lanes.
const TITLE: i32 = 40;

/// Colours that are readable on light and dark pages.
const STYLE: &str = "text{font:13px sans-serif;fill:#1f2937}.title{font-size:16px;font-weight:600;fill:#6b7280}\
.lane{fill:#f3f4f6;stroke:#d1d5db}.name{font-weight:600}.node{fill:#fff;stroke:#6b7280}\
.external{stroke-dasharray:5 4}.conditional{stroke-dasharray:2 3}.note{font-size:11px;fill:#4b5563}\
.edge{fill:none;stroke:#6b7280}.label{font-size:10px;fill:#374151;paint-order:stroke;stroke:#f3f4f6;stroke-width:3px}";

/// The image.
pub(super) fn svg(view: &View) -> String {
    let placed = side_by_side(&LaneGraph {
        lanes: view.lanes.len(),
        nodes: view.nodes.iter().map(|node| node.lane).collect(),
        edges: view.edges.iter().map(|edge| (edge.from, edge.to)).collect(),
        lane_gap: LANE_GAP,
    });
    let (width, height) = (placed.width.max(320) + 4, placed.height + TITLE + 4);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"-2 -2 {width} {height}\" role=\"img\">\n"
    );
    let _ = writeln!(out, "<title>{}</title>\n<style>{STYLE}</style>", escaped(&view.title));
    out.push_str("<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#6b7280\"/></marker></defs>\n");
    let _ = writeln!(out, "<text class=\"title\" x=\"4\" y=\"22\">{}</text>", escaped(&view.title));
    let _ = writeln!(out, "<g transform=\"translate(0 {TITLE})\">");
    for (name, lane) in view.lanes.iter().zip(&placed.lanes) {
        let _ = writeln!(
            out,
            "<rect class=\"lane\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"8\"/><text class=\"name\" x=\"{}\" y=\"{}\">{}<title>{}</title></text>",
            lane.x,
            lane.y,
            lane.width,
            lane.height,
            lane.x + 20,
            lane.y + 30,
            escaped(&shortened(name, NODE_LENGTH - 6)),
            escaped(name)
        );
    }
    // Edges pass behind nodes, and their expressions stay readable.
    let mut labels = String::new();
    for edge in &view.edges {
        draw_edge(&mut out, &mut labels, view, edge, &placed);
    }
    for (node, place) in view.nodes.iter().zip(&placed.nodes) {
        draw_node(&mut out, node, *place);
    }
    out.push_str(&labels);
    out.push_str("</g>\n</svg>\n");
    out
}

fn draw_node(out: &mut String, node: &Shown, Point { x, y }: Point) {
    let class = match (node.external, node.conditions.is_empty()) {
        (true, _) => "node external",
        (false, true) => "node",
        (false, false) => "node conditional",
    };
    let lines = box_lines(node);
    let _ = writeln!(out, "<g><title>{}</title>", escaped(&lines.join("\n")));
    if node.is_list {
        // A second sheet behind the first.
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{NODE_WIDTH}\" height=\"{NODE_HEIGHT}\" rx=\"8\"/>",
            x + 4,
            y + 4
        );
    }
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{NODE_WIDTH}\" height=\"{NODE_HEIGHT}\" rx=\"8\"/>"
    );
    let classes = ["name", "note", "note"];
    for ((line, class), offset) in lines.iter().zip(classes).zip([20, 36, 51]) {
        let _ = writeln!(
            out,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
            x + 12,
            y + offset,
            escaped(&shortened(line, NODE_LENGTH))
        );
    }
    out.push_str("</g>\n");
}

fn draw_edge(out: &mut String, labels: &mut String, view: &View, edge: &Edge, placed: &Layout) {
    let (Some(from), Some(to)) = (placed.nodes.get(edge.from), placed.nodes.get(edge.to)) else { return };
    let lane = |node: usize| view.nodes.get(node).map(|node| node.lane);
    let (path, label) = if lane(edge.from) == lane(edge.to) {
        let (x1, y1) = (from.x + NODE_WIDTH / 2, from.y + NODE_HEIGHT);
        let (x2, y2) = (to.x + NODE_WIDTH / 2, to.y - 3);
        let middle = i32::midpoint(y1, y2);
        (
            format!("M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}"),
            Point { x: i32::midpoint(x1, x2), y: middle },
        )
    } else {
        let rightwards = from.x < to.x;
        let x1 = if rightwards { from.x + NODE_WIDTH } else { from.x };
        let x2 = if rightwards { to.x - 3 } else { to.x + NODE_WIDTH + 3 };
        let (y1, y2) = (from.y + NODE_HEIGHT / 2, to.y + NODE_HEIGHT / 2);
        let middle = i32::midpoint(x1, x2);
        (
            format!("M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"),
            Point { x: middle, y: i32::midpoint(y1, y2) },
        )
    };
    let whole = edge.expressions.join(", ");
    let title = escaped(&whole);
    let _ = writeln!(
        out,
        "<path class=\"edge\" d=\"{path}\" marker-end=\"url(#arrow)\"><title>{title}</title></path>"
    );
    let _ = writeln!(
        labels,
        "<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}<title>{title}</title></text>",
        label.x,
        label.y + 3,
        escaped(&shortened(&whole, LABEL_LENGTH))
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
