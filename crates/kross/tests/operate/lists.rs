//! `kross get`, `kross events` and `kross trace`.

use kross_local::{Access, rule};
use kross_testing::{Fault, wait};
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::flags::user;
use crate::world::{World, columns, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn lists_the_instances_of_every_definition_with_what_is_the_matter() {
    let world = World::new().await;
    world.ready("Listed", "b", json!([config_map("a", true, "x")])).await;
    let mut missing = config_map("a", false, "x");
    missing["template"]["metadata"]["namespace"] = json!("nowhere-to-list");
    world.define("Broken", json!([missing])).await;
    world.create("Broken", "a").await;
    world.until_state("Broken", "a", "ERROR").await;
    let label = json!({"metadata": {"labels": {"of": "lists"}}});
    world.patch("Listed", "b", label).await;

    let all = world.kross(&["get", "instances", "-o", "wide"]);
    assert_eq!((all.code, all.notes.as_str()), (0, ""));
    insta::assert_snapshot!("instances", columns(&all.data));
    let failing = world.kross(&["get", "instances", "--failing", "-o", "name"]);
    assert_eq!((failing.code, failing.data.as_str()), (1, "broken.kro.run/a\n"));
    let labelled = world.kross(&["get", "instances", "-l", "of=lists", "-o", "name"]);
    assert_eq!((labelled.code, labelled.data.as_str()), (0, "listed.kro.run/b\n"));
    let everywhere = world.kross(&["get", "all", "-A"]);
    assert!(everywhere.data.starts_with("NAMESPACE "), "{}", everywhere.data);
    let list: Json = serde_json::from_str(&world.kross(&["get", "listed/b", "-o", "json"]).data).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "b", "{list:#}");
    assert!(world.kross(&["get", "listed", "-o", "yaml"]).data.contains("name: b"));
    let nothing = world.kross(&["get", "listed", "c"]);
    assert_eq!((nothing.code, nothing.data.as_str()), (2, ""));
    assert!(nothing.notes.contains("error: `c` does not exist in namespace `team`"), "{}", nothing.notes);
    let other = world.kross(&["get", "configmaps"]);
    assert_eq!(other.code, 2);
    assert!(other.notes.contains("use `kubectl get configmaps`"), "{}", other.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_definitions_and_why_one_is_not_accepted() {
    let world = World::new().await;
    world.define("Accepted", json!([config_map("a", false, "x")])).await;
    world.submit("Refused", json!([config_map("a", false, "${nothing.here}")])).await;
    let definitions = world.api("kro.run/v1alpha1", "ResourceGraphDefinition", None);
    wait::until_object(&definitions, "refused", |object| object.data["status"]["state"] == "Inactive").await;
    let listed = world.kross(&["get", "rgd", "accepted", "refused", "-o", "wide"]);
    insta::assert_snapshot!("definitions", columns(&listed.data));
    let failing = world.kross(&["get", "definitions", "refused", "--failing"]);
    assert_eq!(failing.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_clusters_and_what_an_outage_of_one_affects() {
    let world = World::new().await;
    world.ready("Spread", "x", json!([config_map("a", true, "x"), config_map("b", false, "x")])).await;
    let connections = world.api("kro.run/v1alpha1", "ClusterConnection", None);
    let name = format!("{}.eu-kubeconfig", world.namespace);
    let until = async |state: &str| {
        wait::until_object(&connections, &name, |object| {
            let status = &object.data["status"];
            let is_counted = status["instances"] == 1 && status["objects"] == 1;
            status["state"] == state && status["mode"] == "Watch" && is_counted
        })
        .await;
    };
    until("Connected").await;
    let listed = world.kross(&["get", "clusters", "eu-kubeconfig"]);
    let table = columns(&listed.data);
    let line = table.lines().nth(1).unwrap();
    assert!(
        line.starts_with("team/eu-kubeconfig  Connected  Watch  v1.") && line.contains("  1  1  "),
        "{table}"
    );
    let named = world.kross(&["get", "clusters", "-A", "-o", "name"]);
    assert!(named.data.contains("clusterconnection.kro.run/team.eu-kubeconfig\n"), "{named:?}");

    world.proxy.set(Fault::Refuse);
    until("NotConnected").await;
    let lost = world.kross(&["get", "clusters", "--failing", "-o", "wide"]);
    assert_eq!(lost.code, 1);
    let table = columns(&lost.data);
    assert!(
        table.contains("team/eu-kubeconfig  NotConnected  Watch") && table.contains("connection refused"),
        "{table}"
    );
    let affected = world.kross_subcommand("cluster", &["affected", "eu-kubeconfig"]);
    assert_eq!((affected.code, affected.notes.as_str()), (0, ""));
    insta::assert_snapshot!("affected", affected.data);
    let json = world.kross_subcommand("cluster", &["affected", "team.eu-kubeconfig", "-o", "json"]);
    let json: Json = serde_json::from_str(&json.data).unwrap();
    assert_eq!(json["instances"][0]["objects"][0]["name"], "x-a", "{json:#}");

    // Somebody without rights on ClusterConnections reads the statuses of instances.
    let rights =
        Access::none().in_namespace(&world.namespace, [rule(&["kro.run"], &["*"], &["get", "list"])]);
    let tenant = user(&world, "clusters", rights).await;
    let listed = world.kross_as(tenant.path(), &["get", "clusters"]);
    assert!(listed.notes.contains("you may not list ClusterConnections"), "{listed:?}");
    assert!(columns(&listed.data).contains("team/eu-kubeconfig  NotConnected  Watch  -  1  1"), "{listed:?}");
    world.proxy.set(Fault::Pass);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_what_is_wrong_with_an_installation() {
    let world = World::new().await;
    world.ready("Checked", "x", json!([config_map("a", true, "x")])).await;
    world.submit("Unchecked", json!([config_map("a", false, "${nothing.here}")])).await;
    let definitions = world.api("kro.run/v1alpha1", "ResourceGraphDefinition", None);
    wait::until_object(&definitions, "unchecked", |object| object.data["status"]["state"] == "Inactive")
        .await;
    let all = world.kross(&["check"]);
    assert_eq!(all.code, 1, "{all:?}");
    for line in [
        "√ the API server answers",
        "√ `resourcegraphdefinitions.kro.run` is installed",
        "√ `kubernetestargets.workload.crossplane.io` is installed",
        "√ `clusterconnections.kro.run` is installed",
        "× all definitions are active\n",
        "`unchecked`: ",
    ] {
        assert!(all.data.contains(line), "{line} is not in\n{}", all.data);
    }
    let short = world.kross(&["check", "-o", "short"]);
    assert!(!short.data.contains("√ the") && short.data.contains("docs/operating.md#failures"), "{short:?}");
    let json = world.kross(&["check", "-o", "json"]);
    let json: Json = serde_json::from_str(&json.data).unwrap();
    assert_eq!(json["checks"][0]["verdict"], "ok");

    let before = world.kross(&["check", "--pre"]);
    assert!(before.data.contains("√ kro does not run on this cluster"), "{}", before.data);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "kro", "namespace": world.namespace, "labels": {"app.kubernetes.io/name": "kro"}},
        "spec": {"selector": {"matchLabels": {"app": "kro"}}, "template": {"metadata": {"labels": {"app": "kro"}},
            "spec": {"containers": [{"name": "kro", "image": "kro:0.9.4"}]}}}});
    world.apply(&deployment).await;
    let before = world.kross(&["check", "--pre"]);
    assert_eq!(before.code, 1);
    let expected = "Deployment team/kro (kro:0.9.4) would reconcile the same definitions";
    assert!(before.data.contains(expected), "{}", before.data);
    let deployments = world.api("apps/v1", "Deployment", Some(&world.namespace));
    deployments.delete("kro", &Default::default()).await.unwrap();
    // The controller of the tests has no Lease. One that somebody runs outside of the cluster has.
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "controller.kro.run", "namespace": world.namespace},
        "spec": {"holderIdentity": "kro-7d9f_1", "leaseDurationSeconds": 3600,
            "renewTime": jiff::Timestamp::now().strftime("%FT%T.000000Z").to_string()}});
    world.apply(&lease).await;
    let before = world.kross(&["check", "--pre"]);
    let expected =
        "`kro-7d9f_1` holds Lease `team/controller.kro.run`: stop that controller of kro or kross first";
    assert!(before.code == 1 && before.data.contains(expected), "{}", before.data);
    let leases = world.api("coordination.k8s.io/v1", "Lease", Some(&world.namespace));
    leases.delete("controller.kro.run", &Default::default()).await.unwrap();
    let nobody = user(&world, "unchecked", Access::none()).await;
    let before = world.kross_as(nobody.path(), &["check", "--pre", "-o", "short"]);
    assert_eq!(before.code, 1);
    assert!(
        before.data.contains("× you may create clusterroles.rbac.authorization.k8s.io"),
        "{}",
        before.data
    );
    let nowhere = world.kross(&["check", "--server", "https://127.0.0.1:1"]);
    assert_eq!((nowhere.code, nowhere.data.as_str()), (2, ""), "{nowhere:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_an_object_in_any_cluster_to_its_revision() {
    let world = World::new().await;
    world.ready("Traced", "x", json!([config_map("a", true, "x"), config_map("b", false, "x")])).await;
    let remote = world.kross(&["trace", "configmap/x-a"]);
    assert_eq!((remote.code, remote.notes.as_str()), (0, ""));
    insta::assert_snapshot!("trace", remote.data);
    let secret = format!("{}/eu-kubeconfig", world.namespace);
    let named = world.kross(&["trace", "cm", "x-a", "--in", &secret]);
    assert_eq!(named.data, remote.data, "{}", named.notes);
    let local = world.kross(&["trace", "cm/x-b"]);
    assert!(
        local.data.starts_with("ConfigMap team/x-b, which is resource `b` of\n└─ Traced team/x  ACTIVE"),
        "{}",
        local.data
    );
    let foreign = world.kross(&["trace", "cm/none"]);
    assert_eq!((foreign.code, foreign.data.as_str()), (2, ""));
    assert!(foreign.notes.contains("no instance has ConfigMap `none`"), "{}", foreign.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_the_events_of_all_clusters() {
    let world = World::new().await;
    world.ready("Eventful", "x", json!([config_map("a", true, "x")])).await;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "x-a.1", "namespace": world.namespace}, "type": "Warning", "reason": "Odd", "action": "Look",
        "reportingController": "test", "reportingInstance": "test", "note": "something odd",
        "eventTime": "2999-01-01T00:00:00.000000Z",
        "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": world.namespace, "name": "x-a"}});
    let events = world.remote("events.k8s.io/v1", "Event");
    events.patch("x-a.1", &PatchParams::apply("test"), &Patch::Apply(&event)).await.unwrap();
    wait::until("the Event of the instance", || async {
        let answer = world.kross(&["events", "eventful/x"]);
        let found = answer.data.contains("Eventful team/x") && answer.code == 0;
        if found { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
    let answer = world.kross(&["events", "eventful/x"]);
    let last = answer.data.lines().last().unwrap();
    assert!(last.contains("Odd") && last.contains("team/eu-kubeconfig"), "{}", answer.data);
    assert!(last.contains("ConfigMap team/x-a") && last.ends_with("something odd"), "{}", answer.data);
    let warnings = world.kross(&["events", "eventful", "x", "--warnings", "-o", "json"]);
    let rows: Json = serde_json::from_str(&warnings.data).unwrap();
    assert!(rows.as_array().unwrap().iter().all(|row| row["type"] == "Warning"), "{rows:#}");

    // A watch prints what happens later too.
    let mut watching = std::process::Command::new(env!("CARGO_BIN_EXE_kross"))
        .args(["events", "eventful/x", "--watch", "-n", &world.namespace, "--kubeconfig"])
        .arg(world.admin_path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let written = std::sync::Arc::clone(&seen);
    std::thread::spawn(move || {
        lines.map_while(Result::ok).for_each(|line| written.lock().unwrap().push_str(&format!("{line}\n")));
    });
    wait::until_true("the first Events", || seen.lock().unwrap().contains("something odd")).await;
    let mut later = event;
    later["metadata"]["name"] = json!("x-a.2");
    later["note"] = json!("something later");
    events.patch("x-a.2", &PatchParams::apply("test"), &Patch::Apply(&later)).await.unwrap();
    wait::until_true("the new Event", || seen.lock().unwrap().contains("something later")).await;
    assert_eq!(seen.lock().unwrap().matches("something odd").count(), 1);
    watching.kill().unwrap();
    watching.wait().unwrap();
}
