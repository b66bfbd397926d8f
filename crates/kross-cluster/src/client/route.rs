//! Turns "the credential of this Secret" into the connection that counts at the moment of a request. A pass over an instance
//! that began before a rotation so ends with the new credential, and one whose Secret is gone or leads elsewhere by now
//! ends at once.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use kross_api::FailureReason;

use super::{ClusterClient, Shared};
use crate::transport::TransportError;

/// The way that a Secret opens.
pub(crate) struct Route(RwLock<Way>);

enum Way {
    Open(Arc<Shared>),
    /// Closed, and why.
    Closed(FailureReason, String),
}

impl Route {
    pub(crate) fn closed(reason: FailureReason, problem: &str) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Way::Closed(reason, problem.to_owned()))))
    }

    /// From now on this connection counts.
    pub(crate) fn open(&self, client: &ClusterClient) {
        self.set(Way::Open(Arc::clone(&client.shared)));
    }

    /// From now on nothing gets through.
    pub(crate) fn close(&self, reason: FailureReason, problem: &str) {
        self.set(Way::Closed(reason, problem.to_owned()));
    }

    fn set(&self, way: Way) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = way;
    }

    /// The way for somebody who began with this connection.
    pub(super) fn follow(&self, began: &Arc<Shared>) -> Result<Arc<Shared>, TransportError> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Way::Open(shared) if shared.cluster == began.cluster => Ok(Arc::clone(shared)),
            Way::Open(_) => Err(TransportError::NotConnected {
                reason: FailureReason::Credentials,
                problem: "the Secret leads to another cluster by now".to_owned(),
            }),
            Way::Closed(reason, problem) => {
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
