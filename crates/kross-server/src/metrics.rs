//! The page that Prometheus scrapes: every metric of a registry as OpenMetrics text. Clusters, which are named after Secrets,
//! have their names only for readers who may see them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use kross_controller::with_cluster_names;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::access::{AccessControl, User};
use crate::admin::CLUSTERS;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Who sees the names of clusters in the metrics.
#[derive(Clone, Debug)]
pub enum ClusterNames {
    /// Every reader, because only processes of the same pod are readers.
    Shown,
    /// No reader, because nobody knows who reads.
    Hidden,
    /// Readers who may get `/clusters`, where the names are as well.
    Allowed(AccessControl),
}

#[derive(Clone)]
struct Metrics {
    registry: Arc<Registry>,
    names: ClusterNames,
}

/// `GET /metrics`: the metrics of a registry.
pub fn metrics_page(registry: Arc<Registry>, names: ClusterNames) -> Router {
    Router::new().route("/metrics", get(page)).with_state(Metrics { registry, names })
}

async fn page(State(metrics): State<Metrics>, user: Option<Extension<Arc<User>>>) -> Response {
    let Metrics { registry, names } = metrics;
    let mut text = String::new();
    let encoded = if names.shown_to(user.as_deref()).await {
        with_cluster_names(|| encode(&mut text, &registry))
    } else {
        encode(&mut text, &registry)
    };
    match encoded {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

impl ClusterNames {
    async fn shown_to(&self, user: Option<&Arc<User>>) -> bool {
        match (self, user) {
            (Self::Shown, _) => true,
            (Self::Hidden, _) | (_, None) => false,
            // Without a decision the metrics are still of use.
            (Self::Allowed(access), Some(user)) => {
                access.allows(user, "get", CLUSTERS).await.unwrap_or(false)
            }
        }
    }
}
