//! Splits strings into literal text and expressions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use kross_cel::template::{Scan, ScannedPart, scan};
use kross_diagnostics::render::Format;
use kross_diagnostics::{Code, Diagnostic, Diagnostics, Sources, Span};
use proptest::prelude::*;

/// The parts as text: expressions in angle quotes.
fn shape(text: &str) -> String {
    let scan = scan(text);
    assert_eq!(scan.problems, [], "{text}");
    shown(text, &scan)
}

fn shown(text: &str, scan: &Scan) -> String {
    scan.parts
        .iter()
        .map(|part| match part {
            ScannedPart::Literal(range) => text[range.clone()].to_owned(),
            ScannedPart::Expression { inner, .. } => format!("«{}»", &text[inner.clone()]),
        })
        .collect::<Vec<_>>()
        .join("|")
}

fn problems(text: &str) -> Vec<(Code, &str)> {
    scan(text).problems.iter().map(|problem| (problem.code, &text[problem.range.clone()])).collect()
}

#[test]
fn text_without_expressions_is_one_literal() {
    for text in ["plain", "$", "$x {y}", "{}", "$ {a}", "}"] {
        assert_eq!(scan(text).parts, [ScannedPart::Literal(0..text.len())]);
        assert!(!scan(text).has_expressions());
    }
    assert_eq!(scan(""), Scan::default());
}

#[test]
fn a_string_of_one_expression_is_standalone() {
    assert!(scan("${schema.spec.replicas}").is_standalone());
    assert!(scan("${ {\"a\": 1} }").is_standalone());
    for text in ["${a}\n", " ${a}", "${a}${b}", "a${b}", "a", ""] {
        assert!(!scan(text).is_standalone(), "{text}");
    }
}

#[test]
fn expressions_within_text_are_found() {
    assert_eq!(shape("a-${b}-c"), "a-|«b»|-c");
    assert_eq!(shape("${a}${b}"), "«a»|«b»");
    assert_eq!(shape("$${a}}"), "$|«a»|}");
    assert_eq!(shape("größe ${ü.日本} €"), "größe |«ü.日本»| €");
    assert_eq!(shape("a: ${x}\nb: ${y}\n"), "a: |«x»|\nb: |«y»|\n");
}

#[test]
fn braces_of_maps_nest() {
    assert_eq!(shape("${ {'a': {'b': 1}} }!"), "« {'a': {'b': 1}} »|!");
    assert_eq!(shape("${a.map(x, {\"k\": x})}"), "«a.map(x, {\"k\": x})»");
}

#[test]
fn braces_in_string_literals_are_ignored() {
    for literal in [
        "'}'",
        "'{'",
        "\"}\"",
        "\"{\"",
        "'\"}'",
        "\"'}\"",
        r"'\'}'",
        r#""\"}""#,
        r"'\\'",
        r"r'\'",
        r"R'}\'",
        r#"r"\""#,
        "b'}'",
        "B\"}\"",
        r"br'}\'",
        r"bR'\'",
        "'''}'''",
        "'''a'}b'''",
        "'''a''}b'''",
        "\"\"\"}\n\"}\"\"\"",
        r"'''\'''}'''",
        r"r'''\'''",
        "''",
        "\"\"",
    ] {
        assert_eq!(shape(&format!("<${{{literal}}}>")), format!("<|«{literal}»|>"));
        assert_eq!(shape(&format!("<${{x + {literal} + y}}>")), format!("<|«x + {literal} + y»|>"));
    }
}

#[test]
fn a_name_that_ends_like_a_prefix_is_not_a_prefix() {
    // A raw string would end at the first quote here.
    assert_eq!(shape(r"${bar'\'}'}"), r"«bar'\'}'»");
    assert_eq!(shape(r"${rb'\'}'}"), r"«rb'\'}'»");
    assert_eq!(shape(r"${_r'\'}'}"), r"«_r'\'}'»");
    assert_eq!(shape("${r + b}"), "«r + b»");
}

#[test]
fn the_escape_idiom_is_an_expression_with_a_literal() {
    assert_eq!(shape("${\"${VAR}\"}"), "«\"${VAR}\"»");
    assert_eq!(shape("${'${VAR}'}"), "«'${VAR}'»");
    assert_eq!(shape("${\"${\"}"), "«\"${\"»");
    assert_eq!(shape("echo ${\"${HOME}\"}/${x}"), "echo |«\"${HOME}\"»|/|«x»");
}

#[test]
fn quotes_and_braces_in_comments_are_ignored() {
    assert_eq!(shape("${a // it's }\n+ b}"), "«a // it's }\n+ b»");
    assert_eq!(shape("${a // {\n}"), "«a // {\n»");
    assert_eq!(shape("${'http://x/}'}"), "«'http://x/}'»");
    assert_eq!(shape("${a / b}"), "«a / b»");
}

#[test]
fn a_brace_in_a_comment_on_the_last_line_closes_the_expression() {
    assert_eq!(shape("${a // why}"), "«a // why»");
    assert_eq!(shape("${a // it's} ${b}"), "«a // it's»| |«b»");
    assert_eq!(shape("${a // {x} y} rest"), "«a // {x} y»| rest");
    assert_eq!(shape("${a // why}\n${b}\n"), "«a // why»|\n|«b»|\n");
    assert_eq!(shape("${ {\n'a': 1 // one }\n} }"), "« {\n'a': 1 // one }\n} »");
}

#[test]
fn an_unclosed_expression_is_text_with_a_warning() {
    assert_eq!(problems("echo ${HOME"), [(Code::UnterminatedExpression, "${")]);
    assert_eq!(shown("echo ${HOME", &scan("echo ${HOME")), "echo ${HOME");
    assert_eq!(shown("${a} and ${b", &scan("${a} and ${b")), "«a»| and ${b");
    assert_eq!(problems("${a.map(x, {'b': x)}"), [(Code::UnterminatedExpression, "${")]);
    assert_eq!(scan("${").problems[0].range, 0..2);
}

#[test]
fn an_expression_that_is_not_closed_before_the_next_is_reported_and_the_next_is_found() {
    let text = "${a and ${b} and ${c}";
    assert_eq!(problems(text), [(Code::NestedExpression, "${")]);
    assert_eq!(shown(text, &scan(text)), "${a and |«b»| and |«c»");
}

#[test]
fn an_empty_expression_is_reported() {
    assert_eq!(problems("a${}b"), [(Code::EmptyExpression, "${}")]);
    assert_eq!(problems("${ \n\t}"), [(Code::EmptyExpression, "${ \n\t}")]);
    assert!(!scan("${}").has_expressions());
}

#[test]
fn an_expression_inside_an_expression_is_reported() {
    assert_eq!(problems("${a + ${b}}"), [(Code::NestedExpression, "${")]);
    assert_eq!(scan("${a + ${b}}").problems[0].range, 6..8);
    let text = "${a + ${b} + ${c}} ${d}";
    assert_eq!(problems(text), [(Code::NestedExpression, "${")]);
    assert_eq!(shown(text, &scan(text)), "${a + ${b} + ${c}} |«d»");
}

#[test]
fn an_unclosed_string_literal_is_reported_at_its_quote() {
    assert_eq!(problems("${'abc}"), [(Code::UnterminatedString, "'")]);
    assert_eq!(problems("${a + r\"abc}"), [(Code::UnterminatedString, "r\"")]);
    assert_eq!(problems("${'''abc'}\n"), [(Code::UnterminatedString, "'''")]);
    assert_eq!(problems("${'\\"), [(Code::UnterminatedString, "'")]);
    let text = "${\"abc}\n${b}\n";
    assert_eq!(problems(text), [(Code::UnterminatedString, "\"")]);
    assert_eq!(shown(text, &scan(text)), "${\"abc}\n|«b»|\n");
}

#[test]
fn several_errors_in_one_string_are_all_reported() {
    let codes: Vec<Code> = problems("${} ${a ${b}} ${'x\n${").into_iter().map(|(code, _)| code).collect();
    assert_eq!(
        codes,
        [
            Code::EmptyExpression,
            Code::NestedExpression,
            Code::UnterminatedString,
            Code::UnterminatedExpression
        ]
    );
}

#[test]
fn every_diagnostic_renders_as_in_the_snapshot() {
    let text = "name: ${schema.spec.name\nreplicas: ${}\nurl: ${a + ${b}}\ntitle: ${\"web}\nbody: ${'''x}\n";
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    let file = sources.add("template", text);
    let mut offset = 0;
    for line in text.lines() {
        found.extend(scan(line).problems.iter().map(|problem| {
            let at = |place: usize| u32::try_from(offset + place).unwrap();
            Diagnostic::new(problem.code, &*problem.message).help(&*problem.help).at(Span::new(
                file,
                at(problem.range.start),
                at(problem.range.end),
            ))
        }));
        offset += line.len() + 1;
    }
    insta::assert_snapshot!(Format::Plain.render(&found, &sources));
}

#[test]
fn hostile_text_takes_linear_time() {
    let begin = Instant::now();
    for unit in ["${", "${//}", "${//}\n\\\"\"\"", "${'", "${{", "${//}${\"\"\"", "${a//}\n'", "${\"${"] {
        let text = unit.repeat(1_000_000 / unit.len());
        let scan = scan(&text);
        assert!(scan.has_expressions() || !scan.problems.is_empty(), "{unit}");
    }
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

fn covers(text: &str, scan: &Scan) -> bool {
    let mut at = 0;
    let gapless = scan.parts.iter().all(|part| {
        let range = part.range();
        let fits = range.start == at && range.end > range.start;
        at = range.end;
        fits
    });
    gapless && at == text.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_cover_the_text(text in "([${}'\"/\\\\rb\n ae]|\\$\\{|\"\"\"|'''|é){0,40}|.{0,40}") {
        let scan = scan(&text);
        prop_assert!(covers(&text, &scan), "{scan:?}");
        let joined: String = scan.parts.iter().map(|part| &text[part.range()]).collect();
        prop_assert_eq!(&joined, &text);
        prop_assert!(!scan.parts.windows(2).any(|pair| matches!(pair, [ScannedPart::Literal(_), ScannedPart::Literal(_)])));
        for part in &scan.parts {
            if let ScannedPart::Expression { outer, inner } = part {
                prop_assert_eq!(format!("${{{}}}", &text[inner.clone()]), &text[outer.clone()]);
            }
        }
        for problem in &scan.problems {
            prop_assert!(text.get(problem.range.clone()).is_some_and(|text| !text.is_empty()));
        }
        let noticed = scan.has_expressions() || !scan.problems.is_empty();
        prop_assert_eq!(noticed, text.contains("${"));
    }
}
