//! Turns the registry's state into what the status page and metrics show. It contains no byte of a credential.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use kross_api::{ClusterState, ConnectStep, FailureReason};
use serde::Serialize;

use super::Inner;
use super::connection_state::{ClusterIdentity, ConnectionState};
use super::watched_secret::{SecretSnapshot, WatchedSecret};

/// A cluster as the status page shows it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// The Secret, as `namespace/name`.
    pub secret: String,
    /// The key in the Secret.
    pub key: String,
    /// Whether it is connected.
    pub state: ClusterState,
    /// Since when.
    pub since: String,
    /// The address of its API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How the client authenticates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Which cluster it is, or was when it was last connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<ClusterIdentity>,
    /// When it last answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_contact: Option<String>,
    /// The step at which the last attempt failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<ConnectStep>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// What went wrong and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the controller connects again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<String>,
    /// When the credential in the Secret was issued, if it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_issued_at: Option<String>,
    /// When the credential in the Secret expires. None if it does not expire, or does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_expires_at: Option<String>,
    /// Warnings about the kubeconfig, which is used nevertheless.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How many definitions and instances use it.
    pub users: usize,
    /// Connection attempts.
    pub attempts: u64,
    /// Failed connection attempts, by reason.
    pub failures: BTreeMap<FailureReason, u64>,
    /// Requests in flight.
    pub in_flight: usize,
    /// Requests that may be in flight at once now.
    pub limit: usize,
    /// Requests that wait because as many are in flight.
    pub waiting: usize,
    /// Answered requests.
    pub answered: u64,
    /// Requests without an answer.
    pub failed: u64,
    /// Requests that were not sent because the cluster was not connected.
    pub refused: u64,
    /// Open watches.
    pub watches: usize,
}

/// The counters of all clusters since the process started, including those that are no longer registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterTotals {
    /// Connection attempts.
    pub attempts: u64,
    /// Failed connection attempts, by reason.
    pub failures: BTreeMap<FailureReason, u64>,
    /// Answered requests.
    pub answered: u64,
    /// Requests without an answer.
    pub failed: u64,
    /// Requests that were not sent because the cluster was not connected.
    pub refused: u64,
}

impl Inner {
    pub(super) fn totals(&self) -> ClusterTotals {
        let attempts = self.attempts.lock().clone();
        ClusterTotals {
            attempts: attempts.made,
            failures: attempts.failed,
            answered: self.requests.answered.load(Ordering::Relaxed),
            failed: self.requests.failed.load(Ordering::Relaxed),
            refused: self.requests.refused.load(Ordering::Relaxed),
        }
    }

    pub(super) fn views(&self) -> Vec<ClusterView> {
        let mut secrets = self.secrets();
        secrets.sort_by_key(|secret| secret.key());
        secrets.iter().map(|secret| view(secret, self)).collect()
    }
}

fn view(secret: &WatchedSecret, inner: &Inner) -> ClusterView {
    let SecretSnapshot { state, users, entry, lifetime } = secret.snapshot(inner);
    let connector = entry.as_ref().map(|entry| &entry.connector);
    let counts = connector.map(|connector| connector.breaker.counts()).unwrap_or_default();
    let attempts = connector.map(|connector| connector.attempts()).unwrap_or_default();
    let (limit, waiting) = connector.map(|connector| connector.limit.usage()).unwrap_or_default();
    let mut view = ClusterView {
        secret: secret.address.to_string(),
        key: secret.address.key.clone(),
        state: ClusterState::Connecting,
        since: String::new(),
        server: connector.map(|connector| connector.server.to_string()),
        method: connector.map(|connector| connector.source.method().to_string()),
        identity: None,
        last_contact: None,
        step: None,
        reason: None,
        message: None,
        next_attempt: None,
        credential_issued_at: lifetime.issued_at.map(|at| at.to_string()),
        credential_expires_at: lifetime.expires_at.map(|at| at.to_string()),
        warnings: Vec::new(),
        users,
        attempts: attempts.made,
        failures: attempts.failed,
        in_flight: counts.in_flight,
        limit,
        waiting,
        answered: counts.answered,
        failed: counts.failed,
        refused: counts.refused,
        watches: 0,
    };
    match state {
        ConnectionState::Connecting { since } => view.since = since.to_string(),
        ConnectionState::Connected(connection) => {
            view.state = ClusterState::Connected;
            view.since = connection.since.to_string();
            view.identity = Some(connection.identity);
            view.last_contact = Some(connection.last_contact.to_string());
            view.warnings = connection.warnings.iter().map(ToString::to_string).collect();
            view.watches = connection.client.stats().watches.streams;
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
