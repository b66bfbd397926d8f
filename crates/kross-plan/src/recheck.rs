//! When time alone may change a plan: the moment when `failingFor` exceeds the duration that an expression compares it with.

use jiff::{SignedDuration, Timestamp};
use kross_cel::ast::{Expr, Literal, Node};
use kross_cel::references::PathSegment;
use kross_cel::syntax::{self, Limits};
use kross_cel::value::Duration;
use kross_graph::{Expression, Graph};
use kross_value::Text;

use crate::tracked::{self, TrackedSet};

/// When to plan again where the compared duration is not a literal.
const UNKNOWN_THRESHOLD: SignedDuration = SignedDuration::from_secs(5);

/// The next such moment, if any.
pub(crate) fn recheck_at(graph: &Graph, tracked: &TrackedSet, now: Timestamp) -> Option<Timestamp> {
    let failing: Vec<(&Text, Timestamp)> = tracked.failing_since(graph).collect();
    if failing.is_empty() {
        return None;
    }
    let mut next: Option<Timestamp> = None;
    for expression in tracked::expressions(graph).filter(|expression| may_read_time(expression)) {
        let found = Found::of(&expression.source);
        if !found.reads_time {
            continue;
        }
        let durations = found.durations;
        for (_, since) in failing.iter().filter(|(id, _)| concerns(expression, id)) {
            let crossings = durations.iter().filter_map(|duration| {
                // A millisecond later, so that `>` holds as well as `>=`.
                let crossing = since.checked_add(SignedDuration::from_nanos(duration.nanoseconds)).ok()?;
                crossing.checked_add(SignedDuration::from_millis(1)).ok()
            });
            let mut moment = crossings.filter(|crossing| *crossing > now).min();
            if durations.is_empty() {
                moment = now.checked_add(UNKNOWN_THRESHOLD).ok();
            }
            next = [next, moment].into_iter().flatten().min();
        }
    }
    next
}

/// A cheap check before parsing. Items of a collection are read through a variable of their own, so paths are of no use.
fn may_read_time(expression: &Expression) -> bool {
    expression.source.contains("failingFor")
}

fn concerns(expression: &Expression, id: &Text) -> bool {
    expression.references.reads.iter().any(|read| {
        read.variable == *id || matches!(read.path.first(), Some(PathSegment::Field(field)) if *field == *id)
    })
}

/// What an expression says about time.
#[derive(Default)]
struct Found {
    reads_time: bool,
    /// Every `duration('…')` in it.
    durations: Vec<Duration>,
}

impl Found {
    fn of(source: &str) -> Self {
        let mut found = Self::default();
        found.visit(&syntax::parse(source, &Limits::default()).ast.root);
        found
    }

    fn visit(&mut self, expression: &Expr) {
        match &expression.node {
            Node::Call { function, receiver: None, arguments } if function.text == "duration" => {
                if let [Expr { node: Node::Literal(Literal::String(text)), .. }] = arguments.as_slice() {
                    self.durations.extend(Duration::parse(text));
                }
            }
            Node::Select { field, .. } => self.reads_time |= field.text == "failingFor",
            _ => {}
        }
        expression.children().into_iter().for_each(|child| self.visit(child));
    }
}
