//! Support for tests against real control planes: control planes that a test program shares, a fault proxy in front of them,
//! an audit log, a collector of traces, waiting with limits, and builders of common objects.
//!
//! ```no_run
//! # async fn example() {
//! use kross_testing::{Fixture, wait};
//!
//! let fixture = Fixture::with(&["eu"]).await;
//! let name = &fixture.namespace;
//! wait::until("the namespace in eu", || async {
//!     let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(fixture.remote("eu").client.clone());
//!     namespaces.get(name).await.map_err(|error| error.to_string())
//! })
//! .await;
//! # }
//! ```

mod audit;
mod fixture;
pub mod objects;
mod proxy;
mod stopwatch;
mod traces;
pub mod wait;

pub use audit::{AuditLog, AuditedAnswer, AuditedObject, AuditedRequest, AuditedUser};
pub use fixture::{Cluster, Fixture, shared};
pub use proxy::{
    Action, Answer, Counts, Diverted, Fault, FaultProxy, ProxyError, Record, Request, Requests, RuleId,
    TlsError, Verb,
};
pub use stopwatch::Stopwatch;
pub use traces::{ReceivedSpan, TraceCollector, TraceRequest};
