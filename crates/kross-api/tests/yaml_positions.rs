//! Tests of the source positions of values, keys and parts of strings.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_api::yaml::{self, Document, Limits};
use kross_diagnostics::{Code, Diagnostic, Diagnostics, Path, Sources};

struct Read {
    sources: Sources,
    documents: Vec<Document>,
}

fn read(text: &str) -> Read {
    let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
    let documents = yaml::parse(&mut sources, "a.yaml", text, &Limits::default(), &mut found);
    assert_eq!(found, Diagnostics::new());
    Read { sources, documents }
}

impl Read {
    fn path(path: &str) -> Path {
        path.parse().unwrap()
    }

    fn value(&self, path: &str) -> &str {
        self.sources.slice(self.documents[0].exact_span(&Self::path(path)).unwrap())
    }

    fn key(&self, path: &str) -> &str {
        self.sources.slice(self.documents[0].key_span(&Self::path(path)).unwrap())
    }

    fn shown(&self, path: &str) -> &str {
        self.sources.slice(self.documents[0].span_of(&Self::path(path)))
    }

    /// The source text of `part` in the string at `path`.
    fn within(&self, path: &str, part: &str) -> &str {
        let path = Self::path(path);
        let segments: Vec<String> = path
            .segments()
            .iter()
            .map(|segment| match segment {
                kross_diagnostics::PathSegment::Key(key) => key.clone(),
                kross_diagnostics::PathSegment::Index(index) => index.to_string(),
            })
            .collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let string = self.documents[0].value().at(&segments).unwrap().as_str().unwrap();
        let start = string.find(part).unwrap_or_else(|| panic!("no {part:?} in {string:?}"));
        self.sources.slice(self.documents[0].span_within(&path, start..start + part.len()))
    }
}

const RGD: &str = "\
apiVersion: kro.run/v1alpha1
spec:
  schema:
    kind: 'Web'   # a comment
    empty:
  resources:
  - id: first
    template:
      metadata:
        labels: {app: web, \"a.b/c\": größe}
  - id: second
    list: [1,
      2]

  # another comment
  last:
    - - x
---
next: document
";

#[test]
fn every_value_and_key_has_its_span() {
    let read = read(RGD);
    assert_eq!(read.value("apiVersion"), "kro.run/v1alpha1");
    assert_eq!(read.key("apiVersion"), "apiVersion");
    assert_eq!(read.value("spec.schema.kind"), "'Web'");
    assert_eq!(read.value("spec.schema.empty"), "");
    assert_eq!(read.value("spec.schema"), "kind: 'Web'   # a comment\n    empty:");
    assert_eq!(read.value("spec.resources[0].id"), "first");
    assert_eq!(read.value("spec.resources[0].template.metadata.labels"), "{app: web, \"a.b/c\": größe}");
    assert_eq!(read.value(r#"spec.resources[0].template.metadata.labels["a.b/c"]"#), "größe");
    assert_eq!(read.key(r#"spec.resources[0].template.metadata.labels["a.b/c"]"#), "\"a.b/c\"");
    assert_eq!(read.value("spec.resources[1]"), "id: second\n    list: [1,\n      2]");
    assert!(read.value("spec.resources").starts_with("- id: first"));
    assert_eq!(read.value("spec.last"), "- - x");
    assert_eq!(read.value("spec.last[0]"), "- x");
    assert_eq!(read.value("spec.last[0][0]"), "x");
    assert_eq!(read.sources.slice(read.documents[1].span()), "next: document");
    let empty = read.documents[0].exact_span(&Read::path("spec.schema.empty")).unwrap();
    assert_eq!(read.sources.position(empty).to_string(), "a.yaml:5:11");
}

#[test]
fn missing_values_have_no_exact_span() {
    let read = read(RGD);
    for path in ["spec.nothing", "spec.resources[2]", "spec.schema.kind.x", "apiVersion[0]", "next"] {
        assert_eq!(read.documents[0].exact_span(&Read::path(path)), None, "{path}");
        assert_eq!(read.documents[0].key_span(&Read::path(path)), None, "{path}");
    }
    assert_eq!(read.documents[0].key_span(&Read::path("spec.resources[0]")), None);
}

#[test]
fn every_path_has_a_short_span_to_show() {
    let read = read(RGD);
    assert_eq!(read.shown("spec.schema.kind"), "'Web'");
    assert_eq!(read.shown("spec.schema"), "schema");
    assert_eq!(read.shown("spec.schema.nothing.at.all"), "schema");
    assert_eq!(read.shown("spec.schema.kind.below"), "kind");
    assert_eq!(read.shown("spec.resources[0]"), "id: first");
    assert_eq!(read.shown("spec.resources[1].nothing"), "id: second");
    assert_eq!(read.shown("spec.resources[7]"), "resources");
    assert_eq!(read.shown("spec.resources[0].template.metadata.labels"), "{app: web, \"a.b/c\": größe}");
    assert_eq!(read.shown("spec.resources[0].template.metadata.labels.x"), "labels");
    assert_eq!(read.shown("nothing"), "apiVersion: kro.run/v1alpha1");
    assert_eq!(read.shown(""), "apiVersion: kro.run/v1alpha1");
}

#[test]
fn a_diagnostic_with_a_path_gets_its_span() {
    let read = read(RGD);
    let diagnostic = Diagnostic::new(Code::InvalidKind, "no").path("spec.schema.kind");
    let attached = yaml::attach(diagnostic.clone(), &read.documents[0]);
    assert_eq!(read.sources.slice(attached.primary.clone().unwrap().span), "'Web'");
    // An existing span is kept, and a diagnostic without a path is unchanged.
    let elsewhere = attached.clone().path("apiVersion");
    assert_eq!(yaml::attach(elsewhere.clone(), &read.documents[0]), elsewhere);
    let nowhere = Diagnostic::new(Code::InvalidKind, "no");
    assert_eq!(yaml::attach(nowhere.clone(), &read.documents[0]), nowhere);
    let mut all = Diagnostics::new();
    all.push(diagnostic);
    assert_eq!(yaml::attach_all(all, &read.documents[0]).iter().next(), Some(&attached));
}

#[test]
fn aliases_and_merges_have_the_spans_of_their_anchors() {
    let read = read("a: &x\n  b: ${c}\nd: *x\ne:\n  <<: *x\n");
    assert_eq!(
        read.documents[0].exact_span(&Read::path("d.b")),
        read.documents[0].exact_span(&Read::path("a.b"))
    );
    assert_eq!(
        read.documents[0].key_span(&Read::path("e.b")),
        read.documents[0].key_span(&Read::path("a.b"))
    );
    assert_eq!(read.within("d.b", "c"), "c");
}

#[test]
fn parts_of_plain_scalars_have_spans() {
    let read = read("a: ${x + y}\nb: größe ${x}\nc: one\n  two\n\n  three   \n   four\n");
    assert_eq!(read.within("a", "x + y"), "x + y");
    assert_eq!(read.within("b", "${x}"), "${x}");
    assert_eq!(read.within("c", "two"), "two");
    assert_eq!(read.within("c", "three four"), "three   \n   four");
    assert_eq!(read.within("c", "one two\nthree"), "one\n  two\n\n  three");
}

#[test]
fn parts_of_quoted_scalars_have_spans() {
    let read = read(
        "a: 'it''s ${x}'\nb: \"\\u00e9\\t${y} \\\"\\ud83e\\udd80\\x41\\U0001F980 z\"\nc: \"one\n   two \\\n   three\n\n   four\"\nd: ''\ne: 'x\n\n  y'\n",
    );
    assert_eq!(read.within("a", "${x}"), "${x}");
    assert_eq!(read.within("a", "'"), "''");
    assert_eq!(read.within("b", "y"), "y");
    assert_eq!(read.within("b", "é"), "\\u00e9");
    assert_eq!(read.within("b", "\t${"), "\\t${");
    assert_eq!(read.within("b", "\""), "\\\"");
    assert_eq!(read.within("b", "🦀A"), "\\ud83e\\udd80\\x41");
    assert_eq!(read.within("b", "z"), "z");
    assert_eq!(read.within("c", "two three\nfour"), "two \\\n   three\n\n   four");
    assert_eq!(read.within("c", "three"), "three");
    assert_eq!(read.within("c", "four"), "four");
    assert_eq!(read.within("d", ""), "");
    assert_eq!(read.within("e", "y"), "y");
}

#[test]
fn parts_of_literal_blocks_have_spans() {
    let read = read(
        "a: |\n  ${\n    x +\n\n    y\n  }\nb: |2-\n    indented\n  less\nc: |+\n\n\n  after\n\nd: |\n    \n  \n    x\ne: 1\n",
    );
    assert_eq!(read.within("a", "x +\n\n  y"), "x +\n\n    y");
    assert_eq!(read.within("a", "y"), "y");
    assert_eq!(read.within("a", "}"), "}");
    assert_eq!(read.within("b", "  indented"), "  indented");
    assert_eq!(read.within("b", "less"), "less");
    assert_eq!(read.within("c", "after"), "after");
    assert_eq!(read.within("d", "x"), "x");
    assert_eq!(read.value("a"), "${\n    x +\n\n    y\n  }");
    assert_eq!(read.value("c"), "after");
}

#[test]
fn parts_of_folded_blocks_have_spans() {
    let read = read(
        "a: >-\n  one\n  two\n\n  three\n    more\n    lines\n\n  four\n  five\nb: >\n\n  first\n\n\n  second\n",
    );
    assert_eq!(read.within("a", "one two"), "one\n  two");
    assert_eq!(read.within("a", "three"), "three");
    assert_eq!(read.within("a", "more\n  lines"), "more\n    lines");
    assert_eq!(read.within("a", "four five"), "four\n  five");
    assert_eq!(read.within("a", "five"), "five");
    assert_eq!(read.within("b", "first"), "first");
    assert_eq!(read.within("b", "second"), "second");
}

#[test]
fn windows_line_endings_do_not_shift_spans() {
    let read = read("a: |\r\n  x\r\n\r\n  y\r\nb: one\r\n  two\r\nc: \"x\r\n  y\"\r\nd: >\r\n  p\r\n  q\r\n");
    assert_eq!(read.within("a", "y"), "y");
    assert_eq!(read.within("b", "two"), "two");
    assert_eq!(read.within("c", "y"), "y");
    assert_eq!(read.within("d", "q"), "q");
}

#[test]
fn a_range_is_clamped_to_the_string() {
    let read = read("a: 'xyz'\nb: 12\n");
    let path = Read::path("a");
    assert_eq!(read.sources.slice(read.documents[0].span_within(&path, 1..99)), "yz");
    assert_eq!(read.sources.slice(read.documents[0].span_within(&path, 50..99)), "");
    assert_eq!(read.sources.slice(read.documents[0].span_within(&Read::path("b"), 0..1)), "12");
    assert_eq!(read.sources.slice(read.documents[0].span_within(&Read::path("c"), 0..1)), "a: 'xyz'");
}
