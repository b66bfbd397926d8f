//! The controller works with exactly the permissions that the chart renders: Helm installs and upgrades it on a control plane
//! with RBAC, and the controller has the token of its ServiceAccount. With one permission less, a message names it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

#[path = "chart/render.rs"]
mod render;
#[path = "chart_permissions/world.rs"]
#[allow(unreachable_pub)]
mod world;

use kross_testing::wait;
use serde_json::{Value as Json, json};

use render::{NAMESPACE, chart};
use world::{Controller, World, lifecycle_schema};

/// A graph over two clusters, with an object that is pruned, one that is retained, and one that is created when the instance is
/// deleted.
const SHOP: &str = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: shop
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    spec:
      size: string
  resources:
    - id: remote
      target:
        cluster:
          kubeconfigSecretName: eu-kubeconfig
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${schema.metadata.name}
        data:
          size: ${schema.spec.size}
    - id: local
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${schema.metadata.name}
        data:
          size: ${remote.data.size}
    - id: pruned
      target:
        cluster:
          kubeconfigSecretName: eu-kubeconfig
      includeWhen:
        - ${schema.spec.size == 'large'}
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${schema.metadata.name}-pruned
    - id: kept
      lifecycle:
        delete:
          policy: Retain
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${schema.metadata.name}-kept
    - id: farewell
      lifecycle:
        when: Deletion
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${schema.metadata.name}-farewell
";

/// The definition under another name, for another kind of instance.
fn renamed(kind: &str) -> String {
    SHOP.replace("kind: Shop", &format!("kind: {kind}"))
        .replace("name: shop", &format!("name: {}", kind.to_lowercase()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rendered_permissions_suffice_in_every_mode() {
    // Starting control planes takes a deep stack.
    let world = Box::pin(World::start()).await;
    crds_are_upgraded_with_the_chart(&world).await;
    aggregation_suffices_and_a_missing_permission_is_named(&world).await;
    the_least_values_suffice(&world).await;
    namespaced_suffices(&world).await;
    unrestricted_suffices(&world).await;
    uninstalling_keeps_the_definitions(&world).await;
    world.stop().await;
}

async fn crds_are_upgraded_with_the_chart(world: &World) {
    let name = (None, "resourcegraphdefinitions.kro.run");
    let crd = async |newer: bool| {
        let kind = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        world.hub.until(kind.0, kind.1, kind.2, name, |crd| lifecycle_schema(crd).is_some() == newer).await
    };
    world.helm_upgrade(&world.older_chart(), &[]);
    let older = crd(false).await;
    // Roles of others are aggregated into ours between the two versions, which must not be a conflict.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "team", "labels": {"rbac.kro.run/aggregate-to-controller": "true",
            "rbac.kro.run/aggregate-to-cluster-consumer": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]});
    world.hub.apply(&role).await;
    for name in ["kross:controller", "kross-cluster-consumer"] {
        until_aggregated(world, name, "widgets").await;
    }
    world.helm_upgrade(&chart(), &[]);
    let newer = crd(true).await;
    assert_eq!(older["metadata"]["uid"], newer["metadata"]["uid"], "the CRD was updated, not replaced");
    for name in ["kross:controller", "kross-cluster-consumer"] {
        until_aggregated(world, name, "widgets").await;
    }
}

async fn until_aggregated(world: &World, role: &str, resource: &str) {
    let has = |role: &Json| role["rules"].to_string().contains(resource);
    world.hub.until("rbac.authorization.k8s.io", "v1", "ClusterRole", (None, role), has).await;
}

async fn aggregation_suffices_and_a_missing_permission_is_named(world: &World) {
    world.hub.namespace("shop").await;
    world.register(NAMESPACE, "eu-kubeconfig", SHOP).await;
    world.remote.namespace("shop").await;
    world.grant_graph(SHOP).await;
    world.register_until_tomorrow("spare").await;
    let controller = world.controller().await;
    controller.until_logged("renewed token of cluster").await;
    world.hub.apply_yaml(SHOP).await;
    a_graph_over_two_clusters_lives_and_dies(world, "Shop", "shop").await;
    assert_eq!(unexpected(&controller), Vec::<String>::new());

    // What graphs contain comes from the team's role, everything else from the chart's.
    world.revoke(&["kross-shop"], "", "configmaps", "patch").await;
    let failed = instance(world, "Shop", "shop", "poor", |status| status.contains("configmaps")).await;
    for word in ["Forbidden", "patch", "configmaps", "system:serviceaccount:kro-system:kross"] {
        assert!(failed.contains(word), "`{word}` is not in {failed}");
    }
    world.grant_graph(SHOP).await;
    instance(world, "Shop", "shop", "poor", |status| status.contains("\"ACTIVE\"")).await;
    a_deletion_names_the_missing_permission(world).await;

    // What `kross rbac` prints for a definition has these rules as well.
    for (kind, group, resource) in [
        ("Mall", "internal.kro.run", "graphrevisions"),
        ("Store", "apiextensions.k8s.io", "customresourcedefinitions"),
    ] {
        world.revoke(&["kross:controller:static", "kross-shop"], group, resource, "create").await;
        world.hub.apply_yaml(&renamed(kind)).await;
        let name = kind.to_lowercase();
        let rejected = definition(world, &name, |status| status.contains(resource)).await;
        for word in ["create", resource] {
            assert!(rejected.contains(word), "`{word}` is not in {rejected}");
        }
        world.helm_upgrade(&chart(), &["--force-conflicts"]);
        definition(world, &name, |status| status.contains("\"Active\"")).await;
    }

    world
        .hub
        .delete("rbac.authorization.k8s.io", "v1", "RoleBinding", (Some(NAMESPACE), "kross:kubeconfigs"))
        .await;
    world.hub.delete("rbac.authorization.k8s.io", "v1", "RoleBinding", (Some(NAMESPACE), "kross-shop")).await;
    drop(controller);
    let _controller = world.controller().await;
    let status = definition(world, "shop", |status| status.contains("secrets")).await;
    assert!(status.contains("eu-kubeconfig"), "{status}");
}

/// The instance waits for the permission, and for nothing else.
async fn a_deletion_names_the_missing_permission(world: &World) {
    world.revoke(&["kross-shop"], "", "configmaps", "delete").await;
    let instances = world.hub.api("kro.run", "v1alpha1", "Shop", Some("shop"));
    instances.delete("poor", &Default::default()).await.unwrap();
    let words = ["Forbidden", "delete", "configmaps", "system:serviceaccount:kro-system:kross"];
    let is_named = |object: &Json| {
        let status = object["status"].to_string();
        words.iter().all(|word| status.contains(word))
    };
    world.hub.until("kro.run", "v1alpha1", "Shop", (Some("shop"), "poor"), is_named).await;
    world.grant_graph(SHOP).await;
    wait::until_deleted(&instances, "poor").await;
}

/// One replica, without targets, and without access to any Secret or instance that is not granted.
async fn the_least_values_suffice(world: &World) {
    let values = chart().join("ci/least-values.yaml");
    let values =
        ["--values", values.to_str().unwrap(), "--set", "webhook.enabled=true,webhook.timeoutSeconds=1"];
    world.helm_upgrade(&chart(), &[&["--force-conflicts"], &values[..]].concat());
    world.hub.delete("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", (None, "kross-shop")).await;
    let kiosk = renamed("Kiosk");
    world.grant_graph(&kiosk).await;
    let _controller = world.controller().await;
    the_webhook_has_its_certificate(world).await;
    // An upgrade leaves it alone.
    world.helm_upgrade(&chart(), &values);
    the_webhook_has_its_certificate(world).await;
    world.hub.apply_yaml(&kiosk).await;
    a_graph_over_two_clusters_lives_and_dies(world, "Kiosk", "shop").await;
}

/// The controller may write this Secret and this configuration, and no others.
async fn the_webhook_has_its_certificate(world: &World) {
    let authority = |object: &Json, path: &str| {
        object.pointer(path).and_then(Json::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let (published, stored) = ("/webhooks/0/clientConfig/caBundle", "/data/ca.crt");
    let kind = ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
    let has_authority = |object: &Json| authority(object, published).is_some();
    let configuration = world.hub.until(kind.0, kind.1, kind.2, (None, "kross"), has_authority).await;
    let secret = (Some(NAMESPACE), "kross-webhook");
    let secret =
        world.hub.until("", "v1", "Secret", secret, |object| authority(object, stored).is_some()).await;
    assert_eq!(authority(&configuration, published), authority(&secret, stored));
}

/// Writes in two namespaces, reads everywhere.
async fn namespaced_suffices(world: &World) {
    for namespace in ["bank", "elsewhere"] {
        world.hub.namespace(namespace).await;
        world.remote.namespace(namespace).await;
    }
    let values = chart().join("ci/namespaced-values.yaml");
    let more = [
        "--force-conflicts",
        "--set",
        "rbac.kubeconfigs.releaseNamespace=true,rbac.kubeconfigs.renew=false,rbac.kubeconfigs.protect=false,config.requireAllowedNamespaces=false",
    ];
    let arguments = [&more[..], &["--values", values.to_str().unwrap()]].concat();
    world.helm_upgrade(&chart(), &arguments);
    let config_maps = |name: &str, label: &str, verbs: &[&str]| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {label: "true"}},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]})
    };
    let reads =
        config_maps("graphs-read", "rbac.kro.run/aggregate-to-controller-reader", &["get", "list", "watch"]);
    let writes =
        config_maps("graphs-write", "rbac.kro.run/aggregate-to-controller", &["create", "patch", "delete"]);
    world.hub.apply(&reads).await;
    world.hub.apply(&writes).await;
    until_aggregated(world, "kross:controller", "configmaps").await;
    until_aggregated(world, "kross:controller:reader", "configmaps").await;
    world.register_until_tomorrow("late").await;
    let _controller = world.controller().await;
    _controller
        .until_logged("allow the controller to patch Secrets in namespace `kro-system` of the hub")
        .await;
    let stall = renamed("Stall");
    world.hub.apply_yaml(&stall).await;
    a_graph_over_two_clusters_lives_and_dies(world, "Stall", "bank").await;
    create(world, "Stall", "elsewhere", "outside").await;
    // The controller may not even write the status of this instance.
    let stalls = world.hub.api("kro.run", "v1alpha1", "Stall", Some("elsewhere"));
    _controller.until_logged("namespace \\\"elsewhere\\\"").await;
    assert_eq!(stalls.get("outside").await.unwrap().data["status"], Json::Null);
}

/// Everything, without a role of any team.
async fn unrestricted_suffices(world: &World) {
    let values = chart().join("ci/unrestricted-values.yaml");
    let values = ["--values", values.to_str().unwrap(), "--set", "crds.keep=true"];
    world.helm_upgrade(&chart(), &[&["--force-conflicts"][..], &values].concat());
    for name in ["graphs-read", "graphs-write"] {
        world.hub.delete("rbac.authorization.k8s.io", "v1", "ClusterRole", (None, name)).await;
    }
    let controller = world.controller().await;
    world.hub.apply_yaml(&renamed("Booth")).await;
    a_graph_over_two_clusters_lives_and_dies(world, "Booth", "bank").await;
    assert_eq!(controller.refusals(), Vec::<String>::new());
}

async fn uninstalling_keeps_the_definitions(world: &World) {
    world.helm_uninstall();
    let definitions = world.hub.kubectl(&["get", "resourcegraphdefinitions", "--output=name"]);
    assert!(definitions.contains("resourcegraphdefinition.kro.run/shop"), "{definitions}");
    let roles = world.hub.kubectl(&["get", "clusterroles,clusterrolebindings", "--output=name"]);
    assert!(!roles.contains("kross:"), "{roles}");
}

/// An instance creates its objects in both clusters, repairs and updates them, and deletes them in order.
async fn a_graph_over_two_clusters_lives_and_dies(world: &World, kind: &str, namespace: &str) {
    let name = &kind.to_lowercase();
    instance(world, kind, namespace, name, |status| status.contains("\"ACTIVE\"")).await;
    let key = (Some(namespace), name.as_str());
    let size = |size: &'static str| move |object: &Json| object["data"]["size"] == size;
    world.remote.until("", "v1", "ConfigMap", key, size("large")).await;
    let pruned = format!("{name}-pruned");
    world.remote.until("", "v1", "ConfigMap", (Some(namespace), &pruned), |_| true).await;
    world.hub.until("", "v1", "ConfigMap", key, size("large")).await;

    let mut changed = shop(kind, namespace, name);
    changed["spec"]["size"] = json!("small");
    world.hub.apply(&changed).await;
    world.hub.until("", "v1", "ConfigMap", key, size("small")).await;
    wait::until_deleted(&world.remote.api("", "v1", "ConfigMap", Some(namespace)), &pruned).await;
    world.remote.kubectl(&["delete", "configmap", name, "--namespace", namespace]);
    world.remote.until("", "v1", "ConfigMap", key, size("small")).await;

    world.hub.delete("kro.run", "v1alpha1", kind, key).await;
    for cluster in [&world.hub, &world.remote] {
        let left = cluster.api("", "v1", "ConfigMap", Some(namespace)).get_opt(name).await.unwrap();
        assert!(left.is_none(), "{left:?}");
    }
    let kept = format!("{name}-kept");
    world.hub.until("", "v1", "ConfigMap", (Some(namespace), &kept), |_| true).await;
}

fn shop(kind: &str, namespace: &str, name: &str) -> Json {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": {"size": "large"}})
}

async fn create(world: &World, kind: &str, namespace: &str, name: &str) {
    world.hub.apply(&shop(kind, namespace, name)).await;
}

/// Creates an instance. Returns its status once a condition holds for it.
async fn instance(
    world: &World,
    kind: &str,
    namespace: &str,
    name: &str,
    condition: impl Fn(&str) -> bool,
) -> String {
    create(world, kind, namespace, name).await;
    let found = world.hub.until("kro.run", "v1alpha1", kind, (Some(namespace), name), |object| {
        condition(&object["status"].to_string())
    });
    found.await["status"].to_string()
}

/// The status of a definition, once a condition holds for it.
async fn definition(world: &World, name: &str, condition: impl Fn(&str) -> bool) -> String {
    let kind = "ResourceGraphDefinition";
    let found = world
        .hub
        .until("kro.run", "v1alpha1", kind, (None, name), |object| condition(&object["status"].to_string()));
    found.await["status"].to_string()
}

/// Requests that were refused although the controller needs them. It only asks whether there are protected Secrets and
/// copies of connection Secrets in any namespace.
fn unexpected(controller: &Controller) -> Vec<String> {
    controller.refusals().into_iter().filter(|line| !line.contains("\\\"secrets\\\"")).collect()
}
