//! The outline of a file: its documents; of a definition the schema, its fields, and the resources.

use gen_lsp_types::{DocumentSymbol, SymbolKind};
use kross_api::yaml::Document;
use kross_diagnostics::Path;
use kross_graph::is_definition;
use kross_value::Value;

use crate::embedded::at;
use crate::recovery::bytes;
use crate::text::Text;
use crate::workspace::Workspace;

impl Workspace {
    /// The symbols of a file.
    #[must_use]
    pub fn document_symbols(&self, uri: &str) -> Vec<DocumentSymbol> {
        let Some(file) = self.file(uri) else { return Vec::new() };
        let documents = file.parsed.documents.iter();
        documents.map(|parsed| Outline { document: &parsed.document, text: &file.text }.document()).collect()
    }
}

struct Outline<'a> {
    document: &'a Document,
    text: &'a Text,
}

impl Outline<'_> {
    fn document(&self) -> DocumentSymbol {
        let value = self.document.value();
        let text = |path: &[&str]| value.at(path).and_then(Value::as_str);
        let name = text(&["metadata", "name"]).or_else(|| text(&["kind"])).unwrap_or("document");
        let children = if is_definition(self.document) { self.definition() } else { Vec::new() };
        let range = self.text.range(bytes(self.document.span()));
        let start = gen_lsp_types::Range { start: range.start, end: range.start };
        let detail = text(&["kind"]).map(str::to_owned);
        let children = (!children.is_empty()).then_some(children);
        DocumentSymbol::new(shown(name), detail, SymbolKind::Module, None, None, range, start, children)
    }

    fn definition(&self) -> Vec<DocumentSymbol> {
        let schema = Path::root().key("spec").key("schema");
        let kind = self.document.value().at(&["spec", "schema", "kind"]).and_then(Value::as_str);
        let mut found = Vec::new();
        let mut parts = Vec::new();
        for part in ["spec", "types", "status"] {
            parts.extend(self.field(&schema.key(part), SymbolKind::Struct));
        }
        found.extend(self.symbol(
            &schema,
            kind.unwrap_or("schema"),
            Some("schema"),
            SymbolKind::Class,
            parts,
        ));
        let resources = Path::root().key("spec").key("resources");
        for (index, resource) in crate::symbols::resources(self.document.value()).iter().enumerate() {
            let text = |path: &[&str]| resource.at(path).and_then(Value::as_str);
            let kind = text(&["template", "kind"]).or_else(|| text(&["externalRef", "kind"]));
            let id = text(&["id"]).unwrap_or("resource");
            found.extend(self.symbol(&resources.index(index), id, kind, SymbolKind::Object, Vec::new()));
        }
        found
    }

    /// A field and the fields below it.
    fn field(&self, path: &Path, kind: SymbolKind) -> Option<DocumentSymbol> {
        let value = at(self.document.value(), path)?;
        let inner = value.as_object().into_iter().flat_map(|object| object.keys());
        let children =
            inner.filter_map(|name| self.field(&path.key(name.as_str()), SymbolKind::Field)).collect();
        self.symbol(path, crate::rename::last_key(path)?, value.as_str(), kind, children)
    }

    fn symbol(
        &self,
        path: &Path,
        name: &str,
        detail: Option<&str>,
        kind: SymbolKind,
        children: Vec<DocumentSymbol>,
    ) -> Option<DocumentSymbol> {
        let value = bytes(self.document.exact_span(path)?);
        let key = self.document.key_span(path).map(bytes);
        let start = key.as_ref().map_or(value.start, |key| key.start).min(value.start);
        let selected = key.unwrap_or(value.start..value.start);
        let range = self.text.range(start..value.end.max(selected.end));
        let selected = self.text.range(selected);
        let children = (!children.is_empty()).then_some(children);
        Some(DocumentSymbol::new(
            shown(name),
            detail.map(str::to_owned),
            kind,
            None,
            None,
            range,
            selected,
            children,
        ))
    }
}

/// Editors reject a symbol with an empty name.
fn shown(name: &str) -> String {
    if name.trim().is_empty() { "…".to_owned() } else { name.to_owned() }
}
