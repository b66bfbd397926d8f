//! Holds the checker to lists of expressions over realistic objects: those that are accepted, with their type, and
//! those that are refused, with the code of the one mistake. What cel-go also knows was compared with cel-go.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "types/provider.rs"]
mod provider;

use std::collections::BTreeSet;

use kross_cel::check::is_assignable;
use kross_cel::types::Type;

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
fn ill_typed_expressions_are_refused_with_one_mistake() {
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
fn every_mistake_says_what_was_expected_and_what_was_found() {
    let env = provider::environment();
    for (_, text) in lines(include_str!("types/reject.txt")) {
        for issue in env.compile(text).unwrap_err() {
            let message = &issue.message;
            assert!(message.starts_with("expected "), "{text}: {message}");
            assert!(message.contains(", found "), "{text}: {message}");
            assert!(!message.ends_with('.'), "{text}: {message}");
            assert!(!message.contains("?0") && !message.contains("!error!"), "{text}: {message}");
            assert!(text.get(issue.span.range()).is_some(), "{text}: {:?}", issue.span);
        }
    }
}

#[test]
fn every_correction_that_is_offered_mends_the_mistake() {
    let env = provider::environment();
    let mut count = 0;
    for (_, text) in lines(include_str!("types/reject.txt")) {
        for issue in env.compile(text).unwrap_err() {
            let Some(replacement) = &issue.replacement else { continue };
            count += 1;
            let mut mended = text.to_owned();
            mended.replace_range(issue.span.range(), replacement);
            let left = env.compile(mended.as_str()).err().unwrap_or_default();
            assert!(
                left.iter().all(|other| other.code != issue.code),
                "{text}\nbecomes {mended}\nwhich has {left:?}"
            );
        }
    }
    assert!(count > 50, "only {count} corrections");
}

#[test]
fn the_list_has_every_code_of_the_checker() {
    let listed: BTreeSet<&str> = lines(include_str!("types/reject.txt")).map(|(code, _)| code).collect();
    for code in kross_diagnostics::Code::ALL {
        let id = code.id();
        if id.starts_with("K06") {
            assert!(listed.contains(id), "no expression in reject.txt has the mistake {id}");
        }
    }
}

#[test]
fn several_mistakes_are_reported_together_and_in_order() {
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
fn types_that_double_with_every_variable_are_refused_in_time() {
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

#[test]
fn assignability_is_that_of_cel_go() {
    assert!(is_assignable(&Type::Dyn, &Type::Int));
    assert!(is_assignable(&Type::Int, &Type::Dyn));
    assert!(is_assignable(&Type::Null, &Type::Timestamp));
    assert!(!is_assignable(&Type::Null, &Type::Int));
    assert!(is_assignable(&Type::Null, &Type::nullable(Type::Int)));
    assert!(is_assignable(&Type::nullable(Type::Int), &Type::Int));
    assert!(!is_assignable(&Type::nullable(Type::Int), &Type::String));
    assert!(is_assignable(&Type::map(Type::String, Type::Dyn), &Type::map(Type::String, Type::Int)));
    assert!(!is_assignable(&Type::Int, &Type::UInt));
    assert!(!is_assignable(&Type::optional(Type::Int), &Type::Int));
}
