//! Turns events into reconciles: definitions and their revisions, and the graphs that instances are reconciled by.
//!
//! [`Controller::run`] watches definitions, revisions and CRDs, and works through what changes. Every pass reads the same:
//! look at the copies, decide, write what is missing, report. Decisions are functions without I/O; what they decide on comes
//! from watches, so that a pass over something that needs nothing sends no request.
//!
//! ```no_run
//! # async fn example(client: kross_cluster::ClusterClient) -> Result<(), kross_controller::ControllerError> {
//! use kross_controller::{Controller, Settings};
//!
//! let mut metrics = prometheus_client::registry::Registry::default();
//! let controller = Controller::new(connection.clone(), connection, Settings::default(), &mut metrics);
//! controller.run(std::future::pending()).await
//! # }
//! ```

mod analysis;
mod context;
mod controller;
mod definition;
mod dispatch;
mod finalizer;
mod graphs;
mod hub_schemas;
mod instance;
mod key;
mod kinds;
mod metrics;
mod openapi;
mod permits;
mod preflight;
mod readiness;
mod retry;
mod selector;
mod settings;

pub use controller::{Controller, ControllerError};
pub use definition::{DefinitionError, Next};
pub use graphs::{Graphs, Served};
pub use kross_cluster::ClusterView;
pub use metrics::metrics_reference;
pub use openapi::SchemaError;
pub use preflight::PreflightPace;
pub use readiness::Readiness;
pub use retry::Retry;
pub use settings::Settings;
