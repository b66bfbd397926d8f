//! Splits the body of a watch into lines, and parses each line into an event.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::Status;
use crate::object::{StoredObject, UnreadableObject, read_object_or_outline};

/// The longest line that is read. The largest object that etcd accepts is far smaller.
const MAX_LINE: usize = 32 << 20;
const LINE_BREAK: u8 = b'\n';

/// Buffers chunks and returns whole lines.
#[derive(Default)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to contain no line break.
    scanned: usize,
    /// How many bytes arrived since the last line break. `scanned` does not tell: it grows with every chunk.
    unterminated: usize,
}

/// A line exceeds the limit.
#[derive(Debug)]
pub(crate) struct LineTooLong;

impl Lines {
    pub(crate) fn push(&mut self, chunk: &Bytes) -> Result<(), LineTooLong> {
        // Most chunks of a long line have no line break, and `contains` finds that out fast.
        let breaks = if chunk.contains(&LINE_BREAK) {
            let is_break = |byte: &u8| *byte == LINE_BREAK;
            chunk.iter().position(is_break).zip(chunk.iter().rposition(is_break))
        } else {
            None
        };
        let ends_line = breaks.map_or(chunk.len(), |(first, _)| first);
        if self.unterminated + ends_line > MAX_LINE {
            return Err(LineTooLong);
        }
        self.unterminated = match breaks {
            Some((_, last)) => chunk.len() - last - 1,
            None => self.unterminated + chunk.len(),
        };
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// Whether there is nothing left after the last whole line.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.iter().all(u8::is_ascii_whitespace)
    }

    pub(crate) fn next(&mut self) -> Option<BytesMut> {
        loop {
            let rest = self.buffer.get(self.scanned..)?;
            if !rest.contains(&LINE_BREAK) {
                self.scanned = self.buffer.len();
                return None;
            }
            let at = rest.iter().position(|byte| *byte == LINE_BREAK)?;
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
        let mut chunk = vec![b'x'; 1 << 20];
        // What precedes the long line does not count.
        chunk[1 << 19] = b'\n';
        lines.push(&Bytes::from(chunk)).unwrap();
        assert!(lines.next().is_some() && lines.next().is_none());
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        let mut pushed = 0;
        while lines.push(&chunk).is_ok() {
            assert!(lines.next().is_none());
            pushed += 1;
            assert!(pushed < 40, "{pushed} MiB without a line break");
        }
        assert_eq!(pushed, MAX_LINE / chunk.len() - 1);
        assert!(lines.buffer.len() <= MAX_LINE);
    }

    #[test]
    fn many_lines_may_be_longer_than_the_limit_together() {
        let mut lines = Lines::default();
        let mut chunk = vec![b'x'; 1 << 20];
        chunk[1 << 10] = b'\n';
        let chunk = Bytes::from(chunk);
        for _ in 0..2 * MAX_LINE / chunk.len() {
            lines.push(&chunk).unwrap();
            assert!(lines.next().is_some() && lines.next().is_none());
        }
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
