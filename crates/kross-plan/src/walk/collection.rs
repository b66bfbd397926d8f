//! Collections: one object for each combination of the items of all axes, the first axis outermost.

use std::collections::HashMap;

use kross_api::ObjectKey;
use kross_cel::value::{List, Value as CelValue};
use kross_graph::{Axis, Node, Scope, Template};

use super::object::unusable;
use super::{Visit, Walk, not_evaluated, value_of};
use crate::plan::PlannedObject;
use crate::progress::{Progress, ResourceFailure};

impl<'a> Walk<'a> {
    pub(super) fn collection(
        &mut self,
        node: &'a Node,
        axes: &[Axis],
        template: &Template,
        scope: &Scope<'_>,
    ) -> Result<Visit, Progress> {
        let lists = self.lists(axes, scope)?;
        let size = self.size(&lists)?;
        let lifecycle = self.lifecycle(node, scope);
        let mut objects: Vec<PlannedObject> = Vec::with_capacity(size);
        let mut indexes: HashMap<ObjectKey, usize> = HashMap::with_capacity(size);
        for index in 0..size {
            let mut item = Scope::over(scope);
            for (axis, value) in axes.iter().zip(combination(&lists, index)) {
                if scope.hides_keys(&node.id) {
                    item.hide_keys(axis.variable.clone());
                }
                item.set(axis.variable.clone(), value);
            }
            let at = |progress: Progress| item_progress(progress, index);
            let placement = self.place(node, &item).map_err(at)?;
            let mut object = self
                .object(node, template, &placement, &item, (Some((index, size)), &lifecycle))
                .map_err(at)?;
            if let Some(first) = indexes.insert(object.key.clone(), index) {
                let object = placement.describe(&object.key);
                return Err(unusable(&format!("items {first} and {index} are the same object: {object}")));
            }
            self.access_paths.add(&object.key, placement.access_path.as_ref());
            if object.progress.is_ready()
                && let Some(found) = self.input.observed.objects.get(&object.key)
            {
                object.progress = self.item_readiness(node, found, scope);
            }
            objects.push(object);
        }
        let found = objects.iter().filter_map(|object| self.input.observed.objects.get(&object.key));
        let value = value_of(node, found);
        Ok(Visit { progress: worst(&objects), objects, value })
    }

    fn lists(&self, axes: &[Axis], scope: &Scope<'_>) -> Result<Vec<List>, Progress> {
        let mut lists = Vec::with_capacity(axes.len());
        for axis in axes {
            let value = axis.items.evaluate(scope).map_err(|error| not_evaluated(&axis.items, &error))?;
            let list = match unwrapped(value) {
                CelValue::List(list) => list,
                CelValue::Null => List::Built(std::sync::Arc::new(Vec::new())),
                other => {
                    let message =
                        format!("`forEach` of `{}` needs a list, found {}", axis.variable, other.type_name());
                    return Err(unusable(&message));
                }
            };
            self.input.settings.record(&axis.items.path, !list.is_empty());
            lists.push(list);
        }
        Ok(lists)
    }

    fn size(&self, lists: &[List]) -> Result<usize, Progress> {
        let limit = self.input.settings.max_collection_size;
        let size = lists.iter().try_fold(1_usize, |size, list| size.checked_mul(list.len()));
        match size {
            Some(size) if size <= limit => Ok(size),
            size => {
                let found = size.map_or_else(|| "too many".to_owned(), |size| size.to_string());
                Err(unusable(&format!(
                    "the collection has {found} items, and at most {limit} are allowed (`--rgd-max-collection-size`)"
                )))
            }
        }
    }
}

/// Unwraps optionals; an empty one is an empty list.
fn unwrapped(mut value: CelValue) -> CelValue {
    while let CelValue::Optional(inner) = value {
        value = inner.map_or(CelValue::Null, |inner| (*inner).clone());
    }
    value
}

/// The items of one combination; the last axis changes fastest.
fn combination(lists: &[List], index: usize) -> Vec<CelValue> {
    let mut rest = index;
    let mut values: Vec<CelValue> = Vec::with_capacity(lists.len());
    for list in lists.iter().rev() {
        let length = list.len().max(1);
        values.push(list.get(rest % length).unwrap_or(CelValue::Null));
        rest /= length;
    }
    values.reverse();
    values
}

fn item_progress(progress: Progress, index: usize) -> Progress {
    match progress {
        Progress::Unresolved(message) => Progress::Unresolved(format!("item {index}: {message}").into()),
        Progress::Failed(failure) => {
            let message = format!("item {index}: {}", failure.message).into();
            Progress::Failed(ResourceFailure { message, ..failure })
        }
        other => other,
    }
}

/// The progress of a collection: that of its worst item, with how many items are like it.
pub(super) fn worst(objects: &[PlannedObject]) -> Progress {
    let Some(worst) = objects.iter().map(|object| &object.progress).max_by_key(|progress| progress.weight())
    else {
        return Progress::Ready;
    };
    let alike = objects.iter().filter(|object| object.progress.weight() == worst.weight()).count();
    let first = objects.iter().find(|object| object.progress.weight() == worst.weight());
    let (Progress::Waiting(message), Some(first)) = (worst, first) else {
        return first.map_or(Progress::Ready, |first| first.progress.clone());
    };
    let message = first.progress.message().unwrap_or_else(|| message.clone());
    let name = &first.key.name;
    Progress::Waiting(format!("{alike} of {} items are not ready: `{name}`: {message}", objects.len()).into())
}
