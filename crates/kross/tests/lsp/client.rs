//! A client of the language server: it starts the program and speaks the protocol over its standard input and output.

#![allow(clippy::needless_pass_by_value, reason = "parameters are written as literals where they are used")]

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    folder: PathBuf,
    next: i64,
    /// The open files: their text and version.
    files: BTreeMap<String, (String, i64)>,
    /// The last diagnostics of each file, with the version that they are for.
    published: HashMap<String, (i64, Value)>,
}

/// The messages that the server writes.
fn messages(output: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut length = 0;
            let mut line = String::new();
            while output.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(number) = line.trim().strip_prefix("Content-Length: ") {
                    length = number.parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if length == 0 || output.read_exact(&mut body).is_err() {
                return;
            }
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Client {
    /// Starts the server and opens a folder.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let messages = messages(child.stdout.take().unwrap());
        let mut client = Self {
            child,
            input,
            messages,
            folder: folder.to_owned(),
            next: 0,
            files: BTreeMap::new(),
            published: HashMap::new(),
        };
        let root = format!("file://{}", folder.display());
        let answer = client.request("initialize", json!({
            "processId": null, "rootUri": root, "capabilities": {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": true}}},
            "workspaceFolders": [{"uri": root, "name": "workspace"}],
        }));
        assert_eq!(answer["serverInfo"]["name"], "kross", "{answer}");
        client.notify("initialized", &json!({}));
        client
    }

    pub(crate) fn uri(&self, file: &str) -> String {
        format!("file://{}", self.folder.join(file).display())
    }

    /// The name of the file with an address.
    pub(crate) fn file(&self, uri: &Value) -> String {
        uri.as_str().unwrap().rsplit('/').next().unwrap().to_owned()
    }

    pub(crate) fn text(&self, file: &str) -> &str {
        &self.files[file].0
    }

    fn write(&mut self, message: &Value) {
        let body = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.input.flush().unwrap();
    }

    fn notify(&mut self, method: &str, parameters: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": parameters}));
    }

    /// The next message, and what is known because of it. None if the server has nothing to say.
    fn receive(&mut self) -> Option<Value> {
        let message = self.messages.recv_timeout(PATIENCE).ok()?;
        if message["method"] == "textDocument/publishDiagnostics" {
            let parameters = &message["params"];
            let file = self.file(&parameters["uri"]);
            let version = parameters["version"].as_i64().unwrap_or(-1);
            self.published.insert(file, (version, parameters["diagnostics"].clone()));
        } else if message.get("method").is_some() && message.get("id").is_some() {
            let id = message["id"].clone();
            self.write(&json!({"jsonrpc": "2.0", "id": id, "result": null}));
        }
        Some(message)
    }

    fn response(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        loop {
            let message = self.receive().unwrap_or_else(|| panic!("{method} is not answered"));
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The result of a request.
    pub(crate) fn request(&mut self, method: &str, parameters: Value) -> Value {
        let response = self.response(method, parameters);
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].clone()
    }

    /// The message with which a request is refused.
    pub(crate) fn refused(&mut self, method: &str, parameters: Value) -> String {
        let response = self.response(method, parameters);
        response["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {response}")).to_owned()
    }

    pub(crate) fn open(&mut self, file: &str) {
        let text = super::text(&self.folder, file);
        let document = json!({"uri": self.uri(file), "languageId": "yaml", "version": 1, "text": text});
        self.notify("textDocument/didOpen", &json!({"textDocument": document}));
        self.files.insert(file.to_owned(), (text, 1));
    }

    /// Replaces a range of an open file; an edit of another file is written to the disk, as an editor does on saving.
    pub(crate) fn edit(&mut self, file: &str, range: &Value, with: &str) {
        let uri = self.uri(file);
        let (text, version) = self.files.get_mut(file).unwrap();
        let bytes = offset(text, &range["start"])..offset(text, &range["end"]);
        text.replace_range(bytes, with);
        *version += 1;
        let document = json!({"uri": uri, "version": *version});
        let change = json!({"range": range, "text": with});
        self.notify("textDocument/didChange", &json!({"textDocument": document, "contentChanges": [change]}));
    }

    /// The diagnostics of the text as it is now, when they are as wanted; else the last ones. A change of another file can change
    /// them again.
    pub(crate) fn diagnostics(&mut self, file: &str, wanted: impl Fn(&str, &Value) -> bool) -> Value {
        let (text, version) = self.files[file].clone();
        loop {
            let current = self.published.get(file).filter(|(published, _)| *published == version);
            if let Some((_, found)) = current.filter(|(_, found)| wanted(&text, found)) {
                return found.clone();
            }
            if self.receive().is_none() {
                return self.published.get(file).map(|(_, found)| found.clone()).unwrap_or_default();
            }
        }
    }

    pub(crate) fn stop(mut self) {
        self.request("shutdown", Value::Null);
        self.notify("exit", &Value::Null);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The byte offset of a position of the protocol.
pub(crate) fn offset(text: &str, position: &Value) -> usize {
    let line = usize::try_from(position["line"].as_u64().unwrap()).unwrap();
    let mut left = usize::try_from(position["character"].as_u64().unwrap()).unwrap();
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut at = start;
    for letter in text[start..].chars() {
        if left == 0 || letter == '\n' {
            break;
        }
        left = left.saturating_sub(letter.len_utf16());
        at += letter.len_utf8();
    }
    at
}

/// The position of the protocol for a line and a column, both from 1.
pub(crate) fn position(text: &str, place: &str) -> Value {
    let (line, column) = place.split_once(':').unwrap();
    let (line, column): (usize, usize) = (line.parse().unwrap(), column.parse().unwrap());
    let before = text.lines().nth(line - 1).unwrap_or_default().chars().take(column - 1);
    json!({"line": line - 1, "character": before.map(char::len_utf16).sum::<usize>()})
}

/// A position of the protocol as a line and a column.
pub(crate) fn shown(text: &str, position: &Value) -> String {
    let at = offset(text, position);
    let before = &text[..at];
    let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
    format!("{}:{column}", before.matches('\n').count() + 1)
}
