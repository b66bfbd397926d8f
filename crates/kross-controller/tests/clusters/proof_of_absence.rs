//! What counts as proof that an object was deleted. A load balancer in front of a remote cluster answers what no API server
//! answers; the objects are still there, so the finalizer and the inventory must stay.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kross_testing::{Action, Answer, Fault, Requests, Verb, wait};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value as Json, json};

use crate::instance_api::ownership_metadata;
use crate::setup::condition;
use crate::world::{Region, World, cluster_entry, config_map, resource_entry};

fn one_config_map() -> Json {
    json!({"schema": {"spec": {}}, "resources": [config_map("app", Some("eu"), json!({}))]})
}

/// What something between the controller and an API server may answer with.
fn unproven_answers() -> [(&'static str, Answer); 6] {
    let other = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
        "message": "configmaps \"other\" not found", "details": {"name": "other", "kind": "configmaps"}});
    [
        ("bare", Answer::bare(404)),
        ("page", Answer::html(404)),
        ("status", Answer::status(404)),
        ("other", Answer::json(404, &other)),
        ("welcome", Answer::html(200)),
        ("empty", Answer::json(200, &json!({}))),
    ]
}

fn message(instance: &Json) -> String {
    condition(instance, "ResourcesReady")["message"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the status of an instance says that its deletion waits for something that contains this text.
async fn until_blocked(world: &World, name: &str, text: &'static str) -> Json {
    let blocked = world
        .until(name, move |instance| {
            instance["status"]["state"] == "DELETING" && message(instance).contains(text)
        })
        .await;
    assert_eq!(blocked["metadata"]["finalizers"], json!(["kro.run/finalizer"]));
    blocked
}

fn lists(resource: &str) -> Requests {
    Requests::any().verb(Verb::List).resource(resource)
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_finalizer_while_lists_prove_nothing() {
    let world = World::new("ListProof", one_config_map()).await;
    let eu = world.region("eu");
    let pods =
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": []});
    for (name, answer) in unproven_answers().into_iter().chain([("pods", Answer::json(200, &pods))]) {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
        let rule = eu.proxy.on(lists("configmaps"), Action::Answer(answer));
        world.delete(name).await;
        let blocked = until_blocked(&world, name, "cannot list the objects of the instance in cluster").await;
        let message = message(&blocked);
        assert!(message.contains("load balancer") && message.contains("eu-kubeconfig"), "{name}: {message}");
        assert!(eu.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_some(), "{name}");
        eu.proxy.remove(rule);
        wait::until_deleted(&world.instances, name).await;
        assert!(eu.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_finalizer_while_deletes_prove_nothing() {
    let world = World::new("DeleteProof", one_config_map()).await;
    let eu = world.region("eu");
    for (name, answer) in unproven_answers() {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
        let deletes = Requests::any().verb(Verb::Delete).resource("configmaps");
        let rule = eu.proxy.on(deletes, Action::Answer(answer));
        world.delete(name).await;
        until_blocked(&world, name, "cannot delete ConfigMap").await;
        assert!(eu.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_some(), "{name}");
        eu.proxy.remove(rule);
        wait::until_deleted(&world.instances, name).await;
        assert!(eu.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_once_more_before_the_finalizer_is_removed() {
    let world = World::new("LastList", one_config_map()).await;
    let eu = world.region("eu");
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    // The delete is answered with success, and the object is still there.
    let success = json!({"kind": "Status", "apiVersion": "v1", "status": "Success",
        "details": {"name": "x-app", "kind": "configmaps"}});
    let deletes = Requests::any().verb(Verb::Delete).resource("configmaps");
    let rule = eu.proxy.on_next(2, deletes.clone(), Action::Answer(Answer::json(200, &success)));
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
    assert_eq!(eu.proxy.count(&deletes), 3);
    eu.proxy.remove(rule);
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_finalizer_while_the_release_of_a_retained_object_is_not_proven() {
    let mut app = config_map("app", Some("eu"), json!({}));
    app["lifecycle"] = json!({"delete": {"policy": "Retain"}});
    let world = World::new("ReleaseProof", json!({"schema": {"spec": {}}, "resources": [app]})).await;
    let eu = world.region("eu");
    for (name, answer) in unproven_answers() {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
        let reads = Requests::any().verb(Verb::Get).resource("configmaps");
        let rule = eu.proxy.on(reads.clone(), Action::Answer(answer));
        let before = eu.proxy.count(&reads);
        world.delete(name).await;
        wait::until_true("two attempts to release", || eu.proxy.count(&reads) > before + 1).await;
        assert_eq!(world.get(name).await["metadata"]["finalizers"], json!(["kro.run/finalizer"]), "{name}");
        eu.proxy.remove(rule);
        wait::until_deleted(&world.instances, name).await;
        let retained = eu.config_maps.get(&format!("{name}-app")).await.unwrap();
        assert_eq!(ownership_metadata(&retained), [""; 0], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_finalizer_while_the_cluster_cannot_be_identified() {
    let world = World::new("IdentityProof", one_config_map()).await;
    let eu = world.region("eu");
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let identity = Requests::any().verb(Verb::Get).resource("namespaces").name("kube-system");
    let answers = [eu.proxy.on(identity.clone(), Action::Answer(Answer::bare(404)))];
    wait::until_true("the cluster to be probed", || {
        eu.proxy.requests(&identity).iter().any(|record| record.status() == Some(404))
    })
    .await;
    world.delete("x").await;
    until_blocked(&world, "x", "kube-system").await;
    for rule in answers {
        eu.proxy.remove(rule);
    }
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn finishes_with_a_credential_that_may_not_read_the_identity_of_the_cluster() {
    let world = World::without_definition("Minimal").await;
    let eu = world.region("eu");
    let identity = Requests::any().verb(Verb::Get).resource("namespaces").name("kube-system");
    eu.proxy.on(identity, Action::Answer(Answer::status(403)));
    world.define(one_config_map()).await;
    world.create("x", json!({})).await;
    let active = world.until_state("x", "ACTIVE").await;
    assert_eq!(cluster_entry(&active, "eu-kubeconfig")["unverified"], true, "{active:#}");
    world.delete("x").await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn finishes_when_the_identity_of_the_cluster_becomes_readable_during_the_deletion() {
    let world = World::without_definition("LateIdentity").await;
    let eu = world.region("eu");
    let identity = Requests::any().verb(Verb::Get).resource("namespaces").name("kube-system");
    let rule = eu.proxy.on(identity, Action::Answer(Answer::status(403)));
    world.define(one_config_map()).await;
    world.create("x", json!({})).await;
    let active = world.until_state("x", "ACTIVE").await;
    assert_eq!(cluster_entry(&active, "eu-kubeconfig")["unverified"], true, "{active:#}");
    let hold = |finalizers| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let held = hold(json!(["test.kross.run/hold"]));
    eu.config_maps.patch("x-app", &PatchParams::default(), &held).await.unwrap();
    world.delete("x").await;
    until_blocked(&world, "x", "test.kross.run/hold").await;
    eu.proxy.remove(rule);
    eu.proxy.set(Fault::Refuse);
    until_blocked(&world, "x", "not connected").await;
    eu.proxy.set(Fault::Pass);
    let inventory = |instance: &Json| {
        instance["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].to_string()
    };
    world
        .until("x", |instance| {
            message(instance).contains("test.kross.run/hold") && !inventory(instance).contains("https://")
        })
        .await;
    eu.config_maps.patch("x-app", &PatchParams::default(), &hold(json!([]))).await.unwrap();
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn backs_off_and_reports_when_another_client_creates_deleted_objects_again() {
    const QUIET: std::time::Duration = std::time::Duration::from_secs(10);
    let world = World::new("CreatedAgain", one_config_map()).await;
    let eu = world.region("eu");
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    let mut copy = eu.config_maps.get("x-app").await.unwrap();
    copy.metadata.uid = None;
    copy.metadata.resource_version = None;
    copy.metadata.creation_timestamp = None;
    copy.metadata.managed_fields = None;
    // Each list begins after the other client has created the object again.
    let rule = eu.proxy.on(lists("configmaps"), Action::Delay(std::time::Duration::from_millis(200)));
    let config_maps = eu.config_maps.clone();
    let other = tokio::spawn(async move {
        loop {
            // It usually exists.
            let _ = config_maps.create(&PostParams::default(), &copy).await;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    world.delete("x").await;
    until_blocked(&world, "x", "another client creates").await;
    let deletes = Requests::any().verb(Verb::Delete).resource("configmaps");
    let before = eu.proxy.count(&deletes);
    tokio::time::sleep(QUIET).await;
    let sent = eu.proxy.count(&deletes) - before;
    assert!(sent <= 10, "{sent} deletes in {QUIET:?}");
    other.abort();
    eu.proxy.remove(rule);
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn finishes_when_somebody_else_deleted_the_objects() {
    let world = World::new("DeletedByOthers", one_config_map()).await;
    let eu = world.region("eu");
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    // Held, so that the object is there when it is listed and deleted before the controller deletes it.
    let deletes = Requests::any().verb(Verb::Delete).resource("configmaps");
    let rule = eu.proxy.on(deletes.clone(), Action::Hold);
    world.delete("x").await;
    wait::until_true("the delete", || eu.proxy.count(&deletes) == 1).await;
    eu.config_maps.delete("x-app", &Default::default()).await.unwrap();
    eu.proxy.remove(rule);
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
}

/// Installs a CRD in a remote cluster, and waits until discovery lists its kind.
async fn install_crd(region: &Region, kind: &str) -> Api<CustomResourceDefinition> {
    let (plural, singular) = (format!("{}s", kind.to_lowercase()), kind.to_lowercase());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({"metadata": {"name": format!("{plural}.{singular}.example.com")}, "spec": {
        "group": format!("{singular}.example.com"), "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural, "singular": singular},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let crds: Api<CustomResourceDefinition> = Api::all(region.cluster.client.clone());
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    let group = format!("{singular}.example.com");
    wait::until("discovery to list the group", || async {
        let found = discovery(region).await;
        let groups = found["items"].as_array().unwrap();
        let found = groups.iter().any(|known| known["metadata"]["name"] == group.as_str());
        if found { Ok(()) } else { Err(group.clone()) }
    })
    .await;
    crds
}

/// The aggregated discovery document of a remote cluster.
async fn discovery(region: &Region) -> Json {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = http::Request::get("/apis").header("accept", accept).body(Vec::new()).unwrap();
    let text = region.cluster.client.request_text(request).await.unwrap();
    serde_json::from_str(&text).unwrap()
}

fn custom_resource(kind: &str) -> Json {
    let group = format!("{}.example.com", kind.to_lowercase());
    json!({"schema": {"spec": {}}, "resources": [{"id": "app", "cluster": {"name": "eu-kubeconfig"},
        "template": {"apiVersion": format!("{group}/v1"), "kind": kind,
            "metadata": {"name": "${schema.metadata.name}-app"}, "spec": {}}}]})
}

fn objects_of(world: &World, kind: &str) -> Api<DynamicObject> {
    let group = format!("{}.example.com", kind.to_lowercase());
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(&group, "v1", kind),
        &format!("{}s", kind.to_lowercase()),
    );
    Api::namespaced_with(world.region("eu").cluster.client.clone(), &world.namespace, &resource)
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_finalizer_while_discovery_is_incomplete() {
    let world = World::without_definition("StaleProof").await;
    let eu = world.region("eu");
    install_crd(eu, "Gizmo").await;
    world.define(custom_resource("Gizmo")).await;
    let gizmos = objects_of(&world, "Gizmo");
    let group = "gizmo.example.com";
    let complete = discovery(eu).await;
    // The group is listed as stale and without resources, its API server being unavailable; or without resources that the
    // aggregator has not read yet; or nothing is listed at all.
    let listed_as = |version: Json| {
        let mut document = complete.clone();
        for known in document["items"].as_array_mut().unwrap() {
            if known["metadata"]["name"] == group {
                known["versions"] = json!([version]);
            }
        }
        document
    };
    let stale = listed_as(json!({"version": "v1", "freshness": "Stale"}));
    let hollow = listed_as(json!({"version": "v1", "freshness": "Current"}));
    let nothing =
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []});
    let documents = [
        ("stale", Answer::json(200, &stale)),
        ("hollow", Answer::json(200, &hollow)),
        ("nothing", Answer::json(200, &nothing)),
        ("empty", Answer::json(200, &json!({}))),
        ("bare", Answer::bare(404)),
        ("status", Answer::status(404)),
        ("page", Answer::html(200)),
    ];
    for (name, document) in documents {
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
        let rules = [
            eu.proxy.on(lists("gizmos.gizmo.example.com"), Action::Answer(Answer::bare(404))),
            eu.proxy.on(Requests::any().resource("/apis"), Action::Answer(document)),
        ];
        world.delete(name).await;
        until_blocked(&world, name, "cannot list the objects of the instance in cluster").await;
        assert!(gizmos.get_opt(&format!("{name}-app")).await.unwrap().is_some(), "{name}");
        for rule in rules {
            eu.proxy.remove(rule);
        }
        wait::until_deleted(&world.instances, name).await;
        assert!(gizmos.get_opt(&format!("{name}-app")).await.unwrap().is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_finalizer_while_a_starting_api_server_lists_only_built_in_kinds() {
    let world = World::without_definition("StartingProof").await;
    let eu = world.region("eu");
    install_crd(eu, "Sprocket").await;
    world.define(custom_resource("Sprocket")).await;
    let sprockets = objects_of(&world, "Sprocket");
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    // As an API server answers after a restart, before it has read its CustomResourceDefinitions.
    let mut built_in = discovery(eu).await;
    let is_built_in = |group: &Json| group["metadata"]["name"].as_str().unwrap().ends_with(".k8s.io");
    built_in["items"].as_array_mut().unwrap().retain(is_built_in);
    let rules = [
        eu.proxy.on(lists("sprockets.sprocket.example.com"), Action::Answer(Answer::bare(404))),
        eu.proxy.on(Requests::any().resource("/apis"), Action::Answer(Answer::json(200, &built_in))),
        eu.proxy.on(Requests::any().resource("/readyz"), Action::Answer(Answer::bare(500))),
    ];
    world.delete("x").await;
    until_blocked(&world, "x", "the API server is not ready").await;
    assert!(sprockets.get_opt("x-app").await.unwrap().is_some());
    for rule in rules {
        eu.proxy.remove(rule);
    }
    wait::until_deleted(&world.instances, "x").await;
    assert!(sprockets.get_opt("x-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn finishes_when_the_crd_was_deleted() {
    let world = World::without_definition("CrdDeleted").await;
    let eu = world.region("eu");
    let crds = install_crd(eu, "Gadget").await;
    world.define(custom_resource("Gadget")).await;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    crds.delete("gadgets.gadget.example.com", &Default::default()).await.unwrap();
    wait::until_deleted(&crds, "gadgets.gadget.example.com").await;
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_a_cluster_in_the_inventory_while_its_cleanup_is_not_proven() {
    let world = World::new("MoveProof", crate::moving::one_region()).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    let inventory = |instance: &Json| {
        instance["metadata"]["annotations"]["internal.kro.run/cluster-inventory"].to_string()
    };
    for (name, answer) in unproven_answers() {
        world.create(name, json!({"region": "eu"})).await;
        world.until_state(name, "ACTIVE").await;
        let deletes = Requests::any().verb(Verb::Delete).resource("configmaps");
        let rules = [lists("configmaps"), deletes.clone()]
            .map(|requests| eu.proxy.on(requests, Action::Answer(answer.clone())));
        let before = eu.proxy.count(&deletes);
        world.patch(name, json!({"spec": {"region": "us"}})).await;
        wait::until_object(&us.config_maps, &format!("{name}-app"), |_| true).await;
        wait::until_true("two attempts to delete", || eu.proxy.count(&deletes) > before + 1).await;
        let moved = world.until(name, |instance| !cluster_entry(instance, "us-kubeconfig").is_null()).await;
        assert!(inventory(&moved).contains("eu-kubeconfig"), "{name}: {moved:#}");
        assert!(eu.config_maps.get_opt(&format!("{name}-app")).await.unwrap().is_some(), "{name}");
        for rule in rules {
            eu.proxy.remove(rule);
        }
        wait::until_deleted(&eu.config_maps, &format!("{name}-app")).await;
        world.until(name, |instance| !inventory(instance).contains("eu-kubeconfig")).await;
        world.delete(name).await;
        wait::until_deleted(&world.instances, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_cleanup_that_cannot_be_proven_and_completes_it_later() {
    let world = World::new("CleanupProof", crate::moving::one_region()).await;
    let eu = world.region("eu");
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    // The delete works, but no list proves it.
    let rule = eu.proxy.on(lists("configmaps"), Action::Answer(Answer::bare(404)));
    world.patch("x", json!({"spec": {"region": "us"}})).await;
    wait::until_deleted(&eu.config_maps, "x-app").await;
    let pending = world
        .until("x", |instance| {
            let connected = condition(instance, "RemoteClusterConnected")["message"].to_string();
            connected.contains("cleanup pending in cluster") && connected.contains("404")
        })
        .await;
    assert!(!cluster_entry(&pending, "eu-kubeconfig").is_null(), "{pending:#}");
    assert_eq!(resource_entry(&pending, "app")["state"], "Ready", "{pending:#}");
    eu.proxy.remove(rule);
    world.until("x", |instance| cluster_entry(instance, "eu-kubeconfig").is_null()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_are_deleted_together_share_lists_and_leave_the_cluster_idle() {
    const INSTANCES: usize = 20;
    let world = World::new("SharedLists", one_config_map()).await;
    let eu = world.region("eu");
    let names: Vec<String> = (0..INSTANCES).map(|number| format!("x{number}")).collect();
    for name in &names {
        world.create(name, json!({})).await;
    }
    for name in &names {
        world.until_state(name, "ACTIVE").await;
    }
    let deletes = Requests::any().verb(Verb::Delete).resource("configmaps");
    let hold_deletes = eu.proxy.on(deletes.clone(), Action::Hold);
    for name in &names {
        world.delete(name).await;
    }
    wait::until_true("all deletes", || eu.proxy.count(&deletes) == INSTANCES).await;
    // From here on only the last list of each instance is left.
    let before = eu.proxy.count(&lists("configmaps"));
    let hold_lists = eu.proxy.on(lists("configmaps"), Action::Hold);
    eu.proxy.remove(hold_deletes);
    for name in &names {
        wait::until_deleted(&eu.config_maps, &format!("{name}-app")).await;
    }
    wait::until_true("the first list", || eu.proxy.count(&lists("configmaps")) > before).await;
    eu.proxy.remove(hold_lists);
    for name in &names {
        wait::until_deleted(&world.instances, name).await;
    }
    let last = eu.proxy.count(&lists("configmaps")) - before;
    assert!(last <= 5, "{INSTANCES} instances sent {last} lists");
    until_idle(eu).await;
}

/// Waits until no request but those of watches and probes is sent to a cluster for some time.
pub async fn until_idle(region: &Region) {
    const IDLE_FOR: std::time::Duration = std::time::Duration::from_secs(5);
    let busy = || {
        let sent = region.proxy.requests(&Requests::any());
        let is_probe = |name: Option<&str>, path: &str| name == Some("kube-system") || path == "/readyz";
        let busy = sent.iter().filter(|record| {
            let request = &record.request;
            request.verb != Verb::Watch && !is_probe(request.name.as_deref(), &request.path)
        });
        busy.count()
    };
    let mut last = (busy(), std::time::Instant::now());
    wait::until_true("the cluster to be idle", || {
        let now = busy();
        if now != last.0 {
            last = (now, std::time::Instant::now());
        }
        last.1.elapsed() > IDLE_FOR
    })
    .await;
}
