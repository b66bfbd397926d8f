//! Formats diagnostics as SARIF 2.1.0, which GitHub code scanning, GitLab and editors read.

use serde_json::{Map, Value, json};

use super::neutral::neutral;
use crate::{Code, Diagnostic, Diagnostics, Edit, Severity, Sources, Span};

/// A SARIF log with one run.
#[must_use]
pub fn sarif(diagnostics: &Diagnostics, sources: &Sources) -> String {
    let mut codes: Vec<Code> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<Value> = codes.iter().map(|code| rule(*code)).collect();
    let results: Vec<Value> =
        diagnostics.iter().map(|diagnostic| result(diagnostic, &codes, sources)).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "kross",
                "informationUri": "https://github.com/kross-run/kross",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            // Columns count characters, as everywhere else in the output.
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    // Values of this kind can always be serialized.
    serde_json::to_string_pretty(&log).unwrap_or_default() + "\n"
}

fn rule(code: Code) -> Value {
    json!({
        "id": code.id(),
        "name": format!("{code:?}"),
        "shortDescription": {"text": code.title()},
        "help": {"text": code.explanation(), "markdown": code.explanation()},
        "defaultConfiguration": {"level": level(code.severity())},
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn result(diagnostic: &Diagnostic, codes: &[Code], sources: &Sources) -> Value {
    let mut text = diagnostic.message.clone();
    for help in &diagnostic.help {
        text.push_str(&format!("\nhelp: {}", help.text));
    }
    for note in &diagnostic.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    let mut found = Map::new();
    found.insert("ruleId".to_owned(), json!(diagnostic.code.id()));
    found.insert("ruleIndex".to_owned(), json!(codes.binary_search(&diagnostic.code).unwrap_or_default()));
    found.insert("level".to_owned(), json!(level(diagnostic.severity)));
    found.insert("message".to_owned(), json!({"text": neutral(&text)}));
    let logical = diagnostic.path.as_ref().map(|path| json!([{"fullyQualifiedName": neutral(path)}]));
    let mut place = Map::new();
    if let Some(label) = &diagnostic.primary {
        place.insert("physicalLocation".to_owned(), physical(label.span, sources));
    }
    place.extend(logical.map(|logical| ("logicalLocations".to_owned(), logical)));
    if !place.is_empty() {
        found.insert("locations".to_owned(), json!([place]));
    }
    let related: Vec<Value> = diagnostic
        .secondary
        .iter()
        .map(|label| {
            json!({"physicalLocation": physical(label.span, sources), "message": {"text": neutral(&label.text)}})
        })
        .collect();
    if !related.is_empty() {
        found.insert("relatedLocations".to_owned(), json!(related));
    }
    let fixes: Vec<Value> = diagnostic
        .help
        .iter()
        .filter_map(|help| help.edit.as_ref().map(|edit| fix(&help.text, edit, sources)))
        .collect();
    if !fixes.is_empty() {
        found.insert("fixes".to_owned(), json!(fixes));
    }
    Value::Object(found)
}

fn physical(span: Span, sources: &Sources) -> Value {
    json!({"artifactLocation": artifact(span, sources), "region": region(span, sources)})
}

fn artifact(span: Span, sources: &Sources) -> Value {
    let name = sources.name(span.source);
    let name = name.strip_prefix("./").unwrap_or(name);
    // A URI reference: only what has a meaning in one is escaped.
    let uri = name
        .replace('%', "%25")
        .replace(' ', "%20")
        .replace('#', "%23")
        .replace('?', "%3F")
        .replace('\\', "/");
    json!({"uri": neutral(&uri)})
}

fn region(span: Span, sources: &Sources) -> Value {
    let (start, end) = (sources.position(span), sources.end_position(span));
    json!({"startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column})
}

fn fix(text: &str, edit: &Edit, sources: &Sources) -> Value {
    let replacement = json!({
        "deletedRegion": region(edit.span, sources),
        "insertedContent": {"text": neutral(&edit.replacement)},
    });
    json!({
        "description": {"text": neutral(text)},
        "artifactChanges": [{"artifactLocation": artifact(edit.span, sources), "replacements": [replacement]}],
    })
}
