//! Lists that several callers share. Of each kind and namespace one list runs at a time; callers that come while it runs
//! wait for the next one, which serves all of them. So a list always begins after it was asked for, and many callers cost
//! no more than two lists.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};
use kross_value::Text;
use parking_lot::Mutex;

use super::ClusterClient;
use crate::discovery::ApiKind;
use crate::error::ApiError;
use crate::object::StoredObject;

/// The most label values in one list: proxies commonly accept 8 KiB of path and query.
const MAX_VALUES: usize = 100;

type Listed = Result<Arc<Vec<Arc<StoredObject>>>, ApiError>;
type ListFuture = BoxFuture<'static, Listed>;

/// The shared lists of a client. The lock is a leaf, and never held across an await.
#[derive(Default)]
pub(super) struct SharedLists {
    lanes: Mutex<HashMap<ListKey, Lane>>,
}

/// Which lists can be shared.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ListKey {
    kind: Arc<ApiKind>,
    namespace: Option<Text>,
    label: &'static str,
}

/// The lists of one kind in one namespace. They are weak: a list that nobody waits for any more is dropped.
#[derive(Default)]
struct Lane {
    running: Option<WeakShared<ListFuture>>,
    next: Option<NextList>,
}

/// A list that has not begun.
struct NextList {
    /// The label values that its callers asked for.
    values: BTreeSet<Text>,
    list: WeakShared<ListFuture>,
}

impl SharedLists {
    /// Begins the next list. From now on nobody can join it. Returns what its callers asked for.
    fn begin(&self, key: &ListKey) -> BTreeSet<Text> {
        let mut lanes = self.lanes.lock();
        let Some(lane) = lanes.get_mut(key) else { return BTreeSet::new() };
        let Some(NextList { values, list }) = lane.next.take() else { return BTreeSet::new() };
        lane.running = Some(list);
        values
    }

    /// Ends the running list.
    fn end(&self, key: &ListKey) {
        let mut lanes = self.lanes.lock();
        if let Some(lane) = lanes.get_mut(key) {
            lane.running = None;
            if lane.next.is_none() {
                lanes.remove(key);
            }
        }
    }
}

impl ClusterClient {
    /// The objects of a kind with this value of a label, in one namespace or in all, listed after this call. Callers that
    /// ask for other values of the label at the same time share the list.
    ///
    /// # Errors
    /// One of them cannot be read, or the cluster rejects the request or does not answer.
    pub async fn list_shared(
        &self,
        kind: &Arc<ApiKind>,
        namespace: Option<&str>,
        label: &'static str,
        value: &str,
    ) -> Result<Vec<Arc<StoredObject>>, ApiError> {
        let key = ListKey { kind: Arc::clone(kind), namespace: namespace.map(Text::from), label };
        let listed = self.join_list(key, value).await?;
        let own = listed.iter().filter(|object| object.label(label) == Some(value));
        own.map(|object| self.readable_item(kind, object).map(|()| Arc::clone(object))).collect()
    }

    /// The next list of a lane.
    fn join_list(&self, key: ListKey, value: &str) -> Shared<ListFuture> {
        let lists = Arc::clone(&self.shared.lists);
        let mut lanes = self.shared.lists.lanes.lock();
        let lane = lanes.entry(key.clone()).or_default();
        if let Some(next) = &mut lane.next
            && let Some(list) = next.list.upgrade()
        {
            next.values.insert(value.into());
            return list;
        }
        let running = lane.running.as_ref().and_then(WeakShared::upgrade);
        let client = self.clone();
        let list = async move {
            if let Some(running) = running {
                // Its result is for those who asked before it began.
                drop(running.await);
            }
            let values = lists.begin(&key);
            let listed = client.list_values(&key, &values).await;
            lists.end(&key);
            listed
        };
        let list = list.boxed().shared();
        // A list that was not polled yet can be downgraded.
        let next = list.downgrade().map(|list| NextList { values: BTreeSet::from([value.into()]), list });
        lane.next = next;
        list
    }

    async fn list_values(&self, key: &ListKey, values: &BTreeSet<Text>) -> Listed {
        let ListKey { kind, namespace, label } = key;
        let values: Vec<&str> = values.iter().map(Text::as_str).collect();
        let mut objects = Vec::new();
        for values in values.chunks(MAX_VALUES) {
            let selector = match values {
                [value] => format!("{label}={value}"),
                values => format!("{label} in ({})", values.join(",")),
            };
            let listed = self.list_with_outlines(kind, namespace.as_deref(), Some(&selector)).await?;
            objects.extend(listed.into_iter().map(Arc::new));
        }
        Ok(Arc::new(objects))
    }
}
