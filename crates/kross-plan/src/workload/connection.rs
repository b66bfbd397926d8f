//! Copies of connection Secrets: whether a Secret may be copied, and what its copy for a target or a claim looks like.

use kross_api::{FINALIZER, KUBECONFIG_NAME_SUFFIX, Reason, annotations, connection_keys, labels};
use kross_value::{Object, Value};
use sha2::{Digest, Sha256};

use super::managed::{PropagationRefusal, SecretReference, allows_namespace, annotation};

/// What the name of a target's copy ends with.
const COPY_SUFFIX: &str = "-connection";
/// The longest name of a Secret.
const MAX_NAME: usize = 253;

/// The target or the claim that a copy is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOwner {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, which is that of the copy.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The name of the copy for a target. It depends on the name alone, so that it is the same after a restore.
#[must_use]
pub fn copy_name(target: &str) -> String {
    if target.len() + COPY_SUFFIX.len() <= MAX_NAME {
        return format!("{target}{COPY_SUFFIX}");
    }
    let hash: String = Sha256::digest(target).iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    let kept = target.get(..MAX_NAME - COPY_SUFFIX.len() - hash.len() - 1).unwrap_or_default();
    format!("{}-{hash}{COPY_SUFFIX}", kept.trim_end_matches(['-', '.']))
}

/// The connection Secret of a managed resource.
#[derive(Clone, Copy, Debug)]
pub struct SourceSecret<'a> {
    /// The Secret.
    pub value: &'a Value,
    /// The keys that the field manager of kross owns.
    pub owned_keys: &'a [&'a str],
}

/// Checks that a managed resource controls its connection Secret, and that both may be published into a namespace.
///
/// # Errors
/// The Secret must not be copied.
pub fn check_source(
    managed: &Value,
    source: SourceSecret<'_>,
    reference: &SecretReference,
    namespace: &str,
) -> Result<(), PropagationRefusal> {
    let refuse = |reason, message| Err(PropagationRefusal::new(reason, message));
    let secret = source.value;
    let kind = secret.get("type").and_then(Value::as_str).unwrap_or_default();
    if is_kubernetes_type(kind) {
        let message = format!(
            "connection Secret `{reference}` has type `{kind}`, which is not copied; use a Secret of type `Opaque`"
        );
        return refuse(Reason::SecretTypeRefused, message);
    }
    let keys = present_keys(secret);
    if !controls(managed, source, &keys) {
        let message = format!(
            "the managed resource does not control its connection Secret `{reference}`: the Secret needs a controller ownerReference to the managed resource"
        );
        return refuse(Reason::SecretNotControlled, message);
    }
    let objects = [("managed resource", managed), ("connection Secret of the managed resource", secret)];
    for (what, object) in objects {
        if !allows_namespace(annotation(object, annotations::ALLOWED_NAMESPACES), namespace) {
            let message = format!(
                "the {what} may not be published into namespace `{namespace}`; add it to its annotation `{}`",
                annotations::ALLOWED_NAMESPACES
            );
            return refuse(Reason::NamespaceNotAllowed, message);
        }
    }
    if !keys.contains(&connection_keys::KUBECONFIG) && !keys.contains(&connection_keys::ENDPOINT) {
        let message =
            format!("connection Secret `{reference}` has neither key `kubeconfig` nor key `endpoint`");
        return refuse(Reason::NoConnectionSecret, message);
    }
    Ok(())
}

/// Types of Kubernetes have other content, such as ServiceAccount tokens.
fn is_kubernetes_type(kind: &str) -> bool {
    let domain = kind.split_once('/').map(|(domain, _)| domain);
    domain.is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"))
}

fn present_keys(secret: &Value) -> Vec<&'static str> {
    let data = secret.get("data").and_then(Value::as_object);
    connection_keys::ALL.into_iter().filter(|key| data.is_some_and(|data| data.contains_key(key))).collect()
}

/// By a controller ownerReference or, if the managed resource is an instance of a graph, by its labels and field manager.
fn controls(managed: &Value, source: SourceSecret<'_>, keys: &[&str]) -> bool {
    let Some(uid) = managed.at(&["metadata", "uid"]).and_then(Value::as_str) else { return false };
    let instance =
        source.value.at(&["metadata", "labels"]).and_then(|labels| labels.get(labels::INSTANCE_ID));
    is_controlled_by(source.value, uid)
        || (instance.and_then(Value::as_str) == Some(uid)
            && !keys.is_empty()
            && keys.iter().all(|key| source.owned_keys.contains(key)))
}

/// Whether an object has a controller ownerReference to the object of this UID.
#[must_use]
pub fn is_controlled_by(object: &Value, uid: &str) -> bool {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
    owners.iter().any(|owner| {
        owner.get("controller").and_then(Value::as_bool) == Some(true)
            && owner.get("uid").and_then(Value::as_str) == Some(uid)
    })
}

/// What to do with the copy of a connection Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyPlan {
    /// The copy is as it should be.
    Current,
    /// The copy does not exist.
    Create(Value),
    /// The copy differs. The value replaces exactly this version of it.
    Replace(Value),
    /// The Secret must not be written.
    Refuse(PropagationRefusal),
}

/// Plans the copy of a connection Secret. `live` is the Secret that has the name of the copy now.
#[must_use]
pub fn plan_copy(
    owner: &CopyOwner,
    name: &str,
    source: &Value,
    reference: &SecretReference,
    live: Option<&Value>,
) -> CopyPlan {
    if name.ends_with(KUBECONFIG_NAME_SUFFIX) {
        return CopyPlan::Refuse(PropagationRefusal::new(
            Reason::SecretConflict,
            format!(
                "the copy of a connection Secret must not be named `*{KUBECONFIG_NAME_SUFFIX}`, since graphs could use it without a target; choose another name"
            ),
        ));
    }
    let Some(live) = live else {
        let base = Value::object([("apiVersion", "v1".into()), ("kind", "Secret".into())]);
        return CopyPlan::Create(with_content(&base, owner, name, source, reference));
    };
    if !is_controlled_by(live, &owner.uid) {
        return CopyPlan::Refuse(PropagationRefusal::new(
            Reason::SecretConflict,
            format!(
                "Secret `{}/{name}` exists and does not belong to this {}; it is not overwritten; delete or rename it",
                owner.namespace, owner.kind
            ),
        ));
    }
    let desired = with_content(live, owner, name, source, reference);
    if desired == *live { CopyPlan::Current } else { CopyPlan::Replace(desired) }
}

/// The copy on top of what is there: labels and annotations of others stay, other keys do not.
fn with_content(
    base: &Value,
    owner: &CopyOwner,
    name: &str,
    source: &Value,
    reference: &SecretReference,
) -> Value {
    let fields = |path: &[&str]| base.at(path).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut copy = fields(&[]);
    let mut metadata = fields(&["metadata"]);
    metadata.insert("name", name.into());
    metadata.insert("namespace", owner.namespace.as_str().into());
    let mut marks = fields(&["metadata", "labels"]);
    marks.insert(labels::CONNECTION_COPY, owner.uid.as_str().into());
    // With this label, graphs could use the copy without a target.
    marks.remove(labels::CLUSTER_CREDENTIALS);
    metadata.insert("labels", marks.into());
    let mut notes = fields(&["metadata", "annotations"]);
    notes.insert(annotations::COPY_OF, reference.to_string().into());
    metadata.insert("annotations", notes.into());
    if base.at(&["metadata", "ownerReferences"]).is_none() {
        metadata.insert("ownerReferences", Value::list([owner_reference(owner)]));
    }
    let finalizers = base.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    // A finalizer cannot be added to an object that is being deleted.
    let is_terminating = base.at(&["metadata", "deletionTimestamp"]).is_some();
    if !is_terminating && !finalizers.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER)) {
        metadata.insert("finalizers", Value::list(finalizers.iter().cloned().chain([FINALIZER.into()])));
    }
    copy.insert("metadata", metadata.into());
    let keys = connection_keys::ALL.into_iter();
    let data: Object = keys.filter_map(|key| Some((key, source.at(&["data", key])?.clone()))).collect();
    copy.insert("data", data.into());
    copy.into()
}

fn owner_reference(owner: &CopyOwner) -> Value {
    Value::object([
        ("apiVersion", owner.api_version.as_str().into()),
        ("kind", owner.kind.as_str().into()),
        ("name", owner.name.as_str().into()),
        ("uid", owner.uid.as_str().into()),
        ("controller", Value::Bool(true)),
    ])
}

#[cfg(test)]
mod tests;
