//! Marks the objects of a walk that another client changes again after every repair. It is done after the walk: nodes that depend on
//! such an object are evaluated as if it were ready.

use kross_value::Text;

use crate::lifecycle;
use crate::plan::NodePlan;
use crate::progress::Progress;
use crate::walk::Walk;

/// Marks contested objects and their nodes.
pub(crate) fn mark(walk: &mut Walk<'_>) {
    let contested = &walk.input.observed.contested;
    if contested.is_empty() {
        return;
    }
    for (node, plan) in walk.input.graph.nodes.iter().zip(&mut walk.nodes) {
        // A deletion hook completes once it is ready, whoever changes it then.
        if node.is_external() || lifecycle::is_hook(node) {
            continue;
        }
        for object in plan.objects.iter_mut().filter(|object| object.progress.is_ready()) {
            if let Some(contest) = contested.get(&object.key) {
                object.progress = Progress::Contested(contest.message.clone());
            }
        }
        if let (true, Some(message)) = (plan.progress.is_ready(), message(plan, node.is_list())) {
            plan.progress = Progress::Contested(message);
        }
    }
}

/// Who changes the first contested object of a node; none if there is none.
fn message(plan: &NodePlan, is_list: bool) -> Option<Text> {
    let contested = plan.objects.iter().filter(|object| matches!(object.progress, Progress::Contested(_)));
    let (count, first) = (contested.clone().count(), contested.into_iter().next()?);
    let message = first.progress.message()?;
    Some(match count {
        1 if !is_list => message,
        1 => format!("`{}`: {message}", first.key.name).into(),
        _ => format!("`{}`: {message} (and {} more)", first.key.name, count - 1).into(),
    })
}
