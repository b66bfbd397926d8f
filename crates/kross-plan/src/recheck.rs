//! When time alone may change a plan: the moment in which `failingFor` crosses what an expression compares it with.

use jiff::{SignedDuration, Timestamp};
use kross_cel::ast::{Expr, Literal, Node};
use kross_cel::references::Step;
use kross_cel::syntax::{self, Limits};
use kross_cel::value::Duration;
use kross_graph::{Expression, Graph};
use kross_value::Text;

use crate::tracked::{self, TrackedSet};

/// How soon to look again where the compared duration is not written in the expression.
const UNKNOWN_THRESHOLD: SignedDuration = SignedDuration::from_secs(5);

/// The next such moment.
pub(crate) fn recheck_at(graph: &Graph, tracked: &TrackedSet, now: Timestamp) -> Option<Timestamp> {
    let failing: Vec<(&Text, Timestamp)> = tracked.failing_since(graph).collect();
    if failing.is_empty() {
        return None;
    }
    let timed = tracked::expressions(graph).filter(|expression| reads_time(expression));
    let mut next: Option<Timestamp> = None;
    for expression in timed {
        let durations = durations(&expression.source);
        for (_, since) in failing.iter().filter(|(id, _)| concerns(expression, id)) {
            let crossings = durations.iter().filter_map(|duration| {
                // The moment after, so that `>` holds as well as `>=`.
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

fn reads_time(expression: &Expression) -> bool {
    let is_time = |step: &Step| matches!(step, Step::Field(name) if *name == *"failingFor");
    expression.references.reads.iter().any(|read| read.path.last().is_some_and(is_time))
}

fn concerns(expression: &Expression, id: &Text) -> bool {
    expression.references.reads.iter().any(|read| {
        read.variable == *id || matches!(read.path.first(), Some(Step::Field(field)) if *field == *id)
    })
}

/// Every `duration('…')` of an expression.
fn durations(source: &str) -> Vec<Duration> {
    let mut found = Vec::new();
    collect(&syntax::parse(source, &Limits::default()).ast.root, &mut found);
    found
}

fn collect(expression: &Expr, found: &mut Vec<Duration>) {
    if let Node::Call { function, receiver: None, arguments } = &expression.node
        && function.text == "duration"
        && let [Expr { node: Node::Literal(Literal::String(text)), .. }] = arguments.as_slice()
    {
        found.extend(Duration::parse(text));
    }
    expression.children().into_iter().for_each(|child| collect(child, found));
}
