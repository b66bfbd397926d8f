//! Turns instances, targets and ClusterConnections into one row for each cluster: the cluster of the instances first, then those
//! that fail, then the others. What the controller publishes is preferred; without it, the statuses of instances tell.

use std::collections::BTreeMap;

use kross_api::{ClusterState, ClusterStatus, MORE_CLUSTERS, ResourceState};
use serde_json::Value as Json;

use super::{ClusterConnectionView, InstanceView, Tone, condition, text};

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetCluster {
    /// The Secret with its kubeconfig, as statuses have it; empty for the cluster that kross runs in.
    pub name: String,
    /// Whether it is connected.
    pub state: ClusterState,
    /// Why not, as one word.
    pub reason: Option<String>,
    /// Why not, and what to do about it.
    pub message: String,
    /// When the state last changed.
    pub since: Option<String>,
    /// When it last responded, if it is not connected.
    pub last_contact: Option<String>,
    /// `Watch` or `Poll`.
    pub mode: String,
    /// Its Kubernetes version.
    pub version: String,
    /// How long a request takes.
    pub round_trip: String,
    /// When the credential expires.
    pub expires: Option<String>,
    /// The targets that publish it, as `namespace/name`.
    pub targets: Vec<String>,
    /// What is unusual about its Secret.
    pub warnings: Vec<String>,
    /// Instances with objects there.
    pub instances: usize,
    /// Those of them that are not ready.
    pub not_ready: usize,
    /// Objects there.
    pub objects: i64,
    /// Those of them that are ready.
    pub objects_ready: i64,
}

impl FleetCluster {
    /// The state as people read it, and how good it is.
    #[must_use]
    pub fn state_word(&self) -> (&'static str, Tone) {
        match self.state {
            ClusterState::Connected => ("Connected", Tone::Good),
            ClusterState::Connecting => ("Connecting", Tone::Busy),
            ClusterState::NotConnected => ("Not connected", Tone::Bad),
        }
    }

    /// Whether it is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state == ClusterState::Connected
    }

    fn weight(&self) -> u8 {
        match self.state {
            ClusterState::NotConnected => 0,
            ClusterState::Connecting => 1,
            ClusterState::Connected if !self.warnings.is_empty() => 2,
            ClusterState::Connected if self.not_ready > 0 => 3,
            ClusterState::Connected => 4,
        }
    }

    fn add(&mut self, entry: &ClusterStatus, instance: InstanceView<'_>) {
        let is_newer = self.instances == 0 || entry.since > self.since;
        self.instances += 1;
        self.not_ready += usize::from(!instance.is_ready());
        self.objects += entry.total;
        self.objects_ready += entry.ready;
        if let Some(target) = &entry.target
            && !self.targets.contains(target)
        {
            self.targets.push(target.clone());
        }
        // The instance that heard of it last knows best.
        if is_newer {
            self.state = if entry.connected { ClusterState::Connected } else { ClusterState::NotConnected };
            self.since.clone_from(&entry.since);
            entry.mode.as_str().clone_into(&mut self.mode);
        }
        self.last_contact = self.last_contact.take().max(entry.last_contact.clone());
        if entry.connected {
            self.message.clear();
        } else if self.message.is_empty() {
            let said = instance
                .resources()
                .into_iter()
                .find(|it| it.cluster.as_deref() == Some(&entry.name) && it.message.is_some());
            self.message = said.and_then(|it| it.message).unwrap_or_default();
        }
    }
}

/// The clusters of a hub, as a user may read them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// The cluster that kross runs in, with what instances have there.
    pub hub: FleetCluster,
    /// The remote clusters, those that fail first.
    pub remotes: Vec<FleetCluster>,
}

impl Fleet {
    /// From the objects that tell of clusters.
    #[must_use]
    pub fn new(instances: &[&Json], targets: &[Json], connections: Vec<Json>) -> Self {
        let mut hub = FleetCluster { state: ClusterState::Connected, ..FleetCluster::default() };
        let mut remotes: BTreeMap<String, FleetCluster> = BTreeMap::new();
        for view in instances.iter().map(|object| InstanceView(object)) {
            hub.instances += 1;
            hub.not_ready += usize::from(!view.is_ready());
            for here in view.resources().iter().filter(|it| it.cluster.is_none()) {
                hub.objects += 1;
                hub.objects_ready += i64::from(here.state == ResourceState::Ready);
            }
            for entry in view.clusters().iter().filter(|it| !it.name.ends_with(MORE_CLUSTERS)) {
                let key = entry.secret.clone().unwrap_or_else(|| entry.name.clone());
                remotes.entry(key).or_default().add(entry, view);
            }
        }
        targets.iter().for_each(|target| add_target(target, &mut remotes));
        connections
            .into_iter()
            .filter_map(ClusterConnectionView::new)
            .for_each(|connection| add_connection(&connection, &mut remotes));
        let mut remotes: Vec<FleetCluster> =
            remotes.into_iter().map(|(name, cluster)| FleetCluster { name, ..cluster }).collect();
        remotes.sort_by_key(FleetCluster::weight);
        Self { hub, remotes }
    }

    /// When the next credential expires, and of which cluster.
    #[must_use]
    pub fn next_expiry(&self) -> Option<(&str, &FleetCluster)> {
        let expiring = self.remotes.iter().filter_map(|it| Some((it.expires.as_deref()?, it)));
        expiring.min_by_key(|(time, _)| *time)
    }
}

/// A published cluster, whether an instance uses it or not.
fn add_target(target: &Json, clusters: &mut BTreeMap<String, FleetCluster>) {
    let field = |path: &str| text(target, path).map(str::to_owned);
    let (Some(namespace), Some(name)) = (field("/metadata/namespace"), field("/metadata/name")) else {
        return;
    };
    let secret = field("/spec/connectionSecretRef/name").unwrap_or_else(|| name.clone());
    let cluster = clusters.entry(format!("{namespace}/{secret}")).or_default();
    let published = format!("{namespace}/{name}");
    if !cluster.targets.contains(&published) {
        cluster.targets.push(published);
    }
    cluster.version = field("/status/cluster/version").unwrap_or_default();
    if cluster.instances == 0 {
        let ready = condition(target, "Ready");
        let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
        cluster.state = if is_ready { ClusterState::Connected } else { ClusterState::NotConnected };
        cluster.since = ready.and_then(|ready| ready["lastTransitionTime"].as_str()).map(str::to_owned);
        cluster.message = InstanceView(target).message().unwrap_or_default().to_owned();
    }
}

/// What the controller itself says of a cluster.
fn add_connection(view: &ClusterConnectionView, clusters: &mut BTreeMap<String, FleetCluster>) {
    let status = view.status.clone();
    let cluster = clusters.entry(view.secret.status_text()).or_default();
    if let Some(state) = status.state {
        cluster.state = state;
        cluster.message.clear();
    }
    cluster.since = status.since.or(cluster.since.take());
    cluster.last_contact = status.last_contact.or(cluster.last_contact.take());
    cluster.reason = status.reason.map(|reason| reason.to_string());
    if let Some(message) = status.message {
        cluster.message = message;
    }
    if let Some(version) = status.version {
        cluster.version = version;
    }
    if let Some(mode) = status.mode {
        mode.as_str().clone_into(&mut cluster.mode);
    }
    cluster.round_trip = status.round_trip_time.unwrap_or_default();
    cluster.expires = status.credential.and_then(|credential| credential.expires);
    cluster.warnings = status.warnings.iter().cloned().collect();
    // The controller counts all of them, also those that the user may not read.
    let count = |count: Option<i64>| count.and_then(|count| usize::try_from(count).ok());
    cluster.instances = count(status.instances).unwrap_or_default().max(cluster.instances);
    cluster.objects = status.objects.unwrap_or_default().max(cluster.objects);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance(name: &str, connected: bool) -> Json {
        let state = if connected { "ACTIVE" } else { "IN_PROGRESS" };
        json!({"kind": "Shop", "metadata": {"name": name, "namespace": "shop"}, "status": {"state": state, "clusters": [
            {"name": "shop/eu", "secret": "shop/eu", "mode": "Watch", "connected": connected,
                "since": "2026-01-01T00:00:00Z", "ready": i64::from(connected), "total": 2},
            {"name": "9 more clusters", "mode": "Watch", "connected": true, "ready": 0, "total": 0}],
            "managedResources": [{"id": "a", "state": "Ready"},
                {"id": "b", "cluster": "shop/eu", "state": "Error", "message": "connection refused"}]}})
    }

    #[test]
    fn a_cluster_that_is_not_connected_comes_first_with_what_instances_say_of_it() {
        let (one, two) = (instance("one", false), instance("two", false));
        let target = json!({"metadata": {"namespace": "shop", "name": "ap"}, "status": {"cluster": {"version": "1.36"},
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let fleet = Fleet::new(&[&one, &two], &[target], Vec::new());
        let names: Vec<&str> = fleet.remotes.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["shop/eu", "shop/ap"]);
        let eu = &fleet.remotes[0];
        assert_eq!((eu.instances, eu.not_ready, eu.objects), (2, 2, 4));
        assert_eq!((eu.state_word().0, eu.message.as_str()), ("Not connected", "connection refused"));
        assert_eq!((fleet.hub.instances, fleet.hub.objects, fleet.hub.objects_ready), (2, 2, 2));
    }

    #[test]
    fn what_the_controller_publishes_is_preferred() {
        let one = instance("one", false);
        let connection = |name: &str, state: &str, expires: &str| {
            json!({"metadata": {"name": format!("shop.{name}")}, "spec": {"secretRef": {"namespace": "shop", "name": name,
                "key": "kubeconfig"}}, "status": {"state": state, "instances": 7, "roundTripTime": "18ms",
                "credential": {"method": "token", "expires": expires}}})
        };
        let connections = vec![
            connection("eu", "Connected", "2026-02-01T00:00:00Z"),
            connection("us", "Connecting", "2026-01-07T00:00:00Z"),
        ];
        let fleet = Fleet::new(&[&one], &[], connections);
        assert_eq!(fleet.remotes[0].name, "shop/us");
        let eu = &fleet.remotes[1];
        assert!(eu.is_connected() && eu.message.is_empty());
        assert_eq!((eu.instances, eu.round_trip.as_str()), (7, "18ms"));
        assert_eq!(fleet.next_expiry().unwrap().1.name, "shop/us");
    }
}
