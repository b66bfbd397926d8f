//! The metrics of the work queue of instances, and of the events that fill it.

use std::time::Duration;

use kross_cluster::Outcome;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::RECONCILE_BUCKETS;
use super::labels::{EventType, Observed, Requeue, Requeued};
use super::register::Register;

/// The metrics of the work queue of instances. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    processed: Counter,
    process_seconds: Histogram,
    requeued: Family<Requeued, Counter>,
    pub(crate) panics: Counter,
    events: Family<Observed, Counter>,
    pub(crate) routed: Counter,
    pub(crate) matched: Counter,
}

impl QueueMetrics {
    pub(super) fn register(register: &mut Register<'_>) -> Self {
        Self {
            processed: register
                .counter("dynamic_controller_reconcile", "Keys of instances that were processed"),
            process_seconds: register.histogram(
                "dynamic_controller_reconcile_duration_seconds",
                "Time to process a key of an instance",
                RECONCILE_BUCKETS,
            ),
            requeued: register.counters(
                "dynamic_controller_requeue",
                "Keys of instances that were processed, by how they are requeued",
            ),
            panics: register.counter("dynamic_controller_reconcile_panics", "Reconciles that panicked"),
            events: register.counters("dynamic_controller_informer_events", "Events of the caches, by type"),
            routed: register
                .counter("dynamic_controller_route", "Events of the caches that may concern instances"),
            matched: register
                .counter("dynamic_controller_route_match", "Instances that were requeued by events"),
        }
    }

    /// Counts a key that was processed.
    pub(crate) fn processed(&self, took: Duration, outcome: Outcome) {
        self.processed.inc();
        self.process_seconds.observe(took.as_secs_f64());
        let kind = match outcome {
            Outcome::Done => Requeue::no_requeue,
            Outcome::After(_) => Requeue::requeue_after,
            Outcome::Retry => Requeue::rate_limited,
        };
        self.requeued.get_or_create(&Requeued { r#type: kind }).inc();
    }

    /// Counts an event of a cache.
    pub(crate) fn observed(&self, event_type: EventType) {
        self.events.get_or_create(&Observed { event_type }).inc();
    }
}
