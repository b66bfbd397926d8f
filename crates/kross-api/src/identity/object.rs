//! The identity of an object across clusters.

use std::fmt;

use kross_value::Text;

/// The id of a cluster. The local cluster has an id like any other.
///
/// The id of a remote cluster has two parts: the UID or the URL that its server claims, and what proves that claim. Two servers
/// that claim one UID have different ids unless the proofs are equal. `Display` shows the claim alone, which is what is persisted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(Text);

/// Between the claim and the proof. Neither UIDs nor server URLs contain it.
const PROOF: char = '#';

impl ClusterId {
    /// Creates an id.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The id of a cluster that claims a UID or a URL, with what proves that: the digest of a trust anchor, or the reference that
    /// alone leads there.
    #[must_use]
    pub fn proven(claim: &str, proof: &str) -> Self {
        Self(format!("{claim}{PROOF}{proof}").into())
    }

    /// The UID or the URL that the cluster claims: equal for all clusters that claim the same.
    #[must_use]
    pub fn claim(&self) -> &str {
        self.0.split_once(PROOF).map_or(&self.0, |(claim, _)| claim)
    }

    /// The cluster kross runs in.
    #[must_use]
    pub fn local() -> Self {
        Self::new("local")
    }

    /// Whether it is the cluster kross runs in.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0 == *"local"
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.claim().fmt(f)
    }
}

/// Identifies an object in caches, queues, indexes, inventories and metrics. It does not include the API version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its cluster.
    pub cluster: ClusterId,
    /// The API group of its kind; empty for the core group.
    pub group: Text,
    /// Its kind.
    pub kind: Text,
    /// Its namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Text>,
    /// Its name.
    pub name: Text,
}

impl ObjectKey {
    /// `Kind.group`, or `Kind` in the core group, as inventories write it.
    #[must_use]
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() { self.kind.to_string() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// `namespace/name`, or `name` for a cluster-scoped object.
    #[must_use]
    pub fn namespaced_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.to_string(),
        }
    }
}

impl fmt::Display for ObjectKey {
    /// `Kind.group namespace/name in cluster`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.group_kind(), self.namespaced_name(), self.cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_claim_one_uid_differ_by_their_proofs_and_are_shown_and_persisted_alike() {
        let [one, other] = ["one", "other"].map(|proof| ClusterId::proven("uid", proof));
        assert_ne!(one, other);
        assert_eq!((one.claim(), other.claim()), ("uid", "uid"));
        let object = |cluster: &ClusterId| ObjectKey {
            cluster: cluster.clone(),
            group: "".into(),
            kind: "ConfigMap".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
        };
        // The record of deletion hooks has a hash of this text, which a rotation must not change.
        assert_eq!(object(&one).to_string(), "ConfigMap shop/web in uid");
        assert_eq!(object(&one).to_string(), object(&other).to_string());
        assert!(!ClusterId::proven("local", "one").is_local());
    }
}
