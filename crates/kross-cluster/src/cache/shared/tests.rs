use super::*;
use crate::cache::{Caches, Selection, SyncPolicy};
use crate::object::{ClusterId, read_object, read_object_or_outline};

fn shared() -> Arc<SharedCache> {
    let key = CacheKey {
        cluster: ClusterId::new("eu"),
        access: "one".into(),
        group: "".into(),
        kind: "ConfigMap".into(),
        version: "v1".into(),
        selection: Selection::All,
        sync: SyncPolicy::Watch,
    };
    let load = ClusterLoad::remote(None);
    Arc::new(SharedCache::new(key, &CacheOptions::default(), Arc::default(), load))
}

fn list(writer: &WriterToken, version: u64, names: &[&str]) {
    writer.change(|store| {
        store.begin_list(Some(version));
        let object = |name: &&str| {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"{name}","resourceVersion":"1"}}}}"#
            );
            read_object(text.as_bytes()).unwrap()
        };
        names.iter().filter_map(|name| store.listed(object(name))).collect::<Vec<_>>()
    });
}

#[test]
fn writes_of_a_superseded_reflector_are_ignored() {
    let shared = shared();
    let first = WriterToken::acquire(&shared, SyncMode::Watch);
    list(&first, 5, &["a", "b"]);
    let second = WriterToken::acquire(&shared, SyncMode::Watch);
    // The first page of its list.
    list(&second, 7, &["a"]);
    // The end of a list that was superseded deletes nothing, and does not complete the cache.
    first.synced(true);
    assert!(!shared.has_synced());
    assert!(matches!(shared.get(Some("shop"), "b"), Lookup::Found(_)));
    let state = || shared.state(1);
    first.live();
    assert_eq!((state().opened, state().phase), (0, CachePhase::Listing));
    second.synced(true);
    assert!(matches!(shared.get(Some("shop"), "b"), Lookup::Absent));
    assert_eq!((state().lists, state().phase), (1, CachePhase::Live));
}

#[test]
fn a_reflector_that_panicked_is_not_live_and_takes_over_only_from_itself() {
    let shared = shared();
    let first = WriterToken::acquire(&shared, SyncMode::Watch);
    list(&first, 5, &["a"]);
    first.synced(true);
    first.panicked();
    assert_eq!(shared.state(1).phase, CachePhase::Failed);
    let failure = shared.state(1).failure.unwrap();
    assert!(failure.message().contains("internal error"), "{failure}");
    let renewed = first.renew(SyncMode::Watch).unwrap();
    first.synced(true);
    assert_eq!(shared.state(1).lists, 1, "the token was revoked");
    renewed.synced(true);
    assert_eq!((shared.state(1).lists, shared.state(1).phase), (2, CachePhase::Live));
    let second = WriterToken::acquire(&shared, SyncMode::Watch);
    renewed.panicked();
    assert!(renewed.renew(SyncMode::Watch).is_none());
    assert_eq!(shared.state(1).phase, CachePhase::Live);
    second.synced(true);
    assert_eq!(shared.state(1).lists, 3);
}

/// An object that cannot be read, with a label.
fn unreadable(name: &str, version: u64) -> StoredObject {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(140), "}".repeat(140));
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"{name}","resourceVersion":"{version}",
        "labels":{{"tier":"web"}}}},"data":{deep}}}"#
    );
    read_object_or_outline(text.as_bytes()).unwrap()
}

#[tokio::test]
async fn an_unreadable_object_is_unknown_until_it_is_readable_or_deleted() {
    let shared = shared();
    let caches = Caches::new(CacheOptions::default());
    let writer = WriterToken::acquire(&shared, SyncMode::Watch);
    writer.change(|store| {
        store.begin_list(Some(5));
        store.listed(unreadable("deep", 3))
    });
    writer.change(|store| {
        let text = br#"{"metadata":{"name":"a","namespace":"shop","uid":"a","resourceVersion":"1"}}"#;
        store.listed(read_object(text).unwrap())
    });
    let cache = Cache::new(Arc::clone(&shared), Arc::clone(&caches.registry));
    assert!(cache.failure().is_none(), "the cache has not synced");
    writer.synced(true);
    // The others are in sync, and nobody takes the unreadable one for deleted.
    assert!(matches!(cache.get(Some("shop"), "a"), Lookup::Found(_)));
    assert_eq!(cache.get(Some("shop"), "b"), Lookup::Absent);
    assert_eq!(cache.get(Some("shop"), "deep"), Lookup::Unknown);
    assert!(
        cache.unreadable(Some("shop"), "deep").is_some() && cache.unreadable(Some("shop"), "a").is_none()
    );
    assert!(cache.is_authoritative() && !cache.is_complete());
    assert!(cache.list().is_none() && cache.list_by_label("tier", "web").is_none());
    assert_eq!((cache.list_readable().unwrap().len(), cache.known().len()), (1, 2));
    assert_eq!(cache.list_by_label("tier", "db"), Some(Vec::new()));
    assert!(cache.known_by_label("tier", "web").is_empty());
    let failure = cache.failure().unwrap().to_string();
    assert!(failure.contains("ConfigMap `shop/deep`") && failure.contains("nested too deeply"), "{failure}");
    assert_eq!(shared.state(1).unreadable, 1);
    // A list without it means that it was deleted, as for every other object.
    writer.change(|store| store.applied(unreadable("deep", 6)));
    list(&writer, 7, &["a"]);
    writer.synced(true);
    assert_eq!(cache.get(Some("shop"), "deep"), Lookup::Absent);
    assert!(cache.is_complete() && cache.failure().is_none());
    assert_eq!(shared.state(1).unreadable, 0);
    // In a watch it becomes unreadable, and is deleted.
    writer.change(|store| store.applied(unreadable("a", 8)));
    assert_eq!(cache.get(Some("shop"), "a"), Lookup::Unknown);
    writer.change(|store| store.deleted(&unreadable("a", 9)));
    assert_eq!((cache.get(Some("shop"), "a"), shared.state(1).unreadable), (Lookup::Absent, 0));
}

#[tokio::test]
async fn an_object_without_a_readable_name_hides_no_other_and_deletes_none() {
    let shared = shared();
    let caches = Caches::new(CacheOptions::default());
    let writer = WriterToken::acquire(&shared, SyncMode::Watch);
    let cache = Cache::new(Arc::clone(&shared), Arc::clone(&caches.registry));
    list(&writer, 5, &["a", "b"]);
    writer.synced(true);
    assert!(cache.is_complete());
    list(&writer, 7, &["b"]);
    writer.dropped(1);
    writer.synced(true);
    assert!(matches!(cache.get(Some("shop"), "b"), Lookup::Found(_)));
    assert!(matches!(cache.get(Some("shop"), "a"), Lookup::Found(_)), "it may be the one without a name");
    assert!(cache.is_authoritative() && !cache.is_complete() && cache.list().is_none());
    assert_eq!((cache.list_readable().unwrap().len(), shared.state(1).unreadable), (2, 1));
    let failure = cache.failure().unwrap().to_string();
    assert!(failure.contains("1 of the listed objects cannot be read, not even their names"), "{failure}");
    list(&writer, 9, &["b"]);
    writer.synced(true);
    assert_eq!(cache.get(Some("shop"), "a"), Lookup::Absent);
    assert!(cache.is_complete() && cache.failure().is_none() && shared.state(1).unreadable == 0);
}
