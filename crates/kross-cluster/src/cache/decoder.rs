//! Splits the body of a watch into lines, and parses each line into an event.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::Status;
use crate::object::{StoredObject, UnreadableObject, read_object_or_outline};

/// The longest line that is read. The largest object that etcd accepts is far smaller.
const MAX_LINE: usize = 32 << 20;

/// Buffers chunks and returns whole lines.
#[derive(Default)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to contain no line break.
    scanned: usize,
}

/// A line exceeds the limit.
#[derive(Debug)]
pub(crate) struct LineTooLong;

impl Lines {
    pub(crate) fn push(&mut self, chunk: &Bytes) -> Result<(), LineTooLong> {
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() - self.scanned > MAX_LINE && !chunk.contains(&b'\n') {
            return Err(LineTooLong);
        }
        Ok(())
    }

    /// Whether there is nothing left after the last whole line.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.iter().all(u8::is_ascii_whitespace)
    }

    pub(crate) fn next(&mut self) -> Option<BytesMut> {
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

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum Event {
    /// `ADDED` or `MODIFIED`.
    Applied(Box<StoredObject>),
    /// `DELETED`: an object was deleted, or no longer matches the selector.
    Deleted(Box<StoredObject>),
    /// `BOOKMARK`: everything up to this resource version has been sent.
    Bookmark(String),
    /// `ERROR`: the watch has failed.
    Failed(Box<Status>),
    /// An event type that a later version of Kubernetes may add.
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
    /// Parses a line. `None` if it is not an event.
    pub(crate) fn read(line: &[u8]) -> Option<Result<Self, UnreadableObject>> {
        let line: Line<'_> = serde_json::from_slice(line).ok()?;
        let bytes = line.object.get().as_bytes();
        Some(match &*line.kind {
            "ADDED" | "MODIFIED" => {
                read_object_or_outline(bytes).map(|object| Self::Applied(Box::new(object)))
            }
            "DELETED" => read_object_or_outline(bytes).map(|object| Self::Deleted(Box::new(object))),
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
    fn lines_are_joined_across_chunks() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\n{\"c\":3}";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(&Bytes::copy_from_slice(chunk)).unwrap();
                while let Some(line) = lines.next() {
                    seen.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(seen, ["{\"a\":1}", "{\"b\":2}"], "chunks of {size}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_rejected() {
        let mut lines = Lines::default();
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        let pushed = (0..100).map_while(|_| lines.push(&chunk).ok()).count();
        assert!(pushed < 40);
    }

    #[test]
    fn events_of_unreadable_objects_have_their_outline() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(5000), "}".repeat(5000));
        for kind in ["MODIFIED", "DELETED"] {
            let line = format!(
                r#"{{"type":"{kind}","object":{{"apiVersion":"v1","kind":"ConfigMap","spec":{deep},
                "metadata":{{"name":"a","resourceVersion":"3"}}}}}}"#
            );
            let (Event::Applied(object) | Event::Deleted(object)) =
                Event::read(line.as_bytes()).unwrap().unwrap()
            else {
                panic!("{kind} is about an object")
            };
            assert_eq!((object.name().as_str(), object.version()), ("a", Some(3)));
            assert!(object.unreadable().is_some());
        }
    }

    #[test]
    fn events_are_parsed_by_their_type() {
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
