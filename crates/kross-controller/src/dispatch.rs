//! Turns events of the caches into keys of the work queues: the definitions and instances that an object concerns.

use std::collections::HashSet;
use std::sync::Arc;

use kross_api::{annotations, labels};
use kross_cluster::{ApiKind, CacheEvent, CacheKey, Change, ObjectKey, Selection, StoredObject};
use kross_value::{Text, Value};

use crate::context::Context;
use crate::finalizer;
use crate::instance::instance_of;
use crate::key::{InstanceKey, Key};
use crate::kinds;
use crate::managed_resource;
use crate::metrics::EventType;
use crate::workload::{self, WorkloadKind};

/// Which of the controller's own kinds a cache is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Definition,
    Revision,
    Crd,
    Workload(WorkloadKind),
    Other,
}

impl Subject {
    /// The caches of the controller's own kinds are in the hub and select all objects; all others are of instances or of
    /// their objects.
    fn of(cache: &CacheKey) -> Self {
        if !cache.cluster.is_local() || cache.selection != Selection::All {
            return Self::Other;
        }
        match (&*cache.group, &*cache.kind) {
            kinds::DEFINITION => Self::Definition,
            kinds::REVISION => Self::Revision,
            kinds::CRD => Self::Crd,
            (group, kind) => WorkloadKind::find(group, kind).map_or(Self::Other, Self::Workload),
        }
    }

    /// Whether a cache may be of instances or of their objects.
    fn may_have_instances(self) -> bool {
        matches!(self, Self::Other | Self::Workload(WorkloadKind::ApplicationResource))
    }
}

/// Dispatches events to the work queues.
pub(crate) struct Dispatch {
    context: Arc<Context>,
    /// The controller's own kinds whose caches have synced.
    synced: HashSet<Subject>,
}

impl Dispatch {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, synced: HashSet::new() }
    }

    /// Dispatches one event. Returns whether the caches of the controller's own kinds have synced.
    pub(crate) fn dispatch(&mut self, event: &CacheEvent) -> bool {
        let (cache, subject) = (&event.cache, Subject::of(&event.cache));
        match &event.change {
            Change::Applied { old, new, ours } => {
                if !ours {
                    let known = old.is_some();
                    self.context.metrics.queue.observed(if known {
                        EventType::update
                    } else {
                        EventType::add
                    });
                }
                self.applied(subject, old.as_deref(), new, *ours);
                if subject.may_have_instances() {
                    self.observe_inventory(cache, old.as_deref(), new);
                }
                if subject.may_have_instances() && !ours {
                    self.requeue_instances(cache, old.as_deref(), Some(new));
                }
                self.requeue_contenders(cache, new);
                managed_resource::changed(&self.context, cache, Some(new));
            }
            Change::Deleted { old } => {
                self.context.metrics.queue.observed(EventType::delete);
                self.deleted(subject, old);
                if subject.may_have_instances() {
                    self.forget_inventory(cache, old);
                    self.requeue_instances(cache, Some(old), None);
                }
                self.requeue_contenders(cache, old);
                managed_resource::changed(&self.context, cache, Some(old));
            }
            Change::Synced => {
                self.synced.insert(subject);
                self.requeue_workloads(subject);
                self.requeue_users(cache);
            }
            Change::Failed { error } => {
                let advice = match subject {
                    Subject::Definition | Subject::Revision => {
                        "install the CRDs with `kross crds | kubectl apply --server-side -f -`"
                    }
                    Subject::Crd | Subject::Workload(_) | Subject::Other => "",
                };
                tracing::warn!(%cache, %error, advice, "watch failed");
                self.requeue_users(cache);
            }
            Change::Resumed => {
                tracing::info!(%cache, "watch resumed");
                self.requeue_users(cache);
            }
            Change::Relisted => self.requeue_all(subject, cache),
        }
        [Subject::Definition, Subject::Revision, Subject::Crd].iter().all(|own| self.synced.contains(own))
    }

    fn applied(&self, subject: Subject, old: Option<&StoredObject>, new: &StoredObject, ours: bool) {
        match subject {
            // Our own writes need no reconcile. Every other change does, one of the status too.
            Subject::Definition if !ours => self.requeue(new.name()),
            Subject::Revision if !ours => {
                self.requeue_owner(new);
                if new.deletion_timestamp().is_some() {
                    self.context.definition_queue.add(&Key::Revision(new.name().clone()));
                }
            }
            Subject::Crd => self.crd_applied(old, new, ours),
            Subject::Definition | Subject::Revision => {}
            Subject::Workload(kind) => workload::changed(&self.context, kind, old, Some(new), ours),
            Subject::Other => self.requeue_deleting(new),
        }
    }

    fn deleted(&self, subject: Subject, old: &StoredObject) {
        match subject {
            Subject::Definition => self.requeue(old.name()),
            Subject::Revision => self.requeue_owner(old),
            Subject::Crd => {
                self.context.schemas.sync_crd(&self.context.crds, old);
                if let Some(kind) = kinds::served_by(old.value()) {
                    self.context.client.discovery().forget(&kind.group, &kind.kind);
                    if let Some(own) = own_kind(&kind) {
                        self.context.workload.close(&self.context, own);
                    }
                }
                self.requeue_crd_users(old, true);
            }
            Subject::Workload(kind) => workload::changed(&self.context, kind, Some(old), None, false),
            Subject::Other => self.requeue_deleting(old),
        }
    }

    fn crd_applied(&self, old: Option<&StoredObject>, new: &StoredObject, ours: bool) {
        let established = kinds::is_established(new.value());
        let was_established = old.is_some_and(|old| kinds::is_established(old.value()));
        let schema_changed =
            established != was_established || old.and_then(StoredObject::generation) != new.generation();
        if schema_changed {
            self.context.schemas.sync_crd(&self.context.crds, new);
        }
        if let (true, true, Some(kind)) = (schema_changed, was_established, kinds::served_by(new.value())) {
            self.context.caches.schema_changed(self.context.client.cluster(), &kind.group, &kind.kind);
        }
        if let (true, false, Some(kind)) = (established, was_established, kinds::served_by(new.value())) {
            self.context.caches.retry(self.context.client.cluster(), &kind.group, &kind.kind);
            if let Some(own) = own_kind(&kind) {
                self.context.workload.open(&self.context, own);
            }
            self.context.client.discovery().learn(kind);
        }
        if schema_changed || !ours {
            self.requeue_crd_users(new, schema_changed);
        }
        // The schemas are stored elsewhere. Our own CRDs stay complete: every field is compared with the desired one.
        if new.label(labels::OWNED).is_none() {
            self.context.crds.trim(new, kinds::outline(new.value()));
        }
    }

    /// Requeues the definition that owns a CRD and, if its schema changed, all definitions that name its kind.
    fn requeue_crd_users(&self, crd: &StoredObject, schema_changed: bool) {
        if let Some(owner) = crd.label(labels::DEFINITION_NAME) {
            self.requeue(&owner.into());
        }
        let Some(kind) = kinds::served_by(crd.value()).filter(|_| schema_changed) else { return };
        managed_resource::kind_changed(&self.context, &kind);
        for definition in self.context.graphs.naming(&kind.group, &kind.kind) {
            self.requeue(&definition);
        }
    }

    /// Requeues the definition of a revision. One that cannot be read has only its labels.
    fn requeue_owner(&self, revision: &StoredObject) {
        let name = revision.value().at(&["spec", "snapshot", "name"]).and_then(Value::as_str);
        if let Some(name) = name.or_else(|| revision.label(labels::DEFINITION_NAME)) {
            self.requeue(&name.into());
        }
    }

    /// Requeues the instances that an object concerns: the object itself if it is one, its owner, and those that read it.
    fn requeue_instances(&self, cache: &CacheKey, old: Option<&StoredObject>, new: Option<&StoredObject>) {
        self.context.metrics.queue.routed.inc();
        let mut serving = self.context.graphs.serving(&cache.group, &cache.kind).into_iter();
        let served = serving.find(|served| **served.instances.key() == *cache);
        if let (Some(instance), Some(served)) = (new.or(old), served) {
            // The status of an instance is ours: a reconcile for each change of it would never end where the status contains
            // the instance's version. The status of an existing kind is another controller's, and may be read by the graph.
            let has_changed =
                served.external || old.zip(new).is_none_or(|(old, new)| differs_beside_status(old, new));
            if has_changed {
                self.requeue_instance(instance.key(&cache.cluster));
            }
        }
        if cache.selection == Selection::Managed {
            for owner in old.into_iter().chain(new).filter_map(instance_of) {
                // A remote cluster may have objects of other hubs, whose instances have the same names.
                if cache.cluster.is_local() || self.context.instances.watches(&owner, cache) {
                    self.requeue_user(cache, owner);
                }
            }
        } else {
            for instance in self.context.instances.watchers(cache) {
                self.requeue_user(cache, instance);
            }
        }
    }

    /// Indexes the Secrets that the inventory of an instance names, if it changed.
    fn observe_inventory(&self, cache: &CacheKey, old: Option<&StoredObject>, new: &StoredObject) {
        let inventory = |object: &StoredObject| {
            let text = object.annotation(annotations::CLUSTER_INVENTORY)?;
            Some((text.to_owned(), finalizer::is_set(object)))
        };
        if old.and_then(inventory) != inventory(new) && self.has_instances(cache) {
            self.context.observe_inventory(&new.key(&cache.cluster), new);
        }
    }

    /// Forgets the inventory of an instance that was deleted. One of an existing kind that is not selected any more still has
    /// to be cleaned up.
    fn forget_inventory(&self, cache: &CacheKey, old: &StoredObject) {
        let is_deleted = cache.selection == Selection::All
            || old.deletion_timestamp().is_some()
            || !finalizer::is_set(old);
        if is_deleted && old.annotation(annotations::CLUSTER_INVENTORY).is_some() && self.has_instances(cache)
        {
            self.context.forget_inventory(&old.key(&cache.cluster));
        }
    }

    /// Whether a cache is that of a definition's instances.
    fn has_instances(&self, cache: &CacheKey) -> bool {
        let serving = self.context.graphs.serving(&cache.group, &cache.kind);
        serving.iter().any(|served| **served.instances.key() == *cache)
    }

    /// Requeues the instances that want an object that another instance owns.
    fn requeue_contenders(&self, cache: &CacheKey, object: &StoredObject) {
        for instance in self.context.instances.contenders(&object.key(&cache.cluster)) {
            self.requeue_instance(instance);
        }
    }

    /// Requeues the instances that use a cache that has synced, failed or resumed.
    fn requeue_users(&self, cache: &CacheKey) {
        managed_resource::changed(&self.context, cache, None);
        for served in self.context.graphs.all() {
            if served.children.iter().any(|child| **child.key() == *cache) {
                self.context.requeue_instances_of(&served);
            }
        }
        for instance in self.context.instances.watchers(cache) {
            self.requeue_user(cache, instance);
        }
    }

    /// Requeues all targets, applications and claims after the cache of one of their kinds has synced.
    fn requeue_workloads(&self, subject: Subject) {
        if matches!(subject, Subject::Workload(_)) {
            workload::requeue_all(&self.context);
        }
    }

    /// Requeues everything that a cache concerns: all definitions, its instances, or those that use it.
    fn requeue_all(&self, subject: Subject, cache: &CacheKey) {
        self.requeue_workloads(subject);
        if !matches!(subject, Subject::Other | Subject::Workload(_)) {
            for definition in self.context.definitions.list_readable().unwrap_or_default() {
                self.requeue(definition.name());
            }
        }
        for served in self.context.graphs.serving(&cache.group, &cache.kind) {
            if **served.instances.key() == *cache {
                self.context.requeue_instances_of(&served);
            }
        }
        self.requeue_users(cache);
    }

    /// Requeues an instance that uses a cache.
    fn requeue_user(&self, cache: &CacheKey, instance: ObjectKey) {
        if cache.cluster.is_local() {
            return self.requeue_instance(instance);
        }
        self.context.metrics.queue.matched.inc();
        self.context.requeue_for_cluster(instance);
    }

    fn requeue_instance(&self, instance: ObjectKey) {
        self.context.metrics.queue.matched.inc();
        self.context.instance_queue.add(&InstanceKey(instance));
    }

    /// Requeues a definition whose deletion may wait for this instance.
    fn requeue_deleting(&self, instance: &StoredObject) {
        for served in self.context.graphs.serving(instance.group(), instance.kind()) {
            if served.revision.is_none() {
                self.requeue(&served.definition);
            }
        }
    }

    fn requeue(&self, definition: &Text) {
        self.context.definition_queue.add(&Key::Definition(definition.clone()));
    }
}

/// The kind of published clusters, claims and applications that a CRD serves.
fn own_kind(kind: &ApiKind) -> Option<WorkloadKind> {
    WorkloadKind::find(&kind.group, &kind.kind)
}

/// Whether two versions of an object differ in more than the status and the resource version.
fn differs_beside_status(old: &StoredObject, new: &StoredObject) -> bool {
    let rest = |object: &StoredObject| {
        let mut rest = object.value().as_object().cloned().unwrap_or_default();
        rest.remove("status");
        if let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        rest
    };
    rest(old) != rest(new)
}
