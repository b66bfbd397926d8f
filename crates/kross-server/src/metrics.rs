//! The page that Prometheus scrapes: every metric of a registry as OpenMetrics text.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`: the metrics of a registry.
pub fn metrics_page(registry: Arc<Registry>) -> Router {
    Router::new().route("/metrics", get(page)).with_state(registry)
}

async fn page(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
