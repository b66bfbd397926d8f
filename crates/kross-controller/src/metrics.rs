//! The metrics of definitions and revisions: kro's names where the meaning is the same, and labels from closed sets.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Why a revision was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(
    non_camel_case_types,
    reason = "the words are kro's, and the derived encoding writes variants as they are"
)]
pub(crate) enum IssueReason {
    no_revision,
    spec_changed,
}

/// What a look at a definition's revisions led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(
    non_camel_case_types,
    reason = "the words are kro's, and the derived encoding writes variants as they are"
)]
pub(crate) enum Resolution {
    serve,
    issue,
    wait,
    failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Issued {
    pub(crate) reason: IssueReason,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Resolved {
    pub(crate) result: Resolution,
}

/// A state that was left, and the one that was entered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Transition {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// Every metric that definitions have. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) builds: Counter,
    pub(crate) build_errors: Counter,
    build_seconds: Histogram,
    pub(crate) transitions: Family<Transition, Counter>,
    pub(crate) deletions: Counter,
    pub(crate) issued: Family<Issued, Counter>,
    pub(crate) resolved: Family<Resolved, Counter>,
    pub(crate) collected: Counter,
    pub(crate) collect_errors: Counter,
    pub(crate) finalizers_released: Counter,
    pub(crate) served: Gauge,
    pub(crate) instances: Counter,
    pub(crate) instance_errors: Counter,
    pub(crate) instance_seconds: Histogram,
    pub(crate) instance_transitions: Family<Transition, Counter>,
    pub(crate) panics: Counter,
}

impl Metrics {
    /// Registers every metric.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            builds: Counter::default(),
            build_errors: Counter::default(),
            build_seconds: Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5]),
            transitions: Family::default(),
            deletions: Counter::default(),
            issued: Family::default(),
            resolved: Family::default(),
            collected: Counter::default(),
            collect_errors: Counter::default(),
            finalizers_released: Counter::default(),
            served: Gauge::default(),
            instances: Counter::default(),
            instance_errors: Counter::default(),
            instance_seconds: Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0]),
            instance_transitions: Family::default(),
            panics: Counter::default(),
        };
        let Self {
            builds,
            build_errors,
            build_seconds,
            transitions,
            deletions,
            issued,
            resolved,
            collected,
            collect_errors,
            finalizers_released,
            served,
            instances,
            instance_errors,
            instance_seconds,
            instance_transitions,
            panics,
        } = metrics.clone();
        registry.register("rgd_graph_build", "Compilations of definitions", builds);
        registry.register("rgd_graph_build_errors", "Compilations that found mistakes", build_errors);
        registry.register("rgd_graph_build_duration_seconds", "How long compilations took", build_seconds);
        registry.register("rgd_state_transitions", "Changes of a definition's state", transitions);
        registry.register("rgd_deletions", "Definitions that were let go", deletions);
        registry.register("rgd_graph_revision_issue", "Revisions that were made", issued);
        registry.register("rgd_graph_revision_resolution", "Looks at a definition's revisions", resolved);
        registry.register("rgd_graph_revision_gc_deleted", "Old revisions that were deleted", collected);
        registry.register(
            "rgd_graph_revision_gc_errors",
            "Old revisions that could not be deleted",
            collect_errors,
        );
        registry.register(
            "graph_revision_finalizer_evictions",
            "Revisions that were let go",
            finalizers_released,
        );
        registry.register("graph_revision_registry_entries", "Definitions that are being served", served);
        registry.register("instance_reconcile", "Passes over instances", instances);
        registry.register("instance_reconcile_errors", "Passes over instances that failed", instance_errors);
        registry.register("instance_reconcile_duration_seconds", "How long passes took", instance_seconds);
        registry.register(
            "instance_state_transitions",
            "Changes of an instance's state",
            instance_transitions,
        );
        registry.register("dynamic_controller_reconcile_panics", "Passes that panicked", panics);
        metrics
    }

    pub(crate) fn built(&self, took: Duration, accepted: bool) {
        self.builds.inc();
        self.build_seconds.observe(took.as_secs_f64());
        if !accepted {
            self.build_errors.inc();
        }
    }
}
