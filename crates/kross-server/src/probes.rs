//! The pages that a kubelet asks: `/healthz` while the process lives, `/readyz` once it can do its work.

use std::fmt::Write;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use kross_controller::Readiness;

/// The probes. Whoever asks for `/readyz` too early is told what is missing.
pub fn probe_pages(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(ready))
        .with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    if readiness.is_ready() {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut page = String::new();
    for (check, holds) in readiness.checks() {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "[{}] {check}", if holds { '+' } else { '-' });
    }
    (StatusCode::SERVICE_UNAVAILABLE, page)
}
