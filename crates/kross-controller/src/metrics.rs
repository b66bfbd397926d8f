//! The controller's metrics: kro's names where the meaning is the same. Their labels have closed sets of values, so that the
//! number of series does not grow with the number of definitions or instances; metrics behind a feature gate are the only
//! exception.

use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::graphs::Graphs;

mod cluster_metrics;
mod cluster_series;
mod collector;
mod conditions;
mod credential_metrics;
mod definition_metrics;
mod health;
mod instance_metrics;
mod labels;
mod queue_metrics;
mod reference;
mod register;
mod span_counts;

pub use cluster_series::{ClusterStatus, with_cluster_names};
pub(crate) use collector::Sources;
pub(crate) use labels::{
    DefinitionTransition, EventType, InstanceTransition, IssueReason, Issued, Resolution, Resolved,
    UnresolvedReason,
};
pub use reference::metrics_reference;
pub use span_counts::SpanCounts;

use collector::Collected;
use definition_metrics::DefinitionMetrics;
use instance_metrics::InstanceMetrics;
use queue_metrics::QueueMetrics;
use register::Register;

/// The buckets of reconciles: from a millisecond to half a minute.
const RECONCILE_BUCKETS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// All metrics of the controller. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) definitions: DefinitionMetrics,
    pub(crate) instances: InstanceMetrics,
    pub(crate) queue: QueueMetrics,
    collected: Collected,
}

impl Metrics {
    /// Registers all metrics. With `conditions_of`, the conditions of the instances of these graphs are metrics too.
    pub(crate) fn new(registry: &mut Registry, conditions_of: Option<Arc<Graphs>>) -> Self {
        Self::described(&mut Register::new(registry), conditions_of)
    }

    fn described(register: &mut Register<'_>, conditions_of: Option<Arc<Graphs>>) -> Self {
        let metrics = Self {
            definitions: DefinitionMetrics::register(register),
            instances: InstanceMetrics::register(register),
            queue: QueueMetrics::register(register),
            collected: Collected::default(),
        };
        collector::register(register, &metrics.collected);
        if let Some(graphs) = conditions_of {
            conditions::register(register, graphs);
        }
        metrics
    }

    /// The clusters in use; none before the controller runs.
    pub(crate) fn cluster_states(&self) -> Vec<ClusterStatus> {
        self.collected.clusters()
    }

    /// Sets what is read at each scrape.
    pub(crate) fn set_sources(&self, sources: Sources) {
        self.collected.set(sources);
    }
}
