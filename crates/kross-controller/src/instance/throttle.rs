//! Honours `Retry-After` for writes of an instance's objects: an object is not written again before the time that its API
//! server asked for, whatever event comes.

use std::collections::HashMap;
use std::time::Duration;

use kross_cluster::{ObjectKey, Retry};
use tokio::time::Instant;

use super::clients::ClientError;

/// The objects that an API server asked to write later.
#[derive(Debug, Default)]
pub(super) struct Throttle(HashMap<ObjectKey, Instant>);

impl Throttle {
    /// Remembers what a failed write of an object says about the next one.
    pub(super) fn failed(&mut self, key: &ObjectKey, error: &ClientError, now: Instant) {
        let retry = match error {
            ClientError::Api(error) => error.retry(),
            ClientError::NotConnected(_) => Retry::Backoff,
        };
        match retry {
            Retry::After(wait) => drop(self.0.insert(key.clone(), now + wait)),
            Retry::Backoff | Retry::WhenChanged => self.succeeded(key),
        }
    }

    pub(super) fn succeeded(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// Whether an object must not be written yet.
    pub(super) fn holds(&self, key: &ObjectKey, now: Instant) -> bool {
        self.0.get(key).is_some_and(|until| now < *until)
    }

    /// How long it is until the first of the objects may be written.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.0.values().filter(|until| now < **until).min().map(|until| *until - now)
    }

    /// Forgets the objects that are not to be written.
    pub(super) fn retain(&mut self, is_written: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|key, _| is_written(key));
    }
}
