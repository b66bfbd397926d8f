//! The probes of the kubelet: `/healthz` succeeds while the process runs, `/livez` while the controller makes progress,
//! `/readyz` once the controller is ready.

use std::fmt::Write;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use kross_controller::{Liveness, Readiness};

/// The probe pages. While a check fails, `/livez` and `/readyz` list their checks and which of them fail.
pub fn probe_pages(readiness: Readiness, liveness: Liveness) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/livez", get(live).with_state(liveness))
        .route("/readyz", get(ready).with_state(readiness))
}

async fn live(State(liveness): State<Liveness>) -> (StatusCode, String) {
    page(&liveness.checks())
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, String) {
    page(&readiness.checks())
}

fn page(checks: &[(&'static str, bool)]) -> (StatusCode, String) {
    if checks.iter().all(|(_, passes)| *passes) {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut page = String::new();
    for (check, passes) in checks {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "[{}] {check}", if *passes { '+' } else { '-' });
    }
    (StatusCode::SERVICE_UNAVAILABLE, page)
}
