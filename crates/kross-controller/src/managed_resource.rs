//! Finds the managed resources that targets and claims name: any cluster-scoped kind that a CRD serves, with one cache per kind,
//! and which targets and claims to reconcile when a managed resource or its CRD changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kross_api::{ManagedClusterReference, Reason};
use kross_cluster::{ApiKind, Cache, CacheKey, Lookup, Selection, StoredObject};
use kross_plan::workload::PropagationRefusal;
use kross_value::{Text, Value};
use parking_lot::Mutex;

use crate::context::Context;
use crate::key::WorkloadKey;
use crate::kinds;

/// A managed resource, whatever version it is read in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ManagedKey {
    pub(crate) group: Text,
    pub(crate) kind: Text,
    pub(crate) name: Text,
}

impl From<&ManagedClusterReference> for ManagedKey {
    fn from(reference: &ManagedClusterReference) -> Self {
        Self {
            group: kinds::group_of(&reference.api_version).into(),
            kind: reference.kind.as_str().into(),
            name: reference.name.as_str().into(),
        }
    }
}

/// What is known of the managed resource that a reference names.
#[derive(Clone, Debug)]
pub(crate) enum Managed {
    /// It exists.
    Found {
        object: Arc<StoredObject>,
        /// Its kind, in the version of the reference.
        kind: Arc<ApiKind>,
    },
    /// Its cache has not synced yet. The user is requeued when it has.
    Pending,
    /// It does not exist, cannot be read, or its kind is refused. The user is requeued when that changes.
    Refused(PropagationRefusal),
}

/// The caches of the kinds of managed resources, and the targets and claims that name them. The lock is a leaf; caches are opened
/// and dropped outside of it.
#[derive(Default)]
pub(crate) struct ManagedResources {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    caches: HashMap<ApiKind, Cache>,
    users: HashMap<ManagedKey, HashSet<WorkloadKey>>,
    references: HashMap<WorkloadKey, ManagedKey>,
}

impl ManagedResources {
    /// The targets and claims that name a managed resource.
    pub(crate) fn users(&self, managed: &ManagedKey) -> Vec<WorkloadKey> {
        self.state.lock().users.get(managed).into_iter().flatten().cloned().collect()
    }

    /// The targets and claims that name a managed resource of a kind.
    pub(crate) fn users_of_kind(&self, group: &str, kind: &str) -> Vec<WorkloadKey> {
        let state = self.state.lock();
        let of_kind = state.users.iter().filter(|(key, _)| &*key.group == group && &*key.kind == kind);
        of_kind.flat_map(|(_, users)| users).cloned().collect()
    }

    /// A target or a claim was deleted, or names no managed resource any more.
    pub(crate) fn forget(&self, user: &WorkloadKey) {
        let unused = self.state.lock().forget(user);
        drop(unused);
    }

    fn track(&self, user: &WorkloadKey, managed: &ManagedKey) {
        let mut state = self.state.lock();
        if state.references.get(user) == Some(managed) {
            return;
        }
        let unused = state.forget(user);
        state.references.insert(user.clone(), managed.clone());
        state.users.entry(managed.clone()).or_default().insert(user.clone());
        drop(state);
        drop(unused);
    }

    fn cache(&self, context: &Context, kind: &Arc<ApiKind>) -> Cache {
        if let Some(cache) = self.state.lock().caches.get(&**kind) {
            return cache.clone();
        }
        let cache = context.caches.watch(&context.client, kind, Selection::All);
        let before = self.state.lock().caches.insert(ApiKind::clone(kind), cache.clone());
        drop(before);
        cache
    }
}

impl State {
    /// Removes a user. Returns the caches that nobody uses any more, to be dropped outside of the lock.
    fn forget(&mut self, user: &WorkloadKey) -> Vec<Cache> {
        let Some(managed) = self.references.remove(user) else { return Vec::new() };
        if let Some(users) = self.users.get_mut(&managed) {
            users.remove(user);
            if users.is_empty() {
                self.users.remove(&managed);
            }
        }
        let is_used =
            |kind: &ApiKind| self.users.keys().any(|key| key.group == kind.group && key.kind == kind.kind);
        let unused: Vec<ApiKind> = self.caches.keys().filter(|kind| !is_used(kind)).cloned().collect();
        unused.iter().filter_map(|kind| self.caches.remove(kind)).collect()
    }
}

/// Finds the managed resource that a target or a claim names. From now on, the user is requeued when the managed resource, its
/// cache or its CRD changes.
pub(crate) fn find(context: &Context, user: &WorkloadKey, reference: &ManagedClusterReference) -> Managed {
    context.managed.track(user, &ManagedKey::from(reference));
    let kind = match served_kind(context, &reference.api_version, &reference.kind) {
        Some(Ok(kind)) => kind,
        Some(Err(refusal)) => return Managed::Refused(refusal),
        None => return Managed::Pending,
    };
    let cache = context.managed.cache(context, &kind);
    let refuse = |reason, message: String| Managed::Refused(PropagationRefusal::new(reason, message));
    let described = describe(reference);
    let unreadable = cache.unreadable(None, &reference.name);
    if let Some(error) = unreadable.as_ref().and_then(|outline| outline.unreadable()) {
        let message =
            format!("cannot read managed resource {described}: {error}; nest its fields less deeply");
        return refuse(Reason::ManagedResourceUnreadable, message);
    }
    match (cache.get(None, &reference.name), cache.failure()) {
        (Lookup::Found(object), _) => Managed::Found { object, kind },
        (Lookup::Absent, _) => {
            refuse(Reason::ManagedResourceNotFound, format!("managed resource {described} does not exist"))
        }
        (Lookup::Unknown, Some(error)) => refuse(
            Reason::ManagedResourceUnreadable,
            format!(
                "cannot read managed resource {described}: {}; allow the controller to get, list and watch its kind",
                error.message()
            ),
        ),
        (Lookup::Unknown, None) => Managed::Pending,
    }
}

/// Kind and name of a managed resource, for messages.
pub(crate) fn describe(reference: &ManagedClusterReference) -> String {
    format!("{} `{}`", reference.kind, reference.name)
}

/// The kind of a managed resource in one version, if an established CRD serves it cluster-scoped. None until the CRDs are known.
/// It needs no discovery, so that a wrong reference costs no request.
pub(crate) fn served_kind(
    context: &Context,
    api_version: &str,
    kind: &str,
) -> Option<Result<Arc<ApiKind>, PropagationRefusal>> {
    let (group, version) = kinds::group_and_version(api_version);
    let refuse = |reason, message: String| Some(Err(PropagationRefusal::new(reason, message)));
    let crds = context.crds.list_readable()?;
    let is_of_kind = |crd: &&Arc<StoredObject>| {
        text(crd, &["spec", "group"]) == Some(group) && text(crd, &["spec", "names", "kind"]) == Some(kind)
    };
    let found = crds.iter().find(is_of_kind);
    let Some(crd) = found.filter(|crd| kinds::is_established(crd.value())) else {
        if is_built_in(group) {
            let message = format!(
                "kind {kind} of `{api_version}` is not served by a CustomResourceDefinition; a managed resource must be of a custom kind"
            );
            return refuse(Reason::ManagedKindRefused, message);
        }
        let message = format!(
            "no CustomResourceDefinition serves kind {kind} of `{api_version}`; install it, or correct the reference"
        );
        return refuse(Reason::ManagedKindNotServed, message);
    };
    let versions = crd.value().at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    let is_served = |entry: &&Value| {
        entry.get("name").and_then(Value::as_str) == Some(version)
            && entry.get("served").and_then(Value::as_bool) == Some(true)
    };
    let Some(served) = versions.iter().find(is_served) else {
        let message = format!(
            "CustomResourceDefinition `{}` does not serve version `{version}`; correct the reference",
            crd.name()
        );
        return refuse(Reason::ManagedKindNotServed, message);
    };
    if text(crd, &["spec", "scope"]) != Some("Cluster") {
        let message = format!(
            "kind {kind} of `{api_version}` is namespaced; a managed resource must be of a cluster-scoped kind"
        );
        return refuse(Reason::ManagedKindRefused, message);
    }
    let plural = text(crd, &["spec", "names", "plural"]).unwrap_or_default();
    let mut found = ApiKind::custom(group, version, kind, plural, false);
    found.has_status = served.at(&["subresources", "status"]).is_some();
    Some(Ok(Arc::new(found)))
}

fn text<'a>(object: &'a StoredObject, path: &[&str]) -> Option<&'a str> {
    object.value().at(path).and_then(Value::as_str)
}

fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// An object of a kind of managed resources changed, or the state of its cache did: requeues the targets and claims that it
/// concerns. Without an object these are all that name the kind. Our own writes count too: a claim's write concerns targets.
pub(crate) fn changed(context: &Context, cache: &CacheKey, object: Option<&StoredObject>) {
    if !cache.cluster.is_local() || cache.selection != Selection::All {
        return;
    }
    let users = match object {
        Some(object) => {
            let (group, kind) = (cache.group.clone(), cache.kind.clone());
            context.managed.users(&ManagedKey { group, kind, name: object.name().clone() })
        }
        None => context.managed.users_of_kind(&cache.group, &cache.kind),
    };
    users.iter().for_each(|user| context.workload_queue.add(user));
}

/// The CRD of a kind was created, changed or deleted.
pub(crate) fn kind_changed(context: &Context, kind: &ApiKind) {
    for user in context.managed.users_of_kind(&kind.group, &kind.kind) {
        context.workload_queue.add(&user);
    }
}
