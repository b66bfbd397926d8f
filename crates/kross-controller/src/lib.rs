//! Turns events into reconciles: definitions and their revisions, and instances by the graphs of their definitions.
//!
//! [`Controller::run`] caches definitions, revisions and CRDs, and reconciles what changes. Every reconcile has the same
//! steps: observe from caches, plan, write what is missing, report. Plans are functions without I/O, and what they need is
//! in caches, so that a reconcile that changes nothing sends no request.
//!
//! ```no_run
//! # async fn example(client: kross_cluster::ClusterClient) -> Result<(), kross_controller::ControllerError> {
//! use kross_controller::{Controller, Settings};
//!
//! let mut metrics = prometheus_client::registry::Registry::default();
//! let controller = Controller::new(client.clone(), client, Settings::default(), &mut metrics);
//! controller.run(std::future::pending()).await
//! # }
//! ```

mod access_reviews;
mod analysis;
mod application;
mod claim;
mod cluster_connection;
mod condition_events;
mod connection_secret;
mod context;
mod controller;
mod definition;
mod dispatch;
mod events;
mod fair_share;
mod finalizer;
mod graphs;
mod hub_schemas;
mod instance;
mod key;
mod kinds;
mod liveness;
mod managed_resource;
mod metrics;
mod openapi;
mod permits;
mod planner;
mod preflight;
mod readiness;
mod recorded_authority;
mod repairs;
mod resync;
mod retry;
mod secret_protection;
mod secret_users;
mod selector;
mod settings;
mod target;
mod token_renewal;
mod unreadable;
mod validator;
mod webhook;
mod workload;

pub use access_reviews::ReviewAges;
pub use cluster_connection::ConnectionIntervals;
pub use controller::{Controller, ControllerError};
pub use definition::Validation;
pub use graphs::{Graphs, Served};
pub use kross_diagnostics::render::Cause;
pub use liveness::Liveness;
pub use metrics::{ClusterStatus, SpanCounts, metrics_reference, with_cluster_names};
pub use preflight::PreflightIntervals;
pub use readiness::Readiness;
pub use settings::Settings;
pub use token_renewal::RenewalSettings;
pub use validator::{DefinitionValidator, NotADefinition, Submission};
pub use webhook::{ServingCertificate, ServingCertificates, WebhookOptions};
