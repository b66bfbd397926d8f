//! What an operator can decide about the controller, with defaults that do not throttle.

use std::time::Duration;

use kross_cluster::{Backoff, CacheOptions, ClusterOptions, LeaseOptions};

use crate::preflight::PreflightPace;

/// How the controller behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kro version that labels name.
    pub kro_version: String,
    /// Definitions that are reconciled at once.
    pub definition_workers: usize,
    /// Instances that are reconciled at once.
    pub instance_workers: usize,
    /// Whether the CRD of a deleted definition goes with it.
    pub allow_crd_deletion: bool,
    /// How many revisions of a definition are kept; none for all.
    pub max_revisions: Option<usize>,
    /// How many items a collection may have.
    pub max_collection_size: usize,
    /// What a compilation takes for granted.
    pub compile: kross_graph::Options,
    /// The wait before a definition that waits for the cluster is looked at again without an event.
    pub progress_delay: Duration,
    /// The same for an instance; none for never.
    pub instance_interval: Option<Duration>,
    /// The waits of an instance that fails.
    pub instance_backoff: Backoff,
    /// How copies of clusters are kept.
    pub watches: CacheOptions,
    /// How other clusters are looked after.
    pub clusters: ClusterOptions,
    /// How often other clusters are asked for their schemas and our permissions.
    pub preflights: PreflightPace,
    /// Whether changes of conditions become Events.
    pub condition_events: bool,
    /// Whether conditions become metrics.
    pub condition_metrics: bool,
    /// How long running work may take to finish.
    pub shutdown_timeout: Duration,
    /// The Lease to hold while acting; none to act alone.
    pub leader_election: Option<LeaseOptions>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kro_version: kross_api::DEFAULT_KRO_VERSION.to_owned(),
            definition_workers: 4,
            instance_workers: 64,
            allow_crd_deletion: false,
            max_revisions: Some(5),
            max_collection_size: 1000,
            compile: kross_graph::Options::default(),
            progress_delay: Duration::from_secs(3),
            instance_interval: Some(Duration::from_secs(3)),
            instance_backoff: Backoff::default(),
            watches: CacheOptions::default(),
            clusters: ClusterOptions::default(),
            preflights: PreflightPace::default(),
            condition_events: true,
            condition_metrics: false,
            shutdown_timeout: Duration::from_secs(60),
            leader_election: None,
        }
    }
}
