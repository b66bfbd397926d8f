//! `kross why` in one trouble after another: it names the cause and the command that helps. The snapshots are what a person
//! reads.

use kross_local::{Access, rule};
use kross_testing::{Fault, wait};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value as Json, json};

use crate::world::{World, config_map};

/// The answer about an object that is not ready.
fn why(world: &World, object: &str) -> String {
    let answer = world.kross(&["why", object]);
    assert_eq!((answer.code, answer.notes.as_str()), (1, ""), "{}", answer.data);
    answer.data
}

fn condition<'a>(object: &'a Json, kind: &str) -> &'a Json {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Json::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn says_so_when_everything_is_ready() {
    let world = World::new().await;
    world.ready("Fine", "x", json!([config_map("a", true, "${schema.spec.text}")])).await;
    let answer = world.kross(&["why", "fine/x"]);
    assert_eq!((answer.code, answer.notes.as_str()), (0, ""));
    insta::assert_snapshot!("ready", answer.data);
    let definition = world.kross(&["why", "rgd", "fine"]);
    assert_eq!(definition.code, 0);
    assert!(definition.data.contains("it serves kind `Fine`"), "{}", definition.data);
    let object = world.kross(&["why", "fine/nothing"]);
    assert_eq!((object.code, object.data.as_str()), (2, ""));
    assert_eq!(object.notes, "error: Fine `nothing` does not exist in namespace `team`\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_secret_that_does_not_exist() {
    let world = World::new().await;
    let mut resource = config_map("a", false, "x");
    resource["cluster"] = json!({"name": "ue-kubeconfig"});
    world.define("NoSecret", json!([resource])).await;
    world.create("NoSecret", "x").await;
    world.until_message("NoSecret", "x", "cannot use Secret").await;
    insta::assert_snapshot!("wrong_secret", why(&world, "nosecret/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_an_expired_token() {
    let world = World::new().await;
    let plane = world.fixture.remote("eu").plane;
    let expired = plane.mint_expired_token(&world.namespace, "expired", &Access::all()).await.unwrap();
    world.secret("eu-kubeconfig", &expired).await;
    world.define("Expired", json!([config_map("a", true, "x")])).await;
    world.create("Expired", "x").await;
    world.until_message("Expired", "x", "does not accept the credentials").await;
    let answer = why(&world, "expired/x");
    assert!(answer.contains("cluster team/eu-kubeconfig  not connected for AGE"), "{answer}");
    assert!(answer.contains("does not accept the credentials"), "{answer}");
    let next =
        "kubectl create secret generic eu-kubeconfig -n team --from-file=kubeconfig=FILE --dry-run=client";
    assert!(answer.contains(next), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_missing_namespace_and_how_to_create_it() {
    let world = World::new().await;
    let mut resource = config_map("a", true, "x");
    resource["template"]["metadata"]["namespace"] = json!("nowhere");
    world.define("Homeless", json!([resource])).await;
    world.create("Homeless", "x").await;
    world.until_state("Homeless", "x", "ERROR").await;
    insta::assert_snapshot!("missing_namespace", why(&world, "homeless/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_missing_kind() {
    let world = World::new().await;
    let widget = json!({"id": "widget", "cluster": {"name": "eu-kubeconfig"}, "template":
        {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "${schema.metadata.name}"}}});
    world.define("NeedsWidget", json!([widget])).await;
    world.create("NeedsWidget", "x").await;
    world.until("NeedsWidget", "x", |instance| condition(instance, "Ready")["status"] == "False").await;
    world.until_message("NeedsWidget", "x", "Widget").await;
    insta::assert_snapshot!("missing_kind", why(&world, "needswidget/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_blocked_resource_to_an_unreachable_cluster() {
    let world = World::new().await;
    world.proxy.set(Fault::Refuse);
    let resources = json!([
        config_map("db", true, "x"),
        config_map("app", false, "${db.data.text}"),
        config_map("page", false, "${app.data.text}"),
    ]);
    world.define("Outage", resources).await;
    world.create("Outage", "x").await;
    world.until_message("Outage", "x", "connection refused").await;
    insta::assert_snapshot!("unreachable_cluster", why(&world, "outage/x"));
    let json: Json = serde_json::from_str(&world.kross(&["why", "outage/x", "-o", "json"]).data).unwrap();
    assert_eq!(
        (json["ready"].clone(), json["chain"].as_array().unwrap().len()),
        (json!(false), 4),
        "{json:#}"
    );
    world.proxy.set(Fault::Pass);
    world.until_state("Outage", "x", "ACTIVE").await;
    assert_eq!(world.kross(&["why", "outage/x"]).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_field_that_is_immutable() {
    let world = World::new().await;
    let mut resource = config_map("a", true, "${schema.spec.text}");
    resource["template"]["immutable"] = json!(true);
    world.ready("Frozen", "x", json!([resource])).await;
    world.patch("Frozen", "x", json!({"spec": {"text": "two"}})).await;
    world.until_state("Frozen", "x", "ERROR").await;
    insta::assert_snapshot!("immutable_field", why(&world, "frozen/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_what_an_unready_child_says_in_its_cluster() {
    let world = World::new().await;
    let deployment = json!({"id": "app", "cluster": {"name": "eu-kubeconfig"},
        "readyWhen": ["${app.status.availableReplicas == 1}"],
        "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "app", "image": "nothing"}]}}}}});
    world.define("Unready", json!([deployment])).await;
    world.create("Unready", "x").await;
    let deployments = world.remote("apps/v1", "Deployment");
    wait::until_object(&deployments, "x", |_| true).await;
    let status = json!({"status": {"conditions": [{"type": "Available", "status": "False",
        "reason": "MinimumReplicasUnavailable", "message": "Deployment does not have minimum availability."}]}});
    deployments.patch_status("x", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    world.until("Unready", "x", |instance| condition(instance, "Ready")["status"] == "False").await;
    insta::assert_snapshot!("unready_child", why(&world, "unready/x"));

    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata":
        {"name": "x-1", "namespace": world.namespace, "labels": {"app": "x"}},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "app", "image": "nothing"}]}});
    world
        .apply_remote(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": world.namespace}}))
        .await;
    world.apply_remote(&pod).await;
    let status = json!({"status": {"containerStatuses": [{"name": "app", "image": "nothing", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image `nothing`"}}}]}});
    let pods = world.remote("v1", "Pod");
    pods.patch_status("x-1", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    insta::assert_snapshot!("unready_pod", why(&world, "unready/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_value_that_an_expression_cannot_use() {
    let world = World::new().await;
    let mut resource = config_map("a", false, "x");
    resource["template"]["metadata"]["name"] = json!("${schema.spec.text}");
    world.define("BadValue", json!([resource])).await;
    world
        .apply(&json!({"apiVersion": "kro.run/v1alpha1", "kind": "BadValue",
        "metadata": {"name": "x", "namespace": world.namespace}, "spec": {"text": "Not A Name"}}))
        .await;
    world.until_state("BadValue", "x", "ERROR").await;
    insta::assert_snapshot!("bad_expression_value", why(&world, "badvalue/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_finalizer_that_blocks_a_deletion() {
    let world = World::new().await;
    let mut resource = config_map("a", true, "x");
    resource["template"]["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    world.ready("Held", "x", json!([resource])).await;
    world.instances("Held").delete("x", &DeleteParams::default()).await.unwrap();
    world.until_message("Held", "x", "example.dev/hold").await;
    insta::assert_snapshot!("deletion_blocked_by_finalizer", why(&world, "held/x"));
    let release = json!({"metadata": {"finalizers": null}});
    let maps = world.remote("v1", "ConfigMap");
    maps.patch("x-a", &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
    wait::until_deleted(&world.instances("Held"), "x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_cluster_that_a_deletion_waits_for() {
    let world = World::new().await;
    world.ready("Stranded", "x", json!([config_map("a", true, "x"), config_map("b", false, "x")])).await;
    world.proxy.set(Fault::Refuse);
    world
        .until("Stranded", "x", |instance| condition(instance, "RemoteClusterConnected")["status"] == "False")
        .await;
    world.instances("Stranded").delete("x", &DeleteParams::default()).await.unwrap();
    world.until_state("Stranded", "x", "DELETING").await;
    world.until_message("Stranded", "x", "is not connected").await;
    insta::assert_snapshot!("deletion_with_an_unreachable_cluster", why(&world, "stranded/x"));
    world.proxy.set(Fault::Pass);
    wait::until_deleted(&world.instances("Stranded"), "x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn says_that_an_instance_is_suspended_and_how_to_resume_it() {
    let world = World::new().await;
    world.ready("Paused", "x", json!([config_map("a", false, "x")])).await;
    world
        .patch("Paused", "x", json!({"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}}))
        .await;
    world
        .until("Paused", "x", |instance| {
            condition(instance, "ResourcesReady")["reason"] == "ReconciliationSuspended"
        })
        .await;
    insta::assert_snapshot!("suspended", why(&world, "paused/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_other_instance_that_owns_an_object() {
    let world = World::new().await;
    let mut resource = config_map("a", true, "x");
    resource["template"]["metadata"]["name"] = json!("the-one");
    world.ready("Twin", "first", json!([resource])).await;
    world.create("Twin", "second").await;
    world.until_state("Twin", "second", "ERROR").await;
    insta::assert_snapshot!("two_instances_with_one_object", why(&world, "twin/second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_cycle_in_a_definition_and_follows_the_instance_to_it() {
    let world = World::new().await;
    let resources =
        json!([config_map("a", false, "${b.data.text}"), config_map("b", false, "${a.data.text}")]);
    world.submit("Circle", resources).await;
    let definitions = world.api("kro.run/v1alpha1", "ResourceGraphDefinition", None);
    wait::until_object(&definitions, "circle", |object| object.data["status"]["state"] == "Inactive").await;
    insta::assert_snapshot!("cycle", why(&world, "rgd/circle"));
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_an_object_to_its_instance() {
    let world = World::new().await;
    let mut missing = config_map("b", false, "x");
    missing["template"]["metadata"]["namespace"] = json!("nowhere-at-all");
    world.define("Parted", json!([config_map("a", false, "x"), missing])).await;
    world.create("Parted", "x").await;
    world.until_state("Parted", "x", "ERROR").await;
    wait::until_object(&world.api("v1", "ConfigMap", Some(&world.namespace)), "x-a", |_| true).await;
    insta::assert_snapshot!("object_of_an_instance", why(&world, "cm/x-a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_right_that_is_missing_and_how_to_grant_it() {
    let world = World::new().await;
    let plane = world.fixture.remote("eu").plane;
    let read = Access::none().in_cluster([rule(&["*"], &["*"], &["get", "list", "watch"])]);
    let weak = plane.mint_token(&world.namespace, "weak", &read).await.unwrap();
    world.secret("eu-kubeconfig", &weak).await;
    world.define("Weak", json!([config_map("a", true, "x")])).await;
    world.create("Weak", "x").await;
    world
        .until("Weak", "x", |instance| instance["status"]["managedResources"][0]["reason"] == "Forbidden")
        .await;
    insta::assert_snapshot!("missing_right", why(&world, "weak/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_right_that_was_revoked() {
    let world = World::new().await;
    let plane = world.fixture.remote("eu").plane;
    let account = plane.mint_token(&world.namespace, "trusted", &Access::all()).await.unwrap();
    world.secret("eu-kubeconfig", &account).await;
    world.ready("Revoked", "x", json!([config_map("a", true, "${schema.spec.text}")])).await;
    let read = Access::none().in_cluster([rule(&["*"], &["*"], &["get", "list", "watch"])]);
    plane.mint_token(&world.namespace, "trusted", &read).await.unwrap();
    world.patch("Revoked", "x", json!({"spec": {"text": "two"}})).await;
    world
        .until("Revoked", "x", |instance| instance["status"]["managedResources"][0]["reason"] == "Forbidden")
        .await;
    insta::assert_snapshot!("revoked_right", why(&world, "revoked/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_other_client_that_sets_a_field_and_the_field() {
    let world = World::new().await;
    world.ready("TugOfWar", "x", json!([config_map("a", true, "x")])).await;
    let maps = world.remote("v1", "ConfigMap");
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x-a"}, "data": {"text": "theirs"}});
    let insist = PatchParams::apply("autoscaler").force();
    wait::until("the other field manager to be named", || async {
        maps.patch("x-a", &insist, &Patch::Apply(&theirs)).await.map_err(|error| error.to_string())?;
        let answer = world.kross(&["why", "tugofwar/x"]);
        if answer.data.contains("field manager") { Ok(()) } else { Err(answer.data) }
    })
    .await;
    let answer = why(&world, "tugofwar/x");
    for part in [
        "a: ConfigMap team/x-a in cluster team/eu-kubeconfig  Applying (Conflict)",
        "`autoscaler`",
        "data.text",
        "remove these fields from the template, or stop the other client from setting them",
        "get configmap/x-a -n team -o yaml --show-managed-fields",
    ] {
        assert!(answer.contains(part), "`{part}` is not in\n{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_quota_that_is_exceeded() {
    let world = World::new().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": world.namespace}, "spec": {"hard": {"configmaps": "0"}}});
    world.apply_remote(&quota).await;
    let status = json!({"status": {"hard": {"configmaps": "0"}, "used": {"configmaps": "0"}}});
    let quotas = world.remote("v1", "ResourceQuota");
    quotas.patch_status("none", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    world.define("Greedy", json!([config_map("a", true, "x")])).await;
    world.create("Greedy", "x").await;
    world.until_message("Greedy", "x", "exceeded quota").await;
    insta::assert_snapshot!("quota", why(&world, "greedy/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_policy_that_denies_an_object() {
    let world = World::new().await;
    let admission = "admissionregistration.k8s.io/v1";
    let (name, place) = (
        format!("{}-deny", world.namespace),
        json!({"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}),
    );
    world
        .apply_remote(
            &json!({"apiVersion": admission, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}]},
                "validations": [{"expression": "false", "message": "ConfigMaps are not welcome here"}]}}),
        )
        .await;
    world
        .apply_remote(&json!({"apiVersion": admission, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": place}}}))
        .await;
    let maps = world.remote("v1", "ConfigMap");
    let probe = serde_json::from_value(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}),
    )
    .unwrap();
    wait::until("the policy to be in force", || async {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        match maps.create(&parameters, &probe).await {
            Err(error) if error.to_string().contains("not welcome") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.define("Denied", json!([config_map("a", true, "x")])).await;
    world.create("Denied", "x").await;
    world.until_message("Denied", "x", "not welcome").await;
    insta::assert_snapshot!("admission_denied", why(&world, "denied/x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_secret_that_leads_to_another_cluster() {
    let world = World::new().await;
    world.ready("Swapped", "x", json!([config_map("a", true, "x")])).await;
    world.secret("eu-kubeconfig", world.fixture.hub.plane.admin()).await;
    world
        .until("Swapped", "x", |instance| {
            condition(instance, "RemoteClusterConnected")["reason"] == "IdentityChanged"
        })
        .await;
    insta::assert_snapshot!("identity_changed", why(&world, "swapped/x"));
    world.secret("eu-kubeconfig", &world.kubeconfig()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_what_an_application_waits_for_that_is_not_scheduled() {
    let world = World::new().await;
    world
        .apply(&json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
            "metadata": {"name": "shop", "namespace": world.namespace}, "spec": {
                "targetSelector": {"matchLabels": {"region": "nowhere"}}, "resourceTemplates": [
                    {"metadata": {"name": "shop-settings"}, "spec": {"template":
                        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}}}]}}))
        .await;
    let applications =
        world.api("workload.crossplane.io/v1alpha2", "KubernetesApplication", Some(&world.namespace));
    wait::until_object(&applications, "shop", |it| {
        let object = serde_json::to_value(it).unwrap();
        condition(&object, "Synced")["reason"] == "NoTarget"
    })
    .await;
    insta::assert_snapshot!("not_scheduled", why(&world, "kubernetesapplication/shop"));
}

#[tokio::test(flavor = "multi_thread")]
async fn says_that_no_controller_is_running() {
    let world = World::without_controller("idle").await;
    world.submit("Alone", json!([config_map("a", false, "x")])).await;
    insta::assert_snapshot!("never_reconciled", why(&world, "rgd/alone"));
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "controller.kro.run", "namespace": world.namespace},
        "spec": {"holderIdentity": "kross-7d9f_1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    world.apply(&lease).await;
    insta::assert_snapshot!("controller_not_running", why(&world, "rgd/alone"));
}
