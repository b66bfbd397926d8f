//! Every diagnostic code occurs in a snapshot.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use kross_diagnostics::Code;

fn snapshots(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            snapshots(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "snap") {
            found.push(entry);
        }
    }
}

#[test]
fn every_code_occurs_in_a_snapshot() {
    let mut files = Vec::new();
    snapshots(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates"), &mut files);
    let shown: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let missing: Vec<&str> =
        Code::ALL.iter().map(|code| code.id()).filter(|id| !shown.contains(&format!("[{id}]"))).collect();
    assert!(missing.is_empty(), "no snapshot shows {missing:?}");
    assert!(Code::ALL.len() >= 60);
}
