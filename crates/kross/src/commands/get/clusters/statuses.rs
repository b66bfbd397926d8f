//! Lists the remote clusters that instances use, as their statuses say, and those that targets publish.

use std::collections::BTreeMap;

use kross_api::{ClusterState, ClusterStatus};
use serde_json::{Value as Json, json};

use super::super::list::{Item, Listed, instances};
use super::{HEADERS, WIDE_HEADERS};
use crate::hub::{Hub, InstanceView, condition, text};

/// What is known of one cluster.
#[derive(Debug, Default)]
struct Cluster {
    connected: bool,
    since: Option<String>,
    last_contact: Option<String>,
    uid: Option<String>,
    mode: String,
    target: Option<String>,
    version: Option<String>,
    instances: usize,
    not_ready: usize,
    objects: i64,
    reason: String,
}

/// Lists the clusters of the instances in a namespace, or in all.
pub(super) async fn of_instances(
    hub: &Hub,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> anyhow::Result<Listed> {
    let found = instances(hub, None, namespace, selector).await?;
    let mut clusters: BTreeMap<String, Cluster> = BTreeMap::new();
    for item in &found.items {
        let view = InstanceView(&item.object);
        for entry in view.clusters() {
            if entry.name.ends_with(kross_api::MORE_CLUSTERS) {
                continue;
            }
            let key = entry.secret.clone().unwrap_or_else(|| entry.name.clone());
            clusters.entry(key).or_default().add(&entry, view);
        }
    }
    let mut kinds = found.kinds;
    if let Ok(kind) = hub.kind("kubernetestargets.workload.crossplane.io") {
        for target in hub.list(&kind, namespace, selector).await.unwrap_or_default() {
            add_target(&target, &mut clusters);
        }
        kinds.push(kind);
    }
    Ok(Listed {
        headers: HEADERS.to_vec(),
        wide_headers: WIDE_HEADERS.to_vec(),
        items: clusters.into_iter().map(|(secret, cluster)| cluster.item(secret)).collect(),
        kinds,
        namespace: found.namespace,
        notes: found.notes,
        problems: found.problems,
    })
}

/// A published cluster, whether an instance uses it or not.
fn add_target(target: &Json, clusters: &mut BTreeMap<String, Cluster>) {
    let field = |path: &str| text(target, path).map(str::to_owned);
    let (namespace, name) = (field("/metadata/namespace").unwrap_or_default(), field("/metadata/name"));
    let Some(name) = name else { return };
    let secret = field("/spec/connectionSecretRef/name").unwrap_or_else(|| name.clone());
    let cluster = clusters.entry(format!("{namespace}/{secret}")).or_default();
    cluster.target = Some(format!("{namespace}/{name}"));
    cluster.version = field("/status/cluster/version");
    if cluster.instances == 0 {
        let ready = condition(target, "Ready");
        cluster.connected = ready.is_some_and(|ready| ready["status"] == "True");
        cluster.since = ready.and_then(|ready| ready["lastTransitionTime"].as_str()).map(str::to_owned);
        cluster.uid = field("/status/cluster/uid");
        "-".clone_into(&mut cluster.mode);
        if !cluster.connected {
            InstanceView(target).message().unwrap_or_default().clone_into(&mut cluster.reason);
        }
    }
}

impl Cluster {
    fn add(&mut self, entry: &ClusterStatus, instance: InstanceView<'_>) {
        self.instances += 1;
        self.not_ready += usize::from(!instance.is_ready());
        self.objects += entry.total;
        self.target = self.target.take().or_else(|| entry.target.clone());
        // The instance that heard of it last knows best.
        let is_newer = self.instances == 1 || entry.since > self.since;
        if is_newer {
            self.connected = entry.connected;
            self.since.clone_from(&entry.since);
            self.uid.clone_from(&entry.uid);
            self.mode = entry.mode.as_str().to_owned();
        }
        self.last_contact = self.last_contact.take().max(entry.last_contact.clone());
        if !entry.connected && self.reason.is_empty() {
            let resources = instance.resources();
            let said = resources
                .iter()
                .find(|it| it.cluster.as_deref() == Some(&entry.name) && it.message.is_some());
            self.reason = said.and_then(|it| it.message.clone()).unwrap_or_default();
        }
    }

    fn item(self, secret: String) -> Item {
        let Self {
            connected,
            since,
            last_contact,
            uid,
            mode,
            target,
            version,
            instances,
            not_ready,
            objects,
            reason,
        } = self;
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let object = json!({
            "secret": secret, "connected": connected, "since": since, "lastContact": last_contact, "uid": uid,
            "mode": mode, "target": target, "version": version, "instances": instances,
            "instancesNotReady": not_ready, "objects": objects, "reason": reason,
        });
        Item {
            namespace: String::new(),
            argument: secret.clone(),
            ready: connected,
            failed: !connected,
            cells: vec![
                secret.clone(),
                if connected { ClusterState::Connected } else { ClusterState::NotConnected }.to_string(),
                mode,
                shown(&version),
                instances.to_string(),
                objects.to_string(),
            ],
            wide: vec![
                shown(&since),
                shown(&last_contact),
                "-".to_owned(),
                "-".to_owned(),
                shown(&uid),
                if connected { String::new() } else { reason },
            ],
            aliases: Vec::new(),
            created: None,
            name: secret,
            object,
        }
    }
}
