//! Plans the KubernetesApplicationResources of an application, and sums up their states in its status.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kross_api::{
    ApplicationState, ApplicationTemplate, Condition, ConditionSet, ConditionType, KubernetesApplicationSpec,
    KubernetesApplicationStatus, Reason, WORKLOAD_GROUP, annotations,
};
use kross_value::{Object, Value};

use super::schedule::quoted;
use crate::desired::hash;
use crate::instance::Instance;

const RESOURCE_KIND: &str = "KubernetesApplicationResource";
/// The finalizer that an API server adds for `kubectl delete --cascade=orphan`. The garbage collector removes it once it has
/// removed the owner references of the dependents.
const ORPHAN: &str = "orphan";
/// Keys of a resource that are the controller's own. A template does not set them: they are where its inventory is kept.
const RESERVED_LABELS: [&str; 3] = ["kro.run/", "internal.kro.run/", "applyset.kubernetes.io/"];
const RESERVED_ANNOTATIONS: [&str; 4] =
    ["internal.kro.run/", "applyset.kubernetes.io/", "kro.run/state", "kro.run/message"];

/// What to do with the resources of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourcePlan {
    /// Resources to apply. One that exists has its UID.
    pub apply: Vec<Value>,
    /// Resources to delete.
    pub delete: Vec<ResourceDeletion>,
    /// Names of templates whose resource exists and belongs to somebody else.
    pub taken: Vec<String>,
    /// Names that more than one template has.
    pub repeated: Vec<String>,
    /// Names of templates whose previous resource is still being deleted.
    pub terminating: Vec<String>,
    /// Names of templates whose resource cannot be read.
    pub unreadable: Vec<String>,
}

/// A resource to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDeletion {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// An annotation to set on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAnnotation {
    /// Name of the resource.
    pub name: String,
    /// UID of the resource.
    pub uid: String,
    /// Key of the annotation.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// Plans the resources of an application that is scheduled to a target. `existing` are those that it controls, and those that
/// have the name of one of its templates.
#[must_use]
pub fn plan_resources(
    application: &Value,
    spec: &KubernetesApplicationSpec,
    target: &str,
    existing: &[&Value],
) -> ResourcePlan {
    let mut plan = ResourcePlan::default();
    let mut names = BTreeSet::new();
    for template in &*spec.resource_templates {
        let name = template.metadata.name.as_str();
        if !names.insert(name) {
            plan.repeated.push(name.to_owned());
            continue;
        }
        let desired = desired(application, template, target);
        match existing.iter().find(|resource| text(resource, "name") == name) {
            Some(resource) if !controls(application, resource) => plan.taken.push(name.to_owned()),
            Some(resource) if is_terminating(resource) => plan.terminating.push(name.to_owned()),
            // An outline: what is in it is not known, so it is not changed.
            Some(resource) if resource.get("spec").is_none() => plan.unreadable.push(name.to_owned()),
            Some(resource) if is_applied(resource, &desired) => {}
            Some(resource) => plan.apply.push(with_uid(&desired, text(resource, "uid"))),
            None => plan.apply.push(desired),
        }
    }
    let leftover = existing.iter().filter(|resource| !names.contains(text(resource, "name")));
    plan.delete = deletions(application, leftover.copied());
    plan
}

/// The resources that an application controls and that are not being deleted yet.
pub(super) fn deletions<'a>(
    application: &Value,
    resources: impl Iterator<Item = &'a Value>,
) -> Vec<ResourceDeletion> {
    let deletions = resources.filter(|resource| controls(application, resource) && !is_terminating(resource));
    deletions
        .map(|resource| ResourceDeletion {
            name: text(resource, "name").to_owned(),
            uid: text(resource, "uid").to_owned(),
        })
        .collect()
}

/// Whether an application controls a resource: it is its controller by UID.
#[must_use]
pub fn controls(application: &Value, resource: &Value) -> bool {
    let owners = resource.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
    let uid = text(application, "uid");
    let is_controller = |owner: &Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let has_uid = |owner: &Value| owner.get("uid").and_then(Value::as_str) == Some(uid);
    !uid.is_empty() && owners.iter().any(|owner| is_controller(owner) && has_uid(owner))
}

/// The state of a resource, if it is about the current spec.
#[must_use]
pub fn resource_state(resource: &Value) -> Option<ApplicationState> {
    let instance = Instance::of(resource);
    let generation = Some(instance.facts().generation);
    let conditions = instance.conditions();
    let is_current = |condition: &Condition| condition.observed_generation == generation;
    let state = resource.at(&["status", "state"]).and_then(Value::as_str).and_then(ApplicationState::parse);
    state.filter(|_| !conditions.is_empty() && conditions.iter().all(is_current))
}

/// The resource of a template.
fn desired(application: &Value, template: &ApplicationTemplate, target: &str) -> Value {
    let owner = Value::object([
        ("apiVersion", Value::from(format!("{WORKLOAD_GROUP}/v1alpha2"))),
        ("kind", Value::from("KubernetesApplication")),
        ("name", Value::from(text(application, "name"))),
        ("uid", Value::from(text(application, "uid"))),
        ("controller", Value::from(true)),
        ("blockOwnerDeletion", Value::from(true)),
    ]);
    let entries = |map: &Option<BTreeMap<String, String>>, reserved: &[&str]| -> Object {
        let is_free = |key: &str| !reserved.iter().any(|prefix| key.starts_with(prefix));
        let entries = map.iter().flatten().filter(|(key, _)| is_free(key));
        entries.map(|(key, value)| (key.as_str(), Value::from(value.as_str()))).collect()
    };
    let mut metadata = Object::new();
    metadata.insert("name", Value::from(template.metadata.name.as_str()));
    metadata.insert("namespace", Value::from(text(application, "namespace")));
    metadata.insert("ownerReferences", Value::list([owner]));
    let labels = entries(&template.metadata.labels, &RESERVED_LABELS);
    if !labels.is_empty() {
        metadata.insert("labels", labels.into());
    }
    let mut spec = Object::new();
    spec.insert("template", template.spec.template.clone());
    spec.insert("targetRef", Value::object([("name", Value::from(target))]));
    if !template.spec.secrets.is_empty() {
        let name =
            |secret: &kross_api::LocalReference| Value::object([("name", Value::from(secret.name.as_str()))]);
        spec.insert("secrets", Value::list(template.spec.secrets.iter().map(name)));
    }
    let mut own_annotations = entries(&template.metadata.annotations, &RESERVED_ANNOTATIONS);
    if let Some(clusters) = given_up_clusters(application) {
        own_annotations.insert(annotations::ABANDON_CLUSTER, Value::from(clusters));
    }
    metadata.insert("annotations", own_annotations.clone().into());
    let mut object = Object::new();
    object.insert("apiVersion", Value::from(format!("{WORKLOAD_GROUP}/v1alpha1")));
    object.insert("kind", Value::from(RESOURCE_KIND));
    object.insert("metadata", metadata.clone().into());
    object.insert("spec", spec.into());
    own_annotations.insert(annotations::DESIRED_HASH, Value::from(hash(&object)));
    metadata.insert("annotations", own_annotations.into());
    object.insert("metadata", metadata.into());
    Value::Object(object)
}

/// With the UID it is not applied to another resource of the same name.
fn with_uid(desired: &Value, uid: &str) -> Value {
    let mut object = desired.as_object().cloned().unwrap_or_default();
    let mut metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.insert("uid", Value::from(uid));
    object.insert("metadata", metadata.into());
    object.into()
}

/// Whether a resource is as desired: it was applied as such, and nobody has changed its spec or its labels since.
fn is_applied(resource: &Value, desired: &Value) -> bool {
    let same = |map: &str| {
        let wanted = desired.at(&["metadata", map]).and_then(Value::as_object);
        let mut entries = wanted.into_iter().flat_map(Object::iter);
        entries.all(|(key, value)| {
            resource.at(&["metadata", map]).and_then(|found| found.get(key.as_str())) == Some(value)
        })
    };
    same("labels") && same("annotations") && resource.get("spec") == desired.get("spec")
}

/// The clusters that an application gives up: its resources do. Whoever may edit the application may not edit them.
fn given_up_clusters(object: &Value) -> Option<&str> {
    object.at(&["metadata", "annotations"])?.get(annotations::ABANDON_CLUSTER)?.as_str()
}

fn is_terminating(resource: &Value) -> bool {
    resource.at(&["metadata", "deletionTimestamp"]).is_some()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.at(&["metadata", field]).and_then(Value::as_str).unwrap_or_default()
}

/// What the status of an application is made of.
pub struct ApplicationReport<'a> {
    /// The application.
    pub application: &'a Value,
    /// Its spec.
    pub spec: &'a KubernetesApplicationSpec,
    /// The target that it is scheduled to.
    pub target: Option<&'a str>,
    /// Why there is no target, or why it cannot be used.
    pub problem: Option<&'a (Reason, String)>,
    /// The plan of its resources.
    pub plan: &'a ResourcePlan,
    /// The resources that it controls, as they are now.
    pub resources: &'a [&'a Value],
    /// A request that failed.
    pub error: Option<&'a str>,
    /// Now.
    pub now: Timestamp,
}

impl ApplicationReport<'_> {
    /// The status of a living application.
    #[must_use]
    pub fn status(&self) -> KubernetesApplicationStatus {
        let counts = self.counts();
        let (state, reason, message) = self.state(&counts);
        let mut set = self.conditions();
        let (kind, now) = (ConditionType::Synced, self.now);
        match state {
            ApplicationState::Submitted if self.error.is_none() && reason == Reason::Submitted => {
                set.set_true(kind, reason, message, now)
            }
            _ => set.set_false(kind, reason, message, now),
        };
        KubernetesApplicationStatus {
            state: Some(state.as_str().to_owned()),
            desired_resources: i64::try_from(counts.desired).ok(),
            submitted_resources: i64::try_from(counts.submitted).ok(),
            conditions: set.into_list(),
        }
    }

    /// The resources to delete of an application that is being deleted; none if they are to be orphaned.
    #[must_use]
    pub fn deletions(&self) -> Vec<ResourceDeletion> {
        if self.is_orphaning() {
            return Vec::new();
        }
        deletions(self.application, self.resources.iter().copied())
    }

    /// The annotations that the resources of an application that is being deleted do not have yet: the clusters that it gives up.
    #[must_use]
    pub fn given_up(&self) -> Vec<ResourceAnnotation> {
        let Some(clusters) = given_up_clusters(self.application).filter(|_| !self.is_orphaning()) else {
            return Vec::new();
        };
        let others = self.resources.iter().filter(|resource| given_up_clusters(resource) != Some(clusters));
        others
            .map(|resource| ResourceAnnotation {
                name: text(resource, "name").to_owned(),
                uid: text(resource, "uid").to_owned(),
                key: annotations::ABANDON_CLUSTER,
                value: clusters.to_owned(),
            })
            .collect()
    }

    /// Whether whoever deletes the application wants its resources to stay.
    fn is_orphaning(&self) -> bool {
        let finalizers = self.application.at(&["metadata", "finalizers"]).and_then(Value::as_list);
        finalizers.unwrap_or_default().iter().any(|finalizer| finalizer.as_str() == Some(ORPHAN))
    }

    /// The status of an application that is being deleted and waits for its resources.
    #[must_use]
    pub fn deletion_status(&self) -> KubernetesApplicationStatus {
        let names: Vec<&str> = self.resources.iter().map(|resource| text(resource, "name")).collect();
        let cause = self.resources.iter().find_map(|resource| ready_message(resource));
        let (waits_for, cause) = match self.is_orphaning() {
            true => ("orphaned by the garbage collector", None),
            false => ("deleted", cause),
        };
        let mut message = format!(
            "waiting for {} KubernetesApplicationResources to be {waits_for}: {}",
            names.len(),
            quoted(&names)
        );
        if let Some(error) = self.error {
            message = format!("{message}: {error}");
        } else if let Some(cause) = cause {
            message = format!("{message}: {cause}");
        }
        let mut set = self.conditions();
        set.set_false(ConditionType::Synced, Reason::Deleting, message, self.now);
        KubernetesApplicationStatus {
            state: Some(ApplicationState::Deleting.as_str().to_owned()),
            desired_resources: Some(0),
            submitted_resources: i64::try_from(names.len()).ok(),
            conditions: set.into_list(),
        }
    }

    fn conditions(&self) -> ConditionSet {
        let instance = Instance::of(self.application);
        let kinds = ConditionType::APPLICATION.iter().copied();
        ConditionSet::new(kinds, instance.facts(), &instance.conditions(), self.now)
    }

    fn counts(&self) -> Counts<'_> {
        let mut counts = Counts { desired: self.spec.resource_templates.len(), ..Counts::default() };
        let mut names = BTreeSet::new();
        for template in &*self.spec.resource_templates {
            let name = template.metadata.name.as_str();
            let is_own = |resource: &&&Value| text(resource, "name") == name;
            let resource = self.resources.iter().find(is_own).filter(|_| names.insert(name));
            match resource.and_then(|resource| resource_state(resource)) {
                Some(ApplicationState::Submitted) => counts.submitted += 1,
                Some(ApplicationState::Failed) => counts.failed.push(resource.copied()),
                Some(ApplicationState::Pending) => counts.pending += 1,
                _ => {}
            }
        }
        let refused = self.plan.taken.len() + self.plan.repeated.len() + self.plan.unreadable.len();
        counts.failed.extend(std::iter::repeat_n(None, refused));
        counts
    }

    fn state(&self, counts: &Counts<'_>) -> (ApplicationState, Reason, String) {
        let Some(target) = self.target else {
            let (reason, message) = self.problem.cloned().unwrap_or((Reason::NoTarget, String::new()));
            return (ApplicationState::Pending, reason, message);
        };
        let Counts { desired, submitted, pending, failed } = counts;
        let state = if submitted == desired {
            ApplicationState::Submitted
        } else if failed.len() == *desired {
            ApplicationState::Failed
        } else if *submitted > 0 {
            ApplicationState::PartiallySubmitted
        } else if self.problem.is_some() && pending + failed.len() == *desired {
            ApplicationState::Pending
        } else {
            ApplicationState::Scheduled
        };
        let mut done =
            format!("{submitted} of {desired} resources are applied in KubernetesTarget `{target}`");
        // A failure does not delete what was applied before.
        let kept = failed.iter().flatten().filter(|resource| has_objects(resource)).count();
        if kept > 0 {
            done.push_str(&format!("; {kept} keep what was applied before"));
        }
        if let Some(error) = self.error {
            return (state, Reason::RequestFailed, format!("{done}; {error}"));
        }
        // First the reason that a target can end: an application is woken by it.
        match (self.problem, self.refusal()) {
            (Some((reason, problem)), None) => return (state, *reason, format!("{done}; {problem}")),
            (Some((reason, problem)), Some((_, refusal))) => {
                return (state, *reason, format!("{done}; {problem}; {refusal}"));
            }
            (None, Some((reason, refusal))) => return (state, reason, format!("{done}; {refusal}")),
            (None, None) => {}
        }
        let reason = match state {
            ApplicationState::Submitted => Reason::Submitted,
            ApplicationState::Failed => Reason::Failed,
            ApplicationState::PartiallySubmitted => Reason::PartiallySubmitted,
            _ => Reason::Scheduled,
        };
        let cause = failed.iter().flatten().find_map(|resource| {
            Some(format!("{RESOURCE_KIND} `{}`: {}", text(resource, "name"), ready_message(resource)?))
        });
        let message = cause.map_or_else(|| done.clone(), |cause| format!("{done}; {cause}"));
        (state, reason, message)
    }

    /// Why templates have no resource, or one that is not changed.
    fn refusal(&self) -> Option<(Reason, String)> {
        if let Some(name) = self.plan.taken.first() {
            let message = format!(
                "{RESOURCE_KIND} `{name}` exists and this application does not control it; delete it, or rename the \
                 template"
            );
            return Some((Reason::NameTaken, message));
        }
        if let Some(name) = self.plan.repeated.first() {
            let message = format!("more than one template has the name `{name}`; rename one of them");
            return Some((Reason::NameTaken, message));
        }
        let name = self.plan.unreadable.first()?;
        let message =
            format!("{RESOURCE_KIND} `{name}` cannot be read; nest its fields less deeply or delete it");
        Some((Reason::Failed, message))
    }
}

/// The resources of an application by their states.
#[derive(Default)]
struct Counts<'a> {
    desired: usize,
    submitted: usize,
    pending: usize,
    /// Those that failed; none for a template without a resource.
    failed: Vec<Option<&'a Value>>,
}

/// Whether a resource has objects in the cluster of its target, as far as its status tells.
fn has_objects(resource: &Value) -> bool {
    let entries = resource.at(&["status", "managedResources"]).and_then(Value::as_list).unwrap_or_default();
    entries.iter().any(|entry| entry.get("uid").is_some())
}

/// Why a resource is not ready.
fn ready_message(resource: &Value) -> Option<String> {
    let conditions = Instance::of(resource).conditions();
    let ready = conditions.into_iter().find(|one| one.type_ == ConditionType::Ready.as_str())?;
    ready.message.filter(|message| !message.is_empty())
}

#[cfg(test)]
mod tests;
