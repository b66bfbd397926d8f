//! The compact form of an inventory of remote clusters: contents once, references and namespaces by what they do not share with the one before,
//! UIDs packed. Thousands of clusters fit into the annotation, at about 40 bytes each.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::applyset::{GroupKind, Inventory, InventoryError, digest, entries, namespace};
use super::cluster_inventory::{RecordedCluster, is_false};
use super::uids::{pack_uid, unpack_uid};

/// The version of the format.
pub(super) const VERSION: u64 = 2;

/// A UID that is not packed.
const PLAIN: char = '=';
/// A URL in place of a UID.
const URL: char = '~';

/// Maximum number of clusters.
const MAX_CLUSTERS: usize = 10_000;
/// Maximum length of a reference. Only that of a target by its labels can have more than 600 bytes.
const MAX_REFERENCE_LENGTH: usize = 4 << 10;
/// Maximum length of references, names, kinds and namespaces of all clusters.
const MAX_EXPANDED_LENGTH: usize = 4 << 20;
/// Maximum number of kinds and namespaces of all clusters.
const MAX_ENTRIES: usize = 100_000;

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compact {
    version: u64,
    contents: Vec<Contents>,
    clusters: Vec<Cluster>,
    #[serde(default, skip_serializing_if = "is_false")]
    incomplete: bool,
    hash: String,
}

/// Kinds and namespaces; or the index of the first contents with the same kinds, how many bytes the namespaces share with those of
/// the contents before at their start and at their end, and what is between them.
#[derive(Deserialize, Serialize)]
#[serde(untagged, deny_unknown_fields)]
enum Contents {
    Plain(String, String),
    Shared(usize, usize, usize, String),
}

/// How many bytes the reference shares with that of the cluster before at its start and at its end, what is between them, the UID,
/// the index of the contents, and the name if it does not follow from the reference.
#[derive(Deserialize, Serialize)]
#[serde(untagged, deny_unknown_fields)]
enum Cluster {
    Unnamed(usize, usize, String, String, usize),
    Named(usize, usize, String, String, usize, String),
}

impl Compact {
    /// # Errors
    /// The clusters exceed a limit: the annotation could not be read again.
    pub(super) fn new(
        id: &str,
        clusters: &[RecordedCluster],
        incomplete: bool,
    ) -> Result<Self, InventoryError> {
        check_count(clusters.len())?;
        let mut contents = WrittenContents::default();
        let mut expanded = Expanded::default();
        let mut before = "";
        let mut written = Vec::with_capacity(clusters.len());
        for cluster in clusters {
            let RecordedCluster { reference, uid, unverified, name, contents: owned } = cluster;
            let (kinds, namespaces) = (owned.kinds_text(), owned.namespaces_text());
            expanded.add_reference(reference)?;
            expanded.add_contents(kinds.len() + namespaces.len(), owned.len())?;
            let at = contents.add(kinds, namespaces);
            let uid = match pack_uid(uid).filter(|_| !unverified) {
                Some(packed) => packed,
                None => format!("{}{uid}", if *unverified { URL } else { PLAIN }),
            };
            let (start, end) = shared(before, reference);
            let middle = reference.get(start..reference.len() - end).unwrap_or_default().to_owned();
            written.push(if *name == name_of(reference) {
                Cluster::Unnamed(start, end, middle, uid, at)
            } else {
                Cluster::Named(start, end, middle, uid, at, name.clone())
            });
            before = reference;
        }
        let contents = contents.written;
        let mut compact =
            Self { version: VERSION, contents, clusters: written, incomplete, hash: String::new() };
        compact.hash = compact.digest(id);
        Ok(compact)
    }

    /// The clusters, and whether there may be others, if they match the hash.
    pub(super) fn clusters(&self, id: &str) -> Result<(Vec<RecordedCluster>, bool), InventoryError> {
        let clusters = self.read()?;
        if self.digest(id) != self.hash {
            return Err(InventoryError::Hash);
        }
        Ok((clusters, self.incomplete))
    }

    /// The clusters, whether or not they match the hash.
    pub(super) fn read(&self) -> Result<Vec<RecordedCluster>, InventoryError> {
        check_count(self.clusters.len())?;
        let contents = self.contents()?;
        let mut expanded = Expanded::default();
        let mut clusters: Vec<RecordedCluster> = Vec::with_capacity(self.clusters.len());
        for cluster in &self.clusters {
            let (start, end, middle, uid, at, name) = match cluster {
                Cluster::Unnamed(start, end, middle, uid, at) => (*start, *end, middle, uid, *at, None),
                Cluster::Named(start, end, middle, uid, at, name) => {
                    (*start, *end, middle, uid, *at, Some(name))
                }
            };
            let before = clusters.last().map_or("", |before| before.reference.as_str());
            let reference = joined(before, start, end, middle).ok_or_else(malformed)?;
            expanded.add_reference(&reference)?;
            let (uid, unverified) = match uid.strip_prefix(PLAIN) {
                Some(plain) => (plain.to_owned(), false),
                None => match uid.strip_prefix(URL) {
                    Some(url) => (url.to_owned(), true),
                    None => (unpack_uid(uid).ok_or_else(malformed)?, false),
                },
            };
            if reference.is_empty() || uid.is_empty() {
                return Err(malformed());
            }
            let name = name.cloned().unwrap_or_else(|| name_of(&reference));
            let (contents, length) = contents.get(at).ok_or_else(malformed)?;
            expanded.add_contents(*length, contents.len())?;
            let contents = Arc::clone(contents);
            clusters.push(RecordedCluster { reference, uid, unverified, name, contents });
        }
        Ok(clusters)
    }

    /// The contents, each with the length of its texts.
    fn contents(&self) -> Result<Vec<(Arc<Inventory>, usize)>, InventoryError> {
        let mut expanded = Expanded::default();
        let mut texts: Vec<(&str, String)> = Vec::with_capacity(self.contents.len());
        for contents in &self.contents {
            let (kinds, namespaces) = match contents {
                Contents::Plain(kinds, namespaces) => (kinds.as_str(), namespaces.clone()),
                Contents::Shared(at, start, end, middle) => {
                    let (kinds, _) = texts.get(*at).ok_or_else(malformed)?;
                    let before = texts.last().map_or("", |(_, before)| before.as_str());
                    (*kinds, joined(before, *start, *end, middle).ok_or_else(malformed)?)
                }
            };
            let entries = count(kinds) + count(&namespaces);
            expanded.add_contents(kinds.len() + namespaces.len(), entries)?;
            texts.push((kinds, namespaces));
        }
        let read = |(kinds, namespaces): &(&str, String)| {
            let contents = read_contents(kinds, namespaces)?;
            Ok((Arc::new(contents), kinds.len() + namespaces.len()))
        };
        texts.iter().map(read).collect()
    }

    fn digest(&self, id: &str) -> String {
        let payload =
            serde_json::to_string(&(&self.contents, &self.clusters, self.incomplete)).unwrap_or_default();
        format!("sha256:{}", digest(&[id, &payload].join("\0")))
    }
}

/// The contents of the clusters so far, each once.
#[derive(Default)]
struct WrittenContents {
    written: Vec<Contents>,
    /// Where contents are, by kinds and namespaces.
    indexes: HashMap<(String, String), usize>,
    /// Where the first contents with these kinds are.
    kinds: HashMap<String, usize>,
    /// The namespaces of the last one.
    before: String,
}

impl WrittenContents {
    /// Returns where these contents are.
    fn add(&mut self, kinds: String, namespaces: String) -> usize {
        let texts = (kinds, namespaces);
        if let Some(at) = self.indexes.get(&texts) {
            return *at;
        }
        let (kinds, namespaces) = texts.clone();
        let at = self.written.len();
        self.indexes.insert(texts, at);
        let (start, end) = shared(&self.before, &namespaces);
        self.written.push(match self.kinds.get(&kinds) {
            Some(first) => {
                let middle = namespaces.get(start..namespaces.len() - end).unwrap_or_default().to_owned();
                Contents::Shared(*first, start, end, middle)
            }
            None => {
                self.kinds.insert(kinds.clone(), at);
                Contents::Plain(kinds, namespaces.clone())
            }
        });
        self.before = namespaces;
        at
    }
}

/// What an annotation expands to. Whoever may edit an instance may write one, and the format repeats texts.
#[derive(Default)]
struct Expanded {
    /// The length of all texts.
    length: usize,
    /// The number of kinds and namespaces.
    entries: usize,
}

impl Expanded {
    fn add_reference(&mut self, reference: &str) -> Result<(), InventoryError> {
        if reference.len() > MAX_REFERENCE_LENGTH {
            return Err(exceeded("bytes in a reference", MAX_REFERENCE_LENGTH));
        }
        // The name may follow from the reference.
        self.add_contents(reference.len() * 2, 0)
    }

    fn add_contents(&mut self, length: usize, entries: usize) -> Result<(), InventoryError> {
        self.length = self.length.saturating_add(length);
        self.entries = self.entries.saturating_add(entries);
        if self.length > MAX_EXPANDED_LENGTH {
            return Err(exceeded("bytes once it is expanded", MAX_EXPANDED_LENGTH));
        }
        if self.entries > MAX_ENTRIES {
            return Err(exceeded("kinds and namespaces in all clusters", MAX_ENTRIES));
        }
        Ok(())
    }
}

fn check_count(clusters: usize) -> Result<(), InventoryError> {
    if clusters > MAX_CLUSTERS { Err(exceeded("clusters", MAX_CLUSTERS)) } else { Ok(()) }
}

fn exceeded(what: &'static str, limit: usize) -> InventoryError {
    InventoryError::Exceeded { what, limit }
}

/// The number of entries in a list of kinds or namespaces.
fn count(list: &str) -> usize {
    entries(Some(list)).count()
}

fn malformed() -> InventoryError {
    InventoryError::Clusters("a cluster cannot be read".to_owned())
}

/// A text from what it shares with the one before, see [`shared`]. The two shared parts do not overlap: otherwise each text could
/// be twice as long as the one before.
fn joined(before: &str, start: usize, end: usize, middle: &str) -> Option<String> {
    let tail_start = before.len().checked_sub(end).filter(|tail_start| start <= *tail_start)?;
    let (head, tail) = (before.get(..start)?, before.get(tail_start..)?);
    Some(format!("{head}{middle}{tail}"))
}

pub(super) fn read_contents(kinds: &str, namespaces: &str) -> Result<Inventory, InventoryError> {
    let kind =
        |entry: &str| GroupKind::parse(entry).ok_or_else(|| InventoryError::GroupKind(entry.to_owned()));
    Ok(Inventory {
        group_kinds: entries(Some(kinds)).map(kind).collect::<Result<_, _>>()?,
        namespaces: entries(Some(namespaces)).map(namespace).collect::<Result<_, _>>()?,
    })
}

/// How many bytes two texts share at their starts and at their ends, without an overlap.
fn shared(before: &str, text: &str) -> (usize, usize) {
    let start = before.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let start = text.floor_char_boundary(start).min(before.floor_char_boundary(start));
    let rest = before.len().min(text.len()) - start;
    let end = before.bytes().rev().zip(text.bytes().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut end = end;
    while !text.is_char_boundary(text.len() - end) || !before.is_char_boundary(before.len() - end) {
        end -= 1;
    }
    (start, end)
}

/// The name of a cluster in the short form of a reference: namespace and name of its Secret.
fn name_of(reference: &str) -> String {
    let secret = reference.strip_prefix("secret/").and_then(|rest| rest.rsplit_once('/'));
    secret.map_or_else(String::new, |(secret, _)| secret.to_owned())
}
