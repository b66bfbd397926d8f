//! The probes of the kubelet: `/healthz` and `/livez` succeed while the process runs, `/readyz` once the controller is ready.

use std::fmt::Write;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use kross_controller::Readiness;

/// The probe pages. Until the controller is ready, `/readyz` lists its checks and which of them fail.
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
    for (check, passes) in readiness.checks() {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "[{}] {check}", if passes { '+' } else { '-' });
    }
    (StatusCode::SERVICE_UNAVAILABLE, page)
}
