//! One Secret that is being followed: which credential it holds, which one counts at the moment, and who asks for it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;
use tokio::task::AbortHandle;

use super::Inner;
use super::connection_state::{ClusterChange, ClusterIdentity, Connection, ConnectionState, failed};
use super::entry::{Entry, Phase, Snapshot};
use super::intake::Intake;
use crate::audit::{AuditCluster, AuditRecord, AuditVerb};
use crate::cache::{Cache, Lookup};
use crate::client::Route;
use crate::error::ApiError;
use crate::object::StoredObject;
use crate::secrets::{Asker, SecretRefusal, judge};

/// What is wrong with a way that nobody has gone yet.
const NOT_YET: &str = "the cluster is not connected yet";

pub(super) struct Slot {
    pub(super) address: SecretAddress,
    /// None where the address is no Secret's.
    pub(super) watch: Option<Cache>,
    route: Arc<Route>,
    task: Option<AbortHandle>,
    state: Mutex<State>,
}

struct State {
    users: usize,
    /// Counts the times that it got a user, so that a release can tell whether somebody came and went meanwhile.
    arrivals: u64,
    since: Timestamp,
    secret: Option<Arc<StoredObject>>,
    intake: Intake,
    /// Whether somebody who may use the Secret has asked. Nothing is dialled before.
    wanted: bool,
    /// Who asked before there was a Secret.
    waiting: HashSet<Who>,
    /// Who may not use the Secret as it is and why, as far as somebody asked, and since when.
    verdicts: HashMap<Who, (Option<SecretRefusal>, Timestamp)>,
    /// The credential that counts.
    current: Option<Arc<Entry>>,
    /// The one that the Secret holds by now, until it has been tried.
    next: Option<Arc<Entry>>,
    identity: Option<ClusterIdentity>,
    last_contact: Option<Timestamp>,
    /// When there was last a change to or from connected.
    turned: Timestamp,
    told: Standing,
}

/// Who asked.
#[derive(PartialEq, Eq, Hash)]
enum Who {
    Definition,
    Instance(Option<Text>),
}

impl Who {
    fn asker(&self) -> Asker<'_> {
        match self {
            Self::Definition => Asker::Definition,
            Self::Instance(namespace) => Asker::Instance(namespace.as_deref()),
        }
    }
}

impl From<Asker<'_>> for Who {
    fn from(asker: Asker<'_>) -> Self {
        match asker {
            Asker::Definition => Self::Definition,
            Asker::Instance(namespace) => Self::Instance(namespace.map(Into::into)),
        }
    }
}

/// What those who follow the cluster have been told.
enum Standing {
    Waiting,
    Up(Text, ClusterIdentity),
    Down(ConnectionFailure),
}

impl Standing {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Waiting, Self::Waiting) => true,
            (Self::Up(access, identity), Self::Up(other_access, other_identity)) => {
                access == other_access && identity == other_identity
            }
            (Self::Down(failure), Self::Down(other)) => failure.is_same_problem(other),
            _ => false,
        }
    }
}

/// What is known of a Secret and its cluster, for a page.
pub(super) struct Peek {
    pub(super) link: ConnectionState,
    pub(super) users: usize,
    pub(super) entry: Option<Arc<Entry>>,
}

impl Slot {
    pub(super) fn new(
        address: &SecretAddress,
        followed: Result<(Cache, AbortHandle), ConnectionFailure>,
    ) -> Arc<Self> {
        let (watch, task, intake) = match followed {
            Ok((watch, task)) => (Some(watch), Some(task), Intake::Unread),
            Err(failure) => (None, None, Intake::Refused(failure)),
        };
        let now = Timestamp::now();
        Arc::new(Self {
            address: address.clone(),
            watch,
            route: Route::closed(FailureReason::Unreachable, NOT_YET),
            task,
            state: Mutex::new(State {
                users: 0,
                arrivals: 0,
                since: now,
                secret: None,
                intake,
                wanted: false,
                waiting: HashSet::new(),
                verdicts: HashMap::new(),
                current: None,
                next: None,
                identity: None,
                last_contact: None,
                turned: now,
                told: Standing::Waiting,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(&self) {
        let mut state = self.lock();
        state.users += 1;
        state.arrivals += 1;
    }

    /// One user less. Gives the count of arrivals if that was the last one.
    pub(super) fn leave(&self) -> Option<u64> {
        let mut state = self.lock();
        state.users = state.users.saturating_sub(1);
        (state.users == 0).then_some(state.arrivals)
    }

    /// Whether nobody has come since.
    pub(super) fn is_idle(&self, arrivals: u64) -> bool {
        let state = self.lock();
        state.users == 0 && state.arrivals == arrivals
    }

    /// Whether it has to do with a credential.
    pub(super) fn concerns(&self, access: &Text) -> bool {
        let state = self.lock();
        [&state.current, &state.next].into_iter().flatten().any(|entry| entry.core.access == *access)
    }

    /// Takes in the Secret as it is now, or why it cannot be read.
    pub(super) fn read(&self, inner: &Arc<Inner>, unreadable: Option<&ApiError>) {
        let Some(watch) = &self.watch else { return };
        let mut state = self.lock();
        // Not before: whoever comes second must not bring what is older.
        let lookup = watch.get(Some(&self.address.namespace), &self.address.name);
        let mut permissions = false;
        match lookup {
            Lookup::Found(secret) => {
                if state
                    .secret
                    .as_ref()
                    .is_some_and(|known| known.resource_version() == secret.resource_version())
                {
                    return;
                }
                // Who was refused may not be any more, whatever becomes of the connection.
                permissions |= state.verdicts.drain().any(|(_, (refusal, _))| refusal.is_some());
                let intake = Intake::of(&secret, &self.address, &inner.options);
                permissions |= matches!((&state.intake, &intake),
                    (Intake::Usable(before, _), Intake::Usable(after, _)) if before == after);
                // Who asked before there was a Secret gets an answer now, be it that it is not for them.
                for who in std::mem::take(&mut state.waiting) {
                    let verdict = judge(&secret, &self.address, who.asker(), &inner.options.secrets);
                    state.wanted |= verdict.as_ref().err().is_none_or(is_for_them);
                    permissions |= verdict.is_err();
                }
                // Who found nothing to use may find something now, and nothing is dialled that would tell them.
                let usable = |intake: &Intake| matches!(intake, Intake::Usable(..));
                permissions |= usable(&intake) && !usable(&state.intake) && !state.wanted;
                state.intake = intake;
                state.secret = Some(secret);
            }
            Lookup::Absent => {
                state.verdicts.clear();
                state.secret = None;
                state.intake = Intake::Missing;
            }
            // What was known stays: the hub being away says nothing about other clusters.
            Lookup::Unknown if state.secret.is_some() => {}
            Lookup::Unknown => {
                if let Some(error) = unreadable {
                    state.intake = Intake::Refused(unreadable_secret(error));
                }
            }
        }
        let told = self.settle_from(state, inner);
        if permissions && !told {
            inner.tell(&self.address, ClusterChange::Permissions);
        }
    }

    /// Brings what counts in line with what the Secret holds and what became of it. Returns whether somebody was told.
    pub(super) fn settle(&self, inner: &Arc<Inner>) -> bool {
        self.settle_from(self.lock(), inner)
    }

    /// Goes on from a state that nobody else has seen yet: whoever sees that a Secret is gone or that a cluster is lost finds
    /// the way closed.
    fn settle_from(&self, mut state: MutexGuard<'_, State>, inner: &Arc<Inner>) -> bool {
        let retired = state.choose(inner, &self.address);
        let standing = state.standing(&self.address);
        match &standing {
            Standing::Up(_, identity) => state.identity = Some(identity.clone()),
            Standing::Waiting | Standing::Down(_) => {}
        }
        self.steer(&state);
        let change = match (&state.told, &standing) {
            (before, after) if before.is_same(after) => None,
            (Standing::Up(..), Standing::Waiting) => Some(ClusterChange::Lost),
            // Nothing to tell, but what comes next is news even if it is what was told before: some may have looked meanwhile.
            (_, Standing::Waiting) => None,
            (Standing::Up(_, old), Standing::Up(_, new)) if old == new => Some(ClusterChange::Credential),
            (_, Standing::Up(..)) => Some(ClusterChange::Connected),
            (Standing::Up(..), Standing::Down(_)) => Some(ClusterChange::Lost),
            (_, Standing::Down(_)) => Some(ClusterChange::Failed),
        };
        if matches!(state.told, Standing::Up(..)) != matches!(standing, Standing::Up(..)) {
            state.turned = Timestamp::now();
        }
        state.told = standing;
        // An attempt that ends at the Secret never comes to dial, where attempts are written down.
        let ended_here = change.is_some() && state.current.is_none();
        let refused = state.intake.failure(&self.address, Asker::Definition).filter(|_| ended_here);
        if let Some(failure) = refused {
            let secret = self.address.to_string();
            let record = AuditRecord::new(AuditCluster::named(secret.as_str()), AuditVerb::Connect);
            inner.options.audit.record(record.with(secret, None).failed(failure.reason));
        }
        // Before anybody else can go on from here, or what comes next would be told first.
        if let Some(change) = change {
            inner.tell(&self.address, change);
        }
        drop(state);
        // Only now: requests go the new way already.
        drop(retired);
        change.is_some()
    }

    /// Requests of those who have a connection already go where the Secret leads now.
    fn steer(&self, state: &State) {
        match &state.current {
            Some(entry) => self.follow(&entry.core.snapshot().phase),
            None => {
                if let Some(failure) = state.intake.failure(&self.address, Asker::Definition) {
                    self.route.close(failure.reason, &failure.cause);
                }
            }
        }
    }

    /// The way is open while the credential that counts opens it. One that counted before may still work for others.
    fn follow(&self, phase: &Phase) {
        match phase {
            Phase::Up(client, _) => self.route.open(client),
            Phase::Down(failure) => self.route.close(failure.reason, &failure.cause),
            Phase::Connecting => self.route.close(FailureReason::Unreachable, NOT_YET),
        }
    }

    /// What is known, for whoever asks.
    pub(super) fn state(&self, inner: &Arc<Inner>, asker: Asker<'_>) -> ConnectionState {
        let mut state = self.lock();
        if let Some(secret) = state.secret.clone() {
            let verdict = state.verdicts.entry(asker.into()).or_insert_with(|| {
                (judge(&secret, &self.address, asker, &inner.options.secrets).err(), Timestamp::now())
            });
            if let (Some(refusal), since) = verdict {
                // Nothing else is told to who may not use it, not even for how long others have.
                let failure = ConnectionFailure { since: *since, ..refusal.clone().into() };
                let theirs = is_for_them(refusal);
                state.wanted |= theirs;
                return ConnectionState::NotConnected { failure, identity: None };
            }
            if !state.wanted {
                state.wanted = true;
                self.settle_from(state, inner);
                // From the beginning: the Secret may be another one by now, which is not for whoever asks.
                return self.state(inner, asker);
            }
        } else {
            state.waiting.insert(asker.into());
        }
        self.current_state(&mut state, asker)
    }

    fn current_state(&self, state: &mut State, asker: Asker<'_>) -> ConnectionState {
        if let Some(failure) = state.intake.failure(&self.address, asker) {
            let (since, last_contact) = (state.turned, state.last_contact);
            return ConnectionState::NotConnected {
                failure: ConnectionFailure { since, last_contact, ..failure },
                identity: state.identity.clone(),
            };
        }
        let Some(entry) = state.current.clone() else {
            return ConnectionState::Connecting { since: state.since };
        };
        let Snapshot { phase, since, identity, last_contact, .. } = entry.core.snapshot();
        state.last_contact = last_contact.or(state.last_contact);
        // Not every change has been settled yet, and whoever sees that it is connected gets through.
        self.follow(&phase);
        match phase {
            Phase::Connecting => ConnectionState::Connecting { since },
            Phase::Up(client, identity) => ConnectionState::Connected(Connection {
                client: entry.core.audited(&client, &self.address).routed(&self.route),
                identity,
                server: entry.core.server.clone(),
                since,
                last_contact: last_contact.unwrap_or(since),
                method: entry.core.source.method().as_str().into(),
                warnings: entry.core.warnings(),
            }),
            Phase::Down(failure) => ConnectionState::NotConnected {
                failure: ConnectionFailure { last_contact: state.last_contact, ..failure },
                identity: identity.or_else(|| state.identity.clone()),
            },
        }
    }

    /// Everything, for a page.
    pub(super) fn peek(&self) -> Peek {
        let mut state = self.lock();
        let link = self.current_state(&mut state, Asker::Definition);
        Peek { link, users: state.users, entry: state.current.clone() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl State {
    /// Which credential counts. A new one is tried before it replaces one that works. Gives the one that counts no more.
    fn choose(&mut self, inner: &Arc<Inner>, address: &SecretAddress) -> Option<Arc<Entry>> {
        let (access, source) = match &self.intake {
            Intake::Unread => return None,
            Intake::Missing | Intake::Refused(_) => {
                self.next = None;
                return self.replace(None);
            }
            Intake::Usable(access, source) => (access, source),
        };
        if !self.wanted {
            return None;
        }
        if self.current.as_ref().is_some_and(|entry| entry.core.access == *access) {
            self.next = None;
            return None;
        }
        let next = match &self.next {
            Some(next) if next.core.access == *access => Arc::clone(next),
            _ => inner.entry(access, source, address),
        };
        let needed = self.current.as_ref().is_some_and(|current| current.core.is_up());
        if needed && !next.core.is_concluded() {
            self.next = Some(next);
            return None;
        }
        self.next = None;
        self.replace(Some(next))
    }

    /// Makes another entry count, and keeps when the one before last heard from its cluster.
    fn replace(&mut self, entry: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        if let Some(current) = &self.current {
            self.last_contact = current.core.guard.last_heard().or(self.last_contact);
        }
        std::mem::replace(&mut self.current, entry)
    }

    fn standing(&self, address: &SecretAddress) -> Standing {
        if let Some(failure) = self.intake.failure(address, Asker::Definition) {
            return Standing::Down(failure);
        }
        let Some(entry) = &self.current else { return Standing::Waiting };
        match entry.core.snapshot().phase {
            Phase::Connecting => Standing::Waiting,
            Phase::Up(_, identity) => Standing::Up(entry.core.access.clone(), identity),
            Phase::Down(failure) => Standing::Down(failure),
        }
    }
}

/// Whether somebody may use a Secret, though there is nothing in it that they can use: once there is, they want it.
fn is_for_them(refusal: &SecretRefusal) -> bool {
    matches!(refusal, SecretRefusal::Key { .. })
}

fn unreadable_secret(error: &ApiError) -> ConnectionFailure {
    let advice = ConnectionAdvice::AllowSecretAccess;
    failed(ConnectStep::Secret, error.reason(), error.to_string(), advice)
}
