//! `kross adopt`: a hub is rebuilt with another UID, and its instances take their objects in remote clusters over again.

use std::collections::BTreeMap;

use kross_testing::wait;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value as Json, json};

use crate::world::{World, config_map};

/// UID and resource version of each ConfigMap in `eu`, by name.
async fn versions(world: &World) -> BTreeMap<String, (String, String)> {
    let listed = world.remote("v1", "ConfigMap").list(&ListParams::default()).await.unwrap();
    let of = |map: kube::api::DynamicObject| {
        let metadata = map.metadata;
        (metadata.name.unwrap(), (metadata.uid.unwrap(), metadata.resource_version.unwrap()))
    };
    listed.items.into_iter().map(of).collect()
}

fn uids(versions: &BTreeMap<String, (String, String)>) -> BTreeMap<&str, &str> {
    versions.iter().map(|(name, (uid, _))| (name.as_str(), uid.as_str())).collect()
}

async fn hub_uid(world: &World) -> String {
    let namespaces = world.api("v1", "Namespace", None);
    namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap()
}

fn resources() -> Json {
    let mut many = config_map("many", true, "${schema.spec.text}");
    many["forEach"] = json!([{"at": "${lists.range(25)}"}]);
    many["template"]["metadata"]["name"] = json!("${schema.metadata.name}-many-${string(at)}");
    json!([config_map("a", true, "${schema.spec.text}"), config_map("b", true, "${a.data.text}"), many])
}

/// An object that a third hub owns, for an instance of the same name.
async fn create_object_of_a_third_hub(world: &World, kind: &str) {
    let third = "00000000-0000-4000-8000-000000000003";
    let applyset = kross_api::remote_applyset_id("x", &world.namespace, kind, "kro.run", third);
    world
        .apply_remote(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x-third", "namespace": world.namespace, "labels": {
            "kro.run/owned": "true", "kro.run/instance-name": "x", "kro.run/instance-namespace": world.namespace,
            "kro.run/instance-group": "kro.run", "kro.run/instance-kind": kind, "kro.run/node-id": "a",
            "applyset.kubernetes.io/part-of": applyset}}}))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuilt_hub_takes_its_objects_over_and_touches_nothing_else() {
    let old = World::new().await;
    old.ready("Rebuilt", "x", resources()).await;
    old.create("Rebuilt", "gone").await;
    old.until_state("Rebuilt", "gone", "ACTIVE").await;
    create_object_of_a_third_hub(&old, "Rebuilt").await;
    // The old hub ends: nobody reconciles its instances any more.
    for name in ["x", "gone"] {
        old.patch("Rebuilt", name, json!({"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}}))
            .await;
        old.until("Rebuilt", name, |instance| {
            instance["status"]["conditions"].to_string().contains("ReconciliationSuspended")
        })
        .await;
    }
    let from = hub_uid(&old).await;
    let before = versions(&old).await;
    assert_eq!(before.len(), 55, "{before:?}");

    let new = old.rebuilt("rebuilt").await;
    new.define("Rebuilt", resources()).await;
    new.create("Rebuilt", "x").await;
    new.until_message("Rebuilt", "x", "belongs to a different ApplySet").await;
    let why = new.kross(&["why", "rebuilt/x"]);
    insta::assert_snapshot!("adopt_why", why.data);

    let adopt = |from: &str, more: &[&str]| {
        let mut arguments = vec!["adopt", "--from-hub", from];
        arguments.extend(more);
        new.kross(&arguments)
    };
    let own = adopt(&hub_uid(&new).await, &[]);
    assert_eq!((own.code, own.notes.contains("is the UID of this hub")), (2, true), "{own:?}");
    let nonsense = adopt("old-hub", &[]);
    assert_eq!(
        (nonsense.code, nonsense.notes.contains("is not the UID of a hub")),
        (2, true),
        "{nonsense:?}"
    );
    let other = adopt("00000000-0000-4000-8000-00000000000f", &[]);
    assert_eq!((other.code, other.data.as_str()), (1, ""), "{other:?}");
    insta::assert_snapshot!("adopt_nothing", other.notes);

    let planned = adopt(&from, &["--dry-run"]);
    assert_eq!(planned.code, 0, "{planned:?}");
    let planned_rows = planned.data.lines().filter(|line| line.starts_with("adopt ")).count();
    assert_eq!((planned_rows, versions(&new).await), (27, before.clone()), "{planned:?}");

    let adopted = adopt(&from, &[]);
    assert_eq!(adopted.code, 0, "{adopted:?}");
    let shown: Vec<&str> = adopted.data.lines().filter(|line| !line.contains("-many-")).collect();
    insta::assert_snapshot!("adopt", format!("{}\n{}", shown.join("\n"), adopted.notes));

    new.until_state("Rebuilt", "x", "ACTIVE").await;
    let after = versions(&new).await;
    assert_eq!(uids(&after), uids(&before), "nothing was deleted or created again");
    let untouched = |name: &str| assert_eq!(after[name], before[name], "{name} was changed");
    after.keys().filter(|name| name.starts_with("gone-")).for_each(|name| untouched(name));
    untouched("x-third");
    let instance = new.until("Rebuilt", "x", |_| true).await;
    let inventory =
        instance["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].as_str().unwrap();
    assert!(inventory.contains("secret/") && inventory.contains("ConfigMap"), "{inventory}");
    let events = new.api("v1", "Event", Some(&new.namespace)).list(&ListParams::default()).await.unwrap();
    assert!(events.items.iter().any(|event| event.data["reason"] == "Adopted"), "{events:?}");

    let again = adopt(&from, &["-o", "json"]);
    let rows: Vec<Json> = serde_json::from_str(&again.data).unwrap();
    assert!(rows.iter().all(|row| row["action"] == "leave") && rows.len() == 27, "{rows:?}");

    // They are its own now.
    new.instances("Rebuilt").delete("x", &DeleteParams::default()).await.unwrap();
    wait::until_deleted(&new.instances("Rebuilt"), "x").await;
    let left = versions(&new).await;
    assert!(left.keys().all(|name| name.starts_with("gone-") || name == "x-third"), "{left:?}");
    assert_eq!(left.len(), 28);
}

#[tokio::test(flavor = "multi_thread")]
async fn leaves_what_the_instance_does_not_want_and_refuses_a_hub_that_answers() {
    let old = World::new().await;
    old.ready("Shrunk", "x", json!([config_map("a", true, "x"), config_map("b", true, "x")])).await;
    old.patch("Shrunk", "x", json!({"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}})).await;
    let new = old.rebuilt("rebuilt").await;
    new.define("Shrunk", json!([config_map("a", true, "x")])).await;
    new.create("Shrunk", "x").await;
    new.until_message("Shrunk", "x", "belongs to a different ApplySet").await;
    let from = hub_uid(&old).await;
    let adopted = new.kross(&["adopt", "shrunk/x", "--from-hub", &from]);
    assert_eq!(adopted.code, 0, "{adopted:?}");
    insta::assert_snapshot!("adopt_one", format!("{}{}", adopted.data, adopted.notes));
    new.until_state("Shrunk", "x", "ACTIVE").await;
    assert!(versions(&new).await.contains_key("x-b"), "what the instance does not want stays");

    // The former hub is a cluster of this one: it still exists.
    new.secret("old-kubeconfig", old.fixture.hub.plane.admin()).await;
    let mut resource = config_map("a", true, "x");
    resource["cluster"] = json!({"name": "old-kubeconfig"});
    new.ready("IntoTheOld", "y", json!([resource])).await;
    let refused = new.kross(&["adopt", "--from-hub", &from]);
    assert_eq!((refused.code, refused.data.as_str()), (2, ""), "{refused:?}");
    assert!(refused.notes.contains("is hub `UID` itself, and it answers"), "{refused:?}");
}
