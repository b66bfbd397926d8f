//! Statistics of a transport.

use std::sync::atomic::{AtomicU64, Ordering};

/// Statistics of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportStats {
    /// Requests with a response, whatever its status.
    pub answered: u64,
    /// Requests without a response.
    pub failed: u64,
    /// Bytes of response bodies received.
    pub bytes_received: u64,
    /// Connections opened.
    pub dials: u64,
    /// Connections that could not be opened.
    pub failed_dials: u64,
    /// Connections open now.
    pub connections: usize,
    /// Requests and watches in flight now.
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
