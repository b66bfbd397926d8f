//! Hints that an editor shows between the text: the kind and cluster of each resource, the types of `forEach` variables and of status
//! fields.

use std::ops::Range;

use gen_lsp_types::{InlayHint, InlayHintKind, Label, Range as EditorRange};
use kross_api::yaml::Document;
use kross_api::{ClusterReference, Credentials, TargetChoice};
use kross_cel::types::Type;
use kross_diagnostics::{Path, PathSegment};
use kross_graph::{Analysis, Placement, is_definition};

use crate::recovery::bytes;
use crate::symbols::Definition;
use crate::workspace::Workspace;

impl Workspace {
    /// The hints in a range of a file.
    #[must_use]
    pub fn inlay_hints(&self, uri: &str, range: EditorRange) -> Vec<InlayHint> {
        let Some(file) = self.file(uri) else { return Vec::new() };
        let shown = file.text.bytes(range);
        let mut found: Vec<(usize, String, InlayHintKind)> = Vec::new();
        for parsed in &file.parsed.documents {
            let document = &parsed.document;
            if is_definition(document) && overlaps(&parsed.bytes(), &shown) {
                let analysis = self.analysis(document);
                resources(document, &analysis, &mut found);
                status(document, &analysis, &mut found);
            }
        }
        found.retain(|(at, ..)| shown.contains(at) || *at == shown.end);
        found.sort_by_key(|(at, ..)| *at);
        let hint = |(at, label, kind): (usize, String, InlayHintKind)| InlayHint {
            position: file.text.position(at),
            label: Label::String(label),
            padding_left: Some(kind == InlayHintKind::Parameter),
            kind: Some(kind),
            text_edits: None,
            tooltip: None,
            padding_right: None,
            data: None,
        };
        found.into_iter().map(hint).collect()
    }
}

fn overlaps(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start <= other.end && other.start <= one.end
}

fn resources(document: &Document, analysis: &Analysis, found: &mut Vec<(usize, String, InlayHintKind)>) {
    for (index, resource) in analysis.resources.iter().enumerate() {
        let path = Path::root().key("spec").key("resources").index(index);
        if let Some(span) = document.exact_span(&path.key("id")) {
            let kind = if resource.kind.kind.is_empty() { "" } else { &*resource.kind.kind };
            let list = if matches!(resource.variable_type, Type::List(_)) { "[]" } else { "" };
            let separator = if kind.is_empty() { "" } else { ", " };
            let label = format!("{list}{kind}{separator}{}", placement(&resource.placement));
            found.push((bytes(span).end, label, InlayHintKind::Parameter));
        }
        for (at, (variable, variable_type)) in resource.axes.iter().enumerate() {
            let key = path.key("forEach").index(at).key(&**variable);
            if let Some(span) = document.key_span(&key) {
                found.push((bytes(span).end, format!(": {variable_type}"), InlayHintKind::Type));
            }
        }
    }
}

/// The types of the fields of the status that are one expression.
fn status(document: &Document, analysis: &Analysis, found: &mut Vec<(usize, String, InlayHintKind)>) {
    let definition = Definition::new(document);
    for expression in &definition.expressions {
        let [
            PathSegment::Key(spec),
            PathSegment::Key(schema),
            PathSegment::Key(part),
            PathSegment::Key(field),
            ..,
        ] = expression.path.segments()
        else {
            continue;
        };
        let is_field = (spec.as_str(), schema.as_str(), part.as_str()) == ("spec", "schema", "status");
        if !is_field || field == "conditions" || expression.start != 2 {
            continue;
        }
        let (Some(key), Some(scope)) =
            (document.key_span(&expression.path), analysis.scope(&expression.path))
        else {
            continue;
        };
        let (checked, issues) = scope.env.check(expression.ast.clone());
        if issues.is_empty() {
            found.push((bytes(key).end, format!(": {}", checked.result()), InlayHintKind::Type));
        }
    }
}

/// The cluster of a resource, in words.
pub(crate) fn placement(placement: &Placement) -> String {
    match placement {
        Placement::Local => "local".to_owned(),
        Placement::Remote(remote) => match &remote.fixed {
            Some(cluster) => format!("in cluster {}", cluster.display),
            None => format!("in cluster {}", written(&remote.reference)),
        },
    }
}

/// A reference that depends on the instance, as it is written.
fn written(reference: &ClusterReference) -> String {
    if let Some(name) = &reference.name {
        return name.as_str().to_owned();
    }
    match &reference.credentials {
        Credentials::Secret(secret) => secret.name.as_str().to_owned(),
        Credentials::SecretByText(text) => text.as_str().to_owned(),
        Credentials::Published(published) => match &published.choice {
            TargetChoice::Name(name) => name.as_str().to_owned(),
            TargetChoice::Selector(_) => "of a selector".to_owned(),
        },
    }
}
