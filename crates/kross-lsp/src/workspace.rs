//! The files of an editor's workspace, and the schemas that they give each other: the kinds that definitions generate, and
//! CustomResourceDefinitions. The schemas are built again only when a change adds, changes or removes one of these.

use std::collections::BTreeMap;
use std::sync::Arc;

use gen_lsp_types::{Position, Range as EditorRange};
use kross_api::yaml::Document;
use kross_graph::{
    Analysis, Definition, OfflineSchemas, Resolvers, analyze, generated_crd, is_crd, is_definition,
    load_partially,
};
use kross_schema::{CrdSchemas, GroupVersionKind, SchemaResolver};
use kross_value::Value;

use crate::recovery::{Parsed, ParsedDocument, parse};
use crate::settings::Settings;
use crate::text::Text;

/// The files of a workspace.
#[derive(Debug)]
pub struct Workspace {
    settings: Settings,
    /// The kinds of the settings.
    given: Arc<CrdSchemas>,
    files: BTreeMap<String, File>,
    schemas: OfflineSchemas,
}

/// A file, parsed.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) text: Text,
    pub(crate) parsed: Parsed,
    /// The CustomResourceDefinitions among its documents.
    crds: Kinds,
    /// The CustomResourceDefinitions that its definitions generate.
    generated: Kinds,
}

/// CustomResourceDefinitions, and their schemas.
#[derive(Debug, Default)]
struct Kinds {
    crds: Vec<Value>,
    schemas: Option<Arc<CrdSchemas>>,
}

impl Kinds {
    /// The schemas, without building them again if the CustomResourceDefinitions are the same as before.
    fn new(crds: Vec<Value>, before: Option<&Self>) -> Self {
        let schemas = match before {
            Some(before) if before.crds == crds => before.schemas.clone(),
            _ if crds.is_empty() => None,
            _ => Some(Arc::new(collected(&crds))),
        };
        Self { crds, schemas }
    }
}

/// The schemas of CustomResourceDefinitions. Invalid ones are reported in their own file.
fn collected(crds: &[Value]) -> CrdSchemas {
    let known = CrdSchemas::new();
    for crd in crds {
        let _ = known.insert(crd);
    }
    known
}

impl File {
    fn new(text: Text, before: Option<&Self>) -> Self {
        let parsed = parse(&text);
        let documents =
            || parsed.documents.iter().filter(|parsed| parsed.intact).map(|parsed| &parsed.document);
        let own = documents().filter(|document| is_crd(document)).map(|document| document.value().clone());
        let generated = documents().filter(|document| is_definition(document)).filter_map(generated_crd);
        let (own, generated) = (own.collect(), generated.collect());
        let crds = Kinds::new(own, before.map(|before| &before.crds));
        let generated = Kinds::new(generated, before.map(|before| &before.generated));
        Self { text, parsed, crds, generated }
    }

    /// Whether other files see the same kinds in both.
    fn has_kinds_of(&self, other: &Self) -> bool {
        self.crds.crds == other.crds.crds && self.generated.crds == other.generated.crds
    }

    fn has_kinds(&self) -> bool {
        !self.crds.crds.is_empty() || !self.generated.crds.is_empty()
    }
}

/// A place in a document.
pub(crate) struct At<'w> {
    pub(crate) uri: &'w str,
    pub(crate) file: &'w File,
    pub(crate) parsed: &'w ParsedDocument,
    pub(crate) offset: usize,
}

impl<'w> At<'w> {
    pub(crate) fn document(&self) -> &'w Document {
        &self.parsed.document
    }
}

impl Workspace {
    /// An empty workspace.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let given = Arc::new(collected(&settings.crds));
        let schemas = OfflineSchemas::layered([Arc::clone(&given)], Arc::clone(&settings.kubernetes));
        Self { settings, given, files: BTreeMap::new(), schemas }
    }

    /// Replaces the settings.
    pub fn set_settings(&mut self, settings: Settings) {
        self.given = Arc::new(collected(&settings.crds));
        self.settings = settings;
        self.rebuild();
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Adds or replaces a file. Returns whether the answers for other files may have changed as well.
    pub fn set(&mut self, uri: &str, text: impl Into<Arc<str>>) -> bool {
        self.insert(uri, Text::new(text))
    }

    /// Replaces a range of a file, as the editor counts it. Returns whether the answers for other files may have changed as well.
    pub fn edit(&mut self, uri: &str, range: EditorRange, with: &str) -> bool {
        let Some(file) = self.files.get(uri) else { return false };
        let text = file.text.replaced(file.text.bytes(range), with);
        self.insert(uri, text)
    }

    fn insert(&mut self, uri: &str, text: Text) -> bool {
        let before = self.files.get(uri);
        let file = File::new(text, before);
        let changed = before.map_or_else(|| file.has_kinds(), |before| !before.has_kinds_of(&file));
        self.files.insert(uri.to_owned(), file);
        if changed {
            self.rebuild();
        }
        changed
    }

    /// Removes a file. Returns whether the answers for other files may have changed.
    pub fn remove(&mut self, uri: &str) -> bool {
        let Some(file) = self.files.remove(uri) else { return false };
        if file.has_kinds() {
            self.rebuild();
        }
        file.has_kinds()
    }

    /// As for `kross validate`, a CustomResourceDefinition takes precedence over a kind that a definition generates.
    fn rebuild(&mut self) {
        let own = self.files.values().filter_map(|file| file.crds.schemas.clone());
        let generated = self.files.values().filter_map(|file| file.generated.schemas.clone());
        let layers = own.chain([Arc::clone(&self.given)]).chain(generated);
        self.schemas = OfflineSchemas::layered(layers, Arc::clone(&self.settings.kubernetes));
    }

    /// The text of a file.
    #[must_use]
    pub fn text(&self, uri: &str) -> Option<&str> {
        self.files.get(uri).map(|file| file.text.as_str())
    }

    pub(crate) fn file(&self, uri: &str) -> Option<&File> {
        self.files.get(uri)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(uri, file)| (uri.as_str(), file))
    }

    pub(crate) fn schemas(&self) -> &OfflineSchemas {
        &self.schemas
    }

    pub(crate) fn resolver(&self) -> &dyn SchemaResolver {
        self.schemas.local()
    }

    /// Every CustomResourceDefinition that is known, for its documentation.
    pub(crate) fn crds(&self) -> impl Iterator<Item = &Value> {
        let files = self.files.values().flat_map(|file| file.crds.crds.iter().chain(&file.generated.crds));
        self.settings.crds.iter().chain(files)
    }

    /// The document at a position. After the end of the last document of a file, it is that document.
    pub(crate) fn at(&self, uri: &str, position: Position) -> Option<At<'_>> {
        let (uri, file) = self.files.get_key_value(uri)?;
        let offset = file.text.offset(position);
        let before = file.parsed.documents.iter().rev().find(|parsed| parsed.bytes().start <= offset);
        let parsed = before.or_else(|| file.parsed.documents.first())?;
        let between = file.text.as_str().get(parsed.bytes().end..offset).unwrap_or_default();
        if between.lines().any(|line| line.starts_with("---")) {
            return None;
        }
        Some(At { uri, file, parsed, offset })
    }

    /// What is known of a definition.
    pub(crate) fn analysis(&self, document: &Document) -> Analysis {
        let spec = load_partially(document);
        let definition = Definition { name: "", spec: &spec, document: Some(document) };
        analyze(definition, &self.schemas, &self.settings.options())
    }

    /// The definition that generates a kind, and its file.
    pub(crate) fn definition_of(&self, kind: &GroupVersionKind) -> Option<(&str, &ParsedDocument)> {
        let definitions = || {
            self.files().flat_map(|(uri, file)| {
                let definitions =
                    file.parsed.documents.iter().filter(|parsed| is_definition(&parsed.document));
                definitions.map(move |parsed| (uri, parsed))
            })
        };
        let generated = |parsed: &ParsedDocument| generated_kind(&parsed.document);
        let exact = definitions().find(|(_, parsed)| generated(parsed).as_ref() == Some(kind));
        exact.or_else(|| {
            definitions().find(|(_, parsed)| generated(parsed).is_some_and(|found| found.kind == kind.kind))
        })
    }
}

/// The kind of a document.
pub(crate) fn kind_of(document: &Document) -> GroupVersionKind {
    let text = |field: &str| document.value().get(field).and_then(Value::as_str).unwrap_or_default();
    GroupVersionKind::new(text("apiVersion"), text("kind"))
}

/// The kind that a definition generates.
pub(crate) fn generated_kind(document: &Document) -> Option<GroupVersionKind> {
    let schema = document.value().at(&["spec", "schema"])?;
    let text = |field: &str| schema.get(field).and_then(Value::as_str);
    if schema.get("externalRef").is_some() {
        return None;
    }
    Some(GroupVersionKind {
        group: text("group").unwrap_or(kross_api::DEFAULT_GROUP).into(),
        version: text("apiVersion")?.into(),
        kind: text("kind")?.into(),
    })
}
