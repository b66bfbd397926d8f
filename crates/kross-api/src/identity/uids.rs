//! Packs UIDs: 22 characters each in place of 39 in a JSON list. The UIDs of Kubernetes are UUIDs.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The length of a packed UID.
const PACKED: usize = 22;

/// A UUID in 22 characters; none for any other text.
#[must_use]
pub fn pack_uid(uid: &str) -> Option<String> {
    let digits: String = uid.split('-').collect();
    let bytes = (digits.len() == 32).then(|| {
        let pairs = (0..16).map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok());
        pairs.collect::<Option<Vec<u8>>>()
    });
    let packed = URL_SAFE_NO_PAD.encode(bytes.flatten()?);
    // Upper-case letters and other groups are not restored.
    (unpack_uid(&packed).as_deref() == Some(uid)).then_some(packed)
}

/// The UUID that was packed; none for any other text.
#[must_use]
pub fn unpack_uid(packed: &str) -> Option<String> {
    if packed.len() != PACKED {
        return None;
    }
    let bytes: [u8; 16] = URL_SAFE_NO_PAD.decode(packed).ok()?.try_into().ok()?;
    let mut uid = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            uid.push('-');
        }
        uid.push_str(&format!("{byte:02x}"));
    }
    Some(uid)
}

/// The UUIDs that were packed one after the other; none for any other text.
#[must_use]
pub fn unpack_uids(packed: &str) -> Option<Vec<String>> {
    let ends = (0..packed.len()).step_by(PACKED);
    ends.map(|start| unpack_uid(packed.get(start..start + PACKED)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_packed_and_unpacked() {
        let uid = "1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2";
        let packed = pack_uid(uid).unwrap();
        assert_eq!(packed.len(), PACKED);
        assert_eq!(unpack_uid(&packed).as_deref(), Some(uid));
        assert_eq!(unpack_uids(&packed.repeat(3)).unwrap(), [uid; 3]);
        assert_eq!(unpack_uids("").unwrap(), [""; 0]);
    }

    #[test]
    fn other_texts_are_neither_packed_nor_unpacked() {
        for text in ["", "uid", "https://eu:6443", "1A7CD54C-8A42-4C85-A7A6-1F1B93AC90A2", &"0".repeat(32)] {
            assert_eq!(pack_uid(text), None, "{text}");
        }
        for text in ["x", &"=".repeat(22), &"é".repeat(11), &"A".repeat(23)] {
            assert_eq!(unpack_uid(text), None, "{text}");
            assert_eq!(unpack_uids(text), None, "{text}");
        }
    }
}
