//! One credential and the task that looks after it: dials, asks now and then, notices a loss, and tries until it is over.
//! Everybody whose Secret holds the same kubeconfig shares it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::connection_state::{ClusterIdentity, failed};
use super::intake;
use super::own;
use super::reach::{Answer, identify, knock};
use super::{ClusterOptions, Inner};
use crate::audit::{AuditCluster, AuditVerb};
use crate::client::{ClusterClient, Guard, Outage, Trail, Wires};
use crate::kubeconfig::Accepted;
use crate::object::ClusterId;
use crate::transport::Endpoint;
use crate::workqueue::random;

/// The least time between two looks that a failing request causes.
const LEAST_PAUSE: Duration = Duration::from_millis(500);

/// How long before a certificate ends a new one is used.
const RENEWAL: Duration = Duration::from_secs(30);

/// A credential that is looked after for as long as somebody has this.
pub(super) struct Entry {
    pub(super) core: Arc<Core>,
    task: AbortHandle,
}

impl Entry {
    pub(super) fn start(
        inner: &Arc<Inner>,
        access: &Text,
        source: &Arc<Accepted>,
        secret: &SecretAddress,
    ) -> Arc<Self> {
        for warning in source.warnings() {
            tracing::warn!(%secret, "{warning}");
        }
        let core = Arc::new(Core::new(inner, access, source, secret));
        let task = inner.runtime.spawn(Arc::clone(&core).run()).abort_handle();
        Arc::new(Self { core, task })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
        self.core.guard.retire();
    }
}

pub(super) struct Core {
    pub(super) access: Text,
    pub(super) source: Arc<Accepted>,
    pub(super) server: Text,
    /// The Secret that it was first found in.
    secret: SecretAddress,
    pub(super) guard: Arc<Guard>,
    options: Arc<ClusterOptions>,
    registry: Weak<Inner>,
    /// Ends a wait.
    pub(super) again: Notify,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    since: Timestamp,
    /// Stays when the cluster is lost, with what was found out about it, and goes on when it is back.
    client: Option<ClusterClient>,
    /// As it was when the cluster was last connected.
    identity: Option<ClusterIdentity>,
    endpoint: Option<Endpoint>,
    /// Whether a token of the hub's is shown to another cluster.
    exposed: bool,
    attempts: Attempts,
}

/// What the task is at.
#[derive(Clone)]
pub(super) enum Phase {
    Connecting,
    Up(ClusterClient, ClusterIdentity),
    Down(ConnectionFailure),
}

/// Attempts so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    pub(super) made: u64,
    pub(super) failed: BTreeMap<FailureReason, u64>,
}

impl Attempts {
    fn count(&mut self, failure: Option<FailureReason>) {
        self.made += 1;
        if let Some(reason) = failure {
            *self.failed.entry(reason).or_default() += 1;
        }
    }
}

/// An entry as it is now.
pub(super) struct Snapshot {
    pub(super) phase: Phase,
    pub(super) since: Timestamp,
    pub(super) identity: Option<ClusterIdentity>,
    pub(super) last_contact: Option<Timestamp>,
}

/// A cluster that was just reached.
struct Reached {
    wires: Arc<Wires>,
    identity: ClusterIdentity,
}

impl Core {
    fn new(inner: &Arc<Inner>, access: &Text, source: &Arc<Accepted>, secret: &SecretAddress) -> Self {
        let problem = "the cluster is being connected to for the first time".to_owned();
        let outage = Outage { reason: FailureReason::Unreachable, problem };
        Self {
            access: access.clone(),
            source: Arc::clone(source),
            server: source.server().to_string().trim_end_matches('/').into(),
            guard: Guard::new(inner.options.breaker_threshold, outage, &inner.requests),
            secret: secret.clone(),
            options: Arc::clone(&inner.options),
            registry: Arc::downgrade(inner),
            again: Notify::new(),
            state: Mutex::new(State {
                phase: Phase::Connecting,
                since: Timestamp::now(),
                client: None,
                identity: None,
                endpoint: None,
                exposed: false,
                attempts: Attempts::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        Snapshot {
            phase: state.phase.clone(),
            since: state.since,
            identity: state.identity.clone(),
            last_contact: self.guard.last_heard(),
        }
    }

    pub(super) fn attempts(&self) -> Attempts {
        self.lock().attempts.clone()
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.lock().phase, Phase::Up(..))
    }

    /// Whether a first attempt has come to its end.
    pub(super) fn is_concluded(&self) -> bool {
        !matches!(self.lock().phase, Phase::Connecting)
    }

    async fn run(self: Arc<Self>) {
        let mut failures = 0_u32;
        let mut misled = false;
        loop {
            let failure = match self.attempt().await {
                Ok(reached) => {
                    failures = 0;
                    misled = false;
                    match self.connected(reached) {
                        Ok(()) => self.stay().await,
                        Err(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            failures = failures.saturating_add(1);
            let delay = self.options.backoff.delay(failures, random());
            self.lost(&failure, delay);
            misled = self.wait(&failure, delay, misled).await;
        }
    }

    /// Dials and finds out who is there, over sockets of its own.
    async fn attempt(&self) -> Result<Reached, ConnectionFailure> {
        let attempted = self.trail(&self.secret).begin(AuditVerb::Connect);
        let outcome = self.try_attempt().await;
        let uid = outcome.as_ref().ok().map(|reached| reached.identity.uid.clone());
        let failure = outcome.as_ref().err().map(|failure| failure.reason);
        attempted.ended(uid.as_ref(), failure);
        self.lock().attempts.count(failure);
        if let Some(registry) = self.registry.upgrade() {
            super::lock(&registry.attempts).count(failure);
        }
        outcome
    }

    /// The connection for who has the credential from a Secret, with what is done over it written down.
    pub(super) fn audited(&self, client: &ClusterClient, secret: &SecretAddress) -> ClusterClient {
        if self.options.audit.is_on() { client.audited(self.trail(secret)) } else { client.clone() }
    }

    /// Where it is written down what is done with the credential.
    fn trail(&self, secret: &SecretAddress) -> Trail {
        let identity = self.lock().identity.as_ref().map(|identity| identity.uid.clone());
        Trail {
            audit: self.options.audit.clone(),
            cluster: AuditCluster {
                name: secret.to_string().into(),
                uid: identity.unwrap_or_else(|| "".into()),
            },
            secret: secret.to_string().into(),
            method: self.source.method(),
        }
    }

    async fn try_attempt(&self) -> Result<Reached, ConnectionFailure> {
        let (endpoint, credential) = intake::prepare(&self.source).await?;
        let wires = Wires::new(&endpoint, credential, &self.options.client);
        self.lock().endpoint = Some(endpoint);
        let registry = self.registry.upgrade();
        let answer = match (self.ask(&wires).await, &registry) {
            (Err(failure), Some(registry))
                if failure.reason == FailureReason::Unauthorized && registry.issued(&self.source).await =>
            {
                return Err(own::refused());
            }
            (answer, _) => answer?,
        };
        let known = self.lock().identity.clone();
        let identity = answer.identity(&self.server, known.as_ref())?;
        if let Some(registry) = registry
            && registry.issued(&self.source).await
        {
            let exposed = !registry.is_hub(&identity).await;
            if !std::mem::replace(&mut self.lock().exposed, exposed) && exposed {
                tracing::warn!(secret = %self.secret, "{}", own::EXPOSED);
            }
        }
        Ok(Reached { wires, identity })
    }

    /// What the operator should know about the kubeconfig although it is used.
    pub(super) fn warnings(&self) -> Vec<Text> {
        let found = self.source.warnings().iter().map(|warning| warning.to_string().into());
        let exposed = self.lock().exposed.then(|| own::EXPOSED.into());
        found.chain(exposed).collect()
    }

    /// Asks over these wires, whatever the guard says.
    async fn ask(&self, wires: &Arc<Wires>) -> Result<Answer, ConnectionFailure> {
        let id = ClusterId::new(&self.server);
        let client = self.client(id, Arc::clone(wires), None)?;
        let answer = identify(&client, self.options.attempt_timeout).await?;
        self.guard.heard();
        Ok(answer)
    }

    fn client(
        &self,
        id: ClusterId,
        wires: Arc<Wires>,
        guard: Option<Arc<Guard>>,
    ) -> Result<ClusterClient, ConnectionFailure> {
        let options = self.options.client.clone();
        ClusterClient::over(id, self.access.clone(), wires, options, guard).map_err(|error| {
            let reason = FailureReason::Unreachable;
            failed(ConnectStep::Reach, reason, error.to_string(), ConnectionAdvice::None)
        })
    }

    /// Opens the way.
    fn connected(&self, reached: Reached) -> Result<(), ConnectionFailure> {
        let Reached { wires, identity } = reached;
        let mut state = self.lock();
        let client = match &state.client {
            Some(client) if *client.cluster() == identity.id => {
                client.rewire(wires);
                client.clone()
            }
            // What is known about one cluster says nothing about another.
            _ => self.client(identity.id.clone(), wires, Some(Arc::clone(&self.guard)))?,
        };
        if !matches!(state.phase, Phase::Up(..)) {
            state.since = Timestamp::now();
        }
        state.client = Some(client.clone());
        state.identity = Some(identity.clone());
        state.phase = Phase::Up(client, identity.clone());
        // Whoever sees that it is connected gets through.
        self.guard.close();
        drop(state);
        tracing::info!(cluster = %identity.id, server = &*self.server, "connected");
        if let Some(registry) = self.registry.upgrade() {
            registry.entry_changed(&self.access);
            registry.watches.retry_cluster(&identity.id);
        }
        Ok(())
    }

    /// Shuts the way.
    fn lost(&self, failure: &ConnectionFailure, delay: Duration) {
        let ConnectionFailure { step, reason, cause, .. } = failure;
        self.guard.open(Outage { reason: *reason, problem: cause.to_string() });
        let mut state = self.lock();
        if matches!(state.phase, Phase::Up(..)) {
            state.since = Timestamp::now();
        }
        let next = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
        let known = matches!(&state.phase, Phase::Down(before) if before.is_same_problem(failure));
        let since = state.since;
        state.phase = Phase::Down(ConnectionFailure { since, next_attempt: Some(next), ..failure.clone() });
        drop(state);
        if !known {
            tracing::info!(server = &*self.server, ?step, %reason, %cause, "not connected");
        }
        if let Some(registry) = self.registry.upgrade() {
            registry.entry_changed(&self.access);
            if *step == ConnectStep::Authenticate {
                registry.read_secrets_again(&self.access);
            }
        }
    }

    /// Returns when the cluster is lost.
    async fn stay(&self) -> ConnectionFailure {
        loop {
            let interval = self.options.probe_interval.mul_f64(0.75 + random() / 4.0);
            let quiet = self.guard.silence();
            let looked = tokio::select! {
                () = self.guard.doubt.notified() => self.probe().await,
                () = self.end_of_certificate() => self.renew().await,
                () = sleep(interval.saturating_sub(quiet)) => {
                    if self.guard.silence() < interval {
                        continue;
                    }
                    self.probe().await
                }
            };
            if let Err(failure) = looked {
                return failure;
            }
            self.guard.close();
            sleep(LEAST_PAUSE).await;
        }
    }

    /// Whether the cluster is still there, is still the same and still takes the credential. A socket that went silent is not
    /// a cluster that did, so a new one has a say as well.
    async fn probe(&self) -> Result<(), ConnectionFailure> {
        let limit = self.options.probe_timeout;
        timeout(limit, self.try_probe()).await.unwrap_or_else(|_| {
            let cause = format!("no answer after {:.1}s", limit.as_secs_f64());
            Err(failed(ConnectStep::Reach, FailureReason::Unreachable, cause, ConnectionAdvice::CheckNetwork))
        })
    }

    async fn try_probe(&self) -> Result<(), ConnectionFailure> {
        let wires = self.lock().client.as_ref().map(ClusterClient::wires);
        if let Some(wires) = &wires {
            match timeout(self.options.probe_timeout / 2, self.ask(wires)).await {
                Ok(Ok(Answer::Uid(uid))) if self.is_known(&uid) => return Ok(()),
                Ok(Ok(Answer::Anonymous | Answer::Busy(_))) => return Ok(()),
                Ok(Ok(Answer::Uid(_)) | Err(_)) | Err(_) => {}
            }
        }
        self.renew().await
    }

    /// Begins anew, with what the kubeconfig gives at this time.
    async fn renew(&self) -> Result<(), ConnectionFailure> {
        let reached = self.attempt().await?;
        self.connected(reached)
    }

    /// Returns shortly before what was opened stops working, since its certificate ends.
    async fn end_of_certificate(&self) {
        let wires = self.lock().client.as_ref().map(ClusterClient::wires);
        let Some(ends) = wires.and_then(|wires| wires.ends()) else { return std::future::pending().await };
        let left = Duration::try_from(Timestamp::now().until(ends).unwrap_or_default()).unwrap_or_default();
        // What is renewed too late is renewed now, though not without a pause.
        sleep(left.saturating_sub(RENEWAL).max(LEAST_PAUSE)).await;
    }

    fn is_known(&self, uid: &str) -> bool {
        self.lock().identity.as_ref().is_some_and(|identity| identity.uid == uid)
    }

    /// Waits for the next attempt, or until somebody answers again. Returns whether an answer was the reason: if the attempt
    /// then fails all the same, answers say nothing until there is silence.
    async fn wait(&self, failure: &ConnectionFailure, delay: Duration, misled: bool) -> bool {
        tokio::select! {
            () = sleep(delay) => misled,
            () = self.again.notified() => false,
            () = self.answer(failure, misled) => true,
        }
    }

    async fn answer(&self, failure: &ConnectionFailure, misled: bool) {
        let endpoint = self.lock().endpoint.clone();
        let (ConnectStep::Reach, Some(endpoint)) = (failure.step, endpoint) else {
            return std::future::pending().await;
        };
        let mut silent = !misled;
        loop {
            sleep(self.options.knock_interval.mul_f64(0.75 + random() / 4.0)).await;
            if !knock(&endpoint, self.options.knock_timeout).await {
                silent = true;
            } else if silent {
                return;
            }
        }
    }
}
