//! Keeps `docs/threat-model.md` correct: every attack has tests, every test that is named exists, and no attack is left out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "support/test_names.rs"]
mod test_names;

use std::fs;

use test_names::{root, test_names};

/// How many hostile kubeconfigs and servers are listed.
const LINES: usize = 70;

/// The cells of the rows of all tables whose last column names tests.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/threat-model.md")).unwrap();
    let (mut rows, mut tested) = (Vec::new(), false);
    for line in page.lines() {
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            tested &= line.starts_with("|---");
            continue;
        };
        if tested {
            rows.push(cells.split(" | ").map(str::to_owned).collect());
        }
        tested |= cells.ends_with("| tests");
    }
    rows
}

#[test]
fn every_attack_on_the_page_has_tests_that_exist() {
    let known = test_names();
    for row in rows() {
        let names: Vec<&str> = row.last().unwrap().split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test for {row:?}");
        for name in names {
            assert!(known.contains(name), "the test `{name}` does not exist, which is named for {row:?}");
        }
    }
}

#[test]
fn every_line_of_the_list_is_on_the_page_once() {
    let numbers: Vec<usize> = rows().iter().filter_map(|row| row[0].parse().ok()).collect();
    assert_eq!(numbers, (1..=LINES).collect::<Vec<_>>());
}
