//! Apply sets: their ids, and the inventory that an instance keeps of what belongs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::vocabulary::annotations::{
    APPLYSET_GROUP_KINDS, APPLYSET_NAMESPACES, APPLYSET_TOOLING, CLUSTER_INVENTORY, INVENTORY_HASH,
};
use crate::vocabulary::labels::APPLYSET_ID;

use super::TOOLING_PREFIX;

/// The id of the apply set whose parent is the given instance; `namespace` is empty for a cluster-scoped one.
#[must_use]
pub fn applyset_id(name: &str, namespace: &str, kind: &str, group: &str) -> String {
    format!("applyset-{}-v1", digest(&[name, namespace, kind, group].join(".")))
}

/// The id of an instance's apply set in a remote cluster. Names the hub, so that two hubs never prune each other.
#[must_use]
pub fn remote_applyset_id(name: &str, namespace: &str, kind: &str, group: &str, hub_uid: &str) -> String {
    format!("applyset-{}-v1", digest(&[name, namespace, kind, group, hub_uid].join(".")))
}

pub(super) fn digest(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

/// A kind of object without its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Group, empty for the core group.
    pub group: String,
}

impl GroupKind {
    /// A kind in a group.
    #[must_use]
    pub fn new(group: &str, kind: &str) -> Self {
        Self { kind: kind.to_owned(), group: group.to_owned() }
    }

    /// Reads `Kind` or `Kind.group`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        let well_formed = !kind.is_empty()
            && !kind.contains(char::is_whitespace)
            && (group.is_empty() != text.contains('.'))
            && group.split('.').all(|part| group.is_empty() || is_label(part));
        well_formed.then(|| Self::new(group, kind))
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// Which kinds in which namespaces an apply set contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inventory {
    /// Kinds that are, or are about to be, applied.
    pub group_kinds: BTreeSet<GroupKind>,
    /// Namespaces besides the parent's.
    pub namespaces: BTreeSet<String>,
}

/// An inventory that cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// An entry is not a kind.
    #[error("`{0}` in the inventory is not a kind")]
    GroupKind(String),
    /// An entry is not a namespace.
    #[error("`{0}` in the inventory is not a namespace")]
    Namespace(String),
    /// The annotations were changed by somebody else.
    #[error("the inventory does not match its hash")]
    Hash,
    /// A part of the inventory was taken off.
    #[error("the annotation `{0}` is missing, so that nobody knows what is left; put it back")]
    Missing(&'static str),
    /// The inventory is that of another parent.
    #[error(
        "the label `{APPLYSET_ID}` is `{found}` and should be `{expected}`; correct it, or remove all labels and annotations of `applyset.kubernetes.io` from an instance that has no objects yet"
    )]
    Parent {
        /// What the label says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// The inventory was written by another tool.
    #[error("the annotation `{APPLYSET_TOOLING}` is `{0}`, which is not kro's; set it to `kro/…`")]
    Tooling(String),
    /// The inventory of remote clusters cannot be read.
    #[error("the annotation `{CLUSTER_INVENTORY}` cannot be read: {0}")]
    Clusters(String),
    /// The inventory of remote clusters was written by a later version.
    #[error("the annotation `{CLUSTER_INVENTORY}` has version {0}, which this controller does not know")]
    Version(u64),
    /// The inventory of remote clusters is too long for an annotation.
    #[error(
        "the annotation `{CLUSTER_INVENTORY}` would have {size} bytes, and at most {limit} are allowed; use fewer clusters per instance"
    )]
    TooLarge {
        /// Its size.
        size: usize,
        /// The largest that is allowed.
        limit: usize,
    },
}

impl Inventory {
    /// Reads the annotations of a parent; `None` when it has no inventory. An inventory without a hash is from an
    /// older kro and is taken as it is.
    ///
    /// # Errors
    ///
    /// An entry is malformed, or the hash does not match.
    pub fn parse(id: &str, annotations: &BTreeMap<String, String>) -> Result<Option<Self>, InventoryError> {
        let text = |key: &str| annotations.get(key).map(|text| text.trim());
        let (kinds, namespaces) = (text(APPLYSET_GROUP_KINDS), text(APPLYSET_NAMESPACES));
        if kinds.is_none() && namespaces.is_none() && text(INVENTORY_HASH).is_none() {
            return Ok(None);
        }
        let inventory = Self {
            group_kinds: entries(kinds)
                .map(|entry| {
                    GroupKind::parse(entry).ok_or_else(|| InventoryError::GroupKind(entry.to_owned()))
                })
                .collect::<Result<_, _>>()?,
            namespaces: entries(namespaces).map(namespace).collect::<Result<_, _>>()?,
        };
        match text(INVENTORY_HASH) {
            Some(hash) if hash != inventory.hash(id) => Err(InventoryError::Hash),
            _ => Ok(Some(inventory)),
        }
    }

    /// As [`parse`](Self::parse), for when nothing may be forgotten: every part must be there and be that of this parent.
    ///
    /// # Errors
    ///
    /// As there, or a part is missing or somebody else's.
    pub fn parse_complete(
        id: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Self, InventoryError> {
        let parent = labels.get(APPLYSET_ID).map_or("", String::as_str);
        if parent != id {
            let (found, expected) = (parent.to_owned(), id.to_owned());
            return Err(InventoryError::Parent { found, expected });
        }
        for key in [APPLYSET_GROUP_KINDS, APPLYSET_NAMESPACES] {
            if !annotations.contains_key(key) {
                return Err(InventoryError::Missing(key));
            }
        }
        let tooling = annotations.get(APPLYSET_TOOLING).map_or("", String::as_str);
        if !tooling.starts_with(TOOLING_PREFIX) {
            return Err(InventoryError::Tooling(tooling.to_owned()));
        }
        Ok(Self::parse(id, annotations)?.unwrap_or_default())
    }

    /// Whether an object has any part of an inventory.
    #[must_use]
    pub fn is_present(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> bool {
        let parts = [APPLYSET_GROUP_KINDS, APPLYSET_NAMESPACES, APPLYSET_TOOLING, INVENTORY_HASH];
        labels.contains_key(APPLYSET_ID) || parts.iter().any(|part| annotations.contains_key(*part))
    }

    /// The annotations that keep the inventory on its parent.
    #[must_use]
    pub fn annotations(&self, id: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            (APPLYSET_GROUP_KINDS.to_owned(), self.kinds_text()),
            (APPLYSET_NAMESPACES.to_owned(), self.namespaces_text()),
            (INVENTORY_HASH.to_owned(), self.hash(id)),
        ])
    }

    /// Adds what another inventory has.
    pub fn extend(&mut self, other: &Self) {
        self.group_kinds.extend(other.group_kinds.iter().cloned());
        self.namespaces.extend(other.namespaces.iter().cloned());
    }

    /// The hash over id, kinds and namespaces.
    #[must_use]
    pub fn hash(&self, id: &str) -> String {
        format!("sha256:{}", digest(&[id, &self.kinds_text(), &self.namespaces_text()].join("\0")))
    }

    /// Sorted as texts: `A.x` before `A.y`, but `AB` before `A.x`, as kro sorts them.
    pub(super) fn kinds_text(&self) -> String {
        let mut kinds: Vec<String> = self.group_kinds.iter().map(ToString::to_string).collect();
        kinds.sort();
        kinds.join(",")
    }

    pub(super) fn namespaces_text(&self) -> String {
        self.namespaces.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }
}

pub(super) fn entries(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.filter(|text| !text.is_empty()).into_iter().flat_map(|text| text.split(',')).map(str::trim)
}

pub(super) fn namespace(text: &str) -> Result<String, InventoryError> {
    if is_label(text) { Ok(text.to_owned()) } else { Err(InventoryError::Namespace(text.to_owned())) }
}

fn is_label(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "applyset-XGGsgqPh95MHDZGMbPOrQxuf8LFHrAvGYUZNmPNMJTM-v1";

    fn inventory(kinds: &[(&str, &str)], namespaces: &[&str]) -> Inventory {
        Inventory {
            group_kinds: kinds.iter().map(|(group, kind)| GroupKind::new(group, kind)).collect(),
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn ids_are_those_of_kro() {
        for line in include_str!("../../tests/fixtures/applysets.txt").lines() {
            let parts: Vec<&str> = line.split('|').collect();
            match parts[0] {
                "id" => assert_eq!(applyset_id(parts[1], parts[2], parts[3], parts[4]), parts[5]),
                _ => {
                    let kinds = entries(Some(parts[2])).map(|kind| GroupKind::parse(kind).unwrap()).collect();
                    let namespaces = entries(Some(parts[3])).map(str::to_owned).collect();
                    assert_eq!(
                        Inventory { group_kinds: kinds, namespaces }.hash(parts[1]),
                        parts[4],
                        "{line}"
                    );
                }
            }
        }
    }

    #[test]
    fn two_hubs_have_different_ids_for_the_same_instance() {
        let id = |hub| remote_applyset_id("web", "shop", "App", "kro.run", hub);
        assert_ne!(id("a"), id("b"));
        assert_ne!(id("a"), applyset_id("web", "shop", "App", "kro.run"));
        assert_eq!(id("a").len(), ID.len());
    }

    #[test]
    fn an_inventory_comes_back_from_its_annotations() {
        for inventory in [
            inventory(&[], &[]),
            inventory(&[("", "ConfigMap"), ("apps", "Deployment"), ("", "ConfigMapList")], &["a", "b-c"]),
        ] {
            assert_eq!(Inventory::parse(ID, &inventory.annotations(ID)), Ok(Some(inventory)));
        }
        assert_eq!(Inventory::parse(ID, &BTreeMap::new()), Ok(None));
    }

    #[test]
    fn a_changed_or_malformed_inventory_is_not_trusted() {
        let written = inventory(&[("", "ConfigMap")], &["a"]).annotations(ID);
        let with = |key: &str, value: &str| {
            let mut changed = written.clone();
            changed.insert(key.to_owned(), value.to_owned());
            Inventory::parse(ID, &changed).unwrap_err()
        };
        assert_eq!(with(APPLYSET_GROUP_KINDS, ""), InventoryError::Hash);
        assert_eq!(with(APPLYSET_NAMESPACES, "b"), InventoryError::Hash);
        assert_eq!(with(APPLYSET_GROUP_KINDS, "ConfigMap,,"), InventoryError::GroupKind(String::new()));
        assert_eq!(
            with(APPLYSET_GROUP_KINDS, "Config Map"),
            InventoryError::GroupKind("Config Map".to_owned())
        );
        assert_eq!(with(APPLYSET_GROUP_KINDS, "A."), InventoryError::GroupKind("A.".to_owned()));
        assert_eq!(with(APPLYSET_NAMESPACES, "No"), InventoryError::Namespace("No".to_owned()));
        assert_eq!(Inventory::parse("other", &written), Err(InventoryError::Hash));
        let mut old = written;
        old.remove(INVENTORY_HASH);
        assert!(Inventory::parse(ID, &old).unwrap().is_some());
    }

    #[test]
    fn where_nothing_may_be_forgotten_every_part_must_be_there_and_its_own() {
        let labels = BTreeMap::from([(APPLYSET_ID.to_owned(), ID.to_owned())]);
        let mut written = inventory(&[("", "ConfigMap")], &[]).annotations(ID);
        written.insert(APPLYSET_TOOLING.to_owned(), "kro/v0.9.4".to_owned());
        assert_eq!(
            Inventory::parse_complete(ID, &labels, &written),
            Ok(inventory(&[("", "ConfigMap")], &[]))
        );
        let without = |key: &str| {
            let mut changed = written.clone();
            changed.remove(key);
            Inventory::parse_complete(ID, &labels, &changed)
        };
        for key in [APPLYSET_GROUP_KINDS, APPLYSET_NAMESPACES] {
            assert_eq!(without(key), Err(InventoryError::Missing(key)));
        }
        assert_eq!(without(APPLYSET_TOOLING), Err(InventoryError::Tooling(String::new())));
        assert!(without(INVENTORY_HASH).is_ok(), "older versions have none");
        let nobody = BTreeMap::new();
        assert!(matches!(
            Inventory::parse_complete(ID, &nobody, &written),
            Err(InventoryError::Parent { .. })
        ));
        assert!(!Inventory::is_present(&nobody, &nobody));
        assert!(Inventory::is_present(&labels, &nobody) && Inventory::is_present(&nobody, &written));
    }

    #[test]
    fn annotations_are_sorted_texts() {
        let texts = inventory(&[("apps", "Deployment"), ("", "Secret"), ("", "DeploymentX")], &["b", "a"])
            .annotations(ID);
        assert_eq!(texts[APPLYSET_GROUP_KINDS], "Deployment.apps,DeploymentX,Secret");
        assert_eq!(texts[APPLYSET_NAMESPACES], "a,b");
    }
}
