//! The inventory of an instance's objects in remote clusters: which kinds in which namespaces of which cluster, and the
//! reference that resolved to it. It is stored in one annotation and parsed strictly, so that deletion depends neither
//! on the graph nor on the controller's memory.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::applyset::{Inventory, InventoryError, digest};
use super::compact_inventory::{self, Compact, read_contents};

/// The version of the format.
const VERSION: u64 = 1;
/// Length from which the annotation is written in the compact form. Shorter ones stay as earlier versions wrote them.
const COMPACT_LENGTH: usize = 16 << 10;
/// Maximum length of the annotation. Kubernetes limits all annotations of an object to 256 KiB.
const MAX_LENGTH: usize = 160 << 10;

/// The inventory of an instance's objects in remote clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterInventory {
    /// The clusters by reference and UID, sorted.
    clusters: Vec<RecordedCluster>,
    /// Whether there may be objects in clusters that it does not have: its annotation was removed and could not be restored.
    incomplete: bool,
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
    pub contents: Arc<Inventory>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    version: u64,
    clusters: Vec<WireCluster>,
    #[serde(default, skip_serializing_if = "is_false")]
    incomplete: bool,
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
pub(super) fn is_false(value: &bool) -> bool {
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
        let (clusters, incomplete) = match Stored::read(text)? {
            Stored::Plain(wire) => wire.clusters(id)?,
            Stored::Compact(compact) => compact.clusters(id)?,
        };
        let mut inventory = Self { clusters, incomplete };
        inventory.clusters.sort();
        let is_same = |pair: &[RecordedCluster]| matches!(pair, [a, b] if a.identity() == b.identity());
        if let Some([duplicate, _]) = inventory.clusters.windows(2).find(|pair| is_same(pair)) {
            let reference = &duplicate.reference;
            return Err(InventoryError::Clusters(format!("duplicate reference `{reference}`")));
        }
        Ok(inventory)
    }

    /// The references in an annotation, and whether the instance may have objects there, whether or not the annotation matches its
    /// hash; `None` if it cannot be read.
    #[must_use]
    pub fn references(text: &str) -> Option<Vec<(String, bool)>> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        match Stored::read(text).ok()? {
            Stored::Plain(wire) => {
                let reference = |cluster: WireCluster| (cluster.reference, !cluster.kinds.is_empty());
                Some(wire.clusters.into_iter().map(reference).collect())
            }
            Stored::Compact(compact) => {
                let reference =
                    |cluster: RecordedCluster| (cluster.reference, !cluster.contents.group_kinds.is_empty());
                Some(compact.read().ok()?.into_iter().map(reference).collect())
            }
        }
    }

    /// The value of the annotation; `None` if the inventory is empty.
    ///
    /// # Errors
    /// The annotation would be too long.
    pub fn text(&self, id: &str) -> Result<Option<String>, InventoryError> {
        if self.clusters.is_empty() && !self.incomplete {
            return Ok(None);
        }
        self.explicit_text(id).map(Some)
    }

    /// The value of the annotation, also of an empty inventory: one that is missing was removed by somebody.
    ///
    /// # Errors
    /// The annotation would be too long.
    pub fn explicit_text(&self, id: &str) -> Result<String, InventoryError> {
        let unwritable = |error: serde_json::Error| InventoryError::Clusters(error.to_string());
        let mut text = serde_json::to_string(&Wire::new(id, self)).map_err(unwritable)?;
        if text.len() > COMPACT_LENGTH {
            let compact = Compact::new(id, &self.clusters, self.incomplete)?;
            text = serde_json::to_string(&compact).map_err(unwritable)?;
        }
        if text.len() > MAX_LENGTH {
            return Err(InventoryError::TooLarge { size: text.len(), limit: MAX_LENGTH });
        }
        Ok(text)
    }

    /// Whether there may be objects in clusters that it does not have.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// Sets whether there may be objects in clusters that it does not have.
    pub fn set_incomplete(&mut self, incomplete: bool) {
        self.incomplete = incomplete;
    }

    /// The clusters.
    #[must_use]
    pub fn clusters(&self) -> &[RecordedCluster] {
        &self.clusters
    }

    /// The cluster with this reference and UID.
    #[must_use]
    pub fn find(&self, reference: &str, uid: &str) -> Option<&RecordedCluster> {
        self.position(reference, uid).ok().and_then(|at| self.clusters.get(at))
    }

    /// Where the cluster with this reference and UID is, or would be.
    fn position(&self, reference: &str, uid: &str) -> Result<usize, usize> {
        self.clusters.binary_search_by(|cluster| cluster.identity().cmp(&(reference, uid)))
    }

    /// The cluster that a reference resolved to; if there are several, the one with the most kinds.
    #[must_use]
    pub fn by_reference(&self, reference: &str) -> Option<&RecordedCluster> {
        let first = self.clusters.partition_point(|cluster| cluster.reference.as_str() < reference);
        let matching = self.clusters.iter().skip(first).take_while(|cluster| cluster.reference == reference);
        matching.max_by_key(|cluster| cluster.contents.group_kinds.len())
    }

    /// Adds objects that are, or are about to be, in a cluster.
    pub fn add(&mut self, cluster: RecordedCluster) {
        match self.position(&cluster.reference, &cluster.uid) {
            Ok(at) => {
                let Some(known) = self.clusters.get_mut(at) else { return };
                // Many clusters may have the same contents.
                if !known.contents.contains(&cluster.contents) {
                    Arc::make_mut(&mut known.contents).extend(&cluster.contents);
                }
                known.name = cluster.name;
                known.unverified = cluster.unverified;
            }
            Err(at) => self.clusters.insert(at, cluster),
        }
    }

    /// Keeps the clusters for which `keep` returns true. `keep` may change their contents.
    pub fn retain(&mut self, keep: impl FnMut(&mut RecordedCluster) -> bool) {
        self.clusters.retain_mut(keep);
        self.clusters.sort();
    }
}

impl Wire {
    fn new(id: &str, inventory: &ClusterInventory) -> Self {
        let write = |cluster: &RecordedCluster| WireCluster {
            reference: cluster.reference.clone(),
            name: cluster.name.clone(),
            uid: cluster.uid.clone(),
            unverified: cluster.unverified,
            kinds: cluster.contents.kinds_text(),
            namespaces: cluster.contents.namespaces_text(),
        };
        let clusters: Vec<WireCluster> = inventory.clusters.iter().map(write).collect();
        let hash = hash(id, &clusters, inventory.incomplete);
        Self { version: VERSION, clusters, incomplete: inventory.incomplete, hash }
    }

    /// The clusters, and whether there may be others.
    fn clusters(self, id: &str) -> Result<(Vec<RecordedCluster>, bool), InventoryError> {
        let read = self.clusters.into_iter().map(RecordedCluster::from_wire);
        let mut read = read.collect::<Result<Vec<_>, _>>()?;
        read.sort();
        let inventory = ClusterInventory { clusters: read, incomplete: self.incomplete };
        if Self::new(id, &inventory).hash != self.hash {
            return Err(InventoryError::Hash);
        }
        Ok((inventory.clusters, inventory.incomplete))
    }
}

fn hash(id: &str, clusters: &[WireCluster], incomplete: bool) -> String {
    let mut clusters = serde_json::to_string(clusters).unwrap_or_default();
    if incomplete {
        clusters.push_str("incomplete");
    }
    format!("sha256:{}", digest(&[id, &clusters].join("\0")))
}

/// An annotation as it is stored.
enum Stored {
    Plain(Wire),
    Compact(Compact),
}

impl Stored {
    fn read(text: &str) -> Result<Self, InventoryError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: Option<u64>,
        }
        let malformed = |error: serde_json::Error| InventoryError::Clusters(error.to_string());
        let Versioned { version } = serde_json::from_str(text).map_err(malformed)?;
        match version {
            Some(compact_inventory::VERSION) => {
                serde_json::from_str(text).map(Self::Compact).map_err(malformed)
            }
            Some(version) if version != VERSION => Err(InventoryError::Version(version)),
            _ => serde_json::from_str(text).map(Self::Plain).map_err(malformed),
        }
    }
}

impl RecordedCluster {
    /// What no other cluster of an inventory has.
    fn identity(&self) -> (&str, &str) {
        (&self.reference, &self.uid)
    }

    fn from_wire(wire: WireCluster) -> Result<Self, InventoryError> {
        let WireCluster { reference, name, uid, unverified, kinds, namespaces } = wire;
        if reference.is_empty() || uid.is_empty() {
            return Err(InventoryError::Clusters("a cluster has no reference or UID".to_owned()));
        }
        let contents = read_contents(&kinds, &namespaces)?.into();
        Ok(Self { reference, uid, unverified, name, contents })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::applyset::GroupKind;
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
            }
            .into(),
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
        let empty = ClusterInventory::default().explicit_text(ID).unwrap();
        assert_eq!(ClusterInventory::parse(ID, &empty), Ok(ClusterInventory::default()));
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
        assert_eq!(parse("\"version\":1", "\"version\":3"), InventoryError::Version(3));
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
        for at in 0..20_000 {
            grown.add(cluster(&format!("cluster-{at}"), "uid", &["ConfigMap"]));
        }
        assert_eq!(grown.text(ID), Err(InventoryError::Exceeded { what: "clusters", limit: 10_000 }));
        let mut grown = inventory();
        for at in 0..2_000 {
            grown.add(cluster(&digest(&at.to_string()).repeat(3), "uid", &[]));
        }
        assert!(matches!(grown.text(ID), Err(InventoryError::TooLarge { .. })));
        let long = " ".repeat(MAX_LENGTH + 1);
        assert!(matches!(ClusterInventory::parse(ID, &long), Err(InventoryError::TooLarge { .. })));
    }

    /// An inventory of many clusters with UIDs as Kubernetes has them.
    fn large(count: u32) -> ClusterInventory {
        let mut inventory = ClusterInventory::default();
        for at in 0..count {
            let (high, low) = (at.wrapping_mul(2_654_435_761), at.wrapping_mul(40_503));
            let uid = format!("{high:08x}-8a42-4c85-a7a6-{low:012x}");
            let mut entry =
                cluster(&format!("edge-{at:05}-kubeconfig"), &uid, &["ConfigMap", "Deployment.apps"]);
            if at % 100 == 0 {
                entry.name = format!("edge {at} ({})", entry.name);
                Arc::make_mut(&mut entry.contents).namespaces.insert("b".to_owned());
            }
            inventory.add(entry);
        }
        inventory.add(cluster("url", "https://us:6443", &["Secret"]));
        inventory.add(cluster("ünïcode", "not-a-uuid", &[]));
        inventory
    }

    #[test]
    fn thousands_of_clusters_fit_into_the_annotation() {
        let inventory = large(2_000);
        let text = inventory.text(ID).unwrap().unwrap();
        assert!(text.starts_with("{\"version\":2,"), "{}", text.get(..100).unwrap());
        assert!(text.len() < 96 << 10, "{} bytes", text.len());
        assert_eq!(ClusterInventory::parse(ID, &text), Ok(inventory));
        assert_eq!(ClusterInventory::references(&text).unwrap().len(), 2_002);
        assert_eq!(ClusterInventory::parse("other", &text), Err(InventoryError::Hash));
        for (from, to) in
            [("\"edge", "\"edgy"), ("ConfigMap,", ""), ("\"incomplete\":false", "\"incomplete\":true")]
        {
            let changed = text.replacen(from, to, 1);
            assert!(changed == text || ClusterInventory::parse(ID, &changed).is_err(), "{from}");
        }
        for (from, to) in
            [("[0,0,", "[1,0,"), ("[0,0,", "[0,99,"), (",1]", ",99]"), ("\"contents\"", "\"content\"")]
        {
            assert!(text.contains(from), "{from}");
            let error = ClusterInventory::parse(ID, &text.replacen(from, to, 1)).unwrap_err();
            assert!(matches!(error, InventoryError::Clusters(_) | InventoryError::Hash), "{error}");
        }
    }

    #[test]
    fn thousands_of_clusters_with_namespaces_and_many_kinds_of_their_own_fit_into_the_annotation() {
        let mut inventory = large(2_000);
        let kinds =
            ["ConfigMap", "Deployment.apps", "HorizontalPodAutoscaler.autoscaling", "Service", "Secret"];
        inventory.retain(|cluster| {
            let own = cluster.reference.replace(['/', 'ü', 'ï'], "-");
            let contents = Arc::make_mut(&mut cluster.contents);
            contents.namespaces = BTreeSet::from([own]);
            contents.group_kinds = kinds.iter().map(|kind| GroupKind::parse(kind).unwrap()).collect();
            true
        });
        let text = inventory.text(ID).unwrap().unwrap();
        assert!(text.len() < 128 << 10, "{} bytes", text.len());
        assert_eq!(ClusterInventory::parse(ID, &text), Ok(inventory));
        for (from, to) in [
            ("[[\"", "[[0,0,0,\""),
            ("],[0,", "],[9999,"),
            ("\"contents\":[", "\"contents\":[[0,0,0,\"a\"],"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = ClusterInventory::parse(ID, &text.replacen(from, to, 1)).unwrap_err();
            assert!(matches!(error, InventoryError::Clusters(_) | InventoryError::Hash), "{error}");
        }
    }

    #[test]
    fn contents_that_an_earlier_version_wrote_are_read() {
        let text = inventory().text(ID).unwrap().unwrap();
        assert!(text.starts_with("{\"version\":1,"));
        // Kinds and namespaces together, also where other contents have the same kinds.
        let contents = r#"[["ConfigMap","a"],["ConfigMap","b"]]"#;
        let clusters = r#"[[0,0,"secret/shop/eu/kubeconfig","=eu",0],[12,11,"us","=us",1]]"#;
        let hash = digest(&[ID, &format!("[{contents},{clusters},false]")].join("\0"));
        let text =
            format!(r#"{{"version":2,"contents":{contents},"clusters":{clusters},"hash":"sha256:{hash}"}}"#);
        let read = ClusterInventory::parse(ID, &text).unwrap();
        let namespaces = |at: usize| read.clusters().get(at).unwrap().contents.namespaces.clone();
        assert_eq!((namespaces(0), namespaces(1)), (["a".to_owned()].into(), ["b".to_owned()].into()));
    }

    /// An annotation in the compact form as whoever may edit the instance can write it.
    fn forged(contents: &str, clusters: &str) -> String {
        let hash = digest(&[ID, &format!("[{contents},{clusters},false]")].join("\0"));
        format!(r#"{{"version":2,"contents":{contents},"clusters":{clusters},"hash":"sha256:{hash}"}}"#)
    }

    fn refused(text: &str) -> String {
        assert!(text.len() <= MAX_LENGTH, "{} bytes", text.len());
        assert_eq!(ClusterInventory::references(text), None);
        ClusterInventory::parse(ID, text).unwrap_err().to_string()
    }

    #[test]
    fn references_that_double_are_refused() {
        let doubled = (0..64).map(|at| format!(r#"[{0},{0},"","=u",0]"#, 1_u64 << at));
        let clusters: Vec<String> =
            std::iter::once(r#"[0,0,"a","=u",0]"#.to_owned()).chain(doubled).collect();
        let message = refused(&forged(r#"[["",""]]"#, &format!("[{}]", clusters.join(","))));
        assert!(message.ends_with("a cluster cannot be read"), "{message}");
        for (start, end) in [(1, 1), (0, 2), (2, 0), (usize::MAX, 1), (1, usize::MAX)] {
            let clusters = format!(r#"[[0,0,"a","=u",0],[{start},{end},"x","=u",0]]"#);
            refused(&forged(r#"[["",""]]"#, &clusters));
        }
        let clusters = r#"[[0,0,"ab","=u",0],[1,1,"","=v",0]]"#;
        assert!(ClusterInventory::parse(ID, &forged(r#"[["",""]]"#, clusters)).is_ok(), "no overlap");
    }

    #[test]
    fn contents_that_double_are_refused() {
        let doubled = (0..64).map(|at| format!(r#"[0,{0},{0},""]"#, 1_u64 << at));
        let contents: Vec<String> = std::iter::once(r#"["","a"]"#.to_owned()).chain(doubled).collect();
        let message = refused(&forged(&format!("[{}]", contents.join(",")), "[]"));
        assert!(message.ends_with("a cluster cannot be read"), "{message}");
    }

    #[test]
    fn an_annotation_that_expands_beyond_a_limit_is_refused() {
        let repeated = |first: String, next: &str, count: usize| {
            let entries: Vec<String> =
                std::iter::once(first).chain(std::iter::repeat_n(next.to_owned(), count)).collect();
            format!("[{}]", entries.join(","))
        };
        let plain = r#"[["",""]]"#;
        let long = "a".repeat(5 << 10);
        let kinds: Vec<String> = (0..1_000).map(|at| format!("K{at}{}", "k".repeat(80))).collect();
        let many = format!(r#"[["{}",""]]"#, kinds.join(","));
        let short: Vec<String> = (0..100).map(|at| format!("K{at}")).collect();
        let few = format!(r#"[["{}",""]]"#, short.join(","));
        for (contents, clusters, expected) in [
            (
                plain,
                repeated(format!(r#"[0,0,"{long}","=u",0]"#), r#"[0,0,"a","=u",0]"#, 1),
                "4096 bytes in a reference",
            ),
            (
                plain,
                repeated(format!(r#"[0,0,"{}","=u",0]"#, "a".repeat(4_000)), r#"[4000,0,"","=u",0]"#, 2_000),
                "4194304 bytes once",
            ),
            (
                many.as_str(),
                repeated(r#"[0,0,"a","=u",0]"#.to_owned(), r#"[0,0,"b","=u",0]"#, 200),
                "4194304 bytes once",
            ),
            (
                few.as_str(),
                repeated(r#"[0,0,"a","=u",0]"#.to_owned(), r#"[0,0,"b","=u",0]"#, 2_000),
                "100000 kinds and namespaces",
            ),
        ] {
            let message = refused(&forged(contents, &clusters));
            assert!(message.contains(expected), "{message}");
        }
        let contents = repeated(format!(r#"["{}",""]"#, kinds.join(",")), r#"[0,0,0,""]"#, 5_000);
        let message = refused(&forged(&contents, "[]"));
        assert!(message.contains("4194304 bytes once"), "{message}");
        let clusters = repeated(r#"[0,0,"","",0]"#.to_owned(), r#"[0,0,"","",0]"#, 10_000);
        let message = refused(&forged(plain, &clusters));
        assert!(message.contains("10000 clusters"), "{message}");
    }

    #[test]
    fn an_inventory_that_could_not_be_read_again_is_not_written() {
        let kinds: Vec<String> = (0..60).map(|at| format!("Kind{at}.example.com")).collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let mut inventory = ClusterInventory::default();
        for at in 0..2_000 {
            inventory.add(cluster(&format!("eu-{at}"), "uid", &kinds));
        }
        let error = inventory.text(ID).unwrap_err();
        assert_eq!(
            error,
            InventoryError::Exceeded { what: "kinds and namespaces in all clusters", limit: 100_000 }
        );
        inventory.retain(|cluster| !cluster.reference.contains("eu-1"));
        let text = inventory.text(ID).unwrap().unwrap();
        let read = ClusterInventory::parse(ID, &text).unwrap();
        assert_eq!(read, inventory);
        let [first, second, ..] = read.clusters() else { panic!("no clusters") };
        assert!(Arc::ptr_eq(&first.contents, &second.contents), "contents are shared");
    }

    #[test]
    fn an_inventory_that_may_lack_clusters_says_so() {
        for mut inventory in [ClusterInventory::default(), inventory(), large(500)] {
            inventory.set_incomplete(true);
            let text = inventory.text(ID).unwrap().unwrap();
            assert_eq!(ClusterInventory::parse(ID, &text), Ok(inventory));
            let hidden = text.replace("\"incomplete\":true,", "");
            assert_eq!(ClusterInventory::parse(ID, &hidden), Err(InventoryError::Hash));
        }
    }
}
