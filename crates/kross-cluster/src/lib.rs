//! The client side of clusters: connections, discovery, the REST client, caches, the work queue, leader election, events and
//! audit.
//!
//! A [`ClusterClient`] is the client of one cluster; the local cluster is one like any other, and every object key carries its
//! [`ClusterId`]. [`Caches`] hold the objects that are watched or polled, and answer without a request. A [`WorkQueue`] holds
//! the keys to reconcile. The response to a write is stored in its cache, so that a reconcile never reads an older version
//! than it has written. A [`ClusterRegistry`] connects to the remote clusters whose kubeconfigs are in Secrets.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kross_cluster::{
//!     Apply, CacheOptions, Caches, ClientOptions, ClusterClient, LocalCluster, Lookup, Selection,
//! };
//! use kross_value::Value;
//!
//! let client = ClusterClient::local(&LocalCluster::default(), ClientOptions::for_version("devel")).await?;
//! let caches = Caches::new(CacheOptions::default());
//! let kind = client.kind("", Some("v1"), "ConfigMap").await?;
//! let maps = caches.watch(&client, &kind, Selection::Managed);
//!
//! let desired: Value = serde_json::from_str(
//!     r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata":
//!         {"name": "web", "namespace": "shop", "labels": {"kro.run/owned": "true"}}}"#,
//! )?;
//! let applied = match maps.get(Some("shop"), "web") {
//!     Lookup::Found(live) => live.is_applied(&desired),
//!     Lookup::Absent | Lookup::Unknown => false,
//! };
//! if !applied {
//!     let written = client.apply(&kind, &desired, Apply::by("kro.run/applyset").force()).await?;
//!     maps.observe(&written);
//! }
//! # Ok(())
//! # }
//! ```

mod audit;
mod blocking;
mod cache;
mod cidr;
mod client;
mod cryptography;
mod discovery;
mod error;
mod events;
mod fence;
mod kubeconfig;
mod leader_election;
mod object;
mod offload;
mod registry;
mod secrets;
mod supervisor;
mod transport;
mod workqueue;

pub use audit::{
    AUDIT_TARGET, Audit, AuditCluster, AuditFile, AuditObject, AuditOutcome, AuditRecord, AuditStats,
    AuditVerb,
};
pub use cache::{
    Cache, CacheEvent, CacheKey, CacheOptions, CachePhase, CacheState, Caches, Change, Lookup, Selection,
    SyncPolicy,
};
pub use cidr::{Cidr, NotACidr};
pub use client::{
    Apply, ClientOptions, ClientStats, ClusterClient, ConnectionOverrides, Credential, Delete, Deleted,
    FieldValidation, Impersonation, IssuedToken, LocalCluster, LocalError, OwnershipMarks, Propagation,
    ReleaseOutcome, ResourceAccess, ServerDetails, unexpected_objects,
};
pub use cryptography::crypto_provider;
pub use discovery::{ApiKind, Discovery};
pub use error::{ApiError, FieldConflict, Missing, Retry, without_keys};
pub use events::{EventStats, Events, Regarding, Report, Severity};
pub use fence::Fence;
pub use kubeconfig::{
    Accepted, AuthMethod, CredentialLifetime, ExecError, ExecRule, InvalidExecRule, KubeconfigPolicy,
    PrepareError, Refusal, RefusalReason, ReplaceTokenError, ServiceAccountName, Warning, accept,
    accept_connection, replace_token,
};
pub use leader_election::{LeaderElection, Leadership, LeaseOptions, LeaseTransitions};
pub use object::{
    ChangedFields, ClusterId, Digest, ObjectKey, ObjectList, StoredObject, UnreadableObject, read_list,
    read_object,
};
pub use registry::{
    ClusterChange, ClusterEvent, ClusterHandle, ClusterIdentity, ClusterOptions, ClusterRegistry,
    ClusterReport, ClusterState, ClusterTotals, ClusterView, ConnectStep, Connection, ConnectionAdvice,
    ConnectionFailure, ConnectionState, KubeconfigSecret, RenewableSecret, RenewalError, renewal_due,
    renewal_patch, token_duration,
};
pub use secrets::{
    SecretConsumer, SecretName, SecretPolicy, SecretRefusal, check_address, is_offered, read_kubeconfig,
};
pub use supervisor::{Panicked, Task, catch, catch_async, catch_blocking, log_panics};
pub use transport::{
    ConnectionStep, Endpoint, ResponseBody, Transport, TransportError, TransportOptions, TransportStats,
};
pub use workqueue::{Backoff, Outcome, QueueKey, QueueStats, WorkItem, WorkQueue};
