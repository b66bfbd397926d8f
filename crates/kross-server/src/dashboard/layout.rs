//! Turns a graph whose nodes are in lanes, one per cluster, into positions: within a lane, dependencies flow downwards.
//!
//! Written here, because the crates with layered layout place every node freely; none keeps nodes in lanes.

use std::collections::HashMap;

/// Width of a node.
pub(crate) const NODE_WIDTH: i32 = 228;
/// Height of a node.
pub(crate) const NODE_HEIGHT: i32 = 60;
const COLUMN_GAP: i32 = 16;
const ROW_GAP: i32 = 44;
const LANE_PADDING: i32 = 20;
const LANE_GAP: i32 = 28;
const LANE_HEADER: i32 = 64;
/// Nodes of one rank that stand side by side in a lane; further ones go below.
const MAX_COLUMNS: usize = 2;

/// What is placed: the lane of each node, and which node reads which.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneGraph {
    pub(crate) lanes: usize,
    /// The lane of each node.
    pub(crate) nodes: Vec<usize>,
    /// From what is read to who reads it.
    pub(crate) edges: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) x: i32,
    pub(crate) y: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneBox {
    pub(crate) x: i32,
    pub(crate) width: i32,
}

/// Positions of lanes and of the upper left corners of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) lanes: Vec<LaneBox>,
    pub(crate) nodes: Vec<Point>,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

/// Places a graph.
pub(crate) fn layout(graph: &LaneGraph) -> Layout {
    let ranks = ranks(graph);
    let cells = cells(graph, &ranks);
    let columns = columns(graph, &cells);
    let lanes = lane_boxes(&columns);
    let (rows, height) = row_offsets(graph, &ranks, &cells, &columns);
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

/// How many columns each lane has.
fn columns(graph: &LaneGraph, cells: &HashMap<usize, usize>) -> Vec<usize> {
    let mut columns = vec![1_usize; graph.lanes];
    for (node, lane) in graph.nodes.iter().enumerate() {
        let place = cells.get(&node).copied().unwrap_or_default();
        if let Some(wanted) = columns.get_mut(*lane) {
            *wanted = (*wanted).max(place + 1).min(MAX_COLUMNS);
        }
    }
    columns
}

fn lane_boxes(columns: &[usize]) -> Vec<LaneBox> {
    let mut x = 0;
    let boxes = columns.iter().map(|columns| {
        let width = 2 * LANE_PADDING + pixels(*columns) * (NODE_WIDTH + COLUMN_GAP) - COLUMN_GAP;
        let lane = LaneBox { x, width };
        x += width + LANE_GAP;
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

    #[test]
    fn a_node_is_below_everything_that_it_reads_and_inside_its_lane() {
        let graph =
            LaneGraph { lanes: 3, nodes: vec![0, 1, 1, 2, 1], edges: vec![(0, 1), (1, 2), (3, 2), (0, 4)] };
        let placed = layout(&graph);
        for (from, to) in graph.edges {
            assert!(placed.nodes[from].y + NODE_HEIGHT < placed.nodes[to].y, "{from} {to}");
        }
        for (node, lane) in graph.nodes.iter().enumerate() {
            let (lane, point) = (placed.lanes[*lane], placed.nodes[node]);
            assert!(lane.x < point.x && point.x + NODE_WIDTH < lane.x + lane.width);
            assert!(point.y + NODE_HEIGHT < placed.height && point.x + NODE_WIDTH < placed.width);
        }
    }

    #[test]
    fn no_two_nodes_overlap() {
        let nodes = (0..500).map(|node| node % 3).collect();
        let edges = (0..400).map(|node| (node, node + 100)).collect();
        let placed = layout(&LaneGraph { lanes: 3, nodes, edges });
        for (first, a) in placed.nodes.iter().enumerate() {
            for b in placed.nodes.iter().skip(first + 1) {
                assert!((a.x - b.x).abs() >= NODE_WIDTH || (a.y - b.y).abs() >= NODE_HEIGHT);
            }
        }
    }

    #[test]
    fn a_cycle_ends() {
        let placed = layout(&LaneGraph { lanes: 1, nodes: vec![0, 0], edges: vec![(0, 1), (1, 0)] });
        assert_eq!(placed.nodes.len(), 2);
    }
}
