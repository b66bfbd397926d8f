//! The graphs that are being served: what a definition's reconcile publishes, and instances are reconciled by.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kross_api::ResourceGraphDefinitionSpec;
use kross_cluster::{ApiKind, Cache, Selection};
use kross_graph::Graph;
use kross_value::Text;
use parking_lot::RwLock;
use tokio::sync::watch;

/// A definition that is being served.
#[derive(Debug)]
pub struct Served {
    /// The definition's name.
    pub definition: Text,
    /// Its UID.
    pub uid: Text,
    /// The kind whose objects are its instances.
    pub kind: Arc<ApiKind>,
    /// The revision and its graph; none while nothing new is made: the definition is being deleted, has a mistake, or is
    /// gone.
    pub revision: Option<Revision>,
    /// The revision by which instances go while nothing new is made, as far as there is one.
    pub leaving: Option<Revision>,
    /// Why nothing new is made, where instances say so.
    pub halt: Option<Halt>,
    /// Whether the definition itself is gone.
    pub orphaned: bool,
    /// Its instances.
    pub instances: Cache,
    /// The objects of its instances, one watch for each kind.
    pub children: Vec<Cache>,
    /// Whether the kind existed before, so that its status belongs to another controller.
    pub external: bool,
}

impl Served {
    /// The graph by which instances go.
    #[must_use]
    pub fn leaving_graph(&self) -> Option<&Graph> {
        self.revision.as_ref().or(self.leaving.as_ref()).map(|revision| &*revision.graph)
    }
}

/// Why nothing new is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The definition stays and has no graph, which every instance says.
    Broken(Text),
    /// The definition goes or is gone, which an instance says that waits for something new.
    Ended(Text),
}

/// A revision that is active.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its number.
    pub number: i64,
    /// What the schemas were that it was compiled against.
    pub fingerprint: Text,
    /// Its graph.
    pub graph: Arc<Graph>,
    /// Which objects of its kind are instances.
    pub selection: Selection,
    /// What it was compiled from.
    pub spec: Arc<ResourceGraphDefinitionSpec>,
    /// What the schemas of the other clusters were that it names.
    pub clusters: Text,
    /// Whether one of these clusters could not be asked.
    pub provisional: bool,
    /// Why it does not fit the schemas of these clusters any more, if so.
    pub mismatch: Option<Text>,
}

/// Which kinds a definition names, by group and kind.
pub(crate) type Interests = HashSet<(Text, Text)>;

/// Every definition that is being served.
///
/// # Lock order
///
/// The lock of `state` is a leaf: nothing is locked while it is held, and no [`Served`] is dropped under it, since its caches
/// take the lock of their registry when they are dropped.
#[derive(Debug)]
pub struct Graphs {
    state: RwLock<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    served: HashMap<Text, Arc<Served>>,
    /// Which definition serves a kind, by group and kind.
    kinds: HashMap<(Text, Text), Text>,
    interests: HashMap<Text, Interests>,
    /// The revision of each definition that was compiled last, whether or not its API is served yet.
    compiled: HashMap<Text, Revision>,
}

impl Default for Graphs {
    fn default() -> Self {
        Self { state: RwLock::default(), changed: watch::channel(0).0 }
    }
}

impl Graphs {
    /// What a definition serves.
    #[must_use]
    pub fn get(&self, definition: &str) -> Option<Arc<Served>> {
        self.read(|state| state.served.get(definition).cloned())
    }

    /// Who serves a kind.
    #[must_use]
    pub fn serving(&self, group: &str, kind: &str) -> Option<Arc<Served>> {
        let key = (Text::from(group), Text::from(kind));
        self.read(|state| state.served.get(state.kinds.get(&key)?).cloned())
    }

    /// Everything that is being served.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Served>> {
        self.read(|state| state.served.values().cloned().collect())
    }

    /// A number that moves whenever something begins, changes or ends.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Begins to serve, or goes on with another revision.
    pub(crate) fn publish(&self, served: Served) {
        let before = self.write(|state| {
            let kind = (served.kind.group.clone(), served.kind.kind.clone());
            state.kinds.insert(kind, served.definition.clone());
            state.served.insert(served.definition.clone(), Arc::new(served))
        });
        // Outside the lock: the caches of the one before take the lock of their registry when they are dropped.
        drop(before);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Ends serving. Nothing is left of the definition.
    pub(crate) fn withdraw(&self, definition: &str) {
        let removed = self.write(|state| {
            state.interests.remove(definition);
            state.compiled.remove(definition);
            state.kinds.retain(|_, serving| *serving != *definition);
            state.served.remove(definition)
        });
        if removed.is_some() {
            self.changed.send_modify(|count| *count += 1);
        }
    }

    /// The revision that was compiled last.
    pub(crate) fn compiled(&self, definition: &str) -> Option<Revision> {
        self.read(|state| state.compiled.get(definition).cloned())
    }

    /// Remembers a revision that was compiled.
    pub(crate) fn keep_compiled(&self, definition: &Text, revision: Revision) {
        self.write(|state| state.compiled.insert(definition.clone(), revision));
    }

    /// Remembers which kinds a definition names.
    pub(crate) fn remember(&self, definition: &Text, kinds: Interests) {
        self.write(|state| state.interests.insert(definition.clone(), kinds));
    }

    /// The definitions that name a kind.
    pub(crate) fn naming(&self, group: &str, kind: &str) -> Vec<Text> {
        let key = (Text::from(group), Text::from(kind));
        self.read(|state| {
            let naming = state.interests.iter().filter(|(_, kinds)| kinds.contains(&key));
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
