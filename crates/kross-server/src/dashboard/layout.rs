//! Turns a graph whose nodes are in lanes, one per cluster, into positions: within a lane, dependencies flow downwards. Lanes
//! stand side by side, or on top of each other on a narrow screen.
//!
//! Written here, because the crates with layered layout place every node freely; none keeps nodes in lanes.

use std::collections::HashMap;

/// Width of a node.
pub const NODE_WIDTH: i32 = 236;
/// Height of a node.
pub const NODE_HEIGHT: i32 = 72;
const COLUMN_GAP: i32 = 16;
const ROW_GAP: i32 = 48;
const LANE_PADDING: i32 = 16;
/// Between lanes on top of each other.
const STACK_GAP: i32 = 24;
/// Beside lanes on top of each other: the edges that cross them.
const STACK_MARGIN: i32 = 48;
pub(crate) const LANE_HEADER: i32 = 64;
/// Nodes of one rank that stand side by side in a lane; further ones go below.
const MAX_COLUMNS: usize = 2;
/// Nodes of one rank in a lane that still stand below each other: a lane of two columns is wide.
const MAX_LINES: usize = 24;

/// What is placed: the lane of each node, and which node reads which.
#[derive(Clone, Debug, Default)]
pub struct LaneGraph {
    /// How many lanes there are.
    pub lanes: usize,
    /// The lane of each node.
    pub nodes: Vec<usize>,
    /// From what is read to who reads it.
    pub edges: Vec<(usize, usize)>,
    /// Between lanes that stand side by side.
    pub lane_gap: i32,
}

/// A position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// From the left.
    pub x: i32,
    /// From the top.
    pub y: i32,
}

/// The place of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneBox {
    /// From the left.
    pub x: i32,
    /// From the top.
    pub y: i32,
    /// Its width.
    pub width: i32,
    /// Its height.
    pub height: i32,
}

/// Positions of lanes and of the upper left corners of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The lanes.
    pub lanes: Vec<LaneBox>,
    /// The nodes.
    pub nodes: Vec<Point>,
    /// The width of all.
    pub width: i32,
    /// The height of all.
    pub height: i32,
}

/// Places a graph with its lanes side by side.
#[must_use]
pub fn side_by_side(graph: &LaneGraph) -> Layout {
    let ranks = ranks(graph);
    let cells = cells(graph, &ranks);
    let columns = columns(graph, &cells);
    let (rows, height) = row_offsets(graph, &ranks, &cells, &columns);
    let lanes = lane_boxes(&columns, graph.lane_gap, height);
    let nodes = graph.nodes.iter().enumerate().map(|(node, &lane)| {
        let columns = columns.get(lane).copied().unwrap_or(1).max(1);
        let place = cells.get(&node).copied().unwrap_or_default();
        let lane = lanes.get(lane).copied().unwrap_or_default();
        let row = ranks.get(node).and_then(|rank| rows.get(*rank)).copied().unwrap_or_default();
        Point {
            x: lane.x + LANE_PADDING + pixels(place % columns) * (NODE_WIDTH + COLUMN_GAP),
            y: row + pixels(place / columns) * (NODE_HEIGHT + COLUMN_GAP),
        }
    });
    let nodes = nodes.collect();
    let width = lanes.last().map_or(0, |lane| lane.x + lane.width);
    Layout { lanes, nodes, width, height }
}

/// Places a graph with its lanes on top of each other, and one node per line.
pub(crate) fn stacked(graph: &LaneGraph) -> Layout {
    let ranks = ranks(graph);
    let cells = cells(graph, &ranks);
    let width = 2 * LANE_PADDING + NODE_WIDTH;
    let mut nodes = vec![Point::default(); graph.nodes.len()];
    let mut lanes = Vec::with_capacity(graph.lanes);
    let mut y = 0;
    for lane in 0..graph.lanes {
        let mut members: Vec<usize> =
            graph.nodes.iter().enumerate().filter(|(_, of)| **of == lane).map(|(node, _)| node).collect();
        members.sort_by_key(|node| (ranks.get(*node).copied(), cells.get(node).copied()));
        let mut bottom = y + LANE_HEADER;
        for node in members {
            if let Some(place) = nodes.get_mut(node) {
                *place = Point { x: LANE_PADDING, y: bottom };
            }
            bottom += NODE_HEIGHT + COLUMN_GAP;
        }
        lanes.push(LaneBox { x: 0, y, width, height: bottom - y });
        y = bottom + STACK_GAP;
    }
    Layout { lanes, nodes, width: width + STACK_MARGIN, height: (y - STACK_GAP).max(0) }
}

/// The length of the longest path to each node. A graph of a definition has no cycles; one that has them ends all the same.
fn ranks(graph: &LaneGraph) -> Vec<usize> {
    let mut ranks = vec![0_usize; graph.nodes.len()];
    for _ in 0..graph.nodes.len() {
        let mut changed = false;
        for &(from, to) in &graph.edges {
            let next = ranks.get(from).map_or(0, |rank| rank + 1).min(graph.nodes.len());
            if let Some(rank) = ranks.get_mut(to).filter(|rank| **rank < next) {
                *rank = next;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    ranks
}

/// The place of each node among those of its rank in its lane: near what it reads.
fn cells(graph: &LaneGraph, ranks: &[usize]) -> HashMap<usize, usize> {
    let mut by_rank: Vec<Vec<usize>> = vec![Vec::new(); ranks.iter().max().map_or(0, |rank| rank + 1)];
    for (node, rank) in ranks.iter().enumerate() {
        if let Some(nodes) = by_rank.get_mut(*rank) {
            nodes.push(node);
        }
    }
    let mut read_by: HashMap<usize, Vec<usize>> = HashMap::new();
    for &(from, to) in &graph.edges {
        read_by.entry(to).or_default().push(from);
    }
    let lane = |node: usize| graph.nodes.get(node).copied().unwrap_or_default();
    let mut cells: HashMap<usize, usize> = HashMap::new();
    for mut nodes in by_rank {
        let weight = |node: usize| {
            let sources = read_by.get(&node).map(Vec::as_slice).unwrap_or_default();
            let sum: usize = sources
                .iter()
                .map(|source| lane(*source) * 100 + cells.get(source).copied().unwrap_or(0))
                .sum();
            (lane(node), sum.checked_div(sources.len()).unwrap_or(0), node)
        };
        nodes.sort_by_cached_key(|node| weight(*node));
        let mut taken: HashMap<usize, usize> = HashMap::new();
        for node in nodes {
            let next = taken.entry(lane(node)).or_default();
            cells.insert(node, *next);
            *next += 1;
        }
    }
    cells
}

/// How many columns each lane has: two where a rank of one column would be too long, or is short anyway.
fn columns(graph: &LaneGraph, cells: &HashMap<usize, usize>) -> Vec<usize> {
    let mut longest = vec![0_usize; graph.lanes];
    for (node, lane) in graph.nodes.iter().enumerate() {
        let place = cells.get(&node).copied().unwrap_or_default();
        if let Some(longest) = longest.get_mut(*lane) {
            *longest = (*longest).max(place + 1);
        }
    }
    let few_lanes = graph.lanes <= 2;
    longest
        .into_iter()
        .map(|count| if count > MAX_LINES || (few_lanes && count > 1) { MAX_COLUMNS } else { 1 })
        .collect()
}

fn lane_boxes(columns: &[usize], gap: i32, height: i32) -> Vec<LaneBox> {
    let mut x = 0;
    let boxes = columns.iter().map(|columns| {
        let width = 2 * LANE_PADDING + pixels(*columns) * (NODE_WIDTH + COLUMN_GAP) - COLUMN_GAP;
        let lane = LaneBox { x, y: 0, width, height };
        x += width + gap;
        lane
    });
    boxes.collect()
}

/// Where each rank begins, and the height of all. Ranks are rows through all lanes.
fn row_offsets(
    graph: &LaneGraph,
    ranks: &[usize],
    cells: &HashMap<usize, usize>,
    columns: &[usize],
) -> (Vec<i32>, i32) {
    let mut lines = vec![1_usize; ranks.iter().max().map_or(1, |rank| rank + 1)];
    for (node, lane) in graph.nodes.iter().enumerate() {
        let columns = columns.get(*lane).copied().unwrap_or(1).max(1);
        let line = cells.get(&node).copied().unwrap_or_default() / columns + 1;
        if let Some(wanted) = ranks.get(node).and_then(|rank| lines.get_mut(*rank)) {
            *wanted = (*wanted).max(line);
        }
    }
    let mut y = LANE_HEADER;
    let mut offsets = Vec::with_capacity(lines.len());
    for count in lines {
        offsets.push(y);
        y += pixels(count) * (NODE_HEIGHT + COLUMN_GAP) - COLUMN_GAP + ROW_GAP;
    }
    (offsets, y - ROW_GAP + LANE_PADDING)
}

fn pixels(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(lanes: usize, nodes: Vec<usize>, edges: Vec<(usize, usize)>) -> LaneGraph {
        LaneGraph { lanes, nodes, edges, lane_gap: 48 }
    }

    #[test]
    fn a_node_is_below_everything_that_it_reads_and_inside_its_lane() {
        let graph = graph(3, vec![0, 1, 1, 2, 1], vec![(0, 1), (1, 2), (3, 2), (0, 4)]);
        let placed = side_by_side(&graph);
        for &(from, to) in &graph.edges {
            assert!(placed.nodes[from].y + NODE_HEIGHT < placed.nodes[to].y, "{from} {to}");
        }
        for placed in [placed, stacked(&graph)] {
            for (node, lane) in graph.nodes.iter().enumerate() {
                let (lane, point) = (placed.lanes[*lane], placed.nodes[node]);
                assert!(lane.x < point.x && point.x + NODE_WIDTH < lane.x + lane.width);
                assert!(lane.y < point.y && point.y + NODE_HEIGHT < lane.y + lane.height);
                assert!(point.y + NODE_HEIGHT < placed.height && point.x + NODE_WIDTH < placed.width);
            }
        }
    }

    #[test]
    fn no_two_nodes_overlap() {
        let nodes = (0..500).map(|node| node % 3).collect();
        let edges = (0..400).map(|node| (node, node + 100)).collect();
        let graph = graph(3, nodes, edges);
        for placed in [side_by_side(&graph), stacked(&graph)] {
            for (first, a) in placed.nodes.iter().enumerate() {
                for b in placed.nodes.iter().skip(first + 1) {
                    assert!((a.x - b.x).abs() >= NODE_WIDTH || (a.y - b.y).abs() >= NODE_HEIGHT);
                }
            }
        }
    }

    #[test]
    fn stacked_lanes_fit_on_a_narrow_screen_and_do_not_overlap() {
        let placed = stacked(&graph(2, vec![0, 1, 1], vec![(0, 1), (1, 2)]));
        assert!(placed.width <= 320, "{}", placed.width);
        assert!(placed.lanes[0].y + placed.lanes[0].height < placed.lanes[1].y);
    }

    #[test]
    fn a_cycle_ends() {
        let placed = side_by_side(&graph(1, vec![0, 0], vec![(0, 1), (1, 0)]));
        assert_eq!(placed.nodes.len(), 2);
    }
}
