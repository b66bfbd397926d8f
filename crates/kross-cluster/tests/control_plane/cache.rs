//! Caches that are filled by watches.

use std::sync::Arc;
use std::time::Duration;

use kross_api::{FailureReason, Operation, labels, managers};
use kross_cluster::{
    Apply, Backoff, Cache, CacheEvent, CacheOptions, CachePhase, Caches, Change, ClientOptions,
    ClusterClient, ClusterId, Delete, FieldValidation, Lookup, ObjectKey, Selection,
};
use kross_testing::{Action, Answer, Fault, FaultProxy, Requests, Stopwatch, Verb, wait};
use kross_value::Value;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::setup::Setup;

pub const OURS: Apply<'static> = Apply {
    manager: managers::APPLYSET,
    force: true,
    validation: FieldValidation::Strict,
    subresource: None,
    operation: Operation::Update,
};

/// How long a cache outlives its last user.
const GRACE: Duration = Duration::from_millis(700);

/// The backoff of reflectors that a test has to wake, and how long it waits for that.
const BACKOFF: Duration = Duration::from_secs(90);
const WOKEN_WITHIN: Duration = Duration::from_secs(45);

/// A setup whose caches go through a fault proxy, while its own requests do not.
pub struct Scene {
    pub setup: Setup,
    pub proxy: FaultProxy,
    pub client: ClusterClient,
    pub caches: Caches,
}

impl Scene {
    pub async fn new() -> Self {
        Self::with(ClientOptions::for_version("devel")).await
    }

    /// With a backoff that is longer than [`until_woken`] waits.
    pub async fn backing_off() -> Self {
        let backoff = Backoff { base: BACKOFF, cap: BACKOFF };
        let options =
            CacheOptions { grace: GRACE, backoff, persistent_backoff: backoff, ..CacheOptions::default() };
        Self { caches: Caches::new(options), ..Self::new().await }
    }

    async fn with(options: ClientOptions) -> Self {
        let setup = Setup::new().await;
        let admin = setup.fixture.hub.plane.admin();
        let proxy = FaultProxy::start(admin).unwrap();
        let config = proxy.kubeconfig(admin).unwrap().config().await.unwrap();
        let client = ClusterClient::trusted(ClusterId::local(), config, options).await.unwrap();
        let caches = Caches::new(CacheOptions { grace: GRACE, ..CacheOptions::default() });
        Self { setup, proxy, client, caches }
    }

    /// A cache of the objects of this test.
    async fn watch(&self) -> Cache {
        let selection = Selection::Labels {
            namespace: Some(self.setup.fixture.namespace.as_str().into()),
            selector: "kro.run/owned=true".into(),
        };
        let cache = self.caches.watch(&self.client, &self.setup.config_map, selection);
        cache.wait_for_sync().await;
        wait::until_true("the watch to be open", || {
            self.caches.states().iter().any(|state| state.key == *cache.key() && state.opened > 0)
        })
        .await;
        cache
    }

    pub async fn apply(&self, name: &str, data: &str) {
        let object = self.setup.object(name, &[("a", data)]);
        self.setup.client.apply(&self.setup.config_map, &object, OURS).await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        let Setup { client, config_map, .. } = &self.setup;
        client.delete(config_map, self.setup.namespace(), name, Delete::default()).await.unwrap();
    }

    pub fn watching(&self) -> Requests {
        Requests::any().verb(Verb::Watch).resource("configmaps")
    }

    /// How often the objects were listed. A request for a single one checks whether a watch can be resumed.
    fn lists(&self) -> usize {
        let sent = self.proxy.requests(&self.listing());
        sent.iter().filter(|record| !record.request.query.starts_with("limit=1&")).count()
    }

    pub fn listing(&self) -> Requests {
        Requests::any().verb(Verb::List).resource("configmaps")
    }
}

fn describe(event: &CacheEvent) -> String {
    match &event.change {
        Change::Applied { old, new, ours } => {
            let data = new.value().at(&["data", "a"]).and_then(Value::as_str).unwrap_or_default();
            let sign = if old.is_some() { '~' } else { '+' };
            format!("{sign}{}={data}{}", new.name(), if *ours { " (ours)" } else { "" })
        }
        Change::Deleted { old } => format!("-{}", old.name()),
        Change::Synced => "synced".to_owned(),
        Change::Failed { error } => format!("failed {}", error.reason()),
        Change::Resumed => "resumed".to_owned(),
        Change::Relisted => "relisted".to_owned(),
    }
}

async fn next_event(events: &mut UnboundedReceiver<CacheEvent>) -> CacheEvent {
    let event = tokio::time::timeout(wait::WAIT_LIMIT, events.recv()).await;
    event.expect("an event in time").unwrap()
}

pub async fn next(events: &mut UnboundedReceiver<CacheEvent>) -> String {
    describe(&next_event(events).await)
}

/// All events up to and including `last`.
pub async fn until(events: &mut UnboundedReceiver<CacheEvent>, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some(last) {
        seen.push(next(events).await);
    }
    seen
}

/// Like [`until`], for a reflector that was woken: a retry after its backoff comes too late.
pub async fn until_woken(events: &mut UnboundedReceiver<CacheEvent>, last: &str) -> Vec<String> {
    tokio::time::timeout(WOKEN_WITHIN, until(events, last)).await.expect("the reflector is woken")
}

#[tokio::test(flavor = "multi_thread")]
async fn emits_events_for_existing_objects_and_for_changes() {
    let scene = Scene::new().await;
    scene.apply("early", "1").await;
    let cache = scene.watch().await;
    let mut events = cache.subscribe();
    assert_eq!(until(&mut events, "synced").await, ["+early=1", "synced"]);
    scene.apply("late", "1").await;
    assert_eq!(next(&mut events).await, "+late=1");
    scene.apply("early", "2").await;
    assert_eq!(next(&mut events).await, "~early=2");
    scene.delete("late").await;
    assert_eq!(next(&mut events).await, "-late");
    let namespace = scene.setup.namespace();
    assert!(matches!(cache.get(namespace, "early"), Lookup::Found(_)));
    assert_eq!(cache.get(namespace, "late"), Lookup::Absent);
    // A later subscriber gets everything that is cached.
    assert_eq!(until(&mut cache.subscribe(), "synced").await, ["+early=2", "synced"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_watches_share_a_few_connections_and_are_all_live() {
    const MANY: usize = 250;
    let setup = Setup::new().await;
    let caches = Caches::new(CacheOptions::default());
    let all: Vec<Cache> = (0..MANY)
        .map(|n| {
            let selection = Selection::Name {
                namespace: Some(setup.fixture.namespace.as_str().into()),
                name: format!("item-{n}").into(),
            };
            caches.watch(&setup.client, &setup.config_map, selection)
        })
        .collect();
    for cache in &all {
        cache.wait_for_sync().await;
    }
    wait::until_true("all watches to be open", || setup.client.stats().watches.streams == MANY).await;
    for n in 0..MANY {
        let object = setup.object(&format!("item-{n}"), &[]);
        setup.client.apply(&setup.config_map, &object, OURS).await.unwrap();
    }
    for (n, cache) in all.iter().enumerate() {
        wait::until_true(format!("cache {n} to have its object"), || {
            matches!(cache.get(setup.namespace(), &format!("item-{n}")), Lookup::Found(_))
        })
        .await;
    }
    setup.client.get(&setup.config_map, setup.namespace(), "item-1").await.unwrap();
    let stats = setup.client.stats();
    assert_eq!((stats.watches.connections, stats.watches.streams), (3, MANY), "{stats:?}");
    assert_eq!(stats.requests.connections, 1, "{stats:?}");
    assert!(caches.states().iter().all(|state| state.phase == CachePhase::Live && state.lists == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_a_watch_without_a_relist_after_its_connection_was_cut() {
    let scene = Scene::new().await;
    let cache = scene.watch().await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    scene.apply("before", "1").await;
    assert_eq!(next(&mut events).await, "+before=1");
    scene.proxy.cut_connections();
    scene.apply("after", "1").await;
    scene.delete("before").await;
    let seen = until(&mut events, "-before").await;
    assert!(seen.contains(&"+after=1".to_owned()), "{seen:?}");
    assert_eq!(scene.lists(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn emits_events_for_changes_that_were_missed_while_the_cluster_was_unreachable() {
    let scene = Scene::new().await;
    scene.apply("kept", "1").await;
    scene.apply("deleted", "1").await;
    let cache = scene.watch().await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    scene.proxy.set(Fault::Refuse);
    assert_eq!(next(&mut events).await, "failed Unreachable");
    let state = &scene.caches.states()[0];
    assert_eq!((state.phase, state.synced, state.objects), (CachePhase::Failed, true, 2));
    scene.delete("deleted").await;
    scene.apply("kept", "2").await;
    scene.proxy.set(Fault::Pass);
    let mut seen = until(&mut events, "~kept=2").await;
    seen.sort();
    assert_eq!(seen, ["-deleted", "resumed", "~kept=2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_on_a_hanging_connection_fails_within_seconds() {
    let mut options = ClientOptions::for_version("devel");
    options.watches.ping_interval = Duration::from_secs(1);
    options.watches.ping_timeout = Duration::from_secs(3);
    let scene = Scene::with(options).await;
    let cache = scene.watch().await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    scene.proxy.set(Fault::Hang);
    let started = Stopwatch::start();
    assert_eq!(next(&mut events).await, "failed Unreachable");
    started.assert_within(Duration::from_secs(10));
    scene.apply("late", "1").await;
    scene.proxy.set(Fault::Pass);
    until(&mut events, "+late=1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relist_after_an_expired_version_emits_only_the_differences() {
    let scene = Scene::new().await;
    for name in ["same", "changed", "deleted"] {
        scene.apply(name, "1").await;
    }
    let cache = scene.watch().await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    let rule = scene.proxy.on(scene.watching(), Action::Answer(Answer::status(503)));
    scene.proxy.cut_connections();
    assert!(next(&mut events).await.starts_with("failed"));
    scene.delete("deleted").await;
    scene.apply("changed", "2").await;
    scene.apply("new", "1").await;
    scene.proxy.on_next(1, scene.watching(), Action::Answer(Answer::status(410)));
    scene.proxy.remove(rule);
    let mut seen = until(&mut events, "synced").await;
    seen.sort();
    seen.retain(|event| !event.starts_with("failed"));
    assert_eq!(seen, ["+new=1", "-deleted", "synced", "~changed=2"]);
    assert_eq!(scene.lists(), 2);
    // The watch continues from there.
    scene.apply("new", "2").await;
    until(&mut events, "~new=2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_wakes_a_reflector_that_backs_off_because_it_may_not_list() {
    let scene = Scene::backing_off().await;
    let rule =
        scene.proxy.on(scene.listing(), Action::Answer(Answer::status(403).message("no list for you")));
    let cache = scene.caches.watch(&scene.client, &scene.setup.config_map, Selection::Managed);
    let mut events = cache.subscribe();
    assert_eq!(next(&mut events).await, "failed Forbidden");
    let state = &scene.caches.states()[0];
    assert_eq!((state.phase, state.synced, state.users), (CachePhase::Failed, false, 1));
    assert_eq!(state.failure.as_ref().unwrap().message(), "no list for you");
    assert_eq!(cache.get(None, "x"), Lookup::Unknown);
    assert!(cache.list().is_none());
    scene.proxy.remove(rule);
    scene.caches.retry(&ClusterId::local(), "", "ConfigMap");
    until_woken(&mut events, "synced").await;
    assert!(scene.caches.states()[0].failure.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_cached_objects_of_a_kind_that_is_no_longer_served() {
    let scene = Scene::new().await;
    let client = &scene.setup.client;
    let group = format!("{}.vanish.example.com", scene.setup.fixture.namespace);
    let crd = client.kind("apiextensions.k8s.io", None, "CustomResourceDefinition").await.unwrap();
    let definition: Value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("oxen.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"kind": "Ox", "plural": "oxen"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
    })
    .into();
    client.create(&crd, &definition, "test").await.unwrap();
    let ox = wait::until("discovery to list the kind", || async {
        client.kind(&group, Some("v1"), "Ox").await.map_err(|error| error.to_string())
    })
    .await;
    let cache = scene.caches.watch(&scene.client, &ox, Selection::All);
    cache.wait_for_sync().await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    let object: Value =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Ox", "metadata": {"name": "one"}}).into();
    client.apply(&ox, &object, OURS).await.unwrap();
    assert_eq!(next(&mut events).await, "+one=");

    client.delete(&crd, None, &format!("oxen.{group}"), Delete::default()).await.unwrap();
    // The server may close the watch before it reports the deletion: then the reflector finds out a moment later.
    let mut seen = Vec::new();
    while !["-one", "failed NotFound"].iter().all(|event| seen.iter().any(|seen| seen == event)) {
        seen.push(next(&mut events).await);
    }
    assert_eq!(cache.get(None, "one"), Lookup::Unknown);

    wait::until("the CustomResourceDefinition to be deleted", || async {
        match client.get(&crd, None, &format!("oxen.{group}")).await {
            Err(error) if error.is_object_not_found() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    client.create(&crd, &definition, "test").await.unwrap();
    until(&mut events, "synced").await;
    assert_eq!(cache.get(None, "one"), Lookup::Absent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_ours_is_cached_before_the_watch_reports_it() {
    let scene = Scene::new().await;
    let cache = scene.caches.watch(&scene.client, &scene.setup.config_map, Selection::Managed);
    cache.wait_for_sync().await;
    let mut events = cache.subscribe();
    until(&mut events, "synced").await;
    // The cache also reports objects of other tests.
    let own = async |events: &mut UnboundedReceiver<CacheEvent>| loop {
        let event = next_event(events).await;
        let object = match &event.change {
            Change::Applied { new, .. } => Some(new),
            Change::Deleted { old } => Some(old),
            Change::Synced | Change::Failed { .. } | Change::Resumed | Change::Relisted => None,
        };
        if object.is_none_or(|object| {
            object.namespace().map(ToString::to_string) == Some(scene.setup.fixture.namespace.clone())
        }) {
            return describe(&event);
        }
    };
    scene.proxy.set(Fault::Hang);
    let object = scene.setup.object("web", &[("a", "1")]);
    let written = scene.setup.client.apply(&scene.setup.config_map, &object, OURS).await.unwrap();
    cache.observe(&written);
    assert_eq!(own(&mut events).await, "+web=1 (ours)");
    let Lookup::Found(known) = cache.get(scene.setup.namespace(), "web") else { panic!("it is cached") };
    assert_eq!(known.resource_version(), written.resource_version());
    scene.proxy.set(Fault::Pass);
    scene.apply("other", "1").await;
    assert_eq!(own(&mut events).await, "+other=1", "a cached version is not reported again");
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_are_shared_and_evicted_after_their_last_user() {
    let scene = Scene::new().await;
    let first = scene.watch().await;
    let second = scene.watch().await;
    let third = second.clone();
    assert_eq!(scene.caches.states()[0].users, 3);
    wait::until_true("the watch to be open", || scene.proxy.count(&scene.watching()) == 1).await;
    drop((first, second));
    assert_eq!(scene.caches.states()[0].users, 1);
    drop(third);
    // A user within the grace period gets the same cache.
    let again = scene.watch().await;
    tokio::time::sleep(2 * GRACE).await;
    assert_eq!((scene.caches.states().len(), scene.proxy.count(&scene.listing())), (1, 1));
    drop(again);
    wait::until_true("the cache to be evicted", || scene.caches.states().is_empty()).await;
    wait::until_true("its stream to be closed", || scene.client.stats().watches.streams == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_objects_by_key_and_by_label() {
    let scene = Scene::new().await;
    let setup = &scene.setup;
    let mut everything = scene.caches.subscribe();
    let cache = scene.caches.watch(&setup.client, &setup.config_map, Selection::Managed);
    cache.wait_for_sync().await;
    for (name, instance) in [("a", "one"), ("b", "one"), ("c", "two")] {
        let instance = format!("{}-{instance}", setup.fixture.namespace);
        let labels = [(labels::OWNED, "true"), (labels::INSTANCE_ID, instance.as_str())];
        let object = setup.labelled(name, &labels, &[]);
        setup.client.apply(&setup.config_map, &object, OURS).await.unwrap();
    }
    let one = format!("{}-one", setup.fixture.namespace);
    wait::until_true("the objects to be cached", || {
        let two = format!("{}-two", setup.fixture.namespace);
        let count = |instance: &str| cache.list_by_label(labels::INSTANCE_ID, instance).unwrap().len();
        (count(&one), count(&two)) == (2, 1)
    })
    .await;
    let key = |name: &str| ObjectKey {
        cluster: ClusterId::local(),
        group: "".into(),
        kind: "ConfigMap".into(),
        namespace: Some(setup.fixture.namespace.as_str().into()),
        name: name.into(),
    };
    assert!(matches!(scene.caches.find(&scene.setup.client, &key("a")), Lookup::Found(_)));
    // A cache of managed objects cannot tell whether an object without the label exists.
    assert_eq!(scene.caches.find(&scene.setup.client, &key("z")), Lookup::Unknown);
    let name = Selection::Name { namespace: key("z").namespace, name: "z".into() };
    let single = scene.caches.watch(&setup.client, &setup.config_map, name);
    single.wait_for_sync().await;
    assert_eq!(scene.caches.find(&scene.setup.client, &key("z")), Lookup::Absent);

    let mut kinds = std::collections::HashSet::new();
    while let Ok(event) = everything.try_recv() {
        kinds.insert(Arc::clone(&event.cache));
    }
    assert_eq!(kinds.len(), 2, "one stream has the events of all caches");
}

#[tokio::test(flavor = "multi_thread")]
async fn transport_errors_map_to_failure_reasons() {
    let scene = Scene::new().await;
    let get = || scene.client.get(&scene.setup.config_map, scene.setup.namespace(), "none");
    for (fault, reason) in [
        (Fault::Pass, FailureReason::NotFound),
        (Fault::Refuse, FailureReason::Unreachable),
        (Fault::WrongCertificate, FailureReason::Credentials),
    ] {
        scene.proxy.set(fault);
        assert_eq!(get().await.unwrap_err().reason(), reason, "{fault:?}");
    }
    scene.proxy.set(Fault::Pass);
    scene.proxy.on_next(1, Requests::any(), Action::Answer(Answer::status(429).retry_after(7)));
    let error = get().await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Throttled);
    assert_eq!(error.retry(), kross_cluster::Retry::After(Duration::from_secs(7)));
    assert_eq!(get().await.unwrap_err().reason(), FailureReason::NotFound);
}
