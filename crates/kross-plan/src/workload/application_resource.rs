//! The graph of a KubernetesApplicationResource, made from its spec, and its status, made from that of an instance.

use std::fmt::Write as _;

use jiff::Timestamp;
use kross_api::{
    ApplicationState, ConditionSet, ConditionType, InstanceState, Reason, ResourceGraphDefinitionSpec,
    ResourceState, WORKLOAD_GROUP, labels,
};
use kross_value::{Object, Value};
use serde_json::{Value as Json, json};

use crate::instance::Instance;

/// The id of the template in the graph.
const OBJECT: &str = "template";
/// The ids of Secrets in the hub and of their copies begin with these; a number follows.
const SECRET: &str = "secret";
const COPY: &str = "copy";
/// How deep `status.remote` may be nested. API servers and clients refuse what is deeper than about twice that.
const MAX_REMOTE_DEPTH: usize = 64;

/// Tells which Secrets of the namespace targets and claims name as their connection Secrets.
pub type SecretMarks<'a> = &'a dyn Fn(&str) -> bool;

/// The definition that a resource is reconciled by as an instance: its template as a literal, and a copy of each of its
/// Secrets that is no credential of a cluster.
///
/// # Errors
/// The resource has no target, or its spec cannot be read.
pub fn resource_definition(
    resource: &Value,
    is_marked: SecretMarks<'_>,
) -> Result<ResourceGraphDefinitionSpec, String> {
    let Some(target) = target(resource) else {
        return Err(
            "`spec.targetRef` is not set: the resource is not scheduled to a KubernetesTarget".to_owned()
        );
    };
    let template = resource.at(&["spec", "template"]).cloned().unwrap_or_default();
    let namespace = template.at(&["metadata", "namespace"]).cloned();
    let target = json!({"kubernetesTarget": {"name": literal(target)}});
    let lifecycle = json!({"adopt": "Never"});
    let mut resources = vec![json!({
        "id": OBJECT, "template": Json::from(&escaped(&template)), "target": target, "lifecycle": lifecycle,
    })];
    let own_name = resource.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
    for (at, name) in secrets(resource).enumerate() {
        let (source, copy) = (format!("{SECRET}{at}"), format!("{COPY}{at}"));
        let mut metadata = json!({"name": literal(&format!("{own_name}-{name}"))});
        if let (Some(namespace), Some(metadata)) = (&namespace, metadata.as_object_mut()) {
            metadata.insert("namespace".to_owned(), Json::from(&escaped(namespace)));
        }
        let is_credential = is_marked(name) || name.ends_with("-kubeconfig");
        let include = if is_credential { "${false}".to_owned() } else { no_credential(&source) };
        resources.push(json!({
            "id": source,
            "externalRef": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": literal(name)}},
        }));
        resources.push(json!({
            "id": copy,
            "includeWhen": [include],
            "template": {"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
                "type": format!("${{{source}.type}}"),
                "data": format!("${{has({source}.data) ? {source}.data : {{}}}}")},
            "target": target, "lifecycle": lifecycle,
        }));
    }
    let schema = json!({
        "group": WORKLOAD_GROUP, "apiVersion": "v1alpha1", "kind": "KubernetesApplicationResource",
        "status": {"remote": format!("${{dyn({OBJECT}).status}}")},
    });
    let spec = json!({"schema": schema, "resources": resources});
    serde_json::from_value(spec).map_err(|error| format!("the spec cannot be read: {error}"))
}

/// An expression that is false for a Secret with a credential of a cluster. Its content counts beside its marks: a Secret may be
/// written before the target that will name it.
fn no_credential(source: &str) -> String {
    let marks = [labels::CLUSTER_CREDENTIALS, labels::CONNECTION_COPY]
        .map(|label| format!("\"{label}\" in {source}.metadata.labels"))
        .join(" || ");
    let token = "kubernetes.io/service-account-token";
    let has = |key: &str| format!("\"{key}\" in {source}.data");
    // An endpoint alone may be that of a database.
    let with_endpoint = ["clusterCA", "clientKey", "token"].map(has).join(" || ");
    let content = format!("{} || ({} && ({with_endpoint}))", has("kubeconfig"), has("endpoint"));
    format!(
        "${{{source}.type != \"{token}\" && !(has({source}.metadata.labels) && ({marks})) \
         && !(has({source}.data) && ({content}))}}"
    )
}

/// The Secrets that a resource names.
fn secrets(resource: &Value) -> impl Iterator<Item = &str> {
    let secrets = resource.at(&["spec", "secrets"]).and_then(Value::as_list).unwrap_or_default();
    secrets.iter().filter_map(|secret| secret.get("name").and_then(Value::as_str))
}

fn target(resource: &Value) -> Option<&str> {
    resource.at(&["spec", "targetRef", "name"]).and_then(Value::as_str)
}

/// A value in which nothing is evaluated: each string with `${` becomes an expression that returns it.
fn escaped(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().map(escaped)),
        Value::Object(entries) => Value::Object(
            entries.iter().map(|(key, value)| (key.clone(), escaped(value))).collect::<Object>(),
        ),
        other => match other.as_str() {
            Some(text) if text.contains("${") => Value::from(literal(text)),
            _ => other.clone(),
        },
    }
}

/// A string in which nothing is evaluated.
fn literal(text: &str) -> String {
    if !text.contains("${") {
        return text.to_owned();
    }
    let mut expression = "${\"".to_owned();
    for character in text.chars() {
        match character {
            '"' => expression.push_str("\\\""),
            '\\' => expression.push_str("\\\\"),
            // Writing to a string cannot fail.
            '$' | '{' | '}' | '\u{0}'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(expression, "\\u{:04x}", u32::from(character));
            }
            other => expression.push(other),
        }
    }
    expression.push_str("\"}");
    expression
}

/// The status of a resource, from that of an instance of its graph. A status that was converted stays as it is.
#[must_use]
pub fn resource_status(resource: &Value, status: Value, now: Timestamp) -> Value {
    let Value::Object(mut status) = status else { return status };
    // The object's own status is foreign input. Nested too deep, it would make the resource unreadable.
    if status.get("remote").is_some_and(|remote| is_deeper_than(remote, MAX_REMOTE_DEPTH)) {
        status.remove("remote");
    }
    let word = status.get("state").and_then(Value::as_str).and_then(InstanceState::parse);
    let Some(state) = word else { return Value::Object(status) };
    let refused = refused_secret(resource, &status);
    let state = match (state, refused) {
        (InstanceState::Deleting, _) => ApplicationState::Deleting,
        (_, Some(secret)) => {
            let message = format!(
                "Secret `{secret}` is never copied to another cluster: its name, its labels, its keys, a KubernetesTarget \
                 or a KubernetesCluster marks it as a credential; remove it from `spec.secrets`"
            );
            refuse(resource, &mut status, message, now);
            ApplicationState::Failed
        }
        (state, None) => resource_state(resource, &status, state),
    };
    status.insert("state", Value::from(state.as_str()));
    Value::Object(status)
}

fn resource_state(resource: &Value, status: &Object, state: InstanceState) -> ApplicationState {
    if target(resource).is_none() {
        return ApplicationState::Pending;
    }
    let list = |field: &str| status.get(field).and_then(Value::as_list).unwrap_or_default();
    let is_connected = |cluster: &Value| cluster.get("connected").and_then(Value::as_bool) != Some(false);
    let has_objects = list("managedResources").iter().any(|entry| entry.get("uid").is_some());
    let is_resolved = list("conditions").iter().all(|condition| {
        let text = |field| condition.get(field).and_then(Value::as_str);
        text("type") != Some(ConditionType::ClusterResolved.as_str()) || text("status") == Some("True")
    });
    let is_usable = is_resolved && list("clusters").iter().all(is_connected);
    match state {
        InstanceState::Active => ApplicationState::Submitted,
        _ if !is_usable && !has_objects => ApplicationState::Pending,
        _ if !is_usable => ApplicationState::Failed,
        InstanceState::Error | InstanceState::Failed => ApplicationState::Failed,
        _ => ApplicationState::Scheduled,
    }
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    match value {
        Value::List(items) => items.iter().any(|item| is_deeper_than(item, levels)),
        Value::Object(entries) => entries.iter().any(|(_, entry)| is_deeper_than(entry, levels)),
        _ => false,
    }
}

/// The first Secret whose copy is left out since it is a credential.
fn refused_secret<'a>(resource: &'a Value, status: &Object) -> Option<&'a str> {
    let entries = status.get("managedResources").and_then(Value::as_list).unwrap_or_default();
    let skipped = |id: &str| {
        entries.iter().any(|entry| {
            entry.get("id").and_then(Value::as_str) == Some(id)
                && entry.get("state").and_then(Value::as_str) == Some(ResourceState::Skipped.as_str())
        })
    };
    secrets(resource).enumerate().find(|(at, _)| skipped(&format!("{COPY}{at}"))).map(|(_, name)| name)
}

fn refuse(resource: &Value, status: &mut Object, message: String, now: Timestamp) {
    let conditions = status.get("conditions").map(Json::from).unwrap_or_default();
    let conditions: Vec<kross_api::Condition> = serde_json::from_value(conditions).unwrap_or_default();
    let kinds = ConditionType::INSTANCE.iter().chain(ConditionType::INSTANCE_CLUSTERS).copied();
    let mut set = ConditionSet::new(kinds, Instance::of(resource).facts(), &conditions, now);
    // The time of the transition is that of the status before, if the condition was False there already.
    let before = Instance::of(resource).conditions();
    let before = before.iter().find(|one| one.type_ == ConditionType::ResourcesReady.as_str());
    let since = before.filter(|before| before.status == kross_api::ConditionStatus::False);
    let since = since.and_then(|before| before.last_transition_time).unwrap_or(now);
    set.set_false(ConditionType::ResourcesReady, Reason::SecretRefused, message, since);
    let written = serde_json::to_value(set.conditions()).map(Value::from).unwrap_or_default();
    status.insert("conditions", written);
}

#[cfg(test)]
mod tests;
