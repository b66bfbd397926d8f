//! Keeps `docs/compatibility.md` correct: every test and scenario that it names exists.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "support/test_names.rs"]
mod test_names;

use std::collections::BTreeSet;
use std::fs;

use test_names::{root, test_names};

fn scenarios() -> BTreeSet<String> {
    let folder = root().join("crates/kross-controller/tests/kro_comparison/scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// The rows of all tables on the page: the behaviour, and the names of its tests.
fn rows() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let (behaviour, names) = cells.rsplit_once(" | ")?;
        let names = names.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (behaviour != "Behaviour").then(|| (behaviour.to_owned(), names))
    });
    rows.collect()
}

#[test]
fn every_behaviour_on_the_page_has_a_test() {
    let mut known = scenarios();
    known.extend(test_names());
    for (behaviour, names) in rows() {
        assert!(!names.is_empty(), "no test for: {behaviour}");
        for name in names {
            assert!(
                known.contains(&name),
                "the test `{name}` does not exist, which is named for: {behaviour}"
            );
        }
    }
}

#[test]
fn every_scenario_is_on_the_page() {
    let named: BTreeSet<String> = rows().into_iter().flat_map(|(_, names)| names).collect();
    let missing: Vec<String> = scenarios().difference(&named).cloned().collect();
    assert!(missing.is_empty(), "docs/compatibility.md does not name the scenarios {missing:?}");
}

#[test]
fn no_behaviour_is_listed_twice() {
    let mut seen = BTreeSet::new();
    for (behaviour, _) in rows() {
        assert!(seen.insert(behaviour.clone()), "listed twice: {behaviour}");
    }
}
