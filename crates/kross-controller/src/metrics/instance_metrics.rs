//! The metrics of instances.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::RECONCILE_BUCKETS;
use super::labels::{InstanceTransition, Unresolved, UnresolvedReason};
use super::register::Register;

/// The metrics of instances. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct InstanceMetrics {
    reconciles: Counter,
    pub(crate) errors: Counter,
    reconcile_seconds: Histogram,
    pub(crate) transitions: Family<InstanceTransition, Counter>,
    pub(crate) graphs_found: Counter,
    pub(crate) graphs_pending: Counter,
    graphs_missing: Family<Unresolved, Counter>,
}

impl InstanceMetrics {
    pub(super) fn register(register: &mut Register<'_>) -> Self {
        Self {
            reconciles: register.counter("instance_reconcile", "Reconciles of instances"),
            errors: register.counter("instance_reconcile_errors", "Reconciles of instances that failed"),
            reconcile_seconds: register.histogram(
                "instance_reconcile_duration_seconds",
                "Duration of reconciles of instances",
                RECONCILE_BUCKETS,
            ),
            transitions: register.counters("instance_state_transitions", "State transitions of instances"),
            graphs_found: register.counter(
                "instance_graph_resolution_success",
                "Reconciles of instances whose definition has a graph",
            ),
            graphs_pending: register.counter(
                "instance_graph_resolution_pending",
                "Reconciles of living instances whose definition is being deleted or was deleted",
            ),
            graphs_missing: register.counters(
                "instance_graph_resolution_failures",
                "Reconciles of instances whose definition has no graph or is not served",
            ),
        }
    }

    /// Counts a reconcile.
    pub(crate) fn reconciled(&self, took: Duration) {
        self.reconciles.inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// Counts a reconcile without a graph.
    pub(crate) fn no_graph(&self, reason: UnresolvedReason) {
        self.graphs_missing.get_or_create(&Unresolved { reason }).inc();
    }
}
