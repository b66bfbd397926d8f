//! The metrics of definitions and revisions.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::labels::{DefinitionTransition, Issued, Resolved};
use super::register::Register;

const BUILD_BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
const DELETION_BUCKETS: [f64; 8] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];

/// The metrics of definitions and revisions. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct DefinitionMetrics {
    builds: Counter,
    build_errors: Counter,
    build_seconds: Histogram,
    pub(crate) transitions: Family<DefinitionTransition, Counter>,
    deletions: Counter,
    deletion_seconds: Histogram,
    pub(crate) revisions_issued: Family<Issued, Counter>,
    pub(crate) revisions_resolved: Family<Resolved, Counter>,
    pub(crate) revisions_deleted: Counter,
    pub(crate) revision_deletion_errors: Counter,
    pub(crate) revisions_released: Counter,
}

impl DefinitionMetrics {
    pub(super) fn register(register: &mut Register<'_>) -> Self {
        Self {
            builds: register.counter("rgd_graph_build", "Compilations of definitions"),
            build_errors: register
                .counter("rgd_graph_build_errors", "Compilations of definitions that failed"),
            build_seconds: register.histogram(
                "rgd_graph_build_duration_seconds",
                "Duration of compilations of definitions",
                BUILD_BUCKETS,
            ),
            transitions: register.counters("rgd_state_transitions", "State transitions of definitions"),
            deletions: register.counter("rgd_deletions", "Definitions that were deleted"),
            deletion_seconds: register.histogram(
                "rgd_deletion_duration_seconds",
                "Time from the deletion request for a definition until its finalizer was removed",
                DELETION_BUCKETS,
            ),
            revisions_issued: register.counters("rgd_graph_revision_issue", "Revisions that were issued"),
            revisions_resolved: register
                .counters("rgd_graph_revision_resolution", "Resolutions of the revision to serve, by result"),
            revisions_deleted: register
                .counter("rgd_graph_revision_gc_deleted", "Old revisions that were deleted"),
            revision_deletion_errors: register
                .counter("rgd_graph_revision_gc_errors", "Old revisions that could not be deleted"),
            revisions_released: register
                .counter("graph_revision_finalizer_evictions", "Revisions whose finalizer was removed"),
        }
    }

    /// Counts a compilation.
    pub(crate) fn built(&self, took: Duration, accepted: bool) {
        self.builds.inc();
        self.build_seconds.observe(took.as_secs_f64());
        if !accepted {
            self.build_errors.inc();
        }
    }

    /// Counts a deletion, with the time since it was requested, if that is known.
    pub(crate) fn deleted(&self, took: Option<Duration>) {
        self.deletions.inc();
        if let Some(took) = took {
            self.deletion_seconds.observe(took.as_secs_f64());
        }
    }
}
