//! Answers requests: reads the parameters, asks the workspace, and writes what it returns.

use gen_lsp_types::{
    CodeActionParams, CompletionParams, DefinitionParams, DocumentFormattingParams, DocumentSymbolParams,
    FoldingRangeParams, HoverParams, InlayHintParams, PrepareRenameParams, ReferenceParams, RenameParams,
    SemanticTokens, SemanticTokensParams, TextDocumentPositionParams,
};
use lsp_server::{ErrorCode, Request, RequestId, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::{TOKEN_MODIFIERS, TOKEN_TYPES, Workspace};

/// What the server can do.
pub(super) fn capabilities() -> Json {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            // Incremental changes.
            "textDocumentSync": {"openClose": true, "change": 2},
            "completionProvider": {"triggerCharacters": [".", "{", ":", " ", "|", "?"]},
            "hoverProvider": true,
            "definitionProvider": true,
            "referencesProvider": true,
            "renameProvider": {"prepareProvider": true},
            "codeActionProvider": {"codeActionKinds": ["quickfix"]},
            "documentSymbolProvider": true,
            "foldingRangeProvider": true,
            "documentFormattingProvider": true,
            "inlayHintProvider": true,
            "semanticTokensProvider": {
                "legend": {"tokenTypes": TOKEN_TYPES, "tokenModifiers": TOKEN_MODIFIERS},
                "full": true,
            },
            "workspace": {"workspaceFolders": {"supported": true, "changeNotifications": true}},
        },
        "serverInfo": {"name": "kross", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// The answer to a request.
pub(super) fn answer(workspace: &Workspace, request: Request) -> Response {
    let Request { id, method, params } = request;
    let call = Call { id, params };
    match method.as_str() {
        "textDocument/completion" => call.answer(|asked: CompletionParams| {
            let (uri, position) = place(asked.text_document_position_params);
            workspace.completion(&uri, position)
        }),
        "textDocument/hover" => call.answer(|asked: HoverParams| {
            let (uri, position) = place(asked.text_document_position_params);
            workspace.hover(&uri, position)
        }),
        "textDocument/definition" => call.answer(|asked: DefinitionParams| {
            let (uri, position) = place(asked.text_document_position_params);
            workspace.definition(&uri, position)
        }),
        "textDocument/references" => call.answer(|asked: ReferenceParams| {
            let (uri, position) = place(asked.text_document_position_params);
            workspace.references(&uri, position, asked.context.include_declaration)
        }),
        "textDocument/prepareRename" => call.answer(|asked: PrepareRenameParams| {
            let (uri, position) = place(asked.text_document_position_params);
            workspace.prepare_rename(&uri, position)
        }),
        "textDocument/rename" => rename(workspace, call),
        "textDocument/codeAction" => call.answer(|asked: CodeActionParams| {
            workspace.code_actions(&asked.text_document.uri.0, asked.range)
        }),
        "textDocument/documentSymbol" => {
            call.answer(|asked: DocumentSymbolParams| workspace.document_symbols(&asked.text_document.uri.0))
        }
        "textDocument/foldingRange" => {
            call.answer(|asked: FoldingRangeParams| workspace.folding_ranges(&asked.text_document.uri.0))
        }
        "textDocument/formatting" => {
            call.answer(|asked: DocumentFormattingParams| workspace.formatting(&asked.text_document.uri.0))
        }
        "textDocument/inlayHint" => call
            .answer(|asked: InlayHintParams| workspace.inlay_hints(&asked.text_document.uri.0, asked.range)),
        "textDocument/semanticTokens/full" => call.answer(|asked: SemanticTokensParams| SemanticTokens {
            result_id: None,
            data: workspace.semantic_tokens(&asked.text_document.uri.0),
        }),
        other => call.refused(ErrorCode::MethodNotFound, format!("kross does not answer `{other}`")),
    }
}

fn place(asked: TextDocumentPositionParams) -> (String, gen_lsp_types::Position) {
    (asked.text_document.uri.0, asked.position)
}

fn rename(workspace: &Workspace, call: Call) -> Response {
    let asked: RenameParams = match serde_json::from_value(call.params.clone()) {
        Ok(asked) => asked,
        Err(error) => return call.refused(ErrorCode::InvalidParams, error.to_string()),
    };
    let (uri, position) = place(asked.text_document_position_params);
    match workspace.rename(&uri, position, &asked.new_name) {
        Ok(edit) => Response::new_ok(call.id, serde_json::to_value(edit).unwrap_or_default()),
        Err(error) => call.refused(ErrorCode::RequestFailed, error.to_string()),
    }
}

/// A request that is being answered.
struct Call {
    id: RequestId,
    params: Json,
}

impl Call {
    fn answer<P: DeserializeOwned, R: Serialize>(self, answer: impl FnOnce(P) -> R) -> Response {
        match serde_json::from_value(self.params) {
            Ok(asked) => Response::new_ok(self.id, serde_json::to_value(answer(asked)).unwrap_or_default()),
            Err(error) => Response::new_err(self.id, ErrorCode::InvalidParams as i32, error.to_string()),
        }
    }

    fn refused(self, code: ErrorCode, message: String) -> Response {
        Response::new_err(self.id, code as i32, message)
    }
}
