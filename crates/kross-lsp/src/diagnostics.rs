//! The diagnostics of a file: those of `kross validate`, and those of instances whose definition is in the workspace.

use gen_lsp_types::{
    Code as EditorCode, Diagnostic as EditorDiagnostic, DiagnosticRelatedInformation, DiagnosticSeverity,
    Location, Message,
};
use kross_api::yaml::Document;
use kross_diagnostics::{Diagnostic, Diagnostics, Severity};
use kross_graph::{check_instance, is_crd, is_definition, near_miss, validate};
use kross_schema::CrdSchemas;

use crate::recovery::{ParsedDocument, bytes};
use crate::text::Text;
use crate::workspace::{File, Workspace, generated_kind, kind_of};

/// The codes of mistakes in `${}` and in the syntax of expressions. They depend on one string alone, so that they are also reported
/// while another part of the document is not YAML.
const OF_ONE_STRING: [&str; 2] = ["K04", "K05"];

impl Workspace {
    /// Every diagnostic of a file, sorted by position.
    #[must_use]
    pub fn diagnostics(&self, uri: &str) -> Vec<EditorDiagnostic> {
        let Some(file) = self.file(uri) else { return Vec::new() };
        let convert = |found: &Diagnostic| to_editor(found, uri, &file.text);
        self.findings(file).iter().map(convert).collect()
    }

    /// Every diagnostic of a file as the compiler reports it.
    pub(crate) fn findings(&self, file: &File) -> Diagnostics {
        let mut found = file.parsed.diagnostics.clone();
        for parsed in &file.parsed.documents {
            found.extend(self.document_findings(parsed));
        }
        found.sort();
        found
    }

    fn document_findings(&self, parsed: &ParsedDocument) -> Vec<Diagnostic> {
        let document = &parsed.document;
        if is_definition(document) {
            let options = self.settings().options();
            let found = validate(document, self.schemas(), &options).diagnostics.into_iter();
            let is_reliable = |found: &Diagnostic| {
                parsed.intact || OF_ONE_STRING.iter().any(|block| found.code.id().starts_with(block))
            };
            return found.filter(is_reliable).collect();
        }
        if !parsed.intact {
            return Vec::new();
        }
        if is_crd(document) {
            let problems = CrdSchemas::new().insert(document.value()).err().unwrap_or_default();
            return problems.iter().map(|problem| problem.diagnostic(Some(document))).collect();
        }
        near_miss(document).into_iter().chain(self.instance_findings(document)).collect()
    }

    /// The reasons for which an API server would reject an instance of a definition in the workspace.
    fn instance_findings(&self, document: &Document) -> Vec<Diagnostic> {
        let kind = kind_of(document);
        let Some(expected) = self.definition_of(&kind).and_then(|(_, found)| generated_kind(&found.document))
        else {
            return Vec::new();
        };
        // Another API may have a kind of the same name.
        if expected != kind && self.resolver().resolve(&kind).is_some() {
            return Vec::new();
        }
        let problems = check_instance(document.value(), &expected, self.resolver());
        problems.iter().map(|problem| problem.diagnostic(Some(document))).collect()
    }
}

fn to_editor(found: &Diagnostic, uri: &str, text: &Text) -> EditorDiagnostic {
    let range = found.primary.as_ref().map_or(0..0, |label| bytes(label.span));
    let related = |label: &kross_diagnostics::Label| DiagnosticRelatedInformation {
        location: Location { uri: uri.into(), range: text.range(bytes(label.span)) },
        message: label.text.clone(),
    };
    let related: Vec<_> = found.secondary.iter().map(related).collect();
    EditorDiagnostic {
        range: text.range(range),
        severity: Some(match found.severity {
            Severity::Error => DiagnosticSeverity::Error,
            Severity::Warning => DiagnosticSeverity::Warning,
        }),
        code: Some(EditorCode::String(found.code.id().to_owned())),
        source: Some("kross".to_owned()),
        message: Message::String(message(found)),
        related_information: (!related.is_empty()).then_some(related),
        ..EditorDiagnostic::default()
    }
}

/// The message with its label, help and notes, as `kross validate` shows them.
fn message(found: &Diagnostic) -> String {
    let mut message = found.message.clone();
    let label = found.primary.as_ref().map(|label| label.text.as_str()).filter(|label| !label.is_empty());
    let mut line = |prefix: &str, text: &str| {
        message.push('\n');
        message.push_str(prefix);
        message.push_str(text);
    };
    if let Some(label) = label {
        line("", label);
    }
    found.help.iter().for_each(|help| line("help: ", &help.text));
    found.notes.iter().for_each(|note| line("note: ", note));
    message
}
