//! A controller that keeps an audit log, instances as people see them, and what was left behind.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use kross_cluster::{Audit, AuditFile};
use kross_controller::Settings;
use kross_testing::wait;
use serde_json::Value as Json;

use crate::world::{SETTINGS, World};

static AUDIT: LazyLock<(PathBuf, Audit)> = LazyLock::new(|| {
    // Nobody else had this name, not even a process of the same number before.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let path = std::env::temp_dir().join(format!("kross-outage-{}-{now}.jsonl", std::process::id()));
    let audit = Audit::to_file(AuditFile { path: path.clone(), max_bytes: 0, max_backups: 0 }).unwrap();
    (path, audit)
});

/// How controllers behave here.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.clusters.audit = AUDIT.1.clone();
    settings
}

/// A definition in a namespace of the test's own.
pub async fn world(kind: &str, spec: Json) -> World {
    let world = empty_world(kind).await;
    world.define(spec).await;
    world
}

/// The same without the definition.
pub async fn empty_world(kind: &str) -> World {
    SETTINGS.get_or_init(settings);
    World::without_definition(kind).await
}

/// What the audit log says was left behind in a namespace: cluster and name.
pub fn left(namespace: &str) -> BTreeSet<(String, String)> {
    let (path, audit) = &*AUDIT;
    audit.flush(Duration::from_secs(5));
    let text = std::fs::read_to_string(path).unwrap();
    // The last line may be on its way.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let records = whole.map(|line| serde_json::from_str::<Json>(line).unwrap());
    let left =
        records.filter(|record| record["verb"] == "leave" && record["object"]["namespace"] == namespace);
    let word = |value: &Json| value.as_str().unwrap().to_owned();
    left.map(|record| (word(&record["cluster"]["name"]), word(&record["object"]["name"]))).collect()
}

/// Waits until the audit log says that these were left behind in a namespace: the last word is said when the instance is
/// already gone.
pub async fn until_left(namespace: &str, expected: &BTreeSet<(String, String)>) {
    wait::until("what was left behind to be told", || async {
        let told = left(namespace);
        if told == *expected { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
}

/// An instance as `kubectl get -o yaml` shows it, without what differs from run to run.
pub fn shown(world: &World, instance: &Json) -> String {
    let mut instance = instance.clone();
    let metadata = instance["metadata"].as_object_mut().unwrap();
    for field in [
        "managedFields",
        "resourceVersion",
        "uid",
        "creationTimestamp",
        "generation",
        "annotations",
        "labels",
    ] {
        metadata.remove(field);
    }
    let conditions = instance["status"]["conditions"].as_array_mut().unwrap();
    for condition in conditions.iter_mut() {
        condition.as_object_mut().unwrap().remove("observedGeneration");
    }
    // Their order is that of their last changes.
    conditions.sort_by_key(|condition| condition["type"].as_str().unwrap().to_owned());
    let text = kross_api::to_yaml(&sorted(&instance)).replace(&world.namespace, "shop");
    let patterns = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"127\.0\.0\.1:\d+", "SERVER"),
        ("'(TIME|UID)'", "$1"),
    ];
    patterns.iter().fold(text, |text, (pattern, word)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, *word).into_owned()
    })
}

/// `kubectl` sorts keys.
fn sorted(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let ordered: std::collections::BTreeMap<_, _> =
                map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            Json::Object(ordered.into_iter().collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
