//! The pages for operators, on an address of their own: reading and changing the log level while the process runs, and where
//! other clusters stand.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kross_controller::ClusterView;

/// Reads and changes what is logged.
pub trait LogControl: Send + Sync {
    /// The level in effect.
    fn level(&self) -> String;

    /// Changes the level.
    ///
    /// # Errors
    /// What is wrong with the new one, and what can be written.
    fn set_level(&self, level: &str) -> Result<(), String>;
}

/// The pages: `GET` and `PUT /loglevel`.
pub fn admin_pages(log: Arc<dyn LogControl>) -> Router {
    Router::new().route("/loglevel", get(level).put(set_level)).with_state(log)
}

/// `GET /clusters`: every cluster that is held, with whether and how it is connected, or why not.
pub fn cluster_pages(clusters: impl Fn() -> Vec<ClusterView> + Clone + Send + Sync + 'static) -> Router {
    Router::new().route("/clusters", get(move || std::future::ready(json(&clusters()))))
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

async fn set_level(State(log): State<Arc<dyn LogControl>>, wanted: String) -> (StatusCode, String) {
    match log.set_level(wanted.trim()) {
        Ok(()) => (StatusCode::OK, log.level() + "\n"),
        Err(problem) => (StatusCode::BAD_REQUEST, problem + "\n"),
    }
}
