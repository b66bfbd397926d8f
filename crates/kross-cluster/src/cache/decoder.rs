//! Turns the pieces of a watch's body into its events, one per line.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::Status;
use crate::object::{StoredObject, UnreadableObject, read_object};

/// The longest line that is read. The largest object that etcd takes is far smaller.
const MAX_LINE: usize = 32 << 20;

/// Collects pieces and gives out whole lines.
#[derive(Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of a line.
    scanned: usize,
}

/// A line went on for too long.
#[derive(Debug)]
pub(super) struct LineTooLong;

impl Lines {
    pub(super) fn push(&mut self, piece: &Bytes) -> Result<(), LineTooLong> {
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() - self.scanned > MAX_LINE && !piece.contains(&b'\n') {
            return Err(LineTooLong);
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Option<BytesMut> {
        loop {
            let rest = self.buffer.get(self.scanned..)?;
            let Some(at) = rest.iter().position(|byte| *byte == b'\n') else {
                self.scanned = self.buffer.len();
                return None;
            };
            let mut line = self.buffer.split_to(self.scanned + at + 1);
            self.scanned = 0;
            line.truncate(line.len() - 1);
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
    }
}

/// One event of a watch.
#[derive(Debug)]
pub(super) enum Event {
    /// An object is new or has changed.
    Applied(Box<StoredObject>),
    /// An object is gone or no longer selected.
    Deleted(Box<StoredObject>),
    /// Everything up to this version has been sent.
    Bookmark(String),
    /// The watch cannot go on.
    Failed(Box<Status>),
    /// Something that a later version may know.
    Unknown,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
struct BookmarkMetadata {
    #[serde(rename = "resourceVersion")]
    resource_version: String,
}

impl Event {
    /// Reads a line. `None` if it is no event at all.
    pub(super) fn read(line: &[u8]) -> Option<Result<Self, UnreadableObject>> {
        let line: Line<'_> = serde_json::from_slice(line).ok()?;
        let bytes = line.object.get().as_bytes();
        Some(match &*line.kind {
            "ADDED" | "MODIFIED" => read_object(bytes).map(|object| Self::Applied(Box::new(object))),
            "DELETED" => read_object(bytes).map(|object| Self::Deleted(Box::new(object))),
            "BOOKMARK" => Ok(serde_json::from_slice::<Bookmark>(bytes)
                .map_or(Self::Unknown, |bookmark| Self::Bookmark(bookmark.metadata.resource_version))),
            "ERROR" => Ok(Self::Failed(Box::new(Status::read(bytes).unwrap_or_default()))),
            _ => Ok(Self::Unknown),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_the_pieces_fall() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\n{\"c\":3}";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for piece in text.chunks(size) {
                lines.push(&Bytes::copy_from_slice(piece)).unwrap();
                while let Some(line) = lines.next() {
                    seen.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(seen, ["{\"a\":1}", "{\"b\":2}"], "pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut lines = Lines::default();
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let pushed = (0..100).map_while(|_| lines.push(&piece).ok()).count();
        assert!(pushed < 40);
    }

    #[test]
    fn events_are_read_by_their_type() {
        let read = |line: &str| Event::read(line.as_bytes()).unwrap().unwrap();
        let object =
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"3"}}"#;
        assert!(matches!(read(&format!(r#"{{"type":"ADDED","object":{object}}}"#)), Event::Applied(_)));
        assert!(matches!(read(&format!(r#"{{"type":"DELETED","object":{object}}}"#)), Event::Deleted(_)));
        let bookmark =
            r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"9"}}}"#;
        assert!(matches!(read(bookmark), Event::Bookmark(version) if version == "9"));
        let error = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        assert!(matches!(read(error), Event::Failed(status) if status.code() == Some(410)));
        assert!(Event::read(b"<html>").is_none());
    }
}
