//! The metrics that are read at each scrape: queue lengths, caches, requests, Events and clusters.

use std::fmt;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use kross_cluster::{
    Cache, Caches, ClusterClient, ClusterRegistry, Events, LeaseTransitions, Task, WorkQueue,
};
use kross_value::Text;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::cluster_series::{ClusterStatus, cluster_id};
use super::health;
use super::labels::Closed;
use super::register::{Description, Register};
use super::span_counts::SpanCounts;
use crate::graphs::Graphs;
use crate::key::InstanceKey;
use crate::token_renewal::TokenRenewals;

/// Where the metrics are read from.
pub(crate) struct Sources {
    pub(crate) queue: WorkQueue<InstanceKey>,
    pub(crate) caches: Caches,
    pub(crate) clusters: ClusterRegistry,
    pub(crate) renewals: TokenRenewals,
    pub(crate) client: ClusterClient,
    pub(crate) events: Option<Events>,
    pub(crate) graphs: Arc<Graphs>,
    pub(crate) definitions: Cache,
    pub(crate) hub_uid: Text,
    /// None without leader election.
    pub(crate) lease_transitions: Option<LeaseTransitions>,
    /// None while traces are off.
    pub(crate) spans: Option<SpanCounts>,
}

/// The sources, once the controller runs. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Collected(Arc<OnceLock<Sources>>);

impl Collected {
    pub(super) fn set(&self, sources: Sources) {
        // A controller runs once.
        let _ = self.0.set(sources);
    }

    pub(super) fn clusters(&self) -> Vec<ClusterStatus> {
        let Some(Sources { clusters, hub_uid, .. }) = self.0.get() else { return Vec::new() };
        let views = clusters.states().into_iter();
        views.map(|view| ClusterStatus { id: cluster_id(hub_uid, &view.secret), view }).collect()
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected").finish_non_exhaustive()
    }
}

/// A gauge and how it is read.
struct Gauge {
    name: &'static str,
    help: &'static str,
    read: fn(&Sources) -> usize,
}

const GAUGES: [Gauge; 10] = [
    Gauge {
        name: "dynamic_controller_queue_length",
        help: "Keys of instances that are ready to be processed",
        read: |sources| sources.queue.stats().ready,
    },
    Gauge {
        name: "dynamic_controller_gvr_count",
        help: "Kinds whose instances are reconciled",
        read: |sources| sources.graphs.all().len(),
    },
    Gauge {
        name: "dynamic_controller_watch_count",
        help: "Caches that watch or poll a cluster",
        read: |sources| sources.caches.states().len(),
    },
    Gauge {
        name: "graph_revision_registry_entries",
        help: "Definitions that are served",
        read: |sources| sources.graphs.all().iter().filter(|served| !served.own_graphs).count(),
    },
    Gauge {
        name: "kross_api_connections",
        help: "Open connections to the local cluster",
        read: |sources| {
            let stats = sources.client.stats();
            stats.requests.connections + stats.watches.connections
        },
    },
    Gauge {
        name: "kross_caches_over_limit",
        help: "Caches that have no objects because those of their cluster exceed `--cluster-max-cache-size`",
        read: |sources| sources.caches.states().iter().filter(|state| state.over_limit).count(),
    },
    Gauge {
        name: "kross_caches_over_watch_budget",
        help: "Caches that poll a cluster instead of watching it because `--watch-budget` is used up",
        read: |sources| sources.caches.states().iter().filter(|state| state.is_over_watch_budget()).count(),
    },
    Gauge {
        name: "kross_definitions_rejected",
        help: "Definitions that are not served as they are, because they do not compile or would break their instances",
        read: |sources| health::rejected_definitions(&sources.definitions),
    },
    Gauge {
        name: "kross_lease_transitions",
        help: "How often the Lease of the leader has changed its holder, as this replica read it last; 0 without leader election",
        read: |sources| {
            let transitions = sources.lease_transitions.as_ref().map_or(0, LeaseTransitions::get);
            usize::try_from(transitions).unwrap_or(0)
        },
    },
    Gauge {
        name: "kross_unreadable_objects",
        help: "Objects that cannot be read, for example because they are nested too deeply: a warning in the log names each, or counts those without a readable name",
        read: |sources| sources.caches.states().iter().map(|state| state.unreadable).sum(),
    },
];

const NOT_READY: &str = "kross_instances_not_ready";
const NOT_READY_HELP: &str =
    "Instances that have not been ready for longer than this, without those that are suspended";
const LONGER_THAN: &str = "longer_than";

/// Counters by the values of a label, and how they are read.
struct CounterFamily {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    values: fn() -> Vec<&'static str>,
    read: fn(&Sources) -> Vec<u64>,
}

pub(super) const RESULT: &str = "result";

const COUNTERS: [CounterFamily; 4] = [
    CounterFamily {
        name: "kross_api_requests",
        help: "Requests to the local cluster, without watches",
        label: RESULT,
        values: || vec!["answered", "unanswered"],
        read: |sources| {
            let requests = sources.client.stats().requests;
            vec![requests.answered, requests.failed]
        },
    },
    CounterFamily {
        name: "kross_events",
        help: "Kubernetes Events, by result",
        label: RESULT,
        values: || vec!["written", "repeated", "dropped", "failed"],
        read: |sources| {
            let stats = sources.events.as_ref().map(Events::stats).unwrap_or_default();
            vec![stats.written, stats.repeated, stats.dropped, stats.failed]
        },
    },
    CounterFamily {
        name: "kross_task_panics",
        help: "Panics outside of reconciles, by task; the log has their messages",
        label: "task",
        values: || Task::ALL.iter().map(|task| task.as_str()).collect(),
        read: |_| Task::ALL.iter().map(|task| task.panics()).collect(),
    },
    CounterFamily {
        name: "kross_trace_spans",
        help: "Spans of traces; `dropped` ones ended faster than they could be exported, `failed` ones were not accepted by the collector",
        label: RESULT,
        values: || SpanCounts::RESULTS.to_vec(),
        read: |sources| sources.spans.clone().unwrap_or_default().read().to_vec(),
    },
];

pub(super) fn register(register: &mut Register<'_>, collected: &Collected) {
    let gauges = GAUGES.iter().map(|gauge| Description {
        name: gauge.name,
        kind: MetricType::Gauge,
        help: gauge.help,
        labels: Closed::new(),
    });
    let counters = COUNTERS.iter().map(|family| Description {
        name: family.name,
        kind: MetricType::Counter,
        help: family.help,
        labels: vec![(family.label, (family.values)())],
    });
    let not_ready = Description {
        name: NOT_READY,
        kind: MetricType::Gauge,
        help: NOT_READY_HELP,
        labels: vec![(LONGER_THAN, health::AGES.iter().map(|(age, _)| *age).collect())],
    };
    let clusters = super::cluster_metrics::descriptions();
    let credentials = super::credential_metrics::descriptions();
    let all = gauges.chain([not_ready]).chain(counters).chain(clusters).chain(credentials);
    register.collector(collected.clone(), all.collect());
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(sources) = self.0.get() else { return Ok(()) };
        for Gauge { name, help, read } in &GAUGES {
            let number = i64::try_from(read(sources)).unwrap_or(i64::MAX);
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&number)?;
        }
        let mut family = encoder.encode_descriptor(NOT_READY, NOT_READY_HELP, None, MetricType::Gauge)?;
        let counts = health::not_ready_instances(&sources.graphs, Timestamp::now());
        for ((age, _), count) in health::AGES.iter().zip(counts) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            family.encode_family(&[(LONGER_THAN, *age)])?.encode_gauge(&count)?;
        }
        for CounterFamily { name, help, label, values, read } in &COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (value, number) in values().into_iter().zip(read(sources)) {
                ConstCounter::new(number).encode(family.encode_family(&[(*label, value)])?)?;
            }
        }
        super::cluster_metrics::encode(&mut encoder, &sources.clusters, &sources.hub_uid)?;
        super::credential_metrics::encode(
            &mut encoder,
            &sources.clusters,
            &sources.renewals,
            &sources.hub_uid,
        )
    }
}
