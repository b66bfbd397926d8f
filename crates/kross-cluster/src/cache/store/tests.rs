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
fn a_relist_emits_only_the_differences() {
    let mut store = listed(&[("a", 1), ("b", 2), ("c", 3)], 5);
    assert_eq!(relist(&mut store, &[("a", 1), ("b", 7), ("d", 8)], 9), ["~b@7", "+d@8", "-c@3"]);
    assert_eq!(names(&store), ["a", "b", "d"]);
}

#[test]
fn a_list_replaces_the_same_version_with_another_content_and_a_watch_does_not() {
    let mut store = listed(&[("a", 1), ("b", 2)], 5);
    let labelled = || object("a", 1, "other");
    assert!(store.applied(labelled()).is_none() && store.observed(&labelled()).is_none());
    store.begin_list(Some(6));
    let changes = [store.listed(labelled()), store.listed(object("b", 2, "i"))];
    assert_eq!(changes.iter().flatten().map(describe).collect::<Vec<_>>(), ["~a@1"]);
    assert_eq!(store.by_label(LABEL, "other").len(), 1);
}

#[test]
fn a_list_is_right_about_everything_that_is_not_newer_than_it() {
    let mut store = listed(&[("a", 1)], 5);
    store.applied(object("a", 7, "i"));
    store.observed(&object("b", 8, "i"));
    // Without any other sign of a restore: the list is newer than all that was seen.
    assert_eq!(relist(&mut store, &[("a", 3)], 20), ["~a@3", "-b@8"]);
}

#[test]
fn a_list_that_is_older_than_a_write_before_it_is_of_another_history() {
    let mut store = listed(&[("a", 1)], 5);
    store.observed(&object("b", 8, "i"));
    store.request_list();
    store.observed(&object("c", 9, "i"));
    assert!(store.is_rollback(Some(7)) && !store.is_rollback(Some(8)));
    let mut changes = relist(&mut store, &[("a", 1)], 7);
    changes.sort();
    assert_eq!(changes, ["-b@8", "-c@9"]);
    assert_eq!((store.progress(), store.highest()), (7, 7));
    store.observed(&object("b", 8, "i"));
    assert_eq!(names(&store), ["a", "b"]);
}

#[test]
fn trims_the_given_version_of_an_object_and_no_other() {
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
fn a_write_of_ours_is_cached_at_once_and_emits_one_event() {
    let mut store = listed(&[("a", 1)], 5);
    let Some(Change::Applied { ours: true, .. }) = store.observed(&object("a", 7, "i")) else { panic!() };
    assert!(store.applied(object("a", 7, "i")).is_none());
    // An event from before the write is outdated.
    let mut store = listed(&[("a", 1)], 5);
    store.observed(&object("a", 7, "i"));
    assert!(store.applied(object("a", 6, "i")).is_none());
    assert!(store.deleted(&object("a", 6, "i")).is_none());
    assert_eq!(describe(&store.applied(object("a", 8, "i")).unwrap()), "~a@8");
}

#[test]
fn a_late_response_to_a_write_does_not_bring_back_a_deleted_object() {
    let mut store = listed(&[("a", 1)], 5);
    assert_eq!(describe(&store.deleted(&object("a", 9, "i")).unwrap()), "-a@1");
    // The response to our write of version 7 arrives after the event that version 9 was deleted.
    assert!(store.observed(&object("a", 7, "i")).is_none());
    assert!(names(&store).is_empty());
}

#[test]
fn a_write_of_ours_during_a_list_stays_cached() {
    let mut store = listed(&[("a", 1)], 5);
    store.begin_list(Some(6));
    store.listed(object("a", 1, "i"));
    store.observed(&object("b", 8, "i"));
    assert!(store.end_list().is_empty());
    assert_eq!(names(&store), ["a", "b"]);
}

#[test]
fn a_write_of_ours_before_the_first_sync_is_cached_with_the_sync() {
    let mut store = Store::new(vec![LABEL]);
    store.begin_list(Some(6));
    store.listed(object("a", 1, "i"));
    for (name, version) in [("a", 8), ("a", 7), ("b", 9), ("c", 5)] {
        assert!(
            store.observed(&object(name, version, "i")).is_none(),
            "no event before the cache has synced"
        );
    }
    let mut changes: Vec<_> = store.end_list().iter().map(describe).collect();
    changes.sort_unstable();
    assert_eq!(changes, ["+b@9", "~a@8"], "an object that is older than the list and not in it was deleted");
    assert!(store.applied(object("b", 9, "i")).is_none());
    // A kind that is no longer served takes with it what was written before.
    store.clear();
    store.observed(&object("d", 10, "i"));
    store.clear();
    assert_eq!(relist(&mut store, &[("a", 8)], 9), ["+a@8"]);
}

#[test]
fn a_poll_that_began_before_we_deleted_an_object_does_not_bring_it_back() {
    let mut store = listed(&[("a", 1), ("b", 2)], 5);
    store.begin_poll();
    assert_eq!(describe(&store.observed_deleted(&object("a", 1, "i")).unwrap()), "-a@1");
    assert_eq!(relist(&mut store, &[("a", 7), ("b", 2)], 7), [""; 0]);
    assert_eq!(names(&store), ["b"]);
    // Another object of that name is listed by the next poll.
    store.begin_poll();
    let again = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "shop", "uid": "another", "resourceVersion": "9"}});
    store.begin_list(Some(9));
    assert!(store.listed(read_object(again.to_string().as_bytes()).unwrap()).is_some());
}

#[test]
fn a_list_with_an_earlier_resource_version_replaces_the_cache() {
    let mut store = listed(&[("a", 100), ("b", 101)], 120);
    assert_eq!(relist(&mut store, &[("a", 40)], 50), ["~a@40", "-b@101"]);
    assert_eq!(describe(&store.applied(object("c", 51, "i")).unwrap()), "+c@51");
}

#[test]
fn an_index_is_updated_when_a_label_changes() {
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
fn resource_versions_that_are_not_numbers_are_applied_in_order_of_arrival() {
    let mut store = Store::new(vec![]);
    let opaque = |version: &str| {
        let json = format!(r#"{{"metadata":{{"name":"a","uid":"a","resourceVersion":"{version}"}}}}"#);
        read_object(json.as_bytes()).unwrap()
    };
    store.begin_list(None);
    store.listed(opaque("x1"));
    store.end_list();
    assert!(store.applied(opaque("w0")).is_some());
    assert!(store.applied(opaque("w0")).is_none());
    assert!(store.observed(&opaque("y")).is_none());
}

/// A cluster with a history, as lists and watch events of the store see it.
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
enum Action {
    /// Somebody else writes.
    Write(u8),
    /// We write, and the response arrives later.
    OurWrite(u8),
    Delete(u8),
    /// The oldest or the newest response arrives.
    Response(bool),
    /// This many events arrive.
    Events(usize),
    Bookmark,
    /// A list begins: the first half of it is read.
    BeginList,
    EndList,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0_u8..6).prop_map(Action::Write),
        (0_u8..6).prop_map(Action::OurWrite),
        (0_u8..6).prop_map(Action::Delete),
        any::<bool>().prop_map(Action::Response),
        (1_usize..4).prop_map(Action::Events),
        Just(Action::Bookmark),
        Just(Action::BeginList),
        Just(Action::EndList),
    ]
}

/// A store, its position in the history of the cluster, and a mirror that a subscriber built from its events.
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
        let deleted = self.store.end_list();
        self.emit(deleted);
        self.position = version;
    }
}

proptest! {
    /// However lists, events and responses to our own writes interleave, the cache ends up with the content of the
    /// cluster, and so does a subscriber that applies its events.
    #[test]
    fn the_cache_converges_to_the_content_of_the_cluster(actions in prop::collection::vec(action(), 1..120)) {
        let mut cluster = Cluster::default();
        let mut replica =
            Replica { store: Store::new(vec![]), position: 0, list: None, mirror: BTreeMap::new() };
        let mut responses: Vec<StoredObject> = Vec::new();
        for action in actions {
            match action {
                Action::Write(name) => drop(cluster.write(name)),
                Action::OurWrite(name) => responses.push(cluster.write(name)),
                Action::Delete(name) => cluster.delete(name),
                Action::Response(oldest) => {
                    if !responses.is_empty() {
                        let response = responses.remove(if oldest { 0 } else { responses.len() - 1 });
                        let change = replica.store.observed(&response);
                        replica.emit(change);
                    }
                }
                Action::Events(most) => replica.events(&cluster, most),
                Action::Bookmark => {
                    // Bookmarks arrive in order with events, so they add nothing to them.
                    replica.store.advance(Some(replica.position));
                }
                Action::BeginList => replica.begin_list(&cluster),
                Action::EndList => replica.end_list(),
            }
        }
        if replica.list.is_none() && !replica.store.has_synced() {
            replica.begin_list(&cluster);
        }
        replica.end_list();
        replica.events(&cluster, usize::MAX);
        for response in responses {
            let change = replica.store.observed(&response);
            prop_assert!(change.is_none(), "an outdated response changed the cache");
        }
        let cached: BTreeMap<String, String> = replica
            .store
            .iter()
            .map(|object| (object.name().to_string(), object.resource_version().to_string()))
            .collect();
        let existing: BTreeMap<String, String> = cluster
            .objects
            .values()
            .map(|object| (object.name().to_string(), object.resource_version().to_string()))
            .collect();
        prop_assert_eq!(cached, existing);
    }
}
