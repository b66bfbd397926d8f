//! Preflights: whether a graph fits another cluster, before anything is written there. A preflight fetches the schemas of
//! the kinds that the graph needs and reviews our access to them.
//!
//! Requesting a result never waits. A background task runs the preflight repeatedly, and those who requested it are requeued
//! when there is a result and when it changes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kross_cluster::{
    Backoff, Cache, ClusterClient, ClusterId, Lookup, ObjectKey, Task, WorkQueue, catch_async,
};
use kross_value::Text;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::graphs::Graphs;
use crate::key::{InstanceKey, Key};
use crate::openapi::DocumentStore;

mod cluster;
mod cluster_schemas;
mod needs;
mod permissions;
mod task;

pub(crate) use cluster_schemas::ClusterSchemas;
pub(crate) use needs::{Needs, Place};
pub(crate) use permissions::Denied;

use cluster::ClusterPreflight;
use task::PreflightTask;

/// How often preflights run.
#[derive(Clone, Copy, Debug)]
pub struct PreflightIntervals {
    /// The interval for a cluster that has everything that is needed.
    pub complete: Duration,
    /// The interval for a cluster that lacks something.
    pub incomplete: Duration,
    /// The backoff after failures.
    pub backoff: Backoff,
    /// After failing for this long a preflight ends, until somebody requests it again.
    pub give_up: Duration,
}

impl Default for PreflightIntervals {
    fn default() -> Self {
        Self {
            complete: Duration::from_secs(30),
            incomplete: Duration::from_secs(5),
            backoff: Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(30) },
            give_up: Duration::from_secs(600),
        }
    }
}

/// Who requests a preflight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    /// A definition, by name.
    Definition(Text),
    /// An instance.
    Instance(ObjectKey),
}

/// The result of a preflight, so far.
#[derive(Clone, Debug)]
pub(crate) enum PreflightResult {
    /// It has not run yet.
    Pending,
    /// It failed and has never succeeded; it is retried.
    Failed(Text),
    /// The findings of the last run that succeeded.
    Known(Arc<Findings>),
}

/// What a preflight found.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The schemas of the kinds, as far as the cluster serves them.
    pub(crate) schemas: Arc<ClusterSchemas>,
    /// The accesses that are denied.
    pub(crate) denied: Vec<Denied>,
    /// The user that the cluster authenticates us as, where an access is denied.
    pub(crate) user: Option<Text>,
}

impl Findings {
    /// A text that changes whenever one of the schemas does.
    pub(crate) fn fingerprint(&self) -> &Text {
        self.schemas.fingerprint()
    }

    /// A message about the permissions that are missing; none if all are granted.
    pub(crate) fn missing_permissions(&self, display: &str) -> Option<String> {
        if self.denied.is_empty() {
            return None;
        }
        let user = self.user.as_deref();
        let user = user.map_or("the kubeconfig's user".to_owned(), |user| format!("user `{user}`"));
        let denied: Vec<String> = self.denied.iter().map(ToString::to_string).collect();
        Some(format!(
            "cluster `{display}`: {user} may not {}; `kross rbac FILE --remote` prints the permissions that it needs",
            denied.join(", nor ")
        ))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint() && self.denied == other.denied && self.user == other.user
    }
}

/// Requeues requesters, and knows which of them still exist.
pub(crate) struct Requesters {
    pub(crate) definitions: Cache,
    pub(crate) definition_queue: WorkQueue<Key>,
    pub(crate) graphs: Arc<Graphs>,
    pub(crate) instance_queue: WorkQueue<InstanceKey>,
}

impl Requesters {
    fn requeue(&self, requester: Requester) {
        match requester {
            Requester::Definition(name) => self.definition_queue.add(&Key::Definition(name)),
            Requester::Instance(key) => self.instance_queue.add(&InstanceKey(key)),
        }
    }

    fn exists(&self, requester: &Requester) -> bool {
        match requester {
            Requester::Definition(name) => self.definitions.get(None, name) != Lookup::Absent,
            Requester::Instance(key) => self
                .graphs
                .serving(&key.group, &key.kind)
                .iter()
                .any(|served| served.instances.get(key.namespace.as_deref(), &key.name) != Lookup::Absent),
        }
    }
}

/// The preflights of all clusters.
///
/// # Lock order
///
/// `running`, then the locks of a [`Preflight`]. `clusters` is a leaf.
pub(crate) struct Preflights {
    intervals: PreflightIntervals,
    requesters: Arc<Requesters>,
    documents: Arc<DocumentStore>,
    /// By cluster and credential.
    clusters: Mutex<HashMap<(ClusterId, Text), Weak<ClusterPreflight>>>,
    running: Running,
}

/// The preflights whose task runs.
type Running = Arc<Mutex<HashMap<PreflightKey, Arc<Preflight>>>>;

/// A cluster, the credential for it, and what is needed there.
type PreflightKey = (ClusterId, Text, Arc<Needs>);

/// A preflight that runs.
///
/// # Lock order
///
/// `state` before those of the caches and graphs that tell whether a requester exists; it is not held while requesters are
/// requeued. `client` is a leaf. The two are never held together.
struct Preflight {
    state: Mutex<State>,
    /// The latest client that it was requested with: the connection of an older one may have been closed.
    client: Mutex<ClusterClient>,
    /// Runs it now.
    expedite: Notify,
}

struct State {
    result: PreflightResult,
    requesters: HashSet<Requester>,
    /// When it was last requested.
    requested: Instant,
    /// When it was last expedited by a request.
    expedited: Option<Instant>,
}

/// A request for a preflight that failed expedites the next run, but no more often than this.
const EXPEDITE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a requester that was requeued may take to request again.
const REQUESTER_GRACE: Duration = Duration::from_secs(60);

impl Preflights {
    pub(crate) fn new(
        intervals: PreflightIntervals,
        requesters: Requesters,
        documents: Arc<DocumentStore>,
    ) -> Self {
        Self {
            intervals,
            requesters: Arc::new(requesters),
            documents,
            clusters: Mutex::default(),
            running: Running::default(),
        }
    }

    /// The result of the preflight of a cluster, which is started if it does not run. Returns at once; the requester is
    /// requeued when the result changes.
    pub(crate) fn request(
        &self,
        client: &ClusterClient,
        needs: &Arc<Needs>,
        requester: Requester,
    ) -> PreflightResult {
        let key = (client.cluster().clone(), client.access().clone(), Arc::clone(needs));
        let mut running = self.running.lock();
        if let Some(preflight) = running.get(&key) {
            return preflight.request(client, requester);
        }
        let preflight = Arc::new(Preflight::new(client, requester));
        running.insert(key.clone(), Arc::clone(&preflight));
        drop(running);
        // Half of the shortest interval, so that every run sends its own requests unless another preflight just has.
        let task = PreflightTask::new(self.cluster(client), Arc::clone(needs), self.intervals.incomplete / 2);
        let preflight = PreflightLoop {
            intervals: self.intervals,
            requesters: Arc::clone(&self.requesters),
            preflight,
            key,
            running: Arc::downgrade(&self.running),
        };
        tokio::spawn(preflight.supervise(task));
        PreflightResult::Pending
    }

    /// The result of the preflight of a cluster, which is not started.
    pub(crate) fn known(&self, client: &ClusterClient, needs: &Arc<Needs>) -> PreflightResult {
        let key = (client.cluster().clone(), client.access().clone(), Arc::clone(needs));
        let preflight = self.running.lock().get(&key).cloned();
        preflight.map_or(PreflightResult::Pending, |preflight| preflight.state.lock().result.clone())
    }

    /// What all preflights of a cluster with one credential share.
    fn cluster(&self, client: &ClusterClient) -> Arc<ClusterPreflight> {
        let key = (client.cluster().clone(), client.access().clone());
        let mut clusters = self.clusters.lock();
        if let Some(known) = clusters.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        clusters.retain(|_, cluster| cluster.strong_count() > 0);
        let cluster = Arc::new(ClusterPreflight::new(Arc::clone(&self.documents)));
        clusters.insert(key, Arc::downgrade(&cluster));
        cluster
    }
}

impl Preflight {
    fn new(client: &ClusterClient, requester: Requester) -> Self {
        let state = State {
            result: PreflightResult::Pending,
            requesters: HashSet::from([requester]),
            requested: Instant::now(),
            expedited: None,
        };
        Self { state: Mutex::new(state), client: Mutex::new(client.pinned()), expedite: Notify::new() }
    }

    fn request(&self, client: &ClusterClient, requester: Requester) -> PreflightResult {
        self.use_latest(client);
        let mut state = self.state.lock();
        state.requesters.insert(requester);
        state.requested = Instant::now();
        let failed = matches!(state.result, PreflightResult::Failed(_));
        if failed && state.expedited.is_none_or(|last| last.elapsed() > EXPEDITE_INTERVAL) {
            state.expedited = Some(Instant::now());
            self.expedite.notify_one();
        }
        state.result.clone()
    }

    fn use_latest(&self, client: &ClusterClient) {
        let mut known = self.client.lock();
        if client.is_newer_than(&known) {
            let before = std::mem::replace(&mut *known, client.pinned());
            drop(known);
            // Outside the lock: it may be the last user of a connection.
            drop(before);
        }
    }
}

/// The task that runs a preflight repeatedly.
struct PreflightLoop {
    intervals: PreflightIntervals,
    requesters: Arc<Requesters>,
    preflight: Arc<Preflight>,
    key: PreflightKey,
    running: Weak<Mutex<HashMap<PreflightKey, Arc<Preflight>>>>,
}

impl PreflightLoop {
    /// Runs until nobody who requested it exists any more. After a panic those who wait get an error, and it runs again.
    async fn supervise(self, mut task: PreflightTask) {
        let mut panics = 0_u32;
        while let Err(panicked) = catch_async(Task::Preflight, self.run(&mut task)).await {
            panics = panics.saturating_add(1);
            self.publish(PreflightResult::Failed(panicked.to_string().into()));
            tokio::time::sleep(self.intervals.backoff.delay(panics, fastrand::f64())).await;
            if self.is_abandoned() {
                break;
            }
        }
        self.end();
    }

    async fn run(&self, task: &mut PreflightTask) {
        let mut failures = 0_u32;
        let mut succeeded = Instant::now();
        loop {
            let client = self.preflight.client.lock().clone();
            let wait = match task.run(&client).await {
                Ok(findings) => {
                    failures = 0;
                    succeeded = Instant::now();
                    let complete = findings.denied.is_empty() && findings.schemas.is_complete();
                    self.publish(PreflightResult::Known(Arc::new(findings)));
                    if complete {
                        self.drop_instances();
                    }
                    let interval = if complete { self.intervals.complete } else { self.intervals.incomplete };
                    interval.mul_f64(1.0 + fastrand::f64() / 3.0)
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    tracing::debug!(cluster = %self.key.0, %error, "preflight failed");
                    self.publish(PreflightResult::Failed(error.to_string().into()));
                    self.intervals.backoff.delay(failures, fastrand::f64())
                }
            };
            // Both the timeout and the notification are a reason to run again.
            let _ = tokio::time::timeout(wait, self.preflight.expedite.notified()).await;
            if self.is_abandoned() || (failures > 0 && succeeded.elapsed() > self.intervals.give_up) {
                return;
            }
        }
    }

    /// Stores a result, and requeues the requesters if it changed.
    fn publish(&self, result: PreflightResult) {
        let mut state = self.preflight.state.lock();
        let same = match (&state.result, &result) {
            (PreflightResult::Known(before), PreflightResult::Known(after)) => before.is_same(after),
            (PreflightResult::Failed(before), PreflightResult::Failed(after)) => before == after,
            // The last findings hold until a run succeeds.
            (PreflightResult::Known(_), PreflightResult::Failed(_)) => return,
            _ => false,
        };
        if same {
            return;
        }
        state.result = result;
        let requesters = std::mem::take(&mut state.requesters);
        drop(state);
        requesters.into_iter().for_each(|requester| self.requesters.requeue(requester));
    }

    /// Forgets the instances among the requesters once the cluster has everything: there are many of them, and they request
    /// it again when they have something to write.
    fn drop_instances(&self) {
        let mut state = self.preflight.state.lock();
        state.requesters.retain(|requester| matches!(requester, Requester::Definition(_)));
    }

    /// Whether nobody who requested it exists any more.
    fn is_abandoned(&self) -> bool {
        let mut state = self.preflight.state.lock();
        state.requesters.retain(|requester| self.requesters.exists(requester));
        state.requesters.is_empty() && state.requested.elapsed() > REQUESTER_GRACE
    }

    fn end(&self) {
        if let Some(running) = self.running.upgrade() {
            running.lock().remove(&self.key);
        }
        // Those who requested it in the last moment request it again, which starts another task.
        let requesters = std::mem::take(&mut self.preflight.state.lock().requesters);
        requesters.into_iter().for_each(|requester| self.requesters.requeue(requester));
    }
}
