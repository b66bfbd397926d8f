//! Turns the registry's state into one report of each Secret, for those who publish it. It contains no byte of a credential.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kross_api::SecretAddress;

use super::Inner;
use super::connection_state::ConnectionState;
use super::watched_secret::SecretSnapshot;
use crate::kubeconfig::AuthMethod;

/// A cluster that has a handle.
#[derive(Clone, Debug)]
pub struct ClusterReport {
    /// The Secret with its kubeconfig.
    pub secret: SecretAddress,
    /// The state of its connection, as definitions see it.
    pub state: ConnectionState,
    /// How the credential in use authenticates, and when it expires, if it tells; none if there is no usable credential.
    pub credential: Option<(AuthMethod, Option<Timestamp>)>,
}

impl ClusterReport {
    /// Whether the cluster is connected or was.
    #[must_use]
    pub fn was_connected(&self) -> bool {
        match &self.state {
            ConnectionState::Connecting { .. } => false,
            ConnectionState::Connected(_) => true,
            ConnectionState::NotConnected { failure, identity } => {
                identity.is_some() || failure.last_contact.is_some()
            }
        }
    }
}

impl Inner {
    /// One report of each Secret, also where both a target and a reference name it: then of the use that is connected.
    pub(super) fn reports(&self) -> Vec<ClusterReport> {
        let mut reports: BTreeMap<SecretAddress, ClusterReport> = BTreeMap::new();
        for watched in self.secrets() {
            let SecretSnapshot { state, users, entry, lifetime } = watched.snapshot(self);
            // It is about to be released, or no Secret can have this address.
            if users == 0 || watched.cache.is_none() {
                continue;
            }
            let secret = watched.address.clone();
            let known = reports.get(&secret);
            if known.is_some_and(|known| known.state.connected().is_some() || state.connected().is_none()) {
                continue;
            }
            let source = entry.as_ref().map(|entry| &entry.connector.source);
            let credential = source.map(|source| (source.method(), lifetime.expires_at));
            reports.insert(secret.clone(), ClusterReport { secret, state, credential });
        }
        reports.into_values().collect()
    }
}
