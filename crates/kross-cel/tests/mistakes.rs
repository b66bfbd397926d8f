//! Renders every syntax and type error as an author sees it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "types/provider.rs"]
mod provider;

use std::collections::BTreeSet;

use kross_diagnostics::render::Format;
use kross_diagnostics::{Code, Diagnostic, Diagnostics, Sources, Span};

/// At least one expression for each code.
const EXPRESSIONS: &[&str] = &[
    "schema.spec.name schema.spec.image",
    "schema.spec.name == “web”",
    "schema.spec.name + 'suffix",
    r"schema.spec.name.matches('^\d+$')",
    "schema.spec.replicas < 512Mi",
    "size(schema.spec.ports",
    "schema.spec.ports.map(var, var.name)",
    "schema.spec.ports.map(port.name)",
    "schema.spec.ports.filter(port.name, true)",
    "has(schema.spec.labels['app'])",
    "1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1",
    " ",
    "flag ? index > 1 ? 'a' : 'b' : 'c'",
    "schema.spec.enabled and schema.spec.replicas = 3",
    "schema.spec.labels.all(x, x, x != '')",
    "schem.spec.name",
    "schema.spec.name.toLower()",
    "schema.spec.replcias + deployment.spec.template.spec.containers[0].imgae",
    "schema.spec.name + '-' + schema.spec.replicas",
    "region.replace('a')",
    "schema.spec.replicas && flag",
    "schema.spec.name.map(letter, letter)",
    "flag ? 1 : 'none'",
    "schema.spec.ports.name",
    "[?schema.spec.name]",
    "Container2{name: 'web'}",
    "schema.spec.replicas == '3'",
    "schema.spec.labels[0]",
    "Port{name: 1}",
    "startsWith(region, 'eu')",
    "schema.spec.labels.transformMapEntry(k, v, v)",
    "schema.spec.ports.sortBy(port, port)",
    "'%d'.format(['a'])",
];

#[test]
fn every_diagnostic_of_an_expression_renders_as_in_the_snapshot() {
    let env = provider::environment();
    let mut shown = String::new();
    let mut codes = BTreeSet::new();
    for text in EXPRESSIONS {
        let limits = kross_cel::syntax::Limits { depth: 10, ..Default::default() };
        let issues = env.with_limits(limits).compile(*text).unwrap_err();
        let (mut sources, mut found) = (Sources::new(), Diagnostics::new());
        let file = sources.add("expression", *text);
        for issue in issues {
            codes.insert(issue.code);
            let at = Span::new(file, issue.span.start, issue.span.end);
            let diagnostic = Diagnostic::new(issue.code, issue.message).at(at);
            found.push(match (issue.help, issue.replacement) {
                (Some(help), Some(replacement)) => diagnostic.fix(help, at, replacement),
                (Some(help), None) => diagnostic.help(help),
                (None, _) => diagnostic,
            });
        }
        shown.push_str(&Format::Plain.render(&found, &sources));
        shown.push('\n');
    }
    for code in Code::ALL.iter().filter(|code| code.id().starts_with("K05") || code.id().starts_with("K06")) {
        assert!(codes.contains(code), "no expression shows {code}");
    }
    insta::assert_snapshot!(shown);
}
