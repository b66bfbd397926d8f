//! Turns a cluster of an instance's status into a client, with the kubeconfig of the Secret that the caller may read. Nothing
//! gives more access than the caller has.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use kross_api::ClusterStatus;
use kross_cluster::{
    ApiError, Audit, ClientOptions, ClusterClient, ClusterId, KubeconfigPolicy, RefusalReason,
    accept_connection,
};
use serde_json::Value as Json;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::Hub;

/// How long a remote cluster may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How remote clusters are read with kubeconfigs in Secrets.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// Which kubeconfigs are connected to. The default also trusts the system's root certificates, and runs no commands.
    pub kubeconfigs: KubeconfigPolicy,
    /// Where reads are recorded, and as whose; none for those of a command, which the user runs.
    pub audit: Option<(Audit, String)>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        let kubeconfigs = KubeconfigPolicy { system_roots: true, ..KubeconfigPolicy::default() };
        Self { kubeconfigs, audit: None }
    }
}

/// Why objects in a remote cluster cannot be read, as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// The remote clusters that a command has connected to, by their Secret.
#[derive(Debug)]
pub struct RemoteClusters<'a> {
    hub: &'a Hub,
    clients: Mutex<HashMap<String, Result<ClusterClient, Unreadable>>>,
}

/// The beginning of a kubectl command in the cluster of a Secret. Contains no credential: the shell reads the Secret.
pub fn kubectl_in(secret: &str) -> String {
    let (namespace, name, key) = address(secret);
    let key = key.replace('.', "\\.");
    format!(
        "kubectl --kubeconfig <(kubectl get secret {name} -n {namespace} -o jsonpath='{{.data.{key}}}' | base64 -d)"
    )
}

/// Namespace, name and key of a Secret as statuses show it: `namespace/name` or `namespace/name/key`.
fn address(secret: &str) -> (&str, &str, &str) {
    let mut parts = secret.splitn(3, '/');
    let (namespace, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    (namespace, name, parts.next().unwrap_or(kross_api::KUBECONFIG_KEY))
}

impl<'a> RemoteClusters<'a> {
    /// No connections yet.
    #[must_use]
    pub fn new(hub: &'a Hub) -> Self {
        Self { hub, clients: Mutex::default() }
    }

    /// A client of a cluster.
    ///
    /// # Errors
    /// The caller may not read its Secret, or the Secret has no usable kubeconfig, or the cluster does not answer.
    pub async fn client(&self, cluster: &ClusterStatus) -> Result<ClusterClient, Unreadable> {
        let Some(secret) = &cluster.secret else {
            return Err(Unreadable(format!("cluster `{}` has no Secret", cluster.name)));
        };
        let mut clients = self.clients.lock().await;
        if let Some(known) = clients.get(secret) {
            return known.clone();
        }
        let opened = self.open(secret, &cluster.name).await;
        clients.insert(secret.clone(), opened.clone());
        opened
    }

    async fn open(&self, secret: &str, name: &str) -> Result<ClusterClient, Unreadable> {
        let (namespace, secret_name, key) = address(secret);
        let unusable = |why: String| Unreadable(format!("cannot look into cluster `{name}`: {why}"));
        let kind = self.hub.kind("secrets").map_err(|error| unusable(error.to_string()))?;
        let object = self.hub.get(&kind, Some(namespace), secret_name).await.map_err(|error| {
            unusable(match error.code() {
                Some(403) => format!("you may not read Secret `{secret}`"),
                Some(404) => format!("Secret `{secret}` does not exist"),
                _ => format!("Secret `{secret}`: {}", error.message()),
            })
        })?;
        let read = |field: &str| {
            let field = if field == kross_api::KUBECONFIG_KEY { key } else { field };
            let encoded = object.pointer("/data")?.get(field)?.as_str()?;
            base64::engine::general_purpose::STANDARD.decode(encoded).ok().map(Zeroizing::new)
        };
        let accepted = accept_connection(read, namespace, &self.hub.remotes.kubeconfigs).map_err(
            |refusal| match refusal.reason() {
                // No flag changes that, as there is none: the command would have what the reader of the Secret may not.
                RefusalReason::ExecNotAllowed => unusable(format!(
                    "the kubeconfig in Secret `{secret}` runs a command, and only the controller does that"
                )),
                _ => unusable(format!("Secret `{secret}`: {refusal}")),
            },
        )?;
        let method = accepted.method();
        let prepared = accepted.prepare().await.map_err(|error| unusable(error.to_string()))?;
        let mut options = ClientOptions::for_remotes(env!("CARGO_PKG_VERSION"));
        options.user_agent = format!("kross/{}", env!("CARGO_PKG_VERSION"));
        (options.request_timeout, options.list_timeout, options.read_timeout) = (TIMEOUT, TIMEOUT, TIMEOUT);
        let client = ClusterClient::new(ClusterId::new(name), &prepared.0, prepared.1, options)
            .map_err(|error| unusable(error.to_string()))?;
        Ok(match &self.hub.remotes.audit {
            Some((audit, user)) => {
                client.audited_as(user, audit, &format!("{namespace}/{secret_name}"), method)
            }
            None => client,
        })
    }
}

/// Reads an object in any cluster; none if it does not exist.
///
/// # Errors
/// It may not be read, or the cluster does not answer.
pub async fn read(
    client: &ClusterClient,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Json>, ApiError> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = client.kind(group, Some(version), kind).await?;
    match client.get(&kind, namespace.filter(|_| kind.namespaced), name).await {
        Ok(found) => Ok(serde_json::to_value(found.value()).ok()),
        Err(error) if error.is_object_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_for_another_cluster_reads_the_key_of_its_secret() {
        assert_eq!(
            kubectl_in("team/eu-kubeconfig"),
            "kubectl --kubeconfig <(kubectl get secret eu-kubeconfig -n team -o jsonpath='{.data.kubeconfig}' | base64 -d)"
        );
        assert!(kubectl_in("team/eu/admin.conf").contains("{.data.admin\\.conf}"));
    }
}
