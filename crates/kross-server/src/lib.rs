//! Serves the controller's HTTP pages: probes, metrics, the log level, the state of remote clusters, the admission webhook, and the
//! dashboard.
//! [`read_model`] turns objects of the hub into what people see of them, on pages and in commands.
//!
//! Pages are a [`Router`](axum::Router); [`serve`] serves them on a [`Listener`] until it is stopped, within bounds that no
//! client can exceed. [`AccessControl`] admits only the users that the API server allows to read them.
//!
//! ```
//! use kross_server::BindAddress;
//!
//! let address: BindAddress = ":8079".parse()?;
//! # Ok::<(), kross_server::InvalidAddress>(())
//! ```

mod access;
mod address;
mod admin;
mod certificate;
mod connections;
mod dashboard;
mod metrics;
mod probes;
pub mod read_model;
mod serve;
mod stalled;
mod webhook;

pub use access::{AccessControl, ReviewError};
pub use address::{BindAddress, BindError, InvalidAddress, Listener};
pub use admin::{LogControl, admin_pages, cluster_pages};
pub use certificate::{CertificateError, CertificateFiles, ServerCertificate};
pub use dashboard::{
    Dashboard, NoRandomNumbers, ServedDashboard, ServedDashboardOptions, SessionSecret, layout,
};
pub use metrics::{ClusterNames, metrics_page};
pub use probes::probe_pages;
pub use serve::{ServeOptions, serve};
pub use webhook::{WEBHOOK_PATH, webhook_pages};
