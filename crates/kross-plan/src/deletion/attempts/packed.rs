//! The text of [`Moments`]. The UIDs of long lists are packed, and a text that is too long for an annotation loses the times of its
//! latest attempts: an object without one counts as never attempted, so nothing is orphaned too early.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kross_api::{pack_uid, unpack_uids};

use super::Moments;

/// How many entries a list has before its UIDs are packed. Shorter ones stay as earlier versions wrote them.
const PLAIN: usize = 32;
/// The longest text. Kubernetes limits all annotations of an object to 256 KiB, of which the inventory may need most.
const MAX_LENGTH: usize = 64 << 10;
/// The length of a packed UID.
const PACKED: usize = 22;
/// The length of the hash of an item of a collection.
const HASH: usize = 16;
/// The same as [`MARK`] for a list of hashes.
const HASH_MARK: char = '=';
/// The first character of a list of packed UIDs, and the one between what stands before each of them and the UIDs.
const MARK: char = '~';

/// The text; none for one that cannot be written.
pub(super) fn write(mut moments: Moments) -> Option<String> {
    loop {
        let lists: BTreeMap<&String, Vec<String>> =
            moments.iter().map(|(key, entries)| (key, packed(entries))).collect();
        let text = serde_json::to_string(&lists).ok()?;
        // The times are sorted. Everything else has a key that comes after them and must not be lost.
        let latest = moments.keys().rfind(|key| key.parse::<Timestamp>().is_ok()).cloned();
        let Some(latest) = latest.filter(|_| text.len() > MAX_LENGTH) else { return Some(text) };
        let Some(entries) = moments.get_mut(&latest) else { return Some(text) };
        let excess = text.len() - MAX_LENGTH;
        entries.truncate(entries.len().saturating_sub(excess.div_ceil(PACKED).max(1)));
        if entries.is_empty() {
            moments.remove(&latest);
        }
    }
}

/// The lists of a text; empty for one that cannot be read.
pub(super) fn read(text: &str) -> Moments {
    let mut moments: Moments = serde_json::from_str(text).unwrap_or_default();
    for entries in moments.values_mut() {
        if entries.iter().any(|entry| entry.starts_with([MARK, HASH_MARK])) {
            *entries = entries.iter().flat_map(|entry| unpacked(entry)).collect();
        }
    }
    moments
}

/// A list, with its UIDs and hashes packed if it is long: `~<prefix>~<UIDs>` stands for the prefix before each of the UIDs,
/// `=<prefix>=<hashes>` for the prefix before each of the hashes.
fn packed(entries: &[String]) -> Vec<String> {
    if entries.len() <= PLAIN {
        return entries.to_vec();
    }
    let mut by_prefix: BTreeMap<(char, &str), String> = BTreeMap::new();
    let mut others = Vec::new();
    for entry in entries {
        let start = entry.rfind('/').map_or(0, |at| at + 1);
        let (prefix, uid) = entry.split_at(start);
        match pack_uid(uid) {
            _ if prefix.contains([MARK, HASH_MARK]) => others.push(entry.clone()),
            Some(uid) => by_prefix.entry((MARK, prefix)).or_default().push_str(&uid),
            None if is_hash(uid) => by_prefix.entry((HASH_MARK, prefix)).or_default().push_str(uid),
            None => others.push(entry.clone()),
        }
    }
    others.extend(
        by_prefix.into_iter().map(|((mark, prefix), packed)| format!("{mark}{prefix}{mark}{packed}")),
    );
    others
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn unpacked(entry: &str) -> Vec<String> {
    let parts = |mark: char| entry.strip_prefix(mark).and_then(|rest| rest.split_once(mark));
    let uids = parts(MARK).and_then(|(prefix, uids)| Some((prefix, unpack_uids(uids)?)));
    let hashes = || parts(HASH_MARK).and_then(|(prefix, hashes)| Some((prefix, unpack_hashes(hashes)?)));
    match uids.or_else(hashes) {
        Some((prefix, unpacked)) => unpacked.iter().map(|text| format!("{prefix}{text}")).collect(),
        None => vec![entry.to_owned()],
    }
}

fn unpack_hashes(hashes: &str) -> Option<Vec<String>> {
    let chunks = hashes.as_bytes().chunks(HASH).map(|chunk| String::from_utf8(chunk.to_vec()).ok());
    chunks.map(|chunk| chunk.filter(|hash| is_hash(hash))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uids(count: u32, prefix: &str) -> Vec<String> {
        (0..count).map(|at| format!("{prefix}{at:08x}-8a42-4c85-a7a6-1f1b93ac90a2")).collect()
    }

    #[test]
    fn short_lists_stay_as_they_are() {
        let moments = Moments::from([("2026-01-02T03:04:05Z".to_owned(), uids(2, ""))]);
        let text = write(moments.clone()).unwrap();
        assert_eq!(text, serde_json::to_string(&moments).unwrap());
        assert_eq!(read(&text), moments);
    }

    #[test]
    fn long_lists_are_packed() {
        let mut hooks = uids(2_000, "backup/");
        hooks.extend(["notice".to_owned(), "a/0123456789abcdef".to_owned()]);
        let moments = Moments::from([
            ("2026-01-02T03:04:05Z".to_owned(), uids(500, "")),
            ("hooksCompleted".to_owned(), hooks),
        ]);
        let text = write(moments.clone()).unwrap();
        assert!(text.len() < 56 << 10, "{} bytes", text.len());
        let sorted = |mut moments: Moments| {
            moments.values_mut().for_each(|entries| entries.sort());
            moments
        };
        assert_eq!(sorted(read(&text)), sorted(moments));
    }

    #[test]
    fn an_instance_with_two_thousand_objects_has_room_for_all_that_must_not_be_lost() {
        let hashes = |prefix: &str| (0..2_000_u64).map(|at| format!("{prefix}{at:016x}")).collect::<Vec<_>>();
        let id = "a-deletion-hook-with-the-longest-name-that-anybody-would-choose";
        // Each item of a collection of hooks is either about to be created, or created, or completed.
        let states = [
            ("hooksCreating", hashes(&format!("123456789012@{id}/"))),
            ("hooksCreated", hashes(&format!("{id}/"))),
            ("hooksCompleted", uids(4_000, &format!("{id}/"))),
        ];
        for (state, entries) in states {
            let moments = Moments::from([("left".to_owned(), uids(2_000, "")), (state.to_owned(), entries)]);
            let text = write(moments.clone()).unwrap();
            // The annotations of an object may have 256 KiB, of which the inventory of 2,000 clusters needs up to 120 KiB.
            assert!(text.len() < 136 << 10, "{state}: {} bytes", text.len());
            assert_eq!(read(&text), moments, "{state}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_loses_the_latest_times_and_nothing_else() {
        let moments = Moments::from([
            ("2026-01-02T03:04:05Z".to_owned(), uids(1_000, "")),
            ("2026-01-02T03:04:06Z".to_owned(), uids(9_000, "")),
            ("left".to_owned(), uids(1_000, "")),
        ]);
        let text = write(moments.clone()).unwrap();
        assert!(text.len() <= MAX_LENGTH, "{} bytes", text.len());
        let kept = read(&text);
        assert_eq!(kept["2026-01-02T03:04:05Z"].len(), 1_000);
        assert_eq!(kept["left"], moments["left"]);
        assert!(kept["2026-01-02T03:04:06Z"].len() > 900);
    }
}
