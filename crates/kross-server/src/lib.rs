//! Turns state into pages: probes, metrics, the log level, and later the read API and the dashboard.
//!
//! A page is a [`Router`](axum::Router); [`serve`] puts one on a [`Listener`] until it is told to stop.
//!
//! ```
//! use kross_server::Readiness;
//!
//! let readiness = Readiness::new(["watches"]);
//! assert!(!readiness.is_ready());
//! readiness.set("watches", true);
//! assert!(readiness.is_ready());
//! ```

mod address;
mod admin;
mod metrics;
mod probes;
mod readiness;
mod serve;

pub use address::{BindAddress, BindError, InvalidAddress, Listener};
pub use admin::{LogControl, admin_pages};
pub use metrics::metrics_page;
pub use probes::probe_pages;
pub use readiness::Readiness;
pub use serve::serve;
