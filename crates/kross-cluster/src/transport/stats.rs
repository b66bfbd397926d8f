//! Counts what a transport does.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a transport has done so far, and what it holds open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportStats {
    /// Requests that got an answer, whatever it was.
    pub answered: u64,
    /// Requests that got none.
    pub failed: u64,
    /// Bytes of bodies that were read.
    pub bytes_received: u64,
    /// Connections that were opened.
    pub dials: u64,
    /// Connections that could not be opened.
    pub failed_dials: u64,
    /// Connections that are open now.
    pub connections: usize,
    /// Requests and watches that are under way now.
    pub streams: usize,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    answered: AtomicU64,
    failed: AtomicU64,
    bytes_received: AtomicU64,
    dials: AtomicU64,
    failed_dials: AtomicU64,
}

impl Counters {
    pub(super) fn answered(&self, ok: bool) {
        let counter = if ok { &self.answered } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.bytes_received.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn dialed(&self, ok: bool) {
        let counter = if ok { &self.dials } else { &self.failed_dials };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self, connections: usize, streams: usize) -> TransportStats {
        TransportStats {
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            dials: self.dials.load(Ordering::Relaxed),
            failed_dials: self.failed_dials.load(Ordering::Relaxed),
            connections,
            streams,
        }
    }
}
