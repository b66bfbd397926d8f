//! The names of all tests of the workspace, for pages that name them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of all test functions of the workspace.
pub(crate) fn test_names() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for folder in ["crates", "xtask"] {
        tests(&root().join(folder), &mut known);
    }
    assert!(known.len() > 500, "{}", known.len());
    known
}

fn tests(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            tests(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&entry).unwrap();
            let mut marked = false;
            for line in text.lines().map(str::trim) {
                marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                if let Some(rest) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))
                    && std::mem::take(&mut marked)
                {
                    found.insert(rest.split('(').next().unwrap().to_owned());
                }
            }
        }
    }
}
