//! Turns a Secret into an accepted kubeconfig, or into the failure that says why not.

use std::sync::Arc;

use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;

use super::ClusterOptions;
use super::connection_state::failed;
use crate::client::Credential;
use crate::kubeconfig::{Accepted, PrepareError, accept};
use crate::object::StoredObject;
use crate::secrets::{SecretConsumer, SecretRefusal, read_kubeconfig};
use crate::transport::Endpoint;

/// What a watched Secret contains.
pub(super) enum SecretContent {
    /// The Secret was not read yet.
    Unread,
    /// There is no Secret that anybody may use.
    Missing,
    /// The Secret cannot be read, or its kubeconfig is refused.
    Refused(ConnectionFailure),
    /// An accepted kubeconfig, with its fingerprint.
    Usable(Text, Arc<Accepted>),
}

impl SecretContent {
    /// Reads a Secret with the widest permissions, those of a definition.
    pub(super) fn of(secret: &StoredObject, address: &SecretAddress, options: &ClusterOptions) -> Self {
        let bytes = match read_kubeconfig(secret, address, SecretConsumer::Definition, &options.secrets) {
            Ok(bytes) => bytes,
            Err(SecretRefusal::NotOffered { .. }) => return Self::Missing,
            Err(refusal) => return Self::Refused(refusal.into()),
        };
        match accept(&bytes, &options.kubeconfigs) {
            Ok(accepted) => Self::Usable(accepted.fingerprint(), Arc::new(accepted)),
            Err(refusal) => Self::Refused(refused(ConnectStep::Parse, refusal.to_string())),
        }
    }

    /// The failure that a consumer sees, if there is no usable kubeconfig.
    pub(super) fn failure(
        &self,
        address: &SecretAddress,
        consumer: SecretConsumer<'_>,
    ) -> Option<ConnectionFailure> {
        match self {
            Self::Unread | Self::Usable(..) => None,
            Self::Missing => Some(SecretRefusal::not_offered(address, consumer).into()),
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

/// Endpoint and credential of a kubeconfig: tokens of `exec` plugins and certificates as of now.
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

/// A refusal, whose text says what to do.
fn refused(step: ConnectStep, cause: String) -> ConnectionFailure {
    failed(step, FailureReason::Credentials, cause, ConnectionAdvice::None)
}
