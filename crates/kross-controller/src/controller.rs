//! Turns a connection and settings into a running controller: watches first, leadership next, then work, until it is told
//! to stop and has finished what it began.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use kross_api::FailureReason;
use kross_cluster::{
    ApiKind, Caches, ClusterClient, ClusterView, LeaderElection, Leadership, WorkItem, WorkQueue,
};
use kross_value::Text;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::context::Context;
use crate::definition;
use crate::dispatch::Dispatch;
use crate::graphs::Graphs;
use crate::instance;
use crate::key::{InstanceKey, Key};
use crate::kinds;
use crate::metrics::Metrics;
use crate::permits::{Permit, Permits};
use crate::readiness::Readiness;
use crate::settings::Settings;

const WATCHES: &str = "watches";
const LEADERSHIP: &str = "leadership";

/// The controller of one cluster.
pub struct Controller {
    client: ClusterClient,
    lease_client: ClusterClient,
    settings: Settings,
    metrics: Metrics,
    readiness: Readiness,
    graphs: Arc<Graphs>,
}

/// The controller cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Another process leads now; this one must not write any more.
    #[error("lost the Lease `{lease}`; another process may lead now, so this one ends")]
    LostLeadership {
        /// Namespace and name of the Lease.
        lease: String,
    },
    /// Work did not finish in time after the controller was told to stop.
    #[error("{count} reconciles did not finish within {limit:?}")]
    Unfinished {
        /// How many.
        count: usize,
        /// How long was waited.
        limit: Duration,
    },
}

impl Controller {
    /// A controller that does nothing yet. The Lease is renewed over a connection of its own, so that nothing holds it up.
    #[must_use]
    pub fn new(
        client: ClusterClient,
        lease_client: ClusterClient,
        settings: Settings,
        registry: &mut Registry,
    ) -> Self {
        let graphs = Arc::<Graphs>::default();
        let checks = [WATCHES].into_iter().chain(settings.leader_election.as_ref().map(|_| LEADERSHIP));
        Self {
            client,
            lease_client,
            readiness: Readiness::new(checks),
            metrics: Metrics::new(registry, settings.condition_metrics.then(|| Arc::clone(&graphs))),
            graphs,
            settings,
        }
    }

    /// Whether watches have synced and, with leader election, leadership is known.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Gives the clusters that are held, whenever it is called.
    pub fn clusters(&self) -> impl Fn() -> Vec<ClusterView> + Clone + Send + Sync + use<> {
        let metrics = self.metrics.clone();
        move || metrics.cluster_states()
    }

    /// The graphs that are being served.
    #[must_use]
    pub fn graphs(&self) -> Arc<Graphs> {
        Arc::clone(&self.graphs)
    }

    /// Runs until `stop` is done, then finishes what it began.
    ///
    /// # Errors
    /// Leadership is lost, or work does not finish in time.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ControllerError> {
        let Self { client, lease_client, settings, metrics, readiness, graphs } = self;
        tokio::pin!(stop);
        let uid = tokio::select! {
            () = &mut stop => return Ok(()),
            uid = identify(&client) => uid,
        };
        let watches = Caches::new(settings.watches.clone());
        // Before anything is watched, so that nothing is missed.
        let mut events = watches.subscribe();
        let context = Arc::new(Context::new((client, &uid), watches, settings, metrics, graphs));
        let queue = context.definition_queue.clone();
        let mut dispatch = Dispatch::new(Arc::clone(&context), queue.clone());
        let (told, synced) = watch::channel(false);
        let (mut tasks, passes) = (JoinSet::new(), Passes::default());
        tasks.spawn(async move {
            while let Some(event) = events.recv().await {
                if dispatch.take(&event) {
                    told.send_if_modified(|synced| !std::mem::replace(synced, true));
                }
            }
        });

        let (mut clusters, users) = (context.clusters.subscribe(), Arc::clone(&context));
        tasks.spawn(async move {
            while let Some(event) = clusters.recv().await {
                users.wake_users_of(&event.secret);
            }
        });

        let election = context
            .settings
            .leader_election
            .clone()
            .map(|options| LeaderElection::start(lease_client, options));
        let leadership = election.as_ref().map(LeaderElection::leadership);
        let (led, has_led) = oneshot::channel();
        let ended = {
            let leading = leadership.clone().map(|leadership| (leadership, led));
            let work = async {
                tokio::join!(
                    follow_leadership(leadership.clone(), &readiness),
                    work(&context, &queue, synced, leading, &readiness, (&mut tasks, &passes))
                );
            };
            tokio::select! {
                () = &mut stop => Ok(()),
                () = lost(leadership.clone(), has_led) => Err(ControllerError::LostLeadership { lease: lease_name(&context) }),
                () = work => Ok(()),
            }
        };
        queue.close();
        context.instance_queue.close();
        let ended = match ended {
            // Whoever leads now must not be disturbed: what runs is cut off.
            Err(error) => Err(error),
            Ok(()) => finish(&queue, &context).await,
        };
        // Before the Lease is given back: nothing is written without it.
        tasks.shutdown().await;
        passes.end().await;
        if let Some(events) = &context.events {
            // Events are a courtesy: a second is enough.
            let _ = tokio::time::timeout(Duration::from_secs(1), events.flush()).await;
        }
        if let Some(election) = election {
            election.resign().await;
        }
        ended
    }
}

/// The UID of the hub: that of its `kube-system` namespace or, where that may not be read, that of our own CRD. Objects in
/// other clusters carry it, so nothing can begin without it.
async fn identify(client: &ClusterClient) -> Text {
    let namespaces = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
    let mut wait = Duration::from_millis(200);
    loop {
        let found = match client.get(&namespaces, None, "kube-system").await {
            Err(error) if matches!(error.reason(), FailureReason::Forbidden | FailureReason::NotFound) => {
                client.get(&kinds::crd(), None, "resourcegraphdefinitions.kro.run").await
            }
            found => found,
        };
        match found {
            Ok(object) => return object.uid().clone(),
            Err(error) => tracing::warn!(%error, "cannot find out which cluster this is; trying again"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

fn lease_name(context: &Context) -> String {
    let options = context.settings.leader_election.as_ref();
    options.map(|options| format!("{}/{}", options.namespace, options.name)).unwrap_or_default()
}

/// Tells the readiness when it is known who leads.
async fn follow_leadership(leadership: Option<watch::Receiver<Leadership>>, readiness: &Readiness) {
    if let Some(mut leadership) = leadership {
        let known = leadership.wait_for(|leadership| *leadership != Leadership::Unknown).await;
        readiness.set(LEADERSHIP, known.is_ok());
    }
}

/// Returns when work has begun because we led, and we lead no more; never without an election.
async fn lost(leadership: Option<watch::Receiver<Leadership>>, has_led: oneshot::Receiver<()>) {
    if let (Some(mut leadership), Ok(())) = (leadership, has_led.await) {
        // As it is now: a moment in which we led may be over already. An election that ended is lost as well.
        drop(leadership.wait_for(|leadership| *leadership != Leadership::Leading).await);
        return;
    }
    std::future::pending::<()>().await;
}

/// Waits for the copies and for leadership, then lets workers work. Never returns.
async fn work(
    context: &Arc<Context>,
    queue: &WorkQueue<Key>,
    mut synced: watch::Receiver<bool>,
    leadership: Option<(watch::Receiver<Leadership>, oneshot::Sender<()>)>,
    readiness: &Readiness,
    (tasks, passes): (&mut JoinSet<()>, &Passes),
) {
    if synced.wait_for(|synced| *synced).await.is_ok() {
        readiness.set(WATCHES, true);
        tracing::info!("watches have synced");
        if let Some((mut leadership, led)) = leadership {
            if leadership.wait_for(|leadership| *leadership == Leadership::Leading).await.is_err() {
                // Nobody takes part in the election any more, so we never lead.
                return std::future::pending().await;
            }
            tracing::info!("leading");
            let _ = led.send(());
        }
        for _ in 0..context.settings.definition_workers.max(1) {
            tasks.spawn(worker(Arc::clone(context), queue.clone()));
        }
        tasks.spawn(work_on_instances(Arc::clone(context), passes.clone()));
    }
    std::future::pending::<()>().await;
}

async fn worker(context: Arc<Context>, queue: WorkQueue<Key>) {
    while let Some(work) = queue.next().await {
        survive(&context, reconcile(&context, work)).await;
    }
}

/// A panic costs this one reconcile, which comes again, and not the worker.
async fn survive(context: &Context, reconcile: impl Future<Output = ()>) {
    if AssertUnwindSafe(reconcile).catch_unwind().await.is_err() {
        context.metrics.panics.inc();
        tracing::error!("a reconcile panicked and will be tried again");
    }
}

/// The passes over instances that are under way. Clones share them.
#[derive(Clone, Default)]
struct Passes(Arc<Mutex<JoinSet<()>>>);

impl Passes {
    fn begin(&self, pass: impl Future<Output = ()> + Send + 'static) {
        let mut passes = self.0.lock();
        while passes.try_join_next().is_some() {}
        passes.spawn(pass);
    }

    /// Cuts off those that have not come to their end. None of them does anything after this.
    async fn end(&self) {
        let mut passes = std::mem::take(&mut *self.0.lock());
        passes.shutdown().await;
    }
}

async fn work_on_instances(context: Arc<Context>, passes: Passes) {
    let permits = Permits::new(context.settings.instance_workers);
    loop {
        // In this order: whoever waits for work must not have a turn that others wait for.
        let Some(work) = context.instance_queue.next().await else { return };
        let permit = permits.acquire().await;
        let context = Arc::clone(&context);
        passes.begin(async move { survive(&context, reconcile_instance(&context, work, permit)).await });
    }
}

async fn reconcile_instance(context: &Context, work: WorkItem<InstanceKey>, permit: Permit) {
    let started = std::time::Instant::now();
    let outcome = instance::reconcile(context, &work.0, &permit).await;
    context.metrics.worked(started.elapsed(), outcome);
    work.finish(outcome);
}

async fn reconcile(context: &Context, work: WorkItem<Key>) {
    let outcome = match &*work {
        Key::Definition(name) => definition::reconcile(context, name).await,
        Key::Revision(name) => definition::release_revision(context, name).await,
    };
    work.finish(outcome);
}

/// Waits for what is being worked on.
async fn finish(queue: &WorkQueue<Key>, context: &Context) -> Result<(), ControllerError> {
    let limit = context.settings.shutdown_timeout;
    let idle = async { tokio::join!(queue.idle(), context.instance_queue.idle()) };
    match tokio::time::timeout(limit, idle).await {
        Ok(((), ())) => Ok(()),
        Err(_) => {
            let count = queue.stats().active + context.instance_queue.stats().active;
            Err(ControllerError::Unfinished { count, limit })
        }
    }
}
