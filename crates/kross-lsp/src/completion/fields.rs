//! The keys of a mapping: fields of a definition, of a template, or of an instance.

use gen_lsp_types::CompletionItemKind;
use kross_diagnostics::PathSegment;
use kross_graph::{API_VERSION, KIND, is_definition};
use kross_schema::openapi::Kind;
use kross_schema::{FieldView, GroupVersionKind, SchemaView};

use super::Proposal;
use crate::cursor::Cursor;
use crate::documentation::{constraints, steps, type_name, view};
use crate::schema_fields::Step;
use crate::workspace::{At, Workspace, kind_of};

/// A mapping whose fields are known: the schema of its kind, the kind, and the steps to the mapping.
pub(crate) struct Typed {
    pub(crate) root: SchemaView,
    pub(crate) kind: GroupVersionKind,
    pub(crate) steps: Vec<Step>,
}

impl Workspace {
    /// The kind and schema of a place in a document: of the document itself, or of the template that the place is in.
    pub(crate) fn typed(&self, at: &At<'_>, path: &[PathSegment]) -> Option<Typed> {
        let document = at.document();
        if !is_definition(document) {
            let kind = kind_of(document);
            let resolved = self.resolver().resolve(&kind)?;
            return Some(Typed { root: resolved.schema.clone(), kind, steps: steps(path) });
        }
        if let [
            PathSegment::Key(spec),
            PathSegment::Key(resources),
            PathSegment::Index(index),
            PathSegment::Key(template),
            rest @ ..,
        ] = path
            && (spec.as_str(), resources.as_str(), template.as_str()) == ("spec", "resources", "template")
        {
            let resource = self.analysis(document).resources.into_iter().nth(*index)?;
            let resolved = resource.resolved?;
            return Some(Typed {
                root: resolved.schema.clone(),
                kind: resolved.kind.clone(),
                steps: steps(rest),
            });
        }
        let kind = GroupVersionKind::new(API_VERSION, KIND);
        let crds = kross_schema::CrdSchemas::new();
        crds.insert(&crate::documentation::DEFINITION).ok()?;
        let resolved = kross_schema::SchemaResolver::resolve(&crds, &kind)?;
        Some(Typed { root: resolved.schema.clone(), kind, steps: steps(path) })
    }

    /// The keys that the mapping at the cursor can have.
    pub(super) fn keys(&self, at: Option<&At<'_>>, cursor: &Cursor) -> Vec<Proposal> {
        let missing = |name: &str| !cursor.siblings.iter().any(|sibling| sibling == name);
        let Some(typed) = at.and_then(|at| self.typed(at, cursor.path.segments())) else {
            let top = ["apiVersion", "kind", "metadata", "spec"];
            let is_top = cursor.path.is_root();
            let top = top.into_iter().filter(|name| is_top && missing(name));
            return top
                .map(|name| Proposal::new(name, CompletionItemKind::Property).insert(format!("{name}: ")))
                .collect();
        };
        let Some(mapping) = view(&typed.root, &typed.steps) else { return Vec::new() };
        let fields = mapping.field_names().filter(|name| missing(name) && !is_status(&typed, name));
        fields.map(|name| self.key(&typed, &mapping, name)).collect()
    }

    fn key(&self, typed: &Typed, mapping: &SchemaView, name: &str) -> Proposal {
        let required = mapping.schema().requires(name);
        let proposal = Proposal::new(name, CompletionItemKind::Property).rank(if required { 1 } else { 5 });
        let FieldView::Known(field) = mapping.field(name) else {
            return proposal.insert(format!("{name}: "));
        };
        let mut steps = typed.steps.clone();
        steps.push(Step::Field(name.to_owned()));
        let mut documentation = self.description(&typed.kind, &steps).unwrap_or_default();
        for constraint in constraints(field.schema()) {
            documentation.push_str(if documentation.is_empty() { "" } else { "\n\n" });
            documentation.push_str(&constraint);
        }
        let is_block =
            matches!(field.schema().kind, Some(Kind::Object | Kind::Array)) || field.schema().kind.is_none();
        let insert =
            if is_block && !field.schema().int_or_string { format!("{name}:") } else { format!("{name}: ") };
        let suffix = if required { " (required)" } else { "" };
        proposal
            .insert(insert)
            .detail(format!("{}{suffix}", type_name(&field)))
            .documented(Some(documentation))
    }
}

/// Whether a field is the status of an object, which nobody writes into a template.
fn is_status(typed: &Typed, name: &str) -> bool {
    typed.steps.is_empty() && name == "status"
}
