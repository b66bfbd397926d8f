//! Runs the controller: caches first, then leader election, then workers, until it is told to stop and the running
//! reconciles have finished.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use kross_api::FailureReason;
use kross_cluster::{
    ApiKind, CacheEvent, Caches, ClusterChange, ClusterClient, LeaderElection, Leadership, SecretName, Task,
    WorkItem, catch,
};
use kross_value::Text;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::cluster_connection;
use crate::connection_secret;
use crate::context::Context;
use crate::definition;
use crate::dispatch::Dispatch;
use crate::graphs::Graphs;
use crate::instance;
use crate::key::{InstanceKey, Key, WorkloadKey};
use crate::kinds;
use crate::liveness::{Heartbeat, Liveness};
use crate::metrics::{ClusterStatus, Metrics};
use crate::permits::{Permit, Permits};
use crate::readiness::Readiness;
use crate::resync;
use crate::secret_protection;
use crate::settings::Settings;
use crate::token_renewal;
use crate::validator::DefinitionValidator;
use crate::webhook::{self, CertificateKeeper, ServingCertificate, ServingCertificates};
use crate::workload;

const WATCHES: &str = "watches";
const LEADERSHIP: &str = "leadership";

const DISPATCH: &str = "dispatch";
const ELECTION: &str = "leader election";
const DEFINITIONS: &str = "definitions";
const INSTANCES: &str = "instances";
const WORKLOADS: &str = "workloads";
const WORKERS: &str = "workers";

/// How long the dispatch of one event may take before the controller counts as stuck.
const DISPATCH_LIMIT: Duration = Duration::from_secs(60);
/// How long a reconcile of a definition, or the wait of an instance for a permit, may take before the controller counts as
/// stuck. All of their requests have time limits.
const WORKER_LIMIT: Duration = Duration::from_secs(600);

/// The controller of one hub.
pub struct Controller {
    client: ClusterClient,
    lease_client: ClusterClient,
    settings: Settings,
    metrics: Metrics,
    readiness: Readiness,
    liveness: Liveness,
    graphs: Arc<Graphs>,
    validator: DefinitionValidator,
    certificate: watch::Sender<Option<Arc<ServingCertificate>>>,
}

/// Why the controller ended.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Another process leads now; this one must not write any more.
    #[error("lost the Lease `{lease}`; another process may lead now, so this one ends")]
    LostLeadership {
        /// Namespace and name of the Lease.
        lease: String,
    },
    /// Reconciles did not finish in time after the controller was told to stop.
    #[error("{count} reconciles did not finish within {limit:?}")]
    Unfinished {
        /// How many.
        count: usize,
        /// The time limit.
        limit: Duration,
    },
    /// A task that the controller cannot work without has ended.
    #[error("task `{task}` has ended unexpectedly")]
    TaskEnded {
        /// The task.
        task: &'static str,
    },
}

impl Controller {
    /// A controller that does not run yet. The Lease is renewed over a connection of its own, so that other requests cannot
    /// delay it.
    #[must_use]
    pub fn new(
        client: ClusterClient,
        lease_client: ClusterClient,
        settings: Settings,
        registry: &mut Registry,
    ) -> Self {
        let graphs = Arc::<Graphs>::default();
        let checks = [WATCHES]
            .into_iter()
            .chain(settings.leader_election.as_ref().map(|_| LEADERSHIP))
            .chain(settings.webhook.as_ref().map(|_| webhook::CHECK));
        Self {
            client,
            lease_client,
            readiness: Readiness::new(checks),
            liveness: Liveness::default(),
            metrics: Metrics::new(registry, settings.condition_metrics.then(|| Arc::clone(&graphs))),
            graphs,
            validator: DefinitionValidator::default(),
            certificate: watch::channel(None).0,
            settings,
        }
    }

    /// Whether the caches have synced and, with leader election, it is known who leads.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Whether the loops of the controller make progress.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        self.liveness.clone()
    }

    /// A function that gives the clusters in use, as they are when it is called.
    pub fn clusters(&self) -> impl Fn() -> Vec<ClusterStatus> + Clone + Send + Sync + use<> {
        let metrics = self.metrics.clone();
        move || metrics.cluster_states()
    }

    /// The definitions that are served.
    #[must_use]
    pub fn graphs(&self) -> Arc<Graphs> {
        Arc::clone(&self.graphs)
    }

    /// Validates definitions for the admission webhook, from the time when the caches have synced.
    #[must_use]
    pub fn validator(&self) -> DefinitionValidator {
        self.validator.clone()
    }

    /// The certificates that the admission webhook is served with, if [`Settings::webhook`] says where they are kept.
    #[must_use]
    pub fn certificates(&self) -> ServingCertificates {
        self.certificate.subscribe()
    }

    /// Runs until `stop` is ready, then waits for the running reconciles.
    ///
    /// # Errors
    /// Leadership is lost, reconciles do not finish in time, or a task has ended unexpectedly.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ControllerError> {
        let Self {
            client,
            lease_client,
            settings,
            metrics,
            readiness,
            liveness,
            graphs,
            validator,
            certificate,
        } = self;
        tokio::pin!(stop);
        let uid = tokio::select! {
            () = &mut stop => return Ok(()),
            uid = hub_uid(&client) => uid,
        };
        let uid = match uid {
            HubUid::Namespace(uid) => {
                // The address of the hub may lead to another cluster later.
                [&client, &lease_client].into_iter().for_each(|client| client.expect_uid(&uid));
                uid
            }
            HubUid::Crd(uid) => uid,
        };
        let caches = Caches::new(settings.caches.clone());
        // Before the first cache is opened, so that no event is missed.
        let events = caches.subscribe();
        let options = settings.leader_election.clone();
        let election = options.map(|options| LeaderElection::start(lease_client, options));
        let client = match &election {
            Some(election) => client.fenced(election.fence()),
            None => client,
        };
        let metrics = (metrics, election.as_ref().map(LeaderElection::transitions));
        let context = Arc::new(Context::new(client, &uid, caches, settings, metrics, graphs));
        let leadership = election.as_ref().map(LeaderElection::leadership);
        let (mut tasks, mut workers, passes) = (JoinSet::new(), JoinSet::new(), Passes::default());
        let heartbeat = liveness.heartbeat(DISPATCH, DISPATCH_LIMIT);
        let synced = dispatch_events(&context, events, heartbeat, &mut tasks);
        requeue_cluster_users(&context, &mut tasks);
        requeue_secret_users(&context, &mut tasks);
        if let Some(options) = context.settings.webhook.clone() {
            let fence = election.as_ref().map(|election| election.fence().clone()).unwrap_or_default();
            let (client, readiness) = (context.client.clone(), readiness.clone());
            tasks.spawn(CertificateKeeper { client, fence, options, served: certificate, readiness }.run());
        }
        let (led, has_led) = oneshot::channel();
        let lost = lost(leadership.clone(), has_led);
        tokio::pin!(lost);
        let ended = {
            let start = leadership.clone().map(|leadership| (leadership, led));
            let work = async {
                let ((), (), ended) = tokio::join!(
                    report_leadership(leadership.clone(), &readiness),
                    start_validator(&context, synced.clone(), &validator),
                    work(&context, synced, start, &readiness, &liveness, &mut workers, &passes)
                );
                ended
            };
            tokio::select! {
                () = &mut stop => Ok(()),
                () = &mut lost => Err(lost_leadership(&context)),
                task = work => Err(ControllerError::TaskEnded { task }),
                // Neither of them ends before the controller does.
                _ = tasks.join_next() => Err(ControllerError::TaskEnded { task: DISPATCH }),
            }
        };
        shut_down(&context, ended, lost, [workers, tasks], &passes, election).await
    }
}

/// Turns the events of the caches into keys of the work queues. Returns whether the caches of definitions, revisions and
/// CRDs have synced.
fn dispatch_events(
    context: &Arc<Context>,
    mut events: mpsc::UnboundedReceiver<CacheEvent>,
    heartbeat: Heartbeat,
    tasks: &mut JoinSet<()>,
) -> watch::Receiver<bool> {
    let mut dispatch = Dispatch::new(Arc::clone(context));
    let (sender, synced) = watch::channel(false);
    tasks.spawn(async move {
        while let Some(event) = heartbeat.wait(events.recv()).await {
            // A panic ends the routing of this event, and not that of the others.
            if catch(Task::Dispatch, || dispatch.dispatch(&event)) == Ok(true) {
                sender.send_if_modified(|synced| !std::mem::replace(synced, true));
            }
        }
    });
    synced
}

/// Requeues the instances and definitions that use a cluster when its connection changes.
fn requeue_cluster_users(context: &Arc<Context>, tasks: &mut JoinSet<()>) {
    let (mut events, context) = (context.clusters.subscribe(), Arc::clone(context));
    tasks.spawn(async move {
        while let Some(event) = events.recv().await {
            // It was logged, and the next event is independent of this one.
            let _ = catch(Task::Dispatch, || {
                if event.change != ClusterChange::Protection {
                    context.requeue_users_of(&event.secret);
                    context.requeue_targets_of(&event.secret);
                }
                context.definition_queue.add(&Key::Secret(SecretName::from(&event.secret)));
            });
        }
    });
}

/// Requeues the targets and claims that copy a connection Secret when it changes.
fn requeue_secret_users(context: &Arc<Context>, tasks: &mut JoinSet<()>) {
    let (mut events, context) = (context.connection_secrets.subscribe(), Arc::clone(context));
    tasks.spawn(async move {
        while let Some(event) = events.recv().await {
            // It was logged, and the next event is independent of this one.
            let _ = catch(Task::Dispatch, || connection_secret::changed(&context, &event));
        }
    });
}

/// Closes the queues and waits for the running reconciles, unless leadership is lost: then they are cancelled, so that they
/// do not interfere with the new leader. Releases the Lease last.
async fn shut_down(
    context: &Context,
    ended: Result<(), ControllerError>,
    lost: impl Future<Output = ()>,
    tasks: [JoinSet<()>; 2],
    passes: &Passes,
    election: Option<LeaderElection>,
) -> Result<(), ControllerError> {
    context.definition_queue.close();
    context.instance_queue.close();
    context.workload_queue.close();
    let ended = match ended {
        // The election goes on renewing the Lease. Once that fails, another process may lead.
        Ok(()) => tokio::select! {
            drained = drain(context) => drained,
            () = lost => Err(lost_leadership(context)),
        },
        Err(error) => Err(error),
    };
    // Before the Lease is released: nothing may be written without it.
    for mut tasks in tasks {
        tasks.shutdown().await;
    }
    passes.cancel().await;
    if let Some(events) = &context.events {
        // Events that are not written within a second are dropped.
        let _ = tokio::time::timeout(Duration::from_secs(1), events.flush()).await;
    }
    if let Some(election) = election {
        election.resign().await;
    }
    ended
}

/// The UID of the hub.
enum HubUid {
    /// That of its `kube-system` namespace.
    Namespace(Text),
    /// That of our own CRD, where the namespace may not be read.
    Crd(Text),
}

/// Reads the UID of the hub. Objects in other clusters carry it, so nothing can start without it.
async fn hub_uid(client: &ClusterClient) -> HubUid {
    let namespaces = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
    let mut wait = Duration::from_millis(200);
    loop {
        let found = match client.get(&namespaces, None, "kube-system").await {
            Err(error) if error.reason() == FailureReason::Forbidden || error.is_object_not_found() => {
                let crd = client.get(&kinds::crd(), None, "resourcegraphdefinitions.kro.run").await;
                crd.map(|crd| HubUid::Crd(crd.uid().clone()))
            }
            found => found.map(|namespace| HubUid::Namespace(namespace.uid().clone())),
        };
        match found {
            Ok(uid) => return uid,
            Err(error) => tracing::warn!(%error, "cannot determine the UID of the hub; retrying"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

fn lost_leadership(context: &Context) -> ControllerError {
    let options = context.settings.leader_election.as_ref();
    let lease = options.map(|options| format!("{}/{}", options.namespace, options.name));
    ControllerError::LostLeadership { lease: lease.unwrap_or_default() }
}

/// Sets the readiness check once it is known who leads.
async fn report_leadership(leadership: Option<watch::Receiver<Leadership>>, readiness: &Readiness) {
    if let Some(mut leadership) = leadership {
        let known = leadership.wait_for(|leadership| *leadership != Leadership::Unknown).await;
        readiness.set(LEADERSHIP, known.is_ok());
    }
}

/// Validates definitions once the caches have synced, also while another process leads.
async fn start_validator(
    context: &Arc<Context>,
    mut synced: watch::Receiver<bool>,
    validator: &DefinitionValidator,
) {
    if synced.wait_for(|synced| *synced).await.is_ok() {
        validator.start(context);
    }
}

/// Returns when this process has led and leads no more; never without leader election.
async fn lost(leadership: Option<watch::Receiver<Leadership>>, has_led: oneshot::Receiver<()>) {
    if let (Some(mut leadership), Ok(())) = (leadership, has_led.await) {
        // `wait_for` checks the current value too: leadership may be lost already. An election that ended is lost as well.
        drop(leadership.wait_for(|leadership| *leadership != Leadership::Leading).await);
        return;
    }
    std::future::pending::<()>().await;
}

/// Waits for the caches and for leadership, then runs the workers. Returns the task that has ended, which none should.
async fn work(
    context: &Arc<Context>,
    mut synced: watch::Receiver<bool>,
    leadership: Option<(watch::Receiver<Leadership>, oneshot::Sender<()>)>,
    readiness: &Readiness,
    liveness: &Liveness,
    workers: &mut JoinSet<()>,
    passes: &Passes,
) -> &'static str {
    if synced.wait_for(|synced| *synced).await.is_err() {
        return DISPATCH;
    }
    readiness.set(WATCHES, true);
    tracing::info!("caches have synced");
    if let Some((mut leadership, led)) = leadership {
        if leadership.wait_for(|leadership| *leadership == Leadership::Leading).await.is_err() {
            // The election has ended, so this process would never lead.
            return ELECTION;
        }
        tracing::info!("started leading");
        let _ = led.send(());
        list_afresh(context).await;
    }
    for _ in 0..context.settings.definition_workers.max(1) {
        let heartbeat = liveness.heartbeat(DEFINITIONS, WORKER_LIMIT);
        workers.spawn(reconcile_definitions(Arc::clone(context), heartbeat));
    }
    let heartbeat = liveness.heartbeat(INSTANCES, WORKER_LIMIT);
    workers.spawn(reconcile_instances(Arc::clone(context), passes.clone(), heartbeat));
    let heartbeat = liveness.heartbeat(WORKLOADS, WORKER_LIMIT);
    workers.spawn(reconcile_workloads(Arc::clone(context), passes.clone(), heartbeat));
    if let Some(period) = context.settings.caches.resync_period {
        workers.spawn(resync::run(Arc::clone(context), period));
    }
    workers.spawn(cluster_connection::run(Arc::clone(context)));
    workers.spawn(token_renewal::run(Arc::clone(context)));
    // It ends once the Secrets of earlier processes are looked through; the workers never do.
    let review_secrets = async {
        tokio::join!(
            secret_protection::requeue_protected(context),
            connection_secret::delete_orphans(context)
        );
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = workers.join_next() => {}
        () = review_secrets => {}
    }
    WORKERS
}

/// Lists definitions, revisions and CRDs again. The caches of a standby may lag behind what the previous leader has done, and
/// an outdated definition would prune what a newer one desires. All other caches are opened after this, and list then. The CRDs of
/// targets may be installed without permissions on them; nothing else waits for those.
async fn list_afresh(context: &Context) {
    let Context { definitions, revisions, crds, .. } = context;
    let workloads = context.workload.caches();
    let workloads =
        futures::future::join_all(workloads.iter().map(|(_, cache)| cache.relist_unless_refused()));
    tokio::join!(definitions.relist(), revisions.relist(), crds.relist(), workloads);
}

async fn reconcile_definitions(context: Arc<Context>, heartbeat: Heartbeat) {
    while let Some(item) = heartbeat.wait(context.definition_queue.next()).await {
        catch_panic(&context, reconcile_definition(&context, item)).await;
    }
}

async fn reconcile_definition(context: &Context, item: WorkItem<Key>) {
    let outcome = match &*item {
        Key::Definition(name) => definition::reconcile(context, name).await,
        Key::Revision(name) => definition::release_revision(context, name).await,
        Key::Secret(name) => secret_protection::reconcile(context, name).await,
    };
    item.finish(outcome);
}

async fn reconcile_instances(context: Arc<Context>, passes: Passes, heartbeat: Heartbeat) {
    let permits = Permits::new(context.settings.instance_workers);
    loop {
        // In this order, so that no permit is held while the queue is empty.
        let Some(item) = heartbeat.wait(context.instance_queue.next()).await else { return };
        let permit = permits.acquire().await;
        let context = Arc::clone(&context);
        passes.spawn(async move { catch_panic(&context, reconcile_instance(&context, item, permit)).await });
    }
}

async fn reconcile_instance(context: &Context, item: WorkItem<InstanceKey>, permit: Permit) {
    let started = std::time::Instant::now();
    let outcome = instance::reconcile(context, &item.0, &permit).await;
    context.metrics.queue.processed(started.elapsed(), outcome);
    item.finish(outcome);
}

async fn reconcile_workloads(context: Arc<Context>, passes: Passes, heartbeat: Heartbeat) {
    let permits = Permits::new(context.settings.instance_workers);
    loop {
        let Some(item) = heartbeat.wait(context.workload_queue.next()).await else { return };
        let permit = permits.acquire().await;
        let context = Arc::clone(&context);
        passes.spawn(async move { catch_panic(&context, reconcile_workload(&context, item, permit)).await });
    }
}

async fn reconcile_workload(context: &Context, item: WorkItem<WorkloadKey>, _permit: Permit) {
    let outcome = workload::reconcile(context, &item).await;
    item.finish(outcome);
}

/// A panic ends this one reconcile, which is retried, and not the worker.
async fn catch_panic(context: &Context, reconcile: impl Future<Output = ()>) {
    if AssertUnwindSafe(reconcile).catch_unwind().await.is_err() {
        context.metrics.queue.panics.inc();
        tracing::error!("a reconcile panicked; retrying");
    }
}

/// The reconciles of instances that run. Clones share them. The lock is a leaf.
#[derive(Clone, Default)]
struct Passes(Arc<Mutex<JoinSet<()>>>);

impl Passes {
    fn spawn(&self, pass: impl Future<Output = ()> + Send + 'static) {
        let mut passes = self.0.lock();
        while passes.try_join_next().is_some() {}
        passes.spawn(pass);
    }

    /// Cancels those that have not finished. None of them writes anything after this.
    async fn cancel(&self) {
        let mut passes = std::mem::take(&mut *self.0.lock());
        passes.shutdown().await;
    }
}

/// Waits for the running reconciles.
async fn drain(context: &Context) -> Result<(), ControllerError> {
    let (definitions, instances) = (&context.definition_queue, &context.instance_queue);
    let workloads = &context.workload_queue;
    let limit = context.settings.shutdown_timeout;
    let idle = async { tokio::join!(definitions.idle(), instances.idle(), workloads.idle()) };
    match tokio::time::timeout(limit, idle).await {
        Ok(((), (), ())) => Ok(()),
        Err(_) => {
            let count = definitions.stats().active + instances.stats().active + workloads.stats().active;
            Err(ControllerError::Unfinished { count, limit })
        }
    }
}
