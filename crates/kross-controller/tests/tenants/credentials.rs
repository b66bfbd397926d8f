//! Attempts to use the credentials of another tenant, or the controller's own.

use kross_testing::Requests;
use serde_json::{Value as Json, json};

use crate::world::{BANK, World};

/// What a refusal says, without the names that the tenant chose himself.
fn anonymous(status: &str, names: &[&str]) -> String {
    let found: Json = serde_json::from_str(status).unwrap();
    let conditions = found["conditions"].as_array().unwrap().clone();
    let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap();
    let message = ready["message"].as_str().unwrap().to_owned();
    // Times differ, and with them which condition `Ready` repeats.
    let message = message[message.find("cannot use").unwrap()..].split(" since ").next().unwrap().to_owned();
    names.iter().fold(message, |message, name| message.replace(name, "NAME"))
}

/// Attempts 1 to 4: the Secret of another tenant, in each spelling. The answer is that for a Secret that does not exist.
#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_another_tenant_looks_as_if_it_did_not_exist() {
    let world = World::new().await;
    let shop = world.shop("secrets").await;
    let prod = shop.secret.as_str();
    let by_name = |secret: &str| json!({"secret": secret, "namespace": BANK});
    let by_string = |secret: &str| json!({"secret": format!("{BANK}/{secret}")});
    let attempts = [
        ("Roaming", by_name(prod), by_name("absent-kubeconfig")),
        ("ByTarget", by_name(prod), by_name("absent-kubeconfig")),
        ("ByString", by_string(prod), by_string("absent-kubeconfig")),
    ];
    for (kind, existing, absent) in attempts {
        world.mallory.create(kind, "existing", existing).await;
        world.mallory.create(kind, "absent", absent).await;
        let existing = world.mallory.until_refused(kind, "existing").await;
        let absent = world.mallory.until_refused(kind, "absent").await;
        assert_eq!(
            anonymous(&existing, &["existing", prod]),
            anonymous(&absent, &["absent-kubeconfig", "absent"]),
            "{kind}"
        );
        for name in ["existing", "absent"] {
            world.mallory.delete(kind, name).await;
            kross_testing::wait::until_deleted(&world.mallory.api(kind), name).await;
        }
    }
    let sent = world.production.requests(&Requests::any().namespace("mallory"));
    assert!(sent.is_empty(), "nothing was sent with the bank's credential: {sent:?}");
    shop.assert_unharmed().await;
    shop.delete().await;
}

/// Attempt 5: names that would lead out of the namespace.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_does_not_lead_out_of_the_namespace() {
    let world = World::new().await;
    let shop = world.shop("paths").await;
    let names = [format!("../{BANK}/{}", shop.secret), format!("{BANK}%2F{}", shop.secret), "..".to_owned()];
    for (at, name) in names.iter().enumerate() {
        let instance = format!("path-{at}");
        world.mallory.create("Shop", &instance, json!({"secret": name})).await;
        let refused = world.mallory.until_refused("Shop", &instance).await;
        assert!(refused.contains("not a valid Secret name"), "{refused}");
        world.mallory.delete("Shop", &instance).await;
    }
    shop.assert_unharmed().await;
    shop.delete().await;
}

/// Attempt 6: a target in the namespace of another tenant.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_of_another_namespace_is_not_used() {
    let world = World::new().await;
    let shop = world.shop("targets").await;
    let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
        "metadata": {"name": "vault", "namespace": BANK}, "spec": {"connectionSecretRef": {"name": shop.secret}}});
    crate::world::apply(&world.admin.client, &target).await.unwrap();
    for (at, name) in ["vault", "bank/vault"].into_iter().enumerate() {
        let instance = format!("target-{at}");
        world.mallory.create("Published", &instance, json!({"secret": name})).await;
        let refused = world.mallory.until("Published", &instance, |it| it.to_string().contains("NoTarget"));
        refused.await;
        world.mallory.delete("Published", &instance).await;
    }
    // Mallory may not publish it to herself either.
    let mut own = target.clone();
    own["metadata"]["namespace"] = json!("mallory");
    assert!(crate::world::apply(&world.mallory.client, &own).await.is_err());
    shop.assert_unharmed().await;
    let targets =
        world.admin.namespaced("workload.crossplane.io", "KubernetesTarget", "kubernetestargets", BANK);
    targets.delete("vault", &kube::api::DeleteParams::default()).await.unwrap();
    shop.delete().await;
}

/// Attempts 7 to 9: kubeconfigs that read files of the controller, run commands, or act as the controller on the hub.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_does_not_use_what_the_controller_has() {
    let world = World::new().await;
    let text = world.hostile_kubeconfig().to_string();
    let kubeconfig: Json = serde_saphyr::from_str(&text).unwrap();
    let with_user = |user: Json| {
        let mut changed = kubeconfig.clone();
        changed["users"][0]["user"] = user;
        changed.to_string()
    };
    let hub = world.fixture.hub.plane.admin();
    let mut anonymous: Json = serde_saphyr::from_str(&hub.to_string()).unwrap();
    anonymous["users"][0]["user"] = json!({});
    let proof = std::env::temp_dir().join(format!("kross-tenants-{}", std::process::id()));
    let attempts = [
        (
            "files",
            with_user(json!({"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"})),
            "tokenFile",
        ),
        (
            "command",
            with_user(json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh", "args": ["-c", format!("touch {}", proof.display())], "interactiveMode": "Never"}})),
            "exec",
        ),
        ("hub", anonymous.to_string(), "credential"),
    ];
    for (name, kubeconfig, word) in attempts {
        let secret = format!("{name}-kubeconfig");
        world.mallory.kubeconfig(&secret, &kubeconfig).await;
        world.mallory.create("Shop", name, json!({"secret": secret})).await;
        let found = world.mallory.until("Shop", name, |it| {
            it["status"]["state"] == "ERROR" || it["status"].to_string().contains("KubeconfigInvalid")
        });
        let status = found.await["status"].to_string();
        assert!(status.contains(word), "{status}");
        world.mallory.delete("Shop", name).await;
        kross_testing::wait::until_deleted(&world.mallory.api("Shop"), name).await;
    }
    assert!(!proof.exists(), "the command was run");
}
