//! The key of a cache: cluster, credential, kind, selection and how it is kept in sync.

use std::borrow::Cow;
use std::fmt;

use kross_api::labels;
use kross_value::Text;

use super::{KindKey, SyncPolicy};
use crate::object::{ClusterId, ObjectKey, StoredObject};

/// Which objects of a kind are cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Selection {
    /// All objects.
    All,
    /// Objects with the label `kro.run/owned=true`.
    Managed,
    /// The object with this name.
    Name {
        /// Its namespace, if its kind is namespaced.
        namespace: Option<Text>,
        /// Its name.
        name: Text,
    },
    /// Objects that match a label selector.
    Labels {
        /// In this namespace, or in all.
        namespace: Option<Text>,
        /// As in a request: `tier=web,env in (a,b)`.
        selector: Text,
    },
}

/// What identifies a cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey {
    /// The cluster.
    pub cluster: ClusterId,
    /// The credential that the objects are read with, as in [`ClusterClient::access`](crate::ClusterClient::access).
    pub access: Text,
    /// The API group of the kind.
    pub group: Text,
    /// The kind.
    pub kind: Text,
    /// The version that objects are read in.
    pub version: Text,
    /// Which objects.
    pub selection: Selection,
    /// How the cache is kept in sync. A user that asked for polls must not cause a watch.
    pub sync: SyncPolicy,
}

impl CacheKey {
    pub(super) fn kind_key(&self) -> KindKey {
        (self.cluster.clone(), self.group.clone(), self.kind.clone())
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, access: _, group, kind, version, selection, sync } = self;
        let slash = if group.is_empty() { "" } else { "/" };
        write!(f, "{kind} {group}{slash}{version} in {cluster}, {selection}")?;
        match sync {
            SyncPolicy::Watch => Ok(()),
            SyncPolicy::Poll { interval, .. } => write!(f, ", every {interval:?}"),
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Managed => f.write_str("managed"),
            Self::Name { namespace: Some(namespace), name } => write!(f, "{namespace}/{name}"),
            Self::Name { namespace: None, name } => f.write_str(name),
            Self::Labels { namespace: Some(namespace), selector } => write!(f, "{selector} in {namespace}"),
            Self::Labels { namespace: None, selector } => f.write_str(selector),
        }
    }
}

impl Selection {
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::All | Self::Managed => None,
            Self::Name { namespace, .. } | Self::Labels { namespace, .. } => namespace.as_deref(),
        }
    }

    /// The label selector of the requests.
    pub(super) fn labels(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::All | Self::Name { .. } => None,
            Self::Managed => Some(Cow::Owned(format!("{}={}", labels::OWNED, labels::OWNED_TRUE))),
            Self::Labels { selector, .. } => Some(Cow::Borrowed(selector)),
        }
    }

    /// The field selector of the requests.
    pub(super) fn fields(&self) -> Option<String> {
        match self {
            Self::Name { name, .. } => Some(format!("metadata.name={name}")),
            Self::All | Self::Managed | Self::Labels { .. } => None,
        }
    }

    /// Whether the selection includes this object whatever its labels are.
    pub(super) fn covers(&self, object: &ObjectKey) -> bool {
        match self {
            Self::All => true,
            Self::Name { namespace, name } => *name == object.name && *namespace == object.namespace,
            Self::Managed | Self::Labels { .. } => false,
        }
    }

    /// Whether the selection includes this object. Label selectors are evaluated by the API server alone.
    pub(super) fn selects(&self, object: &StoredObject) -> bool {
        match self {
            Self::All => true,
            Self::Managed => object.label(labels::OWNED) == Some(labels::OWNED_TRUE),
            Self::Name { namespace, name } => {
                name == object.name() && namespace.as_ref() == object.namespace()
            }
            Self::Labels { .. } => false,
        }
    }
}
