//! Keeps `docs/formats.md` complete: it describes every annotation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;

#[test]
fn every_annotation_is_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (page, code) = (read("docs/formats.md"), read("crates/kross-api/src/vocabulary/annotations.rs"));
    let keys: Vec<&str> = code
        .lines()
        .filter(|line| line.starts_with("pub const ") && line.contains(": &str ="))
        .filter_map(|line| line.split('"').nth(1))
        .collect();
    assert!(keys.len() > 10, "{keys:?}");
    let missing: Vec<_> = keys.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/formats.md does not describe {missing:?}");
}
