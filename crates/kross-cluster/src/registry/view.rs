//! Turns the registry's state into what pages and metrics show. No byte of a credential is in it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use kross_api::{ConnectStep, FailureReason};
use serde::Serialize;

use super::Inner;
use super::connection_state::{ClusterIdentity, ConnectionState};
use super::slot::Slot;

/// Where a cluster stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum ClusterState {
    /// It is being connected to for the first time.
    #[default]
    Connecting,
    /// It is connected.
    Connected,
    /// It is not, for the reason that is given.
    NotConnected,
}

/// A cluster as a page shows it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// The Secret, as `namespace/name`.
    pub secret: String,
    /// The key in the Secret.
    pub key: String,
    /// Where it stands.
    pub state: ClusterState,
    /// Since when.
    pub since: String,
    /// The address of its API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How we prove who we are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Which cluster it is, or was when it was last connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClusterIdentity>,
    /// When it last answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_contact: Option<String>,
    /// How far the last attempt got, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<ConnectStep>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// The same in words, with what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<String>,
    /// What the operator should know about the kubeconfig.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How many graphs and instances hold it.
    pub users: usize,
    /// Attempts to connect.
    pub attempts: u64,
    /// Attempts that failed, by reason.
    pub failures: BTreeMap<FailureReason, u64>,
    /// Requests that are under way.
    pub in_flight: usize,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were not.
    pub failed: u64,
    /// Requests that were not sent, since the cluster was not connected.
    pub refused: u64,
    /// Watches that are open.
    pub watches: usize,
}

/// What was done in all clusters since the process began, also in those that are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterTotals {
    /// Attempts to connect.
    pub attempts: u64,
    /// Attempts that failed, by reason.
    pub failures: BTreeMap<FailureReason, u64>,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were not.
    pub failed: u64,
    /// Requests that were not sent, since the cluster was not connected.
    pub refused: u64,
}

impl Inner {
    pub(super) fn totals(&self) -> ClusterTotals {
        let attempts = super::lock(&self.attempts).clone();
        ClusterTotals {
            attempts: attempts.made,
            failures: attempts.failed,
            answered: self.requests.answered.load(Ordering::Relaxed),
            failed: self.requests.failed.load(Ordering::Relaxed),
            refused: self.requests.refused.load(Ordering::Relaxed),
        }
    }

    pub(super) fn views(&self) -> Vec<ClusterView> {
        let mut slots = self.slots();
        slots.sort_by(|a, b| a.address.cmp(&b.address));
        slots.iter().map(|slot| view(slot)).collect()
    }
}

fn view(slot: &Slot) -> ClusterView {
    let peek = slot.peek();
    let core = peek.entry.as_ref().map(|entry| &entry.core);
    let counts = core.map(|core| core.guard.counts()).unwrap_or_default();
    let attempts = core.map(|core| core.attempts()).unwrap_or_default();
    let mut view = ClusterView {
        secret: slot.address.to_string(),
        key: slot.address.key.clone(),
        state: ClusterState::Connecting,
        since: String::new(),
        server: core.map(|core| core.server.to_string()),
        method: core.map(|core| core.source.method().to_string()),
        identity: None,
        last_contact: None,
        step: None,
        reason: None,
        message: None,
        next_attempt: None,
        warnings: Vec::new(),
        users: peek.users,
        attempts: attempts.made,
        failures: attempts.failed,
        in_flight: counts.in_flight,
        answered: counts.answered,
        failed: counts.failed,
        refused: counts.refused,
        watches: 0,
    };
    match peek.link {
        ConnectionState::Connecting { since } => view.since = since.to_string(),
        ConnectionState::Connected(live) => {
            view.state = ClusterState::Connected;
            view.since = live.since.to_string();
            view.identity = Some(live.identity);
            view.last_contact = Some(live.last_contact.to_string());
            view.warnings = live.warnings.iter().map(ToString::to_string).collect();
            view.watches = live.client.stats().watches.streams;
        }
        ConnectionState::NotConnected { failure, identity } => {
            view.state = ClusterState::NotConnected;
            view.since = failure.since.to_string();
            view.identity = identity;
            view.last_contact = failure.last_contact.map(|at| at.to_string());
            view.step = Some(failure.step);
            view.reason = Some(failure.reason);
            view.message = Some(failure.message(&view.secret));
            view.next_attempt = failure.next_attempt.map(|at| at.to_string());
        }
    }
    view
}
