//! Repairs back off where another client changes or deletes an object again after every repair.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kross_testing::{Action, Answer, Requests, Verb, wait};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;

use crate::collections::collection;
use crate::setup::condition;
use crate::world::{World, config_map, edit, value};

/// The field manager of the other client.
const RIVAL: &str = "rival";

/// Another client that undoes every repair until it is dropped.
pub struct Rival(JoinHandle<()>);

impl Drop for Rival {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Rival {
    /// Sets `data.x` to its own value whenever it has another one.
    pub fn edits(api: &Api<ConfigMap>, name: &str) -> Self {
        Self::act(
            api,
            name,
            |object| value(object, "x") != Some(RIVAL),
            |api, name| async move {
                let patch = Patch::Merge(json!({"data": {"x": RIVAL}}));
                let _ = api
                    .patch(
                        &name,
                        &PatchParams { field_manager: Some(RIVAL.to_owned()), ..PatchParams::default() },
                        &patch,
                    )
                    .await;
            },
        )
    }

    /// Deletes the object whenever it exists.
    fn deletes(api: &Api<ConfigMap>, name: &str) -> Self {
        Self::act(
            api,
            name,
            |_| true,
            |api, name| async move {
                let _ = api.delete(&name, &DeleteParams::default()).await;
            },
        )
    }

    fn act<Done: Future<Output = ()> + Send>(
        api: &Api<ConfigMap>,
        name: &str,
        disturbs: fn(&ConfigMap) -> bool,
        undo: impl Fn(Api<ConfigMap>, String) -> Done + Send + Sync + 'static,
    ) -> Self {
        let (api, name) = (api.clone(), name.to_owned());
        Self(tokio::spawn(async move {
            loop {
                if let Ok(Some(object)) = api.get_opt(&name).await
                    && disturbs(&object)
                {
                    undo(api.clone(), name.clone()).await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }))
    }
}

/// When the controller applied an object.
fn applies(world: &World, name: &str) -> Vec<Instant> {
    world.proxy.requests(&applies_of(world, name)).iter().map(|record| record.at).collect()
}

fn applies_of(world: &World, name: &str) -> Requests {
    Requests::any().verb(Verb::Apply).resource("configmaps").namespace(&world.namespace).name(name)
}

/// The largest number of applies within ten seconds, from twenty seconds after the first one on.
pub fn most_in_ten_seconds(applies: &[Instant]) -> usize {
    let Some(first) = applies.first() else { return 0 };
    let late: Vec<&Instant> =
        applies.iter().filter(|at| at.duration_since(*first) > Duration::from_secs(20)).collect();
    let within = |from: &Instant| {
        late.iter().filter(|at| **at >= from && at.duration_since(*from) < Duration::from_secs(10)).count()
    };
    late.iter().map(|from| within(from)).max().unwrap_or_default()
}

/// Waits until this long after the first apply: a rate can only be measured over time.
async fn until_elapsed(since: Instant, wait: Duration) {
    wait::until_true(format!("{wait:?} to pass"), || since.elapsed() >= wait).await;
}

/// The entry of an object in `managedResources`.
fn entry(instance: &Json, name: &str) -> Json {
    let entries = instance["status"]["managedResources"].as_array().cloned().unwrap_or_default();
    entries.into_iter().find(|entry| entry["name"] == name).unwrap_or(Json::Null)
}

/// Whether the status of an instance names the other client and its field.
pub fn names_rival(instance: &Json, name: &str) -> bool {
    let texts = [
        condition(instance, "ResourcesReady")["message"].to_string(),
        entry(instance, name)["message"].to_string(),
    ];
    texts.iter().all(|text| text.contains("`rival`") && text.contains("`data.x`"))
}

/// The notes of the Events about an object that another client changes.
async fn notes(world: &World, instance: &str) -> Vec<String> {
    let events = world.objects.events(&world.namespace).list(&ListParams::default()).await.unwrap();
    let about = events.items.into_iter().filter(|event| {
        event.data["regarding"]["name"] == instance && event.data["reason"] == "RepairsBackOff"
    });
    about.map(|event| event.data["note"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_back_off_and_only_those_of_the_contested_object() {
    let resources = json!([
        config_map("a", json!({"x": "${schema.spec.x}"})),
        config_map("dependent", json!({"x": "${a.data.x}"})),
        config_map("other", json!({"x": "1"})),
    ]);
    let world = World::new("Besieged", json!({"spec": {"x": "string"}}), resources).await;
    world.create("x", json!({"x": "ours"})).await;
    world.until_state("x", "ACTIVE").await;
    let begun = Instant::now();
    let rival = Rival::edits(&world.config_maps, "x-a");
    let contested = world.until("x", |instance| names_rival(instance, "x-a")).await;
    assert_eq!(condition(&contested, "ResourcesReady")["status"], "False", "{contested:#}");
    assert_eq!(entry(&contested, "x-other")["state"], "Ready", "{contested:#}");
    until_elapsed(begun, Duration::from_secs(35)).await;
    let rounds = applies(&world, "x-a");
    assert!(most_in_ten_seconds(&rounds) <= 5, "{rounds:?}");
    assert!(rounds.len() < 15, "{} repairs in 35 seconds", rounds.len());

    // The value that dependents read is the one that was applied.
    let dependent = world.config_maps.get("x-dependent").await.unwrap();
    assert_eq!(value(&dependent, "x"), Some("ours"));
    // Other objects are repaired at once, the dependents of the contested one too.
    for name in ["x-other", "x-dependent"] {
        edit(&world.config_maps, name, json!({"x": "edited"})).await;
        let restored = |object: &ConfigMap| value(object, "x") != Some("edited");
        wait::woken(wait::until_object(&world.config_maps, name, restored)).await;
    }
    assert_eq!(
        applies(&world, "x-a").len(),
        rounds.len(),
        "the repair of other objects is not a repair of this one"
    );
    // A change of the instance is applied at once.
    world.patch("x", json!({"spec": {"x": "new"}})).await;
    wait::woken(wait::until_object(&world.config_maps, "x-dependent", |object| {
        value(object, "x") == Some("new")
    }))
    .await;
    assert_eq!(applies(&world, "x-a").len(), rounds.len() + 1);
    let notes = notes(&world, "x").await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("`rival`") && notes[0].contains("`data.x`") && notes[0].contains("x-a"),
        "{notes:?}"
    );
    drop(rival);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hub_is_idle_between_repairs_and_after_the_last_one() {
    let world =
        World::new("Truce", json!({"spec": {}}), json!([config_map("a", json!({"x": "ours"}))])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let rival = Rival::edits(&world.config_maps, "x-a");
    world.until("x", |instance| names_rival(instance, "x-a")).await;
    // Changes of others that nobody repairs yet cost no request. The next repair is more than ten seconds away.
    let waits = || world.proxy.requests(&applies_of(&world, "x-a")).len() >= 10;
    wait::until_true("ten repairs", waits).await;
    let (sent, begun) = (world.sent_requests().len(), Instant::now());
    while begun.elapsed() < Duration::from_secs(5) {
        edit(&world.config_maps, "x-a", json!({"x": format!("{:?}", begun.elapsed())})).await;
    }
    let between = world.sent_requests().split_off(sent);
    let writes = between.iter().filter(|request| !request.contains("/status"));
    assert_eq!(writes.count(), 0, "{between:?}");

    // A quiet period ends it.
    drop(rival);
    world.until_state("x", "ACTIVE").await;
    let repaired = world.config_maps.get("x-a").await.unwrap();
    assert_eq!(value(&repaired, "x"), Some("ours"));
    let (sent, begun) = (world.sent_requests(), Instant::now());
    until_elapsed(begun, Duration::from_secs(10)).await;
    assert_eq!(world.sent_requests(), sent, "the hub is idle");
    for _ in 0..3 {
        edit(&world.config_maps, "x-a", json!({"x": "edited"})).await;
        let restored = |object: &ConfigMap| value(object, "x") == Some("ours");
        wait::woken(wait::until_object(&world.config_maps, "x-a", restored)).await;
    }
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_deleted_again_and_again_is_created_less_and_less_often() {
    let maps = collection(
        "maps",
        "name",
        "${schema.spec.names}",
        "${schema.metadata.name}-${name}",
        json!({"x": "1"}),
    );
    let world = World::new("Undone", json!({"spec": {"names": "[]string"}}), json!([maps])).await;
    world.create("x", json!({"names": ["a", "b"]})).await;
    world.until_state("x", "ACTIVE").await;
    let begun = Instant::now();
    let _rival = Rival::deletes(&world.config_maps, "x-a");
    let message = |instance: &Json| condition(instance, "ResourcesReady")["message"].to_string();
    world
        .until("x", |instance| {
            let texts = [message(instance), entry(instance, "x-a")["message"].to_string()];
            texts.iter().all(|text| text.contains("another client deletes it"))
        })
        .await;
    until_elapsed(begun, Duration::from_secs(32)).await;
    let rounds = applies(&world, "x-a");
    assert!(most_in_ten_seconds(&rounds) <= 5 && rounds.len() < 15, "{rounds:?}");
    // The other item is not concerned.
    for _ in 0..2 {
        edit(&world.config_maps, "x-b", json!({"x": "2"})).await;
        wait::woken(wait::until_object(&world.config_maps, "x-b", |object| value(object, "x") == Some("1")))
            .await;
    }
    assert_eq!(notes(&world, "x").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_status_are_not_repaired_and_do_not_count() {
    let deployment = json!({"id": "web", "template": {"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "${schema.metadata.name}-web"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]}}}}});
    let world = World::new("StatusOnly", json!({"spec": {}}), json!([deployment])).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let deployments: Api<Deployment> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let rival = PatchParams { field_manager: Some(RIVAL.to_owned()), ..PatchParams::default() };
    let sent = world.sent_requests();
    for count in 1..=20 {
        let status = json!({"status": {"replicas": count, "readyReplicas": count}});
        deployments.patch_status("x-web", &rival, &Patch::Merge(status)).await.unwrap();
    }
    let scale = json!({"spec": {"replicas": 5}});
    for _ in 0..2 {
        deployments.patch("x-web", &rival, &Patch::Merge(&scale)).await.unwrap();
        let is_restored = |web: &Deployment| {
            web.spec.as_ref().and_then(|spec| spec.replicas).is_some_and(|replicas| replicas == 1)
        };
        wait::woken(wait::until_object(&deployments, "x-web", is_restored)).await;
    }
    let sent = world.sent_requests().split_off(sent.len());
    let repairs = sent.iter().filter(|request| request.starts_with("apply "));
    assert_eq!(repairs.count(), 2, "{sent:?}");
    assert!(notes(&world, "x").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_an_instance_that_are_removed_again_and_again_are_written_less_and_less_often() {
    let world = World::new(
        "Bare",
        json!({"spec": {"x": "string"}}),
        json!([config_map("a", json!({"x": "${schema.spec.x}"}))]),
    )
    .await;
    world.create("x", json!({"x": "1"})).await;
    world.until_state("x", "ACTIVE").await;
    let begun = Instant::now();
    let instances = world.instances.clone();
    let rival = tokio::spawn(async move {
        let strip = json!({"metadata": {"labels": {"kro.run/owned": "false"}}});
        loop {
            let object = instances.get("x").await.unwrap();
            if object
                .metadata
                .labels
                .unwrap_or_default()
                .get("kro.run/owned")
                .is_some_and(|owned| owned == "true")
            {
                let rival = PatchParams { field_manager: Some(RIVAL.to_owned()), ..PatchParams::default() };
                let _ = instances.patch("x", &rival, &Patch::Merge(&strip)).await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    world
        .until("x", |instance| {
            let message = condition(instance, "InstanceManaged")["message"].to_string();
            message.contains("`rival`") && message.contains("`metadata.labels.kro.run/owned`")
        })
        .await;
    until_elapsed(begun, Duration::from_secs(32)).await;
    let resource = format!("{}.kro.run", kross_api::plural("Bare"));
    let written = Requests::any().verb(Verb::Patch).resource(&resource).namespace(&world.namespace).name("x");
    let rounds: Vec<Instant> = world.proxy.requests(&written).iter().map(|record| record.at).collect();
    assert!(most_in_ten_seconds(&rounds) <= 5 && rounds.len() < 15, "{rounds:?}");
    // Its objects are still reconciled.
    world.patch("x", json!({"spec": {"x": "2"}})).await;
    wait::woken(wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some("2")))
        .await;
    rival.abort();
    world.until_state("x", "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finalizer_that_is_removed_again_and_again_is_soon_written_again() {
    let world = World::new(
        "FinalizerStripped",
        json!({"spec": {"x": "string"}}),
        json!([config_map("a", json!({}))]),
    )
    .await;
    world.create("x", json!({"x": "1"})).await;
    world.until_state("x", "ACTIVE").await;
    // So often that the next wait would be long.
    let strip = json!({"metadata": {"finalizers": null, "labels": null, "annotations": null}});
    for round in 0..12 {
        let is_back = |instance: &Json| instance["metadata"]["finalizers"] == json!(["kro.run/finalizer"]);
        let stripped = Instant::now();
        world.until("x", is_back).await;
        assert!(stripped.elapsed() < Duration::from_secs(20), "{round}: {:?}", stripped.elapsed());
        world.patch("x", strip.clone()).await;
    }
    let stripped = world.until("x", |instance| instance["metadata"]["finalizers"].is_array()).await;
    assert!(stripped["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"].is_string());
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(world.config_maps.get_opt("x-a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_not_repeated_before_the_time_that_the_server_asks_for() {
    let resources = json!([
        config_map("a", json!({"x": "${schema.spec.x}"})),
        config_map("b", json!({"x": "${schema.spec.x}"}))
    ]);
    let world = World::new("Patient", json!({"spec": {"x": "string"}}), resources).await;
    world.create("x", json!({"x": "1"})).await;
    world.until_state("x", "ACTIVE").await;
    let busy = |code: u16| Action::Answer(Answer::status(code).retry_after(6));
    for (code, step) in [(429, "2"), (503, "3")] {
        let before = applies(&world, "x-a").len();
        let rule = world.proxy.on(applies_of(&world, "x-a"), busy(code));
        world.patch("x", json!({"spec": {"x": step}})).await;
        wait::until_object(&world.config_maps, "x-b", |object| value(object, "x") == Some(step)).await;
        wait::until_true("a rejected write", || applies(&world, "x-a").len() > before).await;
        // Neither events nor changes of the instance write it earlier.
        for _ in 0..3 {
            edit(&world.config_maps, "x-b", json!({"x": "edited"})).await;
            wait::until_object(&world.config_maps, "x-b", |object| value(object, "x") == Some(step)).await;
        }
        world.proxy.remove(rule);
        wait::until_object(&world.config_maps, "x-a", |object| value(object, "x") == Some(step)).await;
        let writes = applies(&world, "x-a").split_off(before);
        let gaps: Vec<Duration> = writes.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect();
        assert!(
            !gaps.is_empty() && gaps.iter().all(|gap| *gap >= Duration::from_secs(6)),
            "{code}: {gaps:?}"
        );
        world.until_state("x", "ACTIVE").await;
    }
    // The same for a deletion.
    let deletes =
        Requests::any().verb(Verb::Delete).resource("configmaps").namespace(&world.namespace).name("x-a");
    let rule = world.proxy.on(deletes.clone(), busy(429));
    world.delete("x").await;
    wait::until_true("a rejected deletion", || !world.proxy.requests(&deletes).is_empty()).await;
    world.proxy.remove(rule);
    wait::until_deleted(&world.instances, "x").await;
    let sent: Vec<Instant> = world.proxy.requests(&deletes).iter().map(|record| record.at).collect();
    assert!(sent.len() == 2 && sent[1].duration_since(sent[0]) >= Duration::from_secs(6), "{sent:?}");
}
