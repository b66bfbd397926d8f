//! The lifecycle of each resource: merges the resource's settings over the definition's defaults, compiles the
//! expressions, and checks that the deletion order has no cycles.

use std::collections::BTreeSet;

use kross_api::{AdoptPolicy, DeleteLifecycle, DeletePolicy, LifecyclePhase, parse_duration};
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem, suggest};
use kross_value::Value;

use super::Compiler;
use super::context::Context;
use super::draft::Draft;
use crate::expression::Expression;
use crate::graph::{Lifecycle, NodeIndex, Order, Policy};
use crate::order::{Edges, topological};

/// A field of `lifecycle.delete` and its path in the definition.
struct Written<T> {
    value: T,
    path: Path,
}

impl<'a> Compiler<'a> {
    pub(super) fn lifecycle(&mut self, draft: &Draft<'a>, context: &Context) -> Lifecycle {
        Lifecycle {
            phase: self.phase(draft),
            adopt: self.adopt(draft),
            policy: self.policy(draft, context),
            force_after: self.force_after(draft),
            force_when: self.force_when(draft, context),
            after: self.after(draft),
            order: self.deletion_order(draft, context),
        }
    }

    pub(super) fn phase(&self, draft: &Draft<'a>) -> LifecyclePhase {
        let own = draft.resource.lifecycle.as_ref().and_then(|lifecycle| lifecycle.when);
        own.or_else(|| self.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.when)).unwrap_or_default()
    }

    fn adopt(&self, draft: &Draft<'a>) -> AdoptPolicy {
        let own = draft.resource.lifecycle.as_ref().and_then(|lifecycle| lifecycle.adopt);
        own.or_else(|| self.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.adopt)).unwrap_or_default()
    }

    /// A field of `delete`: the resource's own, else the definition's.
    fn written<T>(
        &self,
        draft: &Draft<'a>,
        field: &str,
        get: impl Fn(&'a DeleteLifecycle) -> Option<T>,
    ) -> Option<Written<T>> {
        let own = draft.resource.lifecycle.as_ref().and_then(|lifecycle| lifecycle.delete.as_ref());
        let default = self.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.delete.as_ref());
        let at = |base: Path| base.key("lifecycle").key("delete").key(field);
        let own = own.and_then(&get).map(|value| Written { value, path: at(draft.path.clone()) });
        own.or_else(|| {
            let value = default.and_then(&get)?;
            Some(Written { value, path: at(Path::root().key("spec")) })
        })
    }

    fn policy(&mut self, draft: &Draft<'a>, context: &Context) -> Policy {
        let Some(Written { value, path }) = self.written(draft, "policy", |delete| delete.policy.as_deref())
        else {
            return Policy::default();
        };
        if let Some(policy) = DeletePolicy::parse(value) {
            return Policy::Fixed(policy);
        }
        if !value.contains("${") {
            let message = format!("`{value}` is not a deletion policy");
            let problem = Problem::new(Code::InvalidPolicy, Place::value(&path), message)
                .help("write `Delete`, `Retain`, or an expression that returns one of them");
            self.report(problem.did_you_mean(suggest(value, ["Delete", "Retain"])));
            return Policy::default();
        }
        let Some(expression) = self.standalone(value, &path, context) else {
            return Policy::default();
        };
        if !matches!(expression.result, Type::String | Type::Dyn) {
            let message = format!("the deletion policy must be a string, found {}", expression.result);
            let problem = Problem::new(Code::InvalidPolicy, Place::value(&path), message);
            self.report(problem.help("return `'Delete'` or `'Retain'`"));
        }
        Policy::Computed(Box::new(expression))
    }

    fn force_after(&mut self, draft: &Draft<'a>) -> Option<std::time::Duration> {
        let Written { value, path } =
            self.written(draft, "forceAfter", |delete| delete.force_after.as_deref())?;
        let duration = parse_duration(value);
        if duration.is_none() {
            let message = format!("`{value}` is not a duration");
            let problem = Problem::new(Code::InvalidDuration, Place::value(&path), message);
            self.report(problem.help("write numbers with units, for example `5m` or `1h30m`"));
        }
        duration
    }

    fn force_when(&mut self, draft: &Draft<'a>, context: &Context) -> Vec<Expression> {
        let listed =
            |delete: &'a DeleteLifecycle| (!delete.force_when.is_empty()).then_some(&delete.force_when);
        match self.written(draft, "forceWhen", listed) {
            Some(Written { value, path }) => self.conditions(value, &path, context),
            None => Vec::new(),
        }
    }

    fn after(&mut self, draft: &Draft<'a>) -> Vec<NodeIndex> {
        let listed = |delete: &'a DeleteLifecycle| (!delete.after.is_empty()).then_some(&delete.after);
        let Some(Written { value, path }) = self.written(draft, "after", listed) else {
            return Vec::new();
        };
        let mut after = Vec::new();
        for (at, id) in value.iter().enumerate() {
            if let Some(index) = self.spec.resources.iter().position(|resource| resource.id == *id) {
                // A default on the definition applies to every resource; a resource does not wait for itself.
                if id != draft.id() {
                    after.push(NodeIndex(index));
                }
                continue;
            }
            let place = Place::value(&path.index(at));
            let problem = Problem::new(Code::UnknownAfter, place, format!("unknown resource `{id}`"));
            let ids = self.spec.resources.iter().map(|resource| resource.id.as_str());
            self.report(problem.did_you_mean(suggest(id, ids)));
        }
        after
    }

    fn deletion_order(&mut self, draft: &Draft<'a>, context: &Context) -> Option<Order> {
        let Written { value, path } = self.written(draft, "order", |delete| delete.order.as_ref())?;
        match value {
            Value::Int(order) => return Some(Order::Fixed(*order)),
            Value::String(text) if text.contains("${") => {
                let expression = self.standalone(text, &path, context)?;
                if !matches!(expression.result, Type::Int | Type::Dyn) {
                    self.report(invalid_order(&path, &expression.result.to_string()));
                }
                return Some(Order::Computed(Box::new(expression)));
            }
            Value::String(text) => match text.parse() {
                Ok(order) => return Some(Order::Fixed(order)),
                Err(_) => self.report(invalid_order(&path, &format!("`{text}`"))),
            },
            other => self.report(invalid_order(&path, other.kind())),
        }
        None
    }

    /// Reports resources that wait for each other on deletion.
    pub(super) fn check_deletion_order(&mut self, waits: &[&[NodeIndex]], drafts: &[Draft<'a>]) {
        let needs = |after: &&[NodeIndex]| after.iter().map(|index| index.0).collect::<BTreeSet<_>>();
        let edges: Edges = waits.iter().map(needs).collect();
        let Err(cycle) = topological(&edges) else {
            return;
        };
        let members = cycle.iter().chain(cycle.first()).filter_map(|at| drafts.get(*at));
        let ids: Vec<&str> = members.map(Draft::id).collect();
        let Some(first) = cycle.first().and_then(|at| drafts.get(*at)) else {
            return;
        };
        let place = Place::value(&first.path.key("lifecycle").key("delete").key("after"));
        let message = format!("resources wait for each other on deletion: {}", ids.join(" -> "));
        self.report(
            Problem::new(Code::DeletionCycle, place, message).help("remove one of them from `after`"),
        );
    }
}

fn invalid_order(path: &Path, found: &str) -> Problem {
    let message = format!("the deletion order must be an integer, found {found}");
    Problem::new(Code::InvalidOrder, Place::value(path), message)
        .help("write a number, for example `order: 10`")
}
