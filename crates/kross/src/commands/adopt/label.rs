//! Moves the label of objects to the apply set of their instance on this hub, unless they have changed hands since they were found.
//! The controller then applies them as its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{EventReason, annotations, labels, managers, whole_seconds};
use kross_cluster::{ApiError, ApiKind, ClusterClient, StoredObject};
use kross_value::Value;
use serde_json::{Value as Json, json};
use tokio::task::{JoinError, JoinSet};

use super::count;
use super::decision::{Decision, Finding, part_of};
use crate::hub::{Hub, text};

/// How many objects are changed at once.
const CONCURRENT: usize = 16;
/// How often a change is tried while others change the object too.
const ATTEMPTS: usize = 5;
/// The field manager of what commands write on the hub.
const FIELD_MANAGER: &str = "kross-cli";

/// Moves the labels of what is to be adopted. Returns the indices of those that were.
pub(super) async fn move_all(hub: &Hub, findings: &[Finding], problems: &mut Vec<String>) -> BTreeSet<usize> {
    let (mut running, mut adopted) = (JoinSet::new(), BTreeSet::new());
    let mut end = |ended: Result<(usize, Result<bool, ApiError>), JoinError>| match ended {
        Ok((at, Ok(true))) => drop(adopted.insert(at)),
        // Its line says that it failed.
        Ok((_, Ok(false))) => {}
        Ok((_, Err(error))) => problems.push(error.to_string()),
        Err(error) => problems.push(error.to_string()),
    };
    for (at, finding) in findings.iter().enumerate() {
        if !matches!(finding.decision, Decision::Adopt { .. }) {
            continue;
        }
        if running.len() >= CONCURRENT
            && let Some(ended) = running.join_next().await
        {
            end(ended);
        }
        let change = Change::of(finding);
        running.spawn(async move { (at, change.carry_out().await) });
    }
    while let Some(ended) = running.join_next().await {
        end(ended);
    }
    tell_instances(hub, findings, &adopted, problems).await;
    adopted
}

/// The change of one label.
struct Change {
    client: ClusterClient,
    kind: Arc<ApiKind>,
    namespace: Option<String>,
    name: String,
    uid: String,
    from: String,
    to: String,
}

impl Change {
    fn of(finding: &Finding) -> Self {
        let field = |path: &str| text(&finding.object, path).map(str::to_owned);
        Self {
            client: finding.client.clone(),
            kind: Arc::clone(&finding.kind),
            namespace: field("/metadata/namespace"),
            name: field("/metadata/name").unwrap_or_default(),
            uid: field("/metadata/uid").unwrap_or_default(),
            from: finding.from.clone(),
            to: finding.to.clone(),
        }
    }

    /// Changes the label as long as it is what it was, on the same object. Whether the object belongs to the instance now.
    async fn carry_out(&self) -> Result<bool, ApiError> {
        let Self { client, kind, namespace, name, uid, from, to } = self;
        let mut attempts = 1;
        loop {
            let object: StoredObject = client.get(kind, namespace.as_deref(), name).await?;
            let holder = part_of(object.value());
            if object.uid().as_str() != uid || holder != Some(from.as_str()) {
                // Found through two Secrets of one cluster, it was changed already; else somebody else has taken it meanwhile.
                return Ok(holder == Some(to.as_str()));
            }
            let patch = json!({"metadata": {"uid": uid, "resourceVersion": object.resource_version().as_str(),
                "labels": {labels::APPLYSET_PART_OF: to}}});
            let patch: Value = serde_json::from_value(patch).unwrap_or_default();
            let written =
                client.merge_patch(kind, namespace.as_deref(), name, None, managers::APPLYSET, &patch).await;
            match written {
                Ok(_) => return Ok(true),
                Err(error) if error.code() == Some(409) && attempts < ATTEMPTS => attempts += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Asks the controller to reconcile the instances now, and records an Event on each. That is a convenience: the controller notices
/// the labels by itself.
async fn tell_instances(
    hub: &Hub,
    findings: &[Finding],
    adopted: &BTreeSet<usize>,
    problems: &mut Vec<String>,
) {
    let mut by_instance: BTreeMap<(String, String, Option<String>, String), Vec<&Finding>> = BTreeMap::new();
    for finding in adopted.iter().filter_map(|at| findings.get(*at)) {
        let owner = &finding.owner;
        let key = (owner.api_version(), owner.kind.clone(), owner.namespace.clone(), owner.name.clone());
        by_instance.entry(key).or_default().push(finding);
    }
    for ((api_version, kind, namespace, name), findings) in by_instance {
        let Some(kind) = hub.kind_of(&api_version, &kind) else { continue };
        let namespace = hub.namespace_of(&kind, namespace.as_deref());
        let requested = json!({"metadata": {"annotations":
            {annotations::RECONCILE_REQUESTED: Timestamp::now().to_string()}}});
        let requested: Value = serde_json::from_value(requested).unwrap_or_default();
        match hub.client.merge_patch(&kind, namespace, &name, None, FIELD_MANAGER, &requested).await {
            Ok(instance) => record(hub, &instance, &findings).await,
            // An account that may change objects in a cluster need not be one that may change instances.
            Err(error) if error.code() == Some(403) => {}
            Err(error) => problems.push(error.to_string()),
        }
    }
}

/// Records an Event. Whether the caller may do that changes nothing.
async fn record(hub: &Hub, instance: &StoredObject, findings: &[&Finding]) {
    let clusters: BTreeSet<&str> = findings.iter().map(|finding| finding.cluster.as_str()).collect();
    let note = format!(
        "{} in {} of a former hub adopted by `kross adopt`",
        count(findings.len(), "object"),
        clusters.into_iter().collect::<Vec<_>>().join(", ")
    );
    let event = event(instance, &note, Timestamp::now());
    if let (Ok(kind), Ok(event)) = (hub.kind("events"), serde_json::from_value(event)) {
        let _ = hub.client.create(&kind, &event, FIELD_MANAGER).await;
    }
}

fn event(instance: &StoredObject, note: &str, now: Timestamp) -> Json {
    let namespace = instance.namespace().map_or("default", |namespace| namespace.as_str());
    let time = whole_seconds(now);
    json!({"apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{}.{:x}", instance.name(), now.as_nanosecond()), "namespace": namespace},
        "involvedObject": {"apiVersion": instance.api_version(), "kind": instance.kind(), "name": instance.name().as_str(),
            "namespace": instance.namespace().map(|namespace| namespace.as_str()), "uid": instance.uid().as_str()},
        "type": "Normal", "reason": EventReason::Adopted.as_str(), "action": "Adopt", "message": note, "count": 1,
        "firstTimestamp": time, "lastTimestamp": time, "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER, "reportingInstance": FIELD_MANAGER})
}
