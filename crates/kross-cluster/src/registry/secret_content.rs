//! Turns a Secret into an accepted kubeconfig, or into the failure that says why not.

use std::sync::Arc;

use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason, SecretAddress};
use kross_value::Text;

use super::ClusterOptions;
use super::connection_state::failed;
use crate::client::Credential;
use crate::kubeconfig::{Accepted, CredentialLifetime, PrepareError, Refusal, accept, accept_connection};
use crate::object::StoredObject;
use crate::secrets::{SecretConsumer, SecretRefusal, check_connection, read_kubeconfig, read_value};
use crate::transport::Endpoint;

/// What gives access to a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum SecretUse {
    /// A cluster reference: the Secret must be offered to its consumer.
    Kubeconfig,
    /// A target, which authorises its connection Secret for all who may use the target.
    Connection,
}

impl SecretUse {
    /// Why a consumer may not use a Secret, if so.
    pub(super) fn refusal(
        self,
        secret: &StoredObject,
        address: &SecretAddress,
        consumer: SecretConsumer<'_>,
        options: &ClusterOptions,
    ) -> Option<SecretRefusal> {
        match self {
            Self::Kubeconfig => read_kubeconfig(secret, address, consumer, &options.secrets).err(),
            Self::Connection => check_connection(secret, address).err(),
        }
    }

    /// The refusal of a Secret that does not exist.
    fn absent(self, address: &SecretAddress, consumer: SecretConsumer<'_>) -> SecretRefusal {
        match self {
            Self::Kubeconfig => SecretRefusal::not_offered(address, consumer),
            Self::Connection => SecretRefusal::Absent { secret: address.to_string() },
        }
    }
}

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
    pub(super) fn of(
        secret: &StoredObject,
        address: &SecretAddress,
        secret_use: SecretUse,
        options: &ClusterOptions,
    ) -> Self {
        let accepted = match secret_use {
            SecretUse::Kubeconfig => Self::read_kubeconfig(secret, address, options),
            SecretUse::Connection => check_connection(secret, address).map(|()| {
                accept_connection(|key| read_value(secret, key), &address.namespace, &options.kubeconfigs)
            }),
        };
        match accepted {
            Ok(Ok(accepted)) => Self::Usable(accepted.fingerprint(), Arc::new(accepted)),
            Ok(Err(refusal)) => Self::Refused(refused(ConnectStep::Parse, refusal.to_string())),
            Err(SecretRefusal::NotOffered { .. }) => Self::Missing,
            Err(refusal) => Self::Refused(refusal.into()),
        }
    }

    fn read_kubeconfig(
        secret: &StoredObject,
        address: &SecretAddress,
        options: &ClusterOptions,
    ) -> Result<Result<Accepted, Refusal>, SecretRefusal> {
        let bytes = read_kubeconfig(secret, address, SecretConsumer::Definition, &options.secrets)?;
        Ok(accept(&bytes, &address.namespace, &options.kubeconfigs))
    }

    /// From when until when the credential is valid, if there is a usable one.
    pub(super) fn lifetime(&self) -> CredentialLifetime {
        match self {
            Self::Usable(_, accepted) => accepted.lifetime(),
            Self::Unread | Self::Missing | Self::Refused(_) => CredentialLifetime::default(),
        }
    }

    /// The failure that a consumer sees, if there is no usable kubeconfig.
    pub(super) fn failure(
        &self,
        address: &SecretAddress,
        secret_use: SecretUse,
        consumer: SecretConsumer<'_>,
    ) -> Option<ConnectionFailure> {
        match self {
            Self::Unread | Self::Usable(..) => None,
            Self::Missing => Some(secret_use.absent(address, consumer).into()),
            Self::Refused(failure) => Some(failure.clone()),
        }
    }
}

impl From<SecretRefusal> for ConnectionFailure {
    fn from(refusal: SecretRefusal) -> Self {
        let step = match refusal {
            SecretRefusal::Key { .. } | SecretRefusal::KeyName { .. } => ConnectStep::Key,
            SecretRefusal::NotOffered { .. }
            | SecretRefusal::Name { .. }
            | SecretRefusal::Absent { .. }
            | SecretRefusal::Type { .. } => ConnectStep::Secret,
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
