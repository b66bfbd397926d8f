//! Turns state into pages: probes, metrics, the read API and the dashboard.
