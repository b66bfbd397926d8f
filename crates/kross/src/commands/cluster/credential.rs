//! Turns the server of a cluster and a token into the kubeconfig and the Secret of its registration, and into a client.

use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kross_api::{KUBECONFIG_KEY, annotations, labels};
use kross_cluster::{
    ClientOptions, ClusterClient, ClusterId, IssuedToken, KubeconfigPolicy, ServerDetails,
    ServiceAccountName, accept,
};
use serde_json::{Value as Json, json};
use zeroize::Zeroizing;

/// How long a remote cluster may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What kubeconfigs may have when a person looks at them: as much as a controller may be told to accept.
pub(super) fn policy() -> KubeconfigPolicy {
    KubeconfigPolicy { system_roots: true, ..KubeconfigPolicy::default() }
}

/// A kubeconfig with a token.
pub(super) fn kubeconfig(name: &str, server: &ServerDetails, token: &IssuedToken) -> Zeroizing<String> {
    let mut cluster = json!({"server": server.address});
    if let Some(cluster) = cluster.as_object_mut() {
        if let Some(authority) = &server.authority {
            cluster.insert("certificate-authority-data".to_owned(), json!(STANDARD.encode(authority)));
        }
        if let Some(name) = &server.server_name {
            cluster.insert("tls-server-name".to_owned(), json!(name));
        }
    }
    Zeroizing::new(kross_api::to_yaml(&json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": {"token": token.token.as_str()}}],
    })))
}

/// A client with the kubeconfig of a registration, as the controller has one.
///
/// # Errors
/// The controller would refuse the kubeconfig.
pub(super) async fn client(name: &str, namespace: &str, kubeconfig: &[u8]) -> anyhow::Result<ClusterClient> {
    let accepted =
        accept(kubeconfig, namespace, &policy()).context("the controller would refuse the kubeconfig")?;
    let (endpoint, credential) = accepted.prepare().await?;
    let mut options = ClientOptions::for_remotes(env!("CARGO_PKG_VERSION"));
    options.user_agent = format!("kross/{}", env!("CARGO_PKG_VERSION"));
    (options.request_timeout, options.list_timeout, options.read_timeout) = (TIMEOUT, TIMEOUT, TIMEOUT);
    Ok(ClusterClient::new(ClusterId::new(name), &endpoint, credential, options)?)
}

/// What a registration writes into its Secret.
pub(super) struct SecretFields<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) account: &'a ServiceAccountName,
    pub(super) uid: &'a str,
    pub(super) duration: Duration,
    pub(super) allowed_namespaces: Option<&'a str>,
}

impl SecretFields<'_> {
    /// The Secret.
    pub(super) fn secret(&self, kubeconfig: &str, token: &IssuedToken) -> Json {
        let expires = token.lifetime.expires_at.map(|at| at.to_string()).unwrap_or_default();
        let mut annotated = json!({
            annotations::TOKEN_SERVICE_ACCOUNT: self.account.to_string(),
            annotations::TOKEN_DURATION: format!("{}s", self.duration.as_secs()),
            annotations::TOKEN_EXPIRES_AT: expires,
            annotations::CLUSTER_UID: self.uid,
        });
        if let (Some(allowed), Some(annotated)) = (self.allowed_namespaces, annotated.as_object_mut()) {
            annotated.insert(annotations::ALLOWED_NAMESPACES.to_owned(), json!(allowed));
        }
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": self.name, "namespace": self.namespace,
                "labels": {labels::CLUSTER_CREDENTIALS: labels::CLUSTER_CREDENTIALS_TRUE},
                "annotations": annotated},
            "data": {KUBECONFIG_KEY: STANDARD.encode(kubeconfig)}})
    }
}
