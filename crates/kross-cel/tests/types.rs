//! Runs the checker on lists of expressions over realistic objects: those that are accepted, with their type, and those
//! that are rejected, with the code of the only error. The expected results were compared with cel-go.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "types/provider.rs"]
mod provider;

use std::collections::BTreeSet;

fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(|line| line.split_once(" | ").unwrap_or_else(|| panic!("no ` | ` in {line}")))
}

#[test]
fn well_typed_expressions_are_accepted_with_their_type() {
    let env = provider::environment();
    let mut count = 0;
    let mut wrong = Vec::new();
    for (wanted, text) in lines(include_str!("types/accept.txt")) {
        count += 1;
        match env.compile(text) {
            Ok(checked) if checked.result().to_string() == wanted => {}
            Ok(checked) => wrong.push(format!("{text}: expected {wanted}, found {}", checked.result())),
            Err(issues) => wrong.push(format!("{text}: expected {wanted}, found {issues:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 300, "the list has only {count} expressions");
}

#[test]
fn ill_typed_expressions_are_rejected_with_one_error() {
    let env = provider::environment();
    let mut count = 0;
    let mut wrong = Vec::new();
    for (wanted, text) in lines(include_str!("types/reject.txt")) {
        count += 1;
        match env.compile(text) {
            Ok(checked) => wrong.push(format!("{text}: expected {wanted}, found {}", checked.result())),
            Err(issues) => {
                let codes: Vec<&str> = issues.iter().map(|issue| issue.code.id()).collect();
                if codes != [wanted] {
                    wrong.push(format!("{text}: expected {wanted}, found {issues:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 300, "the list has only {count} expressions");
}

#[test]
fn every_message_is_one_sentence_about_the_authors_text() {
    let env = provider::environment();
    for (_, text) in lines(include_str!("types/reject.txt")) {
        for issue in env.compile(text).unwrap_err() {
            let message = &issue.message;
            let first = message.chars().next();
            assert!(first.is_some_and(|first| first.is_lowercase() || first == '`'), "{text}: {message}");
            assert!(!message.ends_with('.'), "{text}: {message}");
            assert!(!message.contains("?0") && !message.contains("!error!"), "{text}: {message}");
            assert!(text.get(issue.span.range()).is_some(), "{text}: {:?}", issue.span);
        }
    }
}

#[test]
fn every_suggested_replacement_fixes_its_error() {
    let env = provider::environment();
    let mut count = 0;
    for (_, text) in lines(include_str!("types/reject.txt")) {
        for issue in env.compile(text).unwrap_err() {
            let Some(replacement) = &issue.replacement else { continue };
            count += 1;
            let mut fixed = text.to_owned();
            fixed.replace_range(issue.span.range(), replacement);
            let left = env.compile(fixed.as_str()).err().unwrap_or_default();
            assert!(
                left.iter().all(|other| other.code != issue.code),
                "{text}\nbecomes {fixed}\nwhich has {left:?}"
            );
        }
    }
    assert!(count > 50, "only {count} replacements");
}

#[test]
fn every_code_of_the_checker_is_in_the_list() {
    let listed: BTreeSet<&str> = lines(include_str!("types/reject.txt")).map(|(code, _)| code).collect();
    for code in kross_diagnostics::Code::ALL {
        let id = code.id();
        if id.starts_with("K06") {
            assert!(listed.contains(id), "no expression in reject.txt has the error {id}");
        }
    }
}

#[test]
fn several_errors_are_reported_together_and_in_order() {
    let env = provider::environment();
    let text = "schema.spec.replcias > 0 && regoin == 'eu' ? schema.spec.name + 1 : foo(index) + [1, 2";
    let issues = env.compile(text).unwrap_err();
    let found: Vec<(&str, &str)> =
        issues.iter().map(|issue| (issue.code.id(), &text[issue.span.range()])).collect();
    assert_eq!(
        found,
        [("K0603", "replcias"), ("K0601", "regoin"), ("K0604", "1"), ("K0602", "foo"), ("K0506", "[")]
    );
}

#[test]
fn types_that_double_with_every_variable_are_limited() {
    let env = provider::environment();
    let mut text = "true".to_owned();
    for level in (1..60).rev() {
        let before = level - 1;
        text = format!("cel.bind(m{level}, {{}}, m{level}[m{before}] == m{before} && {text})");
    }
    let text = format!("cel.bind(m0, {{}}, {text})");
    let started = std::time::Instant::now();
    let _ = env.compile(text.as_str());
    assert!(started.elapsed().as_secs() < 30);
    let mut text = "m59".to_owned();
    for level in (1..60).rev() {
        text = format!("cel.bind(m{level}, {{m{0}: m{0}}}, {text})", level - 1);
    }
    assert!(env.compile(format!("cel.bind(m0, 1, {text})")).is_ok());
    assert!(started.elapsed().as_secs() < 30);
}
