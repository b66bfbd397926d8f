//! Turns a Secret into a kubeconfig that may be used, or into the reason why not.

use std::sync::Arc;

use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;

use super::ClusterOptions;
use super::connection_state::failed;
use crate::client::Credential;
use crate::kubeconfig::{Accepted, PrepareError, accept};
use crate::object::StoredObject;
use crate::secrets::{Asker, SecretRefusal, judge};
use crate::transport::Endpoint;

/// What a Secret holds.
pub(super) enum Intake {
    /// Not known yet.
    Unread,
    /// Nothing that anybody may use.
    Missing,
    /// Nothing usable.
    Refused(ConnectionFailure),
    /// A kubeconfig, and what tells it from others.
    Usable(Text, Arc<Accepted>),
}

impl Intake {
    /// Reads a Secret for whoever may use it the most.
    pub(super) fn of(secret: &StoredObject, address: &SecretAddress, options: &ClusterOptions) -> Self {
        let bytes = match judge(secret, address, Asker::Definition, &options.secrets) {
            Ok(bytes) => bytes,
            Err(SecretRefusal::NotOffered { .. }) => return Self::Missing,
            Err(refusal) => return Self::Refused(refusal.into()),
        };
        match accept(&bytes, &options.kubeconfigs) {
            Ok(accepted) => Self::Usable(accepted.fingerprint(), Arc::new(accepted)),
            Err(refusal) => Self::Refused(refused(ConnectStep::Parse, refusal.to_string())),
        }
    }

    /// The failure of whoever asks, if there is nothing to use.
    pub(super) fn failure(&self, address: &SecretAddress, asker: Asker<'_>) -> Option<ConnectionFailure> {
        match self {
            Self::Unread | Self::Usable(..) => None,
            Self::Missing => Some(SecretRefusal::not_offered(address, asker).into()),
            Self::Refused(failure) => Some(failure.clone()),
        }
    }
}

impl From<SecretRefusal> for ConnectionFailure {
    fn from(refusal: SecretRefusal) -> Self {
        let step = match refusal {
            SecretRefusal::Key { .. } | SecretRefusal::KeyName { .. } => ConnectStep::Key,
            SecretRefusal::NotOffered { .. } | SecretRefusal::Name { .. } => ConnectStep::Secret,
        };
        refused(step, refusal.to_string())
    }
}

/// What a connection needs, as a kubeconfig gives it at this time.
pub(super) async fn prepare(accepted: &Accepted) -> Result<(Endpoint, Credential), ConnectionFailure> {
    accepted.prepare().await.map_err(|error| {
        let step = match error {
            PrepareError::Expired { .. } | PrepareError::Exec(_) => ConnectStep::Authenticate,
            PrepareError::NoSystemRoots | PrepareError::Certificates | PrepareError::Transport(_) => {
                ConnectStep::Parse
            }
        };
        refused(step, error.to_string())
    })
}

/// The texts of refusals say what to do themselves.
fn refused(step: ConnectStep, cause: String) -> ConnectionFailure {
    failed(step, FailureReason::Credentials, cause, ConnectionAdvice::None)
}
