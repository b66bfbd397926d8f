//! Turns "the credential of this Secret" into the connection that counts at the moment of a request. A pass over an instance
//! that began before a rotation so ends with the new credential, and one whose Secret is gone or leads elsewhere by now
//! ends at once.

use std::fmt;
use std::sync::Arc;

use kross_api::FailureReason;
use parking_lot::RwLock;

use super::{ClusterClient, Shared};
use crate::transport::TransportError;

/// The way that a Secret opens.
pub(crate) struct Route(RwLock<RouteState>);

enum RouteState {
    Open(Arc<Shared>),
    /// Closed, and why.
    Closed(FailureReason, String),
}

impl Route {
    pub(crate) fn closed(reason: FailureReason, problem: &str) -> Arc<Self> {
        Arc::new(Self(RwLock::new(RouteState::Closed(reason, problem.to_owned()))))
    }

    /// From now on this connection counts.
    pub(crate) fn open(&self, client: &ClusterClient) {
        self.set(RouteState::Open(Arc::clone(&client.shared)));
    }

    /// From now on nothing gets through.
    pub(crate) fn close(&self, reason: FailureReason, problem: &str) {
        self.set(RouteState::Closed(reason, problem.to_owned()));
    }

    fn set(&self, state: RouteState) {
        let replaced = std::mem::replace(&mut *self.0.write(), state);
        // Outside the lock: this may drop the last reference to a client and its sockets.
        drop(replaced);
    }

    /// The way for somebody who began with this connection.
    pub(super) fn resolve(&self, initial: &Arc<Shared>) -> Result<Arc<Shared>, TransportError> {
        match &*self.0.read() {
            RouteState::Open(shared) if shared.cluster == initial.cluster => Ok(Arc::clone(shared)),
            RouteState::Open(_) => Err(TransportError::NotConnected {
                reason: FailureReason::Credentials,
                problem: "the Secret leads to another cluster by now".to_owned(),
            }),
            RouteState::Closed(reason, problem) => {
                Err(TransportError::NotConnected { reason: *reason, problem: problem.clone() })
            }
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Route")
    }
}
