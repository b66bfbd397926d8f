//! Plays a session: each line of the script is something that an editor does, or something that it must then see.

use std::path::Path;

use serde_json::{Value, json};

use super::client::{Client, position, shown};

pub(crate) fn run(script: &Path, folder: &Path) {
    let mut client = Client::start(folder);
    for (number, line) in std::fs::read_to_string(script).unwrap().lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (step, expected) = line.split_once(": ").unwrap_or((line, ""));
        let words: Vec<&str> = step.split(' ').collect();
        let context = format!("line {}: {line}", number + 1);
        play(&mut client, &words, expected, &context);
    }
    client.stop();
}

fn play(client: &mut Client, words: &[&str], expected: &str, context: &str) {
    match words {
        ["open", file] => client.open(file),
        ["diagnostics", file] => {
            let found = client.diagnostics(file, |text, found| diagnostics(text, found) == expected);
            assert_eq!(diagnostics(client.text(file), &found), expected, "{context}: {found}");
        }
        ["line", file, number] => {
            let number: usize = number.parse().unwrap();
            assert_eq!(client.text(file).lines().nth(number - 1).unwrap(), expected, "{context}");
        }
        ["type", file, place] => {
            let at = position(client.text(file), place);
            client.edit(file, &json!({"start": at, "end": at}), &expected.replace("\\n", "\n"));
        }
        ["erase", file, from, to] => {
            let text = client.text(file);
            let range = json!({"start": position(text, from), "end": position(text, to)});
            client.edit(file, &range, "");
        }
        ["fix", file, place] => fix(client, file, place, expected, context),
        ["complete", file, place] => complete(client, file, place, expected, context),
        ["hover", file, place] => {
            let found = ask(client, "hover", file, place);
            assert!(found["contents"]["value"].as_str().unwrap().contains(expected), "{context}: {found}");
        }
        ["definition", file, place] => {
            let found = ask(client, "definition", file, place);
            assert_eq!(location(client, &found), expected, "{context}");
        }
        ["references", file, place] => {
            let mut parameters = at(client, file, place);
            parameters["context"] = json!({"includeDeclaration": true});
            let found = client.request("textDocument/references", parameters);
            let mut found: Vec<String> =
                found.as_array().unwrap().iter().map(|found| location(client, found)).collect();
            found.sort();
            assert_eq!(found.join(", "), expected, "{context}");
        }
        ["rename", file, place, name] => rename(client, file, place, name),
        ["refuse", "rename", file, place, name] => {
            let mut parameters = at(client, file, place);
            parameters["newName"] = json!(name);
            assert!(client.refused("textDocument/rename", parameters).contains(name), "{context}");
        }
        ["hints", file] => {
            let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 9999, "character": 0}});
            let found = about(client, "inlayHint", file, &json!({"range": range}));
            let hint = |hint: &Value| {
                format!(
                    "{} {}",
                    hint["position"]["line"].as_u64().unwrap() + 1,
                    hint["label"].as_str().unwrap()
                )
            };
            let found: Vec<String> = found.as_array().unwrap().iter().map(hint).collect();
            assert_eq!(found.join(", ").replace(" : ", ": "), expected, "{context}");
        }
        ["symbols", file] => {
            let found = about(client, "documentSymbol", file, &json!({}));
            let children = found[0]["children"].as_array().unwrap().iter();
            let names: Vec<&str> = found
                .as_array()
                .unwrap()
                .iter()
                .chain(children)
                .map(|symbol| symbol["name"].as_str().unwrap())
                .collect();
            assert_eq!(names.join(", "), expected, "{context}");
        }
        ["tokens", file] => {
            let found = about(client, "semanticTokens/full", file, &json!({}));
            assert!(
                found["data"].as_array().is_some_and(|data| !data.is_empty() && data.len() % 5 == 0),
                "{context}: {found}"
            );
        }
        ["format", file] => {
            let found =
                about(client, "formatting", file, &json!({"options": {"tabSize": 2, "insertSpaces": true}}));
            assert!(found.is_array(), "{context}: {found}");
        }
        ["folds", file] => {
            let found = about(client, "foldingRange", file, &json!({}));
            assert!(found.as_array().is_some_and(|ranges| ranges.len() > 5), "{context}: {found}");
        }
        other => panic!("{context}: unknown step {other:?}"),
    }
}

fn at(client: &Client, file: &str, place: &str) -> Value {
    json!({"textDocument": {"uri": client.uri(file)}, "position": position(client.text(file), place)})
}

/// A request about a place.
fn ask(client: &mut Client, method: &str, file: &str, place: &str) -> Value {
    let parameters = at(client, file, place);
    client.request(&format!("textDocument/{method}"), parameters)
}

/// A request about a file.
fn about(client: &mut Client, method: &str, file: &str, more: &Value) -> Value {
    let mut parameters = more.clone();
    parameters["textDocument"] = json!({"uri": client.uri(file)});
    client.request(&format!("textDocument/{method}"), parameters)
}

/// A location as `file line:column`.
fn location(client: &Client, location: &Value) -> String {
    let file = client.file(&location["uri"]);
    format!("{file} {}", shown(client.text(&file), &location["range"]["start"]))
}

/// Diagnostics as `CODE at LINE:COLUMN`.
fn diagnostics(text: &str, found: &Value) -> String {
    let show = |found: &Value| {
        format!("{} at {}", found["code"].as_str().unwrap(), shown(text, &found["range"]["start"]))
    };
    let found: Vec<String> = found.as_array().into_iter().flatten().map(show).collect();
    if found.is_empty() { "none".to_owned() } else { found.join(", ") }
}

fn fix(client: &mut Client, file: &str, place: &str, title: &str, context: &str) {
    let at = position(client.text(file), place);
    let more = json!({"range": {"start": at, "end": at}, "context": {"diagnostics": []}});
    let found = about(client, "codeAction", file, &more);
    let action = found.as_array().unwrap().iter().find(|action| action["title"] == title);
    let action = action.unwrap_or_else(|| panic!("{context}: {found}"));
    apply(client, &action["edit"]);
}

fn complete(client: &mut Client, file: &str, place: &str, expected: &str, context: &str) {
    let found = ask(client, "completion", file, place);
    let labels: Vec<&str> =
        found.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect();
    for label in expected.split(", ") {
        assert!(labels.contains(&label), "{context}: {labels:?}");
    }
}

fn rename(client: &mut Client, file: &str, place: &str, name: &str) {
    let mut parameters = at(client, file, place);
    parameters["newName"] = json!(name);
    let edit = client.request("textDocument/rename", parameters);
    apply(client, &edit);
}

/// Applies the edits of all files, from the last one of each to the first, so that none moves another.
fn apply(client: &mut Client, edit: &Value) {
    for (uri, edits) in edit["changes"].as_object().unwrap() {
        let file = client.file(&json!(uri));
        let mut edits = edits.as_array().unwrap().clone();
        let start = |edit: &Value| {
            let start = &edit["range"]["start"];
            (start["line"].as_u64().unwrap(), start["character"].as_u64().unwrap())
        };
        edits.sort_by_key(|edit| std::cmp::Reverse(start(edit)));
        for edit in edits {
            client.edit(&file, &edit["range"], edit["newText"].as_str().unwrap());
        }
    }
}
