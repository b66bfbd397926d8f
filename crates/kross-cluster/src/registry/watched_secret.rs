//! One kubeconfig Secret that the hub's cache watches: which credential it contains, which one is in use, and who may use it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{Authority, ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::AbortHandle;

use super::Inner;
use super::connection_state::{ClusterChange, ClusterIdentity, Connection, ConnectionState, failed};
use super::credential_entry::{ConnectorSnapshot, ConnectorState, CredentialEntry};
use super::identity_claims;
use super::protection;
use super::secret_content::{SecretContent, SecretUse};
use crate::audit::{AuditCluster, AuditRecord, AuditVerb};
use crate::cache::{Cache, Lookup};
use crate::client::Route;
use crate::error::ApiError;
use crate::kubeconfig::CredentialLifetime;
use crate::object::{ClusterId, StoredObject};
use crate::secrets::{SecretConsumer, SecretRefusal};

/// Why requests are refused before the first attempt to connect has ended.
const NOT_YET: &str = "the cluster is not connected yet";

pub(super) struct WatchedSecret {
    pub(super) address: SecretAddress,
    pub(super) secret_use: SecretUse,
    /// None where no Secret can have this address.
    pub(super) cache: Option<Cache>,
    route: Arc<Route>,
    task: Option<AbortHandle>,
    state: Mutex<State>,
}

struct State {
    /// How many handles there are.
    users: usize,
    /// How often a handle was created: a release compares it to notice handles that came and went meanwhile.
    acquired: u64,
    since: Timestamp,
    secret: Option<Arc<StoredObject>>,
    content: SecretContent,
    /// Whether a consumer who may use the Secret has asked for it. Nothing is connected before.
    wanted: bool,
    /// The consumers who asked before there was a Secret.
    waiting: HashSet<ConsumerKey>,
    /// Why a consumer may not use the Secret as it is, or none if it may, and since when; for those who asked.
    verdicts: HashMap<ConsumerKey, (Option<SecretRefusal>, Timestamp)>,
    /// The credential in use.
    current: Option<Arc<CredentialEntry>>,
    /// The credential that the Secret contains now, until its first attempt to connect has ended.
    next: Option<Arc<CredentialEntry>>,
    /// The identity as of the last connection.
    identity: Option<ClusterIdentity>,
    last_contact: Option<Timestamp>,
    /// When the cluster was last connected or lost.
    changed_at: Timestamp,
    /// What subscribers were last notified of.
    reported: Reported,
}

/// An owned [`SecretConsumer`].
#[derive(PartialEq, Eq, Hash)]
enum ConsumerKey {
    Definition,
    Instance(Option<Text>, Authority),
}

impl ConsumerKey {
    fn consumer(&self) -> SecretConsumer<'_> {
        match self {
            Self::Definition => SecretConsumer::Definition,
            Self::Instance(namespace, authority) => {
                SecretConsumer::Instance(namespace.as_deref(), *authority)
            }
        }
    }
}

impl From<SecretConsumer<'_>> for ConsumerKey {
    fn from(consumer: SecretConsumer<'_>) -> Self {
        match consumer {
            SecretConsumer::Definition => Self::Definition,
            SecretConsumer::Instance(namespace, authority) => {
                Self::Instance(namespace.map(Into::into), authority)
            }
        }
    }
}

/// What a new version of a Secret changes.
#[derive(Default)]
struct SecretChange {
    /// Whether consumers must ask again even if the connection does not change.
    permissions: bool,
    /// Whether its protection changed.
    protection: bool,
}

/// What subscribers were notified of.
enum Reported {
    Connecting,
    Connected(Text, ClusterIdentity),
    Failed(ConnectionFailure),
}

impl Reported {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Connecting, Self::Connecting) => true,
            (Self::Connected(access, identity), Self::Connected(other_access, other_identity)) => {
                access == other_access && identity == other_identity
            }
            (Self::Failed(failure), Self::Failed(other)) => failure.is_same_problem(other),
            _ => false,
        }
    }

    /// What changes for subscribers when this becomes `after`; none if nothing does.
    fn change_to(&self, after: &Self) -> Option<ClusterChange> {
        match (self, after) {
            (before, after) if before.is_same(after) => None,
            (Self::Connected(..), Self::Connecting | Self::Failed(_)) => Some(ClusterChange::Lost),
            // No change by itself. But the next report is one even if it repeats the last: consumers may have read this
            // state meanwhile.
            (_, Self::Connecting) => None,
            // Also with another certificate authority: the Secret leads where it led.
            (Self::Connected(_, old), Self::Connected(_, new)) if old.is_same_claim(new) => {
                Some(ClusterChange::Credential)
            }
            (_, Self::Connected(..)) => Some(ClusterChange::Connected),
            (_, Self::Failed(_)) => Some(ClusterChange::Failed),
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self, Self::Connected(..))
    }
}

/// A Secret and its cluster at one moment, for the status page.
pub(super) struct SecretSnapshot {
    pub(super) state: ConnectionState,
    pub(super) users: usize,
    pub(super) entry: Option<Arc<CredentialEntry>>,
    /// From when until when the credential in the Secret is valid.
    pub(super) lifetime: CredentialLifetime,
}

impl WatchedSecret {
    pub(super) fn new(
        address: &SecretAddress,
        secret_use: SecretUse,
        watched: Result<(Cache, AbortHandle), ConnectionFailure>,
    ) -> Arc<Self> {
        let (cache, task, content) = match watched {
            Ok((cache, task)) => (Some(cache), Some(task), SecretContent::Unread),
            Err(failure) => (None, None, SecretContent::Refused(failure)),
        };
        let now = Timestamp::now();
        Arc::new(Self {
            address: address.clone(),
            secret_use,
            cache,
            route: Route::closed(FailureReason::Unreachable, NOT_YET),
            task,
            state: Mutex::new(State {
                users: 0,
                acquired: 0,
                since: now,
                secret: None,
                content,
                wanted: false,
                waiting: HashSet::new(),
                verdicts: HashMap::new(),
                current: None,
                next: None,
                identity: None,
                last_contact: None,
                changed_at: now,
                reported: Reported::Connecting,
            }),
        })
    }

    /// Its key in the registry.
    pub(super) fn key(&self) -> (SecretAddress, SecretUse) {
        (self.address.clone(), self.secret_use)
    }

    pub(super) fn add_user(&self) {
        let mut state = self.state.lock();
        state.users += 1;
        state.acquired += 1;
    }

    /// Removes a user. Returns how often a handle was created if this was the last one.
    pub(super) fn remove_user(&self) -> Option<u64> {
        let mut state = self.state.lock();
        state.users = state.users.saturating_sub(1);
        (state.users == 0).then_some(state.acquired)
    }

    /// Whether there is no handle, and none was created since.
    pub(super) fn is_idle(&self, acquired: u64) -> bool {
        let state = self.state.lock();
        state.users == 0 && state.acquired == acquired
    }

    /// Whether it uses a credential or is about to.
    pub(super) fn uses(&self, access: &Text) -> bool {
        let state = self.state.lock();
        [&state.current, &state.next].into_iter().flatten().any(|entry| entry.connector.access == *access)
    }

    /// Reads the Secret from the cache, or records why it cannot be read.
    pub(super) fn refresh(&self, inner: &Arc<Inner>, unreadable: Option<&ApiError>) {
        let Some(cache) = &self.cache else { return };
        let mut state = self.state.lock();
        // Inside the lock: a slower reader must not store an older version.
        let lookup = cache.get(Some(&self.address.namespace), &self.address.name);
        let mut changed = SecretChange::default();
        match lookup {
            Lookup::Found(secret) => {
                let version = secret.resource_version();
                if state.secret.as_ref().is_some_and(|known| known.resource_version() == version) {
                    return;
                }
                changed = self.replace_secret(&mut state, secret, inner);
            }
            Lookup::Absent => {
                state.verdicts.clear();
                state.secret = None;
                state.content = SecretContent::Missing;
            }
            // The hub is unavailable, which says nothing about remote clusters: the known Secret stays in use.
            Lookup::Unknown if state.secret.is_some() => {}
            Lookup::Unknown => {
                if let Some(error) = unreadable {
                    state.content = SecretContent::Refused(unreadable_secret(error));
                }
            }
        }
        let notified = self.update_locked(state, inner);
        if changed.permissions && !notified {
            inner.notify(&self.address, ClusterChange::Permissions);
        } else if changed.protection {
            inner.notify(&self.address, ClusterChange::Protection);
        }
    }

    /// Stores a new version of the Secret.
    fn replace_secret(&self, state: &mut State, secret: Arc<StoredObject>, inner: &Inner) -> SecretChange {
        // Consumers that were refused may be allowed now.
        let mut permissions = state.verdicts.drain().any(|(_, (refusal, _))| refusal.is_some());
        let content = SecretContent::of(&secret, &self.address, self.secret_use, &inner.options);
        let before = state.secret.as_deref();
        let is_same = matches!((&state.content, &content),
            (SecretContent::Usable(before, _), SecretContent::Usable(after, _)) if before == after);
        permissions |= is_same
            && before.is_none_or(|before| protection::concerns_users(before, &secret, self.secret_use));
        let protection = match before {
            Some(before) => protection::differs(before, &secret, self.secret_use),
            None => protection::concerns(&secret),
        };
        // Consumers that asked before there was a Secret get an answer now, even if it is a refusal.
        for key in std::mem::take(&mut state.waiting) {
            let refusal = self.secret_use.refusal(&secret, &self.address, key.consumer(), &inner.options);
            state.wanted |= refusal.as_ref().is_none_or(may_use_later);
            permissions |= refusal.is_some();
        }
        // Consumers that found nothing usable may find something now; without a connection nothing else notifies them.
        let usable = |content: &SecretContent| matches!(content, SecretContent::Usable(..));
        permissions |= usable(&content) && !usable(&state.content) && !state.wanted;
        state.content = content;
        state.secret = Some(secret);
        SecretChange { permissions, protection }
    }

    /// Chooses the credential to use, and notifies subscribers if anything changed.
    pub(super) fn update(&self, inner: &Arc<Inner>) {
        self.update_locked(self.state.lock(), inner);
    }

    /// Updates within a critical section that the caller began: nobody may see that the Secret was deleted or the cluster lost
    /// while requests still get through. Returns whether subscribers were notified.
    fn update_locked(&self, mut state: MutexGuard<'_, State>, inner: &Arc<Inner>) -> bool {
        let retired = state.choose_credential(inner, &self.address);
        let report = state.report(&self.address, self.secret_use);
        if let Reported::Connected(_, identity) = &report {
            state.identity = Some(identity.clone());
            inner.claim_identity(&self.key(), identity);
        }
        self.update_route(&state);
        let change = state.reported.change_to(&report);
        if state.reported.is_connected() != report.is_connected() {
            state.changed_at = Timestamp::now();
        }
        state.reported = report;
        if change.is_some() && state.current.is_none() {
            self.audit_refusal(&state.content, inner);
        }
        // Inside the lock, or a later change could be reported first.
        if let Some(change) = change {
            inner.notify(&self.address, change);
        }
        drop(state);
        // Dropping an entry ends its task and closes its connection; requests use the new one already.
        drop(retired);
        change.is_some()
    }

    /// Records an attempt that fails at the Secret: it never gets to the connector, which records the others.
    fn audit_refusal(&self, content: &SecretContent, inner: &Inner) {
        if let Some(failure) = content.failure(&self.address, self.secret_use, SecretConsumer::Definition) {
            let secret = self.address.to_string();
            let record = AuditRecord::new(AuditCluster::named(secret.as_str()), AuditVerb::Connect);
            inner.options.audit.record(record.with(secret, None).failed(failure.reason));
        }
    }

    /// Points existing clients to the credential in use.
    fn update_route(&self, state: &State) {
        match &state.current {
            Some(entry) => self.route_to(&entry.connector.snapshot().connection),
            None => {
                if let Some(failure) =
                    state.content.failure(&self.address, self.secret_use, SecretConsumer::Definition)
                {
                    self.route.close(failure.reason, &failure.cause);
                }
            }
        }
    }

    /// Opens the route only while the credential in use is connected. A previous one may still work for other Secrets.
    fn route_to(&self, connection: &ConnectorState) {
        match connection {
            ConnectorState::Connected(client, _) => self.route.open(client),
            ConnectorState::Failed(failure) => self.route.close(failure.reason, &failure.cause),
            ConnectorState::Connecting => self.route.close(FailureReason::Unreachable, NOT_YET),
        }
    }

    /// The connection state that a consumer may see.
    pub(super) fn state(&self, inner: &Arc<Inner>, consumer: SecretConsumer<'_>) -> ConnectionState {
        let mut state = self.state.lock();
        if let Some(secret) = state.secret.clone() {
            let verdict = state.verdicts.entry(consumer.into()).or_insert_with(|| {
                let refusal = self.secret_use.refusal(&secret, &self.address, consumer, &inner.options);
                (refusal, Timestamp::now())
            });
            if let (Some(refusal), since) = verdict {
                // A consumer that may not use the Secret learns nothing else, not even for how long others have used it.
                let failure = ConnectionFailure { since: *since, ..refusal.clone().into() };
                let later = may_use_later(refusal);
                state.wanted |= later;
                return ConnectionState::NotConnected { failure, identity: None };
            }
            if !state.wanted {
                state.wanted = true;
                self.update_locked(state, inner);
                // The lock was released: the Secret may be another one by now, which this consumer may not use.
                return self.state(inner, consumer);
            }
        } else {
            state.waiting.insert(consumer.into());
        }
        let known = self.current_state(&mut state, inner, consumer);
        match known {
            // Whether the Secret was ever offered to this consumer is not known: it learns as little as of one that is not.
            ConnectionState::NotConnected { failure, .. }
                if consumer.needs_owner() && state.secret.is_none() =>
            {
                let failure = ConnectionFailure { since: state.since, last_contact: None, ..failure };
                ConnectionState::NotConnected { failure, identity: None }
            }
            known => known,
        }
    }

    /// The id of the cluster with this UID or URL, if that is known without a connection.
    pub(super) fn cluster_id(&self, claim: &str, consumer: SecretConsumer<'_>) -> Option<ClusterId> {
        let state = self.state.lock();
        let is_refused = || state.verdicts.get(&consumer.into()).is_none_or(|(refusal, _)| refusal.is_some());
        if state.secret.is_some() && is_refused() {
            return None;
        }
        match (&state.identity, &state.content) {
            (Some(identity), _) if *identity.uid == *claim => Some(identity.id.clone()),
            (_, SecretContent::Usable(_, accepted)) => {
                Some(ClusterId::proven(claim, accepted.trust_anchor()))
            }
            _ => None,
        }
    }

    fn current_state(
        &self,
        state: &mut State,
        inner: &Inner,
        consumer: SecretConsumer<'_>,
    ) -> ConnectionState {
        if let Some(failure) = state.content.failure(&self.address, self.secret_use, consumer) {
            let (since, last_contact) = (state.changed_at, state.last_contact);
            return ConnectionState::NotConnected {
                failure: ConnectionFailure { since, last_contact, ..failure },
                identity: state.identity.clone(),
            };
        }
        let Some(entry) = state.current.clone() else {
            return ConnectionState::Connecting { since: state.since };
        };
        let connector = &entry.connector;
        let ConnectorSnapshot { connection, since, identity, last_contact, version, round_trip } =
            connector.snapshot();
        state.last_contact = last_contact.or(state.last_contact);
        // The connector may have changed a moment ago: a consumer that sees it connected must get through.
        self.route_to(&connection);
        match connection {
            ConnectorState::Connecting => ConnectionState::Connecting { since },
            ConnectorState::Connected(client, identity) => {
                let conflict =
                    inner.has_identity_conflict(&identity).then(|| identity_claims::WARNING.into());
                ConnectionState::Connected(Connection {
                    client: connector.audited(&client, &self.address).routed(&self.route),
                    identity,
                    server: connector.server.clone(),
                    since,
                    last_contact: last_contact.unwrap_or(since),
                    method: connector.source.method().as_str().into(),
                    warnings: connector.warnings().into_iter().chain(conflict.clone()).collect(),
                    identity_conflict: conflict,
                    deletions_only: state
                        .secret
                        .as_deref()
                        .and_then(|secret| protection::deletions_only_since(secret, self.secret_use)),
                    version,
                    round_trip,
                    lifetime: connector.source.lifetime(),
                })
            }
            ConnectorState::Failed(failure) => ConnectionState::NotConnected {
                failure: ConnectionFailure { last_contact: state.last_contact, ..failure },
                identity: identity.or_else(|| state.identity.clone()),
            },
        }
    }

    /// The Secret as it was last read.
    pub(super) fn object(&self) -> Option<Arc<StoredObject>> {
        self.state.lock().secret.clone()
    }

    /// From when until when the credential in the Secret is valid.
    pub(super) fn lifetime(&self) -> CredentialLifetime {
        self.state.lock().content.lifetime()
    }

    /// Makes sure that the cluster of the credential in use was identified within the probe interval.
    pub(super) async fn verify(&self) -> Result<(), ConnectionFailure> {
        let entry = self.state.lock().current.clone();
        match entry {
            Some(entry) => entry.connector.verify().await,
            None => {
                Err(failed(ConnectStep::Attempt, FailureReason::Unreachable, NOT_YET, ConnectionAdvice::None))
            }
        }
    }

    /// Everything that the status page shows.
    pub(super) fn snapshot(&self, inner: &Inner) -> SecretSnapshot {
        let mut state = self.state.lock();
        let connection = self.current_state(&mut state, inner, SecretConsumer::Definition);
        let (users, entry, lifetime) = (state.users, state.current.clone(), state.content.lifetime());
        SecretSnapshot { state: connection, users, entry, lifetime }
    }
}

impl Drop for WatchedSecret {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl State {
    /// Chooses the credential to use: a new one replaces one that works only after its first attempt. Returns the entries that
    /// are no longer needed, to be dropped without the lock.
    fn choose_credential(&mut self, inner: &Arc<Inner>, address: &SecretAddress) -> Retired {
        let (access, source) = match &self.content {
            SecretContent::Unread => return Retired::default(),
            SecretContent::Missing | SecretContent::Refused(_) => return self.replace(None),
            SecretContent::Usable(access, source) => (access, source),
        };
        if !self.wanted {
            return Retired::default();
        }
        if self.current.as_ref().is_some_and(|entry| entry.connector.access == *access) {
            return [self.next.take(), None];
        }
        let next = match &self.next {
            Some(next) if next.connector.access == *access => Arc::clone(next),
            _ => inner.credential(access, source, address),
        };
        let in_use = self.current.as_ref().is_some_and(|current| current.connector.is_connected());
        if in_use && !next.connector.has_attempted() {
            return [self.next.replace(next), None];
        }
        self.replace(Some(next))
    }

    /// Uses another credential, and remembers when the cluster last answered to the previous one.
    fn replace(&mut self, entry: Option<Arc<CredentialEntry>>) -> Retired {
        if let Some(current) = &self.current {
            self.last_contact = current.connector.breaker.last_response().or(self.last_contact);
        }
        [std::mem::replace(&mut self.current, entry), self.next.take()]
    }

    /// What subscribers should know about the credential in use.
    fn report(&self, address: &SecretAddress, secret_use: SecretUse) -> Reported {
        if let Some(failure) = self.content.failure(address, secret_use, SecretConsumer::Definition) {
            return Reported::Failed(failure);
        }
        let Some(entry) = &self.current else { return Reported::Connecting };
        match entry.connector.snapshot().connection {
            ConnectorState::Connecting => Reported::Connecting,
            ConnectorState::Connected(_, identity) => {
                Reported::Connected(entry.connector.access.clone(), identity)
            }
            ConnectorState::Failed(failure) => Reported::Failed(failure),
        }
    }
}

/// Entries that are no longer needed.
type Retired = [Option<Arc<CredentialEntry>>; 2];

/// Whether a consumer may use a Secret as soon as it has the key that it lacks.
fn may_use_later(refusal: &SecretRefusal) -> bool {
    matches!(refusal, SecretRefusal::Key { .. })
}

fn unreadable_secret(error: &ApiError) -> ConnectionFailure {
    let advice = ConnectionAdvice::AllowSecretAccess;
    failed(ConnectStep::Secret, error.reason(), error.to_string(), advice)
}
