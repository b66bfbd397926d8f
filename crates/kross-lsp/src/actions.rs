//! The fixes of diagnostics, as actions of the editor.

use std::collections::HashMap;

use gen_lsp_types::{CodeAction, CodeActionKind, Range as EditorRange, TextEdit, Uri, WorkspaceEdit};
use kross_diagnostics::{Diagnostic, Edit};

use crate::recovery::bytes;
use crate::text::Text;
use crate::workspace::Workspace;

impl Workspace {
    /// The fixes of the diagnostics that touch a range.
    #[must_use]
    pub fn code_actions(&self, uri: &str, range: EditorRange) -> Vec<CodeAction> {
        let Some(file) = self.file(uri) else { return Vec::new() };
        let selected = file.text.bytes(range);
        let touches = |found: &&Diagnostic| {
            let Some(label) = &found.primary else { return false };
            let span = bytes(label.span);
            span.start <= selected.end && selected.start <= span.end
        };
        let mut actions = Vec::new();
        let converted = self.diagnostics(uri);
        for (found, shown) in self.findings(file).iter().zip(converted).filter(|(found, _)| touches(found)) {
            let edits = found.help.iter().filter_map(|help| Some((help, help.edit.as_ref()?)));
            for (help, edit) in edits {
                actions.push(CodeAction {
                    title: title(&help.text, edit),
                    kind: Some(CodeActionKind::QuickFix),
                    diagnostics: Some(vec![shown.clone()]),
                    is_preferred: Some(true),
                    edit: Some(edit_of(uri, &file.text, edit)),
                    ..CodeAction::default()
                });
            }
        }
        actions
    }
}

/// What the fix does: the help text, if it already says what is written.
fn title(help: &str, edit: &Edit) -> String {
    let written = edit.replacement.trim();
    if help.contains(written) || written.is_empty() || written.contains('\n') {
        return help.to_owned();
    }
    format!("{help}: `{written}`")
}

fn edit_of(uri: &str, text: &Text, edit: &Edit) -> WorkspaceEdit {
    let edit = TextEdit { range: text.range(bytes(edit.span)), new_text: edit.replacement.clone() };
    let changes = HashMap::from([(Uri::from(uri), vec![edit])]);
    WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }
}
