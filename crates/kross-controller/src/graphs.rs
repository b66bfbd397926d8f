//! The definitions that are served: a reconcile of a definition publishes its graph here, and reconciles of its instances
//! use it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kross_api::ResourceGraphDefinitionSpec;
use kross_cluster::{ApiKind, Cache, Selection};
use kross_diagnostics::Diagnostics;
use kross_graph::{AccountTemplate, Graph};
use kross_value::Text;
use parking_lot::RwLock;

/// A definition that is served.
#[derive(Debug)]
pub struct Served {
    /// The definition's name.
    pub definition: Text,
    /// Its UID.
    pub uid: Text,
    /// The kind of its instances.
    pub kind: Arc<ApiKind>,
    /// The active revision and its graph; none if no objects are applied: the definition is invalid, is being deleted, or
    /// was deleted.
    pub revision: Option<Revision>,
    /// The revision that instances are deleted by if there is no active one, as far as one is known.
    pub deletion_revision: Option<Revision>,
    /// The ServiceAccount that the definition asks for, where no graph is known.
    pub recorded_access: DefinedAccess,
    /// Why there is no active revision, where instances report it.
    pub no_graph: Option<NoGraph>,
    /// Whether the definition itself was deleted.
    pub orphaned: bool,
    /// The cache of its instances.
    pub instances: Cache,
    /// The caches of its instances' objects in the hub, one for each kind.
    pub children: Vec<Cache>,
    /// Whether the kind existed before, so that its status belongs to another controller.
    pub external: bool,
    /// Whether each instance has a graph of its own, made from its spec: they are KubernetesApplicationResources.
    pub own_graphs: bool,
}

impl Served {
    /// The graph that instances are deleted by.
    #[must_use]
    pub fn deletion_graph(&self) -> Option<&Graph> {
        self.revision.as_ref().or(self.deletion_revision.as_ref()).map(|revision| &*revision.graph)
    }
}

/// The ServiceAccount that a definition asks for, where its graph is not known.
#[derive(Clone, Debug, Default)]
pub enum DefinedAccess {
    /// None.
    #[default]
    Nothing,
    /// This one.
    Account(Arc<AccountTemplate>),
    /// One, but it cannot be compiled.
    Invalid,
}

/// Why a definition has no active revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoGraph {
    /// The definition is invalid. Every instance reports this message.
    Invalid(Text),
    /// The definition is being deleted, or was deleted. An instance reports this message if its spec is newer than its
    /// status.
    Deleted(Text),
    /// It cannot be compiled now, and is compiled again. An instance reports this message if its spec is newer than its status.
    Later(Text),
}

/// A revision that was compiled.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its number.
    pub number: i64,
    /// The fingerprint of the hub's schemas that it was compiled against.
    pub fingerprint: Text,
    /// Its graph.
    pub graph: Arc<Graph>,
    /// Which objects of its kind are instances.
    pub selection: Selection,
    /// The spec that it was compiled from.
    pub spec: Arc<ResourceGraphDefinitionSpec>,
    /// The fingerprint of the schemas of the other clusters that it refers to.
    pub clusters: Text,
    /// Whether the schemas of one of these clusters are unknown.
    pub provisional: bool,
    /// Why it does not fit the schemas of these clusters any more, if so.
    pub mismatch: Option<Text>,
    /// What does not fit the hub's schemas in clusters that depend on the instance.
    pub warnings: Option<Arc<Diagnostics>>,
}

/// The kinds that a definition names, by group and kind.
pub(crate) type NamedKinds = HashSet<(Text, Text)>;

/// Every definition that is served.
///
/// # Lock order
///
/// The lock of `state` is a leaf: nothing else is locked while it is held, and no [`Served`] is dropped under it, since its
/// caches take the lock of their registry when they are dropped.
#[derive(Debug, Default)]
pub struct Graphs {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    served: HashMap<Text, Arc<Served>>,
    /// The definitions that serve a kind, by group and kind. Several definitions may select objects of one existing kind.
    kinds: HashMap<(Text, Text), BTreeSet<Text>>,
    /// The kinds that each definition names.
    named: HashMap<Text, NamedKinds>,
    /// The revision of each definition that was compiled last, whether or not its API is served yet.
    compiled: HashMap<Text, Revision>,
}

impl Graphs {
    /// A definition that is served, by name.
    #[must_use]
    pub fn get(&self, definition: &str) -> Option<Arc<Served>> {
        self.read(|state| state.served.get(definition).cloned())
    }

    /// The definitions that serve a kind, in the order of their names: one, or several that select objects of an existing kind.
    #[must_use]
    pub fn serving(&self, group: &str, kind: &str) -> Vec<Arc<Served>> {
        let key = (Text::from(group), Text::from(kind));
        self.read(|state| {
            let names = state.kinds.get(&key).into_iter().flatten();
            names.filter_map(|name| state.served.get(name).cloned()).collect()
        })
    }

    /// All definitions that are served.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Served>> {
        self.read(|state| state.served.values().cloned().collect())
    }

    /// Serves a definition, or replaces what it serves.
    pub(crate) fn publish(&self, served: Served) {
        let before = self.write(|state| {
            let kind = (served.kind.group.clone(), served.kind.kind.clone());
            state.kinds.entry(kind).or_default().insert(served.definition.clone());
            state.served.insert(served.definition.clone(), Arc::new(served))
        });
        drop(before);
    }

    /// Stops serving a definition, and forgets all of it.
    pub(crate) fn withdraw(&self, definition: &str) {
        let removed = self.write(|state| {
            state.named.remove(definition);
            state.compiled.remove(definition);
            state.kinds.retain(|_, serving| {
                serving.remove(definition);
                !serving.is_empty()
            });
            state.served.remove(definition)
        });
        drop(removed);
    }

    /// The revision of a definition that was compiled last.
    pub(crate) fn compiled(&self, definition: &str) -> Option<Revision> {
        self.read(|state| state.compiled.get(definition).cloned())
    }

    /// Stores the revision of a definition that was compiled last.
    pub(crate) fn store_compiled(&self, definition: &Text, revision: Revision) {
        self.write(|state| state.compiled.insert(definition.clone(), revision));
    }

    /// Stores which kinds a definition names.
    pub(crate) fn store_named_kinds(&self, definition: &Text, kinds: NamedKinds) {
        self.write(|state| state.named.insert(definition.clone(), kinds));
    }

    /// The definitions that name a kind.
    pub(crate) fn naming(&self, group: &str, kind: &str) -> Vec<Text> {
        let key = (Text::from(group), Text::from(kind));
        self.read(|state| {
            let naming = state.named.iter().filter(|(_, kinds)| kinds.contains(&key));
            naming.map(|(definition, _)| definition.clone()).collect()
        })
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read())
    }

    fn write<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        write(&mut self.state.write())
    }
}
