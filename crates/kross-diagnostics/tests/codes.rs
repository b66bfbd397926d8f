//! Checks the table of codes and their explanations.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::path::Path;

use kross_diagnostics::Code;

const BLOCKS: std::ops::RangeInclusive<u32> = 1..=12;

#[test]
fn identifiers_are_well_formed_sorted_and_unique() {
    for code in Code::ALL {
        let id = code.id();
        let digits = id.strip_prefix('K').unwrap_or_else(|| panic!("{id} does not start with K"));
        assert_eq!(digits.len(), 4, "{id} is not K and four digits");
        let block = digits[..2].parse().unwrap_or_else(|_| panic!("{id} is not K and four digits"));
        assert!(BLOCKS.contains(&block), "{id} is in no block of src/code.rs");
        assert!(
            digits[2..].parse::<u32>().is_ok_and(|number| number > 0),
            "{id} has no number from 01 to 99"
        );
    }
    for pair in Code::ALL.windows(2) {
        assert!(pair[0].id() < pair[1].id(), "{} comes before {}", pair[0].id(), pair[1].id());
    }
}

#[test]
fn a_code_is_found_by_its_identifier_ignoring_case() {
    for code in Code::ALL {
        assert_eq!(Code::find(code.id()), Some(*code));
        assert_eq!(Code::find(&format!(" {} ", code.id().to_lowercase())), Some(*code));
    }
    assert_eq!(Code::find("K9999"), None);
}

#[test]
fn every_code_has_a_title_and_an_explanation_with_an_example() {
    for code in Code::ALL {
        let id = code.id();
        let text = code.explanation();
        assert!(text.starts_with("# "), "{id}.md does not start with a title");
        assert!((5..=80).contains(&code.title().chars().count()), "{id}.md: title of 5 to 80 characters");
        assert!(!code.title().ends_with('.'), "{id}.md: the title ends with a period");
        assert_eq!(text.lines().nth(1), Some(""), "{id}.md: no empty line after the title");
        let fences = text.lines().filter(|line| line.starts_with("```")).count();
        assert!(fences >= 2 && fences % 2 == 0, "{id}.md: no closed example in a code block");
        let prose = text.lines().skip(2).take_while(|line| !line.starts_with("```")).collect::<String>();
        assert!(prose.trim().len() >= 40, "{id}.md: no explanation before the example");
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{id}.md: ends with one newline");
    }
}

#[test]
fn no_two_codes_share_a_title() {
    let mut titles = BTreeSet::new();
    for code in Code::ALL {
        assert!(titles.insert(code.title()), "{} repeats the title `{}`", code.id(), code.title());
    }
}

#[test]
fn every_explanation_belongs_to_a_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/codes");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let id = path.file_stem().unwrap().to_str().unwrap();
        assert!(Code::find(id).is_some(), "{id}.md explains no code");
    }
}
