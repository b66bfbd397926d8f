//! `kross cluster add`, `list`, `check`, `rotate` and `remove`, with a kubeconfig that has a context for each cluster.

use std::process::Command;

use kross_local::{Access, Kubeconfig, rule};
use kross_testing::wait;
use kube::api::DynamicObject;
use serde_json::{Value as Json, json};

use crate::world::{Answer, World, columns};

/// The caller's files: a kubeconfig with the contexts `hub` (the current one), `eu-admin` and `us-admin`, and a folder of
/// definitions.
struct Desk {
    world: World,
    folder: tempfile::TempDir,
}

impl Desk {
    async fn new() -> Self {
        let world = World::with(&["eu", "us"]).await;
        let folder = tempfile::tempdir().unwrap();
        let remote = |name: &str| world.fixture.remote(name).plane.admin().clone();
        let contexts = [
            ("hub", world.fixture.hub.plane.admin().clone()),
            ("eu-admin", remote("eu")),
            ("us-admin", remote("us")),
        ];
        std::fs::write(folder.path().join("kubeconfig"), merged(&contexts)).unwrap();
        std::fs::create_dir(folder.path().join("definitions")).unwrap();
        Self { world, folder }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn kross(&self, arguments: &[&str]) -> Answer {
        self.kross_with("kubeconfig", arguments)
    }

    fn kross_with(&self, kubeconfig: &str, arguments: &[&str]) -> Answer {
        let Answer { code, data, notes } = self.raw(kubeconfig, arguments);
        let text = |text: String| {
            self.world.normalized_text(&text.replace(&self.folder.path().display().to_string(), "."))
        };
        Answer { code, data: text(data), notes: text(notes) }
    }

    /// Runs `kross cluster` in the namespace of the test.
    fn raw(&self, kubeconfig: &str, arguments: &[&str]) -> Answer {
        let output = Command::new(env!("CARGO_BIN_EXE_kross"))
            .arg("cluster")
            .args(arguments)
            .args(["--kubeconfig", &self.file(kubeconfig), "--namespace", &self.world.namespace])
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Answer { code: output.status.code().unwrap(), data: text(output.stdout), notes: text(output.stderr) }
    }

    /// Writes a definition of this kind with a ConfigMap in each of the two clusters.
    fn definition(&self, kind: &str) -> Json {
        let resource = |cluster: &str| {
            json!({"id": cluster, "cluster": {"name": cluster},
            "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("${{schema.metadata.name}}-{cluster}")},
                "data": {"text": "${schema.spec.text}"}}})
        };
        let resources = json!([resource("eu"), resource("us")]);
        let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
            "metadata": {"name": kind.to_lowercase()}, "spec": {
                "schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"text": "string | default=one"}},
                "resources": resources}});
        std::fs::write(self.file("definitions/app.json"), definition.to_string()).unwrap();
        resources
    }

    /// Registers a cluster under its own name.
    fn add(&self, cluster: &str, more: &[&str]) -> Answer {
        self.add_as(cluster, cluster, more)
    }

    fn add_as(&self, cluster: &str, name: &str, more: &[&str]) -> Answer {
        let (context, definitions) = (format!("{cluster}-admin"), self.file("definitions"));
        let arguments = ["add", context.as_str(), "--name", name, "--from-definitions", &definitions];
        self.kross(&[&arguments[..], more].concat())
    }

    async fn secret(&self, name: &str) -> DynamicObject {
        self.world.api("v1", "Secret", Some(&self.world.namespace)).get(name).await.unwrap()
    }

    /// The kubeconfig in a Secret, as the commands must never print it.
    async fn stored(&self, name: &str) -> String {
        self.secret(name).await.data["data"]["kubeconfig"].as_str().unwrap().to_owned()
    }

    /// An object of `eu`, in the namespace of ServiceAccounts or in none.
    async fn registered(&self, api_version: &str, kind: &str, namespaced: bool, name: &str) -> Option<Json> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
        let resource = kube::core::ApiResource::from_gvk(&kind);
        let client = self.world.fixture.remote("eu").client.clone();
        let api: kube::Api<DynamicObject> = match namespaced {
            true => kube::Api::namespaced_with(client, "kro-system", &resource),
            false => kube::Api::all_with(client, &resource),
        };
        api.get_opt(name).await.unwrap().map(|object| serde_json::to_value(object).unwrap())
    }
}

/// One kubeconfig with a context for each of these; the first is the current one.
fn merged(contexts: &[(&str, Kubeconfig)]) -> String {
    let mut merged = json!({"apiVersion": "v1", "kind": "Config", "current-context": contexts[0].0,
        "clusters": [], "users": [], "contexts": []});
    for (name, kubeconfig) in contexts {
        let one: Json = serde_saphyr::from_str(&kubeconfig.to_string()).unwrap();
        for (list, field) in [("clusters", "cluster"), ("users", "user")] {
            let entry = json!({"name": name, field: one[list][0][field]});
            merged[list].as_array_mut().unwrap().push(entry);
        }
        let context = json!({"name": name, "context": {"cluster": name, "user": name}});
        merged["contexts"].as_array_mut().unwrap().push(context);
    }
    merged.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_are_registered_used_rotated_and_removed() {
    let desk = Desk::new().await;
    let world = &desk.world;
    let resources = desk.definition("Registered");
    for cluster in ["eu", "us"] {
        let account = format!("kro-system/kross-{cluster}-{}", world.namespace);
        let added = desk.add(cluster, &["--service-account", &account]);
        assert_eq!(
            (added.code, added.data.as_str()),
            (0, format!("secret/{cluster} created\n").as_str()),
            "{}",
            added.notes
        );
        assert!(added.notes.contains("the controller renews it before"), "{}", added.notes);
    }
    let account = format!("kross-eu-{}", world.namespace);
    // Exactly what `kross rbac --remote` derives, and the renewal of its own token.
    let role = format!("kross:kro-system:{account}");
    let cluster_role =
        desk.registered("rbac.authorization.k8s.io/v1", "ClusterRole", false, &role).await.unwrap();
    assert_eq!(
        cluster_role["rules"],
        json!([
            {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["configmaps"],
                "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        ])
    );
    let own = desk.registered("rbac.authorization.k8s.io/v1", "Role", true, &role).await.unwrap();
    assert_eq!(
        own["rules"],
        json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [account],
            "verbs": ["create"]}])
    );

    world.ready("Registered", "x", resources).await;
    // Definitions of other tests on this hub may need more, wherever their instances are placed.
    let checked = desk.kross(&["check", "eu", "--from-definitions", &desk.file("definitions")]);
    assert_eq!((checked.code, checked.notes.as_str()), (0, ""), "{}", checked.data);
    let steps: Vec<&str> = checked.data.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(
        steps,
        ["Secret", "Kubeconfig", "DNS", "TCP", "TLS", "Credential", "Identity", "Permissions", "Schemas"],
        "{}",
        checked.data
    );
    let listed = desk.kross(&["list"]);
    assert_eq!(
        columns(&listed.data),
        "NAME  SERVER  CREDENTIAL  EXPIRES  RENEWED  AGE\n\
         eu  https://ADDRESS  token  in AGE  yes  AGE\n\
         us  https://ADDRESS  token  in AGE  yes  AGE"
    );

    let before = desk.stored("eu").await;
    let rotated = desk.kross(&["rotate", "eu"]);
    assert_eq!((rotated.code, rotated.data.as_str()), (0, "secret/eu rotated\n"), "{}", rotated.notes);
    assert!(rotated.notes.contains("the former token stays valid until "), "{}", rotated.notes);
    assert_ne!(desk.stored("eu").await, before);
    world.patch("Registered", "x", json!({"spec": {"text": "two"}})).await;
    wait::until_object(&world.remote("v1", "ConfigMap"), "x-eu", |map| map.data["data"]["text"] == "two")
        .await;
    world.until_state("Registered", "x", "ACTIVE").await;

    let again = desk.add("eu", &["--service-account", &format!("kro-system/{account}")]);
    assert_eq!((again.code, again.data.as_str()), (0, "secret/eu configured\n"), "{}", again.notes);
    assert_eq!(again.notes.matches(" unchanged\n").count(), 5, "{}", again.notes);

    let refused = desk.kross(&["remove", "eu"]);
    assert_eq!((refused.code, refused.data.as_str()), (1, ""), "{}", refused.notes);
    assert!(refused.notes.contains("is used by 1 object:\n  registered/x -n team\n"), "{}", refused.notes);
    world.kross(&["delete", "registered/x"]);
    wait::until_deleted(&world.instances("Registered"), "x").await;
    let wrong = desk.kross(&["remove", "eu", "--cleanup", "us-admin"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.notes.contains("context `us-admin` is not the cluster of Secret `team/eu`"),
        "{}",
        wrong.notes
    );
    let removed = desk.kross(&["remove", "eu", "--cleanup", "eu-admin"]);
    assert_eq!((removed.code, removed.data.as_str()), (0, "secret/eu deleted\n"), "{}", removed.notes);
    assert_eq!(removed.notes.matches(" deleted\n").count(), 5, "{}", removed.notes);
    assert!(desk.registered("v1", "ServiceAccount", true, &account).await.is_none());
    let kept = desk.kross(&["remove", "us"]);
    assert_eq!(kept.code, 0);
    assert!(kept.notes.contains("and its roles are still in the cluster"), "{}", kept.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_others_have_created_is_overwritten() {
    let desk = Desk::new().await;
    let world = &desk.world;
    desk.definition("Refused");
    world.secret("eu", &world.kubeconfig()).await;
    let foreign = desk.add("eu", &[]);
    assert_eq!((foreign.code, foreign.data.as_str()), (2, ""));
    assert_eq!(
        foreign.notes,
        "error: Secret `team/eu` exists and was not created by `kross cluster add`; choose another name with `--name`, or delete it first\n"
    );
    let rotated = desk.kross(&["rotate", "eu"]);
    assert_eq!(rotated.code, 2);
    assert!(rotated.notes.contains("was not created by `kross cluster add`"), "{}", rotated.notes);

    let account = format!("{}/foreign", world.namespace);
    let (namespace, name) = account.split_once('/').unwrap();
    world
        .apply_remote(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace}}))
        .await;
    let foreign = desk.add_as("eu", "other", &["--service-account", &account]);
    assert_eq!(foreign.code, 2);
    assert!(
        foreign.notes.contains("ServiceAccount `team/foreign` exists in the cluster and was not created by"),
        "{}",
        foreign.notes
    );

    let account = format!("{}/mine", world.namespace);
    let added = desk.add_as("eu", "mine", &["--service-account", &account]);
    assert_eq!(added.code, 0, "{}", added.notes);
    let shared = desk.add_as("eu", "other", &["--service-account", &account]);
    assert_eq!(shared.code, 2);
    assert!(shared.notes.contains("is used by another registration"), "{}", shared.notes);
    let moved = desk.add_as("us", "mine", &["--service-account", &account]);
    assert_eq!(moved.code, 2);
    assert!(moved.notes.contains("is the registration of another cluster"), "{}", moved.notes);
    let unknown = desk.kross(&["add", "nowhere"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.notes.contains("cannot use context `nowhere`"), "{}", unknown.notes);
    let short = desk.add("eu", &["--token-duration", "5m"]);
    assert!(short.notes.contains("use at least ten minutes"), "{}", short.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_cannot_be_reached_gets_the_secret_by_export() {
    let desk = Desk::new().await;
    let world = &desk.world;
    desk.definition("Exported");
    let account = format!("{}/exported", world.namespace);
    let printed = desk.add("eu", &["--service-account", &account, "--export=manifests"]);
    assert_eq!((printed.code, printed.notes.as_str()), (0, ""), "{}", printed.notes);
    insta::assert_snapshot!("cluster_add_manifests", printed.data);
    assert!(
        world.remote("v1", "ServiceAccount").get_opt("exported").await.unwrap().is_none(),
        "manifests change nothing"
    );
    let arguments = ["add", "eu-admin", "--name", "eu", "--service-account", &account, "--export"];
    let granted = ["--from-definitions", &desk.file("definitions"), "--allowed-namespaces", "team,shop"];
    let secret = desk.raw("kubeconfig", &[&arguments[..], &granted].concat());
    assert_eq!(secret.code, 0, "{}", secret.notes);
    assert!(secret.notes.contains("warning: the Secret contains a token"), "{}", secret.notes);
    let exported: Json = serde_saphyr::from_str(&secret.data).unwrap();
    assert_eq!(exported["metadata"]["annotations"]["kro.run/allowed-namespaces"], "team,shop");
    let secrets = world.api("v1", "Secret", Some(&world.namespace));
    assert!(secrets.get_opt("eu").await.unwrap().is_none(), "the hub is not touched");
    world
        .apply(&{
            let mut object = exported.clone();
            object["metadata"]["namespace"] = json!(world.namespace);
            object
        })
        .await;
    let checked = desk.kross(&["check", "eu", "--from-definitions", &desk.file("definitions")]);
    assert_eq!(checked.code, 0, "{}{}", checked.data, checked.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_which_step_fails_and_shows_no_credential() {
    let desk = Desk::new().await;
    let world = &desk.world;
    desk.definition("Checked");
    let account = format!("{}/checked", world.namespace);
    assert_eq!(desk.add("eu", &["--service-account", &account]).code, 0);
    let last = |answer: &Answer| {
        let step = answer.data.lines().rfind(|line| !line.starts_with(' ')).unwrap_or_default();
        step.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    // What a definition needs that was not registered.
    let more = desk.file("definitions/app.json");
    let text = std::fs::read_to_string(&more)
        .unwrap()
        .replace("ConfigMap", "ServiceAccount")
        .replace("\"data\"", "\"secrets\"");
    let text = text.replace("{\"text\":\"${schema.spec.text}\"}", "[]");
    std::fs::write(&more, text).unwrap();
    let missing = desk.kross(&["check", "eu", "--from-definitions", &desk.file("definitions")]);
    assert_eq!(missing.code, 1, "{}{}", missing.data, missing.notes);
    assert!(missing.data.contains("create serviceaccounts\n"), "{}", missing.data);

    let token = desk.stored("eu").await;
    for answer in
        [&missing, &desk.kross(&["check", "eu", "-o", "json"]), &desk.kross(&["list", "-o", "yaml"])]
    {
        let shown = format!("{}{}", answer.data, answer.notes);
        assert!(!shown.contains("eyJ") && !shown.contains(&token[token.len() - 40..]), "{shown}");
    }

    let plane = world.fixture.remote("eu").plane;
    let expired = plane.mint_expired_token(&world.namespace, "checked", &Access::none()).await.unwrap();
    let mut unreachable = expired.clone();
    world.secret("late-kubeconfig", &expired).await;
    let late = desk.kross(&["check", "late-kubeconfig"]);
    assert_eq!((late.code, last(&late).as_str()), (1, "Credential failed"), "{}", late.data);
    unreachable.server = "https://127.0.0.1:1".to_owned();
    world.secret("closed-kubeconfig", &unreachable).await;
    let closed = desk.kross(&["check", "closed-kubeconfig"]);
    assert_eq!((closed.code, last(&closed).as_str()), (1, "TCP failed"), "{}", closed.data);
    assert_eq!(desk.kross(&["check", "nothing"]).code, 2);

    let rights =
        Access::none().in_namespace(&world.namespace, [rule(&["kro.run"], &["*"], &["get", "list"])]);
    let tenant = world.fixture.hub.plane.mint_token(&world.namespace, "tenant", &rights).await.unwrap();
    std::fs::write(desk.file("tenant"), tenant.to_string()).unwrap();
    let refused = desk.kross_with("tenant", &["check", "eu"]);
    assert_eq!((refused.code, refused.data.as_str()), (2, ""));
    assert!(refused.notes.contains("you may not read Secret `team/eu` on the hub"), "{}", refused.notes);
    assert!(refused.notes.contains("`kross get clusters` shows"), "{}", refused.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_created_for_a_namespace_that_the_hub_does_not_have() {
    let desk = Desk::new().await;
    desk.definition("Nowhere");
    let account = format!("{}/nowhere", desk.world.namespace);
    let output = Command::new(env!("CARGO_BIN_EXE_kross"))
        .args([
            "cluster",
            "add",
            "eu-admin",
            "--name",
            "eu",
            "-n",
            "not-on-the-hub",
            "--service-account",
            &account,
        ])
        .args(["--kubeconfig", &desk.file("kubeconfig")])
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{notes}");
    assert!(notes.contains("`kubectl create namespace not-on-the-hub`"), "{notes}");
    assert!(desk.world.remote("v1", "ServiceAccount").get_opt("nowhere").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_not_removed_while_nobody_can_tell_who_uses_it() {
    let desk = Desk::new().await;
    let world = &desk.world;
    world.ready("Unseen", "x", json!([crate::world::config_map("a", true, "x")])).await;
    // Somebody who may delete the Secret and read definitions, but not list the instances of one of them.
    let everything = ["get", "list", "watch", "delete"];
    let rights = Access::none()
        .in_namespace(&world.namespace, [rule(&[""], &["secrets"], &everything)])
        .in_cluster([rule(&["kro.run"], &["resourcegraphdefinitions"], &everything)]);
    let somebody = world.fixture.hub.plane.mint_token(&world.namespace, "somebody", &rights).await.unwrap();
    std::fs::write(desk.file("somebody"), somebody.to_string()).unwrap();
    let refused = desk.kross_with("somebody", &["remove", "eu-kubeconfig"]);
    assert_eq!((refused.code, refused.data.as_str()), (2, ""), "{}", refused.notes);
    assert!(refused.notes.contains("cannot list "), "{}", refused.notes);
    assert_eq!(desk.secret("eu-kubeconfig").await.metadata.deletion_timestamp, None);
}
