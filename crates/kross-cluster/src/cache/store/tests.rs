use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::object::read_object;

const LABEL: &str = "kro.run/instance-id";

fn object(name: &str, version: u64, instance: &str) -> StoredObject {
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version.to_string(),
                     "labels": {LABEL: instance}}
    });
    read_object(json.to_string().as_bytes()).unwrap()
}

fn listed(objects: &[(&str, u64)], version: u64) -> Store {
    let mut store = Store::new(vec![LABEL]);
    relist(&mut store, objects, version);
    store
}

fn relist(store: &mut Store, objects: &[(&str, u64)], version: u64) -> Vec<String> {
    store.begin_list(Some(version));
    let mut changes: Vec<_> =
        objects.iter().filter_map(|(name, version)| store.listed(object(name, *version, "i"))).collect();
    changes.extend(store.end_list());
    changes.iter().map(describe).collect()
}

fn describe(change: &Change) -> String {
    match change {
        Change::Applied { old: None, new, .. } => format!("+{}@{}", new.name(), new.resource_version()),
        Change::Applied { new, .. } => format!("~{}@{}", new.name(), new.resource_version()),
        Change::Deleted { old } => format!("-{}@{}", old.name(), old.resource_version()),
        other => format!("{other:?}"),
    }
}

fn names(store: &Store) -> Vec<&str> {
    let mut names: Vec<&str> = store.iter().map(|object| object.name().as_str()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_new_list_changes_only_what_is_different() {
    let mut store = listed(&[("a", 1), ("b", 2), ("c", 3)], 5);
    assert_eq!(relist(&mut store, &[("a", 1), ("b", 7), ("d", 8)], 9), ["~b@7", "+d@8", "-c@3"]);
    assert_eq!(names(&store), ["a", "b", "d"]);
}

#[test]
fn less_is_kept_of_the_version_that_was_looked_at_and_of_no_other() {
    let mut store = listed(&[("a", 1)], 5);
    let (old, new) = (object("a", 1, "i"), object("a", 7, "i"));
    let less = || Value::object([("kind", Value::from("ConfigMap"))]);
    store.trim(&old, less());
    let kept = store.get(Some("shop"), "a").unwrap();
    assert_eq!((kept.value(), kept.label(LABEL)), (&less(), Some("i")));
    assert!(store.applied(new.clone()).is_some());
    store.trim(&old, less());
    assert_eq!(store.get(Some("shop"), "a").unwrap().value(), new.value());
    assert_eq!(store.by_label(LABEL, "i").len(), 1);
}

#[test]
fn our_own_write_is_known_at_once_and_not_told_again() {
    let mut store = listed(&[("a", 1)], 5);
    let Some(Change::Applied { ours: true, .. }) = store.observed(&object("a", 7, "i")) else { panic!() };
    assert!(store.applied(object("a", 7, "i")).is_none());
    // An event from before the write is old news.
    let mut store = listed(&[("a", 1)], 5);
    store.observed(&object("a", 7, "i"));
    assert!(store.applied(object("a", 6, "i")).is_none());
    assert!(store.deleted(&object("a", 6, "i")).is_none());
    assert_eq!(describe(&store.applied(object("a", 8, "i")).unwrap()), "~a@8");
}

#[test]
fn our_own_write_does_not_bring_back_what_is_gone() {
    let mut store = listed(&[("a", 1)], 5);
    assert_eq!(describe(&store.deleted(&object("a", 9, "i")).unwrap()), "-a@1");
    // The answer to our write of version 7 arrives after the news that version 9 is the end of it.
    assert!(store.observed(&object("a", 7, "i")).is_none());
    assert!(names(&store).is_empty());
}

#[test]
fn what_we_wrote_while_a_list_was_read_stays() {
    let mut store = listed(&[("a", 1)], 5);
    store.begin_list(Some(6));
    store.listed(object("a", 1, "i"));
    store.observed(&object("b", 8, "i"));
    assert!(store.end_list().is_empty());
    assert_eq!(names(&store), ["a", "b"]);
}

#[test]
fn what_we_wrote_before_the_first_list_was_complete_is_known_with_it() {
    let mut store = Store::new(vec![LABEL]);
    store.begin_list(Some(6));
    store.listed(object("a", 1, "i"));
    for (name, version) in [("a", 8), ("a", 7), ("b", 9), ("c", 5)] {
        assert!(
            store.observed(&object(name, version, "i")).is_none(),
            "nothing is told of what is not known"
        );
    }
    let mut changes: Vec<_> = store.end_list().iter().map(describe).collect();
    changes.sort_unstable();
    assert_eq!(changes, ["+b@9", "~a@8"], "what is older than the list is gone: the list would have it");
    assert!(store.applied(object("b", 9, "i")).is_none());
    // A kind that went took with it what was written before.
    store.clear();
    store.observed(&object("d", 10, "i"));
    store.clear();
    assert_eq!(relist(&mut store, &[("a", 8)], 9), ["+a@8"]);
}

#[test]
fn a_look_that_began_before_we_found_an_object_gone_does_not_bring_it_back() {
    let mut store = listed(&[("a", 1), ("b", 2)], 5);
    store.begin_poll();
    assert_eq!(describe(&store.observed_deleted(&object("a", 1, "i")).unwrap()), "-a@1");
    assert_eq!(relist(&mut store, &[("a", 7), ("b", 2)], 7), [""; 0]);
    assert_eq!(names(&store), ["b"]);
    // Another one of that name, as any look after it tells.
    store.begin_poll();
    let again = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "shop", "uid": "another", "resourceVersion": "9"}});
    store.begin_list(Some(9));
    assert!(store.listed(read_object(again.to_string().as_bytes()).unwrap()).is_some());
}

#[test]
fn a_cluster_whose_versions_went_backwards_is_believed() {
    let mut store = listed(&[("a", 100), ("b", 101)], 120);
    assert_eq!(relist(&mut store, &[("a", 40)], 50), ["~a@40", "-b@101"]);
    assert_eq!(describe(&store.applied(object("c", 51, "i")).unwrap()), "+c@51");
}

#[test]
fn an_index_follows_its_label() {
    let mut store = Store::new(vec![LABEL]);
    store.begin_list(Some(1));
    store.listed(object("a", 1, "one"));
    store.listed(object("b", 1, "one"));
    store.end_list();
    assert_eq!(store.by_label(LABEL, "one").len(), 2);
    store.applied(object("b", 2, "two"));
    assert_eq!((store.by_label(LABEL, "one").len(), store.by_label(LABEL, "two").len()), (1, 1));
    store.deleted(&object("b", 3, "two"));
    assert!(store.by_label(LABEL, "two").is_empty());
    assert_eq!(store.by_label("other", "x").len(), 0);
    assert!(store.indexes[0].len() == 1, "empty values are dropped");
}

#[test]
fn versions_that_are_no_numbers_are_taken_in_the_order_they_come() {
    let mut store = Store::new(vec![]);
    let odd = |version: &str| {
        let json = format!(r#"{{"metadata":{{"name":"a","uid":"a","resourceVersion":"{version}"}}}}"#);
        read_object(json.as_bytes()).unwrap()
    };
    store.begin_list(None);
    store.listed(odd("x1"));
    store.end_list();
    assert!(store.applied(odd("w0")).is_some());
    assert!(store.applied(odd("w0")).is_none());
    assert!(store.observed(&odd("y")).is_none());
}

/// A cluster with a history, as the store's lists and events see it.
#[derive(Default)]
struct Cluster {
    version: u64,
    objects: BTreeMap<u8, StoredObject>,
    history: Vec<(u64, bool, StoredObject)>,
}

impl Cluster {
    fn write(&mut self, name: u8) -> StoredObject {
        self.version += 1;
        let known = self.objects.get(&name);
        let uid = known.map_or_else(|| format!("{name}-{}", self.version), |known| known.uid().to_string());
        let json = serde_json::json!({"metadata": {
            "name": name.to_string(), "uid": uid, "resourceVersion": self.version.to_string()}});
        let object = read_object(json.to_string().as_bytes()).unwrap();
        self.objects.insert(name, object.clone());
        self.history.push((self.version, true, object.clone()));
        object
    }

    fn delete(&mut self, name: u8) {
        if let Some(object) = self.objects.remove(&name) {
            self.version += 1;
            let json = serde_json::json!({"metadata": {
                "name": name.to_string(), "uid": object.uid().as_str(), "resourceVersion": self.version.to_string()}});
            let last = read_object(json.to_string().as_bytes()).unwrap();
            self.history.push((self.version, false, last));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Somebody writes.
    Write(u8),
    /// We write, and the answer comes later.
    OurWrite(u8),
    Delete(u8),
    /// The oldest or the newest answer comes.
    Answer(bool),
    /// So many events come.
    Events(usize),
    Bookmark,
    /// A list begins: the first half of it is read.
    BeginList,
    EndList,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u8..6).prop_map(Step::Write),
        (0_u8..6).prop_map(Step::OurWrite),
        (0_u8..6).prop_map(Step::Delete),
        any::<bool>().prop_map(Step::Answer),
        (1_usize..4).prop_map(Step::Events),
        Just(Step::Bookmark),
        Just(Step::BeginList),
        Just(Step::EndList),
    ]
}

/// A store, where it is in the cluster's history, and what a subscriber has made of its changes.
struct Replica {
    store: Store,
    position: u64,
    list: Option<(u64, Vec<StoredObject>)>,
    mirror: BTreeMap<String, Arc<StoredObject>>,
}

impl Replica {
    fn emit(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            match change {
                Change::Applied { old, new, .. } => {
                    let before = self.mirror.insert(new.name().to_string(), new);
                    assert_eq!(before, old);
                }
                Change::Deleted { old } => assert_eq!(self.mirror.remove(old.name().as_str()), Some(old)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(self.mirror.len(), self.store.len());
    }

    fn events(&mut self, cluster: &Cluster, most: usize) {
        if self.list.is_some() || !self.store.has_synced() {
            return;
        }
        let position = self.position;
        let next = cluster.history.iter().filter(|(version, ..)| *version > position).take(most);
        for (version, applied, object) in next {
            let change =
                if *applied { self.store.applied(object.clone()) } else { self.store.deleted(object) };
            self.position = *version;
            self.emit(change);
        }
    }

    fn begin_list(&mut self, cluster: &Cluster) {
        self.store.begin_list(Some(cluster.version));
        let mut items: Vec<_> = cluster.objects.values().cloned().collect();
        let rest = items.split_off(items.len() / 2);
        for object in items {
            let change = self.store.listed(object);
            self.emit(change);
        }
        self.list = Some((cluster.version, rest));
    }

    fn end_list(&mut self) {
        let Some((version, rest)) = self.list.take() else { return };
        for object in rest {
            let change = self.store.listed(object);
            self.emit(change);
        }
        let gone = self.store.end_list();
        self.emit(gone);
        self.position = version;
    }
}

proptest! {
    /// However lists, events and answers to our own writes interleave, the copy ends up as the cluster is, and whoever
    /// follows its changes has the same.
    #[test]
    fn the_copy_ends_up_as_the_cluster_is(steps in prop::collection::vec(step(), 1..120)) {
        let mut cluster = Cluster::default();
        let mut replica =
            Replica { store: Store::new(vec![]), position: 0, list: None, mirror: BTreeMap::new() };
        let mut answers: Vec<StoredObject> = Vec::new();
        for step in steps {
            match step {
                Step::Write(name) => drop(cluster.write(name)),
                Step::OurWrite(name) => answers.push(cluster.write(name)),
                Step::Delete(name) => cluster.delete(name),
                Step::Answer(oldest) => {
                    if !answers.is_empty() {
                        let answer = answers.remove(if oldest { 0 } else { answers.len() - 1 });
                        let change = replica.store.observed(&answer);
                        replica.emit(change);
                    }
                }
                Step::Events(most) => replica.events(&cluster, most),
                Step::Bookmark => {
                    // Bookmarks come in order with events, so they say no more than those.
                    replica.store.advance(Some(replica.position));
                }
                Step::BeginList => replica.begin_list(&cluster),
                Step::EndList => replica.end_list(),
            }
        }
        if replica.list.is_none() && !replica.store.has_synced() {
            replica.begin_list(&cluster);
        }
        replica.end_list();
        replica.events(&cluster, usize::MAX);
        for answer in answers {
            let change = replica.store.observed(&answer);
            prop_assert!(change.is_none(), "an old answer changed the copy");
        }
        let copy: BTreeMap<String, String> = replica
            .store
            .iter()
            .map(|object| (object.name().to_string(), object.resource_version().to_string()))
            .collect();
        let there: BTreeMap<String, String> = cluster
            .objects
            .values()
            .map(|object| (object.name().to_string(), object.resource_version().to_string()))
            .collect();
        prop_assert_eq!(copy, there);
    }
}
