//! Go to definition and find references: of ids, of fields and types of the schema, of `forEach` variables and of the variables of
//! macros, also from instances to the definition that declares their fields.

use std::ops::Range;

use gen_lsp_types::{Location, Position};
use kross_api::yaml::Document;
use kross_graph::is_definition;

use crate::recovery::ParsedDocument;
use crate::symbols::{Definition, Occurrence, Symbol, instance_occurrences};
use crate::text::Text;
use crate::workspace::{At, File, Workspace, generated_kind, kind_of};

/// A symbol, and the definition that it belongs to.
pub(crate) struct Found<'w> {
    pub(crate) symbol: Symbol,
    /// The bytes of the occurrence at the cursor.
    pub(crate) bytes: Range<usize>,
    pub(crate) uri: &'w str,
    pub(crate) definition: &'w ParsedDocument,
}

/// An occurrence of a symbol in a file.
pub(crate) struct Place<'w> {
    pub(crate) uri: &'w str,
    pub(crate) text: &'w Text,
    pub(crate) bytes: Range<usize>,
    pub(crate) declares: bool,
}

impl Place<'_> {
    fn location(&self) -> Location {
        Location { uri: self.uri.into(), range: self.text.range(self.bytes.clone()) }
    }
}

impl Workspace {
    /// Where the symbol at a position is declared.
    #[must_use]
    pub fn definition(&self, uri: &str, position: Position) -> Option<Location> {
        let at = self.at(uri, position)?;
        let Some(found) = self.symbol_at(&at) else { return self.definition_of_kind(&at) };
        self.places(&found).into_iter().find(|place| place.declares).map(|place| place.location())
    }

    /// Every place of the symbol at a position.
    #[must_use]
    pub fn references(&self, uri: &str, position: Position, with_declaration: bool) -> Vec<Location> {
        let Some(found) = self.at(uri, position).and_then(|at| self.symbol_at(&at)) else {
            return Vec::new();
        };
        let places = self.places(&found);
        let wanted = places.iter().filter(|place| with_declaration || !place.declares);
        wanted.map(Place::location).collect()
    }

    /// The symbol at a place.
    pub(crate) fn symbol_at<'w>(&'w self, at: &At<'w>) -> Option<Found<'w>> {
        let document = at.document();
        let (occurrences, uri, definition) = if is_definition(document) {
            (Definition::new(document).occurrences(), at.uri, at.parsed)
        } else {
            let (uri, definition) = self.definition_of(&kind_of(document))?;
            (instance_occurrences(document, &definition.document), uri, definition)
        };
        let contains = |found: &&Occurrence| found.bytes.start <= at.offset && at.offset <= found.bytes.end;
        let Occurrence { symbol, bytes, .. } = occurrences.iter().find(contains)?.clone();
        Some(Found { symbol, bytes, uri, definition })
    }

    /// Every place of a symbol: in its definition, and in the instances of that for a field of the schema.
    pub(crate) fn places<'w>(&'w self, found: &Found<'w>) -> Vec<Place<'w>> {
        let Some(file) = self.file(found.uri) else { return Vec::new() };
        let place = |uri: &'w str, file: &'w File, occurrence: Occurrence| Place {
            uri,
            text: &file.text,
            bytes: occurrence.bytes,
            declares: occurrence.declares,
        };
        let same = |occurrence: &Occurrence| occurrence.symbol == found.symbol;
        let own = Definition::new(&found.definition.document).occurrences().into_iter().filter(same);
        let mut places: Vec<Place<'_>> = own.map(|occurrence| place(found.uri, file, occurrence)).collect();
        if let Symbol::Field(_) = found.symbol {
            for (uri, file, instance) in self.instances_of(&found.definition.document) {
                let occurrences = instance_occurrences(instance, &found.definition.document);
                places.extend(
                    occurrences.into_iter().filter(same).map(|occurrence| place(uri, file, occurrence)),
                );
            }
        }
        places
    }

    /// The instances of a definition in the workspace.
    pub(crate) fn instances_of<'w>(
        &'w self,
        definition: &Document,
    ) -> impl Iterator<Item = (&'w str, &'w File, &'w Document)> {
        let kind = generated_kind(definition);
        self.files().flat_map(move |(uri, file)| {
            let kind = kind.clone();
            let is_instance = move |parsed: &&ParsedDocument| {
                kind.as_ref().is_some_and(|kind| kind_of(&parsed.document) == *kind)
            };
            let instances = file.parsed.documents.iter().filter(is_instance);
            instances.map(move |parsed| (uri, file, &parsed.document))
        })
    }

    /// From the kind of an instance to that in its definition.
    fn definition_of_kind(&self, at: &At<'_>) -> Option<Location> {
        let path = "kind".parse().ok()?;
        let kind = crate::recovery::bytes(at.document().exact_span(&path)?);
        let on_kind = kind.start <= at.offset && at.offset <= kind.end;
        let (uri, definition) = self.definition_of(&kind_of(at.document())).filter(|_| on_kind)?;
        let declared = definition.document.exact_span(&"spec.schema.kind".parse().ok()?)?;
        let range = self.file(uri)?.text.range(crate::recovery::bytes(declared));
        Some(Location { uri: uri.into(), range })
    }
}
