//! Recognises kubeconfigs whose token the hub itself issued. Such a token gives no access to another cluster, and whoever runs
//! that cluster could use it against the hub.

use std::collections::HashSet;
use std::time::Duration;

use kross_api::{ConnectStep, ConnectionAdvice, ConnectionFailure, FailureReason};
use serde::Deserialize;
use tokio::time::timeout;

use super::Inner;
use super::connection_state::{ClusterIdentity, failed};
use crate::client::{ApiRequest, IDENTITY_PATH, IdentityAnswer};
use crate::kubeconfig::Accepted;

/// The keys with which an API server signs tokens; every ServiceAccount may read them.
const KEYS: &str = "/openid/v1/jwks";
const KEYS_TYPE: &str = "application/jwk-set+json";
/// How long a connection attempt waits for the hub's identity, which is needed for a warning only.
const HUB_TIMEOUT: Duration = Duration::from_secs(2);

/// What distinguishes the hub from other clusters. The issuer of a token does not: most clusters use the same one.
#[derive(Debug)]
pub(super) struct HubIdentity {
    /// The ids of the keys with which it signs tokens.
    key_ids: HashSet<String>,
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
    /// Whether the hub issued a kubeconfig's token; false where that is unknown.
    pub(super) async fn is_hub_token(&self, source: &Accepted) -> bool {
        let Some(key) = source.key_id() else { return false };
        self.hub_identity().await.is_some_and(|hub| hub.key_ids.contains(&key))
    }

    /// Whether a cluster is the hub.
    pub(super) async fn is_hub(&self, identity: &ClusterIdentity) -> bool {
        self.hub_identity().await.is_some_and(|hub| hub.uid.as_deref() == Some(identity.uid.as_str()))
    }

    async fn hub_identity(&self) -> Option<&HubIdentity> {
        let found = self.hub_identity.get_or_try_init(|| async {
            let request = ApiRequest { accept: KEYS_TYPE, ..ApiRequest::get(KEYS.to_owned()) };
            let answer = self.hub.exchange(request).await.map_err(drop)?;
            let keys: Keys = serde_json::from_slice(&answer.body).map_err(drop)?;
            let uid = match self.hub.exchange(ApiRequest::get(IDENTITY_PATH.to_owned())).await {
                Ok(answer) => match IdentityAnswer::read(answer.status, &answer.body) {
                    IdentityAnswer::Uid(uid) => Some(uid),
                    _ => None,
                },
                Err(_) => None,
            };
            let key_ids = keys.keys.into_iter().map(|key| key.kid).collect();
            Ok::<_, ()>(HubIdentity { key_ids, uid })
        });
        timeout(HUB_TIMEOUT, found).await.ok()?.ok()
    }
}

/// The failure of a remote cluster that does not accept a token of the hub.
pub(super) fn hub_token_refused() -> ConnectionFailure {
    failed(
        ConnectStep::Authenticate,
        FailureReason::Unauthorized,
        "the cluster does not accept the credentials: the token was issued by the controller's own cluster",
        ConnectionAdvice::ReplaceHubToken,
    )
}

/// The warning about a remote cluster that accepts a token of the hub.
pub(super) const HUB_TOKEN_ACCEPTED: &str = "the kubeconfig sends a token of the controller's own cluster to another cluster, which could use it; put a token of that cluster into the Secret, and revoke this one";
