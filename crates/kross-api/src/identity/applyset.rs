//! Apply sets: their ids, and the inventory of an instance's objects in its own cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::vocabulary::annotations::{
    ABANDON_CLUSTER, APPLYSET_GROUP_KINDS, APPLYSET_NAMESPACES, APPLYSET_TOOLING, CLUSTER_INVENTORY,
    INVENTORY_HASH,
};
use crate::vocabulary::labels::APPLYSET_ID;

use super::TOOLING_PREFIX;

/// The id of an instance's apply set in its own cluster; `namespace` is empty for a cluster-scoped instance.
#[must_use]
pub fn applyset_id(name: &str, namespace: &str, kind: &str, group: &str) -> String {
    format!("applyset-{}-v1", digest(&[name, namespace, kind, group].join(".")))
}

/// The id of an instance's apply set in a remote cluster. It includes the UID of the hub, so that two hubs never prune each
/// other's objects.
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

    /// Parses `Kind` or `Kind.group`.
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

/// The kinds and namespaces of an apply set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inventory {
    /// Kinds that are, or are about to be, applied.
    pub group_kinds: BTreeSet<GroupKind>,
    /// Namespaces besides the parent's.
    pub namespaces: BTreeSet<String>,
}

/// An inventory that is invalid or cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// An entry is not a valid kind.
    #[error("the inventory contains the invalid kind `{0}`")]
    GroupKind(String),
    /// An entry is not a valid namespace.
    #[error("the inventory contains the invalid namespace `{0}`")]
    Namespace(String),
    /// Somebody else changed the annotations.
    #[error("the inventory does not match its hash")]
    Hash,
    /// A part of the inventory is missing.
    #[error("the annotation `{0}` is missing, so the inventory is incomplete; restore it")]
    Missing(&'static str),
    /// The inventory belongs to another parent.
    #[error(
        "the label `{APPLYSET_ID}` is `{found}`, expected `{expected}`; correct it, or, if the instance has no objects yet, remove all its labels and annotations of `applyset.kubernetes.io`"
    )]
    Parent {
        /// The value of the label.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// The inventory was written by another tool.
    #[error("the annotation `{APPLYSET_TOOLING}` is `{0}`, which belongs to another tool; set it to `kro/…`")]
    Tooling(String),
    /// The inventory of remote clusters cannot be parsed.
    #[error("cannot parse the annotation `{CLUSTER_INVENTORY}`: {0}")]
    Clusters(String),
    /// The inventory of remote clusters has an unknown version.
    #[error("the annotation `{CLUSTER_INVENTORY}` has version {0}, which this controller does not support")]
    Version(u64),
    /// The inventory of remote clusters was removed, and the status does not tell everything that it had.
    #[error(
        "the annotation `{CLUSTER_INVENTORY}` was removed and cannot be restored from the status: {0}; restore the annotation from a backup, or set `{ABANDON_CLUSTER}` to the UIDs of all clusters in `status.clusters`, or to `*` for all clusters if it does not list all of them with their UIDs (the objects in these clusters are orphaned)"
    )]
    Removed(String),
    /// The inventory of remote clusters is too long for an annotation.
    #[error(
        "the annotation `{CLUSTER_INVENTORY}` would have {size} bytes, but the limit is {limit}; use fewer clusters per instance"
    )]
    TooLarge {
        /// Size of the annotation.
        size: usize,
        /// Maximum size.
        limit: usize,
    },
    /// The inventory of remote clusters is too large once it is expanded.
    #[error(
        "the annotation `{CLUSTER_INVENTORY}` has more than {limit} {what}; use fewer clusters per instance, or restore the annotation if somebody changed it"
    )]
    Exceeded {
        /// What it has too much of.
        what: &'static str,
        /// Maximum.
        limit: usize,
    },
}

impl Inventory {
    /// Parses the annotations of a parent; `None` if it has no inventory. An inventory without a hash was written by an
    /// older kro and is accepted.
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

    /// Like [`parse`](Self::parse), but every part must be present and belong to this parent. Deletion needs this, so that
    /// no object is forgotten.
    ///
    /// # Errors
    ///
    /// The errors of [`parse`](Self::parse), or a part is missing or belongs to another parent or tool.
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

    /// Whether a parent has any part of an inventory.
    #[must_use]
    pub fn is_present(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> bool {
        let parts = [APPLYSET_GROUP_KINDS, APPLYSET_NAMESPACES, APPLYSET_TOOLING, INVENTORY_HASH];
        labels.contains_key(APPLYSET_ID) || parts.iter().any(|part| annotations.contains_key(*part))
    }

    /// The annotations that store the inventory on its parent.
    #[must_use]
    pub fn annotations(&self, id: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            (APPLYSET_GROUP_KINDS.to_owned(), self.kinds_text()),
            (APPLYSET_NAMESPACES.to_owned(), self.namespaces_text()),
            (INVENTORY_HASH.to_owned(), self.hash(id)),
        ])
    }

    /// The number of kinds and namespaces.
    pub(super) fn len(&self) -> usize {
        self.group_kinds.len() + self.namespaces.len()
    }

    /// Whether it has all entries of another inventory.
    pub(super) fn contains(&self, other: &Self) -> bool {
        other.group_kinds.is_subset(&self.group_kinds) && other.namespaces.is_subset(&self.namespaces)
    }

    /// Adds the entries of another inventory.
    pub fn extend(&mut self, other: &Self) {
        self.group_kinds.extend(other.group_kinds.iter().cloned());
        self.namespaces.extend(other.namespaces.iter().cloned());
    }

    /// The hash of id, kinds and namespaces.
    #[must_use]
    pub fn hash(&self, id: &str) -> String {
        format!("sha256:{}", digest(&[id, &self.kinds_text(), &self.namespaces_text()].join("\0")))
    }

    /// The kinds of the annotation, sorted as strings, as in kro.
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
    fn ids_and_hashes_are_the_same_as_kros() {
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
    fn an_inventory_round_trips_through_its_annotations() {
        for inventory in [
            inventory(&[], &[]),
            inventory(&[("", "ConfigMap"), ("apps", "Deployment"), ("", "ConfigMapList")], &["a", "b-c"]),
        ] {
            assert_eq!(Inventory::parse(ID, &inventory.annotations(ID)), Ok(Some(inventory)));
        }
        assert_eq!(Inventory::parse(ID, &BTreeMap::new()), Ok(None));
    }

    #[test]
    fn a_modified_or_malformed_inventory_is_rejected() {
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
    fn a_complete_inventory_has_every_part_and_belongs_to_its_parent() {
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
        assert!(without(INVENTORY_HASH).is_ok(), "older versions write no hash");
        let empty = BTreeMap::new();
        assert!(matches!(
            Inventory::parse_complete(ID, &empty, &written),
            Err(InventoryError::Parent { .. })
        ));
        assert!(!Inventory::is_present(&empty, &empty));
        assert!(Inventory::is_present(&labels, &empty) && Inventory::is_present(&empty, &written));
    }

    #[test]
    fn annotations_are_sorted() {
        let texts = inventory(&[("apps", "Deployment"), ("", "Secret"), ("", "DeploymentX")], &["b", "a"])
            .annotations(ID);
        assert_eq!(texts[APPLYSET_GROUP_KINDS], "Deployment.apps,DeploymentX,Secret");
        assert_eq!(texts[APPLYSET_NAMESPACES], "a,b");
    }
}
