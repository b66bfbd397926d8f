//! kross takes over the objects of a running kro, and kro takes them back: with the same UIDs, without a new revision and
//! without losing a field.

use std::collections::BTreeMap;

use kross_testing::{objects, shared, wait};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::{Objects, Running, condition, until};

const PLANE: &str = "takeover";
const CHILDREN: [&str; 5] = ["x-first", "x-second", "x-item-a", "x-item-b", "x-chosen"];

/// A definition with a chain, a collection, an external reference, a resource that is included and one that is not.
fn definition() -> Json {
    let config_map = |id: &str, name: &str, data: Json| {
        json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.metadata.name}}-{name}"), "labels": {"of": "taken"}}, "data": data}})
    };
    let mut items = config_map("collected", "item-${name}", json!({"name": "${name}"}));
    items["forEach"] = json!([{"name": "${schema.spec.names}"}]);
    let mut chosen = config_map("chosen", "chosen", json!({"size": "${string(schema.spec.size)}"}));
    chosen["includeWhen"] = json!(["${schema.spec.size > 0}"]);
    let mut left_out = config_map("leftOut", "left-out", json!({}));
    left_out["includeWhen"] = json!(["${schema.spec.size > 100}"]);
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "taken"},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Taken",
                "spec": {"size": "integer | default=1", "names": "[]string"},
                "status": {"first": "${first.metadata.name}", "outside": "${outside.data.key}",
                    "maybe": "${outside.?data.key}", "times": "${[{'made': first.metadata.creationTimestamp}]}"}},
            "resources": [
                config_map("second", "second", json!({"after": "${first.metadata.name}", "out": "${outside.data.key}"})),
                config_map("first", "first", json!({"size": "${string(schema.spec.size)}"})),
                items, chosen, left_out,
                {"id": "outside", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "outside"}}},
            ],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_over_and_returns_what_kro_created_unchanged() {
    if !crate::kro_runs() {
        return;
    }
    let plane = shared(PLANE).await;
    let objects = Objects { client: plane.client().await.unwrap() };
    crate::install_kro_crds(&objects.client).await;
    let config_maps =
        Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(objects.client.clone(), "default");
    config_maps
        .create(&PostParams::default(), &objects::config_map("outside", &[("key", "value")]))
        .await
        .unwrap();
    let instances = objects.namespaced("kro.run", "Taken", "takens", "default");

    let kro = crate::kro(PLANE).await;
    objects.create(&definition()).await;
    objects.until_ready("taken").await;
    for name in ["x", "deleted-by-kross"] {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Taken", "metadata": {"name": name},
            "spec": {"names": ["a", "b"]}});
        instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
        until(instances.clone(), name.to_owned(), active).await;
    }
    kro.stop();
    let of_kro = everything(&objects).await;

    let running = Running::start(PLANE, crate::settings()).await;
    until(instances.clone(), "x".to_owned(), |instance| {
        active(instance) && instance["status"]["managedResources"].is_array()
    })
    .await;
    objects.until_ready("taken").await;
    // The CRD of kro is less specific about these fields, which does not make their change a breaking one.
    let refined = ["maybe", "times"];
    let taken = until_unchanged(&objects, &of_kro, &refined).await;
    assert_eq!(taken["instance"]["status"]["maybe"], "value");
    assert_eq!(objects.revision_names("taken").await, ["taken-r00001"]);
    applies_changes(&objects, &instances, 2).await;
    // A field that is not in the template is removed, although kro wrote it.
    let names = &objects.get(&objects.config_maps("default"), "x-second").await["data"];
    assert_eq!(names, &json!({"after": "x-first", "out": "value"}));
    // Fields of kro's field managers, such as the finalizer, do not block the deletion.
    instances.delete("deleted-by-kross", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "deleted-by-kross").await;
    assert!(config_maps.get_opt("deleted-by-kross-first").await.unwrap().is_none());
    running.stop().await;

    let allow = json!({"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}}});
    objects.patch("taken", &allow).await;
    let before = everything(&objects).await;
    let kro = crate::kro(PLANE).await;
    until(objects.crds(), "takens.kro.run".to_owned(), |crd| {
        crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/managedResources")
            .is_none()
    })
    .await;
    objects.until_ready("taken").await;
    applies_changes(&objects, &instances, 3).await;
    let of_kross = ["managedResources", "clusters", "size", "observedGeneration", "generation", "names"];
    until_unchanged(&objects, &before, &[&of_kross[..], &refined].concat()).await;
    assert_eq!(objects.revision_names("taken").await, ["taken-r00001"]);

    instances.delete("x", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&instances, "x").await;
    for name in CHILDREN {
        assert!(config_maps.get_opt(name).await.unwrap().is_none(), "{name}");
    }
    assert!(config_maps.get_opt("outside").await.unwrap().is_some());
    kro.stop();
}

/// Changes the instance and waits until the running controller applies that.
async fn applies_changes(objects: &Objects, instances: &Api<DynamicObject>, size: i64) {
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    instances.patch("x", &PatchParams::default(), &patch).await.unwrap();
    for name in ["x-first", "x-chosen"] {
        let size = size.to_string();
        until(objects.config_maps("default"), name.to_owned(), move |object| {
            object["data"]["size"] == size.as_str()
        })
        .await;
    }
    until_active(instances).await;
}

fn active(instance: &Json) -> bool {
    let ready = condition(instance, "Ready");
    instance["status"]["state"] == "ACTIVE"
        && ready["status"] == "True"
        && ready["observedGeneration"] == instance["metadata"]["generation"]
}

async fn until_active(instances: &Api<DynamicObject>) {
    until(instances.clone(), "x".to_owned(), active).await;
}

/// The definition, its revision, its CRD, the instance and its children, by name.
async fn everything(objects: &Objects) -> BTreeMap<String, Json> {
    let mut all = BTreeMap::from([
        ("definition".to_owned(), objects.get(&objects.definitions(), "taken").await),
        ("revision".to_owned(), objects.get(&objects.revisions(), "taken-r00001").await),
        ("crd".to_owned(), objects.get(&objects.crds(), "takens.kro.run").await),
        (
            "instance".to_owned(),
            objects.get(&objects.namespaced("kro.run", "Taken", "takens", "default"), "x").await,
        ),
    ]);
    for name in CHILDREN {
        all.insert(name.to_owned(), objects.get(&objects.config_maps("default"), name).await);
    }
    all
}

/// Waits until the objects have every earlier field with the same value, except for fields of these names: a controller that
/// has just started reports `Unknown` for a moment. The objects keep their UIDs all the time.
async fn until_unchanged(
    objects: &Objects,
    before: &BTreeMap<String, Json>,
    except: &[&str],
) -> BTreeMap<String, Json> {
    wait::until("the objects to be as before", || async {
        let after = everything(objects).await;
        let mut lost = Vec::new();
        for (name, old) in before {
            let new = &after[name];
            assert_eq!(old["metadata"]["uid"], new["metadata"]["uid"], "{name}");
            collect_lost_fields(name, old, new, except, &mut lost);
        }
        if lost.is_empty() { Ok(after) } else { Err(format!("{lost:#?}")) }
    })
    .await
}

fn collect_lost_fields(path: &str, old: &Json, new: &Json, except: &[&str], lost: &mut Vec<String>) {
    match (old, new) {
        (Json::Object(left), Json::Object(right)) => {
            // These change with every write.
            let volatile =
                ["resourceVersion", "managedFields", "lastTransitionTime", "internal.kro.run/desired-hash"];
            for (key, value) in left.iter().filter(|(key, _)| !volatile.contains(&key.as_str())) {
                // kross adds to the schema of the CRD, which increases its generation.
                let increased = key == "generation" && path == "crd.metadata";
                if !increased && !except.contains(&key.as_str()) {
                    collect_lost_fields(
                        &format!("{path}.{key}"),
                        value,
                        right.get(key).unwrap_or(&Json::Null),
                        except,
                        lost,
                    );
                }
            }
        }
        (Json::Array(left), Json::Array(right)) if left.len() == right.len() => {
            // Conditions are sorted by transition time, which changes after a start; kro writes dependencies in random
            // order.
            let sorted = |list: &[Json]| {
                let mut list = list.to_vec();
                list.sort_by_key(|item| (item["type"].to_string(), item["id"].to_string()));
                list
            };
            for (left, right) in sorted(left).iter().zip(&sorted(right)) {
                collect_lost_fields(path, left, right, except, lost);
            }
        }
        _ if old == new => {}
        _ => lost.push(format!("{path}: {old} became {new}")),
    }
}
