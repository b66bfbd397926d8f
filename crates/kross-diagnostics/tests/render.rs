//! Snapshots of every output format, and property tests that no text or span breaks any of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_diagnostics::render::{self, Colour, Format};
use kross_diagnostics::{Code, Diagnostic, Diagnostics, Severity, SourceId, Sources, Span};
use proptest::prelude::*;

const RGD: &str = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: web
spec:
  schema:
    apiVersion: v1alpha1
    kind: webApplication
  resources:
    - id: größe  # 日本語
      template:
        metadata:
          name: ${schema.spec.nmae}
    - id: größe
      template: {}
";

fn find(sources: &Sources, id: SourceId, text: &str, nth: usize) -> Span {
    let (start, _) = sources.text(id).match_indices(text).nth(nth).unwrap();
    Span::new(id, start as u32, (start + text.len()) as u32)
}

fn diagnostics() -> (Diagnostics, Sources) {
    let mut sources = Sources::new();
    let rgd = sources.add("graphs/web, eu.yaml", RGD);
    let other = sources.add("crds/web.yaml", "spec:\n  names:\n    kind: WebApplication\n");
    let mut found = Diagnostics::new();
    let kind = find(&sources, rgd, "webApplication", 0);
    found.push(
        Diagnostic::new(Code::InvalidKind, "`webApplication` is not a valid kind")
            .labelled(kind, "starts with a lower-case letter")
            .also(find(&sources, other, "WebApplication", 0), "the existing kind")
            .path("spec.schema.kind")
            .fix("start the kind with a capital letter", kind, "WebApplication")
            .note("kinds become part of the API's name"),
    );
    found.push(
        Diagnostic::new(Code::InvalidKind, "two resources have the id `größe`")
            .at(find(&sources, rgd, "größe", 1))
            .also(find(&sources, rgd, "größe", 0), "first one here")
            .path("spec.resources[1].id")
            .help("rename one of them"),
    );
    let mut warning =
        Diagnostic::new(Code::InvalidKind, "100% of `\u{1b}[31mspec\u{1b}[0m` is unused:\nall of it")
            .path("spec.schema.spec[\"a,b\"]")
            .help("remove it\nor use it");
    warning.severity = Severity::Warning;
    found.push(warning);
    found.push(Diagnostic::new(Code::InvalidKind, "a diagnostic without a location"));
    (found, sources)
}

#[test]
fn terminal_without_colour() {
    let (found, sources) = diagnostics();
    insta::assert_snapshot!(Format::Plain.render(&found, &sources));
}

#[test]
fn terminal_with_colour() {
    let (found, sources) = diagnostics();
    insta::assert_snapshot!(Format::Coloured.render(&found, &sources).replace('\u{1b}', "ESC"));
}

#[test]
fn terminal_shows_a_span_of_several_lines() {
    let mut sources = Sources::new();
    let rgd = sources.add("web.yaml", RGD);
    let resource =
        find(&sources, rgd, "template:\n        metadata:\n          name: ${schema.spec.nmae}", 0);
    let mut found = Diagnostics::new();
    found.push(
        Diagnostic::new(Code::InvalidKind, "the template has no `kind`")
            .labelled(resource, "no `kind` in here"),
    );
    insta::assert_snapshot!(Format::Plain.render(&found, &sources));
}

#[test]
fn terminal_shows_the_end_of_the_file() {
    let mut sources = Sources::new();
    let file = sources.add("web.yaml", "a: [1,\n");
    let mut found = Diagnostics::new();
    found.push(
        Diagnostic::new(Code::InvalidKind, "the list is not closed")
            .labelled(Span::new(file, 7, 7), "the file ends here")
            .fix("close it", Span::new(file, 6, 6), "]"),
    );
    insta::assert_snapshot!(Format::Plain.render(&found, &sources));
}

#[test]
fn one_line_per_diagnostic() {
    let (found, sources) = diagnostics();
    insta::assert_snapshot!(Format::Lines.render(&found, &sources));
}

#[test]
fn json_array() {
    let (found, sources) = diagnostics();
    insta::assert_snapshot!(Format::Json.render(&found, &sources));
}

#[test]
fn json_object_per_line() {
    let (found, sources) = diagnostics();
    let lines = Format::JsonLines.render(&found, &sources);
    assert_eq!(lines.lines().count(), found.len());
    let objects: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let array: Vec<serde_json::Value> = serde_json::from_str(&Format::Json.render(&found, &sources)).unwrap();
    assert_eq!(objects, array);
}

#[test]
fn json_escapes_what_a_terminal_would_interpret() {
    let mut found = Diagnostics::new();
    found.push(Diagnostic::new(Code::InvalidKind, "\u{1b}[2J \u{9b}2J \u{7f} \u{202e}"));
    let text = Format::JsonLines.render(&found, &Sources::new());
    assert!(text.contains(r"\u001b[2J \u009b2J \u007f \u202e"), "{text}");
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["message"], "\u{1b}[2J \u{9b}2J \u{7f} \u{202e}");
}

#[test]
fn github_annotations() {
    let (found, sources) = diagnostics();
    insta::assert_snapshot!(Format::Github.render(&found, &sources));
}

#[test]
fn sarif_for_code_scanning() {
    let (found, sources) = diagnostics();
    let text = Format::Sarif.render(&found, &sources);
    // The version of the release changes.
    insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
}

#[test]
fn condition_message() {
    let (found, _) = diagnostics();
    insta::assert_snapshot!(render::condition(&found, render::CONDITION_LIMIT));
}

#[test]
fn condition_message_counts_diagnostics_that_do_not_fit() {
    let (found, _) = diagnostics();
    insta::assert_snapshot!(render::condition(&found, 200));
}

#[test]
fn condition_message_truncates_the_first_diagnostic_instead_of_omitting_it() {
    let mut found = Diagnostics::new();
    found.push(Diagnostic::new(Code::InvalidKind, "ü".repeat(3000)).path("spec").help("shorten it"));
    found.push(Diagnostic::new(Code::InvalidKind, "x".repeat(90)));
    let text = render::condition(&found, 1024);
    assert!(text.len() <= 1024, "{}", text.len());
    assert!(text.ends_with("… [K0201]; and 1 more error"), "{text}");
}

#[test]
fn no_diagnostics_render_as_empty_output() {
    let (found, sources) = (Diagnostics::new(), Sources::new());
    for format in [Format::Plain, Format::Coloured, Format::Lines, Format::JsonLines, Format::Github] {
        assert_eq!(format.render(&found, &sources), "");
    }
    assert_eq!(Format::Json.render(&found, &sources), "[]\n");
    assert_eq!(render::condition(&found, 1024), "");
    assert_eq!(render::summary(&found), "no errors");
    assert_eq!(render::explain_hint(&found), None);
}

#[test]
fn the_summary_counts_by_severity() {
    let (found, _) = diagnostics();
    assert_eq!(render::summary(&found), "3 errors, 1 warning");
    assert_eq!(render::explain_hint(&found).unwrap(), "for details, run `kross explain K0201`");
}

#[test]
fn formats_are_chosen_by_name() {
    for name in Format::NAMES {
        assert!(name.parse::<Format>().is_ok());
    }
    assert_eq!(
        "xml".parse::<Format>().unwrap_err(),
        "unknown format `xml`, expected one of full, short, json, jsonl, github, sarif"
    );
}

fn is_inert(output: &str) -> bool {
    !output.chars().any(|letter| letter != '\n' && (letter.is_control() || letter == '\u{202e}'))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_and_any_span_renders_without_control_characters(
        text in "[a-z\\n\\r\\t é日🦀\u{1b}\u{9b}\u{200f}\u{202e}:]{0,60}",
        message in ".{0,20}|[a\\n\u{1b}]{0,9}",
        (start, length, other) in (0u32..90, 0u32..40, 0u32..90),
        replacement in "[a-z\\n\u{1b}]{0,6}",
        width in 10usize..200,
    ) {
        let mut sources = Sources::new();
        let file = sources.add("a\u{1b}.yaml", text);
        let mut found = Diagnostics::new();
        let span = Span::new(file, start, start + length);
        found.push(
            Diagnostic::new(Code::InvalidKind, message.clone())
                .labelled(span, message.clone())
                .also(Span::new(file, other, other + 3), message.clone())
                .fix(message.clone(), span, replacement)
                .help(message)
                .path("a.b\u{1b}"),
        );
        for format in [Format::Plain, Format::Lines, Format::Json, Format::JsonLines, Format::Github] {
            let output = format.render(&found, &sources);
            prop_assert!(is_inert(&output), "{format:?}: {output:?}");
        }
        let _ = render::terminal(&found, &sources, Colour::Always, Some(width));
        prop_assert!(is_inert(&render::condition(&found, 200)));
        prop_assert!(render::condition(&found, 200).len() <= 200);
    }
}
