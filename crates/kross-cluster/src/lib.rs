//! Turns a cluster reference into a live connection: discovery, schemas, watch, poll, apply, inventory, audit.
//!
//! A [`ClusterClient`] is one cluster; the local one is a value like any other, and every key carries its [`ClusterId`]. What is
//! watched is in [`Caches`] and answers at once; what has to be done is in a [`WorkQueue`]; what is done is one request, whose
//! answer goes back into the watch, so that nothing is read that was just written.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kross_cluster::{
//!     Apply, Connection, ClientOptions, LocalCluster, Lookup, Selection, WatchOptions, Watches,
//! };
//! use kross_value::Value;
//!
//! let connection =
//!     Connection::local(&LocalCluster::default(), ClientOptions::for_version("devel")).await?;
//! let watches = Caches::new(CacheOptions::default());
//! let kind = connection.kind("", Some("v1"), "ConfigMap").await?;
//! let maps = watches.watch(&connection, &kind, Selection::Managed);
//!
//! let desired: Value = serde_json::from_str(
//!     r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata":
//!         {"name": "web", "namespace": "shop", "labels": {"kro.run/owned": "true"}}}"#,
//! )?;
//! let settled = match maps.get(Some("shop"), "web") {
//!     Lookup::Found(live) => live.is_applied(&desired),
//!     Lookup::Absent | Lookup::Unknown => false,
//! };
//! if !settled {
//!     let written = connection.apply(&kind, &desired, Apply::by("kro.run/applyset").force()).await?;
//!     maps.observe(&written);
//! }
//! # Ok(())
//! # }
//! ```

mod audit;
mod cache;
mod client;
mod discovery;
mod error;
mod events;
mod kubeconfig;
mod leader_election;
mod object;
mod registry;
mod secrets;
mod transport;
mod workqueue;

pub use audit::{
    AUDIT_TARGET, Audit, AuditCluster, AuditFile, AuditObject, AuditOutcome, AuditRecord, AuditStats,
    AuditVerb,
};
pub use cache::{
    Cache, CacheKey, CacheOptions, CachePhase, CacheState, Caches, Change, Lookup, Selection, SyncPolicy,
    WatchEvent,
};
pub use client::{
    Apply, ClientOptions, ClientStats, ClusterClient, Credential, Delete, Deleted, FieldValidation,
    LocalCluster, LocalError, Marks, Propagation, Released,
};
pub use discovery::{ApiKind, Discovery};
pub use error::{ApiError, FieldConflict, Missing, Retry};
pub use events::{EventStats, Events, Regarding, Report, Severity};
pub use kubeconfig::{
    Accepted, AuthMethod, Cidr, ExecError, KubeconfigPolicy, NotACidr, PrepareError, Refusal, RefusalReason,
    Warning, accept,
};
pub use leader_election::{LeaderElection, Leadership, LeaseOptions};
pub use object::{
    ClusterId, Digest, ObjectKey, ObjectList, StoredObject, UnreadableObject, read_list, read_object,
};
pub use registry::{
    ClusterChange, ClusterEvent, ClusterHandle, ClusterIdentity, ClusterOptions, ClusterRegistry,
    ClusterState, ClusterTotals, ClusterView, ConnectStep, Connection, ConnectionAdvice, ConnectionFailure,
    ConnectionState,
};
pub use secrets::{Asker, SecretPolicy, SecretRefusal, check_address, is_offered, judge};
pub use transport::{Endpoint, ResponseBody, Transport, TransportError, TransportOptions, TransportStats};
pub use workqueue::{Backoff, Outcome, QueueKey, QueueStats, WorkItem, WorkQueue};
