//! Turns what happens in the cluster into keys to look at: which definition a revision, a CRD or an instance concerns.

use std::collections::HashSet;
use std::sync::Arc;

use kross_api::labels;
use kross_cluster::{CacheKey, Change, ObjectKey, Selection, StoredObject, WatchEvent, WorkQueue};
use kross_value::{Text, Value};

use crate::context::Context;
use crate::instance::instance_of;
use crate::key::{InstanceKey, Key};
use crate::kinds;
use crate::metrics::EventType;

/// Which of the controller's own kinds a watch is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Definition,
    Revision,
    Crd,
    Other,
}

impl Subject {
    /// What the hub watches on its own behalf; whatever else is watched is somebody's object.
    fn of(watch: &CacheKey) -> Self {
        if !watch.cluster.is_local() || watch.selection != Selection::All {
            return Self::Other;
        }
        match (&*watch.group, &*watch.kind) {
            kinds::DEFINITION => Self::Definition,
            kinds::REVISION => Self::Revision,
            kinds::CRD => Self::Crd,
            _ => Self::Other,
        }
    }
}

/// Reads events and wakes whom they concern.
pub(crate) struct Dispatch {
    context: Arc<Context>,
    queue: WorkQueue<Key>,
    /// The own kinds whose copies are complete.
    synced: HashSet<Subject>,
}

impl Dispatch {
    pub(crate) fn new(context: Arc<Context>, queue: WorkQueue<Key>) -> Self {
        Self { context, queue, synced: HashSet::new() }
    }

    /// Takes in one event. Gives whether everything that was there at the start has been taken in.
    pub(crate) fn take(&mut self, event: &WatchEvent) -> bool {
        let subject = Subject::of(&event.watch);
        match &event.change {
            Change::Applied { old, new, ours } => {
                if !ours {
                    let known = old.is_some();
                    self.context.metrics.saw(if known { EventType::update } else { EventType::add });
                }
                self.applied(subject, old.as_deref(), new, *ours);
                if subject == Subject::Other && !ours {
                    self.concerned(&event.watch, old.as_deref(), Some(new));
                }
                self.wake_rivals(&event.watch, new);
            }
            Change::Deleted { old } => {
                self.context.metrics.saw(EventType::delete);
                self.deleted(subject, old);
                if subject == Subject::Other {
                    self.concerned(&event.watch, Some(old), None);
                }
                self.wake_rivals(&event.watch, old);
            }
            Change::Synced => {
                self.synced.insert(subject);
                self.wake_users(&event.watch);
            }
            Change::Failed { error } => {
                let hint = match subject {
                    Subject::Definition | Subject::Revision => {
                        "; install with `kross crds | kubectl apply -f -`"
                    }
                    Subject::Crd | Subject::Other => "",
                };
                tracing::warn!(watch = %event.watch, %error, "cannot watch{hint}");
                self.wake_users(&event.watch);
            }
            Change::Resumed => {
                tracing::info!(watch = %event.watch, "watching again");
                self.wake_users(&event.watch);
            }
        }
        [Subject::Definition, Subject::Revision, Subject::Crd].iter().all(|own| self.synced.contains(own))
    }

    fn applied(&self, subject: Subject, old: Option<&StoredObject>, new: &StoredObject, ours: bool) {
        match subject {
            // What we wrote we know already; everything else, a changed status too, deserves a look.
            Subject::Definition if !ours => self.wake(new.name()),
            Subject::Revision if !ours => {
                self.wake_snapshot(new);
                if new.deletion_timestamp().is_some() {
                    self.queue.add(&Key::Revision(new.name().clone()));
                }
            }
            Subject::Crd => self.crd_applied(old, new, ours),
            Subject::Definition | Subject::Revision => {}
            Subject::Other => self.wake_deleting(new),
        }
    }

    fn deleted(&self, subject: Subject, old: &StoredObject) {
        match subject {
            Subject::Definition => self.wake(old.name()),
            Subject::Revision => self.wake_snapshot(old),
            Subject::Crd => {
                self.context.schemas.sync_crd(&self.context.crds, old);
                if let Some(kind) = kinds::served_by(old.value()) {
                    self.context.client.discovery().forget(&kind.group, &kind.kind);
                }
                self.wake_concerned(old, true);
            }
            Subject::Other => self.wake_deleting(old),
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
        if let (true, false, Some(kind)) = (established, was_established, kinds::served_by(new.value())) {
            self.context.caches.retry(self.context.client.cluster(), &kind.group, &kind.kind);
            self.context.client.discovery().learn(kind);
        }
        if schema_changed || !ours {
            self.wake_concerned(new, schema_changed);
        }
        // The schemas have what they need. Of our own every field is compared with what it should be.
        if new.label(labels::OWNED).is_none() {
            self.context.crds.keep(new, kinds::outline(new.value()));
        }
    }

    /// Wakes the owner of a CRD and, if its schema changed, all who name its kind.
    fn wake_concerned(&self, crd: &StoredObject, schema_changed: bool) {
        if let Some(owner) = crd.label(labels::DEFINITION_NAME) {
            self.wake(&owner.into());
        }
        let Some(kind) = kinds::served_by(crd.value()).filter(|_| schema_changed) else { return };
        for definition in self.context.graphs.naming(&kind.group, &kind.kind) {
            self.wake(&definition);
        }
    }

    fn wake_snapshot(&self, revision: &StoredObject) {
        if let Some(name) = revision.value().at(&["spec", "snapshot", "name"]).and_then(Value::as_str) {
            self.wake(&name.into());
        }
    }

    /// Wakes the instances that an object concerns: the one that it is, the one that it belongs to, those that look at it.
    fn concerned(&self, watch: &CacheKey, old: Option<&StoredObject>, new: Option<&StoredObject>) {
        self.context.metrics.routed.inc();
        let served = self.context.graphs.serving(&watch.group, &watch.kind);
        let served = served.filter(|served| **served.instances.key() == *watch);
        if let (Some(instance), Some(served)) = (new.or(old), served) {
            // The status of an instance is ours. Looking at it again would never end where it contains its own version; only
            // that of an existing type has something to say.
            let news =
                served.external || old.zip(new).is_none_or(|(old, new)| differs_beside_status(old, new));
            if news {
                self.wake_instance(instance.key(&watch.cluster));
            }
        }
        if watch.selection == Selection::Managed {
            for owner in old.into_iter().chain(new).filter_map(instance_of) {
                // Elsewhere others have instances of the same name.
                if watch.cluster.is_local() || self.context.instances.watches(&owner, watch) {
                    self.wake_instance(owner);
                }
            }
        } else {
            for instance in self.context.instances.watchers(watch) {
                self.wake_instance(instance);
            }
        }
    }

    /// Wakes the instances that wait for another one to let go of an object.
    fn wake_rivals(&self, watch: &CacheKey, object: &StoredObject) {
        for instance in self.context.instances.contenders(&object.key(&watch.cluster)) {
            self.wake_instance(instance);
        }
    }

    /// A copy became complete, failed or follows again: those who read it look again.
    fn wake_users(&self, watch: &CacheKey) {
        for served in self.context.graphs.all() {
            if served.children.iter().any(|child| **child.key() == *watch) {
                self.context.wake_instances(&served);
            }
        }
        for instance in self.context.instances.watchers(watch) {
            self.wake_instance(instance);
        }
    }

    fn wake_instance(&self, instance: ObjectKey) {
        self.context.metrics.matched.inc();
        self.context.instance_queue.add(&InstanceKey(instance));
    }

    /// An instance changed: whoever waits for it to go looks again.
    fn wake_deleting(&self, instance: &StoredObject) {
        let Some(served) = self.context.graphs.serving(instance.group(), instance.kind()) else { return };
        if served.revision.is_none() {
            self.wake(&served.definition);
        }
    }

    fn wake(&self, definition: &Text) {
        self.queue.add(&Key::Definition(definition.clone()));
    }
}

/// Whether two versions of an object differ in more than status and version.
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
