//! Which instances have inventories that name a Secret: it is protected as long as there is one. The events of the instances'
//! caches and our own writes keep it current, so that neither an idle instance nor a pass costs anything.

use std::collections::{BTreeSet, HashMap, HashSet};

use kross_api::{ClusterInventory, ResolvedCredentials, SecretAddress, annotations};
use kross_cluster::{CacheKey, ObjectKey, SecretName, StoredObject};
use kross_plan::ReferenceKey;
use kross_value::Value;
use parking_lot::Mutex;

use crate::finalizer;

/// The instances by the Secrets that their inventories name. The lock is a leaf.
#[derive(Debug, Default)]
pub(crate) struct SecretUsers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    users: HashMap<SecretName, HashSet<ObjectKey>>,
    secrets: HashMap<ObjectKey, BTreeSet<SecretName>>,
    /// The caches of instances whose every object was indexed.
    indexed: HashSet<CacheKey>,
}

impl SecretUsers {
    /// Indexes an instance as it is now. Returns the Secrets that got their first user or lost their last one.
    pub(crate) fn observe(&self, key: &ObjectKey, instance: &StoredObject) -> Vec<SecretName> {
        match named_by(instance) {
            Some(named) => self.set(key, &named),
            // What cannot be read does not tell that a Secret is not needed any more.
            None => Vec::new(),
        }
    }

    /// Removes an instance. Returns the Secrets that lost their last user.
    pub(crate) fn forget(&self, key: &ObjectKey) -> Vec<SecretName> {
        self.set(key, &BTreeSet::new())
    }

    fn set(&self, key: &ObjectKey, named: &BTreeSet<SecretName>) -> Vec<SecretName> {
        let State { users, secrets, .. } = &mut *self.state.lock();
        let before = if named.is_empty() {
            secrets.remove(key).unwrap_or_default()
        } else {
            secrets.insert(key.clone(), named.clone()).unwrap_or_default()
        };
        let mut changed = Vec::new();
        for added in named.difference(&before) {
            let instances = users.entry(added.clone()).or_default();
            if instances.is_empty() {
                changed.push(added.clone());
            }
            instances.insert(key.clone());
        }
        for removed in before.difference(named) {
            let Some(instances) = users.get_mut(removed) else { continue };
            instances.remove(key);
            if instances.is_empty() {
                users.remove(removed);
                changed.push(removed.clone());
            }
        }
        changed
    }

    /// Whether an instance is indexed.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.state.lock().secrets.contains_key(key)
    }

    /// Whether one of the instances whose inventory names a Secret fulfils a condition, which must not lock anything.
    pub(crate) fn any(&self, secret: &SecretName, condition: impl FnMut(&ObjectKey) -> bool) -> bool {
        self.state.lock().users.get(secret).is_some_and(|users| users.iter().any(condition))
    }

    /// Whether every instance in a cache was indexed.
    pub(crate) fn is_indexed(&self, cache: &CacheKey) -> bool {
        self.state.lock().indexed.contains(cache)
    }

    /// Every instance in a cache was indexed. Its events index all that come later.
    pub(crate) fn set_indexed(&self, cache: &CacheKey) {
        self.state.lock().indexed.insert(cache.clone());
    }
}

/// The Secrets that the inventory of an instance names.
pub(crate) fn secrets_of(instance: &StoredObject) -> BTreeSet<SecretName> {
    named_by(instance).unwrap_or_default()
}

/// The Secrets that the inventory of an instance names; none where it cannot be read. Whether it is valid does not matter.
fn named_by(instance: &StoredObject) -> Option<BTreeSet<SecretName>> {
    // Without the finalizer nothing is cleaned up any more.
    if !finalizer::is_set(instance) {
        return Some(BTreeSet::new());
    }
    let Some(text) = instance.annotation(annotations::CLUSTER_INVENTORY) else {
        // Somebody removed it, or there never was one. It is restored from the status.
        let clusters = instance.value().at(&["status", "clusters"]).and_then(Value::as_list);
        let connected = clusters.unwrap_or_default().iter().filter(|cluster| cluster.get("uid").is_some());
        let secrets = connected.filter_map(|cluster| cluster.get("secret")?.as_str());
        let secrets = secrets.filter_map(SecretAddress::from_status);
        return Some(secrets.map(|secret| SecretName::from(&secret)).collect());
    };
    Some(ClusterInventory::references(text)?.iter().filter_map(|reference| secret_of(reference)).collect())
}

/// The Secret of a cluster reference.
pub(crate) fn secret_of(reference: &str) -> Option<SecretName> {
    match ReferenceKey::parse(reference)?.resolved()?.credentials {
        ResolvedCredentials::Secret(address) => Some(SecretName::from(&address)),
        ResolvedCredentials::Target { .. } | ResolvedCredentials::TargetSelector { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use kross_api::ClusterId;

    use super::*;

    fn instance(name: &str) -> ObjectKey {
        ObjectKey {
            cluster: ClusterId::local(),
            group: "kro.run".into(),
            kind: "App".into(),
            namespace: Some("shop".into()),
            name: name.into(),
        }
    }

    fn named(secrets: &[&str]) -> BTreeSet<SecretName> {
        let name = |name: &&str| SecretName { namespace: "shop".into(), name: (*name).into() };
        secrets.iter().map(name).collect()
    }

    #[test]
    fn a_secret_changes_with_its_first_and_its_last_user_alone() {
        let users = SecretUsers::default();
        let (a, b) = (instance("a"), instance("b"));
        let changed = |changed: Vec<SecretName>| -> Vec<String> {
            changed.iter().map(|secret| secret.name.to_string()).collect()
        };
        assert_eq!(changed(users.set(&a, &named(&["eu", "us"]))), ["eu", "us"]);
        assert_eq!(changed(users.set(&b, &named(&["eu"]))), [""; 0]);
        assert_eq!(changed(users.set(&a, &named(&["us"]))), [""; 0]);
        assert_eq!(changed(users.forget(&b)), ["eu"]);
        assert_eq!(changed(users.forget(&b)), [""; 0]);
        assert!(users.contains(&a) && !users.contains(&b));
        let us = named(&["us"]).pop_first().unwrap();
        assert!(users.any(&us, |key| *key.name == *"a") && !users.any(&us, |key| *key.name == *"b"));
    }

    #[test]
    fn the_secret_of_a_reference_is_its_namespace_and_name() {
        assert_eq!(secret_of("secret/shop/eu/kubeconfig"), named(&["eu"]).pop_first());
        assert_eq!(secret_of("target/shop/eu"), None);
        assert_eq!(secret_of("nonsense"), None);
    }
}
