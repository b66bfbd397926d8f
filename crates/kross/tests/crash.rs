//! Kills the controller at fifty random moments while instances are created, changed and deleted: everything converges, and no
//! object is leaked, created twice or deleted twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use kross_testing::wait;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use serde_json::json;

use crate::world::{Controller, World, config_map, is_ready};

#[path = "controller_process/world.rs"]
mod world;

const KILLS: usize = 50;
const INSTANCES: u64 = 20;
const KIND: &str = "Fragile";
const CHILDREN: [&str; 3] = ["a", "b", "c"];
/// Set this variable to repeat a run.
const SEED: &str = "KROSS_TEST_SEED";
/// A controller that has nothing to do is killed after this time.
const MAX_RUN: Duration = Duration::from_secs(2);

/// A random number generator with the seed from the environment, or a new one that is printed.
fn random() -> fastrand::Rng {
    let seed = std::env::var(SEED).ok().map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    eprintln!("{SEED}={seed}");
    fastrand::Rng::with_seed(seed)
}

/// The watch events of children and instances.
#[derive(Clone, Default)]
struct History {
    events: Arc<AtomicUsize>,
    created: Arc<Mutex<BTreeMap<(String, String), usize>>>,
}

impl History {
    /// Watches until the test ends.
    fn watch(&self, api: Api<DynamicObject>, children: bool) {
        let history = self.clone();
        tokio::spawn(async move {
            let mut version = "0".to_owned();
            // The API server closes every watch after some minutes.
            loop {
                let mut events = pin!(api.watch(&WatchParams::default(), &version).await.unwrap());
                while let Some(event) = events.try_next().await.unwrap() {
                    version = history.record(event, children).unwrap_or(version);
                }
            }
        });
    }

    /// Records an event. Returns the resource version to resume the watch from.
    fn record(&self, event: WatchEvent<DynamicObject>, children: bool) -> Option<String> {
        let (object, added) = match event {
            WatchEvent::Added(object) => (object, true),
            WatchEvent::Modified(object) | WatchEvent::Deleted(object) => (object, false),
            WatchEvent::Bookmark(bookmark) => return Some(bookmark.metadata.resource_version),
            WatchEvent::Error(error) => panic!("{error:?}"),
        };
        if added && children {
            let owner = object.metadata.labels.clone().unwrap_or_default().remove("kro.run/instance-id");
            let key = (owner.unwrap_or_default(), object.metadata.name.clone().unwrap());
            *self.created.lock().unwrap().entry(key).or_default() += 1;
        }
        self.events.fetch_add(1, Ordering::Relaxed);
        object.metadata.resource_version
    }
}

/// The desired state: the instance of each slot with its text. No name is used twice, so a leaked object is never adopted by
/// a later instance.
type Wanted = BTreeMap<u64, (String, String)>;

/// Creates, changes or deletes some instances.
async fn change_instances(world: &World, random: &mut fastrand::Rng, wanted: &mut Wanted, round: usize) {
    let instances = world.instances(KIND);
    for step in 0..6 + random.u64(..10) {
        let slot = random.u64(..INSTANCES);
        let text = format!("t{round}");
        match wanted.get(&slot) {
            Some((name, _)) if random.u64(..2) == 0 => {
                instances.delete(name, &DeleteParams::default()).await.unwrap();
                wanted.remove(&slot);
            }
            Some((name, _)) => {
                let patch = Patch::Merge(json!({"spec": {"text": text}}));
                instances.patch(name, &PatchParams::default(), &patch).await.unwrap();
                wanted.insert(slot, (name.clone(), text));
            }
            None => {
                let name = format!("i{slot}-{round}-{step}");
                world.create(KIND, &name, &text).await;
                wanted.insert(slot, (name, text));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_moment_loses_duplicates_or_leaks_no_object() {
    let mut random = random();
    let world = World::new("fragile").await;
    let controller = Controller::start(&world.kubeconfig);
    let chain = [("a", "${schema.spec.text}"), ("b", "${a.data.x}"), ("c", "${b.data.x}")];
    world.define(KIND, chain.iter().map(|(id, text)| config_map(id, text)).collect()).await;
    drop(controller);
    let history = History::default();
    history.watch(world.instances(KIND), false);
    history.watch(world.config_maps(), true);

    let mut wanted = Wanted::new();
    for slot in 0..INSTANCES {
        let name = format!("i{slot}");
        world.create(KIND, &name, "t").await;
        wanted.insert(slot, (name, "t".to_owned()));
    }
    for round in 0..KILLS {
        let early = random.u64(..2) == 0;
        if early {
            change_instances(&world, &mut random, &mut wanted, round).await;
        }
        let before = history.events.load(Ordering::Relaxed);
        let controller = Controller::start(&world.kubeconfig);
        if !early {
            change_instances(&world, &mut random, &mut wanted, round).await;
        }
        // Kill it in the middle of its work: a moment after so many writes.
        let moment = random.usize(..40);
        let later = Duration::from_micros(random.u64(..4000));
        let reached = async {
            while history.events.load(Ordering::Relaxed) < before + moment {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(later).await;
        };
        let _ = tokio::time::timeout(MAX_RUN, reached).await;
        drop(controller);
    }

    let controller = Controller::start(&world.kubeconfig);
    wait::until_within(Duration::from_secs(180), "everything to converge", || converged(&world, &wanted))
        .await;
    drop(controller);
    let created = history.created.lock().unwrap().clone();
    let duplicated: Vec<_> = created.iter().filter(|(_, times)| **times > 1).collect();
    assert!(duplicated.is_empty(), "created more than once for the same instance: {duplicated:?}");
    let mut deleted: BTreeMap<String, usize> = BTreeMap::new();
    for request in world.requests() {
        let done = request.verb == "delete" && request.response_status.code == 200;
        if let Some(object) = request.object().filter(|object| done && object.resource == "configmaps") {
            *deleted.entry(object.name.clone()).or_default() += 1;
        }
    }
    for (name, times) in deleted {
        let lives = created.keys().filter(|(_, created)| *created == name).count();
        assert!(times <= lives, "`{name}` was deleted {times} times and created {lives} times");
    }
    world.stop().await;
}

/// Whether the desired instances and their children exist, and nothing else.
async fn converged(world: &World, wanted: &Wanted) -> Result<(), String> {
    let list = world.instances(KIND).list(&ListParams::default()).await.map_err(|error| error.to_string())?;
    let wanted: BTreeMap<&String, &String> = wanted.values().map(|(name, text)| (name, text)).collect();
    let mut expected = BTreeSet::new();
    for instance in &list.items {
        let name = instance.metadata.name.clone().unwrap();
        let Some(text) = wanted.get(&name) else { return Err(format!("`{name}` still exists")) };
        if !is_ready(instance) {
            return Err(format!("`{name}` is not ready: {}", instance.data["status"]));
        }
        let uid = instance.metadata.uid.clone().unwrap();
        for id in CHILDREN {
            expected.insert((format!("{name}-{id}"), uid.clone(), (*text).clone()));
        }
    }
    let missing = wanted.len() - list.items.len();
    if missing > 0 {
        return Err(format!("{missing} instances are missing"));
    }
    let owned = ListParams::default().labels("kro.run/owned=true");
    let children = world.config_maps().list(&owned).await.map_err(|error| error.to_string())?;
    let found: BTreeSet<_> = children
        .items
        .iter()
        .map(|child| {
            let labels = child.metadata.labels.clone().unwrap_or_default();
            let owner = labels.get("kro.run/instance-id").cloned().unwrap_or_default();
            let text = child.data["data"]["x"].as_str().unwrap_or_default().to_owned();
            (child.metadata.name.clone().unwrap(), owner, text)
        })
        .collect();
    if found == expected {
        return Ok(());
    }
    let differ: Vec<_> = found.symmetric_difference(&expected).collect();
    Err(format!("children differ: {differ:?}"))
}
