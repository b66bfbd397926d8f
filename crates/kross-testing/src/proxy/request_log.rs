//! The requests that passed through a proxy, as a list and as counts by verb and resource.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use super::request::{Request, Verb};
use super::rules::Requests;

/// A request that passed through the proxy.
#[derive(Debug)]
pub struct Record {
    /// The request.
    pub request: Request,
    /// When it arrived.
    pub at: Instant,
    /// Whether it used HTTP/2.
    pub http2: bool,
    /// Whether it went to another API server ([`super::FaultProxy::divert`]).
    pub diverted: bool,
    status: AtomicU16,
}

impl Record {
    pub(super) fn new(request: Request, http2: bool, diverted: bool) -> Self {
        Self { request, at: Instant::now(), http2, diverted, status: AtomicU16::new(0) }
    }

    /// The HTTP status of the response; none if there was no response yet.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    pub(super) fn answered(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }
}

/// All requests since the proxy started or the log was cleared.
#[derive(Debug, Default)]
pub(super) struct RequestLog {
    records: Vec<Arc<Record>>,
}

impl RequestLog {
    pub(super) fn add(&mut self, record: &Arc<Record>) {
        self.records.push(Arc::clone(record));
    }

    pub(super) fn clear(&mut self) {
        self.records.clear();
    }

    pub(super) fn matching(&self, requests: &Requests) -> Vec<Arc<Record>> {
        self.records.iter().filter(|record| requests.matches(&record.request)).cloned().collect()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for record in &self.records {
            *counts.0.entry((record.request.resource.clone(), record.request.verb)).or_default() += 1;
        }
        counts
    }
}

/// The number of requests by resource and verb. `Display` writes one line for each, sorted, for assertions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<(String, Verb), u64>);

impl Counts {
    /// The number of requests with this verb on this resource.
    #[must_use]
    pub fn of(&self, verb: Verb, resource: &str) -> u64 {
        self.0.get(&(resource.to_owned(), verb)).copied().unwrap_or_default()
    }

    /// The number of all requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((resource, verb), count) in &self.0 {
            writeln!(formatter, "{resource} {verb} {count}")?;
        }
        Ok(())
    }
}
