//! Items that left a collection: whether one of them may have been moved or renamed, so that its successor must be applied first.

use kross_api::labels;
use kross_value::Text;

use super::Decision;
use super::dependents::is_hidden;
use crate::observed::KindKey;
use crate::plan::{NodePlan, PlannedObject};

impl Decision<'_, '_> {
    /// What must be applied before an item is pruned that may have been moved or renamed. Items that are kept do not matter.
    pub(super) fn item_successor(&self, plan: &NodePlan) -> Option<Text> {
        let new: Vec<&PlannedObject> =
            plan.objects.iter().filter(|object| self.is_new(object, plan)).collect();
        let has_same_name = |object: &&&PlannedObject| object.key.name == self.key.name;
        let likely = new.iter().find(has_same_name).or(new.first())?;
        self.may_be_renamed(plan, &new)
            .then(|| format!("{} is applied", self.walk.describe(&likely.key)).into())
    }

    /// Whether an item is not applied, and is not known to exist.
    fn is_new(&self, object: &PlannedObject, plan: &NodePlan) -> bool {
        let was_reported = || {
            let display = self.walk.display_of(&object.key);
            self.walk.input.previous.iter().any(|entry| {
                entry.id == plan.id.as_str()
                    && entry.uid.is_some()
                    && entry.name.as_deref() == Some(&*object.key.name)
                    && entry.namespace.as_deref() == object.key.namespace.as_deref()
                    && entry.cluster.as_deref() == display
            })
        };
        object.uid.is_none() && !object.progress.is_applied() && !was_reported()
    }

    /// Whether one of the new items may be this one under another name. The label with the size of the collection, from when this
    /// item was last applied, tells whether there are more items than were already desired then.
    fn may_be_renamed(&self, plan: &NodePlan, new: &[&PlannedObject]) -> bool {
        let size = self.object.label(labels::COLLECTION_SIZE).and_then(|size| size.parse::<usize>().ok());
        let left = self.unwanted.iter().filter(|(_, object)| object.node() == Some(&*plan.id)).count();
        let has_more = size.is_none_or(|size| plan.objects.len() + left > size);
        has_more
            || (self.is_blind()
                && !(self.is_summarized(plan) && new.iter().all(|item| item.progress.is_unreachable())))
    }

    /// Whether items may exist that were not observed.
    fn is_blind(&self) -> bool {
        let observed = self.walk.input.observed;
        let is_unlisted = |(_, group, kind): &KindKey| *group == self.key.group && *kind == self.key.kind;
        observed.recorded.iter().any(|recorded| is_hidden(self.walk, recorded))
            || observed.unlisted.keys().any(is_unlisted)
    }

    /// Whether the last status did not list every item of the collection.
    fn is_summarized(&self, plan: &NodePlan) -> bool {
        self.walk.input.previous.iter().any(|entry| entry.id == plan.id.as_str() && entry.name.is_none())
    }
}
