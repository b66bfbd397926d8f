//! The settings of the controller. The defaults do not throttle.

use std::time::Duration;

use kross_cluster::{Backoff, CacheOptions, ClusterOptions, LeaseOptions};

use crate::access_reviews::ReviewAges;
use crate::cluster_connection::ConnectionIntervals;
use crate::metrics::SpanCounts;
use crate::preflight::PreflightIntervals;
use crate::token_renewal::RenewalSettings;
use crate::webhook::WebhookOptions;

/// The settings of the controller.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kro version in labels.
    pub kro_version: String,
    /// Definitions that are reconciled at once.
    pub definition_workers: usize,
    /// Instances that are reconciled at once.
    pub instance_workers: usize,
    /// Whether the CRD of a deleted definition is deleted with it.
    pub allow_crd_deletion: bool,
    /// How many revisions of a definition are kept; none for all.
    pub max_revisions: Option<usize>,
    /// How many items a collection may have.
    pub max_collection_size: usize,
    /// What one instance may have.
    pub limits: kross_plan::Limits,
    /// How many clusters the instances of a namespace may use.
    pub max_namespace_clusters: usize,
    /// How long planning an instance may take.
    pub plan_timeout: Duration,
    /// Whether instances in a namespace may have objects and external references only in that namespace of the hub.
    pub no_cross_namespace: bool,
    /// The ServiceAccount that acts for instances whose definition names none; none for the controller itself.
    pub default_service_account: Option<String>,
    /// How long it is remembered what ServiceAccounts may read.
    pub access_reviews: ReviewAges,
    /// Options of the compiler.
    pub compile: kross_graph::Options,
    /// When a definition that waits for the hub is reconciled again without an event.
    pub progress_delay: Duration,
    /// When an instance that waits for a cluster is reconciled again without an event; none for never.
    pub instance_interval: Option<Duration>,
    /// The backoff of an instance that fails.
    pub instance_backoff: Backoff,
    /// Options of the caches.
    pub caches: CacheOptions,
    /// Options of the connections to other clusters.
    pub clusters: ClusterOptions,
    /// How often the states of other clusters are published.
    pub connections: ConnectionIntervals,
    /// When the tokens of registered clusters are renewed.
    pub renewals: RenewalSettings,
    /// How often preflights of other clusters run.
    pub preflights: PreflightIntervals,
    /// Whether changes of conditions are emitted as Events.
    pub condition_events: bool,
    /// Whether conditions are exposed as metrics.
    pub condition_metrics: bool,
    /// What becomes of the spans of traces; none while traces are off.
    pub spans: Option<SpanCounts>,
    /// How long running reconciles may take to finish at shutdown.
    pub shutdown_timeout: Duration,
    /// Leader election; none to run without it.
    pub leader_election: Option<LeaseOptions>,
    /// Where the certificate of the admission webhook is kept; none if it is not ours, or not served at all.
    pub webhook: Option<WebhookOptions>,
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
            limits: kross_plan::Limits::default(),
            max_namespace_clusters: 5_000,
            plan_timeout: Duration::from_secs(30),
            no_cross_namespace: false,
            default_service_account: None,
            access_reviews: ReviewAges::default(),
            compile: kross_graph::Options::default(),
            progress_delay: Duration::from_secs(3),
            instance_interval: Some(Duration::from_secs(3)),
            instance_backoff: Backoff::default(),
            caches: CacheOptions::default(),
            clusters: ClusterOptions::default(),
            connections: ConnectionIntervals::default(),
            renewals: RenewalSettings::default(),
            preflights: PreflightIntervals::default(),
            condition_events: true,
            condition_metrics: false,
            spans: None,
            shutdown_timeout: Duration::from_secs(60),
            leader_election: None,
            webhook: None,
        }
    }
}
