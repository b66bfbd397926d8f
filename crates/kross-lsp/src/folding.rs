//! The lines that can be folded: documents, and every mapping and list that has several lines.

use gen_lsp_types::FoldingRange;
use kross_api::yaml::Document;
use kross_diagnostics::Path;
use kross_value::Value;

use crate::recovery::bytes;
use crate::text::Text;
use crate::workspace::Workspace;

impl Workspace {
    /// The foldable ranges of a file.
    #[must_use]
    pub fn folding_ranges(&self, uri: &str) -> Vec<FoldingRange> {
        let Some(file) = self.file(uri) else { return Vec::new() };
        let mut found = Vec::new();
        for parsed in &file.parsed.documents {
            let document = &parsed.document;
            fold(&file.text, parsed.bytes().start, parsed.bytes().end, &mut found);
            values(document, document.value(), &Path::root(), &file.text, &mut found);
        }
        found.sort_by_key(|range| (range.start_line, range.end_line));
        found.dedup_by_key(|range| (range.start_line, range.end_line));
        found
    }
}

fn values(document: &Document, value: &Value, path: &Path, text: &Text, found: &mut Vec<FoldingRange>) {
    let children: Vec<(Path, &Value)> = match value {
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (path.key(key.as_str()), value)).collect()
        }
        Value::List(items) => {
            items.iter().enumerate().map(|(index, item)| (path.index(index), item)).collect()
        }
        _ => return,
    };
    for (path, value) in children {
        let Some(span) = document.exact_span(&path).map(bytes) else { continue };
        let start = document.key_span(&path).map_or(span.start, |key| bytes(key).start);
        fold(text, start, span.end, found);
        values(document, value, &path, text, found);
    }
}

fn fold(text: &Text, start: usize, end: usize, found: &mut Vec<FoldingRange>) {
    let (first, last) = (text.position(start).line, text.position(end).line);
    if first < last {
        found.push(FoldingRange { start_line: first, end_line: last, ..FoldingRange::default() });
    }
}
