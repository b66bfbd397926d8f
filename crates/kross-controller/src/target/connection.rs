//! Connect: holds a handle to the cluster of each target's connection Secret, so that it is connected as long as the target exists.

use std::collections::{HashMap, HashSet};

use kross_api::SecretAddress;
use kross_cluster::{ClusterHandle, Connection, ConnectionState, SecretName};
use kross_plan::workload::TargetConnection;
use kross_value::Text;
use parking_lot::Mutex;

use super::object::Target;
use crate::context::Context;
use crate::key::{Key, WorkloadKey};

/// The handles of targets. The locks are leaves; handles are taken and dropped outside of them.
#[derive(Default)]
pub(crate) struct Targets {
    handles: Mutex<HashMap<WorkloadKey, ClusterHandle>>,
    /// UIDs of the targets whose deletion in spite of users is in the audit log.
    forced: Mutex<HashSet<Text>>,
}

impl Targets {
    /// The targets whose connection Secret this is.
    pub(crate) fn using(&self, secret: &SecretAddress) -> Vec<WorkloadKey> {
        let handles = self.handles.lock();
        let using = handles.iter().filter(|(_, handle)| handle.secret() == secret);
        using.map(|(target, _)| target.clone()).collect()
    }

    /// The connection Secret of a target.
    pub(crate) fn secret(&self, target: &WorkloadKey) -> Option<SecretName> {
        self.handles.lock().get(target).map(|handle| SecretName::from(handle.secret()))
    }

    /// Whether the deletion of a target in spite of its users is not in the audit log yet.
    pub(super) fn is_first_forced(&self, uid: &Text) -> bool {
        self.forced.lock().insert(uid.clone())
    }

    /// The target was released.
    pub(super) fn forget_forced(&self, uid: &Text) {
        self.forced.lock().remove(uid);
    }

    /// The target was deleted.
    pub(super) fn forget(&self, context: &Context, key: &WorkloadKey) {
        let dropped = self.handles.lock().remove(key);
        release(context, dropped);
    }

    /// The state of a target's connection. The cluster is connected from now on, and the target requeued when that changes.
    pub(super) fn connect(&self, context: &Context, key: &WorkloadKey, target: &Target) -> TargetConnection {
        let Some(secret) = &target.spec.connection_secret_ref else {
            self.forget(context, key);
            return TargetConnection::NoSecret;
        };
        let secret = SecretName { namespace: key.namespace.clone(), name: secret.name.as_str().into() };
        match self.handle(context, key, &secret).state(Some(&*key.namespace)) {
            ConnectionState::Connecting { .. } => TargetConnection::Connecting,
            ConnectionState::Connected(connection) => connected(&connection),
            ConnectionState::NotConnected { failure, .. } => TargetConnection::NotConnected {
                reason: failure.condition_reason(),
                message: failure.message(&key.name),
            },
        }
    }

    fn handle(&self, context: &Context, key: &WorkloadKey, secret: &SecretName) -> ClusterHandle {
        let known = self.handles.lock().get(key).cloned();
        if let Some(known) = known.filter(|known| SecretName::from(known.secret()) == *secret) {
            return known;
        }
        let handle = context.clusters.hold_connection(secret);
        let before = self.handles.lock().insert(key.clone(), handle.clone());
        release(context, before);
        handle
    }
}

/// Drops a handle. A Secret that was protected for the sake of the target may not need it any more.
fn release(context: &Context, handle: Option<ClusterHandle>) {
    if let Some(handle) = handle {
        context.definition_queue.add(&Key::Secret(SecretName::from(handle.secret())));
    }
}

fn connected(connection: &Connection) -> TargetConnection {
    TargetConnection::Connected {
        uid: connection.identity.uid.to_string(),
        verified: connection.identity.verified,
        version: connection.version.as_ref().map(ToString::to_string),
        round_trip: connection.round_trip,
        warnings: connection.warnings.iter().map(ToString::to_string).collect(),
        deletions_only: connection.deletions_only.is_some(),
    }
}
