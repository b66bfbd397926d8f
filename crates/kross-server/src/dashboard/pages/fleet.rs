//! The fleet: every cluster that instances use, those that are not connected first, and what an outage affects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kross_api::ClusterStatus;
use maud::html;
use serde_json::Value as Json;

use super::super::query::{Query, encoded};
use super::super::viewer::Viewer;
use super::instances::all;
use super::{Content, parts};
use crate::read_model::{InstanceView, Tone, condition, for_people, text};

/// The kind of the objects in which the controller publishes the state of clusters.
const CONNECTIONS: &str = "clusterconnections.kro.run";

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cluster {
    connected: bool,
    since: Option<String>,
    last_contact: Option<String>,
    mode: String,
    version: String,
    round_trip: String,
    target: Option<String>,
    instances: usize,
    not_ready: usize,
    objects: i64,
    message: String,
}

/// The page.
pub(crate) async fn fleet(viewer: &Viewer, query: &Query) -> Content {
    let now = Timestamp::now();
    let (found, refused) = all(viewer, query.given("namespace")).await;
    let mut clusters: BTreeMap<String, Cluster> = BTreeMap::new();
    for view in found.iter().map(|it| InstanceView(&it.object)) {
        for entry in view.clusters().iter().filter(|it| !it.name.ends_with(kross_api::MORE_CLUSTERS)) {
            let key = entry.secret.clone().unwrap_or_else(|| entry.name.clone());
            clusters.entry(key).or_default().add(entry, view);
        }
    }
    if let Some(Ok(targets)) =
        viewer.list_named("kubernetestargets.workload.crossplane.io", query.given("namespace")).await
    {
        targets.iter().for_each(|target| add_target(target, &mut clusters));
    }
    if let Some(Ok(connections)) = viewer.list_named(CONNECTIONS, None).await {
        connections.iter().for_each(|connection| add_connection(connection, &mut clusters));
    }
    let mut rows: Vec<(&String, &Cluster)> = clusters.iter().collect();
    rows.sort_by_key(|(name, cluster)| (cluster.connected, cluster.not_ready == 0, *name));
    let connected = rows.iter().filter(|(_, cluster)| cluster.connected).count();
    let failing = found.iter().filter(|it| !InstanceView(&it.object).is_ready()).count();
    let body = html! {
        h1 { "Fleet" }
        ul .figures {
            li { strong { (connected) "/" (rows.len()) } " clusters connected" }
            li { a href="/instances" { strong { (found.len()) } " instances" } }
            li { a href="/instances?failing=1" { strong { (failing) } " not ready" } }
        }
        @for (kind, error) in &refused { (parts::unreadable(&format!("{} objects", kind.kind), error)) }
        @if rows.is_empty() {
            (parts::empty(
                "No remote clusters",
                "No instance that you may read uses a remote cluster. Register one, and name its Secret in a definition.",
                Some("kross cluster add CONTEXT --name NAME"),
            ))
        } @else {
            div .scroll {
                table {
                    thead { tr {
                        th { "Cluster" } th { "State" } th { "Since" } th { "Last contact" } th { "Mode" } th { "Version" }
                        th .number { "Round trip" } th .number { "Instances" } th .number { "Not ready" } th .number { "Objects" }
                        th { "Message" }
                    } }
                    tbody {
                        @for (name, cluster) in rows {
                            @let affected = format!("/instances?cluster={}", encoded(name));
                            tr {
                                td { a href=(affected) { (name) } @if let Some(target) = &cluster.target { br; small { "target " (target) } } }
                                td { @if cluster.connected { (parts::badge("connected", Tone::Good)) }
                                    @else { (parts::badge("not connected", Tone::Bad)) } }
                                td { (parts::ago(cluster.since.as_deref(), now)) }
                                td { (parts::ago(cluster.last_contact.as_deref(), now)) }
                                td { (cluster.mode.to_lowercase()) }
                                td { (cluster.version) }
                                td .number { (cluster.round_trip) }
                                td .number { a href=(affected) { (cluster.instances) } }
                                td .number { @if cluster.not_ready > 0 { a href=(format!("{affected}&failing=1")) { (cluster.not_ready) } } @else { "0" } }
                                td .number { (cluster.objects) }
                                td .message { (for_people(&cluster.message, now)) }
                            }
                        }
                    }
                }
            }
        }
    };
    Content::new("Fleet", "Fleet", body)
}

impl Cluster {
    fn add(&mut self, entry: &ClusterStatus, instance: InstanceView<'_>) {
        self.instances += 1;
        self.not_ready += usize::from(!instance.is_ready());
        self.objects += entry.total;
        self.target = self.target.take().or_else(|| entry.target.clone());
        // The instance that heard of it last knows best.
        if self.instances == 1 || entry.since > self.since {
            self.connected = entry.connected;
            self.since.clone_from(&entry.since);
            entry.mode.as_str().clone_into(&mut self.mode);
        }
        self.last_contact = self.last_contact.take().max(entry.last_contact.clone());
        if !entry.connected && self.message.is_empty() {
            let resources = instance.resources();
            let said = resources
                .iter()
                .find(|it| it.cluster.as_deref() == Some(&entry.name) && it.message.is_some());
            self.message = said.and_then(|it| it.message.clone()).unwrap_or_default();
        }
        if entry.connected {
            self.message.clear();
        }
    }
}

/// A published cluster, whether an instance uses it or not.
fn add_target(target: &Json, clusters: &mut BTreeMap<String, Cluster>) {
    let field = |path: &str| text(target, path).map(str::to_owned);
    let (Some(namespace), Some(name)) = (field("/metadata/namespace"), field("/metadata/name")) else {
        return;
    };
    let secret = field("/spec/connectionSecretRef/name").unwrap_or_else(|| name.clone());
    let cluster = clusters.entry(format!("{namespace}/{secret}")).or_default();
    cluster.target = Some(format!("{namespace}/{name}"));
    cluster.version = field("/status/cluster/version").unwrap_or_default();
    if cluster.instances == 0 {
        let ready = condition(target, "Ready");
        cluster.connected = ready.is_some_and(|ready| ready["status"] == "True");
        cluster.since = ready.and_then(|ready| ready["lastTransitionTime"].as_str()).map(str::to_owned);
        cluster.message = InstanceView(target).message().unwrap_or_default().to_owned();
    }
}

/// What the controller itself says of a cluster.
fn add_connection(connection: &Json, clusters: &mut BTreeMap<String, Cluster>) {
    let field = |path: &str| text(connection, path).map(str::to_owned);
    let (Some(namespace), Some(name)) = (field("/spec/secretRef/namespace"), field("/spec/secretRef/name"))
    else {
        return;
    };
    let cluster = clusters.entry(format!("{namespace}/{name}")).or_default();
    if let Some(state) = field("/status/state") {
        cluster.connected = state == "Connected";
    }
    let keep = |known: &mut Option<String>, path: &str| {
        if let Some(found) = field(path) {
            *known = Some(found);
        }
    };
    keep(&mut cluster.since, "/status/since");
    keep(&mut cluster.last_contact, "/status/lastContact");
    cluster.version = field("/status/version").unwrap_or_else(|| std::mem::take(&mut cluster.version));
    cluster.round_trip = field("/status/roundTripTime").unwrap_or_default();
    cluster.message = field("/status/message").unwrap_or_else(|| std::mem::take(&mut cluster.message));
}
