//! Counts the instances that use each cluster, and their objects there.

use std::collections::HashMap;

use kross_api::{ClusterId, SyncMode};
use kross_cluster::{CacheState, ClusterReport, Selection, StoredObject};
use kross_value::{Text, Value};

use crate::context::Context;

/// What the controller has in memory about the objects of all clusters.
#[derive(Default)]
pub(super) struct Counts {
    /// The objects that the statuses of instances count, by Secret.
    listed: HashMap<String, Listed>,
    /// The objects that are cached, by the credential that they are read with. They may include those of other hubs.
    cached: HashMap<(ClusterId, Text), Cached>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    /// Instances whose status has an entry for the cluster.
    instances: usize,
    objects: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cached {
    objects: usize,
    watches: bool,
    polls: bool,
    /// Whether a cache has not synced.
    incomplete: bool,
}

/// What is counted of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterCounts {
    pub(super) instances: usize,
    /// None while that is not known.
    pub(super) objects: Option<i64>,
    pub(super) mode: Option<SyncMode>,
}

impl Counts {
    pub(super) fn of(context: &Context) -> Self {
        let mut listed = HashMap::new();
        for served in context.graphs.all() {
            served.instances.known().iter().for_each(|instance| list(&mut listed, instance));
        }
        Self { listed, cached: cached(&context.caches.states()) }
    }

    /// The counts of a cluster that this many instances use. The status of an instance with very many clusters does not have all of
    /// them; then the cached objects count.
    pub(super) fn of_cluster(&self, report: &ClusterReport, instances: usize) -> ClusterCounts {
        let key = report
            .state
            .connected()
            .map(|connection| (connection.client.cluster().clone(), connection.client.access().clone()));
        let cached = key.and_then(|key| self.cached.get(&key)).copied().unwrap_or_default();
        let listed = self.listed.get(&report.secret.status_text()).copied().unwrap_or_default();
        let objects = if listed.instances >= instances {
            Some(listed.objects)
        } else if report.state.connected().is_some() && !cached.incomplete {
            i64::try_from(cached.objects).ok()
        } else {
            None
        };
        let mode = match (cached.watches, cached.polls) {
            (true, _) => Some(SyncMode::Watch),
            (false, true) => Some(SyncMode::Poll),
            (false, false) => None,
        };
        ClusterCounts { instances, objects, mode }
    }
}

fn list(listed: &mut HashMap<String, Listed>, instance: &StoredObject) {
    let clusters = instance.value().at(&["status", "clusters"]).and_then(Value::as_list).unwrap_or_default();
    for cluster in clusters {
        if let Some(secret) = cluster.get("secret").and_then(Value::as_str) {
            let entry = listed.entry(secret.to_owned()).or_default();
            entry.instances += 1;
            entry.objects += cluster.get("total").and_then(Value::as_int).unwrap_or_default();
        }
    }
}

fn cached(caches: &[CacheState]) -> HashMap<(ClusterId, Text), Cached> {
    let mut counts: HashMap<_, Cached> = HashMap::new();
    for cache in caches {
        if cache.key.cluster.is_local() || cache.key.selection != Selection::Managed {
            continue;
        }
        let count = counts.entry((cache.key.cluster.clone(), cache.key.access.clone())).or_default();
        count.objects += cache.objects;
        count.watches |= cache.mode == SyncMode::Watch;
        count.polls |= cache.mode == SyncMode::Poll;
        count.incomplete |= !cache.synced;
    }
    counts
}
