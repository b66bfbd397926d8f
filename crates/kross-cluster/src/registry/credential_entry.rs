//! One credential and the task that keeps it connected: it connects, probes, notices a loss and retries. Secrets with the same
//! kubeconfig share it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, WeakShared};
use jiff::Timestamp;
use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::connection_state::{ClusterIdentity, failed};
use super::hub_identity::{HUB_TOKEN_ACCEPTED, hub_token_refused};
use super::probe::{Answer, identify, is_answering};
use super::{ClusterOptions, Inner, secret_content};
use crate::audit::{AuditCluster, AuditVerb};
use crate::client::{AuditTrail, CircuitBreaker, ClusterClient, Outage, RequestLimit, Transports};
use crate::fence::Fence;
use crate::kubeconfig::Accepted;
use crate::object::ClusterId;
use crate::supervisor::{Panicked, Task, supervise};
use crate::transport::Endpoint;

/// The least time between two probes that failed requests trigger.
const MIN_PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// How long before its expiry a client certificate is replaced.
const RENEWAL: Duration = Duration::from_secs(30);

/// How long a connection attempt waits for the version of the cluster, which it can do without.
const VERSION_TIMEOUT: Duration = Duration::from_secs(2);

/// How many clients of clusters that a credential led to before are kept.
const MAX_FORMER_CLIENTS: usize = 4;

/// A credential in use: its task runs until this is dropped.
pub(super) struct CredentialEntry {
    pub(super) connector: Arc<Connector>,
    task: AbortHandle,
}

impl CredentialEntry {
    pub(super) fn start(
        inner: &Arc<Inner>,
        access: &Text,
        source: &Arc<Accepted>,
        secret: &SecretAddress,
    ) -> Arc<Self> {
        for warning in source.warnings() {
            tracing::warn!(%secret, %warning, "kubeconfig is accepted with a warning");
        }
        let connector = Arc::new(Connector::new(inner, access, source, secret));
        let (running, failed) = (Arc::clone(&connector), Arc::clone(&connector));
        let supervised =
            supervise(Task::Cluster, move || Arc::clone(&running).run(), move || failed.panicked());
        let task = inner.runtime.spawn(supervised).abort_handle();
        Arc::new(Self { connector, task })
    }
}

impl Drop for CredentialEntry {
    fn drop(&mut self) {
        self.task.abort();
        self.connector.breaker.retire();
    }
}

/// Connects with one credential: what the entry, its task and the Secrets share.
pub(super) struct Connector {
    /// The fingerprint of the kubeconfig.
    pub(super) access: Text,
    pub(super) source: Arc<Accepted>,
    pub(super) server: Text,
    /// The Secret in which the kubeconfig was first found.
    secret: SecretAddress,
    pub(super) breaker: Arc<CircuitBreaker>,
    /// The permits of the credential, whatever connections and clients it has.
    pub(super) limit: Arc<RequestLimit>,
    options: Arc<ClusterOptions>,
    /// That of the hub's client: who may write there may write here.
    fence: Fence,
    registry: Weak<Inner>,
    state: Mutex<State>,
}

struct State {
    connection: ConnectorState,
    /// Since when the cluster is, or is not, connected.
    since: Timestamp,
    /// The client, with its discovery cache. It is kept while the cluster is lost, and reused when it is back.
    client: Option<ClusterClient>,
    /// The clients of other clusters that the credential led to before: their caches continue when it leads there again.
    former: VecDeque<ClusterClient>,
    /// The identity as of the last connection.
    identity: Option<ClusterIdentity>,
    endpoint: Option<Endpoint>,
    /// Whether another cluster than the hub accepts a token of the hub.
    hub_token_exposed: bool,
    attempts: Attempts,
    /// When the cluster was last identified.
    verified_at: Option<Instant>,
    /// The Kubernetes version, as of the last connection.
    version: Option<Text>,
    /// How long the last identification took.
    round_trip: Option<Duration>,
    /// The identification that somebody waits for.
    verification: Option<WeakShared<BoxFuture<'static, Result<(), ConnectionFailure>>>>,
}

impl State {
    /// Uses a client. If it is that of another cluster, the previous one stops: its caches must not reach this cluster. Returns
    /// what is no longer needed, to be dropped without the lock.
    fn replace_client(&mut self, client: &ClusterClient) -> Option<ClusterClient> {
        let previous = self.client.replace(client.clone())?;
        if previous.cluster() == client.cluster() {
            return Some(previous);
        }
        previous.set_replaced(true);
        client.set_replaced(false);
        self.former.retain(|former| former.cluster() != client.cluster());
        self.former.push_back(previous);
        if self.former.len() > MAX_FORMER_CLIENTS { self.former.pop_front() } else { None }
    }
}

/// What a connector has achieved.
#[derive(Clone)]
pub(super) enum ConnectorState {
    Connecting,
    Connected(ClusterClient, ClusterIdentity),
    Failed(ConnectionFailure),
}

/// Connection attempts so far.
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

/// A connector's state at one moment.
pub(super) struct ConnectorSnapshot {
    pub(super) connection: ConnectorState,
    pub(super) since: Timestamp,
    pub(super) identity: Option<ClusterIdentity>,
    pub(super) last_contact: Option<Timestamp>,
    pub(super) version: Option<Text>,
    pub(super) round_trip: Option<Duration>,
}

/// A cluster that accepted the credential just now.
struct Reached {
    transports: Arc<Transports>,
    identity: ClusterIdentity,
    version: Option<Text>,
}

impl Connector {
    fn new(inner: &Arc<Inner>, access: &Text, source: &Arc<Accepted>, secret: &SecretAddress) -> Self {
        let problem = "the first connection attempt is running".to_owned();
        let outage = Outage { reason: FailureReason::Unreachable, problem };
        Self {
            access: access.clone(),
            source: Arc::clone(source),
            server: source.server().to_string().trim_end_matches('/').into(),
            breaker: CircuitBreaker::new(inner.options.breaker_threshold, outage, &inner.requests),
            limit: RequestLimit::new(inner.options.client.requests.max_streams),
            secret: secret.clone(),
            options: Arc::clone(&inner.options),
            fence: inner.hub.fence().clone(),
            registry: Arc::downgrade(inner),
            state: Mutex::new(State {
                connection: ConnectorState::Connecting,
                since: Timestamp::now(),
                client: None,
                former: VecDeque::new(),
                identity: None,
                endpoint: None,
                hub_token_exposed: false,
                attempts: Attempts::default(),
                verified_at: None,
                version: None,
                round_trip: None,
                verification: None,
            }),
        }
    }

    pub(super) fn snapshot(&self) -> ConnectorSnapshot {
        let state = self.state.lock();
        ConnectorSnapshot {
            connection: state.connection.clone(),
            since: state.since,
            identity: state.identity.clone(),
            last_contact: self.breaker.last_response(),
            version: state.version.clone(),
            round_trip: state.round_trip,
        }
    }

    pub(super) fn attempts(&self) -> Attempts {
        self.state.lock().attempts.clone()
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.state.lock().connection, ConnectorState::Connected(..))
    }

    /// Whether the first attempt has ended.
    pub(super) fn has_attempted(&self) -> bool {
        !matches!(self.state.lock().connection, ConnectorState::Connecting)
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
                        Ok(()) => self.monitor().await,
                        Err(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            failures = failures.saturating_add(1);
            let delay = self.options.backoff.delay(failures, fastrand::f64());
            self.failed(&failure, delay);
            misled = self.back_off(&failure, delay, misled).await;
        }
    }

    /// Connects over new sockets and identifies the cluster.
    async fn attempt(&self) -> Result<Reached, ConnectionFailure> {
        let attempted = self.audit_trail(&self.secret).begin(AuditVerb::Connect);
        let outcome = self.try_attempt().await;
        let uid = outcome.as_ref().ok().map(|reached| reached.identity.uid.clone());
        let failure = outcome.as_ref().err().map(|failure| failure.reason);
        attempted.finish_with(uid.as_ref(), failure);
        self.state.lock().attempts.count(failure);
        if let Some(registry) = self.registry.upgrade() {
            registry.attempts.lock().count(failure);
        }
        outcome
    }

    /// The client for users of a Secret: its operations are recorded under the Secret's name.
    pub(super) fn audited(&self, client: &ClusterClient, secret: &SecretAddress) -> ClusterClient {
        if self.options.audit.is_on() { client.audited(self.audit_trail(secret)) } else { client.clone() }
    }

    /// The audit trail of what is done with the credential from a Secret.
    fn audit_trail(&self, secret: &SecretAddress) -> AuditTrail {
        let identity = self.state.lock().identity.as_ref().map(|identity| identity.uid.clone());
        AuditTrail {
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
        let (endpoint, credential) = secret_content::prepare(&self.source).await?;
        let transports = Transports::new(&endpoint, credential, &self.options.client);
        self.state.lock().endpoint = Some(endpoint);
        let registry = self.registry.upgrade();
        let answer = match (self.identify(&transports).await, &registry) {
            (Err(failure), Some(registry))
                if failure.reason == FailureReason::Unauthorized
                    && registry.is_hub_token(&self.source).await =>
            {
                return Err(hub_token_refused());
            }
            (answer, _) => answer?,
        };
        let identity = answer.identity(&self.server, self.source.trust_anchor())?;
        transports.expect(identity.expected());
        if let Some(registry) = registry
            && registry.is_hub_token(&self.source).await
        {
            let exposed = !registry.is_hub(&identity).await;
            if !std::mem::replace(&mut self.state.lock().hub_token_exposed, exposed) && exposed {
                let secret = &self.secret;
                tracing::warn!(%secret, warning = HUB_TOKEN_ACCEPTED, "kubeconfig is accepted with a warning");
            }
        }
        let version = transports.version(VERSION_TIMEOUT.min(self.options.attempt_timeout)).await;
        Ok(Reached { transports, identity, version: version.map(Into::into) })
    }

    /// Warnings about the kubeconfig, which is used nevertheless.
    pub(super) fn warnings(&self) -> Vec<Text> {
        let found = self.source.warnings().iter().map(|warning| warning.to_string().into());
        let exposed = self.state.lock().hub_token_exposed.then(|| HUB_TOKEN_ACCEPTED.into());
        found.chain(exposed).collect()
    }

    /// Identifies the cluster over these sockets, whether or not the circuit breaker is open.
    async fn identify(&self, transports: &Transports) -> Result<Answer, ConnectionFailure> {
        let asked = Instant::now();
        let answer = identify(transports, self.options.attempt_timeout).await?;
        self.state.lock().round_trip = Some(asked.elapsed());
        self.breaker.record_response();
        Ok(answer)
    }

    /// A client of a cluster over these transports.
    fn client(&self, id: ClusterId, transports: Arc<Transports>) -> Result<ClusterClient, ConnectionFailure> {
        let (options, access) = (self.options.client.clone(), self.access.clone());
        let (limit, breaker) = (Arc::clone(&self.limit), Some(Arc::clone(&self.breaker)));
        let client = ClusterClient::with_transports(id, access, transports, options, limit, breaker);
        let client = client.map_err(|error| {
            let reason = FailureReason::Unreachable;
            failed(ConnectStep::Reach, reason, error.to_string(), ConnectionAdvice::None)
        })?;
        Ok(client.fenced(&self.fence))
    }

    /// Makes a cluster that accepted the credential available to users.
    fn connected(&self, reached: Reached) -> Result<(), ConnectionFailure> {
        let Reached { transports, identity, version } = reached;
        let client = match self.known_client(&identity.id) {
            Some(client) => {
                client.replace_transports(transports);
                client
            }
            // Another cluster: nothing that was discovered about the previous one applies.
            None => self.client(identity.id.clone(), transports)?,
        };
        let mut state = self.state.lock();
        if !matches!(state.connection, ConnectorState::Connected(..)) {
            state.since = Timestamp::now();
        }
        let replaced_client = state.replace_client(&client);
        state.identity = Some(identity.clone());
        state.version = version;
        state.verified_at = Some(Instant::now());
        let connected = ConnectorState::Connected(client, identity.clone());
        let replaced = std::mem::replace(&mut state.connection, connected);
        // Inside the lock: a user who sees the state connected must not be refused by the circuit breaker.
        self.breaker.close();
        drop(state);
        drop((replaced_client, replaced));
        let (cluster, server) = (&self.secret, &*self.server);
        tracing::info!(%cluster, uid = %identity.id, server, "connected to cluster");
        if let Some(registry) = self.registry.upgrade() {
            registry.credential_changed(&self.access);
            registry.caches.retry_cluster(&identity.id);
        }
        Ok(())
    }

    /// The client of a cluster that the credential led to before.
    fn known_client(&self, id: &ClusterId) -> Option<ClusterClient> {
        let state = self.state.lock();
        state.client.iter().chain(&state.former).find(|client| client.cluster() == id).cloned()
    }

    /// Records a failure and stops all requests until the next success.
    fn failed(&self, failure: &ConnectionFailure, delay: Duration) {
        let ConnectionFailure { step, reason, cause, .. } = failure;
        self.breaker.open(Outage { reason: *reason, problem: cause.to_string() });
        let mut state = self.state.lock();
        if matches!(state.connection, ConnectorState::Connected(..)) {
            state.since = Timestamp::now();
        }
        let next = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
        let known =
            matches!(&state.connection, ConnectorState::Failed(before) if before.is_same_problem(failure));
        let since = state.since;
        let failed = ConnectionFailure { since, next_attempt: Some(next), ..failure.clone() };
        let replaced = std::mem::replace(&mut state.connection, ConnectorState::Failed(failed));
        drop(state);
        drop(replaced);
        if !known {
            let (cluster, server) = (&self.secret, &*self.server);
            tracing::warn!(%cluster, server, ?step, %reason, %cause, "cluster is not connected");
        }
        if let Some(registry) = self.registry.upgrade() {
            registry.credential_changed(&self.access);
            if *step == ConnectStep::Authenticate {
                registry.reread_secrets(&self.access);
            }
        }
    }

    /// Called when the task has panicked: nobody probes the cluster until it starts again.
    fn panicked(&self) {
        let (reason, cause) = (FailureReason::ServerError, Panicked.to_string());
        let failure = failed(ConnectStep::Reach, reason, cause, ConnectionAdvice::None);
        self.failed(&failure, self.options.backoff.base);
    }

    /// Probes a connected cluster and returns when it is lost. Other answers do not postpone a probe: they do not tell which
    /// cluster answers.
    async fn monitor(&self) -> ConnectionFailure {
        loop {
            let interval = self.options.probe_interval.mul_f64(0.75 + fastrand::f64() / 4.0);
            let probed = tokio::select! {
                () = self.breaker.probe_requested.notified() => {
                    // Open connections may still lead to the previous cluster: only new ones show the other one.
                    if self.breaker.take_other_cluster() { self.renew().await } else { self.probe().await }
                }
                () = self.certificate_expiry() => self.renew().await,
                () = sleep(interval) => self.probe().await,
            };
            if let Err(failure) = probed {
                return failure;
            }
            self.breaker.close();
            sleep(MIN_PROBE_INTERVAL).await;
        }
    }

    /// Checks that the cluster answers, is the same as before and accepts the credential. If the open socket fails, a new one is
    /// tried: a broken socket does not mean that the cluster is lost.
    async fn probe(&self) -> Result<(), ConnectionFailure> {
        let limit = self.options.probe_timeout;
        timeout(limit, self.try_probe()).await.unwrap_or_else(|_| {
            let cause = format!("no answer after {:.1}s", limit.as_secs_f64());
            Err(failed(ConnectStep::Reach, FailureReason::Unreachable, cause, ConnectionAdvice::CheckNetwork))
        })
    }

    async fn try_probe(&self) -> Result<(), ConnectionFailure> {
        let transports = self.state.lock().client.as_ref().map(ClusterClient::transports);
        let Some(transports) = transports else { return self.renew().await };
        let existing = self.is_same_cluster(&transports);
        tokio::pin!(existing);
        match timeout(self.options.probe_timeout / 2, &mut existing).await {
            Ok(true) => return Ok(()),
            Ok(false) => return self.renew().await,
            Err(_) => {}
        }
        // The cluster may be slow, or the socket broken.
        tokio::select! {
            true = &mut existing => Ok(()),
            renewed = self.renew() => renewed,
        }
    }

    /// Whether these sockets still lead to the same cluster. One that is busy does not tell.
    async fn is_same_cluster(&self, transports: &Transports) -> bool {
        match self.identify(transports).await {
            Ok(Answer::Busy(_)) => true,
            Ok(answer) if self.is_known(&answer) => {
                self.verified();
                true
            }
            Ok(_) => false,
            Err(_) => false,
        }
    }

    /// Connects again, with a fresh token or certificate of the kubeconfig.
    async fn renew(&self) -> Result<(), ConnectionFailure> {
        let reached = self.attempt().await?;
        self.connected(reached)
    }

    /// Returns shortly before the client certificate of the open sockets expires.
    async fn certificate_expiry(&self) {
        let transports = self.state.lock().client.as_ref().map(ClusterClient::transports);
        let Some(ends) = transports.and_then(|transports| transports.expires_at()) else {
            return std::future::pending().await;
        };
        let left = Duration::try_from(Timestamp::now().until(ends).unwrap_or_default()).unwrap_or_default();
        // A certificate that has expired already is replaced at once, but not in a busy loop.
        sleep(left.saturating_sub(RENEWAL).max(MIN_PROBE_INTERVAL)).await;
    }

    /// Whether an answer is that of the cluster that was connected.
    fn is_known(&self, answer: &Answer) -> bool {
        let answered = answer.identity(&self.server, self.source.trust_anchor()).ok();
        answered.is_some() && self.state.lock().identity == answered
    }

    /// The cluster was identified just now.
    fn verified(&self) {
        self.state.lock().verified_at = Some(Instant::now());
    }

    /// Makes sure that the cluster was identified within the probe interval. Callers share the request for it.
    ///
    /// # Errors
    /// It is another cluster, it does not tell, or it does not answer.
    pub(super) async fn verify(self: &Arc<Self>) -> Result<(), ConnectionFailure> {
        let verification = {
            let mut state = self.state.lock();
            if state.verified_at.is_some_and(|at| at.elapsed() < self.options.probe_interval) {
                return Ok(());
            }
            let running = state.verification.as_ref().and_then(WeakShared::upgrade);
            running.unwrap_or_else(|| {
                let started = Arc::clone(self).verify_now().boxed().shared();
                state.verification = started.downgrade();
                started
            })
        };
        verification.await
    }

    async fn verify_now(self: Arc<Self>) -> Result<(), ConnectionFailure> {
        let transports = self.state.lock().client.as_ref().map(ClusterClient::transports);
        let answer = match &transports {
            Some(transports) => self.identify(transports).await,
            None => Err(failed(
                ConnectStep::Attempt,
                FailureReason::Unreachable,
                "the cluster is not connected",
                ConnectionAdvice::None,
            )),
        };
        let failure = match answer {
            Ok(answer) if self.is_known(&answer) => {
                self.verified();
                self.state.lock().verification = None;
                return Ok(());
            }
            Ok(Answer::Busy(failure)) | Err(failure) => failure,
            Ok(_) => failed(
                ConnectStep::Identify,
                FailureReason::Credentials,
                "the server is not the cluster that was connected before",
                ConnectionAdvice::CheckServer,
            ),
        };
        // The task of the credential finds out what the cluster is now.
        self.breaker.probe_requested.notify_one();
        self.state.lock().verification = None;
        Err(failure)
    }

    /// Waits for the next attempt: until the delay is over, or until the liveness check gets an answer. Returns whether such an
    /// answer ended the wait. If the attempt then fails (`misled`), answers are ignored until the server was silent once.
    async fn back_off(&self, failure: &ConnectionFailure, delay: Duration, misled: bool) -> bool {
        tokio::select! {
            () = sleep(delay) => misled,
            () = self.until_server_answers(failure, misled) => true,
        }
    }

    /// Runs the liveness check until a server answers that did not answer before.
    async fn until_server_answers(&self, failure: &ConnectionFailure, misled: bool) {
        let endpoint = self.state.lock().endpoint.clone();
        let (ConnectStep::Reach, Some(endpoint)) = (failure.step, endpoint) else {
            return std::future::pending().await;
        };
        let mut silent = !misled;
        loop {
            sleep(self.options.liveness_interval.mul_f64(0.75 + fastrand::f64() / 4.0)).await;
            if !is_answering(&endpoint, self.options.liveness_timeout).await {
                silent = true;
            } else if silent {
                return;
            }
        }
    }
}
