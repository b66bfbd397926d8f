//! Turns state into pages: probes, metrics, the log level, other clusters, and later the read API and the dashboard.
//!
//! A page is a [`Router`](axum::Router); [`serve`] puts one on a [`Listener`] until it is told to stop.
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
