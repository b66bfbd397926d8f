//! Turns what the registry knows of each remote cluster into ClusterConnections, which people read with their own rights. Only the
//! leader writes them. An object is written when the state of its cluster changes, and details now and then; a hub on which nothing
//! changes gets no request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kross_api::{ClusterConnectionStatus, FailureReason, SecretAddress, cluster_connection_name};
use kross_cluster::{
    ApiError, Cache, CacheEvent, CacheOptions, Caches, ClusterEvent, ClusterReport, Lookup, Selection,
    StoredObject, Task, catch_async,
};
use kross_value::Text;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::context::Context;
use crate::fair_share::{Contender, fair_share};
use crate::kinds;

mod counts;
mod pace;
mod status;
mod write;

use counts::Counts;
use pace::Pace;
use status::{Continued, Importance};

/// How many ClusterConnections there are at most. Whoever may create instances decides how many references there are.
const MAX_CONNECTIONS: usize = 5_000;
/// How long events are collected before they are published.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How many objects are written before the state of all clusters is read again.
const BATCH: usize = 20;
/// The time between two writes.
const BETWEEN_WRITES: Duration = Duration::from_millis(25);
/// How long nothing is written after a write that the controller may not do, and after one that failed otherwise.
const FORBIDDEN_WAIT: Duration = Duration::from_secs(600);
const FAILED_WAIT: Duration = Duration::from_secs(5);

/// How often ClusterConnections are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionIntervals {
    /// How often clusters are compared with what is published of them, without an event.
    pub compare: Duration,
    /// The least time between two writes of the same object that change only details, such as counts.
    pub details: Duration,
    /// The time in which an object may be written once for changes of the state, when it changes all the time.
    pub states: Duration,
    /// How long after the last use of a cluster its object is deleted. After a restart it takes a while until all are used again.
    pub unused: Duration,
}

impl Default for ConnectionIntervals {
    fn default() -> Self {
        Self {
            compare: Duration::from_secs(10),
            details: Duration::from_secs(60),
            states: Duration::from_secs(20),
            unused: Duration::from_secs(120),
        }
    }
}

/// Publishes the clusters for ever; never returns.
pub(crate) async fn run(context: Arc<Context>) {
    let mut changes = context.clusters.subscribe();
    let mut crds = context.crds.subscribe();
    let mut publisher = Publisher::new(Arc::clone(&context));
    loop {
        let wait = catch_async(Task::Connections, publisher.pass()).await;
        // A panic was logged, and the next pass may do better.
        let wait = wait.unwrap_or(context.settings.connections.compare);
        let wake = Instant::now() + wait;
        tokio::select! {
            () = sleep_until(wake) => {}
            Some(_) = changes.recv() => {}
            Some(_) = crds.recv() => {}
            () = publisher.object_changed() => {}
        }
        if wait > DEBOUNCE {
            sleep(DEBOUNCE).await;
        }
        drain(&mut changes, &mut crds);
    }
}

fn drain(
    changes: &mut mpsc::UnboundedReceiver<ClusterEvent>,
    crds: &mut mpsc::UnboundedReceiver<CacheEvent>,
) {
    while changes.try_recv().is_ok() {}
    while crds.try_recv().is_ok() {}
}

/// What is remembered of a published cluster.
struct Known {
    pace: Pace,
    continued: Option<Continued>,
}

/// Something to write.
enum Write {
    Create(SecretAddress, ClusterConnectionStatus),
    Update(Arc<StoredObject>, ClusterConnectionStatus),
    Delete(Arc<StoredObject>),
}

struct Publisher {
    context: Arc<Context>,
    /// Kept apart from the caches of instances: nothing else depends on these objects.
    caches: Caches,
    /// The published objects, where their CRD is installed.
    published: Option<(Cache, mpsc::UnboundedReceiver<CacheEvent>)>,
    started: Instant,
    known: HashMap<Text, Known>,
    /// What was counted last, and when.
    counts: (Counts, Option<Instant>),
    /// Since when objects have had no cluster.
    unused: HashMap<Text, Instant>,
    /// Nothing is written before.
    paused_until: Option<Instant>,
    /// Whether the last failure was logged.
    is_failing: bool,
}

impl Publisher {
    fn new(context: Arc<Context>) -> Self {
        let options = CacheOptions { indexed_labels: Vec::new(), ..context.settings.caches.clone() };
        Self {
            caches: Caches::new(options),
            context,
            published: None,
            started: Instant::now(),
            known: HashMap::new(),
            counts: Default::default(),
            unused: HashMap::new(),
            paused_until: None,
            is_failing: false,
        }
    }

    /// Returns when one of the objects has changed; never where there are none.
    async fn object_changed(&mut self) {
        if let Some((_, events)) = &mut self.published
            && events.recv().await.is_some()
        {
            while events.try_recv().is_ok() {}
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Compares all clusters with what is published, and writes the most important differences. Returns how long nothing else is
    /// to be done.
    async fn pass(&mut self) -> Duration {
        let compare = self.context.settings.connections.compare;
        self.follow_crd();
        let now = Instant::now();
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return until.duration_since(now).min(compare);
        }
        let Some((cache, _)) = &self.published else { return compare };
        let Some(objects) = cache.list_readable() else {
            if let Some(error) = cache.failure() {
                self.failed(&error);
            }
            return compare;
        };
        let mut writes = self.plan(objects, now);
        writes.sort_by_key(|(importance, _)| *importance);
        let is_more = writes.len() > BATCH;
        for (_, write) in writes.into_iter().take(BATCH) {
            if let Err(error) = self.write(write).await
                && self.failed(&error)
            {
                return compare;
            }
            sleep(BETWEEN_WRITES).await;
        }
        if is_more { Duration::ZERO } else { compare }
    }

    /// Opens the cache of the objects when their CRD is established, and closes it when the CRD is deleted.
    fn follow_crd(&mut self) {
        let kind = kinds::cluster_connection();
        let crd = self.context.crds.get(None, &format!("{}.{}", kind.plural, kind.group));
        let is_established = match crd {
            Lookup::Found(crd) => kinds::is_established(crd.value()),
            Lookup::Absent => false,
            Lookup::Unknown => return,
        };
        if is_established && self.published.is_none() {
            let cache = self.caches.watch(&self.context.client, &kind, Selection::All);
            let events = cache.subscribe();
            self.published = Some((cache, events));
        } else if !is_established && self.published.take().is_some() {
            self.known.clear();
        }
    }

    /// What differs, and how important it is.
    fn plan(&mut self, objects: Vec<Arc<StoredObject>>, now: Instant) -> Vec<(Importance, Write)> {
        let reports = named(self.context.clusters.reports());
        self.count(now);
        let mut objects: BTreeMap<Text, Arc<StoredObject>> =
            objects.into_iter().map(|object| (object.name().clone(), object)).collect();
        let mut writes = Vec::new();
        for (name, report) in &reports {
            self.unused.remove(name);
            let object = objects.remove(name);
            match object.filter(|object| write::is_of(object, &report.secret)) {
                Some(object) if object.deletion_timestamp().is_some() => {}
                object => writes.extend(self.plan_one(name, report, object, now)),
            }
        }
        writes.extend(self.plan_deletions(objects.into_values(), now));
        let held: BTreeSet<&Text> = reports.keys().collect();
        self.known.retain(|name, _| held.contains(name));
        writes
    }

    /// Counts again, if that was not done lately: there may be many instances.
    fn count(&mut self, now: Instant) {
        let interval = self.context.settings.connections.compare / 2;
        if self.counts.1.is_none_or(|counted| now.duration_since(counted) >= interval) {
            self.counts = (Counts::of(&self.context), Some(now));
        }
    }

    fn plan_one(
        &mut self,
        name: &Text,
        report: &ClusterReport,
        object: Option<Arc<StoredObject>>,
        now: Instant,
    ) -> Option<(Importance, Write)> {
        let intervals = self.context.settings.connections;
        let known = self.known.entry(name.clone()).or_insert_with(|| Known {
            // Counts are not complete right after a start.
            pace: Pace::new(intervals, object.is_some(), self.started),
            continued: None,
        });
        let before = object.as_deref().and_then(write::status_of).unwrap_or_default();
        let users = self.context.instances.count_cluster_users(&report.secret);
        let counts = self.counts.0.of_cluster(report, users);
        let status = status::plan(&before, report, counts, &mut known.continued)?;
        let importance = status::importance(&before, &status)?;
        known.pace.take(importance, now).then(|| {
            let write = match object {
                Some(object) => Write::Update(object, status),
                None => Write::Create(report.secret.clone(), status),
            };
            (importance, write)
        })
    }

    /// Objects of clusters that have not been used for a while.
    fn plan_deletions(
        &mut self,
        objects: impl Iterator<Item = Arc<StoredObject>>,
        now: Instant,
    ) -> Vec<(Importance, Write)> {
        let delay = self.context.settings.connections.unused;
        let mut unused = HashMap::new();
        let mut writes = Vec::new();
        for object in objects.filter(|object| object.deletion_timestamp().is_none()) {
            let since = self.unused.get(object.name()).copied().unwrap_or(now);
            unused.insert(object.name().clone(), since);
            if now.duration_since(since) >= delay {
                writes.push((Importance::Deletion, Write::Delete(object)));
            }
        }
        self.unused = unused;
        writes
    }

    async fn write(&mut self, write: Write) -> Result<(), ApiError> {
        let Some((cache, _)) = &self.published else { return Ok(()) };
        let client = &self.context.client;
        match write {
            Write::Create(secret, status) => write::create(client, cache, &secret, &status).await?,
            Write::Update(object, status) => write::update(client, cache, &object, &status).await?,
            Write::Delete(object) => write::delete(client, &object).await?,
        }
        self.is_failing = false;
        Ok(())
    }

    /// Logs the first of several failures. Returns whether to pause: not if the object has changed meanwhile.
    fn failed(&mut self, error: &ApiError) -> bool {
        if error.is_fenced() || error.reason() == FailureReason::Conflict || error.is_object_not_found() {
            return false;
        }
        let is_forbidden = error.reason() == FailureReason::Forbidden;
        let wait = if is_forbidden { FORBIDDEN_WAIT } else { FAILED_WAIT };
        self.paused_until = Some(Instant::now() + wait);
        if !std::mem::replace(&mut self.is_failing, true) {
            let advice =
                if is_forbidden { "allow it, or delete the CRD `clusterconnections.kro.run`" } else { "" };
            tracing::warn!(%error, advice, "cannot publish the state of clusters as ClusterConnections");
        }
        true
    }
}

/// The clusters to publish, by the names of their objects.
fn named(reports: Vec<ClusterReport>) -> BTreeMap<Text, ClusterReport> {
    let contenders = reports.into_iter().map(|report| Contender {
        namespace: report.secret.namespace.clone(),
        name: report.secret.status_text(),
        is_preferred: report.was_connected(),
        item: report,
    });
    let chosen = fair_share(contenders, MAX_CONNECTIONS).into_iter();
    chosen.map(|report| (cluster_connection_name(&report.secret).into(), report)).collect()
}
