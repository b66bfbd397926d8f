//! What can be written at the cursor: fields of definitions, templates and instances; kinds; ids; types and markers of the schema; and
//! inside `${…}` variables, members and functions.

mod expression;
mod fields;
mod values;

use gen_lsp_types::{
    CompletionItem, CompletionItemKind, CompletionItemTextEdit, Documentation, MarkupContent, MarkupKind,
    Position, TextEdit,
};

use crate::cursor::{Typing, locate};
use crate::embedded::typed;
use crate::workspace::Workspace;

/// Something that can be written.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) label: String,
    /// What is inserted, if it is not the label.
    pub(crate) insert: Option<String>,
    pub(crate) kind: CompletionItemKind,
    /// Its type or signature.
    pub(crate) detail: Option<String>,
    pub(crate) documentation: Option<String>,
    /// Proposals with a lower rank are shown first.
    pub(crate) rank: u8,
}

impl Proposal {
    pub(crate) fn new(label: impl Into<String>, kind: CompletionItemKind) -> Self {
        Self { label: label.into(), insert: None, kind, detail: None, documentation: None, rank: 5 }
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn documented(mut self, documentation: Option<String>) -> Self {
        self.documentation = documentation.filter(|text| !text.is_empty());
        self
    }

    pub(crate) fn insert(mut self, text: impl Into<String>) -> Self {
        self.insert = Some(text.into());
        self
    }

    pub(crate) fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }
}

impl Workspace {
    /// What can be written at a position.
    #[must_use]
    pub fn completion(&self, uri: &str, position: Position) -> Vec<CompletionItem> {
        let Some(file) = self.file(uri) else { return Vec::new() };
        let offset = file.text.offset(position);
        let cursor = locate(&file.text, offset);
        let at = self.at(uri, position);
        let (proposals, replaced) = match typed(file.text.as_str(), offset) {
            Some(inside) => {
                let word = inside.len() - inside.trim_end_matches(is_name_part).len();
                let found = at.map(|at| self.in_expression(&at, &cursor, &inside)).unwrap_or_default();
                (found, offset - word..offset)
            }
            None => match cursor.typing {
                Typing::Key => (self.keys(at.as_ref(), &cursor), cursor.typed),
                Typing::Value(_) | Typing::Item => {
                    let typed = file.text.as_str().get(cursor.typed.clone()).unwrap_or_default();
                    let word = typed.len() - typed.trim_end_matches(is_value_part).len();
                    let found = self.values(at.as_ref(), &cursor, typed);
                    (found, offset - word..offset)
                }
            },
        };
        let range = file.text.range(replaced);
        let item = |proposal: Proposal| {
            let text = proposal.insert.clone().unwrap_or_else(|| proposal.label.clone());
            CompletionItem {
                sort_text: Some(format!("{}{}", proposal.rank, proposal.label)),
                filter_text: Some(proposal.label.clone()),
                label: proposal.label,
                kind: Some(proposal.kind),
                detail: proposal.detail,
                documentation: proposal.documentation.map(markdown),
                text_edit: Some(CompletionItemTextEdit::TextEdit(TextEdit { range, new_text: text })),
                ..CompletionItem::default()
            }
        };
        proposals.into_iter().map(item).collect()
    }
}

fn markdown(text: String) -> Documentation {
    Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value: text })
}

fn is_name_part(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Whether a letter is a part of a kind, API version or type that is being typed.
fn is_value_part(letter: char) -> bool {
    is_name_part(letter) || matches!(letter, '.' | '/' | '-')
}
