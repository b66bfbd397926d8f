//! The connection state that the registry reports for a cluster: connected and how, or not connected and why.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;
use serde::Serialize;

use crate::client::{ClusterClient, ExpectedIdentity};
use crate::kubeconfig::CredentialLifetime;
use crate::object::ClusterId;

/// Which cluster a credential gives access to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterIdentity {
    /// The id that object keys carry. Clusters that claim the same UID have the same id only if their trust anchors are equal.
    #[serde(serialize_with = "id_text")]
    pub id: ClusterId,
    /// The UID of the cluster's `kube-system` namespace, or the server's URL where the credential may not read that.
    #[serde(serialize_with = "as_text")]
    pub uid: Text,
    /// Whether `uid` is the UID.
    pub verified: bool,
}

impl ClusterIdentity {
    /// A cluster identified by the UID of its `kube-system` namespace and by its trust anchor.
    pub(super) fn verified(uid: &str, anchor: &str) -> Self {
        Self { id: ClusterId::proven(uid, anchor), uid: uid.into(), verified: true }
    }

    /// A cluster identified by its server's URL and its trust anchor.
    pub(super) fn unverified(server: &str, anchor: &str) -> Self {
        Self { id: ClusterId::proven(server, anchor), uid: server.into(), verified: false }
    }

    /// Whether both claim the same, whatever their trust anchors are.
    pub(super) fn is_same_claim(&self, other: &Self) -> bool {
        self.uid == other.uid && self.verified == other.verified
    }

    /// What new connections to the cluster must answer.
    pub(super) fn expected(&self) -> ExpectedIdentity {
        if self.verified { ExpectedIdentity::Uid(self.uid.clone()) } else { ExpectedIdentity::Hidden }
    }
}

fn id_text<S: serde::Serializer>(id: &ClusterId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.as_str())
}

fn as_text<S: serde::Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The state of the connection to a cluster.
#[derive(Clone, Debug)]
pub enum ConnectionState {
    /// The first attempt is running; nothing has failed yet.
    Connecting {
        /// Since when.
        since: Timestamp,
    },
    /// The cluster is connected.
    Connected(Connection),
    /// The cluster is not connected.
    NotConnected {
        /// Why not, and since when.
        failure: ConnectionFailure,
        /// Which cluster it was when it was last connected.
        identity: Option<ClusterIdentity>,
    },
}

impl ConnectionState {
    /// The connection, if there is one.
    #[must_use]
    pub fn connected(&self) -> Option<&Connection> {
        match self {
            Self::Connected(connection) => Some(connection),
            Self::Connecting { .. } | Self::NotConnected { .. } => None,
        }
    }
}

/// An open connection to a cluster.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The client. It stays with the cluster: when the Secret changes, requests use the new credential as long as that gives
    /// access to the same cluster, and fail otherwise.
    pub client: ClusterClient,
    /// Which cluster it is.
    pub identity: ClusterIdentity,
    /// The address of its API server, which is its identity where the UID may not be read.
    pub server: Text,
    /// Since when it has been connected.
    pub since: Timestamp,
    /// When the cluster last answered.
    pub last_contact: Timestamp,
    /// How the client authenticates: `token`, `client certificate` and so on.
    pub method: Text,
    /// Warnings about the kubeconfig and the cluster, which are used nevertheless.
    pub warnings: Vec<Text>,
    /// That another server claims the same UID under another trust anchor, if so. It is one of the warnings.
    pub identity_conflict: Option<Text>,
    /// Since when the Secret is being deleted and waits for the instances that use it, if so. It serves deletions only.
    pub deletions_only: Option<Timestamp>,
    /// The Kubernetes version of the cluster (`gitVersion`), as of the last connection; none if it does not tell.
    pub version: Option<Text>,
    /// How long the last probe took.
    pub round_trip: Option<Duration>,
    /// From when until when the credential is valid, as far as it tells.
    pub lifetime: CredentialLifetime,
}

/// A change of a cluster's connection. Holders of a handle should read its state again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The Secret with the cluster's kubeconfig.
    pub secret: SecretAddress,
    /// What changed.
    pub change: ClusterChange,
}

/// What changed about a cluster's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// The cluster is connected, or the Secret points to another cluster now.
    Connected,
    /// The connection was lost.
    Lost,
    /// The cluster is still not connected, for a new reason.
    Failed,
    /// Another credential is used now; the cluster was and is connected.
    Credential,
    /// The Secret's labels or annotations changed, and with them who may use it, or it is being deleted.
    Permissions,
    /// The Secret's protection changed, and nothing that concerns its users.
    Protection,
    /// Another server claims the UID of this cluster under another trust anchor, or no longer does.
    IdentityConflict,
}

/// The failure of a step, as of now.
pub(super) fn failed(
    step: ConnectStep,
    reason: FailureReason,
    cause: impl Into<Text>,
    advice: ConnectionAdvice,
) -> ConnectionFailure {
    ConnectionFailure::new(step, reason, cause, advice, Timestamp::now())
}
