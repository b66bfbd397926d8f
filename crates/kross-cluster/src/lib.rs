//! Turns a cluster reference into a live connection: discovery, schemas, watch, poll, apply, inventory, audit.

mod queue;

pub use queue::{Backoff, Outcome, Queue, QueueKey, QueueStats, Work};
