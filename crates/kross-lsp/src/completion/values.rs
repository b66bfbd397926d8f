//! The values of a key: kinds and API versions, ids, the values that a schema allows, and the types and markers of SimpleSchema.

use gen_lsp_types::CompletionItemKind;
use kross_diagnostics::{Path, PathSegment};
use kross_graph::{API_VERSION, KIND, is_definition};
use kross_schema::openapi::Kind;
use kross_schema::simple;
use kross_value::Value;

use super::Proposal;
use crate::cursor::{Cursor, Typing};
use crate::documentation::{marker, view};
use crate::symbols::Definition;
use crate::workspace::{At, Workspace};

impl Workspace {
    /// The values that can be written at the cursor. `typed` is the value up to there.
    pub(super) fn values(&self, at: Option<&At<'_>>, cursor: &Cursor, typed: &str) -> Vec<Proposal> {
        let path = cursor.value_path();
        let key = match &cursor.typing {
            Typing::Value(key) => key.as_str(),
            Typing::Key | Typing::Item => "",
        };
        if ["kind", "apiVersion"].contains(&key) && has_kind(&cursor.path) {
            return self.kinds(at, &cursor.path, key);
        }
        let Some(at) = at else { return Vec::new() };
        if is_definition(at.document()) {
            if is_simple_schema(&path) {
                return schema_texts(at, typed);
            }
            if is_after(&path) {
                let ids = Definition::new(at.document()).ids.into_iter().filter(|id| !id.is_empty());
                return ids
                    .map(|id| Proposal::new(id, CompletionItemKind::Variable).detail("resource"))
                    .collect();
            }
        }
        self.allowed(at, &path)
    }

    /// The values that the schema of a field allows.
    fn allowed(&self, at: &At<'_>, path: &Path) -> Vec<Proposal> {
        let Some(field) = self.typed(at, path.segments()).and_then(|typed| view(&typed.root, &typed.steps))
        else {
            return Vec::new();
        };
        let schema = field.schema();
        let values = schema.values.iter().map(|value| match value {
            Value::String(text) => Proposal::new(text.as_str(), CompletionItemKind::EnumMember),
            other => Proposal::new(other.to_string(), CompletionItemKind::EnumMember),
        });
        let words = if schema.kind == Some(Kind::Boolean) { ["true", "false"].as_slice() } else { &[] };
        values.chain(words.iter().map(|word| Proposal::new(*word, CompletionItemKind::Value))).collect()
    }

    /// The kinds of an API version, or the API versions of a kind, as far as the other one is written already.
    fn kinds(&self, at: Option<&At<'_>>, object: &Path, key: &str) -> Vec<Proposal> {
        let value = at.and_then(|at| crate::embedded::at(at.document().value(), object));
        let written =
            |name: &str| value.and_then(|value| value.get(name)).and_then(Value::as_str).unwrap_or_default();
        let mut kinds = self.resolver().kinds();
        if object.is_root() {
            kinds.push(kross_schema::GroupVersionKind::new(API_VERSION, KIND));
        }
        let (kind, api_version) = (written("kind").to_owned(), written("apiVersion").to_owned());
        let mut found: Vec<Proposal> = Vec::new();
        for known in kinds {
            let (label, detail, fits) = if key == "kind" {
                (
                    known.kind.to_string(),
                    known.api_version(),
                    api_version.is_empty() || known.api_version() == api_version,
                )
            } else {
                (known.api_version(), known.kind.to_string(), kind.is_empty() || *known.kind == *kind)
            };
            if fits && !found.iter().any(|proposal| proposal.label == label) {
                let proposal = Proposal::new(label, CompletionItemKind::Class);
                let specific = !(kind.is_empty() && key == "apiVersion");
                found.push(if specific { proposal.detail(detail) } else { proposal });
            }
        }
        found
    }
}

/// Whether a mapping is an object with a kind.
fn has_kind(path: &Path) -> bool {
    match path.segments() {
        [] => true,
        [.., PathSegment::Key(last)] => last == "template" || last == "externalRef",
        _ => false,
    }
}

/// Whether a value is written in SimpleSchema.
fn is_simple_schema(path: &Path) -> bool {
    let [PathSegment::Key(spec), PathSegment::Key(schema), PathSegment::Key(part), _, ..] = path.segments()
    else {
        return false;
    };
    spec == "spec" && schema == "schema" && (part == "spec" || part == "types")
}

/// Whether a value is an id to wait for on deletion.
fn is_after(path: &Path) -> bool {
    let [.., PathSegment::Key(delete), PathSegment::Key(after), PathSegment::Index(_)] = path.segments()
    else {
        return false;
    };
    delete == "delete" && after == "after"
}

/// The types of SimpleSchema, or its markers after the first `|`.
fn schema_texts(at: &At<'_>, typed: &str) -> Vec<Proposal> {
    if typed.contains('|') {
        let markers = simple::MARKERS.iter().filter(|name| !typed.contains(&format!("{name}=")));
        let proposal = |name: &&str| {
            let proposal = Proposal::new(*name, CompletionItemKind::Keyword).insert(format!("{name}="));
            proposal.documented(Some(marker(name).to_owned()))
        };
        return markers.map(proposal).collect();
    }
    let types = at.document().value().at(&["spec", "schema", "types"]).and_then(Value::as_object);
    let custom = types.into_iter().flat_map(|types| types.keys());
    let custom = custom.map(|name| Proposal::new(name.as_str(), CompletionItemKind::Struct).rank(3));
    let built_in = simple::TYPES.iter().map(|name| Proposal::new(*name, CompletionItemKind::Keyword));
    let lists = ["\"[]string\"", "\"map[string]string\""]
        .map(|text| Proposal::new(text, CompletionItemKind::Keyword).rank(6));
    custom.chain(built_in).chain(lists).collect()
}
