//! kubectl's connection flags, the rights of the caller, and the program as a plugin of kubectl.

use std::process::Command;

use kross_local::{Access, Credential, rule};
use serde_json::{Value as Json, json};

use crate::world::{World, config_map};

/// A kubeconfig of a user of the hub with these rights in the namespace of the test.
pub(crate) async fn user(world: &World, name: &str, access: Access) -> tempfile::NamedTempFile {
    let kubeconfig = world.fixture.hub.plane.mint_token(&world.namespace, name, &access).await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_with_the_rights_of_the_caller_and_says_what_he_may_not_read() {
    let world = World::new().await;
    let deployment = json!({"id": "app", "cluster": {"name": "eu-kubeconfig"},
        "readyWhen": ["${app.status.availableReplicas == 1}"],
        "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "${schema.metadata.name}"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "app", "image": "nothing"}]}}}}});
    world.define("Private", json!([deployment])).await;
    world.create("Private", "x").await;
    world.until_state("Private", "x", "IN_PROGRESS").await;
    world.until_message("Private", "x", "readyWhen").await;
    let rights = Access::none()
        .in_namespace(&world.namespace, [rule(&["kro.run"], &["*"], &["get", "list", "watch"])]);
    let tenant = user(&world, "tenant", rights).await;
    let answer = world.kross_as(tenant.path(), &["why", "private/x"]);
    assert_eq!((answer.code, answer.notes.as_str()), (1, ""));
    insta::assert_snapshot!("why_for_a_tenant", answer.data);
    let listed = world.kross_as(tenant.path(), &["get", "private"]);
    assert!(listed.data.contains("Private   x"), "{listed:?}");
    let nobody = user(&world, "nobody", Access::none()).await;
    let refused = world.kross_as(nobody.path(), &["why", "private/x"]);
    assert_eq!((refused.code, refused.data.as_str()), (2, ""));
    assert!(refused.notes.contains("forbidden"), "{}", refused.notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_the_connection_flags_of_kubectl() {
    let world = World::new().await;
    world.ready("Flagged", "x", json!([config_map("a", false, "x")])).await;
    let plane = world.fixture.hub.plane;
    let acting = world.kross(&["get", "flagged", "--as", "somebody", "--as-group", "some"]);
    assert_eq!(acting.code, 2);
    assert!(acting.notes.contains("User \"somebody\" cannot list"), "{}", acting.notes);
    let minted = plane.mint_token(&world.namespace, "flagged", &Access::all()).await.unwrap();
    let Credential::Token(token) = &minted.credential else { panic!("a token") };
    // Without any kubeconfig: the server, its certificate authority and a token.
    let authority = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authority.path(), plane.authority().certificate()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_kross"))
        .args([
            "get",
            "flagged",
            "-n",
            &world.namespace,
            "-o",
            "name",
            "--server",
            plane.url(),
            "--token",
            token,
        ])
        .arg("--certificate-authority")
        .arg(authority.path())
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "flagged.kro.run/x\n", "{output:?}");
    let wrong =
        world.kross(&["get", "flagged", "--server", "https://127.0.0.1:1", "--request-timeout", "2s"]);
    assert_eq!(wrong.code, 2);
    assert!(!wrong.notes.contains(token.as_str()), "{}", wrong.notes);
    let context = world.kross(&["get", "flagged", "--context", "nothing"]);
    assert_eq!(context.code, 2);
    let version = world.kross(&["version"]);
    assert!(version.data.contains("kubernetes:  v1."), "{version:?}");
}

#[test]
fn runs_as_a_plugin_of_kubectl() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-kross");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kross"), &plugin).unwrap();
    let help = Command::new(&plugin).args(["why", "--help"]).output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(text.contains("Usage: kubectl kross why"), "{text}");
    let version = Command::new(&plugin).args(["version", "--client", "-o", "json"]).output().unwrap();
    let version: Json = serde_json::from_slice(&version.stdout).unwrap();
    assert_eq!(version["client"], env!("CARGO_PKG_VERSION"));
}

/// What bash offers at the end of a line.
fn completed(world: &World, line: &str) -> Vec<String> {
    let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_kross"));
    let script = format!(
        "source <(kross completion bash); COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; \
         function=$(complete -p kross | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $function kross {} ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len() - 1,
        words.last().unwrap(),
    );
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    let output =
        bash.args(["-c", &script]).env("PATH", path).env("KUBECONFIG", world.admin_path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_completes_commands_flags_and_the_names_of_what_is_on_the_hub() {
    let world = World::new().await;
    world.ready("Completed", "one", json!([config_map("a", true, "x")])).await;
    world.create("Completed", "other").await;
    let connections = world.api("kro.run/v1alpha1", "ClusterConnection", None);
    let connection = format!("{}.eu-kubeconfig", world.namespace);
    kross_testing::wait::until_object(&connections, &connection, |_| true).await;
    let namespace = &world.namespace;
    for (line, expected) in [
        ("kross wh".to_owned(), vec!["why"]),
        ("kross get complet".to_owned(), vec!["completed"]),
        ("kross tree complet".to_owned(), vec!["completed/"]),
        (format!("kross why -n {namespace} completed/o"), vec!["completed/one", "completed/other"]),
        (format!("kross why completed/one -n {namespace} -o "), vec!["text", "json"]),
        (format!("kross get completed -n {namespace} on"), vec!["one"]),
        (format!("kross tree --namespace={namespace} completed ot"), vec!["other"]),
        ("kross get clusters -n kube-sys".to_owned(), vec!["kube-system"]),
        (format!("kross cluster affected -n {namespace} eu"), vec!["eu-kubeconfig"]),
        ("kross get --all-n".to_owned(), vec!["--all-namespaces"]),
    ] {
        assert_eq!(completed(&world, &line), expected, "{line}");
    }
    assert!(!completed(&world, "kross get instances --context ").is_empty());
    // A hub that does not answer completes nothing, and says nothing.
    assert_eq!(completed(&world, "kross get shop --server https://127.0.0.1:1 a"), Vec::<String>::new());
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(env!("CARGO_BIN_EXE_kross")).args(["completion", shell]).output().unwrap();
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("KROSS_COMPLETE") && script.contains("kross"), "{shell}");
    }
}
