//! A world whose controller writes an audit log, the orphaned objects in that log, and instances as normalized YAML.

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
    // Unique also if an earlier process had the same id.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let path = std::env::temp_dir().join(format!("kross-outage-{}-{now}.jsonl", std::process::id()));
    let audit = Audit::to_file(AuditFile { path: path.clone(), max_bytes: 0, max_backups: 0 }).unwrap();
    (path, audit)
});

/// Settings with the audit log.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.clusters.audit = AUDIT.1.clone();
    settings
}

/// Creates a definition in a namespace that only this test uses.
pub async fn world(kind: &str, spec: Json) -> World {
    let world = empty_world(kind).await;
    world.define(spec).await;
    world
}

/// As [`world`], without the definition.
pub async fn empty_world(kind: &str) -> World {
    SETTINGS.get_or_init(settings);
    World::without_definition(kind).await
}

/// The audit records with a verb.
fn records(verb: &str) -> Vec<Json> {
    let (path, audit) = &*AUDIT;
    audit.flush(Duration::from_secs(5));
    let text = std::fs::read_to_string(path).unwrap();
    // The last line may be incomplete.
    let complete = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let records = complete.map(|line| serde_json::from_str::<Json>(line).unwrap());
    records.filter(|record| record["verb"] == verb).collect()
}

fn text_of(value: &Json) -> String {
    value.as_str().unwrap().to_owned()
}

/// The objects of a namespace that were orphaned according to the audit log, as cluster and name.
pub fn orphaned_objects(namespace: &str) -> BTreeSet<(String, String)> {
    let orphaned = records("leave").into_iter().filter(|record| record["object"]["namespace"] == namespace);
    orphaned.map(|record| (text_of(&record["cluster"]["name"]), text_of(&record["object"]["name"]))).collect()
}

/// The clusters that instances of a namespace gave up according to the audit log, in the order of the instances: instance, UID
/// and kind of the objects there.
pub fn given_up_clusters(namespace: &str) -> Vec<(String, String, String)> {
    let given_up =
        records("abandon").into_iter().filter(|record| record["instance"]["namespace"] == namespace);
    let mut given_up: Vec<_> = given_up
        .map(|record| {
            let of = |object: &str, field: &str| text_of(&record[object][field]);
            (of("instance", "name"), of("cluster", "uid"), of("object", "kind"))
        })
        .collect();
    given_up.sort();
    given_up
}

/// Waits until these objects of a namespace are recorded as orphaned: the last records are written after the instance was
/// deleted.
pub async fn until_orphaned(namespace: &str, expected: &BTreeSet<(String, String)>) {
    wait::until("the orphaned objects in the audit log", || async {
        let recorded = orphaned_objects(namespace);
        if recorded == *expected { Ok(()) } else { Err(format!("{recorded:?}")) }
    })
    .await;
}

/// An instance as `kubectl get -o yaml` prints it, with placeholders for values that differ in each run.
pub fn normalized_yaml(world: &World, instance: &Json) -> String {
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
    // Conditions are ordered by transition time, which differs in each run.
    conditions.sort_by_key(|condition| condition["type"].as_str().unwrap().to_owned());
    let text = kross_api::to_yaml(&sorted(&instance)).replace(&world.namespace, "shop");
    let patterns = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"127\.0\.0\.1:\d+", "SERVER"),
        ("'(TIME|UID)'", "$1"),
    ];
    patterns.iter().fold(text, |text, (pattern, placeholder)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, *placeholder).into_owned()
    })
}

/// The value with sorted keys, as `kubectl` prints it.
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
