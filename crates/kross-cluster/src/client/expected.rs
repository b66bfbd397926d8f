//! What a request asked for, to compare it with what a server sends: a hostile server could list objects of other kinds,
//! namespaces or owners, which would then be changed or deleted under these names.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{ClusterClient, Query};
use crate::discovery::ApiKind;
use crate::object::StoredObject;

mod selector;

use selector::LabelSelector;

/// The objects that were dropped in this process.
static UNEXPECTED: AtomicU64 = AtomicU64::new(0);
/// After this many dropped objects or lines a client warns again.
const WARN_EVERY: u64 = 1000;

/// How many objects in lists and watches did not match the request, in this process. They were dropped.
#[must_use]
pub fn unexpected_objects() -> u64 {
    UNEXPECTED.load(Ordering::Relaxed)
}

/// Which objects a list or watch was asked for.
#[derive(Debug)]
pub(crate) struct Expected {
    api_version: String,
    kind: String,
    namespaced: bool,
    namespace: Option<String>,
    name: Option<String>,
    labels: LabelSelector,
}

impl Expected {
    pub(crate) fn new(kind: &ApiKind, namespace: Option<&str>, query: &Query<'_>) -> Self {
        let name = query.fields.and_then(|fields| fields.strip_prefix("metadata.name="));
        Self {
            api_version: kind.api_version(),
            kind: kind.kind.to_string(),
            namespaced: kind.namespaced,
            namespace: namespace.filter(|_| kind.namespaced).map(str::to_owned),
            name: name.map(str::to_owned),
            labels: query.labels.map(LabelSelector::parse).unwrap_or_default(),
        }
    }

    /// Whether an object can be one of those.
    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        self.is_within_reach(object) && self.labels.matches(|name| object.label(name))
    }

    /// Like [`Expected::matches`], whatever the labels are: an object that does not match the selector any more is
    /// reported as deleted, with its new labels.
    pub(crate) fn is_within_reach(&self, object: &StoredObject) -> bool {
        object.kind() == self.kind
            && object.api_version() == self.api_version
            && self.is_named(object.namespace().map(|namespace| &**namespace), object.name())
    }

    /// Whether the metadata can be that of one of those.
    pub(crate) fn matches_metadata<'o>(
        &self,
        namespace: Option<&str>,
        name: &str,
        label: impl Fn(&str) -> Option<&'o str>,
    ) -> bool {
        self.is_named(namespace, name) && self.labels.matches(label)
    }

    fn is_named(&self, namespace: Option<&str>, name: &str) -> bool {
        let in_scope = match (&self.namespace, namespace.filter(|namespace| !namespace.is_empty())) {
            (Some(expected), found) => found == Some(expected.as_str()),
            (None, found) => found.is_some() == self.namespaced,
        };
        in_scope && self.name.as_ref().is_none_or(|expected| expected == name)
    }
}

impl ClusterClient {
    /// Counts objects that were dropped because nobody asked for them.
    pub(crate) fn count_unexpected(&self, kind: &ApiKind, dropped: usize) {
        let dropped = u64::try_from(dropped).unwrap_or(u64::MAX);
        if dropped == 0 {
            return;
        }
        UNEXPECTED.fetch_add(dropped, Ordering::Relaxed);
        if let Some(dropped) = count(&self.shared.unexpected, dropped) {
            let (cluster, kind) = (self.cluster(), &kind.kind);
            tracing::warn!(%cluster, %kind, dropped, "dropped objects that do not match the request");
        }
    }

    /// Counts a line of a watch that is no event, or whose object cannot be read, and was skipped. A server could send nothing else.
    pub(crate) fn count_unreadable(&self, kind: &ApiKind, problem: &dyn fmt::Display) {
        if let Some(skipped) = count(&self.shared.unreadable, 1) {
            let (cluster, kind) = (self.cluster(), &kind.kind);
            tracing::warn!(%cluster, %kind, %problem, skipped, "skipped lines of a watch that cannot be read");
        }
    }
}

/// Counts what a server did wrong. Returns how often it did if that is worth a warning.
fn count(counter: &AtomicU64, more: u64) -> Option<u64> {
    let before = counter.fetch_add(more, Ordering::Relaxed);
    let now = before + more;
    (before == 0 || before / WARN_EVERY != now / WARN_EVERY).then_some(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::read_object;

    fn object(kind: &str, namespace: Option<&str>, labels: &serde_json::Value) -> StoredObject {
        let json = serde_json::json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": "a", "namespace": namespace, "labels": labels}});
        read_object(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn kind_namespace_name_and_labels_are_compared_with_the_request() {
        let kind = ApiKind::custom("", "v1", "ConfigMap", "configmaps", true);
        let query = Query { labels: Some("tier=web"), fields: Some("metadata.name=a") };
        let expected = Expected::new(&kind, Some("shop"), &query);
        let web = serde_json::json!({"tier": "web"});
        assert!(expected.matches(&object("ConfigMap", Some("shop"), &web)));
        assert!(!expected.matches(&object("Secret", Some("shop"), &web)));
        assert!(!expected.matches(&object("ConfigMap", Some("bank"), &web)));
        assert!(!expected.matches(&object("ConfigMap", None, &web)));
        let other = object("ConfigMap", Some("shop"), &serde_json::json!({"tier": "db"}));
        assert!(!expected.matches(&other) && expected.is_within_reach(&other));
        let query = Query { fields: Some("metadata.name=b"), ..query };
        assert!(!Expected::new(&kind, Some("shop"), &query).matches(&object(
            "ConfigMap",
            Some("shop"),
            &web
        )));
        let all = Expected::new(&kind, None, &Query::default());
        assert!(all.matches(&object("ConfigMap", Some("bank"), &web)));
        assert!(!all.matches(&object("ConfigMap", None, &web)));
        let node = ApiKind::custom("", "v1", "Node", "nodes", false);
        let nodes = Expected::new(&node, Some("ignored"), &Query::default());
        assert!(nodes.matches(&object("Node", None, &web)));
        assert!(!nodes.matches(&object("Node", Some("shop"), &web)));
        let other_group = ApiKind::custom("example.com", "v1", "ConfigMap", "configmaps", true);
        let expected = Expected::new(&other_group, None, &Query::default());
        assert!(!expected.matches(&object("ConfigMap", Some("shop"), &web)));
    }
}
