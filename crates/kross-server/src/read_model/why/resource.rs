//! Follows an instance: suspended, not reconciled, without a graph, or blocked by one of its resources.

use kross_api::{
    ClusterStatus, ConditionType, FailureReason, ManagedResource, Operation, Reason, ResourceState,
};
use serde_json::Value as Json;

use super::super::Tone;
use super::super::{InstanceView, condition, failed_condition, text};
use super::advice;
use super::investigation::{Investigation, WhyError};

impl Investigation<'_> {
    /// Follows an instance.
    pub(super) async fn instance(&mut self, instance: &Json) -> Result<(), WhyError> {
        let view = InstanceView(instance);
        let state = if view.is_suspended() && !view.is_deleting() { "suspended" } else { view.state() };
        let tone = match () {
            () if view.is_ready() => Tone::Good,
            () if state == "ERROR" || state == "Failed" => Tone::Bad,
            () => Tone::Busy,
        };
        self.link(view.title(), state, tone);
        if view.is_deleting() {
            return self.deletion(instance).await;
        }
        if view.is_suspended() {
            self.answer.why =
                "its reconciliation is suspended by the annotation `kro.run/reconcile`; nothing is \
                               created, repaired or pruned until it is resumed"
                    .to_owned();
            self.answer.next.push(format!("kross resume {}", view.argument()));
            return Ok(());
        }
        if view.is_ready() {
            self.answer.ready = true;
            let count = view.resources().iter().filter(|entry| entry.state == ResourceState::Ready).count();
            self.answer.why = match count {
                0 => "ready".to_owned(),
                1 => "ready: its object is as desired".to_owned(),
                count => format!("ready: all {count} objects are as desired"),
            };
            return Ok(());
        }
        if self.blames_definition(instance).await {
            return Ok(());
        }
        let resources = view.resources();
        match blocking(&resources) {
            Some(first) => self.resource(instance, &resources, first).await,
            None => {
                self.without_resource(instance);
                Ok(())
            }
        }
    }

    /// Whether the definition is the cause: it is missing, not active, or the instance was never reconciled.
    async fn blames_definition(&mut self, instance: &Json) -> bool {
        let view = InstanceView(instance);
        let is_reconciled =
            condition(instance, "Ready").is_some() || text(instance, "/status/state").is_some();
        let is_false = |kind: &str| condition(instance, kind).filter(|found| found["status"] == "False");
        let unresolved = is_false("GraphResolved").or_else(|| is_false("InstanceManaged"));
        if is_reconciled && view.is_current() && unresolved.is_none() {
            return false;
        }
        let definition = self.served_by(instance).cloned();
        if let Some(definition) = definition.as_ref().filter(|definition| definition.state() != "Active") {
            self.definition(definition).await;
            return true;
        }
        let message = unresolved.and_then(|found| found["message"].as_str()).unwrap_or_default();
        if !message.is_empty() {
            self.answer.why = message.to_owned();
            self.answer.next.extend(advice::command_in(message));
            if let Some(definition) = definition {
                self.answer.next.push(format!("kross why rgd/{}", definition.name()));
            }
            return true;
        }
        if self.definitions.is_some()
            && definition.is_none()
            && view.kind() != "KubernetesApplicationResource"
        {
            self.answer.why = format!("no ResourceGraphDefinition serves `{}` any more", view.kind());
            self.answer.next.push("kross get definitions".to_owned());
            return true;
        }
        let what = if is_reconciled { "its current spec" } else { "it" };
        self.answer.why = format!("no controller has reconciled {what} yet");
        self.answer
            .next
            .push("kubectl get pods --all-namespaces -l 'app.kubernetes.io/name in (kross, kro)'".to_owned());
        self.answer.next.push(format!("kross why {}", view.argument()));
        true
    }

    /// What the conditions say if no resource is the cause.
    fn without_resource(&mut self, instance: &Json) {
        let view = InstanceView(instance);
        let failed = failed_condition(instance);
        let message = failed.and_then(|failed| failed["message"].as_str()).or_else(|| view.message());
        let message = message.unwrap_or("its status says no more; see its conditions");
        self.answer.why = message.to_owned();
        match advice::command_in(message) {
            Some(command) => self.answer.next.push(command),
            None => self.answer.next.push(format!("kross tree {}", view.argument())),
        }
    }

    /// Follows a resource, and from a blocked one the resources that it waits for.
    async fn resource(
        &mut self,
        instance: &Json,
        resources: &[ManagedResource],
        first: &ManagedResource,
    ) -> Result<(), WhyError> {
        let mut entry = first;
        let mut seen = vec![first.id.as_str()];
        loop {
            self.resource_link(entry);
            let next = self.needed(instance, resources, entry);
            match next.filter(|next| !seen.contains(&next.id.as_str())) {
                Some(next) => {
                    seen.push(&next.id);
                    entry = next;
                }
                None => break,
            }
        }
        let clusters = InstanceView(instance).clusters();
        let cluster =
            entry.cluster.as_deref().and_then(|name| clusters.iter().find(|known| known.name == name));
        self.answer.why = sentence(entry);
        let lost = is_lost(entry) || cluster.is_some_and(|cluster| !cluster.connected);
        if let (true, Some(cluster)) = (lost, cluster.or_else(|| lost_cluster(&clusters))) {
            return self.cluster(instance, entry, cluster).await;
        }
        if lost {
            return self.unresolved_cluster(instance, entry).await;
        }
        self.object(instance, entry, cluster).await
    }

    /// Adds a resource to the chain.
    pub(super) fn resource_link(&mut self, entry: &ManagedResource) {
        let kind = entry.kind.as_deref().unwrap_or_default();
        let name = match (&entry.namespace, &entry.name) {
            (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
            (None, Some(name)) => format!(" {name}"),
            (_, None) => String::new(),
        };
        let place =
            entry.cluster.as_deref().map(|cluster| format!(" in cluster {cluster}")).unwrap_or_default();
        let id = if entry.id.is_empty() { String::new() } else { format!("{}: ", entry.id) };
        let reason = entry.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let tone = if entry.state == ResourceState::Error { Tone::Bad } else { Tone::Busy };
        self.link(format!("{id}{kind}{name}{place}"), format!("{}{reason}", entry.state), tone);
    }

    /// The resource that a blocked one waits for.
    fn needed<'r>(
        &self,
        instance: &Json,
        resources: &'r [ManagedResource],
        entry: &ManagedResource,
    ) -> Option<&'r ManagedResource> {
        if !matches!(entry.state, ResourceState::Blocked | ResourceState::Pending) || entry.reason.is_some() {
            return None;
        }
        let message = entry.message.as_deref().unwrap_or_default();
        let named = message.split('`').skip(1).step_by(2);
        let depends = self.served_by(instance).map(|definition| definition.dependencies(&entry.id));
        let depends = depends.unwrap_or_default();
        let is_open = |other: &&ManagedResource| {
            !matches!(other.state, ResourceState::Ready | ResourceState::Skipped | ResourceState::Retained)
        };
        let find = |id: &str| resources.iter().filter(is_open).find(|other| other.id == id);
        let named = named.filter(|id| depends.is_empty() || depends.contains(id)).find_map(find);
        // Only a blocked resource waits for others; a pending one waits for itself, whatever it depends on.
        let is_blocked = entry.state == ResourceState::Blocked;
        named.or_else(|| depends.iter().filter(|_| is_blocked).copied().find_map(find))
    }

    /// Ends at a cluster that is not connected.
    pub(super) async fn cluster(
        &mut self,
        instance: &Json,
        entry: &ManagedResource,
        cluster: &ClusterStatus,
    ) -> Result<(), WhyError> {
        let since = super::super::since(cluster.since.as_deref(), self.now);
        let state =
            if since.is_empty() { "not connected".to_owned() } else { format!("not connected for {since}") };
        let secret = cluster.secret.as_deref().map(|secret| format!(" (Secret {secret})"));
        let secret = secret.filter(|_| cluster.secret.as_deref() != Some(&cluster.name)).unwrap_or_default();
        self.link(format!("cluster {}{secret}", cluster.name), state, Tone::Bad);
        if let Some(target) = &cluster.target
            && self.target_of(target).await?
        {
            return Ok(());
        }
        self.answer.next.extend(advice::command_in(&self.answer.why));
        if let Some(secret) = &cluster.secret {
            let reason = connection_reason(instance);
            self.answer.next.extend(advice::of_connection(reason, entry.reason, secret));
        }
        Ok(())
    }

    /// Ends at a cluster reference that leads to no cluster, such as one to a Secret that does not exist.
    async fn unresolved_cluster(&mut self, instance: &Json, entry: &ManagedResource) -> Result<(), WhyError> {
        let message = self.answer.why.clone();
        self.answer.next.extend(advice::command_in(&message));
        if let Some(secret) = entry.cluster.clone().or_else(|| advice::secret_in(&message)) {
            let secret = advice::secret_in(&format!("`{secret}`")).unwrap_or(secret);
            self.answer.next.extend(advice::of_connection(
                connection_reason(instance),
                entry.reason,
                &secret,
            ));
        }
        Ok(())
    }
}

/// What an entry says is the matter.
fn sentence(entry: &ManagedResource) -> String {
    let message = entry.message.clone().unwrap_or_default();
    match (message.is_empty(), entry.state) {
        (false, _) => message,
        (true, ResourceState::Applying) => "it is being applied".to_owned(),
        (true, ResourceState::Deleting) => "it is being deleted".to_owned(),
        (true, state) => format!("its state is {state}"),
    }
}

/// Whether an entry has no connection to its cluster.
fn is_lost(entry: &ManagedResource) -> bool {
    entry.operation == Some(Operation::Connect)
        || matches!(entry.reason, Some(FailureReason::Credentials | FailureReason::Unreachable))
}

/// The only cluster that is not connected, if it is clear which one it is.
fn lost_cluster(clusters: &[ClusterStatus]) -> Option<&ClusterStatus> {
    let mut lost = clusters.iter().filter(|cluster| !cluster.connected);
    lost.next().filter(|_| lost.next().is_none())
}

/// Which step of connecting failed, as the conditions of the instance say.
fn connection_reason(instance: &Json) -> Option<Reason> {
    let kinds = [ConditionType::ClusterResolved, ConditionType::RemoteClusterConnected];
    let failed = kinds.iter().find_map(|kind| {
        condition(instance, kind.as_str()).filter(|condition| condition["status"] == "False")
    });
    failed.and_then(|failed| Reason::parse(failed["reason"].as_str()?))
}

/// The resource that blocks an instance: a failed one first, as the message of `Ready` has it.
fn blocking(resources: &[ManagedResource]) -> Option<&ManagedResource> {
    let weight = |entry: &ManagedResource| match entry.state {
        ResourceState::Error => 7,
        ResourceState::Deleting => 6,
        ResourceState::Applying if entry.reason.is_some() => 5,
        ResourceState::Blocked => 4,
        ResourceState::Pending if entry.reason.is_some() => 3,
        ResourceState::Pending => 2,
        ResourceState::Applying => 1,
        ResourceState::Ready | ResourceState::Skipped | ResourceState::Retained => 0,
    };
    // The first of those with the highest weight, and an item of a collection before its summary, which names no object.
    let best = resources.iter().map(weight).max().filter(|weight| *weight > 0)?;
    let candidates = || resources.iter().filter(move |entry| weight(entry) == best);
    candidates().find(|entry| entry.name.is_some()).or_else(|| candidates().next())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failed_resource_blocks_more_than_one_that_waits() {
        let entries: Vec<ManagedResource> = serde_json::from_value(json!([
            {"id": "a", "state": "Ready"}, {"id": "b", "state": "Blocked"},
            {"id": "c", "state": "Error", "message": "3 of 4"}, {"id": "c", "state": "Error", "name": "x"},
        ]))
        .unwrap();
        assert_eq!(blocking(&entries).unwrap().name.as_deref(), Some("x"));
        assert_eq!(blocking(&entries[..1]), None);
        assert_eq!(blocking(&entries[..2]).unwrap().id, "b");
    }
}
