//! `kross tree`.

use kross_testing::wait;
use serde_json::json;

use crate::world::{World, columns, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn draws_an_instance_its_definition_and_the_instance_of_an_object() {
    let world = World::new().await;
    let mut missing = config_map("b", false, "x");
    missing["template"]["metadata"]["namespace"] = json!("nowhere-to-draw");
    world.define("Drawn", json!([config_map("a", true, "x"), missing])).await;
    world.create("Drawn", "x").await;
    world
        .until("Drawn", "x", |instance| {
            instance["status"]["state"] == "ERROR" && instance["status"]["clusters"][0]["ready"] == 1
        })
        .await;
    let instance = world.kross(&["tree", "drawn/x"]);
    assert_eq!((instance.code, instance.notes.as_str()), (1, ""));
    insta::assert_snapshot!("instance", instance.data);
    let definition = world.kross(&["tree", "rgd/drawn"]);
    assert_eq!(definition.code, 1);
    insta::assert_snapshot!("definition", definition.data);
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_the_instance_of_an_object() {
    let world = World::new().await;
    world.ready("Found", "x", json!([config_map("a", false, "x")])).await;
    let object = world.kross(&["tree", "configmap", "x-a"]);
    assert_eq!(object.code, 0);
    assert!(object.data.starts_with("Found team/x  ACTIVE\n"), "{}", object.data);
    assert_eq!(object.notes, "ConfigMap team/x-a is resource `a` of Found team/x:\n");
    let secret = world.kross(&["tree", "secret/eu-kubeconfig"]);
    assert_eq!((secret.code, secret.data.as_str()), (2, ""));
    assert!(secret.notes.contains("no ResourceGraphDefinition serves `Secret`"), "{}", secret.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_the_instance_of_an_object_that_only_a_remote_cluster_has() {
    let world = World::new().await;
    world.ready("Elsewhere", "x", json!([config_map("a", true, "x")])).await;
    let tree = world.kross(&["tree", "configmap/x-a"]);
    assert_eq!(tree.code, 0, "{}", tree.notes);
    assert!(tree.data.starts_with("Elsewhere team/x  ACTIVE\n"), "{}", tree.data);
    let note = "ConfigMap team/x-a in cluster team/eu-kubeconfig is resource `a` of Elsewhere team/x";
    assert_eq!(tree.notes, format!("{note}:\n"));
    let why = world.kross(&["why", "cm/x-a"]);
    assert_eq!((why.code, why.notes.as_str()), (0, ""));
    assert!(why.data.contains(&format!("note: {note}\n")) || why.data.ends_with(note), "{}", why.data);
    let events = world.kross(&["events", "cm", "x-a"]);
    assert_eq!(events.code, 0);
    assert!(events.notes.starts_with(&format!("note: {note}\n")), "{}", events.notes);

    // Who may list the instances of this namespace only finds them too.
    let rights = kross_local::Access::none().in_namespace(
        &world.namespace,
        [
            kross_local::rule(&["kro.run"], &["*"], &["get", "list"]),
            kross_local::rule(&[""], &["configmaps"], &["get"]),
        ],
    );
    let tenant = crate::flags::user(&world, "elsewhere", rights).await;
    let traced = world.kross_as(tenant.path(), &["trace", "cm/x-a"]);
    assert!(traced.data.contains("which is resource `a` of\n└─ Elsewhere team/x  ACTIVE"), "{traced:?}");

    let nothing = world.kross(&["tree", "cm/none"]);
    assert_eq!((nothing.code, nothing.data.as_str()), (2, ""));
    assert_eq!(nothing.notes, "error: ConfigMap `none` does not exist in namespace `team`\n");
    let unknown = world.kross(&["why", "confgmap/none"]);
    assert_eq!(unknown.notes, "error: unknown kind `confgmap`; did you mean `ConfigMap`?\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_an_application_a_target_and_a_claim() {
    let world = World::new().await;
    let (workload, compute) = ("workload.crossplane.io", "compute.crossplane.io");
    let metadata = |name: &str| json!({"name": name, "namespace": world.namespace});
    world
        .apply(&json!({"apiVersion": format!("{workload}/v1alpha1"), "kind": "KubernetesTarget",
            "metadata": metadata("edge"), "spec": {"connectionSecretRef": {"name": "eu-kubeconfig"}}}))
        .await;
    world
        .apply(&json!({"apiVersion": format!("{workload}/v1alpha2"), "kind": "KubernetesApplication",
            "metadata": metadata("web"), "spec": {"resourceTemplates": [
                {"metadata": {"name": "web-settings"}, "spec": {"template":
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}}}]}}))
        .await;
    world
        .apply(&json!({"apiVersion": format!("{compute}/v1alpha1"), "kind": "KubernetesCluster",
            "metadata": metadata("dev"), "spec": {"classRef": {"name": "nowhere"},
                "writeConnectionSecretToRef": {"name": "dev-connection"}}}))
        .await;
    let applications =
        world.api(&format!("{workload}/v1alpha2"), "KubernetesApplication", Some(&world.namespace));
    wait::until_object(&applications, "web", |it| it.data["status"]["state"] == "Submitted").await;
    let claims = world.api(&format!("{compute}/v1alpha1"), "KubernetesCluster", Some(&world.namespace));
    wait::until_object(&claims, "dev", |it| it.data["status"]["bindingPhase"] == "Unbindable").await;

    let drawn = |object: &str| columns(&world.kross(&["tree", object]).data);
    let contains = |tree: &str, parts: &[&str]| {
        for part in parts {
            assert!(tree.contains(part), "`{part}` is missing:\n{tree}");
        }
    };
    contains(
        &drawn("KubernetesApplication/web"),
        &[
            "KubernetesApplication team/web  Submitted\n",
            "├─ target  edge  Ready  for AGE, v1.",
            "round trip AGE\n",
            "└─ web-settings  ConfigMap settings  Submitted",
        ],
    );
    contains(
        &drawn("KubernetesTarget/edge"),
        &[
            "KubernetesTarget team/edge  Ready\n",
            "├─ cluster  UID  for AGE, v1.",
            "├─ secret  eu-kubeconfig",
            "└─ application  web  Submitted  1/1 resources submitted",
        ],
    );
    contains(
        &drawn("KubernetesCluster/dev"),
        &[
            "KubernetesCluster team/dev  Unbindable\n│ KubernetesClusterClass `nowhere` does not exist",
            "├─ class  nowhere",
            "├─ resource  -  no managed resource yet",
            "└─ target  dev  Missing",
        ],
    );
}
