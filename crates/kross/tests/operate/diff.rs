//! `kross diff` and `kross plan`: what they announce for instances in three clusters is exactly what then happens.

use std::collections::{BTreeMap, BTreeSet};

use kross_testing::wait;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

use crate::world::World;

/// How many instances are compared.
const INSTANCES: usize = 12;

/// The UID and the version of each ConfigMap, by cluster and name.
type Objects = BTreeMap<(String, String), (String, String)>;

/// What happened to objects: the effect, the cluster, the name.
type Effects = BTreeSet<(String, String, String)>;

/// The ConfigMaps of the instances in every cluster.
async fn objects(world: &World) -> Objects {
    let mut found = Objects::new();
    let fixture = &world.fixture;
    for (cluster, client) in [
        ("local", &fixture.hub.client),
        ("eu", &fixture.remote("eu").client),
        ("us", &fixture.remote("us").client),
    ] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let api: kube::Api<DynamicObject> =
            kube::Api::namespaced_with(client.clone(), &world.namespace, &resource);
        let listed = api.list(&ListParams::default().labels("kro.run/owned=true")).await.unwrap();
        for object in listed.items {
            let metadata = object.metadata;
            let state = (metadata.uid.unwrap(), metadata.resource_version.unwrap());
            found.insert((cluster.to_owned(), metadata.name.unwrap()), state);
        }
    }
    found
}

/// What happened between two observations.
fn effects(before: &Objects, after: &Objects) -> Effects {
    let mut effects = Effects::new();
    for (key, (uid, version)) in before {
        let effect = match after.get(key) {
            None => "prune",
            Some((other, _)) if other != uid => "create",
            Some((_, other)) if other != version => "change",
            Some(_) => continue,
        };
        effects.insert((effect.to_owned(), key.0.clone(), key.1.clone()));
    }
    for key in after.keys().filter(|key| !before.contains_key(*key)) {
        effects.insert(("create".to_owned(), key.0.clone(), key.1.clone()));
    }
    effects
}

/// What `kross diff -o json` announced.
fn announced(report: &Json) -> Effects {
    let short = |name: Option<&str>| match name {
        None | Some("local") => "local".to_owned(),
        Some(name) => name.split('/').next_back().unwrap().trim_end_matches("-kubeconfig").to_owned(),
    };
    let mut effects = Effects::new();
    for definition in report.as_array().unwrap() {
        for instance in definition["instances"].as_array().unwrap() {
            for change in instance["changes"].as_array().unwrap() {
                let (effect, name) = (change["effect"].as_str().unwrap(), change["name"].as_str().unwrap());
                let cluster = short(change["cluster"].as_str());
                if effect == "move" {
                    effects.insert(("create".to_owned(), cluster, name.to_owned()));
                    effects.insert(("prune".to_owned(), short(change["from"].as_str()), name.to_owned()));
                } else {
                    effects.insert((effect.to_owned(), cluster, name.to_owned()));
                }
            }
        }
    }
    effects
}

/// The definition with these resources.
fn definition(resources: &Json) -> Json {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "compared"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Compared", "spec": {
            "region": "string", "extra": "boolean | default=false"}}, "resources": resources}})
}

fn part(id: &str, region: Option<&str>, data: &Json) -> Json {
    let mut part = json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": data}});
    if let Some(region) = region {
        part["cluster"] = json!({"name": format!("{region}-kubeconfig")});
    }
    part
}

#[tokio::test(flavor = "multi_thread")]
async fn what_diff_announces_for_instances_in_three_clusters_is_exactly_what_then_happens() {
    let world = World::with(&["eu", "us"]).await;
    world.secret("us-kubeconfig", world.fixture.remote("us").plane.admin()).await;
    let region = "${schema.spec.region}";
    let mut optional = part("optional", None, &json!({"a": "1"}));
    optional["includeWhen"] = json!(["${schema.spec.extra}"]);
    let before = definition(&json!([
        part("settings", None, &json!({"text": "one"})),
        part("data", Some(region), &json!({"text": "one", "old": "x"})),
        part("fixed", Some("eu"), &json!({"of": "${data.data.text}"})),
        part("gone", Some("us"), &json!({"a": "1"})),
        optional.clone(),
    ]));
    world.apply(&before).await;
    let definitions = world.api("kro.run/v1alpha1", "ResourceGraphDefinition", None);
    wait::until_object(&definitions, "compared", |object| object.data["status"]["state"] == "Active").await;
    for at in 0..INSTANCES {
        let region = if at % 2 == 0 { "eu" } else { "us" };
        world
            .apply(&json!({"apiVersion": "kro.run/v1alpha1", "kind": "Compared",
                "metadata": {"name": format!("i-{at}"), "namespace": world.namespace},
                "spec": {"region": region, "extra": at % 3 == 0}}))
            .await;
    }
    for at in 0..INSTANCES {
        world.until_state("Compared", &format!("i-{at}"), "ACTIVE").await;
    }

    // `data` changes and is read by `fixed`, `settings` moves to `us`, `gone` is removed, `fresh` is new.
    optional["includeWhen"] = json!(["${schema.spec.region == 'us'}"]);
    let after = definition(&json!([
        part("settings", Some("us"), &json!({"text": "one"})),
        part("data", Some(region), &json!({"text": "two"})),
        part("fixed", Some("eu"), &json!({"of": "${data.data.text}"})),
        part("fresh", Some("eu"), &json!({"of": "${settings.metadata.name}"})),
        optional,
    ]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("compared.json");
    std::fs::write(&file, after.to_string()).unwrap();
    let (file, state) = (file.to_str().unwrap().to_owned(), folder.path().join("state"));
    let state = state.to_str().unwrap().to_owned();

    let planned = world.kross(&["plan", "compared/i-0"]);
    assert_eq!(planned.code, 0, "{planned:?}");
    let diff = world.kross(&["diff", &file, "-o", "json", "--save-state", &state]);
    assert_eq!(diff.code, 1, "{diff:?}");
    let report: Json = serde_json::from_str(&diff.data).unwrap();
    let announced = announced(&report);
    let offline = std::process::Command::new(env!("CARGO_BIN_EXE_kross"))
        .args(["diff", &file, "-o", "json", "--state", &state])
        .output()
        .unwrap();
    let offline = world.normalized_text(&String::from_utf8(offline.stdout).unwrap());
    let offline: Json = serde_json::from_str(&offline).unwrap();
    assert_eq!(self::announced(&offline), announced, "the saved state gives the same answer");
    assert!(announced.len() > 4 * INSTANCES, "{announced:#?}");

    let observed = objects(&world).await;
    world.apply(&after).await;
    let what = "what was announced to happen";
    wait::until(what, || async {
        let done = effects(&observed, &objects(&world).await);
        if announced.is_subset(&done) { Ok(()) } else { Err(format!("{:#?}", announced.difference(&done))) }
    })
    .await;
    for at in 0..INSTANCES {
        world.until_state("Compared", &format!("i-{at}"), "ACTIVE").await;
    }
    let done = effects(&observed, &objects(&world).await);
    let unannounced: Vec<_> = done.difference(&announced).collect();
    assert!(unannounced.is_empty(), "{unannounced:#?}");
    let again = world.kross(&["diff", &file]);
    assert_eq!(again.code, 0, "{again:?}");
}
