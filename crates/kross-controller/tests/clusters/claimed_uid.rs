//! Two tenants: one has a genuine cluster, the other one a server that claims the UID of that cluster under a certificate authority
//! of its own. Also a genuine cluster whose certificate authority is rotated.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_controller::Settings;
use kross_local::Kubeconfig;
use kross_testing::{Action, Answer, FaultProxy, Requests, Verb, objects, shared, wait};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::moving::one_region;
use crate::setup::{Objects, Running, condition, install, until};
use crate::world::{World, cluster_entry, config_map, resource_entry, value};

const WARNING: &str = "claims the same UID";

/// A server that claims to be the cluster with this UID, in front of the control plane of another one.
fn liar(admin: &Kubeconfig, uid: &str) -> (FaultProxy, Kubeconfig) {
    let proxy = FaultProxy::start_under_own_authority(admin).unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "kube-system", "uid": uid, "resourceVersion": "1"}});
    let identity = Requests::any().resource("namespaces").name("kube-system");
    proxy.on(identity, Action::Answer(Answer::json(200, &namespace)));
    let kubeconfig = proxy.kubeconfig(admin).unwrap();
    (proxy, kubeconfig)
}

async fn uid(client: kube::Client) -> String {
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap()
}

/// Adds the Secret `NAME-kubeconfig` of a server that claims to be `eu`.
async fn add_liar(world: &World, name: &str) -> FaultProxy {
    let eu = uid(world.region("eu").cluster.client.clone()).await;
    let (proxy, kubeconfig) = liar(world.region("us").cluster.plane.admin(), &eu);
    world.apply_secret(&format!("{name}-kubeconfig"), &kubeconfig).await;
    proxy
}

fn is_warned(instance: &Json) -> bool {
    let connected = condition(instance, "RemoteClusterConnected");
    connected["status"] == "True" && connected["message"].as_str().is_some_and(|it| it.contains(WARNING))
}

/// The requests with these verbs on one ConfigMap.
fn requests(proxy: &FaultProxy, verbs: &[Verb], name: &str) -> usize {
    let of = |verb: &Verb| proxy.count(&Requests::any().verb(*verb).resource("configmaps").name(name));
    verbs.iter().map(of).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_writes_of_a_server_that_claims_a_uid_hold_nothing_in_the_cluster_and_both_are_warned_of() {
    let mut app = config_map("app", Some("${schema.spec.region}"), json!({"text": "one"}));
    app["template"]["metadata"]["name"] = json!("shared");
    let spec = json!({"schema": {"spec": {"region": "string"}}, "resources": [app]});
    let world = World::new("SlowLiar", spec).await;
    // The tenant connects first, and never answers the write.
    let proxy = add_liar(&world, "tenant").await;
    let writes = Requests::any().verb(Verb::Apply).resource("configmaps").name("shared");
    let rule = proxy.on(writes.clone(), Action::Hold);
    world.create("tenant", json!({"region": "tenant"})).await;
    wait::until_true("the write that hangs", || proxy.count(&writes) > 0).await;

    world.create("production", json!({"region": "eu"})).await;
    let active = wait::woken(world.until_state("production", "ACTIVE")).await;
    assert!(proxy.count(&writes) > 0 && is_warned(&active), "{active:#}");
    proxy.remove(rule);
    let tenant = world.until_state("tenant", "ACTIVE").await;
    world.until("tenant", is_warned).await;
    let (genuine, claimed) =
        (cluster_entry(&active, "eu-kubeconfig"), cluster_entry(&tenant, "tenant-kubeconfig"));
    assert_eq!(genuine["uid"], claimed["uid"], "{tenant:#}");
    for region in ["eu", "us"] {
        assert!(world.region(region).config_maps.get_opt("shared").await.unwrap().is_some(), "{region}");
    }
    // Each deletes its own object alone.
    world.delete("tenant").await;
    wait::until_deleted(&world.instances, "tenant").await;
    assert!(world.region("us").config_maps.get_opt("shared").await.unwrap().is_none());
    assert!(world.region("eu").config_maps.get_opt("shared").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_that_claims_a_uid_lists_is_deleted_there_and_not_in_the_cluster() {
    let near = config_map("near", Some("eu"), json!({}));
    // Its reference comes before the genuine one, and after it in the graph.
    let far = config_map("far", Some("a-tenant"), json!({}));
    let world = World::without_definition("ListingLiar").await;
    let proxy = add_liar(&world, "a-tenant").await;
    world.define(json!({"schema": {"spec": {}}, "resources": [near, far]})).await;
    let (eu, us) = (world.region("eu"), world.region("us"));
    let payroll = objects::config_map("payroll", &[]);
    let payroll = eu.config_maps.create(&PostParams::default(), &payroll).await.unwrap();
    world.create("x", json!({})).await;
    let active = world.until_state("x", "ACTIVE").await;
    assert!(is_warned(&active), "{active:#}");
    for id in ["near", "far"] {
        assert_eq!(resource_entry(&active, id)["state"], "Ready", "{active:#}");
    }
    // The server lists an object of the genuine cluster, by name and UID, as one of the instance.
    let far = us.config_maps.get("x-far").await.unwrap();
    let mut forged = serde_json::to_value(&far).unwrap();
    forged["metadata"]["name"] = json!("payroll");
    forged["metadata"]["uid"] = json!(payroll.metadata.uid);
    forged["apiVersion"] = json!("v1");
    forged["kind"] = json!("ConfigMap");
    let mut own = serde_json::to_value(&far).unwrap();
    own["apiVersion"] = json!("v1");
    own["kind"] = json!("ConfigMap");
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList",
        "metadata": {"resourceVersion": far.metadata.resource_version}, "items": [own, forged]});
    let lists = Requests::any().verb(Verb::List).resource("configmaps");
    let rule = proxy.on(lists, Action::Answer(Answer::json(200, &list)));
    world.delete("x").await;
    wait::until_true("the deletion of what it lists", || requests(&proxy, &[Verb::Delete], "payroll") > 0)
        .await;
    proxy.remove(rule);
    wait::until_deleted(&world.instances, "x").await;
    let kept = eu.config_maps.get("payroll").await.unwrap();
    assert_eq!((kept.metadata.uid, kept.metadata.deletion_timestamp), (payroll.metadata.uid, None));
    let verbs = [Verb::Delete, Verb::Patch, Verb::Apply, Verb::Update];
    assert_eq!(requests(&eu.proxy, &verbs, "payroll"), 0);
    // Each of its objects was deleted where it was.
    assert!(eu.config_maps.get_opt("x-near").await.unwrap().is_none());
    assert!(us.config_maps.get_opt("x-far").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_certificate_authority_of_the_same_secret_and_uid_loses_nothing() {
    let world = World::new("RotatedAuthority", one_region()).await;
    world.create("x", json!({"region": "eu"})).await;
    world.until_state("x", "ACTIVE").await;
    let eu = world.region("eu");
    let before = eu.config_maps.get("x-app").await.unwrap();
    let admin = eu.cluster.plane.admin();
    let proxy = FaultProxy::start_under_own_authority(admin).unwrap();
    world.apply_secret("eu-kubeconfig", &proxy.kubeconfig(admin).unwrap()).await;
    wait::until_true("the cache to be filled under the new authority", || {
        proxy.count(&Requests::any().verb(Verb::List).resource("configmaps")) > 0
    })
    .await;
    world.patch("x", json!({"spec": {"text": "two"}})).await;
    wait::until_object(&eu.config_maps, "x-app", |map| value(map, "text") == Some("two")).await;
    let active = world.until_state("x", "ACTIVE").await;
    let after = eu.config_maps.get("x-app").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid, "it was never deleted");
    assert_eq!(requests(&proxy, &[Verb::Delete], "x-app"), 0);
    assert_eq!(cluster_entry(&active, "eu-kubeconfig")["uid"], uid(eu.cluster.client.clone()).await);
    let annotations = &active["metadata"]["annotations"];
    assert!(annotations.get("kro.run/confirm-cluster").is_none(), "{active:#}");
    world.delete("x").await;
    wait::until_deleted(&world.instances, "x").await;
    assert!(eu.config_maps.get_opt("x-app").await.unwrap().is_none());
    assert_eq!(requests(&proxy, &[Verb::Delete], "x-app"), 1);
}

const PLANE: &str = "claimed-uid";

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_controller_tells_the_cluster_from_a_server_that_claims_its_uid() {
    let (hub, eu, us) = tokio::join!(shared(PLANE), shared("eu"), shared("us"));
    let world = Objects { client: hub.client().await.unwrap() };
    install(&world.client).await;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), PLANE);
    let (eu_client, us_client) = (eu.client().await.unwrap(), us.client().await.unwrap());
    for client in [&world.client, &eu_client, &us_client] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(PLANE)).await.unwrap();
    }
    let proxy = FaultProxy::start(eu.admin()).unwrap();
    let (tenant, claimed) = liar(us.admin(), &uid(eu_client.clone()).await);
    let genuine = proxy.kubeconfig(eu.admin()).unwrap();
    for (name, kubeconfig) in [("eu-kubeconfig", &genuine), ("tenant-kubeconfig", &claimed)] {
        let secret = objects::kubeconfig_secret(name, kubeconfig);
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let mut spec = one_region();
    spec["schema"]["apiVersion"] = json!("v1alpha1");
    spec["schema"]["kind"] = json!("Claimant");
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "claimant"}, "spec": spec});
    let running = Running::start(PLANE, Settings::default()).await;
    world.create(&definition).await;
    world.until_ready("claimant").await;
    let instances = world.namespaced("kro.run", "Claimant", "claimants", PLANE);
    for (name, region) in [("tenant", "tenant"), ("production", "eu")] {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Claimant", "metadata": {"name": name},
            "spec": {"region": region}});
        instances.create(&PostParams::default(), &serde_json::from_value(instance).unwrap()).await.unwrap();
        until(instances.clone(), name.to_owned(), |it| it["status"]["state"] == "ACTIVE").await;
    }
    running.stop().await;

    // The tenant is there first; the genuine cluster comes later.
    proxy.set(kross_testing::Fault::Refuse);
    let running = Running::start(PLANE, Settings::default()).await;
    let reads = Requests::any().verb(Verb::List).resource("configmaps");
    tenant.clear_requests();
    wait::until_true("the tenant to be connected", || tenant.count(&reads) > 0).await;
    proxy.set(kross_testing::Fault::Pass);
    let in_eu: Api<ConfigMap> = Api::namespaced(eu_client, PLANE);
    let in_us: Api<ConfigMap> = Api::namespaced(us_client, PLANE);
    let before = in_eu.get("production-app").await.unwrap();
    let text = Patch::Merge(json!({"spec": {"text": "two"}}));
    instances.patch("production", &PatchParams::default(), &text).await.unwrap();
    let updated = wait::until_object(&in_eu, "production-app", |map| value(map, "text") == Some("two")).await;
    assert_eq!(updated.metadata.uid, before.metadata.uid);
    for name in ["production", "tenant"] {
        until(instances.clone(), name.to_owned(), is_warned).await;
    }
    assert_eq!(in_us.get_opt("production-app").await.unwrap().map(|map| map.metadata.name), None);
    for name in ["tenant", "production"] {
        instances.delete(name, &Default::default()).await.unwrap();
        wait::until_deleted(&instances, name).await;
    }
    assert!(in_us.get_opt("tenant-app").await.unwrap().is_none());
    assert!(in_eu.get_opt("production-app").await.unwrap().is_none());
    running.stop().await;
}
