//! Finds the target that a reference leads to: whether the instance may use it, which connection Secret it names, and whether it
//! is ready. A selector chooses among the ready targets of a namespace; the inventory keeps the choice.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{
    Authority, ClusterInventory, ConditionType, ConnectStep, ConnectionAdvice, ConnectionFailure,
    FailureReason, KUBECONFIG_KEY, LabelSelector, ResolvedCluster, ResolvedCredentials, SecretAddress,
    annotations,
};
use kross_cluster::{Cache, Lookup, SecretName, StoredObject};
use kross_plan::ReferenceKey;
use kross_value::{Text, Value};

use super::cluster_inventory::GivenUp;
use crate::context::Context;
use crate::selector;
use crate::workload::WorkloadKind;

/// In the list of allowed namespaces: instances without one.
const EVERYWHERE: &str = "*";

/// A target, or the targets of a namespace, whose changes concern an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TargetKey {
    pub(crate) namespace: Text,
    /// None for all targets of the namespace.
    pub(crate) name: Option<Text>,
}

impl TargetKey {
    /// What a reference depends on; none for one that names a Secret.
    pub(super) fn of(credentials: &ResolvedCredentials) -> Option<Self> {
        match credentials {
            ResolvedCredentials::Secret(_) => None,
            ResolvedCredentials::Target { namespace, name } => {
                Some(Self { namespace: namespace.as_str().into(), name: Some(name.as_str().into()) })
            }
            ResolvedCredentials::TargetSelector { namespace, .. } => {
                Some(Self { namespace: namespace.as_str().into(), name: None })
            }
        }
    }
}

/// A target that an instance may use.
pub(super) struct FoundTarget {
    object: Arc<StoredObject>,
    /// Its connection Secret.
    pub(super) secret: SecretAddress,
}

/// What leads to a cluster: a Secret, and the target that names it.
pub(super) struct Source {
    pub(super) secret: SecretAddress,
    pub(super) target: Option<FoundTarget>,
}

impl Source {
    /// The connection Secret, where a target leads to the cluster.
    pub(super) fn behind_target(&self) -> Option<SecretAddress> {
        self.target.as_ref().map(|target| target.secret.clone())
    }

    /// Why the target is not ready, if so.
    pub(super) fn not_ready(&self) -> Option<ConnectionFailure> {
        self.target.as_ref().and_then(FoundTarget::not_ready)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Some(target) => write!(f, "KubernetesTarget `{}` (Secret `{}`)", target.display(), self.secret),
            None => write!(f, "Secret `{}`", self.secret),
        }
    }
}

/// Why a reference does not lead to a Secret.
pub(super) enum Unresolved {
    /// The targets are not listed yet.
    Unknown,
    /// There is no target that can be used.
    Failed(ConnectionFailure),
    /// The selector chose this target: the plan then has the reference to it.
    Chosen(Text),
}

/// What is known of a target.
enum TargetLookup {
    /// The targets are not listed yet.
    Unknown,
    /// It cannot be used.
    Unusable(ConnectionFailure),
    /// It names a connection Secret.
    Found(FoundTarget),
}

/// The target that a selector chooses.
enum TargetChoice {
    /// The targets are not listed yet.
    Unknown,
    /// None can be chosen.
    None(ConnectionFailure),
    /// The target of this name.
    Chosen(Text),
}

/// Who may use the targets of a namespace.
enum Permission {
    /// The namespace is that of the instance, or the definition fixes it.
    Granted,
    /// The target itself has to allow it.
    ByTarget,
    /// It is the namespace of others.
    Refused,
}

/// Finds targets for one instance.
pub(super) struct Targets<'a> {
    pub(super) context: &'a Context,
    pub(super) instance: &'a StoredObject,
    pub(super) recorded: &'a ClusterInventory,
}

impl Targets<'_> {
    /// The Secret that a reference leads to.
    pub(super) fn source(&self, reference: &ResolvedCluster) -> Result<Source, Unresolved> {
        let authority = reference.authority;
        match &reference.credentials {
            ResolvedCredentials::Secret(secret) => Ok(Source { secret: secret.clone(), target: None }),
            ResolvedCredentials::Target { namespace, name } => match self.find(namespace, name, authority) {
                TargetLookup::Unknown => Err(Unresolved::Unknown),
                TargetLookup::Unusable(failure) => Err(Unresolved::Failed(failure)),
                TargetLookup::Found(target) => {
                    Ok(Source { secret: target.secret.clone(), target: Some(target) })
                }
            },
            ResolvedCredentials::TargetSelector { namespace, selector } => {
                Err(match self.choose(namespace, selector, authority) {
                    TargetChoice::Unknown => Unresolved::Unknown,
                    TargetChoice::None(failure) => Unresolved::Failed(failure),
                    TargetChoice::Chosen(name) => Unresolved::Chosen(name),
                })
            }
        }
    }

    /// Finds a target by its name.
    fn find(&self, namespace: &str, name: &str, authority: Authority) -> TargetLookup {
        let cache = match self.cache() {
            Ok(cache) => cache,
            Err(failure) => return TargetLookup::Unusable(failure),
        };
        let permission = self.permission(namespace, authority);
        if matches!(permission, Permission::Refused) {
            return TargetLookup::Unusable(self.refused(namespace, name, &permission));
        }
        let object = match cache.get(Some(namespace), name) {
            Lookup::Unknown => {
                let outline = cache.unreadable(Some(namespace), name);
                return outline.map_or(TargetLookup::Unknown, |it| TargetLookup::Unusable(unreadable(&it)));
            }
            Lookup::Absent => return TargetLookup::Unusable(self.refused(namespace, name, &permission)),
            Lookup::Found(object) => object,
        };
        if !self.is_allowed(&object, &permission) {
            return TargetLookup::Unusable(self.refused(namespace, name, &permission));
        }
        let secret = object.value().at(&["spec", "connectionSecretRef", "name"]).and_then(Value::as_str);
        match secret {
            Some(secret) => {
                let (namespace, name) = (namespace.to_owned(), secret.to_owned());
                let secret = SecretAddress { namespace, name, key: KUBECONFIG_KEY.to_owned() };
                TargetLookup::Found(FoundTarget { object, secret })
            }
            None => TargetLookup::Unusable(without_secret(&object)),
        }
    }

    /// Chooses a target by a selector: the one that was chosen before, or a ready one. Those in which the instance has objects come
    /// first, then the least loaded, then the order of names decides.
    fn choose(&self, namespace: &str, selector: &LabelSelector, authority: Authority) -> TargetChoice {
        let cache = match self.cache() {
            Ok(cache) => cache,
            Err(failure) => return TargetChoice::None(failure),
        };
        let permission = self.permission(namespace, authority);
        if !cache.is_authoritative() {
            return TargetChoice::Unknown;
        }
        // One that cannot be read exists, and is not ready.
        let targets = cache.known();
        let in_namespace = |target: &&Arc<StoredObject>| {
            target.namespace().is_some_and(|own| **own == *namespace) && self.is_allowed(target, &permission)
        };
        let targets: Vec<&Arc<StoredObject>> = targets.iter().filter(in_namespace).collect();
        if let Some(kept) = self.kept_choice(namespace, selector, &targets) {
            return TargetChoice::Chosen(kept);
        }
        let matching: Vec<_> =
            targets.into_iter().filter(|target| selector.matches(|key| target.label(key))).collect();
        let order = |target: &&&Arc<StoredObject>| {
            let name = target.name();
            (!self.has_objects(namespace, name), self.load(namespace, name), name.clone())
        };
        match matching.iter().filter(|target| is_ready(target)).min_by_key(order) {
            Some(chosen) => TargetChoice::Chosen(chosen.name().clone()),
            None => TargetChoice::None(self.nothing_to_choose(namespace, selector, &matching)),
        }
    }

    /// The recorded choice of a selector. It is kept unless the target is gone and nothing is left to clean up there.
    fn kept_choice(
        &self,
        namespace: &str,
        selector: &LabelSelector,
        targets: &[&Arc<StoredObject>],
    ) -> Option<Text> {
        let credentials = ResolvedCredentials::TargetSelector {
            namespace: namespace.to_owned(),
            selector: selector.clone(),
        };
        let recorded = self.recorded.by_reference(ReferenceKey::of_credentials(&credentials).as_str())?;
        let exists = targets.iter().any(|target| **target.name() == *recorded.name);
        let is_given_up = GivenUp::of(self.instance).contains(&recorded.uid);
        let has_objects = self.has_objects(namespace, &recorded.name) && !is_given_up;
        (exists || has_objects).then(|| recorded.name.as_str().into())
    }

    /// Whether the instance has objects in the cluster of a target.
    fn has_objects(&self, namespace: &str, name: &str) -> bool {
        let credentials =
            ResolvedCredentials::Target { namespace: namespace.to_owned(), name: name.to_owned() };
        let recorded = self.recorded.by_reference(ReferenceKey::of_credentials(&credentials).as_str());
        recorded.is_some_and(|recorded| !recorded.contents.group_kinds.is_empty())
    }

    /// How many resources of applications a target has.
    fn load(&self, namespace: &str, name: &str) -> usize {
        let resources = self.context.workload.cache(WorkloadKind::ApplicationResource);
        let is_there = |resource: &Arc<StoredObject>| {
            let target = resource.value().at(&["spec", "targetRef", "name"]).and_then(Value::as_str);
            target == Some(name) && resource.namespace().is_some_and(|own| **own == *namespace)
        };
        resources.map_or(0, |resources| resources.known().iter().filter(|it| is_there(it)).count())
    }

    fn cache(&self) -> Result<Cache, ConnectionFailure> {
        self.context.workload.cache(WorkloadKind::Target).ok_or_else(|| {
            let cause = "there are no KubernetesTargets: their CRDs are not installed; install them with `kross crds | \
                         kubectl apply --server-side -f -`";
            failure(ConnectStep::Target, cause.to_owned(), Timestamp::now())
        })
    }

    fn permission(&self, namespace: &str, authority: Authority) -> Permission {
        match self.instance.namespace() {
            Some(own) if **own == *namespace => Permission::Granted,
            Some(_) => Permission::Refused,
            None if authority == Authority::Granted => Permission::Granted,
            None => Permission::ByTarget,
        }
    }

    /// Whether the instance may use a target. An annotation that is present always counts for an instance without namespace.
    fn is_allowed(&self, target: &StoredObject, permission: &Permission) -> bool {
        if self.instance.namespace().is_some() {
            return matches!(permission, Permission::Granted);
        }
        match target.annotation(annotations::ALLOWED_NAMESPACES) {
            Some(allowed) => allowed.split(',').any(|entry| entry.trim() == EVERYWHERE),
            None => matches!(permission, Permission::Granted),
        }
    }

    /// A target that does not exist, and one that the instance may not use, look the same.
    fn refused(&self, namespace: &str, name: &str, permission: &Permission) -> ConnectionFailure {
        let cause = match (permission, self.instance.namespace()) {
            (Permission::Refused, Some(own)) => format!(
                "KubernetesTarget `{namespace}/{name}` cannot be used: an instance in namespace `{own}` can use only the \
                 targets of that namespace; publish the cluster there"
            ),
            (_, Some(_)) => format!(
                "KubernetesTarget `{namespace}/{name}` does not exist; publish the cluster under this name, or refer to \
                 another target"
            ),
            (_, None) => format!(
                "KubernetesTarget `{namespace}/{name}` cannot be used: it must exist and, unless the definition names its \
                 namespace literally, have `*` in the annotation `{}`",
                annotations::ALLOWED_NAMESPACES
            ),
        };
        failure(ConnectStep::Target, cause, Timestamp::now())
    }

    fn nothing_to_choose(
        &self,
        namespace: &str,
        selector: &LabelSelector,
        matching: &[&Arc<StoredObject>],
    ) -> ConnectionFailure {
        let selector = match &*selector::text(selector) {
            "" => "every target".to_owned(),
            text => format!("targets with `{text}`"),
        };
        let wanted = format!("the selector matches {selector} of namespace `{namespace}`");
        let cause = match matching.first() {
            None => format!("{wanted}, and there is none; publish a cluster there, or change the selector"),
            Some(first) => {
                let names: Vec<String> =
                    matching.iter().take(5).map(|target| format!("`{}`", target.name())).collect();
                let why = why_not_ready(first);
                format!("{wanted}, and none is ready: {}; `{}`: {why}", names.join(", "), first.name())
            }
        };
        let step = if matching.is_empty() { ConnectStep::Target } else { ConnectStep::TargetReady };
        failure(step, cause, Timestamp::now())
    }
}

impl FoundTarget {
    /// `namespace/name`.
    pub(super) fn display(&self) -> String {
        display(&self.object)
    }

    /// The address of its connection Secret without key.
    pub(super) fn secret_name(&self) -> SecretName {
        SecretName::from(&self.secret)
    }

    /// The clusters that its owner confirmed for all who use it.
    pub(super) fn confirmed(&self) -> &str {
        self.object.annotation(annotations::CONFIRM_CLUSTER).unwrap_or_default()
    }

    /// The beginning of the command that annotates it.
    pub(super) fn annotate_command(&self) -> String {
        let namespace = self.object.namespace().map(|namespace| &**namespace).unwrap_or_default();
        format!("kubectl annotate kubernetestarget {} -n {namespace}", self.object.name())
    }

    /// Why it is not ready, if it is not.
    pub(super) fn not_ready(&self) -> Option<ConnectionFailure> {
        if is_ready(&self.object) {
            return None;
        }
        let ready = condition(&self.object, ConditionType::Ready);
        let cause =
            format!("KubernetesTarget `{}` is not ready: {}", self.display(), why_not_ready(&self.object));
        Some(failure(ConnectStep::TargetReady, cause, time_of(&self.object, ready)))
    }

    /// Why it serves deletions only, if so: it is being deleted, or its cluster is no longer offered.
    pub(super) fn deletions_only(&self) -> Option<ConnectionFailure> {
        let serves =
            "serves deletions only: nothing is applied; refer to another target, or delete the instance";
        if let Some(since) = self.object.deletion_timestamp() {
            let cause = format!("KubernetesTarget `{}` is being deleted and {serves}", self.display());
            let since = since.parse().unwrap_or(Timestamp::UNIX_EPOCH);
            return Some(failure(ConnectStep::TargetReady, cause, since));
        }
        let propagated = condition(&self.object, ConditionType::ConnectionSecretPropagated)?;
        if text(propagated, "status") != Some("False") || is_ready(&self.object) {
            return None;
        }
        let why = why_not_ready(&self.object);
        let cause = format!("KubernetesTarget `{}` is not ready ({why}) and {serves}", self.display());
        Some(failure(ConnectStep::TargetReady, cause, time_of(&self.object, Some(propagated))))
    }
}

/// Whether two versions of a target differ in something that its users have to know.
pub(crate) fn concerns_users(before: &StoredObject, after: &StoredObject) -> bool {
    let facts = |target: &StoredObject| {
        let annotation = |key| target.annotation(key).map(str::to_owned);
        let confirmed = annotation(annotations::CONFIRM_CLUSTER);
        let allowed = annotation(annotations::ALLOWED_NAMESPACES);
        let conditions = target.value().at(&["status", "conditions"]).cloned();
        let spec = target.value().get("spec").cloned();
        let terminating = target.deletion_timestamp().is_some();
        (spec, conditions, target.labels().clone(), terminating, confirmed, allowed, target.uid().clone())
    };
    facts(before) != facts(after)
}

fn display(target: &StoredObject) -> String {
    let namespace = target.namespace().map(|namespace| &**namespace).unwrap_or_default();
    format!("{namespace}/{}", target.name())
}

fn is_ready(target: &StoredObject) -> bool {
    let ready = condition(target, ConditionType::Ready).and_then(|ready| text(ready, "status"));
    target.deletion_timestamp().is_none() && ready == Some("True")
}

fn condition(target: &StoredObject, kind: ConditionType) -> Option<&Value> {
    let conditions = target.value().at(&["status", "conditions"])?.as_list()?;
    conditions.iter().find(|condition| text(condition, "type") == Some(kind.as_str()))
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// Reason and message of its conditions, and where to find more.
fn why_not_ready(target: &StoredObject) -> String {
    if target.deletion_timestamp().is_some() {
        return "it is being deleted".to_owned();
    }
    let Some(ready) = condition(target, ConditionType::Ready) else {
        return "it was not checked yet".to_owned();
    };
    let (reason, message) =
        (text(ready, "reason").unwrap_or_default(), text(ready, "message").unwrap_or_default());
    let namespace = target.namespace().map(|namespace| &**namespace).unwrap_or_default();
    let name = target.name();
    format!("{reason}: {message}; see `kubectl describe kubernetestarget {name} -n {namespace}`")
}

/// A target whose fields are not known. It exists, so whoever has objects there waits for it.
fn unreadable(outline: &StoredObject) -> ConnectionFailure {
    let error = outline.unreadable().map(ToString::to_string).unwrap_or_default();
    let cause = format!(
        "KubernetesTarget `{}` cannot be read: {error}; nest its fields less deeply",
        display(outline)
    );
    failure(ConnectStep::TargetReady, cause, Timestamp::now())
}

fn without_secret(target: &StoredObject) -> ConnectionFailure {
    let cause =
        format!("KubernetesTarget `{}` has no connection Secret: {}", display(target), why_not_ready(target));
    let ready = condition(target, ConditionType::Ready);
    failure(ConnectStep::TargetReady, cause, time_of(target, ready))
}

/// When a condition last changed, or when the target was created.
fn time_of(target: &StoredObject, condition: Option<&Value>) -> Timestamp {
    let changed = condition.and_then(|condition| text(condition, "lastTransitionTime"));
    let created = || target.value().at(&["metadata", "creationTimestamp"]).and_then(Value::as_str);
    changed.or_else(created).and_then(|time| time.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn failure(step: ConnectStep, cause: String, since: Timestamp) -> ConnectionFailure {
    ConnectionFailure::new(step, FailureReason::Credentials, cause, ConnectionAdvice::None, since)
}
