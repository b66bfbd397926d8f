//! Follows a deletion that hangs: to the object that is not deleted yet, to its finalizers, or to a cluster that is not
//! connected.

use kross_api::{FINALIZER, ManagedResource, ResourceState, annotations};
use serde_json::Value as Json;

use super::super::Tone;
use super::super::{InstanceView, condition, text};
use super::advice;
use super::investigation::{Investigation, WhyError};

/// What an object says that is deleted after others.
const DEPENDENTS: &str = "waiting for dependents to be deleted";

impl Investigation<'_> {
    /// Follows the deletion of an instance.
    pub(super) async fn deletion(&mut self, instance: &Json) -> Result<(), WhyError> {
        let view = InstanceView(instance);
        let finalizers = instance.pointer("/metadata/finalizers").and_then(Json::as_array);
        let others: Vec<&str> = finalizers.into_iter().flatten().filter_map(Json::as_str).collect();
        if !others.contains(&FINALIZER) {
            let names: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
            self.answer.why = format!(
                "kross has deleted its objects; it waits for finalizers of other controllers: {}",
                names.join(", ")
            );
            self.answer.next.push(format!("kubectl get {} -o yaml", view.argument()));
            return Ok(());
        }
        let resources = view.resources();
        let clusters = view.clusters();
        let Some(entry) = blocking(&resources) else {
            let message = condition(instance, "ResourcesReady").and_then(|ready| ready["message"].as_str());
            self.answer.why = message.unwrap_or("no controller has begun to delete its objects").to_owned();
            self.answer.next.extend(advice::command_in(&self.answer.why));
            if self.answer.next.is_empty() {
                self.answer.next.push(format!("kross tree {} --watch", view.argument()));
            }
            return Ok(());
        };
        self.resource_link(entry);
        self.answer.why = entry.message.clone().unwrap_or_else(|| "it is being deleted".to_owned());
        let cluster =
            entry.cluster.as_deref().and_then(|name| clusters.iter().find(|known| known.name == name));
        if let Some(cluster) = cluster.filter(|cluster| !cluster.connected) {
            self.cluster(instance, entry, cluster).await?;
            let uid = cluster.uid.as_deref().unwrap_or("*");
            self.answer.next.push(format!(
                "kubectl annotate {} {}='{uid}'  # gives up what is left in that cluster",
                view.argument(),
                annotations::ABANDON_CLUSTER
            ));
            return Ok(());
        }
        match self.read(entry, cluster).await {
            Some(object) if cluster.is_none() && self.is_instance(&object) => {
                self.answer.why.clear();
                self.answer.chain.pop();
                self.follow(object).await?;
            }
            Some(object) => self.explain(entry, cluster, &object).await,
            None => {
                let command = format!("{} get {}", advice::kubectl(cluster), advice::argument(entry));
                self.answer.next.push(command);
            }
        }
        Ok(())
    }

    /// Follows the deletion of a definition, a target or a claim.
    pub(super) fn deletion_of(&mut self, object: &Json) -> bool {
        if text(object, "/metadata/deletionTimestamp").is_none() {
            return false;
        }
        let view = InstanceView(object);
        let failed = super::super::failed_condition(object).and_then(|failed| failed["message"].as_str());
        if let Some(message) = failed.filter(|message| !message.is_empty()) {
            self.answer.why = message.to_owned();
            self.answer.next.extend(advice::command_in(message));
        } else {
            let finalizers = object.pointer("/metadata/finalizers").and_then(Json::as_array);
            let names: Vec<String> = finalizers
                .into_iter()
                .flatten()
                .filter_map(|name| Some(format!("`{}`", name.as_str()?)))
                .collect();
            self.answer.why =
                format!("it is being deleted and waits for its finalizers: {}", names.join(", "));
        }
        self.answer.next.push(format!("kubectl describe {}", view.argument()));
        if let Some(last) = self.answer.chain.last_mut() {
            last.tone = Tone::Busy;
        }
        true
    }
}

/// The object that a deletion waits for: one that failed or whose cluster is not connected, then one that waits for itself.
fn blocking(resources: &[ManagedResource]) -> Option<&ManagedResource> {
    let weight = |entry: &ManagedResource| {
        let message = entry.message.as_deref().unwrap_or_default();
        match entry.state {
            _ if entry.reason.is_some() => 4,
            ResourceState::Error => 4,
            ResourceState::Deleting | ResourceState::Blocked
                if !message.is_empty() && message != DEPENDENTS =>
            {
                3
            }
            ResourceState::Deleting => 2,
            ResourceState::Blocked | ResourceState::Pending | ResourceState::Applying => 1,
            ResourceState::Retained | ResourceState::Ready | ResourceState::Skipped => 0,
        }
    };
    let best = resources.iter().map(weight).max().filter(|weight| *weight > 0)?;
    resources.iter().find(|entry| weight(entry) == best)
}
