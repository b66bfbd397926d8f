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
