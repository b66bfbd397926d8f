//! Checks before an installation: that the caller may install, that kro does not run, and what is there already.

use jiff::Timestamp;
use kross_api::SYSTEM_NAMESPACE;
use serde_json::Value as Json;

use super::access::{Permission, caller_may};
use super::installation::{Deployed, deployed};
use super::report::Report;
use crate::hub::{ControllerLease, Hub, controller_lease, text};

const YOU: &str = "your permissions";
const KRO: &str = "kro";
const NAMESPACE: &str = "namespace";

/// What the chart and the manifest create.
const PERMISSIONS: [Permission; 9] = [
    Permission::new("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    Permission::new("create", "rbac.authorization.k8s.io", "clusterroles"),
    Permission::new("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    Permission::new("create", "rbac.authorization.k8s.io", "roles"),
    Permission::new("create", "rbac.authorization.k8s.io", "rolebindings"),
    Permission::new("create", "", "serviceaccounts"),
    Permission::new("create", "", "services"),
    Permission::new("create", "apps", "deployments"),
    Permission::new("create", "policy", "poddisruptionbudgets"),
];

pub(super) async fn check(hub: &Hub, namespace: Option<&str>, report: &mut Report) {
    let namespace = namespace.unwrap_or(SYSTEM_NAMESPACE);
    permissions(hub, namespace, report).await;
    kro(hub, report).await;
    crds(hub, report).await;
    check_namespace(hub, namespace, report).await;
}

async fn permissions(hub: &Hub, namespace: &str, report: &mut Report) {
    for permission in PERMISSIONS {
        let check = format!("you may {}", permission.text());
        match caller_may(hub, permission, Some(namespace)).await {
            Some(true) => report.ok(YOU, check),
            Some(false) => {
                let message = "ask an administrator of the cluster to grant it, or to install kross";
                report.fail(YOU, &check, message, "install.md#permissions");
            }
            None => report.unknown(YOU, &check, "the API server does not tell", "install.md#permissions"),
        }
    }
}

/// kro and kross would reconcile the same definitions.
async fn kro(hub: &Hub, report: &mut Report) {
    let check = "kro does not run on this cluster";
    let Some(found) = deployed(hub).await else {
        let message = "you may not list Deployments: make sure that kro does not run";
        report.unknown(KRO, check, message, "migrating.md");
        return;
    };
    let running: Vec<String> =
        found.iter().filter(|it| it.is_kro() && it.replicas > 0).map(Deployed::title).collect();
    if !running.is_empty() {
        let message = format!(
            "{} would reconcile the same definitions: scale it to 0 replicas first",
            running.join(", ")
        );
        return report.fail(KRO, check, message, "migrating.md");
    }
    let is_kross = found.iter().any(|it| !it.is_kro() && it.replicas > 0);
    match controller_lease(hub, Timestamp::now()).await {
        // One that no Deployment runs: kro under another name, or a controller outside of the cluster.
        ControllerLease::Held { lease, holder } if !is_kross => {
            let message =
                format!("`{holder}` holds Lease `{lease}`: stop that controller of kro or kross first");
            report.fail(KRO, check, message, "migrating.md");
        }
        _ => report.ok(KRO, check),
    }
}

async fn crds(hub: &Hub, report: &mut Report) {
    let check = "there are no definitions to take over";
    match hub.definitions().await {
        Some(definitions) if definitions.is_empty() => report.ok(KRO, check),
        Some(definitions) => {
            let message = format!("kross takes over {} when it starts", counted(definitions.len()));
            report.warn(KRO, check, message, "migrating.md");
        }
        None if hub.kind(crate::hub::DEFINITIONS).is_err() => {
            report.ok(KRO, check);
        }
        None => report.unknown(KRO, check, "you may not list ResourceGraphDefinitions", "migrating.md"),
    }
}

fn counted(count: usize) -> String {
    if count == 1 { "one definition".to_owned() } else { format!("{count} definitions") }
}

async fn check_namespace(hub: &Hub, namespace: &str, report: &mut Report) {
    let check = format!("namespace `{namespace}` can be used");
    let Ok(kind) = hub.kind("namespaces") else { return };
    match hub.get(&kind, None, namespace).await {
        Ok(found) if text(&found, "/metadata/deletionTimestamp").is_some() => {
            report.fail(NAMESPACE, &check, "it is being deleted: wait until that has finished", "install.md");
        }
        Ok(found) => {
            let labels = found.pointer("/metadata/labels").and_then(Json::as_object);
            let level = labels.and_then(|labels| labels.get("pod-security.kubernetes.io/enforce"));
            let level = level.and_then(Json::as_str).map(|level| format!(" (Pod Security `{level}`)"));
            report.ok(NAMESPACE, format!("{check}{}", level.unwrap_or_default()));
        }
        Err(error) if error.is_object_not_found() => {
            let create = Permission::new("create", "", "namespaces");
            match caller_may(hub, create, None).await {
                Some(false) => {
                    let message = "it does not exist, and you may not create it";
                    report.fail(NAMESPACE, &check, message, "install.md");
                }
                _ => report.ok(NAMESPACE, format!("namespace `{namespace}` can be created")),
            }
        }
        Err(error) => report.unknown(NAMESPACE, &check, error.message(), "install.md"),
    }
}
