//! The `ClusterConnection` wire type: what the controller knows of one remote cluster, so that people and programs read it with
//! their own rights. It has no byte of a credential, and no address of a server that is not the cluster's only identity.

use std::fmt::Write;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::identity::is_object_name;
use crate::openapi::immutable;
use crate::vocabulary::{ClusterState, FailureReason, SyncMode};
use crate::{KUBECONFIG_KEY, List, SecretAddress};

/// How the last label of a name begins that has a hash.
const HASHED: &str = "key-";
/// Bytes of the hash in a name.
const HASH_BYTES: usize = 10;
/// The longest name of an object.
const MAX_NAME: usize = 253;

/// The reference to the cluster. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kro.run",
    version = "v1alpha1",
    kind = "ClusterConnection",
    plural = "clusterconnections",
    status = "ClusterConnectionStatus",
    doc = "The connection of the controller to a remote cluster. The controller writes it; nobody else needs to.",
    derive = "PartialEq",
    schema = "disabled",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "STATE", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "REASON", "type": "string", "jsonPath": ".status.reason"}"#,
    printcolumn = r#"{"name": "SINCE", "type": "date", "jsonPath": ".status.since"}"#,
    printcolumn = r#"{"name": "VERSION", "type": "string", "jsonPath": ".status.version"}"#,
    printcolumn = r#"{"name": "INSTANCES", "type": "integer", "jsonPath": ".status.instances"}"#,
    printcolumn = r#"{"name": "MODE", "type": "string", "jsonPath": ".status.mode", "priority": 1}"#,
    printcolumn = r#"{"name": "ROUND-TRIP", "type": "string", "jsonPath": ".status.roundTripTime", "priority": 1}"#,
    printcolumn = r#"{"name": "EXPIRES", "type": "string", "jsonPath": ".status.credential.expires", "priority": 1}"#,
    printcolumn = r#"{"name": "UID", "type": "string", "jsonPath": ".status.uid", "priority": 1}"#,
    printcolumn = r#"{"name": "MESSAGE", "type": "string", "jsonPath": ".status.message", "priority": 1}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = immutable("spec")))]
pub struct ClusterConnectionSpec {
    /// The Secret with the kubeconfig of the cluster.
    pub secret_ref: ConnectionSecretReference,
}

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionSecretReference {
    /// Namespace of the Secret.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// What the controller knows of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterConnectionStatus {
    /// `Connecting`, `Connected` or `NotConnected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub state: Option<ClusterState>,
    /// The step of connecting that failed: `Secret`, `Key`, `Parse`, `Reach`, `Authenticate` or `Identify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reason: Option<FailureReason>,
    /// Why the cluster is not connected, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When `state` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When the cluster last responded, if it is not connected. A connected cluster responds every few seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_contact: Option<String>,
    /// Duration of a request to the cluster. It is updated only when it doubles or halves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_time: Option<String>,
    /// Kubernetes version of the cluster, as of the last connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// UID of the cluster's `kube-system` namespace, or the server URL if that namespace cannot be read; as of the last connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Whether `uid` is only the server URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<bool>,
    /// `Watch` or `Poll`; not set while there are no objects in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub mode: Option<SyncMode>,
    /// The credential in the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<ConnectionCredential>,
    /// Number of instances that use the cluster through this Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<i64>,
    /// Number of objects of instances in the cluster, as of the last connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,
    /// Number of open watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watches: Option<i64>,
    /// Warnings about the Secret and the cluster, which are used nevertheless.
    #[serde(default, skip_serializing_if = "List::is_absent")]
    pub warnings: List<String>,
}

/// What may be shown of a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionCredential {
    /// `token`, `client-certificate`, `basic` or `exec`.
    pub method: String,
    /// When it expires, if it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

impl From<&SecretAddress> for ConnectionSecretReference {
    fn from(address: &SecretAddress) -> Self {
        let SecretAddress { namespace, name, key } = address.clone();
        Self { namespace, name, key }
    }
}

impl From<&ConnectionSecretReference> for SecretAddress {
    fn from(reference: &ConnectionSecretReference) -> Self {
        let ConnectionSecretReference { namespace, name, key } = reference.clone();
        Self { namespace, name, key }
    }
}

/// The name of the ClusterConnection of a Secret: `namespace.name`. A namespace has no dot, so no other Secret has this name. With
/// another key than `kubeconfig`, or where the name would be too long, it ends with a hash of the address, and such an ending is
/// never a part of a name without a hash.
#[must_use]
pub fn cluster_connection_name(secret: &SecretAddress) -> String {
    let SecretAddress { namespace, name, key } = secret;
    let plain = format!("{namespace}.{name}");
    let looks_hashed = name.rsplit('.').next().is_some_and(|label| label.starts_with(HASHED));
    if key == KUBECONFIG_KEY && plain.len() <= MAX_NAME && !looks_hashed && is_object_name(&plain) {
        return plain;
    }
    let digest = Sha256::new()
        .chain_update(namespace)
        .chain_update([0])
        .chain_update(name)
        .chain_update([0])
        .chain_update(key)
        .finalize();
    let mut hash = format!(".{HASHED}");
    for byte in digest.iter().take(HASH_BYTES) {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    let readable: String = plain.chars().take(MAX_NAME.saturating_sub(hash.len())).collect();
    format!("{}{hash}", readable.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn name(namespace: &str, name: &str, key: &str) -> String {
        let (namespace, name, key) = (namespace.to_owned(), name.to_owned(), key.to_owned());
        cluster_connection_name(&SecretAddress { namespace, name, key })
    }

    #[test]
    fn the_name_is_that_of_the_secret_where_that_is_unambiguous() {
        assert_eq!(name("shop", "eu-kubeconfig", "kubeconfig"), "shop.eu-kubeconfig");
        assert_eq!(name("shop", "eu.prod", "kubeconfig"), "shop.eu.prod");
        let other = name("shop", "eu-kubeconfig", "admin.conf");
        assert!(other.starts_with("shop.eu-kubeconfig.key-"), "{other}");
    }

    #[test]
    fn every_name_is_valid_and_no_two_secrets_have_the_same() {
        let long = "a".repeat(253);
        let hashed = name("shop", "eu", "other");
        let copied = hashed.strip_prefix("shop.").unwrap().to_owned();
        let cut = format!("{}-{}", "a".repeat(221), "b".repeat(31));
        let secrets = [
            ("shop", "eu", "kubeconfig"),
            ("shop", "eu", "other"),
            ("shop", "eu", "Other_Key"),
            // A Secret that is named like the object of another one.
            ("shop", copied.as_str(), "kubeconfig"),
            ("shop", "eu.key-", "kubeconfig"),
            ("shop", "eu.key-a", "kubeconfig"),
            ("shop", long.as_str(), "kubeconfig"),
            ("shop", long.as_str(), "other"),
            ("shop", cut.as_str(), "other"),
            ("shop-eu", "prod", "kubeconfig"),
            ("shop", "eu-prod", "kubeconfig"),
            ("shop", "eu.prod", "kubeconfig"),
        ];
        let names: BTreeSet<_> =
            secrets.iter().map(|(namespace, secret, key)| name(namespace, secret, key)).collect();
        assert_eq!(names.len(), secrets.len(), "{names:?}");
        for name in &names {
            assert!(is_object_name(name), "{name}");
        }
    }
}
