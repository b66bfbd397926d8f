//! The protection of kubeconfig Secrets: a finalizer on those with the label `kro.run/protect: "true"`, so that a Secret outlives
//! the objects in its cluster. Nothing here reads what a Secret contains.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{Authority, PROTECTION_FINALIZER, annotations, labels, managers};
use kross_value::{Object, Value};

use super::secret_content::SecretUse;
use super::{ClusterHandle, ClusterRegistry, Inner};
use crate::cache::Lookup;
use crate::error::ApiError;
use crate::events::Regarding;
use crate::object::StoredObject;
use crate::secrets::{SecretConsumer, SecretName, SecretPolicy, is_allowed, is_offered};

/// The metadata of a kubeconfig Secret.
#[derive(Clone)]
pub struct KubeconfigSecret {
    object: Arc<StoredObject>,
    policy: SecretPolicy,
}

impl KubeconfigSecret {
    /// Whether its label asks for protection.
    #[must_use]
    pub fn is_protection_requested(&self) -> bool {
        is_requested(&self.object)
    }

    /// Whether it has our finalizer.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        has_finalizer(&self.object)
    }

    /// Whether it has our finalizer, and the label by which another process finds it.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.has_finalizer() && is_marked(&self.object)
    }

    /// Whether it has our finalizer, or the label by which another process finds it.
    #[must_use]
    pub fn has_marks(&self) -> bool {
        self.has_finalizer() || is_marked(&self.object)
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.object.deletion_timestamp().is_some()
    }

    /// The Secret as the subject of an Event.
    #[must_use]
    pub fn regarding(&self) -> Regarding {
        Regarding::from(&*self.object)
    }

    /// Whether an instance in this namespace, or in none, may use it by this authority.
    #[must_use]
    pub fn is_offered_to(&self, namespace: Option<&str>, authority: Authority) -> bool {
        let (object, consumer) = (&self.object, SecretConsumer::Instance(namespace, authority));
        is_offered(object.name(), object.label(labels::CLUSTER_CREDENTIALS))
            && is_allowed(object.annotation(annotations::ALLOWED_NAMESPACES), consumer, &self.policy)
    }
}

impl fmt::Debug for KubeconfigSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.object.namespace().map(|namespace| &**namespace).unwrap_or_default();
        write!(f, "KubeconfigSecret({namespace}/{})", self.object.name())
    }
}

impl ClusterHandle {
    /// Whether the Secret is to get our finalizer: its label asks for it, and it has none. From memory.
    #[must_use]
    pub fn needs_protection(&self) -> bool {
        // The controller of targets protects their copies.
        if self.secret.secret_use == SecretUse::Connection {
            return false;
        }
        let found = self.secret.cache.as_ref().map(|cache| {
            let address = &self.secret.address;
            cache.get(Some(&address.namespace), &address.name)
        });
        matches!(found, Some(Lookup::Found(object)) if is_requested(&object)
            && !has_finalizer(&object)
            && object.deletion_timestamp().is_none())
    }
}

impl ClusterRegistry {
    /// A Secret, from memory where somebody watches it; none if it does not exist. One that nobody watches is read if `read` is
    /// set, and is none otherwise.
    ///
    /// # Errors
    /// The hub refuses or does not answer.
    pub async fn secret(
        &self,
        secret: &SecretName,
        read: bool,
    ) -> Result<Option<KubeconfigSecret>, ApiError> {
        match self.inner.watched(secret) {
            Lookup::Found(object) => return Ok(Some(self.inner.metadata(object))),
            Lookup::Absent => return Ok(None),
            Lookup::Unknown if !read => return Ok(None),
            Lookup::Unknown => {}
        }
        let Inner { hub, secret_kind, .. } = &*self.inner;
        match hub.get(secret_kind, Some(&secret.namespace), &secret.name).await {
            Ok(object) => Ok(Some(self.inner.metadata(Arc::new(object)))),
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The Secrets that have our finalizer, whichever process has added it.
    ///
    /// # Errors
    /// The hub refuses or does not answer.
    pub async fn protected_secrets(&self) -> Result<Vec<SecretName>, ApiError> {
        let Inner { hub, secret_kind, .. } = &*self.inner;
        let selector = format!("{}={}", labels::PROTECTED, labels::PROTECT_TRUE);
        let found = hub.list_with_outlines(secret_kind, None, Some(&selector)).await?;
        let name = |object: &StoredObject| {
            Some(SecretName { namespace: object.namespace()?.clone(), name: object.name().clone() })
        };
        Ok(found.iter().filter_map(name).collect())
    }

    /// Adds our finalizer to exactly this version of a Secret, or removes it.
    ///
    /// # Errors
    /// The hub refuses or does not answer, or the Secret was changed meanwhile.
    pub async fn set_protection(&self, secret: &KubeconfigSecret, protect: bool) -> Result<(), ApiError> {
        let Inner { hub, secret_kind, .. } = &*self.inner;
        let object = &secret.object;
        let namespace = object.namespace().map(|namespace| &**namespace);
        let patch = patch(object, protect);
        let written =
            hub.merge_patch(secret_kind, namespace, object.name(), None, managers::LABELLER, &patch).await;
        match written {
            Ok(written) => {
                // Removing the last finalizer of a Secret that is being deleted deletes it: only the watch tells.
                if written.deletion_timestamp().is_none() {
                    self.inner.observe_secret(&written);
                }
                Ok(())
            }
            Err(error) if error.is_object_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Inner {
    /// A Secret in the caches of those that are watched.
    fn watched(&self, secret: &SecretName) -> Lookup {
        let watched = {
            let secrets = self.secrets.lock();
            secrets.values().find(|watched| is_same(secret, &watched.address)).cloned()
        };
        let cache = watched.as_ref().and_then(|watched| watched.cache.as_ref());
        cache.map_or(Lookup::Unknown, |cache| cache.get(Some(&secret.namespace), &secret.name))
    }

    fn metadata(&self, object: Arc<StoredObject>) -> KubeconfigSecret {
        KubeconfigSecret { object, policy: self.options.secrets }
    }

    /// Stores a Secret that we wrote in its caches.
    pub(super) fn observe_secret(&self, written: &StoredObject) {
        for watched in self.secrets() {
            if let Some(cache) = &watched.cache
                && watched.address.name == **written.name()
                && written.namespace().is_some_and(|namespace| watched.address.namespace == **namespace)
            {
                cache.observe(written);
            }
        }
    }
}

fn is_same(secret: &SecretName, address: &kross_api::SecretAddress) -> bool {
    *secret.name == *address.name && *secret.namespace == *address.namespace
}

fn is_requested(secret: &StoredObject) -> bool {
    secret.label(labels::PROTECT) == Some(labels::PROTECT_TRUE)
}

fn is_marked(secret: &StoredObject) -> bool {
    secret.label(labels::PROTECTED).is_some()
}

fn finalizers(secret: &StoredObject) -> &[Value] {
    secret.value().at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default()
}

fn has_finalizer(secret: &StoredObject) -> bool {
    finalizers(secret).iter().any(|name| name.as_str() == Some(PROTECTION_FINALIZER))
}

/// Whether a Secret is being deleted and waits for the instances that use it. A connection Secret always does: some finalizer
/// keeps it, and nothing new may begin with it.
fn serves_deletions_only(secret: &StoredObject, secret_use: SecretUse) -> bool {
    let waits = secret_use == SecretUse::Connection || is_requested(secret) || has_finalizer(secret);
    secret.deletion_timestamp().is_some() && waits
}

/// Since when a Secret is being deleted and waits for the instances that use it, if so.
pub(super) fn deletions_only_since(secret: &StoredObject, secret_use: SecretUse) -> Option<Timestamp> {
    let since = secret.deletion_timestamp().filter(|_| serves_deletions_only(secret, secret_use))?;
    Some(since.parse().unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Whether two versions of a Secret with the same kubeconfig differ in something that its users have to know.
pub(super) fn concerns_users(before: &StoredObject, after: &StoredObject, secret_use: SecretUse) -> bool {
    let facts = |secret: &StoredObject| {
        let offer = secret.label(labels::CLUSTER_CREDENTIALS).map(str::to_owned);
        let allowed = secret.annotation(annotations::ALLOWED_NAMESPACES).map(str::to_owned);
        (offer, allowed, serves_deletions_only(secret, secret_use), secret.uid().clone())
    };
    facts(before) != facts(after)
}

/// Whether a Secret is protected, or asks for it.
pub(super) fn concerns(secret: &StoredObject) -> bool {
    is_requested(secret) || has_finalizer(secret) || is_marked(secret)
}

/// Whether two versions of a Secret differ in what its protection depends on.
pub(super) fn differs(before: &StoredObject, after: &StoredObject, secret_use: SecretUse) -> bool {
    let facts = |secret: &StoredObject| {
        let terminating = secret.deletion_timestamp().is_some();
        (is_requested(secret), has_finalizer(secret), is_marked(secret), terminating)
    };
    facts(before) != facts(after) || concerns_users(before, after, secret_use)
}

/// A merge patch that adds our finalizer to exactly this version of a Secret, or removes it.
fn patch(secret: &StoredObject, protect: bool) -> Value {
    let others = finalizers(secret).iter().filter(|name| name.as_str() != Some(PROTECTION_FINALIZER));
    let ours = protect.then(|| Value::from(PROTECTION_FINALIZER));
    let mark = if protect { Value::from(labels::PROTECT_TRUE) } else { Value::Null };
    let mut metadata = Object::new();
    metadata.insert("resourceVersion", secret.resource_version().clone().into());
    metadata.insert("finalizers", Value::list(others.cloned().chain(ours)));
    metadata.insert("labels", Value::object([(labels::PROTECTED, mark)]));
    Value::object([("metadata", metadata.into())])
}
