//! What the registry says about a cluster: connected and how, or not and why.

use std::fmt;

use jiff::Timestamp;
use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;
use serde::Serialize;

use crate::client::ClusterClient;
use crate::object::ClusterId;

/// Which cluster a credential leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterIdentity {
    /// The id that object keys carry.
    #[serde(serialize_with = "as_text")]
    pub id: ClusterId,
    /// The UID of the cluster's `kube-system` namespace, or its URL where that may not be read.
    #[serde(serialize_with = "as_text")]
    pub uid: Text,
    /// Whether it is the UID.
    pub verified: bool,
}

impl ClusterIdentity {
    /// By the UID of `kube-system`.
    pub(super) fn verified(uid: &str) -> Self {
        Self { id: ClusterId::new(uid), uid: uid.into(), verified: true }
    }

    /// By the URL alone.
    pub(super) fn unverified(server: &str) -> Self {
        Self { id: ClusterId::new(server), uid: server.into(), verified: false }
    }
}

fn as_text<S: serde::Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// What is known about the way to a cluster.
#[derive(Clone, Debug)]
pub enum ConnectionState {
    /// It is being opened for the first time; nothing has failed yet.
    Connecting {
        /// Since when.
        since: Timestamp,
    },
    /// It is open.
    Connected(Connection),
    /// It is not open.
    NotConnected {
        /// Why not, and since when.
        failure: ConnectionFailure,
        /// Which cluster it was when it was last open.
        identity: Option<ClusterIdentity>,
    },
}

impl ConnectionState {
    /// The connection, if there is one.
    #[must_use]
    pub fn connected(&self) -> Option<&Connection> {
        match self {
            Self::Connected(live) => Some(live),
            Self::Connecting { .. } | Self::NotConnected { .. } => None,
        }
    }
}

/// A way that is open.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The connection. It stays with the cluster: when the Secret changes, requests go by the new credential as long as it
    /// leads to the same cluster, and fail otherwise.
    pub client: ClusterClient,
    /// Which cluster it is.
    pub identity: ClusterIdentity,
    /// The address of its API server, which is its identity where nothing better is known.
    pub server: Text,
    /// Since when it has been open.
    pub since: Timestamp,
    /// When the cluster last answered.
    pub last_contact: Timestamp,
    /// How we prove who we are: `token`, `client certificate` and so on.
    pub method: Text,
    /// What the operator should know about the kubeconfig although it is used.
    pub warnings: Vec<Text>,
}

/// Something happened on the way to a cluster. Whoever holds it should look at the link again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The Secret by which the cluster is referred to.
    pub secret: SecretAddress,
    /// What happened.
    pub change: ClusterChange,
}

/// What happened on the way to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// The cluster is connected, or leads elsewhere now.
    Connected,
    /// The cluster is not connected any more.
    Lost,
    /// The cluster is still not connected, for a reason that was not known before.
    Failed,
    /// Another credential counts now; the cluster was connected and is.
    Credential,
    /// The Secret's labels or annotations changed, so that others may use it now.
    Permissions,
}

/// A failure of a step that just happened.
pub(super) fn failed(
    step: ConnectStep,
    reason: FailureReason,
    cause: impl Into<Text>,
    advice: ConnectionAdvice,
) -> ConnectionFailure {
    ConnectionFailure::new(step, reason, cause, advice, Timestamp::now())
}
