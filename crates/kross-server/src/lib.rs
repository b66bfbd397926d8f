//! Serves the controller's HTTP pages: probes, metrics, the log level and the state of remote clusters.
//!
//! Pages are a [`Router`](axum::Router); [`serve`] serves them on a [`Listener`] until it is stopped.
//!
//! ```
//! use kross_server::BindAddress;
//!
//! let address: BindAddress = ":8079".parse()?;
//! # Ok::<(), kross_server::InvalidAddress>(())
//! ```

mod address;
mod admin;
mod metrics;
mod probes;
mod serve;

pub use address::{BindAddress, BindError, InvalidAddress, Listener};
pub use admin::{LogControl, admin_pages, cluster_pages};
pub use metrics::metrics_page;
pub use probes::probe_pages;
pub use serve::serve;
