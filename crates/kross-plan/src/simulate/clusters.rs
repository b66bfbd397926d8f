//! The connections of simulated clusters, and the names by which people know a cluster.

use jiff::Timestamp;
use kross_api::{
    ClusterId, ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, KUBECONFIG_NAME_SUFFIX,
    ResolvedCluster, ResolvedCredentials, SyncMode,
};
use kross_value::Text;

use crate::observed::{ClusterConnection, ObservedCluster};
use crate::plan::UsedCluster;

/// Whether a simulated cluster is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It is.
    Connected,
    /// It is not.
    NotConnected {
        /// The class of the failure.
        reason: FailureReason,
        /// What went wrong.
        cause: Text,
    },
}

impl Connection {
    /// The connection since this time.
    pub(super) fn since(&self, since: Timestamp) -> ClusterConnection {
        match self {
            Self::Connected => ClusterConnection::Connected { since, last_contact: None },
            Self::NotConnected { reason, cause } => ClusterConnection::NotConnected(ConnectionFailure::new(
                step(*reason),
                *reason,
                cause.clone(),
                ConnectionAdvice::None,
                since,
            )),
        }
    }
}

/// The step of connecting that fails for this reason.
fn step(reason: FailureReason) -> ConnectStep {
    match reason {
        FailureReason::Credentials => ConnectStep::Secret,
        FailureReason::Unauthorized | FailureReason::Forbidden => ConnectStep::Authenticate,
        _ => ConnectStep::Reach,
    }
}

/// A cluster in the state in which a controller observes it first.
pub(super) fn observed(used: &UsedCluster, connection: ClusterConnection) -> ObservedCluster {
    let uid = connection.is_connected().then(|| uid_of(&used.reference));
    ObservedCluster { uid, ..state(&used.id, &used.reference, connection, false) }
}

/// A cluster in which an instance has objects already.
pub(super) fn restored(
    id: &ClusterId,
    reference: &ResolvedCluster,
    connection: ClusterConnection,
) -> ObservedCluster {
    ObservedCluster { uid: Some(uid_of(reference)), ..state(id, reference, connection, true) }
}

/// The UID that a simulated cluster proves: each reference leads to a cluster of its own.
pub(super) fn uid_of(reference: &ResolvedCluster) -> Text {
    format!("simulated {}", reference.credentials).into()
}

fn state(
    id: &ClusterId,
    reference: &ResolvedCluster,
    connection: ClusterConnection,
    succeeded: bool,
) -> ObservedCluster {
    let mode = if reference.poll.is_some() { SyncMode::Poll } else { SyncMode::Watch };
    ObservedCluster {
        id: id.clone(),
        uid: None,
        unverified: false,
        mode,
        connection,
        succeeded,
        deletions_only: None,
        warning: None,
        secret: None,
    }
}

/// Whether a cluster is known by this name: the one that status and messages show, its Secret or target with or without the
/// namespace, or the name of the Secret without the suffix `-kubeconfig`.
#[must_use]
pub fn is_named(reference: &ResolvedCluster, name: &str) -> bool {
    let of_secret = |namespace: &str, own: &str| {
        let short = own.strip_suffix(KUBECONFIG_NAME_SUFFIX);
        own == name
            || short == Some(name)
            || name
                .split_once('/')
                .is_some_and(|(before, after)| before == namespace && (after == own || Some(after) == short))
    };
    reference.display == name
        || reference.display.split(' ').next() == Some(name)
        || match &reference.credentials {
            ResolvedCredentials::Secret(secret) => of_secret(&secret.namespace, &secret.name),
            ResolvedCredentials::Target { namespace, name } => of_secret(namespace, name),
            ResolvedCredentials::TargetSelector { .. } => false,
        }
}
