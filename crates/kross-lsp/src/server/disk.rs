//! The files of the editor's folders, and the addresses by which the editor names them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

/// Larger files are not definitions that somebody wrote.
const MAX_BYTES: u64 = 4 << 20;
/// More files are not read when the editor starts; they are when they are opened.
const MAX_FILES: usize = 2_000;
/// Folders without definitions.
const SKIPPED: [&str; 4] = ["node_modules", "target", "vendor", "dist"];

/// The folders that the editor has open.
pub(super) fn folders(parameters: &Json) -> Vec<PathBuf> {
    let listed = parameters.get("workspaceFolders").and_then(Json::as_array);
    let uris: Vec<&Json> = match listed {
        Some(listed) => listed.iter().filter_map(|folder| folder.get("uri")).collect(),
        None => parameters.get("rootUri").into_iter().collect(),
    };
    uris.into_iter().filter_map(Json::as_str).filter_map(path_of).collect()
}

/// Whether the editor can tell when files change.
pub(super) fn can_watch(parameters: &Json) -> bool {
    let dynamic = parameters.pointer("/capabilities/workspace/didChangeWatchedFiles/dynamicRegistration");
    dynamic.and_then(Json::as_bool).unwrap_or(false)
}

/// The YAML files of files and folders, with their text. What cannot be read is left out.
pub(super) fn files(paths: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut waiting: Vec<PathBuf> = paths.iter().rev().cloned().collect();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop().filter(|_| found.len() < MAX_FILES) {
        if !path.is_dir() {
            found.extend(read(&path).map(|text| (path, text)));
            continue;
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        let mut inner: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| is_wanted(path)).collect();
        inner.sort_by(|a, b| b.cmp(a));
        waiting.extend(inner);
    }
    found
}

fn is_wanted(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if path.is_dir() {
        // A link could lead back to a folder above.
        return !path.is_symlink() && !name.starts_with('.') && !SKIPPED.contains(&&*name);
    }
    path.extension().is_some_and(|extension| ["yaml", "yml"].iter().any(|known| extension == *known))
}

/// The text of a file.
pub(super) fn read(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    if size > MAX_BYTES {
        return None;
    }
    fs::read_to_string(path).ok()
}

/// The path of a `file:` address.
pub(super) fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    // Before the path is a host, which is empty or this one.
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let value = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(value).ok()?);
    }
    let path = String::from_utf8(bytes).ok()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The `file:` address of a path.
pub(super) fn uri_of(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_its_address_lead_to_each_other() {
        for path in ["/a/b.yaml", "/with space/é.yaml", "/100%/x+y@z.yaml"] {
            assert_eq!(path_of(&uri_of(Path::new(path))), Some(PathBuf::from(path)));
        }
        assert_eq!(uri_of(Path::new("/a b")), "file:///a%20b");
        assert_eq!(path_of("file://localhost/a"), Some(PathBuf::from("/a")));
        assert_eq!(path_of("untitled:Untitled-1"), None);
        assert_eq!(path_of("file:///a%2"), None);
    }
}
