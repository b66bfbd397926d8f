//! Turns a cluster reference into a live connection: discovery, schemas, watch, poll, apply, inventory, audit.

mod apply;
mod connection;
mod discovery;
mod error;
mod events;
mod lease;
mod object;
mod queue;
mod transport;
mod watch;

pub use apply::{Apply, Delete, Deleted, FieldValidation, Propagation};
pub use connection::{Connection, ConnectionOptions, ConnectionStats, Credential, LocalCluster, LocalError};
pub use discovery::{ApiKind, Discovery};
pub use error::{ApiError, FieldConflict, Missing, Retry};
pub use events::{EventStats, Events, Regarding, Report, Severity};
pub use lease::{Election, Leadership, LeaseOptions};
pub use object::{
    ClusterId, Digest, ObjectKey, ObjectList, StoredObject, UnreadableObject, read_list, read_object,
};
pub use queue::{Backoff, Outcome, Queue, QueueKey, QueueStats, Work};
pub use transport::{Endpoint, ResponseBody, Transport, TransportError, TransportOptions, TransportStats};
pub use watch::{
    Change, Lookup, Selection, Watch, WatchEvent, WatchKey, WatchOptions, WatchPhase, WatchState, Watches,
};
