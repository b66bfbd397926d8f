//! By whose authority an instance uses a kubeconfig Secret: its namespace, the definition, or the Secret itself. An inventory grants
//! nothing.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_api::{ClusterInventory, GroupKind, Inventory, RecordedCluster, applyset_id};
use kross_testing::{Requests, objects, wait};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::setup::condition;
use crate::world::{World, cluster_entry, config_map, resource_entry};

const ALLOWED: &str = "kro.run/allowed-namespaces";
const INVENTORY: &str = "internal.kro.run/cluster-inventory";

/// A tenant whose instances are in the namespace of the world, and another one with kubeconfig Secrets of the cluster `us`.
struct Tenants {
    world: World,
    /// The namespace of the other tenant.
    theirs: String,
    secrets: Api<Secret>,
}

impl Tenants {
    async fn new(kind: &str) -> Self {
        let world = World::without_definition(kind).await;
        let client = world.objects.client.clone();
        let theirs = format!("{}-prod", world.namespace);
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(&theirs)).await.unwrap();
        let tenants = Self { secrets: Api::namespaced(client, &theirs), theirs, world };
        tenants.create_secret("prod-kubeconfig", None).await;
        tenants
    }

    async fn define(&self, fields: Json, resources: Json) {
        self.world.define(json!({"schema": {"spec": fields}, "resources": resources})).await;
    }

    /// Creates a Secret of the other tenant.
    async fn create_secret(&self, name: &str, allowed: Option<&str>) {
        let mut secret = objects::kubeconfig_secret(name, &self.world.kubeconfig("us"));
        secret.metadata.annotations = allowed.map(|list| [(ALLOWED.to_owned(), list.to_owned())].into());
        self.secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    async fn allow(&self, name: &str, list: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ALLOWED: list}}}));
        self.secrets.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// What the controller asked the cluster of the other tenant.
    fn requests(&self) -> Vec<String> {
        let sent = self.world.region("us").proxy.requests(&Requests::any());
        sent.iter().map(|record| record.request.to_string()).collect()
    }

    fn us(&self) -> &Api<ConfigMap> {
        &self.world.region("us").config_maps
    }

    /// Waits until the Secret of an instance is refused, and returns the message.
    async fn refusal(&self, name: &str) -> String {
        let refused =
            self.world.until_condition(name, ("ClusterResolved", "False", "SecretNotAvailable")).await;
        let message = condition(&refused, "ClusterResolved")["message"].as_str().unwrap().to_owned();
        message.split(" (since ").next().unwrap().to_owned()
    }

    async fn delete(&self, name: &str) {
        self.world.delete(name).await;
        wait::until_deleted(&self.world.instances, name).await;
    }

    /// An object in the cluster of the other tenant that looks as if an instance had created it there.
    async fn plant(&self, like: &str) {
        let ours = self.world.region("eu").config_maps.get(like).await.unwrap();
        let mut planted = ConfigMap { data: ours.data, ..ConfigMap::default() };
        planted.metadata.name = Some("planted".to_owned());
        planted.metadata.labels = ours.metadata.labels;
        self.us().create(&PostParams::default(), &planted).await.unwrap();
    }

    /// The inventory of an instance with another cluster in it, as whoever may edit the instance can write it.
    async fn forged_inventory(&self, name: &str, reference: &str, uid: String) -> String {
        let World { namespace, .. } = &self.world;
        let id = applyset_id(name, namespace, &self.world.kind, "kro.run");
        let instance = self.world.get(name).await;
        let text = instance["metadata"]["annotations"][INVENTORY].as_str().unwrap();
        let mut inventory = ClusterInventory::parse(&id, text).unwrap();
        let group_kinds = [GroupKind::parse("ConfigMap").unwrap()].into();
        let contents = Inventory { group_kinds, namespaces: [namespace.clone()].into() }.into();
        let name = reference.to_owned();
        inventory.add(RecordedCluster {
            reference: reference.to_owned(),
            uid,
            unverified: false,
            name,
            contents,
        });
        inventory.text(&id).unwrap().unwrap()
    }

    /// The UID of the other tenant's cluster.
    async fn uid(&self) -> String {
        let namespaces: Api<Namespace> = Api::all(self.world.region("us").cluster.client.clone());
        namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap()
    }
}

fn chosen_secret() -> Json {
    let mut app = config_map("app", None, json!({}));
    app["cluster"] =
        json!({"name": "${schema.spec.secret}-kubeconfig", "namespace": "${schema.spec.namespace}"});
    app
}

fn own_cluster() -> Json {
    config_map("own", Some("eu"), json!({}))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_chooses_the_secret_of_another_namespace_only_if_the_secret_allows_it() {
    let tenants = Tenants::new("Chooser").await;
    let fields = json!({"secret": "string", "namespace": "string"});
    tenants.define(fields, json!([chosen_secret()])).await;
    tenants.create_secret("others-kubeconfig", Some("somebody")).await;
    tenants.create_secret("all-kubeconfig", Some("*")).await;
    let world = &tenants.world;
    let mut refusals = Vec::new();
    for secret in ["missing", "others", "prod"] {
        world.create(secret, json!({"secret": secret, "namespace": tenants.theirs})).await;
        refusals.push(tenants.refusal(secret).await.replace(&format!("{secret}-kubeconfig"), "it"));
    }
    assert_eq!(refusals[0], refusals[1]);
    assert_eq!(refusals[0], refusals[2]);
    let wanted = format!("list `{}` in the annotation `{ALLOWED}`", world.namespace);
    assert!(refusals[0].contains(&wanted), "{}", refusals[0]);
    let refused = world.get("prod").await;
    let entry = cluster_entry(&refused, "prod-kubeconfig");
    assert!(entry["uid"].is_null() && entry["lastContact"].is_null(), "{entry:#}");
    assert_eq!(tenants.requests(), [""; 0]);

    world.create("all", json!({"secret": "all", "namespace": tenants.theirs})).await;
    world.until_state("all", "ACTIVE").await;
    tenants.allow("prod-kubeconfig", &format!("x, {}", world.namespace)).await;
    wait::woken(world.until_state("prod", "ACTIVE")).await;
    assert!(tenants.us().get_opt("prod-app").await.unwrap().is_some());
    // The owner takes it back: what is there stays until it is allowed again.
    tenants.allow("prod-kubeconfig", "x").await;
    wait::woken(tenants.refusal("prod")).await;
    world.delete("prod").await;
    let is_waiting = |instance: &Json| {
        condition(instance, "ResourcesReady")["message"].as_str().is_some_and(|text| text.contains(ALLOWED))
    };
    world.until("prod", is_waiting).await;
    assert!(tenants.us().get_opt("prod-app").await.unwrap().is_some());
    tenants.allow("prod-kubeconfig", "*").await;
    wait::woken(wait::until_deleted(&world.instances, "prod")).await;
    assert!(tenants.us().get_opt("prod-app").await.unwrap().is_none());
    for name in ["all", "missing", "others"] {
        tenants.delete(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_gives_its_instances_the_secrets_of_the_namespace_that_it_sets() {
    let tenants = Tenants::new("Literal").await;
    let (theirs, world) = (&tenants.theirs, &tenants.world);
    let mut app = config_map("app", None, json!({}));
    app["cluster"] = json!({"name": "${schema.spec.secret}-kubeconfig", "namespace": theirs});
    let mut text = config_map("text", None, json!({}));
    let reference = format!("{theirs}/${{schema.spec.secret}}-kubeconfig");
    text["cluster"] = json!({"name": "prod", "kubeconfigSecretRef": reference});
    tenants.define(json!({"secret": "string"}), json!([app, text])).await;
    tenants.create_secret("others-kubeconfig", Some("somebody")).await;
    world.create("x", json!({"secret": "prod"})).await;
    world.until_state("x", "ACTIVE").await;
    for name in ["x-app", "x-text"] {
        assert!(tenants.us().get_opt(name).await.unwrap().is_some(), "{name}");
    }
    // An annotation that is present always counts.
    let mut refusals = Vec::new();
    for secret in ["missing", "others"] {
        world.create(secret, json!({"secret": secret})).await;
        refusals.push(tenants.refusal(secret).await.replace(&format!("{secret}-kubeconfig"), "it"));
    }
    assert_eq!(refusals[0], refusals[1]);
    for name in ["x", "missing", "others"] {
        tenants.delete(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computed_namespace_may_be_that_of_the_instance_or_kro_system() {
    let tenants = Tenants::new("Computed").await;
    let (client, world) = (tenants.world.objects.client.clone(), &tenants.world);
    tenants.define(json!({"secret": "string", "namespace": "string"}), json!([chosen_secret()])).await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let _ = namespaces.create(&PostParams::default(), &objects::namespace("kro-system")).await;
    let system: Api<Secret> = Api::namespaced(client, "kro-system");
    let secret = objects::kubeconfig_secret("computed-kubeconfig", &world.kubeconfig("us"));
    system.create(&PostParams::default(), &secret).await.unwrap();
    world.create("system", json!({"secret": "computed", "namespace": "kro-system"})).await;
    world.create("own", json!({"secret": "us", "namespace": world.namespace})).await;
    for name in ["system", "own"] {
        world.until_state(name, "ACTIVE").await;
        assert!(tenants.us().get_opt(&format!("{name}-app")).await.unwrap().is_some(), "{name}");
    }
    for name in ["system", "own"] {
        tenants.delete(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_spelling_of_a_chosen_namespace_needs_the_permission_of_the_secret() {
    let tenants = Tenants::new("Spellings").await;
    let (namespace, name) = ("${schema.spec.namespace}", "prod-kubeconfig");
    let text = "${schema.spec.namespace + '/prod-kubeconfig'}";
    let secret = json!({"name": name, "namespace": namespace});
    let target = json!({"kubeconfigSecretName": name, "kubeconfigSecretNamespace": namespace});
    let references = [
        ("short", json!({"cluster": {"name": name, "namespace": namespace}})),
        ("long", json!({"cluster": {"name": "prod", "kubeconfigSecret": secret}})),
        ("text", json!({"cluster": {"name": "prod", "kubeconfigSecretRef": text}})),
        ("target", json!({"target": {"cluster": target}})),
    ];
    let mut resources = Vec::new();
    for (id, reference) in references {
        let mut app = config_map(id, None, json!({}));
        app.as_object_mut().unwrap().extend(reference.as_object().unwrap().clone());
        resources.push(app);
    }
    let mut items = config_map("spread", None, json!({}));
    items["forEach"] = json!([{"place": "${[schema.spec.namespace]}"}]);
    items["cluster"] = json!({"name": name, "namespace": "${place}"});
    let external = json!({"id": "external", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kube-root-ca.crt"}, "cluster": {"name": name, "namespace": namespace}}});
    resources.extend([items, external]);
    tenants.define(json!({"namespace": "string"}), json!(resources)).await;
    tenants.world.create("x", json!({"namespace": tenants.theirs})).await;
    let ids = ["short", "long", "text", "target", "spread", "external"];
    let is_refused = |instance: &Json, id: &str| {
        let entry = resource_entry(instance, id);
        entry["message"].as_str().is_some_and(|message| message.contains(ALLOWED))
    };
    tenants.world.until("x", |instance| ids.iter().all(|id| is_refused(instance, id))).await;
    assert_eq!(tenants.requests(), [""; 0]);
    tenants.delete("x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_that_the_definition_sets_gives_no_access_to_one_that_the_instance_chooses() {
    let tenants = Tenants::new("Mixed").await;
    let mut app = config_map("app", None, json!({}));
    app["cluster"] = json!({"name": "prod-kubeconfig", "namespace": tenants.theirs});
    let spy = json!({"id": "spy", "externalRef": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "password"},
        "cluster": {"name": "prod-kubeconfig", "namespace": "${schema.spec.namespace}"}}});
    let mut loot = chosen_secret();
    loot["id"] = json!("loot");
    loot["template"]["metadata"]["name"] = json!("${schema.metadata.name}-loot");
    let copy = config_map("copy", None, json!({"password": "${string(spy.data.password)}"}));
    let fields = json!({"namespace": "string", "secret": "string | default=prod"});
    tenants.define(fields, json!([app, spy, loot, copy])).await;
    let world = &tenants.world;
    let password = json!({"metadata": {"name": "password"}, "stringData": {"password": "hunter2"}});
    let passwords: Api<Secret> = world.region("us").cluster.api();
    passwords.create(&PostParams::default(), &serde_json::from_value(password).unwrap()).await.unwrap();
    world.create("x", json!({"namespace": tenants.theirs})).await;
    wait::until_object(tenants.us(), "x-app", |_| true).await;
    let is_refused = |instance: &Json, id: &str| {
        let entry = resource_entry(instance, id);
        entry["message"].as_str().is_some_and(|message| message.contains(ALLOWED))
    };
    let is_settled = |instance: &Json| {
        resource_entry(instance, "app")["state"] == "Ready"
            && is_refused(instance, "spy")
            && is_refused(instance, "loot")
    };
    world.until("x", is_settled).await;
    // Also in a later pass, when the cluster is in the inventory.
    world.patch("x", json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    world.region("us").config_maps.delete("x-app", &Default::default()).await.unwrap();
    wait::until_object(tenants.us(), "x-app", |_| true).await;
    let settled = world.until("x", is_settled).await;
    assert!(!settled.to_string().contains("hunter2"), "{settled:#}");
    assert!(tenants.us().get_opt("x-loot").await.unwrap().is_none());
    assert!(world.config_maps.get_opt("x-copy").await.unwrap().is_none());
    let read = world.region("us").proxy.requests(&Requests::any().resource("secrets"));
    assert!(
        read.is_empty(),
        "{:?}",
        read.iter().map(|record| record.request.to_string()).collect::<Vec<_>>()
    );
    tenants.allow("prod-kubeconfig", &world.namespace).await;
    wait::woken(wait::until_object(tenants.us(), "x-loot", |_| true)).await;
    wait::until_object(&world.config_maps, "x-copy", |_| true).await;
    tenants.delete("x").await;
    assert!(tenants.us().get_opt("x-loot").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_inventory_gives_no_access_to_the_cluster_of_another_tenant() {
    let tenants = Tenants::new("Forger").await;
    tenants.define(json!({}), json!([own_cluster()])).await;
    let world = &tenants.world;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    tenants.plant("x-own").await;
    let reference = format!("secret/{}/prod-kubeconfig/kubeconfig", tenants.theirs);
    let forged = tenants.forged_inventory("x", &reference, tenants.uid().await).await;
    world.patch("x", json!({"metadata": {"annotations": {INVENTORY: forged}}})).await;
    // As a cluster that the graph does not use any more.
    let is_refused = |instance: &Json| cluster_entry(instance, "prod-kubeconfig")["connected"] == false;
    world.until("x", is_refused).await;
    // As something that is left to delete.
    world.delete("x").await;
    let is_waiting = |instance: &Json| {
        let message = condition(instance, "ResourcesReady")["message"].to_string();
        let wanted = format!("list `{}` in the annotation `{ALLOWED}`", world.namespace);
        message.contains("prod-kubeconfig") && message.contains(&wanted)
    };
    world.until("x", is_waiting).await;
    assert_eq!(tenants.requests(), [""; 0]);
    assert!(tenants.us().get_opt("planted").await.unwrap().is_some());
    // Only the owner of the Secret can let it through.
    tenants.allow("prod-kubeconfig", &world.namespace).await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
    assert!(tenants.us().get_opt("planted").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_names_only_the_secrets_that_the_definition_leads_to() {
    let tenants = Tenants::new("OtherName").await;
    tenants.create_secret("shared-kubeconfig", None).await;
    let mut app = own_cluster();
    app["cluster"] =
        json!({"name": "${schema.spec.region}-kubeconfig", "namespace": tenants.world.namespace});
    let mut shared = config_map("shared", None, json!({}));
    shared["cluster"] = json!({"name": "shared-kubeconfig", "namespace": tenants.theirs});
    tenants.define(json!({"region": "string | default=eu"}), json!([app, shared])).await;
    let world = &tenants.world;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    // Neither another Secret of the namespace that the definition sets, nor one of kro-system, nor another key.
    for secret in [
        format!("{}/prod-kubeconfig/kubeconfig", tenants.theirs),
        format!("{}/shared-kubeconfig/other", tenants.theirs),
        "kro-system/prod-kubeconfig/kubeconfig".to_owned(),
    ] {
        let forged = tenants.forged_inventory("x", &format!("secret/{secret}"), secret.clone()).await;
        world.patch("x", json!({"metadata": {"annotations": {INVENTORY: forged}}})).await;
        let is_refused = |instance: &Json| {
            let entries = instance["status"]["clusters"].as_array().cloned().unwrap_or_default();
            let name = secret.strip_suffix("/kubeconfig").unwrap_or(&secret);
            entries.iter().any(|entry| entry["secret"] == name && entry["connected"] == false)
        };
        world.until("x", is_refused).await;
    }
    let abandoned = json!({"metadata": {"annotations": {"kro.run/abandon-cluster": "*"}}});
    world.patch("x", abandoned).await;
    tenants.delete("x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_names_no_secret_of_another_instance() {
    let tenants = Tenants::new("OtherInstance").await;
    let mut app = config_map("app", None, json!({}));
    app["cluster"] = json!({"name": "${schema.metadata.name}-kubeconfig", "namespace": tenants.theirs});
    tenants.define(json!({}), json!([app])).await;
    let world = &tenants.world;
    for name in ["a", "prod"] {
        if name == "a" {
            tenants.create_secret("a-kubeconfig", None).await;
        }
        world.create(name, json!({})).await;
        world.until_state(name, "ACTIVE").await;
    }
    // The Secret of the instance `prod`, in the namespace that the definition sets.
    let reference = format!("secret/{}/prod-kubeconfig/kubeconfig", tenants.theirs);
    // Another UID: both Secrets lead to one cluster, and what `a` has there by its own Secret needs no other.
    let forged = tenants.forged_inventory("a", &reference, "another".to_owned()).await;
    world.patch("a", json!({"metadata": {"annotations": {INVENTORY: forged}}})).await;
    let is_refused = |instance: &Json| cluster_entry(instance, "prod-kubeconfig")["connected"] == false;
    world.until("a", is_refused).await;
    world.delete("a").await;
    let is_waiting = |instance: &Json| {
        let message = condition(instance, "ResourcesReady")["message"].to_string();
        message.contains("prod-kubeconfig") && message.contains(ALLOWED)
    };
    world.until("a", is_waiting).await;
    let abandoned = json!({"metadata": {"annotations": {"kro.run/abandon-cluster": "*"}}});
    world.patch("a", abandoned).await;
    wait::until_deleted(&world.instances, "a").await;
    tenants.delete("prod").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_status_gives_no_access_to_the_cluster_of_another_tenant() {
    let tenants = Tenants::new("StatusForger").await;
    tenants.define(json!({}), json!([own_cluster()])).await;
    let world = &tenants.world;
    world.create("x", json!({})).await;
    world.until_state("x", "ACTIVE").await;
    tenants.plant("x-own").await;
    world.patch("x", json!({"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}})).await;
    let suspended = world.until_condition("x", ("ResourcesReady", "False", "ReconciliationSuspended")).await;
    let mut clusters = suspended["status"]["clusters"].clone();
    let secret = format!("{}/prod-kubeconfig", tenants.theirs);
    clusters
        .as_array_mut()
        .unwrap()
        .push(json!({"name": secret, "secret": secret, "uid": tenants.uid().await,
        "mode": "Watch", "connected": true, "ready": 1, "total": 1}));
    let status = Patch::Merge(json!({"status": {"clusters": clusters}}));
    world.instances.patch_status("x", &PatchParams::default(), &status).await.unwrap();
    world.patch("x", json!({"metadata": {"annotations": {INVENTORY: null}}})).await;
    let restored = |instance: &Json| {
        let inventory = instance["metadata"]["annotations"][INVENTORY].as_str().unwrap_or_default();
        inventory.contains("prod-kubeconfig")
    };
    world.until("x", restored).await;
    world.delete("x").await;
    let is_waiting = |instance: &Json| {
        condition(instance, "ResourcesReady")["message"].as_str().is_some_and(|text| text.contains(ALLOWED))
    };
    world.until("x", is_waiting).await;
    assert_eq!(tenants.requests(), [""; 0]);
    assert!(tenants.us().get_opt("planted").await.unwrap().is_some());
    tenants.allow("prod-kubeconfig", "*").await;
    wait::woken(wait::until_deleted(&world.instances, "x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_revision_that_set_the_namespace_lets_old_instances_be_deleted() {
    let tenants = Tenants::new("Edited").await;
    let (theirs, world) = (&tenants.theirs, &tenants.world);
    let mut app = config_map("app", None, json!({}));
    app["cluster"] = json!({"name": "prod-kubeconfig", "namespace": theirs});
    tenants.define(json!({"namespace": "string"}), json!([app])).await;
    for name in ["stays", "moves"] {
        world.create(name, json!({"namespace": theirs})).await;
        world.until_state(name, "ACTIVE").await;
    }
    app["cluster"] = json!({"name": "${schema.spec.namespace == '' ? 'eu' : 'prod'}-kubeconfig",
        "namespace": "${schema.spec.namespace == '' ? schema.metadata.namespace : schema.spec.namespace}"});
    let patch: Json = json!({"spec": {"resources": [app]}});
    let definitions = world.objects.definitions();
    definitions.patch("edited", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    for name in ["stays", "moves"] {
        tenants.refusal(name).await;
    }
    // It leaves the cluster, in which its object is pruned.
    world.patch("moves", json!({"spec": {"namespace": ""}})).await;
    wait::until_object(&world.region("eu").config_maps, "moves-app", |_| true).await;
    wait::until_deleted(tenants.us(), "moves-app").await;
    // What remains in the cluster is deleted with the instance.
    assert!(tenants.us().get_opt("stays-app").await.unwrap().is_some());
    for name in ["stays", "moves"] {
        tenants.delete(name).await;
    }
    assert!(tenants.us().get_opt("stays-app").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_scoped_instance_that_chooses_a_namespace_needs_a_secret_for_all() {
    let tenants = Tenants::new("Scopeless").await;
    let (theirs, world) = (&tenants.theirs, &tenants.world);
    let mut app = chosen_secret();
    app["template"]["metadata"]["namespace"] = json!("${schema.spec.home}");
    let fields = json!({"home": "string", "secret": "string", "namespace": "string"});
    world.define(json!({"schema": {"scope": "Cluster", "spec": fields}, "resources": [app]})).await;
    let instances = world.objects.api("kro.run", "v1alpha1", "Scopeless", &kross_api::plural("Scopeless"));
    let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Scopeless", "metadata": {"name": "x"},
        "spec": {"home": world.namespace, "secret": "prod", "namespace": theirs}});
    let instance: DynamicObject = serde_json::from_value(instance).unwrap();
    instances.create(&PostParams::default(), &instance).await.unwrap();
    let is_refused = |instance: &Json| {
        let resolved = condition(instance, "ClusterResolved");
        resolved["message"]
            .as_str()
            .is_some_and(|message| message.contains(&format!("list `*` in the annotation `{ALLOWED}`")))
    };
    crate::setup::until(instances.clone(), "x".to_owned(), is_refused).await;
    tenants.allow("prod-kubeconfig", &world.namespace).await;
    assert_eq!(tenants.requests(), [""; 0]);
    tenants.allow("prod-kubeconfig", "*").await;
    wait::woken(wait::until_object(tenants.us(), "x-app", |_| true)).await;
    instances.delete("x", &Default::default()).await.unwrap();
    wait::until_deleted(&instances, "x").await;
    assert!(tenants.us().get_opt("x-app").await.unwrap().is_none());
}
