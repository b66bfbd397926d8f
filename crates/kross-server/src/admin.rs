//! The admin pages, on an address of their own: the log level, which can be changed at run time, and the state of remote
//! clusters.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kross_controller::ClusterStatus;

/// The path of the states of clusters. Who may get it also sees their names in the metrics.
pub(crate) const CLUSTERS: &str = "/clusters";

/// Reads and changes the log level.
pub trait LogControl: Send + Sync {
    /// The current level.
    fn level(&self) -> String;

    /// Changes the level.
    ///
    /// # Errors
    /// The level is invalid; the message lists the valid ones.
    fn set_level(&self, level: &str) -> Result<(), String>;
}

/// `GET /loglevel` and `PUT /loglevel`.
pub fn admin_pages(log: Arc<dyn LogControl>) -> Router {
    Router::new().route("/loglevel", get(level).put(set_level)).with_state(log)
}

/// `GET /clusters`: every registered remote cluster with its connection state.
pub fn cluster_pages(clusters: impl Fn() -> Vec<ClusterStatus> + Clone + Send + Sync + 'static) -> Router {
    Router::new().route(CLUSTERS, get(move || std::future::ready(json(&clusters()))))
}

fn json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_vec_pretty(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn level(State(log): State<Arc<dyn LogControl>>) -> String {
    log.level() + "\n"
}

async fn set_level(State(log): State<Arc<dyn LogControl>>, level: String) -> (StatusCode, String) {
    match log.set_level(level.trim()) {
        Ok(()) => (StatusCode::OK, log.level() + "\n"),
        Err(error) => (StatusCode::BAD_REQUEST, error + "\n"),
    }
}
