//! The controller's metrics: kro's names where the meaning is the same, and labels from closed sets, so that no number of
//! definitions or instances makes more series. The one exception is what is asked for by a feature gate.

use std::sync::Arc;
use std::time::Duration;

use kross_cluster::{ClusterView, Outcome};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::graphs::Graphs;

mod clusters;
mod conditions;
mod labels;
mod live;
mod reference;
mod register;

pub(crate) use labels::{
    DefinitionTransition, EventType, InstanceTransition, IssueReason, Issued, Requeue, Requeued, Resolution,
    Resolved, Seen, Unresolved, UnresolvedReason,
};
pub(crate) use live::Sources;
pub use reference::metrics_reference;

use live::Live;
use register::Register;

/// Every metric that the controller counts. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    builds: Counter,
    build_errors: Counter,
    build_seconds: Histogram,
    pub(crate) transitions: Family<DefinitionTransition, Counter>,
    deletions: Counter,
    deletion_seconds: Histogram,
    pub(crate) issued: Family<Issued, Counter>,
    pub(crate) resolved: Family<Resolved, Counter>,
    pub(crate) collected: Counter,
    pub(crate) collect_errors: Counter,
    pub(crate) finalizers_released: Counter,
    instances: Counter,
    pub(crate) instance_errors: Counter,
    instance_seconds: Histogram,
    pub(crate) instance_transitions: Family<InstanceTransition, Counter>,
    pub(crate) graphs_found: Counter,
    pub(crate) graphs_pending: Counter,
    graphs_missing: Family<Unresolved, Counter>,
    taken: Counter,
    taken_seconds: Histogram,
    requeued: Family<Requeued, Counter>,
    pub(crate) panics: Counter,
    seen: Family<Seen, Counter>,
    pub(crate) routed: Counter,
    pub(crate) matched: Counter,
    live: Live,
}

/// From a millisecond to a minute.
const PASS_BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
const BUILD_BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
const DELETION_BUCKETS: [f64; 8] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

impl Metrics {
    /// Registers every metric. Where conditions are asked for, the instances of `graphs` have theirs shown.
    pub(crate) fn new(registry: &mut Registry, conditions_of: Option<Arc<Graphs>>) -> Self {
        Self::described(&mut Register::new(registry), conditions_of)
    }

    fn described(register: &mut Register<'_>, conditions_of: Option<Arc<Graphs>>) -> Self {
        let metrics = Self {
            builds: register.counter("rgd_graph_build", "Compilations of definitions"),
            build_errors: register.counter("rgd_graph_build_errors", "Compilations that found mistakes"),
            build_seconds: register.histogram(
                "rgd_graph_build_duration_seconds",
                "How long compilations took",
                BUILD_BUCKETS,
            ),
            transitions: register.counters("rgd_state_transitions", "Changes of a definition's state"),
            deletions: register.counter("rgd_deletions", "Definitions that were let go"),
            deletion_seconds: register.histogram(
                "rgd_deletion_duration_seconds",
                "From the request to delete a definition until it was let go",
                DELETION_BUCKETS,
            ),
            issued: register.counters("rgd_graph_revision_issue", "Revisions that were made"),
            resolved: register.counters("rgd_graph_revision_resolution", "Looks at a definition's revisions"),
            collected: register.counter("rgd_graph_revision_gc_deleted", "Old revisions that were deleted"),
            collect_errors: register
                .counter("rgd_graph_revision_gc_errors", "Old revisions that could not be deleted"),
            finalizers_released: register
                .counter("graph_revision_finalizer_evictions", "Revisions that were let go"),
            instances: register.counter("instance_reconcile", "Passes over instances"),
            instance_errors: register
                .counter("instance_reconcile_errors", "Passes over instances that failed"),
            instance_seconds: register.histogram(
                "instance_reconcile_duration_seconds",
                "How long passes over instances took",
                PASS_BUCKETS,
            ),
            instance_transitions: register
                .counters("instance_state_transitions", "Changes of an instance's state"),
            graphs_found: register.counter(
                "instance_graph_resolution_success",
                "Passes that found the graph of their instance",
            ),
            graphs_pending: register.counter(
                "instance_graph_resolution_pending",
                "Passes over living instances of a definition that is being deleted",
            ),
            graphs_missing: register.counters(
                "instance_graph_resolution_failures",
                "Passes over instances whose kind is served no more",
            ),
            taken: register.counter("dynamic_controller_reconcile", "Keys of instances that were worked on"),
            taken_seconds: register.histogram(
                "dynamic_controller_reconcile_duration_seconds",
                "How long work on a key took",
                PASS_BUCKETS,
            ),
            requeued: register
                .counters("dynamic_controller_requeue", "Whether and when keys come again without an event"),
            panics: register.counter("dynamic_controller_reconcile_panics", "Passes that panicked"),
            seen: register.counters("dynamic_controller_informer_events", "Changes that watches told of"),
            routed: register.counter("dynamic_controller_route", "Changes that may concern instances"),
            matched: register
                .counter("dynamic_controller_route_match", "Instances that changes were found to concern"),
            live: Live::default(),
        };
        live::register(register, &metrics.live);
        if let Some(graphs) = conditions_of {
            conditions::register(register, graphs);
        }
        metrics
    }

    /// From now on shows what these hold at each look.
    /// The clusters that are held, as soon as the controller runs.
    pub(crate) fn cluster_states(&self) -> Vec<ClusterView> {
        self.live.clusters()
    }

    pub(crate) fn show(&self, sources: Sources) {
        self.live.set(sources);
    }

    pub(crate) fn built(&self, took: Duration, accepted: bool) {
        self.builds.inc();
        self.build_seconds.observe(took.as_secs_f64());
        if !accepted {
            self.build_errors.inc();
        }
    }

    /// A definition was let go so long after somebody asked for it, if that is known.
    pub(crate) fn deleted(&self, took: Option<Duration>) {
        self.deletions.inc();
        if let Some(took) = took {
            self.deletion_seconds.observe(took.as_secs_f64());
        }
    }

    pub(crate) fn passed(&self, took: Duration) {
        self.instances.inc();
        self.instance_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn no_graph(&self, reason: UnresolvedReason) {
        self.graphs_missing.get_or_create(&Unresolved { reason }).inc();
    }

    /// A key of the queue of instances was worked on.
    pub(crate) fn worked(&self, took: Duration, outcome: Outcome) {
        self.taken.inc();
        self.taken_seconds.observe(took.as_secs_f64());
        let kind = match outcome {
            Outcome::Done => Requeue::no_requeue,
            Outcome::After(_) => Requeue::requeue_after,
            Outcome::Retry => Requeue::rate_limited,
        };
        self.requeued.get_or_create(&Requeued { r#type: kind }).inc();
    }

    /// A watch told of a change.
    pub(crate) fn saw(&self, event_type: EventType) {
        self.seen.get_or_create(&Seen { event_type }).inc();
    }
}
