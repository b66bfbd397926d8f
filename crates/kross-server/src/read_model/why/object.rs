//! Follows a resource to its object: what the object itself says in its cluster, its conditions, its finalizers, its Pods, or
//! who else it belongs to.

use kross_api::{ClusterStatus, FailureReason, ManagedResource, ResourceState};
use kross_cluster::{ApiError, ClusterClient};
use serde_json::Value as Json;

use super::super::Tone;
use super::super::{InstanceView, Owner, condition, read_object, text};
use super::advice;
use super::investigation::{Investigation, WhyError};

/// Kinds that own Pods.
const WORKLOADS: &[&str] = &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"];

impl Investigation<'_> {
    /// Ends at an object, or follows it if it is an instance itself.
    pub(super) async fn object(
        &mut self,
        instance: &Json,
        entry: &ManagedResource,
        cluster: Option<&ClusterStatus>,
    ) -> Result<(), WhyError> {
        let found = self.read(entry, cluster).await;
        if let Some(reason) = entry.reason {
            return self.failed_object(instance, entry, cluster, reason, found).await;
        }
        let Some(object) = found else {
            if entry.name.is_some() {
                let object = advice::argument(entry);
                self.answer.next.push(format!("{} describe {object}", advice::kubectl(cluster)));
            } else {
                self.answer.next.push(format!("kross tree {}", InstanceView(instance).argument()));
            }
            return Ok(());
        };
        if cluster.is_none() && self.is_instance(&object) {
            self.answer.why.clear();
            // It is in the chain already, as a resource.
            self.answer.chain.pop();
            return self.follow(object).await;
        }
        self.explain(entry, cluster, &object).await;
        Ok(())
    }

    /// Reads the object of an entry in its cluster; none if there is none or it cannot be read.
    pub(super) async fn read(
        &mut self,
        entry: &ManagedResource,
        cluster: Option<&ClusterStatus>,
    ) -> Option<Json> {
        let name = entry.name.as_deref()?;
        let client = self.client(entry, cluster).await?;
        let (version, kind) = (entry.api_version.as_deref()?, entry.kind.as_deref()?);
        let found = read_object(&client, version, kind, entry.namespace.as_deref(), name).await;
        self.noted(found).flatten()
    }

    /// The client of a cluster; none if the caller may not use it.
    async fn client(
        &mut self,
        entry: &ManagedResource,
        cluster: Option<&ClusterStatus>,
    ) -> Option<ClusterClient> {
        let Some(cluster) = cluster else {
            return entry.cluster.is_none().then(|| self.hub.client.clone());
        };
        match self.remotes.client(cluster).await {
            Ok(client) => Some(client),
            Err(error) => {
                self.note(error.to_string());
                None
            }
        }
    }

    /// What was read; notes why it could not be, unless it just does not exist.
    fn noted<T>(&mut self, found: Result<T, ApiError>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(error) => {
                if error.missing().is_none() {
                    self.note(error.to_string());
                }
                None
            }
        }
    }

    /// An object that could not be read or written.
    async fn failed_object(
        &mut self,
        instance: &Json,
        entry: &ManagedResource,
        cluster: Option<&ClusterStatus>,
        reason: FailureReason,
        found: Option<Json>,
    ) -> Result<(), WhyError> {
        let message = entry.message.as_deref().unwrap_or_default();
        self.answer.next.extend(advice::command_in(message));
        let view = InstanceView(instance);
        if reason == FailureReason::Conflict
            && message.contains("different ApplySet")
            && let Some(owner) = found.as_ref().and_then(Owner::of)
        {
            self.owned_by(instance, entry, owner).await;
            return Ok(());
        }
        if reason == FailureReason::NotFound && self.missing_namespace(entry, cluster).await {
            return Ok(());
        }
        let definition = self.served_by(instance).map(|definition| definition.name().to_owned());
        let commands = advice::of_failure(reason, entry, cluster, view, definition.as_deref());
        self.answer.next.extend(commands);
        Ok(())
    }

    /// An object that another instance owns, of this hub or of another one.
    async fn owned_by(&mut self, instance: &Json, entry: &ManagedResource, owner: Owner) {
        let view = InstanceView(instance);
        let namespace = owner.namespace.as_deref().map(|it| format!("{it}/")).unwrap_or_default();
        let title = format!("{} {namespace}{}", owner.kind, owner.name);
        let object = entry.kind.as_deref().unwrap_or_default();
        let name = entry.name.as_deref().unwrap_or_default();
        let is_this = owner.name == view.name()
            && owner.kind == view.kind()
            && owner.namespace.as_deref() == view.namespace();
        if is_this || !self.exists(&owner).await {
            self.link(format!("{title} of another hub"), "owns the object", Tone::Plain);
            self.answer.why = format!(
                "{object} `{name}` belongs to {} `{namespace}{}` of another hub; if that hub does not exist any more, take its objects over, \
                 else give the object another name in one of them",
                owner.kind, owner.name
            );
            self.answer.next.push(format!("kross adopt {} --from-hub UID --dry-run", view.argument()));
            return;
        }
        self.link(title, "owns the object", Tone::Plain);
        self.answer.why = format!(
            "{object} `{name}` belongs to {} `{namespace}{}`; two instances cannot manage one object: give it another \
             name in one of them, or delete one of them",
            owner.kind, owner.name
        );
        let namespace = owner.namespace.map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        self.answer.next.push(format!("kross tree {}/{}{namespace}", owner.kind.to_lowercase(), owner.name));
    }

    /// Whether an instance exists on this hub. One that may not be read exists.
    async fn exists(&self, owner: &Owner) -> bool {
        let Some(kind) = self.hub.kind_of(&owner.api_version(), &owner.kind) else { return false };
        let found = self.hub.get(&kind, owner.namespace.as_deref(), &owner.name).await;
        !matches!(found, Err(error) if error.is_object_not_found())
    }

    /// Whether the namespace of an object does not exist in its cluster.
    async fn missing_namespace(&mut self, entry: &ManagedResource, cluster: Option<&ClusterStatus>) -> bool {
        let Some(namespace) = entry.namespace.as_deref() else { return false };
        let Some(client) = self.client(entry, cluster).await else { return false };
        let found = read_object(&client, "v1", "Namespace", None, namespace).await;
        let is_missing = matches!(found, Ok(None));
        if is_missing {
            self.answer.next.push(format!("{} create namespace {namespace}", advice::kubectl(cluster)));
        }
        is_missing
    }

    /// What an object says about itself.
    pub(super) async fn explain(
        &mut self,
        entry: &ManagedResource,
        cluster: Option<&ClusterStatus>,
        object: &Json,
    ) {
        let (kubectl, argument) = (advice::kubectl(cluster), advice::argument(entry));
        if let Some(finalizers) = finalizers(object) {
            let title = InstanceView(object).title();
            let place = cluster.map(|it| format!(" in cluster `{}`", it.name)).unwrap_or_default();
            self.answer.why = format!(
                "{title}{place} is being deleted and waits for its finalizers: {finalizers}; the controllers that set \
                 them remove them"
            );
            self.answer.next.push(format!("{kubectl} get {argument} -o yaml"));
            return;
        }
        if let Some(said) = own_reason(object) {
            let before = std::mem::take(&mut self.answer.why);
            let kind = text(object, "/kind").unwrap_or("object");
            self.answer.why =
                if before.contains(&said) { before } else { format!("{before}; the {kind} says: {said}") };
        }
        if WORKLOADS.contains(&text(object, "/kind").unwrap_or_default())
            && let Some((pod, why)) = self.pod_of(entry, cluster, object).await
        {
            self.link(format!("Pod {pod}"), "not ready", Tone::Bad);
            self.answer.why = why;
            let namespace = entry.namespace.as_deref().unwrap_or_default();
            self.answer.next.push(format!("{kubectl} describe pod/{pod} -n {namespace}"));
            return;
        }
        let verb = if entry.state == ResourceState::Deleting { "get" } else { "describe" };
        self.answer.next.push(format!("{kubectl} {verb} {argument}"));
    }

    /// The first Pod of a workload that is not ready, and why.
    async fn pod_of(
        &mut self,
        entry: &ManagedResource,
        cluster: Option<&ClusterStatus>,
        workload: &Json,
    ) -> Option<(String, String)> {
        let labels = workload.pointer("/spec/selector/matchLabels")?.as_object()?;
        let selector: Vec<String> =
            labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
        let client = self.client(entry, cluster).await?;
        let pods = client.kind("", Some("v1"), "Pod").await.ok()?;
        let listed = client.list(&pods, entry.namespace.as_deref(), Some(&selector.join(","))).await.ok()?;
        listed.iter().find_map(|pod| {
            let why = pod_reason(&serde_json::to_value(pod.value()).ok()?)?;
            Some((pod.name().to_string(), why))
        })
    }
}

/// The finalizers that an object waits for, if it is being deleted.
fn finalizers(object: &Json) -> Option<String> {
    text(object, "/metadata/deletionTimestamp")?;
    let finalizers = object.pointer("/metadata/finalizers")?.as_array()?;
    let names: Vec<String> =
        finalizers.iter().filter_map(|name| Some(format!("`{}`", name.as_str()?))).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// What the conditions of an object say is wrong: a failure first, then what is not true.
fn own_reason(object: &Json) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let said = |condition: &Json| {
        condition["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned)
    };
    let is_failure = |condition: &&Json| {
        condition["status"] == "True"
            && condition["type"].as_str().is_some_and(|kind| kind.ends_with("Failure") || kind == "Failed")
    };
    let is_false = |condition: &&Json| condition["status"] == "False" && condition["type"] != "Ready";
    conditions
        .iter()
        .find(is_failure)
        .or_else(|| conditions.iter().find(is_false))
        .or_else(|| condition(object, "Ready").filter(|ready| ready["status"] == "False"))
        .and_then(said)
}

/// Why a Pod is not ready: a container that waits or was terminated, or its scheduling.
fn pod_reason(pod: &Json) -> Option<String> {
    if condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True") {
        return None;
    }
    let name = text(pod, "/metadata/name").unwrap_or_default();
    for list in ["/status/initContainerStatuses", "/status/containerStatuses"] {
        for container in pod.pointer(list).and_then(Json::as_array).into_iter().flatten() {
            for state in ["waiting", "terminated"] {
                let Some(state) = container["state"].get(state) else { continue };
                let reason = state["reason"].as_str().unwrap_or_default();
                if reason.is_empty()
                    || matches!(reason, "ContainerCreating" | "PodInitializing" | "Completed")
                {
                    continue;
                }
                let message =
                    state["message"].as_str().map(|message| format!(": {message}")).unwrap_or_default();
                let container = container["name"].as_str().unwrap_or_default();
                return Some(format!("container `{container}` of Pod `{name}`: {reason}{message}"));
            }
        }
    }
    let scheduled = condition(pod, "PodScheduled").filter(|scheduled| scheduled["status"] == "False")?;
    let message = scheduled["message"].as_str().unwrap_or("not scheduled yet");
    Some(format!("Pod `{name}` is not scheduled: {message}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_says_why_it_is_not_ready() {
        let pod = |status: Json| json!({"metadata": {"name": "web-1"}, "status": status});
        let waiting = pod(json!({"containerStatuses": [{"name": "app", "state":
            {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}));
        assert_eq!(
            pod_reason(&waiting).unwrap(),
            "container `app` of Pod `web-1`: ImagePullBackOff: no such image"
        );
        let unscheduled = pod(json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}));
        assert_eq!(
            pod_reason(&unscheduled).unwrap(),
            "Pod `web-1` is not scheduled: 0/3 nodes are available"
        );
        assert_eq!(pod_reason(&pod(json!({"conditions": [{"type": "Ready", "status": "True"}]}))), None);
    }

    #[test]
    fn an_object_says_what_failed_before_what_is_not_true() {
        let object = json!({"status": {"conditions": [
            {"type": "Available", "status": "False", "message": "too few replicas"},
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"},
        ]}});
        assert_eq!(own_reason(&object).as_deref(), Some("exceeded quota"));
    }
}
