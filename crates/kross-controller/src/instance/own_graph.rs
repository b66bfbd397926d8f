//! The graphs of KubernetesApplicationResources: each is made from the resource's spec and compiled like the graph of a
//! definition, so that a resource is reconciled as an instance.

use std::collections::HashMap;
use std::sync::Arc;

use kross_cluster::{Cache, ObjectKey, StoredObject};
use kross_plan::workload::resource_definition;
use kross_schema::GroupVersionKind;
use kross_value::{Text, Value};
use parking_lot::Mutex;

use crate::context::Context;
use crate::definition::{NotCompiled, compile_single};
use crate::graphs::{DefinedAccess, NoGraph, Served};
use crate::workload::WorkloadKind;

/// What takes the place of the definition's name in labels and in the list of what is served. No definition can have this name.
const DEFINITION: &str = "KubernetesApplicationResource";

/// The graphs of instances that have their own.
///
/// # Lock order
///
/// The lock is a leaf. What is served is dropped outside of it, since it has caches.
#[derive(Default)]
pub(crate) struct OwnGraphs(Mutex<HashMap<ObjectKey, OwnGraph>>);

/// The graph of one instance, with what it was made from.
struct OwnGraph {
    uid: Text,
    generation: Option<i64>,
    /// The Secrets of the resource that targets and claims mark as credentials.
    marked: Vec<Text>,
    served: Arc<Served>,
}

impl OwnGraphs {
    fn get(&self, key: &ObjectKey, instance: &StoredObject, marked: &[Text]) -> Option<Arc<Served>> {
        let graphs = self.0.lock();
        let known = graphs.get(key)?;
        let is_current = known.uid == *instance.uid()
            && known.generation == instance.generation()
            && known.marked == marked;
        is_current.then(|| Arc::clone(&known.served))
    }

    fn keep(&self, key: &ObjectKey, graph: OwnGraph) {
        let before = self.0.lock().insert(key.clone(), graph);
        drop(before);
    }

    /// Forgets the graph of an instance that was deleted.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        let before = self.0.lock().remove(key);
        drop(before);
    }

    fn clear(&self) {
        let before = std::mem::take(&mut *self.0.lock());
        drop(before);
    }
}

/// Serves KubernetesApplicationResources, once their CRD is established.
pub(crate) fn serve_resources(context: &Context, instances: Cache) {
    context.graphs.publish(Served {
        definition: DEFINITION.into(),
        uid: "".into(),
        kind: Arc::new(WorkloadKind::ApplicationResource.api_kind()),
        revision: None,
        deletion_revision: None,
        recorded_access: DefinedAccess::Nothing,
        no_graph: None,
        orphaned: false,
        instances,
        children: Vec::new(),
        external: false,
        own_graphs: true,
    });
}

/// Stops serving them, once their CRD was deleted.
pub(crate) fn withdraw_resources(context: &Context) {
    context.graphs.withdraw(DEFINITION);
    context.own_graphs.clear();
}

/// Whether a resource names a Secret of its namespace.
pub(crate) fn names_secret(resource: &StoredObject, name: &str) -> bool {
    secrets(resource).any(|secret| secret == name)
}

fn secrets(resource: &StoredObject) -> impl Iterator<Item = &str> {
    let secrets = resource.value().at(&["spec", "secrets"]).and_then(Value::as_list).unwrap_or_default();
    secrets.iter().filter_map(|secret| secret.get("name").and_then(Value::as_str))
}

/// What an instance is reconciled by: its definition, or its own graph. None if that cannot be known now.
pub(super) async fn serve(
    context: &Context,
    key: &ObjectKey,
    served: Arc<Served>,
    instance: &StoredObject,
) -> Option<Arc<Served>> {
    if !served.own_graphs {
        return Some(served);
    }
    // One that is being deleted needs no graph: it is deleted by its inventory.
    let is_deleting = instance.deletion_timestamp().is_some();
    let marked = match marked_secrets(context, instance) {
        None if is_deleting => Vec::new(),
        marked => marked?,
    };
    if let Some(known) = context.own_graphs.get(key, instance, &marked) {
        return Some(known);
    }
    let is_marked = |name: &str| marked.iter().any(|marked| marked == name);
    let mut is_kept = true;
    let (revision, no_graph) = match resource_definition(instance.value(), &is_marked) {
        Err(message) => (None, Some(NoGraph::Invalid(message.into()))),
        Ok(spec) => {
            // The only kind of the hub that the graph reads.
            let secret = secrets(instance).next().and_then(|_| GroupVersionKind::new("v1", "Secret").into());
            let kinds: Vec<GroupVersionKind> = secret.into_iter().collect();
            let number = instance.generation().unwrap_or_default();
            match compile_single(context, DEFINITION, &spec, &kinds, number).await {
                Ok(revision) => (Some(revision), None),
                Err(NotCompiled::Invalid(message)) => (None, Some(NoGraph::Invalid(message.into()))),
                Err(NotCompiled::Later(error)) => {
                    tracing::warn!(instance = %key, error, "cannot compile the graph of the resource");
                    is_kept = false;
                    (None, Some(NoGraph::Later(error.into())))
                }
            }
        }
    };
    let own = Arc::new(Served {
        definition: served.definition.clone(),
        uid: served.uid.clone(),
        kind: Arc::clone(&served.kind),
        revision,
        deletion_revision: None,
        recorded_access: DefinedAccess::Nothing,
        no_graph,
        // A resource without a graph is deleted by its inventory.
        orphaned: true,
        instances: served.instances.clone(),
        children: Vec::new(),
        external: false,
        own_graphs: true,
    });
    if is_kept {
        let (uid, generation) = (instance.uid().clone(), instance.generation());
        context.own_graphs.keep(key, OwnGraph { uid, generation, marked, served: Arc::clone(&own) });
    }
    Some(own)
}

/// The Secrets of a resource that targets or claims of its namespace name as their connection Secrets. None while that is not
/// known.
fn marked_secrets(context: &Context, resource: &StoredObject) -> Option<Vec<Text>> {
    let mut named = secrets(resource).peekable();
    if named.peek().is_none() {
        return Some(Vec::new());
    }
    let paths = [
        (WorkloadKind::Target, ["spec", "connectionSecretRef", "name"]),
        (WorkloadKind::Claim, ["spec", "writeConnectionSecretToRef", "name"]),
    ];
    let mut connection = Vec::new();
    for (kind, path) in paths {
        let Some(cache) = context.workload.cache(kind) else { continue };
        for object in cache.list_readable()? {
            if object.namespace() == resource.namespace() {
                connection.extend(object.value().at(&path).and_then(Value::as_str).map(Text::from));
            }
        }
    }
    Some(named.map(Text::from).filter(|name| connection.contains(name)).collect())
}
