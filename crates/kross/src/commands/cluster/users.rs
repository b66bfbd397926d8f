//! Finds who uses the Secret of a cluster: the instances whose inventories name it, and the targets whose connection Secret it is.

use kross_api::{ClusterInventory, ResolvedCredentials, SecretAddress, annotations};
use kross_plan::ReferenceKey;
use serde_json::Value as Json;

use super::super::get::all_instances;
use crate::hub::{Hub, InstanceView, text};

/// A kind that publishes clusters.
pub(super) const TARGETS: &str = "kubernetestargets.workload.crossplane.io";

/// The users of a Secret, as a command line names them: `app/web -n team`. Sorted.
///
/// # Errors
/// Some may not be listed: then nobody knows whether the Secret is used.
pub(super) async fn users(hub: &Hub, namespace: &str, name: &str) -> anyhow::Result<Vec<String>> {
    if hub.definitions().await.is_none() {
        anyhow::bail!("you may not list ResourceGraphDefinitions, so not all instances are known");
    }
    let mut users: Vec<String> = all_instances(hub, None)
        .await?
        .iter()
        .filter(|instance| names(instance, namespace, name))
        .map(|instance| argument(InstanceView(instance)))
        .collect();
    if let Ok(kind) = hub.kind(TARGETS) {
        let targets = hub.list(&kind, Some(namespace), None).await?;
        let uses = |target: &&Json| text(target, "/spec/connectionSecretRef/name") == Some(name);
        users.extend(targets.iter().filter(uses).map(|target| argument(InstanceView(target))));
    }
    users.sort();
    users.dedup();
    Ok(users)
}

fn argument(view: InstanceView<'_>) -> String {
    let namespace = view.namespace().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("{}/{}{namespace}", view.kind().to_lowercase(), view.name())
}

/// Whether the inventory of an instance, or else its status, names a Secret. An inventory that cannot be read may name any.
pub(super) fn names(instance: &Json, namespace: &str, name: &str) -> bool {
    let view = InstanceView(instance);
    let is_it = |secret: &SecretAddress| secret.namespace == namespace && secret.name == name;
    let reported = || {
        let clusters = view.clusters();
        let secrets =
            clusters.iter().filter_map(|cluster| SecretAddress::from_status(cluster.secret.as_deref()?));
        secrets.into_iter().any(|secret| is_it(&secret))
    };
    let Some(inventory) = view.annotation(annotations::CLUSTER_INVENTORY) else { return reported() };
    let Some(references) = ClusterInventory::references(inventory) else { return true };
    reported()
        || references.iter().any(|(reference, _)| {
            let resolved = ReferenceKey::parse(reference).and_then(|key| key.resolved());
            matches!(resolved.map(|it| it.credentials), Some(ResolvedCredentials::Secret(secret)) if is_it(&secret))
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_instance_uses_the_secrets_of_its_inventory_and_of_its_status() {
        let inventory = json!({"version": 1, "hash": "", "clusters": [
            {"reference": "secret/team/eu/kubeconfig", "name": "eu", "uid": "1", "kinds": "ConfigMap"}]});
        let instance = json!({"kind": "App", "metadata": {"name": "a", "namespace": "team",
            "annotations": {annotations::CLUSTER_INVENTORY: inventory.to_string()}}});
        assert!(names(&instance, "team", "eu"));
        assert!(!names(&instance, "team", "us") && !names(&instance, "other", "eu"));
        let reported = json!({"status": {"clusters": [{"name": "us", "secret": "team/us", "mode": "Watch",
            "connected": true, "ready": 0, "total": 0}]}});
        assert!(names(&reported, "team", "us") && !names(&reported, "team", "eu"));
        let unreadable = json!({"metadata": {"annotations": {annotations::CLUSTER_INVENTORY: "?"}}});
        assert!(names(&unreadable, "team", "eu"), "what cannot be read may use any cluster");
    }
}
