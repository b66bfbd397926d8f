//! The client that requests with the credential of a Secret use now. A reconcile that began before a rotation continues
//! with the new credential; it fails if the Secret was deleted or points to another cluster.

use std::fmt;
use std::sync::Arc;

use kross_api::FailureReason;
use parking_lot::RwLock;

use super::{ClusterClient, SharedClient};
use crate::transport::TransportError;

/// Where the requests of a Secret's users go. Its lock is a leaf: nothing else is locked or dropped while it is held.
pub(crate) struct Route(RwLock<RouteState>);

enum RouteState {
    Open(Arc<SharedClient>),
    /// Why requests fail.
    Closed(FailureReason, String),
}

impl Route {
    pub(crate) fn closed(reason: FailureReason, problem: &str) -> Arc<Self> {
        Arc::new(Self(RwLock::new(RouteState::Closed(reason, problem.to_owned()))))
    }

    /// From now on requests use this client.
    pub(crate) fn open(&self, client: &ClusterClient) {
        self.set(RouteState::Open(Arc::clone(&client.shared)));
    }

    /// From now on requests fail with this problem.
    pub(crate) fn close(&self, reason: FailureReason, problem: &str) {
        self.set(RouteState::Closed(reason, problem.to_owned()));
    }

    fn set(&self, state: RouteState) {
        let replaced = std::mem::replace(&mut *self.0.write(), state);
        // Outside the lock: this may drop the last reference to a client and its sockets.
        drop(replaced);
    }

    /// The client for a request of somebody who started with `initial`. After a rotation of the certificate authority the Secret
    /// still leads where it led, as far as its users are concerned: what they began to write is written. What they would read must
    /// not be mixed with what they have read before.
    pub(super) fn resolve(
        &self,
        initial: &Arc<SharedClient>,
        is_write: bool,
    ) -> Result<Arc<SharedClient>, TransportError> {
        match &*self.0.read() {
            RouteState::Open(shared) if shared.cluster == initial.cluster => Ok(Arc::clone(shared)),
            RouteState::Open(shared) if shared.cluster.claim() == initial.cluster.claim() => {
                if is_write {
                    Ok(Arc::clone(shared))
                } else {
                    Err(another_authority())
                }
            }
            RouteState::Open(_) => Err(another_cluster()),
            RouteState::Closed(reason, problem) => {
                Err(TransportError::NotConnected { reason: *reason, problem: problem.clone() })
            }
        }
    }
}

/// The error of a client whose credential now leads to another cluster.
pub(super) fn another_cluster() -> TransportError {
    TransportError::NotConnected {
        reason: FailureReason::Credentials,
        problem: "the Secret now points to another cluster".to_owned(),
    }
}

/// The error of a client whose Secret has another certificate authority now. The next reconcile begins with the new one.
fn another_authority() -> TransportError {
    TransportError::NotConnected {
        reason: FailureReason::Credentials,
        problem: "the certificate authority in the Secret was replaced".to_owned(),
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Route")
    }
}
