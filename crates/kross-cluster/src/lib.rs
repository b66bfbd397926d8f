//! Turns a cluster reference into a live connection: discovery, schemas, watch, poll, apply, inventory, audit.

mod object;
mod queue;

pub use object::{
    ClusterId, Digest, ObjectKey, ObjectList, StoredObject, UnreadableObject, read_list, read_object,
};
pub use queue::{Backoff, Outcome, Queue, QueueKey, QueueStats, Work};
