//! The pages for operators, on an address of their own: reading and changing the log level while the process runs.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;

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

async fn level(State(log): State<Arc<dyn LogControl>>) -> String {
    log.level() + "\n"
}

async fn set_level(State(log): State<Arc<dyn LogControl>>, wanted: String) -> (StatusCode, String) {
    match log.set_level(wanted.trim()) {
        Ok(()) => (StatusCode::OK, log.level() + "\n"),
        Err(problem) => (StatusCode::BAD_REQUEST, problem + "\n"),
    }
}
