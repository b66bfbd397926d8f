//! Connects a [`Workspace`] to an editor: the language server protocol over standard input and output.
//!
//! Messages are handled one after the other, so that every answer is about the text that the editor had when it asked. Diagnostics are
//! published when no message is waiting: while somebody types, only the last text is checked.

mod configuration;
mod disk;
mod requests;

use std::collections::{BTreeMap, BTreeSet};

use gen_lsp_types::{
    DidChangeTextDocumentParams, DidChangeWatchedFilesParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, FileChangeType, PublishDiagnosticsParams, TextDocumentContentChangeEvent, Uri,
};
use lsp_server::{Connection, Message, Notification, ProtocolError, Request, RequestId};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

pub use configuration::Configuration;

use crate::Workspace;
use configuration::ConfigurationError;

/// Why the server ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The editor does not speak the protocol.
    #[error("cannot talk to the editor: {0}")]
    Protocol(#[from] ProtocolError),
    /// The schemas that the flags name cannot be loaded.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Standard input or output failed.
    #[error("cannot read from the editor: {0}")]
    Io(#[from] std::io::Error),
}

/// Serves the editor at the other end of standard input and output, until it asks to stop.
///
/// # Errors
/// The schemas cannot be loaded, or the connection fails.
pub fn run(configuration: Configuration) -> Result<(), ServerError> {
    // Before the editor waits for an answer.
    configuration.settings()?;
    let (connection, threads) = Connection::stdio();
    serve(&connection, configuration)?;
    drop(connection);
    threads.join()?;
    Ok(())
}

/// Serves the editor at the other end of a connection, until it asks to stop.
///
/// # Errors
/// The schemas cannot be loaded, or the connection fails.
pub fn serve(connection: &Connection, configuration: Configuration) -> Result<(), ServerError> {
    let (id, parameters) = connection.initialize_start()?;
    connection.initialize_finish(id, requests::capabilities())?;
    let options = parameters.get("initializationOptions").cloned().unwrap_or_default();
    let mut session = Session {
        connection,
        workspace: Workspace::new(configuration.settings()?),
        given: configuration,
        versions: BTreeMap::new(),
        waiting: BTreeSet::new(),
    };
    session.configure(&options);
    session.load(&disk::folders(&parameters));
    if disk::can_watch(&parameters) {
        session.watch();
    }
    session.run()
}

/// The conversation with one editor.
struct Session<'c> {
    connection: &'c Connection,
    workspace: Workspace,
    /// What the command line says; the editor's settings add to it.
    given: Configuration,
    /// The open files, with the version of their text.
    versions: BTreeMap<String, i32>,
    /// The open files whose diagnostics are not published yet.
    waiting: BTreeSet<String>,
}

impl Session<'_> {
    fn run(&mut self) -> Result<(), ServerError> {
        loop {
            if self.connection.receiver.is_empty() {
                self.publish();
            }
            let Ok(message) = self.connection.receiver.recv() else { return Ok(()) };
            match message {
                Message::Request(request) => {
                    if self.connection.handle_shutdown(&request)? {
                        return Ok(());
                    }
                    self.request(request);
                }
                Message::Notification(notification) => self.notification(notification),
                // Answers to the registration of watchers.
                Message::Response(_) => {}
            }
        }
    }

    fn request(&mut self, request: Request) {
        let response = requests::answer(&self.workspace, request);
        self.send(Message::Response(response));
    }

    fn send(&self, message: Message) {
        // When the editor is gone, the receiver is closed as well, which ends the session.
        let _ = self.connection.sender.send(message);
    }

    fn notify(&self, method: &str, parameters: Json) {
        self.send(Message::Notification(Notification { method: method.to_owned(), params: parameters }));
    }

    fn notification(&mut self, notification: Notification) {
        let Notification { method, params } = notification;
        match method.as_str() {
            "textDocument/didOpen" => {
                if let Some(DidOpenTextDocumentParams { text_document: opened }) = read(params) {
                    self.opened(&opened.uri.0, opened.version, &opened.text);
                }
            }
            "textDocument/didChange" => self.changed(read(params)),
            "textDocument/didClose" => {
                if let Some(DidCloseTextDocumentParams { text_document }) = read(params) {
                    self.closed(&text_document.uri.0);
                }
            }
            "workspace/didChangeConfiguration" => {
                self.configure(params.get("settings").unwrap_or(&Json::Null));
            }
            "workspace/didChangeWatchedFiles" => self.files_changed(read(params)),
            "workspace/didChangeWorkspaceFolders" => {
                let added = params.pointer("/event/added").cloned().unwrap_or_default();
                self.load(&disk::folders(&json!({"workspaceFolders": added})));
            }
            _ => {}
        }
    }

    fn opened(&mut self, uri: &str, version: i32, text: &str) {
        // The editor may spell the address of a file in another way than it was loaded under.
        if let Some(path) = disk::path_of(uri) {
            let loaded = disk::uri_of(&path);
            if loaded != uri && !self.versions.contains_key(&loaded) {
                self.workspace.remove(&loaded);
            }
        }
        self.versions.insert(uri.to_owned(), version);
        let affects_others = self.workspace.set(uri, text);
        self.check(uri, affects_others);
    }

    fn changed(&mut self, parameters: Option<DidChangeTextDocumentParams>) {
        let Some(DidChangeTextDocumentParams { text_document, content_changes }) = parameters else { return };
        let uri = text_document.text_document_identifier.uri.0;
        let mut affects_others = false;
        for change in content_changes {
            affects_others |= match change {
                TextDocumentContentChangeEvent::TextDocumentContentChangePartial(change) => {
                    self.workspace.edit(&uri, change.range, &change.text)
                }
                TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(change) => {
                    self.workspace.set(&uri, change.text)
                }
            };
        }
        self.versions.insert(uri.clone(), text_document.version);
        self.check(&uri, affects_others);
    }

    fn closed(&mut self, uri: &str) {
        self.versions.remove(uri);
        self.waiting.remove(uri);
        let stored = disk::path_of(uri).and_then(|path| disk::read(&path));
        let affects_others = match stored {
            Some(text) => self.workspace.set(uri, text),
            None => self.workspace.remove(uri),
        };
        self.notify("textDocument/publishDiagnostics", json!({"uri": uri, "diagnostics": []}));
        if affects_others {
            self.check_all();
        }
    }

    fn files_changed(&mut self, parameters: Option<DidChangeWatchedFilesParams>) {
        let mut affects_others = false;
        for event in parameters.map(|parameters| parameters.changes).unwrap_or_default() {
            let Some(path) = disk::path_of(&event.uri.0) else { continue };
            let uri =
                if self.workspace.text(&event.uri.0).is_some() { event.uri.0 } else { disk::uri_of(&path) };
            if self.versions.contains_key(&uri) {
                continue;
            }
            let stored = if event.kind == FileChangeType::Deleted { None } else { disk::read(&path) };
            affects_others |= match stored {
                Some(text) => self.workspace.set(&uri, text),
                None => self.workspace.remove(&uri),
            };
        }
        if affects_others {
            self.check_all();
        }
    }

    /// Applies the settings of the editor on top of those of the command line.
    fn configure(&mut self, settings: &Json) {
        let combined = self.given.with_editor(settings).and_then(|combined| combined.settings());
        match combined {
            Ok(settings) => self.workspace.set_settings(settings),
            Err(error) => {
                self.notify("window/showMessage", json!({"type": 1, "message": format!("kross: {error}")}));
            }
        }
        self.check_all();
    }

    /// Reads the files of workspace folders, except open ones.
    fn load(&mut self, folders: &[std::path::PathBuf]) {
        for (path, text) in disk::files(folders) {
            let uri = disk::uri_of(&path);
            if !self.versions.contains_key(&uri) {
                self.workspace.set(&uri, text);
            }
        }
        self.check_all();
    }

    fn watch(&self) {
        let watchers = json!([{"globPattern": "**/*.{yaml,yml}"}]);
        let registration = json!({
            "id": "files",
            "method": "workspace/didChangeWatchedFiles",
            "registerOptions": {"watchers": watchers},
        });
        self.send(Message::Request(Request {
            id: RequestId::from("register".to_owned()),
            method: "client/registerCapability".to_owned(),
            params: json!({"registrations": [registration]}),
        }));
    }

    fn check(&mut self, uri: &str, affects_others: bool) {
        self.waiting.insert(uri.to_owned());
        if affects_others {
            self.check_all();
        }
    }

    fn check_all(&mut self) {
        self.waiting.extend(self.versions.keys().cloned());
    }

    /// Publishes the diagnostics of the files that changed, unless another message is waiting.
    fn publish(&mut self) {
        while let Some(uri) = self.waiting.pop_first() {
            let parameters = PublishDiagnosticsParams {
                version: self.versions.get(&uri).copied(),
                diagnostics: self.workspace.diagnostics(&uri),
                uri: Uri::from(uri),
            };
            let parameters = serde_json::to_value(parameters).unwrap_or_default();
            self.notify("textDocument/publishDiagnostics", parameters);
            if !self.connection.receiver.is_empty() {
                return;
            }
        }
    }
}

/// The parameters of a message; none if they are not what the protocol says.
fn read<T: DeserializeOwned>(parameters: Json) -> Option<T> {
    serde_json::from_value(parameters).ok()
}
