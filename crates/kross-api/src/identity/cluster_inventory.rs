//! The inventory of an instance's objects in remote clusters: which kinds in which namespaces of which cluster, and the
//! reference that resolved to it. It is stored in one annotation and parsed strictly, so that deletion depends neither
//! on the graph nor on the controller's memory.

use serde::{Deserialize, Serialize};

use super::applyset::{GroupKind, Inventory, InventoryError, digest, entries, namespace};

/// The version of the format.
const VERSION: u64 = 1;
/// Maximum length of the annotation. Kubernetes limits all annotations of an object to twice as much.
const MAX_LENGTH: usize = 128 << 10;

/// The inventory of an instance's objects in remote clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterInventory {
    /// The clusters by reference, sorted.
    clusters: Vec<RecordedCluster>,
}

/// A remote cluster in an inventory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedCluster {
    /// The reference that resolved to the cluster, such as `secret/shop/eu-kubeconfig/kubeconfig`.
    pub reference: String,
    /// UID of its `kube-system` namespace, or the server URL.
    pub uid: String,
    /// Whether `uid` is only the server URL.
    pub unverified: bool,
    /// Name of the cluster in messages.
    pub name: String,
    /// The instance's objects in the cluster. Empty if objects are only read there.
    pub contents: Inventory,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    version: u64,
    clusters: Vec<WireCluster>,
    hash: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WireCluster {
    reference: String,
    name: String,
    uid: String,
    #[serde(default, skip_serializing_if = "is_false")]
    unverified: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kinds: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespaces: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl ClusterInventory {
    /// Parses the annotation. `id` is the apply set of the instance in its own cluster.
    ///
    /// # Errors
    /// The annotation has an unknown version, is malformed or too long, or does not match its hash.
    pub fn parse(id: &str, text: &str) -> Result<Self, InventoryError> {
        if text.len() > MAX_LENGTH {
            return Err(InventoryError::TooLarge { size: text.len(), limit: MAX_LENGTH });
        }
        let malformed = |error: serde_json::Error| InventoryError::Clusters(error.to_string());
        let version: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
        let version = version.get("version").and_then(serde_json::Value::as_u64);
        if let Some(version) = version.filter(|version| *version != VERSION) {
            return Err(InventoryError::Version(version));
        }
        let wire: Wire = serde_json::from_str(text).map_err(malformed)?;
        let clusters =
            wire.clusters.into_iter().map(RecordedCluster::from_wire).collect::<Result<Vec<_>, _>>()?;
        let mut inventory = Self::default();
        for cluster in clusters {
            if inventory.find(&cluster.reference, &cluster.uid).is_some() {
                return Err(InventoryError::Clusters(format!("duplicate reference `{}`", cluster.reference)));
            }
            inventory.clusters.push(cluster);
        }
        inventory.clusters.sort();
        if inventory.hash(id) != wire.hash {
            return Err(InventoryError::Hash);
        }
        Ok(inventory)
    }

    /// The references in an annotation, whether or not it matches its hash; `None` if it cannot be read.
    #[must_use]
    pub fn references(text: &str) -> Option<Vec<String>> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let wire: Wire = serde_json::from_str(text).ok()?;
        Some(wire.clusters.into_iter().map(|cluster| cluster.reference).collect())
    }

    /// The value of the annotation; `None` if the inventory is empty.
    ///
    /// # Errors
    /// The annotation would be too long.
    pub fn text(&self, id: &str) -> Result<Option<String>, InventoryError> {
        if self.clusters.is_empty() {
            return Ok(None);
        }
        let wire = Wire { version: VERSION, clusters: self.wire(), hash: self.hash(id) };
        let text =
            serde_json::to_string(&wire).map_err(|error| InventoryError::Clusters(error.to_string()))?;
        if text.len() > MAX_LENGTH {
            return Err(InventoryError::TooLarge { size: text.len(), limit: MAX_LENGTH });
        }
        Ok(Some(text))
    }

    /// The clusters.
    #[must_use]
    pub fn clusters(&self) -> &[RecordedCluster] {
        &self.clusters
    }

    /// The cluster with this reference and UID.
    #[must_use]
    pub fn find(&self, reference: &str, uid: &str) -> Option<&RecordedCluster> {
        self.clusters.iter().find(|cluster| cluster.reference == reference && cluster.uid == uid)
    }

    /// The cluster that a reference resolved to; if there are several, the one with the most kinds.
    #[must_use]
    pub fn by_reference(&self, reference: &str) -> Option<&RecordedCluster> {
        let matching = self.clusters.iter().filter(|cluster| cluster.reference == reference);
        matching.max_by_key(|cluster| cluster.contents.group_kinds.len())
    }

    /// Adds objects that are, or are about to be, in a cluster.
    pub fn add(&mut self, cluster: RecordedCluster) {
        let known = self
            .clusters
            .iter_mut()
            .find(|known| known.reference == cluster.reference && known.uid == cluster.uid);
        match known {
            Some(known) => {
                known.contents.extend(&cluster.contents);
                known.name = cluster.name;
                known.unverified = cluster.unverified;
            }
            None => {
                self.clusters.push(cluster);
                self.clusters.sort();
            }
        }
    }

    /// Keeps the clusters for which `keep` returns true. `keep` may change their contents.
    pub fn retain(&mut self, keep: impl FnMut(&mut RecordedCluster) -> bool) {
        self.clusters.retain_mut(keep);
        self.clusters.sort();
    }

    fn wire(&self) -> Vec<WireCluster> {
        let write = |cluster: &RecordedCluster| WireCluster {
            reference: cluster.reference.clone(),
            name: cluster.name.clone(),
            uid: cluster.uid.clone(),
            unverified: cluster.unverified,
            kinds: cluster.contents.kinds_text(),
            namespaces: cluster.contents.namespaces_text(),
        };
        self.clusters.iter().map(write).collect()
    }

    fn hash(&self, id: &str) -> String {
        let clusters = serde_json::to_string(&self.wire()).unwrap_or_default();
        format!("sha256:{}", digest(&[id, &clusters].join("\0")))
    }
}

impl RecordedCluster {
    fn from_wire(wire: WireCluster) -> Result<Self, InventoryError> {
        let WireCluster { reference, name, uid, unverified, kinds, namespaces } = wire;
        if reference.is_empty() || uid.is_empty() {
            return Err(InventoryError::Clusters("a cluster has no reference or UID".to_owned()));
        }
        let kind =
            |entry: &str| GroupKind::parse(entry).ok_or_else(|| InventoryError::GroupKind(entry.to_owned()));
        let contents = Inventory {
            group_kinds: entries(Some(&kinds)).map(kind).collect::<Result<_, _>>()?,
            namespaces: entries(Some(&namespaces)).map(namespace).collect::<Result<_, _>>()?,
        };
        Ok(Self { reference, uid, unverified, name, contents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "applyset-x-v1";

    fn cluster(reference: &str, uid: &str, kinds: &[&str]) -> RecordedCluster {
        RecordedCluster {
            reference: format!("secret/shop/{reference}/kubeconfig"),
            uid: uid.to_owned(),
            unverified: uid.starts_with("https"),
            name: format!("shop/{reference}"),
            contents: Inventory {
                group_kinds: kinds.iter().map(|kind| GroupKind::parse(kind).unwrap()).collect(),
                namespaces: ["a".to_owned()].into(),
            },
        }
    }

    fn inventory() -> ClusterInventory {
        let mut inventory = ClusterInventory::default();
        inventory.add(cluster("us", "https://us:6443", &["ConfigMap", "Deployment.apps"]));
        inventory.add(cluster("eu", "uid-of-eu", &[]));
        inventory
    }

    #[test]
    fn an_inventory_round_trips_through_its_annotation() {
        let text = inventory().text(ID).unwrap().unwrap();
        assert_eq!(
            text,
            r#"{"version":1,"clusters":[{"reference":"secret/shop/eu/kubeconfig","name":"shop/eu","uid":"uid-of-eu","namespaces":"a"},{"reference":"secret/shop/us/kubeconfig","name":"shop/us","uid":"https://us:6443","unverified":true,"kinds":"ConfigMap,Deployment.apps","namespaces":"a"}],"hash":"sha256:gUN_YyQ4UPenvF92MQM4JxSQxYZWgiuEABoj-4guzxs"}"#
        );
        assert_eq!(ClusterInventory::parse(ID, &text), Ok(inventory()));
        assert_eq!(ClusterInventory::default().text(ID), Ok(None));
    }

    #[test]
    fn a_modified_annotation_is_rejected() {
        let text = inventory().text(ID).unwrap().unwrap();
        let parse = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            ClusterInventory::parse(ID, &text.replace(from, to)).unwrap_err()
        };
        assert_eq!(parse("uid-of-eu", "uid-of-us"), InventoryError::Hash);
        assert_eq!(parse("ConfigMap,", ""), InventoryError::Hash);
        assert_eq!(parse("\"version\":1", "\"version\":2"), InventoryError::Version(2));
        assert_eq!(parse("ConfigMap,", "Config Map,"), InventoryError::GroupKind("Config Map".to_owned()));
        assert_eq!(parse("\"a\"", "\"A\""), InventoryError::Namespace("A".to_owned()));
        for (from, to) in [
            ("\"uid\":\"uid-of-eu\",", ""),
            ("\"uid-of-eu\"", "\"\""),
            ("\"version\"", "\"more\":1,\"version\""),
        ] {
            assert!(matches!(parse(from, to), InventoryError::Clusters(_)), "{to}");
        }
        assert_eq!(ClusterInventory::parse("other", &text), Err(InventoryError::Hash));
        assert!(matches!(ClusterInventory::parse(ID, ""), Err(InventoryError::Clusters(_))));
    }

    #[test]
    fn an_inventory_grows_and_shrinks_within_its_size_limit() {
        let mut grown = inventory();
        grown.add(cluster("eu", "uid-of-eu", &["Secret"]));
        assert_eq!(grown.clusters().len(), 2);
        assert_eq!(grown.by_reference("secret/shop/eu/kubeconfig").unwrap().contents.group_kinds.len(), 1);
        grown.retain(|cluster| cluster.uid == "uid-of-eu");
        assert_eq!(grown.clusters().len(), 1);
        for at in 0..2_000 {
            grown.add(cluster(&format!("cluster-{at}"), "uid", &["ConfigMap"]));
        }
        assert!(matches!(grown.text(ID), Err(InventoryError::TooLarge { .. })));
        let long = " ".repeat(MAX_LENGTH + 1);
        assert!(matches!(ClusterInventory::parse(ID, &long), Err(InventoryError::TooLarge { .. })));
    }
}
