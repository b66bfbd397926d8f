//! Which instances have inventories that name a Secret or a target: it is protected as long as there is one. The events of the
//! instances' caches and our own writes keep it current, so that neither an idle instance nor a pass costs anything.

use std::collections::{BTreeSet, HashMap, HashSet};

use kross_api::{ClusterInventory, ResolvedCredentials, SecretAddress, annotations};
use kross_cluster::{CacheKey, ObjectKey, SecretName, StoredObject};
use kross_plan::ReferenceKey;
use kross_value::{Text, Value};
use parking_lot::Mutex;

use crate::finalizer;

/// What an inventory names: where the credentials of a cluster are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum InventoryReference {
    /// In a Secret.
    Secret(SecretName),
    /// In the connection Secret of a target.
    Target {
        /// Namespace of the target.
        namespace: Text,
        /// Its name.
        name: Text,
    },
}

impl InventoryReference {
    /// The credentials of a cluster reference; none if it is not a reference, or the target is not chosen yet.
    fn parse(reference: &str) -> Option<Self> {
        match ReferenceKey::parse(reference)?.resolved()?.credentials {
            ResolvedCredentials::Secret(address) => Some(Self::Secret(SecretName::from(&address))),
            ResolvedCredentials::Target { namespace, name } => {
                Some(Self::Target { namespace: namespace.into(), name: name.into() })
            }
            ResolvedCredentials::TargetSelector { .. } => None,
        }
    }
}

/// The instances by the Secrets and targets that their inventories name. The lock is a leaf.
#[derive(Debug, Default)]
pub(crate) struct SecretUsers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    users: HashMap<InventoryReference, HashSet<ObjectKey>>,
    named: HashMap<ObjectKey, BTreeSet<InventoryReference>>,
    /// The caches of instances whose every object was indexed.
    indexed: HashSet<CacheKey>,
}

impl SecretUsers {
    /// Indexes an instance as it is now. Returns the Secrets that got their first user or lost their last one, and the targets
    /// that got or lost a user.
    pub(crate) fn observe(&self, key: &ObjectKey, instance: &StoredObject) -> Vec<InventoryReference> {
        match named_by(instance) {
            Some(named) => self.set(key, &named),
            // What cannot be read does not tell that a Secret is not needed any more.
            None => Vec::new(),
        }
    }

    /// Removes an instance. Returns the Secrets that lost their last user, and the targets that lost a user.
    pub(crate) fn forget(&self, key: &ObjectKey) -> Vec<InventoryReference> {
        self.set(key, &BTreeSet::new())
    }

    fn set(&self, key: &ObjectKey, named: &BTreeSet<InventoryReference>) -> Vec<InventoryReference> {
        let State { users, named: known, .. } = &mut *self.state.lock();
        let before = if named.is_empty() {
            known.remove(key).unwrap_or_default()
        } else {
            known.insert(key.clone(), named.clone()).unwrap_or_default()
        };
        // A target that is being deleted names its users.
        let is_target =
            |reference: &InventoryReference| matches!(reference, InventoryReference::Target { .. });
        let mut changed = Vec::new();
        for added in named.difference(&before) {
            let instances = users.entry(added.clone()).or_default();
            if instances.is_empty() || is_target(added) {
                changed.push(added.clone());
            }
            instances.insert(key.clone());
        }
        for removed in before.difference(named) {
            let Some(instances) = users.get_mut(removed) else { continue };
            instances.remove(key);
            let is_unused = instances.is_empty();
            if is_unused {
                users.remove(removed);
            }
            if is_unused || is_target(removed) {
                changed.push(removed.clone());
            }
        }
        changed
    }

    /// Whether an instance is indexed.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.state.lock().named.contains_key(key)
    }

    /// Of the instances whose inventories name a Secret one of each kind in each namespace: what one of them may use, the others may
    /// use as well.
    pub(crate) fn one_of_each_namespace(&self, secret: &SecretName) -> Vec<ObjectKey> {
        let secret = InventoryReference::Secret(secret.clone());
        let state = self.state.lock();
        let mut seen: HashSet<(&Text, &Text, Option<&Text>)> = HashSet::new();
        let users = state.users.get(&secret).into_iter().flatten();
        users
            .filter(|user| seen.insert((&user.group, &user.kind, user.namespace.as_ref())))
            .cloned()
            .collect()
    }

    /// Whether one of the instances whose inventory names a Secret fulfils a condition, which must not lock anything.
    pub(crate) fn any(&self, secret: &SecretName, condition: impl FnMut(&ObjectKey) -> bool) -> bool {
        let secret = InventoryReference::Secret(secret.clone());
        self.state.lock().users.get(&secret).is_some_and(|users| users.iter().any(condition))
    }

    /// The instances whose inventories name a target.
    pub(crate) fn of_target(&self, namespace: &Text, name: &Text) -> Vec<ObjectKey> {
        let target = InventoryReference::Target { namespace: namespace.clone(), name: name.clone() };
        self.state.lock().users.get(&target).into_iter().flatten().cloned().collect()
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

/// The Secrets and targets that the inventory of an instance names.
pub(crate) fn references_of(instance: &StoredObject) -> BTreeSet<InventoryReference> {
    named_by(instance).unwrap_or_default()
}

/// Whether an instance may use a Secret or a target: its inventory names it, or cannot be read.
pub(crate) fn may_reference(instance: &StoredObject, wanted: &InventoryReference) -> bool {
    // An outline has no annotations if those cannot be read.
    let is_hidden = instance.unreadable().is_some()
        && finalizer::is_set(instance)
        && instance.annotation(annotations::CLUSTER_INVENTORY).is_none();
    is_hidden || named_by(instance).is_none_or(|named| named.contains(wanted))
}

/// The Secrets and targets that the inventory of an instance names; none where it cannot be read. Whether it is valid does not
/// matter.
fn named_by(instance: &StoredObject) -> Option<BTreeSet<InventoryReference>> {
    // Without the finalizer nothing is cleaned up any more.
    if !finalizer::is_set(instance) {
        return Some(BTreeSet::new());
    }
    let Some(text) = instance.annotation(annotations::CLUSTER_INVENTORY) else {
        // Somebody removed it, or there never was one. It is restored from the status.
        let clusters = instance.value().at(&["status", "clusters"]).and_then(Value::as_list);
        let connected = clusters.unwrap_or_default().iter().filter(|cluster| cluster.get("uid").is_some());
        return Some(connected.filter_map(reported).collect());
    };
    let references = ClusterInventory::references(text)?;
    let named = references.iter().filter_map(|(reference, has_objects)| {
        let reference = InventoryReference::parse(reference)?;
        // Whoever only reads in the cluster of a target does not keep it.
        let is_used = *has_objects || matches!(reference, InventoryReference::Secret(_));
        is_used.then_some(reference)
    });
    Some(named.collect())
}

/// The credentials of a cluster in the status of an instance.
fn reported(cluster: &Value) -> Option<InventoryReference> {
    let text = |field| cluster.get(field).and_then(Value::as_str);
    if let Some((namespace, name)) = text("target").and_then(|target| target.split_once('/')) {
        return Some(InventoryReference::Target { namespace: namespace.into(), name: name.into() });
    }
    let secret = SecretAddress::from_status(text("secret")?)?;
    Some(InventoryReference::Secret(SecretName::from(&secret)))
}

/// The Secret of a cluster reference.
pub(crate) fn secret_of(reference: &str) -> Option<SecretName> {
    match InventoryReference::parse(reference)? {
        InventoryReference::Secret(secret) => Some(secret),
        InventoryReference::Target { .. } => None,
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

    fn secret(name: &str) -> SecretName {
        SecretName { namespace: "shop".into(), name: name.into() }
    }

    fn named(secrets: &[&str]) -> BTreeSet<InventoryReference> {
        secrets.iter().map(|name| InventoryReference::Secret(secret(name))).collect()
    }

    #[test]
    fn a_secret_changes_with_its_first_and_its_last_user_alone() {
        let users = SecretUsers::default();
        let (a, b) = (instance("a"), instance("b"));
        let name = |reference: &InventoryReference| match reference {
            InventoryReference::Secret(secret) => secret.name.to_string(),
            InventoryReference::Target { name, .. } => name.to_string(),
        };
        let changed = |changed: Vec<InventoryReference>| changed.iter().map(name).collect::<Vec<String>>();
        assert_eq!(changed(users.set(&a, &named(&["eu", "us"]))), ["eu", "us"]);
        assert_eq!(changed(users.set(&b, &named(&["eu"]))), [""; 0]);
        assert_eq!(changed(users.set(&a, &named(&["us"]))), [""; 0]);
        assert_eq!(changed(users.forget(&b)), ["eu"]);
        assert_eq!(changed(users.forget(&b)), [""; 0]);
        assert!(users.contains(&a) && !users.contains(&b));
        let us = secret("us");
        assert!(users.any(&us, |key| *key.name == *"a") && !users.any(&us, |key| *key.name == *"b"));
    }

    #[test]
    fn an_instance_that_only_reads_does_not_use_a_target() {
        let inventory = serde_json::json!({"version": 1, "hash": "", "clusters": [
            {"reference": "target/shop/eu", "name": "eu", "uid": "1", "kinds": "ConfigMap"},
            {"reference": "target/shop/us", "name": "us", "uid": "2"},
            {"reference": "secret/shop/a/kubeconfig", "name": "a", "uid": "3"}]});
        let instance = serde_json::json!({"apiVersion": "kro.run/v1", "kind": "App", "metadata": {
            "name": "a", "namespace": "shop", "uid": "1", "resourceVersion": "1", "finalizers": [kross_api::FINALIZER],
            "annotations": {annotations::CLUSTER_INVENTORY: inventory.to_string()}}});
        let instance = kross_cluster::read_object(instance.to_string().as_bytes()).unwrap();
        let target = InventoryReference::parse("target/shop/eu").unwrap();
        assert_eq!(
            references_of(&instance),
            BTreeSet::from([InventoryReference::Secret(secret("a")), target])
        );
    }

    #[test]
    fn a_target_changes_with_every_user() {
        let users = SecretUsers::default();
        let (a, b) = (instance("a"), instance("b"));
        let target = BTreeSet::from([InventoryReference::parse("target/shop/eu").unwrap()]);
        assert_eq!(users.set(&a, &target).len(), 1);
        assert_eq!(users.set(&b, &target).len(), 1);
        assert_eq!(users.of_target(&"shop".into(), &"eu".into()).len(), 2);
        assert_eq!(users.forget(&a).len(), 1);
        assert_eq!(users.of_target(&"shop".into(), &"eu".into()), [b]);
    }

    #[test]
    fn the_secret_of_a_reference_is_its_namespace_and_name() {
        assert_eq!(secret_of("secret/shop/eu/kubeconfig"), Some(secret("eu")));
        assert_eq!(secret_of("target/shop/eu"), None);
        assert_eq!(secret_of("nonsense"), None);
    }
}
