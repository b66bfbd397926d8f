//! Tells whether the token in a kubeconfig is one of the hub's own. Shown to another cluster, it does nothing there and could
//! be used here by whoever runs that one.

use std::collections::HashSet;
use std::time::Duration;

use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason};
use serde::Deserialize;
use tokio::time::timeout;

use super::Inner;
use super::connection_state::{ClusterIdentity, failed};
use super::reach::{Answer, identify};
use crate::client::ApiRequest;
use crate::kubeconfig::Accepted;

/// Open to every ServiceAccount.
const KEYS: &str = "/openid/v1/jwks";
const KEYS_TYPE: &str = "application/jwk-set+json";
/// Nobody's connection waits longer than this for a warning.
const PATIENCE: Duration = Duration::from_secs(2);

/// What tells the hub from other clusters. Issuers do not: most clusters call themselves the same.
#[derive(Debug)]
pub(super) struct Own {
    /// Ids of the keys that it signs tokens with.
    keys: HashSet<String>,
    uid: Option<String>,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    kid: String,
}

impl Inner {
    /// Whether a kubeconfig has a token that the hub issued; no where that cannot be told.
    pub(super) async fn issued(&self, source: &Accepted) -> bool {
        let Some(key) = source.key_id() else { return false };
        self.own().await.is_some_and(|own| own.keys.contains(&key))
    }

    /// Whether this is the hub.
    pub(super) async fn is_hub(&self, identity: &ClusterIdentity) -> bool {
        self.own().await.is_some_and(|own| own.uid.as_deref() == Some(identity.uid.as_str()))
    }

    async fn own(&self) -> Option<&Own> {
        let found = self.own.get_or_try_init(|| async {
            let request = ApiRequest { accept: KEYS_TYPE, ..ApiRequest::get(KEYS.to_owned()) };
            let answer = self.hub.exchange(request).await.map_err(drop)?;
            let keys: Keys = serde_json::from_slice(&answer.body).map_err(drop)?;
            let uid = match identify(&self.hub, PATIENCE).await {
                Ok(Answer::Uid(uid)) => Some(uid),
                _ => None,
            };
            Ok::<_, ()>(Own { keys: keys.keys.into_iter().map(|key| key.kid).collect(), uid })
        });
        timeout(PATIENCE, found).await.ok()?.ok()
    }
}

/// What is said when another cluster does not take a token of the hub's.
pub(super) fn refused() -> ConnectionFailure {
    failed(
        ConnectStep::Authenticate,
        FailureReason::Unauthorized,
        "the cluster does not accept the credentials: the token was issued by the controller's own cluster",
        ConnectionAdvice::ReplaceHubToken,
    )
}

/// What is said when another cluster takes it.
pub(super) const EXPOSED: &str = "the token was issued by the controller's own cluster and is shown to another one, which could use it; put a token of that cluster into the Secret, and revoke this one";
