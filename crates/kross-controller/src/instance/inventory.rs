//! The inventory of an instance: which kinds it owns in which clusters, kept in its annotations. One write adds what is
//! missing of the finalizer, the labels and the inventory; no object is applied before the inventory covers it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::FutureExt;
use futures::stream::{self, StreamExt};
use kross_api::{
    ClusterId, ClusterInventory, GroupKind, Inventory, annotations, applyset_id, labels, managers,
    remote_applyset_id, tooling,
};
use kross_cluster::{Digest, ObjectKey, SecretName, StoredObject};
use kross_graph::Graph;
use kross_plan::{Plan, ReferenceKey};
use kross_value::{Key, Object, Text, Value};

use super::cluster_inventory;
use super::error::{InstanceError, SOON};
use super::member_lists::Proof;
use super::pass::Pass;
use super::restored_inventory;
use crate::context::Context;
use crate::finalizer;
use crate::graphs::Served;
use crate::secret_protection;

/// How many Secrets are protected at once on behalf of one instance.
const CONCURRENT_PROTECTIONS: usize = 16;

/// What an instance owns, in the hub and in remote clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstanceInventory {
    pub(super) local: Inventory,
    pub(super) remote: ClusterInventory,
    /// Whether the instance has, or had, an inventory of remote clusters. Then it keeps one even if that is empty: a missing one
    /// would be restored.
    has_remote: bool,
    /// When the deletion of objects with a deadline was first attempted, and which deletion hooks ran.
    pub(super) attempts: Option<Text>,
}

impl InstanceInventory {
    /// The inventory of a living instance. Annotations that were removed from an instance with our finalizer are written
    /// again from what its graph applies. An instance without the finalizer that has an inventory must have a complete one
    /// of its own: it was restored, or copied from another instance.
    ///
    /// # Errors
    /// The inventory cannot be trusted.
    pub(super) fn read(
        instance: &StoredObject,
        applyset: &str,
        graph: Option<&Graph>,
    ) -> Result<Self, InstanceError> {
        let (labels, annotations) = (texts(instance, "labels"), texts(instance, "annotations"));
        let local = if !finalizer::is_set(instance) && Inventory::is_present(&labels, &annotations) {
            Inventory::parse_complete(applyset, &labels, &annotations)?
        } else {
            Inventory::parse(applyset, &annotations)?.unwrap_or_default()
        };
        Self::with_remote(instance, applyset, graph, local)
    }

    /// The inventory of an instance whose objects would be orphaned if it were incomplete.
    ///
    /// # Errors
    /// The inventory cannot be trusted, or is incomplete.
    pub(super) fn read_complete(
        instance: &StoredObject,
        applyset: &str,
        graph: Option<&Graph>,
    ) -> Result<Self, InstanceError> {
        let (labels, annotations) = (texts(instance, "labels"), texts(instance, "annotations"));
        let local = Inventory::parse_complete(applyset, &labels, &annotations)?;
        restored_inventory::check_kept(instance, graph)?;
        let mut inventory = Self::with_remote(instance, applyset, graph, local)?;
        if inventory.remote.is_incomplete() {
            // What it may lack may have been given up since.
            let restored = restored_inventory::restore(instance, graph);
            restored_inventory::check_complete(&restored)?;
            restored.clusters().iter().for_each(|cluster| inventory.remote.add(cluster.clone()));
            inventory.remote.set_incomplete(false);
        }
        Ok(inventory)
    }

    fn with_remote(
        instance: &StoredObject,
        applyset: &str,
        graph: Option<&Graph>,
        local: Inventory,
    ) -> Result<Self, InstanceError> {
        let remote = match instance.annotation(annotations::CLUSTER_INVENTORY) {
            Some(text) => ClusterInventory::parse(applyset, text)?,
            None => restored_inventory::restore(instance, graph),
        };
        let attempts = instance.annotation(annotations::DELETE_ATTEMPTS).map(Text::from);
        let has_remote = instance.annotation(annotations::CLUSTER_INVENTORY).is_some()
            || !remote.clusters().is_empty()
            || graph.is_some_and(restored_inventory::is_always_kept);
        Ok(Self { local, remote, has_remote, attempts })
    }

    /// The annotations that it is kept in; none for one that is to be removed.
    fn annotations(&self, applyset: &str) -> Result<BTreeMap<String, Option<String>>, InstanceError> {
        let local = self.local.annotations(applyset).into_iter().map(|(key, text)| (key, Some(text)));
        let mut annotations: BTreeMap<String, Option<String>> = local.collect();
        let remote = match self.has_remote {
            true => Some(self.remote.explicit_text(applyset)?),
            false => self.remote.text(applyset)?,
        };
        annotations.insert(annotations::CLUSTER_INVENTORY.to_owned(), remote);
        let attempts = self.attempts.as_ref().map(ToString::to_string);
        annotations.insert(annotations::DELETE_ATTEMPTS.to_owned(), attempts);
        Ok(annotations)
    }
}

impl Pass<'_> {
    /// The ID of the instance's apply set in the hub.
    pub(super) fn applyset_id(&self) -> Text {
        let namespace = self.instance.namespace().map(|namespace| &**namespace).unwrap_or_default();
        let kind = &self.served.kind;
        applyset_id(self.instance.name(), namespace, &kind.kind, &kind.group).into()
    }

    /// The ID of the instance's apply set in remote clusters.
    pub(super) fn remote_applyset_id(&self) -> Text {
        let namespace = self.instance.namespace().map(|namespace| &**namespace).unwrap_or_default();
        let (kind, hub_uid) = (&self.served.kind, &self.context.planner.settings().hub_uid);
        remote_applyset_id(self.instance.name(), namespace, &kind.kind, &kind.group, hub_uid).into()
    }

    /// Adds what a plan is about to apply.
    pub(super) fn expand_inventory(&mut self, plan: &Plan) {
        if let Some(local) = plan.inventory.get(&ClusterId::local()) {
            self.inventory.local.extend(local);
        }
        let remote = &mut self.inventory.remote;
        cluster_inventory::remove_abandoned(self.context, &self.instance, remote, &mut self.observation);
        for cluster in cluster_inventory::required_entries(plan) {
            remote.add(cluster);
        }
        cluster_inventory::record_choices(plan, remote);
    }

    /// Whether the hub proves that everything the instance has there is of the kinds and in the namespaces of this inventory.
    /// Otherwise the inventory has to stay as it is.
    pub(super) async fn is_nothing_left_beside(&self, kept: &Inventory) -> bool {
        let Inventory { group_kinds, namespaces } = &self.inventory.local;
        let leaving: BTreeSet<&GroupKind> = group_kinds.difference(&kept.group_kinds).collect();
        let left: BTreeSet<&String> = namespaces.difference(&kept.namespaces).collect();
        // Of the kinds that stay there is something to prove only in the namespaces that leave.
        let is_listed = |kind: &&GroupKind| leaving.contains(kind) || !left.is_empty();
        let kinds = group_kinds.iter().filter(is_listed).map(|kind| (kind, &self.context.client)).collect();
        let is_beside = |key: &ObjectKey| {
            leaving.iter().any(|kind| kind.group == key.group.as_str() && kind.kind == key.kind.as_str())
                || left.iter().any(|namespace| key.namespace.as_deref() == Some(namespace.as_str()))
        };
        match self.list_members(kinds, &self.applyset_id(), &self.inventory.local, Proof::Absence).await {
            Ok(found) => {
                let is_left = found.stored.keys().any(is_beside);
                if is_left {
                    self.requeue_after(SOON);
                }
                !is_left
            }
            Err(error) => {
                tracing::debug!(%error, "cannot prove that pruned objects were deleted");
                false
            }
        }
    }

    /// Makes sure that the instance has our finalizer, its labels and the inventory. Sends no request if it has, or if others
    /// remove the same again and again and it is not time yet to write it again.
    ///
    /// # Errors
    /// The request fails, the instance was changed meanwhile, or the inventory is too large.
    pub(super) async fn write_inventory(&mut self) -> Result<(), InstanceError> {
        self.write_metadata(false).await
    }

    /// As [`Pass::write_inventory`], without backing off: no object is applied before the inventory covers it.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn write_inventory_before_apply(&mut self) -> Result<(), InstanceError> {
        self.write_metadata(true).await
    }

    async fn write_metadata(&mut self, at_once: bool) -> Result<(), InstanceError> {
        let applyset = self.applyset_id();
        let annotations = self.inventory.annotations(&applyset)?;
        let (labels, annotations) = wanted(self.context, self.served, &applyset, annotations);
        let Some(patch) = patch(&self.instance, &labels, &annotations) else { return Ok(()) };
        let metadata = Value::object([("labels", labels.into()), ("annotations", annotations.into())]);
        let metadata = Value::object([("metadata", metadata)]);
        let digest = Digest::of(&metadata);
        if !self.may_write_metadata(at_once, (digest, &metadata), managers::LABELLER).await {
            return Ok(());
        }
        let (kind, name) = (&self.served.kind, self.instance.name());
        let namespace = self.instance.namespace().map(|namespace| &**namespace);
        let client = &self.context.client;
        let written = client.merge_patch(kind, namespace, name, None, managers::LABELLER, &patch).await;
        let written = written.map_err(InstanceError::WriteInventory)?;
        self.served.instances.observe(&written);
        let has_new_secret = self.context.observe_inventory(self.key, &written);
        self.instance = Arc::new(written);
        self.observe_metadata(digest, managers::LABELLER);
        if has_new_secret {
            self.protect_secrets().await;
        }
        Ok(())
    }

    /// Protects the Secrets that the inventory names before anything is written to their clusters. Where that is not possible
    /// an Event says so, and nothing waits for it.
    async fn protect_secrets(&self) {
        let references = self.inventory.remote.clusters().iter();
        let keys = references.filter_map(|cluster| ReferenceKey::parse(&cluster.reference));
        let handles = keys.filter_map(|key| self.memory.cluster_handles.get(&key));
        let unprotected = handles.filter(|handle| handle.needs_protection());
        let context = self.context;
        let writes: Vec<_> = unprotected
            .map(|handle| {
                let secret = SecretName::from(handle.secret());
                async move { secret_protection::reconcile(context, &secret).await }.boxed()
            })
            .collect();
        stream::iter(writes).buffer_unordered(CONCURRENT_PROTECTIONS).collect::<Vec<_>>().await;
    }
}

/// A merge patch that removes our finalizer from exactly this version of an instance and, from an object that is not being
/// deleted but only not selected any more, everything else that [`Pass::write_inventory`] and the status writer have added.
pub(super) fn release_patch(instance: &StoredObject) -> Value {
    let mut patch = finalizer::removal(instance);
    let metadata = patch.as_object_mut().and_then(|patch| patch.get_mut("metadata")?.as_object_mut());
    if let (Some(metadata), None) = (metadata, instance.deletion_timestamp()) {
        metadata.insert("labels", nulls(OWN_LABELS.into_iter().filter(|key| instance.label(key).is_some())));
        let annotations = OWN_ANNOTATIONS.into_iter().filter(|key| instance.annotation(key).is_some());
        metadata.insert("annotations", nulls(annotations));
    }
    patch
}

fn nulls(keys: impl Iterator<Item = &'static str>) -> Value {
    Value::Object(keys.map(|key| (Key::new(key), Value::Null)).collect())
}

/// The labels of an instance that are ours.
const OWN_LABELS: [&str; 5] =
    [labels::OWNED, labels::KRO_VERSION, labels::DEFINITION_ID, labels::DEFINITION_NAME, labels::APPLYSET_ID];

/// The annotations of an instance that are ours.
const OWN_ANNOTATIONS: [&str; 8] = [
    annotations::APPLYSET_TOOLING,
    annotations::APPLYSET_GROUP_KINDS,
    annotations::APPLYSET_NAMESPACES,
    annotations::INVENTORY_HASH,
    annotations::CLUSTER_INVENTORY,
    annotations::DELETE_ATTEMPTS,
    annotations::STATE,
    annotations::MESSAGE,
];

/// The labels and annotations that an instance should have; null for an annotation that is to be removed.
fn wanted(
    context: &Context,
    served: &Served,
    applyset: &Text,
    mut annotations: BTreeMap<String, Option<String>>,
) -> (Object, Object) {
    let mut own_labels = context.ownership_labels();
    own_labels.insert(labels::DEFINITION_ID, served.uid.clone().into());
    own_labels.insert(labels::DEFINITION_NAME, served.definition.clone().into());
    own_labels.insert(labels::APPLYSET_ID, applyset.clone().into());
    annotations
        .insert(annotations::APPLYSET_TOOLING.to_owned(), Some(tooling(&context.settings.kro_version)));
    let annotations =
        annotations.into_iter().map(|(key, text)| (Key::new(&key), text.map_or(Value::Null, Value::from)));
    (own_labels, annotations.collect())
}

/// A merge patch of what is missing; none if nothing is.
fn patch(instance: &StoredObject, own_labels: &Object, annotations: &Object) -> Option<Value> {
    let missing_labels: Object = own_labels
        .iter()
        .filter(|(key, value)| instance.label(key.as_str()) != value.as_str())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let missing_annotations: Object = annotations
        .iter()
        .filter(|(key, text)| instance.annotation(key.as_str()) != text.as_str())
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect();
    let has_finalizer = finalizer::is_set(instance);
    if has_finalizer && missing_labels.is_empty() && missing_annotations.is_empty() {
        return None;
    }
    let mut metadata = Object::new();
    metadata.insert("resourceVersion", instance.resource_version().clone().into());
    if !has_finalizer {
        metadata.insert("finalizers", finalizer::with_ours(instance));
    }
    if !missing_labels.is_empty() {
        metadata.insert("labels", missing_labels.into());
    }
    if !missing_annotations.is_empty() {
        metadata.insert("annotations", missing_annotations.into());
    }
    Some(Value::object([("metadata", metadata.into())]))
}

/// The labels or annotations of an object.
fn texts(object: &StoredObject, map: &str) -> BTreeMap<String, String> {
    let map = object.value().at(&["metadata", map]).and_then(Value::as_object);
    map.into_iter()
        .flat_map(Object::iter)
        .filter_map(|(key, value)| Some((key.as_str().to_owned(), value.as_str()?.to_owned())))
        .collect()
}
