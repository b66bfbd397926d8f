//! Reads the Secret of a registered cluster on the hub: where it is, and what its annotations say of the cluster.

use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use kross_api::{KUBECONFIG_KEY, annotations};
use kross_cluster::{Accepted, ServiceAccountName, accept, token_duration};
use serde_json::Value as Json;
use zeroize::Zeroizing;

use super::credential;
use crate::hub::{Hub, InstanceView, text};

/// The Secret of a registered cluster. Its `Debug` output shows no credential.
pub(super) struct Registration {
    pub(super) namespace: String,
    pub(super) name: String,
    object: Json,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registration({}/{})", self.namespace, self.name)
    }
}

/// Namespace and name of a cluster from the command line: `NAME`, in the namespace of the command, or `NAMESPACE/NAME`.
pub(super) fn address<'a>(hub: &'a Hub, typed: &'a str) -> anyhow::Result<(&'a str, &'a str)> {
    let (namespace, name) = typed.split_once('/').unwrap_or((hub.namespace.as_str(), typed));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        bail!("`{typed}` does not name a cluster: use `NAME` or `NAMESPACE/NAME`, those of its Secret");
    }
    Ok((namespace, name))
}

impl Registration {
    /// Reads the Secret. None if it does not exist.
    ///
    /// # Errors
    /// It may not be read, or the hub does not answer.
    pub(super) async fn find(hub: &Hub, namespace: &str, name: &str) -> anyhow::Result<Option<Self>> {
        let kind = hub.kind("secrets")?;
        match hub.get(&kind, Some(namespace), name).await {
            Ok(object) => Ok(Some(Self { namespace: namespace.to_owned(), name: name.to_owned(), object })),
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(error) if error.code() == Some(403) => {
                bail!("you may not read Secret `{namespace}/{name}` on the hub")
            }
            Err(error) => Err(error).with_context(|| format!("cannot read Secret `{namespace}/{name}`")),
        }
    }

    /// A Secret of a list.
    pub(super) fn of(object: Json) -> Self {
        let field = |path: &str| text(&object, path).unwrap_or_default().to_owned();
        Self { namespace: field("/metadata/namespace"), name: field("/metadata/name"), object }
    }

    /// As [`Registration::find`], by what was typed.
    ///
    /// # Errors
    /// It does not exist or may not be read, or the hub does not answer.
    pub(super) async fn read(hub: &Hub, typed: &str) -> anyhow::Result<Self> {
        let (namespace, name) = address(hub, typed)?;
        match Self::find(hub, namespace, name).await? {
            Some(found) => Ok(found),
            None => bail!(
                "cluster `{name}` is not registered in namespace `{namespace}`: there is no such Secret; see `kross get clusters -A`"
            ),
        }
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        InstanceView(&self.object).annotation(key)
    }

    /// A label of the Secret.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.object.pointer("/metadata/labels")?.get(key)?.as_str()
    }

    /// `namespace/name` of the Secret.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The UID of the Secret.
    pub(super) fn uid(&self) -> Option<&str> {
        text(&self.object, "/metadata/uid")
    }

    /// The version of the Secret.
    pub(super) fn resource_version(&self) -> Option<&str> {
        text(&self.object, "/metadata/resourceVersion")
    }

    /// The ServiceAccount in the cluster whose token the Secret has. None if a person stored the kubeconfig.
    pub(super) fn service_account(&self) -> Option<ServiceAccountName> {
        ServiceAccountName::parse(self.annotation(annotations::TOKEN_SERVICE_ACCOUNT)?)
    }

    /// The UID of the cluster that it was registered for.
    pub(super) fn cluster_uid(&self) -> Option<&str> {
        self.annotation(annotations::CLUSTER_UID)
    }

    /// The namespaces whose instances may use it.
    pub(super) fn allowed_namespaces(&self) -> Option<&str> {
        self.annotation(annotations::ALLOWED_NAMESPACES)
    }

    /// How long its next token is to live.
    pub(super) fn token_duration(&self) -> Option<Duration> {
        token_duration(self.annotation(annotations::TOKEN_DURATION)?)
    }

    /// When it was created.
    pub(super) fn created(&self) -> Option<&str> {
        text(&self.object, "/metadata/creationTimestamp")
    }

    /// Its kubeconfig. None if it has none.
    pub(super) fn kubeconfig(&self) -> Option<Zeroizing<Vec<u8>>> {
        let encoded = self.object.pointer("/data")?.get(KUBECONFIG_KEY)?.as_str()?;
        base64::engine::general_purpose::STANDARD.decode(encoded).ok().map(Zeroizing::new)
    }

    /// Its kubeconfig, as the controller accepts it.
    ///
    /// # Errors
    /// There is none, or the controller would refuse it.
    pub(super) fn accepted(&self) -> anyhow::Result<Accepted> {
        let kubeconfig =
            self.kubeconfig().with_context(|| format!("the Secret has no key `{KUBECONFIG_KEY}`"))?;
        Ok(accept(&kubeconfig, &self.namespace, &credential::policy())?)
    }
}
