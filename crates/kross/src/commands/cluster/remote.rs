//! The cluster that is registered, as the administrator of a kubeconfig context sees it: creates the ServiceAccount and its rules
//! there, and deletes them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kross_api::{annotations, labels, managers};
use kross_cluster::{
    ApiError, ApiKind, Apply, ClientOptions, ClusterClient, Delete, IssuedToken, LocalCluster, ServerDetails,
    ServiceAccountName,
};
use serde_json::{Value as Json, json};

use super::grants::{self, Rules};
use crate::hub::{Hub, text};
use crate::output::Output;

/// How long an API server may take to enforce new rules.
const RBAC_TIMEOUT: Duration = Duration::from_secs(15);

/// The cluster of a context.
#[derive(Debug)]
pub(super) struct RemoteContext {
    pub(super) name: String,
    pub(super) server: ServerDetails,
    client: ClusterClient,
}

/// What was registered there.
pub(super) struct Registered {
    /// Kind, namespace and name of each object, and whether it was created or changed.
    pub(super) objects: Vec<String>,
}

impl RemoteContext {
    /// Connects with the credential of a context of the caller's kubeconfig.
    ///
    /// # Errors
    /// There is no such context, or the cluster does not answer.
    pub(super) async fn connect(source: LocalCluster) -> anyhow::Result<Self> {
        let name = source.context.clone().unwrap_or_default();
        let server = source.server().await.with_context(|| format!("cannot use context `{name}`"))?;
        let options = ClientOptions {
            user_agent: format!("kross/{}", env!("CARGO_PKG_VERSION")),
            ..ClientOptions::default()
        };
        let client = ClusterClient::local(&source, options).await?;
        client.refresh_discovery().await.with_context(|| {
            format!("cannot discover the kinds that the cluster of context `{name}` serves")
        })?;
        Ok(Self { name, server, client })
    }

    /// The UID of the cluster.
    ///
    /// # Errors
    /// It may not be read, or the cluster does not answer.
    pub(super) async fn uid(&self) -> anyhow::Result<String> {
        let namespaces = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
        let found = self.client.get(&namespaces, None, "kube-system").await;
        let found =
            found.with_context(|| format!("cannot identify the cluster of context `{}`", self.name))?;
        Ok(found.uid().to_string())
    }

    /// Creates or updates the ServiceAccount and, where there are rules, its roles and bindings; deletes roles of an earlier
    /// registration that are not desired any more.
    ///
    /// # Errors
    /// The ServiceAccount is not that of this registration, or the cluster refuses.
    pub(super) async fn register(
        &self,
        account: &ServiceAccountName,
        registered_for: &str,
        rules: Option<&Rules>,
    ) -> anyhow::Result<Registered> {
        let mut objects = Vec::new();
        self.check_account(account, registered_for).await?;
        objects.extend(self.ensure_namespace(&account.namespace).await?);
        let mut desired = vec![grants::service_account(account, registered_for)];
        desired.extend(rules.map(|rules| grants::roles(account, rules)).unwrap_or_default());
        let mut kept = BTreeSet::new();
        for object in &desired {
            objects.push(self.apply(object).await?);
            kept.insert(identity(object));
        }
        if rules.is_some() {
            for object in self.registered(account).await? {
                if !kept.contains(&identity(&object)) {
                    self.delete(&object).await?;
                    objects.push(format!("{} deleted", title(&object)));
                }
            }
        }
        Ok(Registered { objects })
    }

    /// Refuses a ServiceAccount that somebody else has created, or that another registration uses.
    async fn check_account(&self, account: &ServiceAccountName, registered_for: &str) -> anyhow::Result<()> {
        let accounts = ApiKind::custom("", "v1", "ServiceAccount", "serviceaccounts", true);
        let found = match self.client.get(&accounts, Some(&account.namespace), &account.name).await {
            Ok(found) => found,
            Err(error) if error.is_object_not_found() => return Ok(()),
            Err(error) => return Err(error).context("cannot read the ServiceAccount"),
        };
        if found.label(labels::REGISTRATION).is_none() {
            bail!(
                "ServiceAccount `{account}` exists in the cluster and was not created by `kross cluster add`; choose another one with `--service-account`"
            );
        }
        match found.annotation(annotations::REGISTERED_FOR) {
            Some(other) if !is_same_registration(other, registered_for) => bail!(
                "ServiceAccount `{account}` in the cluster is used by another registration, `{other}`; choose another one with `--service-account`"
            ),
            _ => Ok(()),
        }
    }

    async fn ensure_namespace(&self, name: &str) -> anyhow::Result<Option<String>> {
        let namespaces = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.client.get(&namespaces, None, name).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_object_not_found() => {
                self.client
                    .create(&namespaces, &object.clone().into(), managers::REGISTRATION)
                    .await
                    .with_context(|| format!("cannot create namespace `{name}` in the cluster"))?;
                Ok(Some(format!("{} created", title(&object))))
            }
            Err(error) => {
                Err(error).with_context(|| format!("cannot read namespace `{name}` in the cluster"))
            }
        }
    }

    /// Applies an object. Returns what happened to it.
    async fn apply(&self, object: &Json) -> anyhow::Result<String> {
        let kind = self.kind_of(object)?;
        let read = self.client.get(&kind, namespace(object), name(object)).await;
        let before = match read {
            Ok(found) => Some(found.resource_version().clone()),
            Err(error) if error.is_object_not_found() => None,
            Err(error) => return Err(error).context("cannot read what is registered in the cluster"),
        };
        let applied =
            self.client.apply(&kind, &object.clone().into(), Apply::by(managers::REGISTRATION).force()).await;
        let applied = applied.map_err(explain_escalation)?;
        let change = match before {
            None => "created",
            Some(version) if version == *applied.resource_version() => "unchanged",
            Some(_) => "configured",
        };
        Ok(format!("{} {change}", title(object)))
    }

    /// The roles and bindings of a registration.
    async fn registered(&self, account: &ServiceAccountName) -> anyhow::Result<Vec<Json>> {
        let selector = selector(account);
        let mut found = Vec::new();
        for kind in ["rolebindings", "clusterrolebindings", "roles", "clusterroles"] {
            let kind = self.find(kind)?;
            let listed = self.client.list(&kind, None, Some(&selector)).await;
            let listed = listed.with_context(|| format!("cannot list {} in the cluster", kind.plural))?;
            found.extend(listed.iter().filter_map(|object| {
                let mut object = serde_json::to_value(object.value()).ok()?;
                // Objects of a list may come without.
                let fields = object.as_object_mut()?;
                fields.insert("apiVersion".to_owned(), json!(kind.api_version()));
                fields.insert("kind".to_owned(), json!(kind.kind.as_str()));
                Some(object)
            }));
        }
        Ok(found)
    }

    /// Deletes the ServiceAccount, which revokes its tokens, with its roles and bindings. Returns what was deleted.
    ///
    /// # Errors
    /// The ServiceAccount is not one of a registration, or the cluster refuses.
    pub(super) async fn unregister(
        &self,
        account: &ServiceAccountName,
        registered_for: &str,
    ) -> anyhow::Result<Vec<String>> {
        self.check_account(account, registered_for).await?;
        let mut deleted = Vec::new();
        let mut objects = vec![grants::service_account(account, registered_for)];
        objects.extend(self.registered(account).await?);
        for object in objects {
            if self.delete(&object).await? {
                deleted.push(format!("{} deleted", title(&object)));
            }
        }
        Ok(deleted)
    }

    async fn delete(&self, object: &Json) -> anyhow::Result<bool> {
        let kind = self.kind_of(object)?;
        match self.client.delete(&kind, namespace(object), name(object), Delete::default()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_object_not_found() => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot delete {}", title(object))),
        }
    }

    /// Requests a token of the ServiceAccount.
    ///
    /// # Errors
    /// The cluster refuses.
    pub(super) async fn token(
        &self,
        account: &ServiceAccountName,
        duration: Duration,
    ) -> anyhow::Result<IssuedToken> {
        Ok(self.client.request_token(account, duration).await?)
    }

    fn kind_of(&self, object: &Json) -> anyhow::Result<Arc<ApiKind>> {
        self.find(&format!("{}s", text(object, "/kind").unwrap_or_default().to_lowercase()))
    }

    fn find(&self, plural: &str) -> anyhow::Result<Arc<ApiKind>> {
        let kinds = self.client.discovery().kinds();
        let known = kinds.iter().find(|kind| {
            *kind.plural == *plural && (kind.group.is_empty() || *kind.group == *"rbac.authorization.k8s.io")
        });
        known.cloned().with_context(|| format!("the cluster does not serve `{plural}`"))
    }
}

/// Waits until a client with a new token may read the UID: an API server takes a moment to enforce new rules.
///
/// # Errors
/// The cluster does not accept the token in time, or another cluster does.
pub(super) async fn until_accepted(client: &ClusterClient, uid: &str) -> anyhow::Result<()> {
    let namespaces = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
    let began = Instant::now();
    loop {
        match client.get(&namespaces, None, "kube-system").await {
            Ok(found) if *found.uid().as_str() == *uid => return Ok(()),
            Ok(_) => bail!("another cluster than that of the context answers with the new token"),
            Err(error) if began.elapsed() > RBAC_TIMEOUT => {
                return Err(error).context("the cluster does not accept the new token");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// The hub and the Secret of a registration. The UID of a hub that may not be read is `-`.
pub(super) async fn registered_for(hub: Option<&Hub>, namespace: &str, name: &str) -> String {
    let mut uid = "-".to_owned();
    if let Some(hub) = hub {
        let namespaces = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
        if let Ok(found) = hub.client.get(&namespaces, None, "kube-system").await {
            uid = found.uid().to_string();
        }
    }
    format!("{uid}/{namespace}/{name}")
}

/// Whether two registrations may be the same: those of a hub that is not known may be any.
fn is_same_registration(one: &str, other: &str) -> bool {
    let split = |text: &str| text.split_once('/').map(|(hub, secret)| (hub.to_owned(), secret.to_owned()));
    match (split(one), split(other)) {
        (Some((hub, secret)), Some((other_hub, other_secret))) => {
            secret == other_secret && (hub == other_hub || hub == "-" || other_hub == "-")
        }
        _ => false,
    }
}

/// The label selector of what a registration has created.
pub(super) fn selector(account: &ServiceAccountName) -> String {
    format!(
        "{}={},{}={}",
        labels::REGISTRATION,
        account.name,
        labels::REGISTRATION_NAMESPACE,
        account.namespace
    )
}

fn explain_escalation(error: ApiError) -> anyhow::Error {
    if error.message().contains("attempting to grant RBAC permissions not currently held") {
        return anyhow::Error::from(error).context(
            "you may only grant what you may do yourself in the cluster: use the context of an administrator",
        );
    }
    error.into()
}

fn namespace(object: &Json) -> Option<&str> {
    text(object, "/metadata/namespace")
}

fn name(object: &Json) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

fn identity(object: &Json) -> (String, Option<String>, String) {
    let kind = text(object, "/kind").unwrap_or_default().to_owned();
    (kind, namespace(object).map(str::to_owned), name(object).to_owned())
}

/// An object as kubectl names it: `serviceaccount/kross-eu -n kro-system`.
fn title(object: &Json) -> String {
    let kind = text(object, "/kind").unwrap_or_default().to_lowercase();
    let namespace = namespace(object).map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("{kind}/{}{namespace}", name(object))
}

/// Prints what happened in the cluster.
pub(super) fn report(context: &str, objects: &[String], output: &mut Output) {
    for object in objects {
        output.note(format_args!("cluster of context `{context}`: {object}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_is_that_of_one_secret_on_one_hub() {
        assert!(is_same_registration("uid/team/eu", "uid/team/eu"));
        assert!(is_same_registration("-/team/eu", "uid/team/eu"));
        for other in ["other/team/eu", "uid/team/us", "uid/shop/eu", ""] {
            assert!(!is_same_registration("uid/team/eu", other), "{other}");
        }
    }
}
