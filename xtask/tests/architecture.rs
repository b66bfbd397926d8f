//! Keeps ARCHITECTURE.md true: every file that it names exists, and every walk through the code has at most fifteen steps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn text() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

#[test]
fn every_file_that_the_architecture_names_exists() {
    let text = text();
    let paths = text.split('`').filter(|word| word.starts_with("crates/") || word.starts_with("xtask/"));
    let missing: Vec<&str> = paths.filter(|path| !root().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn a_walk_through_the_code_has_at_most_fifteen_steps() {
    let text = text();
    let walks = text.split("\n## ").filter(|section| section.starts_with("From "));
    let steps: Vec<usize> = walks
        .map(|walk| {
            walk.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).count()
        })
        .collect();
    assert_eq!(steps.len(), 2);
    assert!(steps.iter().all(|steps| (5..=15).contains(steps)), "{steps:?}");
}
