//! Renews the token in a kubeconfig Secret of a registered cluster: requests a new one in the cluster, with the rights of the one in
//! use, and stores it in the Secret. Who decides when is the caller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use jiff::{SignedDuration, Timestamp};
use kross_api::{ConnectionFailure, KUBECONFIG_KEY, SecretAddress, annotations, labels, managers};
use kross_value::{Object, Value};
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use super::{ClusterRegistry, Connection, ConnectionState, Inner, secret_content};
use crate::audit::{AuditCluster, AuditObject, AuditRecord, AuditVerb};
use crate::client::{IssuedToken, Transports};
use crate::error::ApiError;
use crate::events::Regarding;
use crate::kubeconfig::{
    Accepted, CredentialLifetime, KubeconfigPolicy, Refusal, ReplaceTokenError, ServiceAccountName, accept,
    replace_token,
};
use crate::object::StoredObject;
use crate::secrets::{SecretConsumer, SecretName, read_value};

/// The least lifetime of a token that an API server accepts in a request.
const MIN_DURATION: Duration = Duration::from_secs(600);
/// The lifetime that is requested if neither the Secret nor the token tells.
const DEFAULT_DURATION: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How long a renewal waits for the connection, besides the time for one attempt.
const CONNECT_GRACE: Duration = Duration::from_secs(5);

/// A Secret whose annotation `kro.run/token-service-account` asks for the renewal of its token.
#[derive(Clone)]
pub struct RenewableSecret {
    object: Arc<StoredObject>,
    name: SecretName,
    account: Option<ServiceAccountName>,
    accepted: Result<Arc<Accepted>, Option<Refusal>>,
}

/// Why a token was not renewed. Shows no part of a credential.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RenewalError {
    /// The annotation names no ServiceAccount.
    #[error(
        "annotation `{}` does not name a ServiceAccount: use `NAMESPACE/NAME`",
        annotations::TOKEN_SERVICE_ACCOUNT
    )]
    Annotation,
    /// The Secret has no kubeconfig.
    #[error("the Secret has no key `{KUBECONFIG_KEY}`")]
    NoKubeconfig,
    /// The kubeconfig has the token of another user.
    #[error(
        "the token in the Secret is not one of ServiceAccount `{account}`, which annotation `{}` names",
        annotations::TOKEN_SERVICE_ACCOUNT
    )]
    OtherAccount {
        /// The ServiceAccount of the annotation.
        account: ServiceAccountName,
    },
    /// The kubeconfig cannot be changed.
    #[error(transparent)]
    Kubeconfig(#[from] ReplaceTokenError),
    /// The Secret cannot be written in the hub.
    #[error("{0}")]
    Hub(#[source] ApiError),
    /// The cluster is not connected.
    #[error("{}", _0.cause)]
    NotConnected(ConnectionFailure),
    /// The cluster is not connected yet.
    #[error("the cluster did not connect in time")]
    Connecting,
    /// The cluster issued no token.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// The new token expires no later than the one in use.
    #[error("the cluster issued a token that expires at {0}, no later than the one in use")]
    NotLater(Timestamp),
    /// The cluster does not accept the new token, or another cluster does.
    #[error("the new token was not stored, since the cluster does not accept it: {0}")]
    NotAccepted(String),
}

impl RenewalError {
    /// Whether the caller may not write the Secret.
    #[must_use]
    pub fn is_forbidden_in_the_hub(&self) -> bool {
        matches!(self, Self::Hub(error) if error.code() == Some(403))
    }

    /// Whether the ServiceAccount may not request tokens for itself.
    #[must_use]
    pub fn is_forbidden_in_the_cluster(&self) -> bool {
        matches!(self, Self::Request(error) if error.code() == Some(403))
    }

    /// Whether the Secret has changed meanwhile, so that nothing is known of the one that is there now.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Hub(error) if error.code() == Some(409))
    }

    /// Whether nothing was written because this process does not hold the Lease.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Hub(error) | Self::Request(error) if error.is_fenced())
    }
}

impl RenewableSecret {
    /// Reads a Secret. None if it does not ask for renewal.
    #[must_use]
    pub fn read(object: &Arc<StoredObject>, policy: &KubeconfigPolicy) -> Option<Self> {
        let annotation = object.annotation(annotations::TOKEN_SERVICE_ACCOUNT)?;
        let namespace = object.namespace()?.clone();
        let accepted = match read_value(object, KUBECONFIG_KEY) {
            Some(kubeconfig) => accept(&kubeconfig, &namespace, policy).map(Arc::new).map_err(Some),
            None => Err(None),
        };
        Some(Self {
            account: ServiceAccountName::parse(annotation),
            name: SecretName { namespace, name: object.name().clone() },
            object: Arc::clone(object),
            accepted,
        })
    }

    /// Namespace and name.
    #[must_use]
    pub fn name(&self) -> &SecretName {
        &self.name
    }

    /// The Secret as the subject of an Event.
    #[must_use]
    pub fn regarding(&self) -> Regarding {
        Regarding::from(&*self.object)
    }

    /// The version of the Secret that was read.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.object.resource_version()
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.object.deletion_timestamp().is_some()
    }

    /// The ServiceAccount of the annotation.
    #[must_use]
    pub fn service_account(&self) -> Option<&ServiceAccountName> {
        self.account.as_ref()
    }

    /// From when until when the token is valid.
    #[must_use]
    pub fn lifetime(&self) -> CredentialLifetime {
        self.accepted.as_ref().map(|accepted| accepted.lifetime()).unwrap_or_default()
    }

    /// How long the next token is to live: as the annotation says, or as long as the one in use.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let annotated = self.object.annotation(annotations::TOKEN_DURATION).and_then(token_duration);
        let lived = || self.lifetime().duration().and_then(|lived| Duration::try_from(lived).ok());
        annotated.or_else(lived).unwrap_or(DEFAULT_DURATION).max(MIN_DURATION)
    }

    /// The ServiceAccount whose token it has.
    ///
    /// # Errors
    /// It is not that of the annotation, or there is none.
    pub fn checked_account(&self) -> Result<&ServiceAccountName, RenewalError> {
        let account = self.account.as_ref().ok_or(RenewalError::Annotation)?;
        match &self.accepted {
            Err(None) => Err(RenewalError::NoKubeconfig),
            Err(Some(refusal)) => Err(ReplaceTokenError::Refused(refusal.clone()).into()),
            Ok(accepted) if accepted.service_account().as_ref() == Some(account) => Ok(account),
            Ok(_) => Err(RenewalError::OtherAccount { account: account.clone() }),
        }
    }

    /// The kubeconfig with another token.
    ///
    /// # Errors
    /// The kubeconfig cannot be changed.
    pub fn with_token(
        &self,
        token: &IssuedToken,
        policy: &KubeconfigPolicy,
    ) -> Result<Zeroizing<Vec<u8>>, RenewalError> {
        let kubeconfig = read_value(&self.object, KUBECONFIG_KEY).ok_or(RenewalError::NoKubeconfig)?;
        Ok(replace_token(&kubeconfig, &self.name.namespace, policy, &token.token)?)
    }

    /// A merge patch of exactly this version of the Secret that changes nothing but what people read: it shows whether the Secret
    /// can be written.
    #[must_use]
    pub fn touch(&self) -> Value {
        patch(self.object.resource_version(), self.lifetime(), None)
    }
}

impl fmt::Debug for RenewableSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RenewableSecret({})", self.name)
    }
}

/// A merge patch that stores a kubeconfig, and when its token expires, in exactly this version of a Secret.
#[must_use]
pub fn renewal_patch(version: &str, lifetime: CredentialLifetime, kubeconfig: &[u8]) -> Value {
    patch(version, lifetime, Some(kubeconfig))
}

fn patch(version: &str, lifetime: CredentialLifetime, kubeconfig: Option<&[u8]>) -> Value {
    let expires = lifetime.expires_at.map_or(Value::Null, |at| Value::from(at.to_string()));
    let mut metadata = Object::new();
    metadata.insert("resourceVersion", Value::from(version));
    metadata.insert("annotations", Value::object([(annotations::TOKEN_EXPIRES_AT, expires)]));
    let mut patch = Object::new();
    patch.insert("metadata", metadata.into());
    if let Some(kubeconfig) = kubeconfig {
        let encoded = base64::engine::general_purpose::STANDARD.encode(kubeconfig);
        patch.insert("data", Value::object([(KUBECONFIG_KEY, Value::from(encoded))]));
    }
    patch.into()
}

/// A duration as annotations have it, such as `720h`, `90m` or `600s`.
#[must_use]
pub fn token_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "h" => 3_600,
        "m" => 60,
        "s" => 1,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds).map(Duration::from_secs)
}

impl ClusterRegistry {
    /// The Secrets in use, and those with the label `kro.run/cluster-credentials`, that ask for renewal: in one namespace or in all.
    ///
    /// # Errors
    /// The hub refuses or does not answer.
    pub async fn renewable_secrets(&self, namespace: Option<&str>) -> Result<Vec<RenewableSecret>, ApiError> {
        let Inner { hub, secret_kind, options, .. } = &*self.inner;
        let selector = format!("{}={}", labels::CLUSTER_CREDENTIALS, labels::CLUSTER_CREDENTIALS_TRUE);
        let found = hub.list_with_outlines(secret_kind, namespace, Some(&selector)).await?;
        let readable = found.into_iter().filter(|object| object.unreadable().is_none());
        Ok(readable
            .filter_map(|object| RenewableSecret::read(&Arc::new(object), &options.kubeconfigs))
            .collect())
    }

    /// The Secrets in use that ask for renewal, from memory.
    #[must_use]
    pub fn renewable_secrets_in_use(&self) -> Vec<RenewableSecret> {
        let policy = &self.inner.options.kubeconfigs;
        let objects = self.inner.secrets().into_iter().filter_map(|watched| watched.object());
        objects.filter_map(|object| RenewableSecret::read(&object, policy)).collect()
    }

    /// Requests a new token for a Secret, and stores it there. The one in use stays valid until it expires.
    ///
    /// # Errors
    /// The Secret may not be written, the cluster is not connected or refuses, or the Secret was changed meanwhile.
    pub async fn renew_token(&self, secret: &RenewableSecret) -> Result<CredentialLifetime, RenewalError> {
        let began = std::time::Instant::now();
        let renewed = self.try_renew(secret).await;
        if !renewed.as_ref().is_err_and(RenewalError::is_fenced) {
            self.inner.audit_renewal(secret, began, &renewed);
        }
        renewed
    }

    async fn try_renew(&self, secret: &RenewableSecret) -> Result<CredentialLifetime, RenewalError> {
        let account = secret.checked_account()?;
        let Inner { hub, secret_kind, options, .. } = &*self.inner;
        let SecretName { namespace, name } = secret.name();
        let write = async |patch: &Value| {
            let manager = managers::REGISTRATION;
            let written = hub.merge_patch(secret_kind, Some(namespace), name, None, manager, patch).await;
            written.map_err(RenewalError::Hub)
        };
        // Before the request: a token that cannot be stored would be valid for weeks, and nobody could revoke it.
        let touched = write(&secret.touch()).await?;
        let connection = self.connection_of(secret).await?;
        let token = connection.client.request_token(account, secret.duration()).await;
        let token = token.map_err(RenewalError::Request)?;
        if let (Some(new), Some(old)) = (token.lifetime.expires_at, secret.lifetime().expires_at)
            && new <= old
        {
            return Err(RenewalError::NotLater(new));
        }
        let kubeconfig = secret.with_token(&token, &options.kubeconfigs)?;
        let accepted =
            accept(&kubeconfig, namespace, &options.kubeconfigs).map_err(ReplaceTokenError::Refused)?;
        self.try_credential(&accepted, &connection).await?;
        let written = write(&renewal_patch(touched.resource_version(), token.lifetime, &kubeconfig)).await?;
        self.inner.observe_secret(&written);
        Ok(token.lifetime)
    }

    /// Waits for the connection with the token in use.
    async fn connection_of(&self, secret: &RenewableSecret) -> Result<Connection, RenewalError> {
        let SecretName { namespace, name } = secret.name();
        let address = SecretAddress {
            namespace: namespace.to_string(),
            name: name.to_string(),
            key: KUBECONFIG_KEY.to_owned(),
        };
        let mut events = self.subscribe();
        let handle = self.hold(&address);
        let until = Instant::now() + self.inner.options.attempt_timeout + CONNECT_GRACE;
        loop {
            match handle.state(SecretConsumer::Definition) {
                ConnectionState::Connected(connection) => return Ok(connection),
                ConnectionState::NotConnected { failure, .. } => {
                    return Err(RenewalError::NotConnected(failure));
                }
                ConnectionState::Connecting { .. } => {}
            }
            if timeout_at(until, events.recv()).await.is_err() {
                return Err(RenewalError::Connecting);
            }
        }
    }

    /// Makes sure that the cluster accepts a new credential before it replaces the one that works.
    async fn try_credential(&self, accepted: &Accepted, connection: &Connection) -> Result<(), RenewalError> {
        let not_accepted = |failure: ConnectionFailure| RenewalError::NotAccepted(failure.cause.to_string());
        let (endpoint, credential) = secret_content::prepare(accepted).await.map_err(not_accepted)?;
        let options = &self.inner.options;
        let transports = Transports::new(&endpoint, credential, &options.client);
        let answer =
            super::probe::identify(&transports, options.attempt_timeout).await.map_err(not_accepted)?;
        let identity = answer.identity(&connection.server, accepted.trust_anchor()).map_err(not_accepted)?;
        if identity == connection.identity {
            Ok(())
        } else {
            Err(RenewalError::NotAccepted("another cluster answered".to_owned()))
        }
    }
}

impl Inner {
    fn audit_renewal(
        &self,
        secret: &RenewableSecret,
        began: std::time::Instant,
        renewed: &Result<CredentialLifetime, RenewalError>,
    ) {
        let SecretName { namespace, name } = secret.name();
        let title = secret.name().to_string();
        let object = AuditObject {
            group: "".into(),
            kind: "Secret".into(),
            namespace: Some(namespace.clone()),
            name: name.clone(),
        };
        let method = secret.accepted.as_ref().ok().map(|accepted| accepted.method());
        let record = AuditRecord::new(AuditCluster::named(title.as_str()), AuditVerb::Renew);
        let mut record = record.with(title, method).on(object);
        record.duration = began.elapsed();
        self.options.audit.record(match renewed {
            Ok(_) => record,
            Err(error) => record.failed(error.reason()),
        });
    }
}

impl RenewalError {
    /// The class of the failure.
    #[must_use]
    pub fn reason(&self) -> kross_api::FailureReason {
        use kross_api::FailureReason;
        match self {
            Self::Annotation
            | Self::NoKubeconfig
            | Self::OtherAccount { .. }
            | Self::Kubeconfig(_)
            | Self::NotLater(_)
            | Self::NotAccepted(_) => FailureReason::Credentials,
            Self::Hub(error) | Self::Request(error) => error.reason(),
            Self::NotConnected(failure) => failure.reason,
            Self::Connecting => FailureReason::Timeout,
        }
    }
}

/// When a token is to be renewed: after two thirds of its lifetime, or up to a tenth of it earlier, so that clusters that were
/// registered together are not renewed together. None if it does not tell.
#[must_use]
pub fn renewal_due(lifetime: CredentialLifetime, share: f64) -> Option<Timestamp> {
    let (issued, lived) = (lifetime.issued_at?, lifetime.duration()?);
    let seconds = lived.as_secs_f64() * (2.0 / 3.0 - share.clamp(0.0, 1.0) / 10.0);
    issued.checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_after_at_most_two_thirds_of_its_lifetime() {
        let lifetime = CredentialLifetime {
            issued_at: Some(Timestamp::from_second(1_000).unwrap()),
            expires_at: Some(Timestamp::from_second(4_000).unwrap()),
        };
        let due = |share| renewal_due(lifetime, share).unwrap().as_second();
        assert_eq!((due(0.0), due(1.0)), (3_000, 2_700));
        assert_eq!(renewal_due(CredentialLifetime::default(), 0.5), None);
    }

    #[test]
    fn durations_are_whole_hours_minutes_or_seconds() {
        assert_eq!(token_duration("720h"), Some(Duration::from_secs(720 * 3_600)));
        assert_eq!(token_duration("90m"), Some(Duration::from_secs(5_400)));
        for text in ["", "h", "720", "-1h", "1.5h", "99999999999999999999h", "18446744073709551615h", "1ä"] {
            assert_eq!(token_duration(text), None, "{text}");
        }
    }
}
