//! One object: rendered, given its identity and its labels, and compared with what is there.

use kross_api::{AdoptPolicy, FailureReason, ManagedResource, ObjectKey, Operation, ResourceState};
use kross_graph::{Node, Scope, Template};
use kross_value::{Object, Text, Value};

use super::place::Site;
use super::{Visit, Walk, not_rendered, value_of};
use crate::desired::Marks;
use crate::lifecycle::Answers;
use crate::observed::{Failure, ObservedObject};
use crate::plan::PlannedObject;
use crate::progress::{Progress, Trouble};

impl<'a> Walk<'a> {
    pub(super) fn single(
        &mut self,
        node: &'a Node,
        template: &Template,
        scope: &Scope<'_>,
    ) -> Result<Visit, Progress> {
        let site = self.site(node, scope)?;
        let answers = self.answers(node, scope);
        let mut object = self.object(node, template, &site, scope, (None, &answers))?;
        let found = self.input.observed.objects.get(&object.key);
        if object.progress.is_ready()
            && let Some(found) = found
        {
            object.progress = self.object_readiness(node, found, scope);
        }
        let progress = object.progress.clone();
        Ok(Visit { progress, objects: vec![object], value: value_of(node, found) })
    }

    /// The object that a template gives in these variables. Ready means as desired; whether it says that it is ready is
    /// another question.
    pub(super) fn object(
        &self,
        node: &Node,
        template: &Template,
        site: &Site,
        scope: &Scope<'_>,
        (item, answers): (Option<(usize, usize)>, &Answers),
    ) -> Result<PlannedObject, Progress> {
        let rendered = template.render(scope).map_err(|error| not_rendered(&error))?;
        let Some(Value::Object(object)) = rendered else {
            return Err(unusable("the template did not come out as an object"));
        };
        let (metadata, namespace, name) = self.identity(node, &object, site)?;
        let key = ObjectKey {
            cluster: site.cluster.clone(),
            group: node.kind.group.clone(),
            kind: node.kind.kind.clone(),
            namespace,
            name,
        };
        let marks = Marks { node, cluster: &site.cluster, item, answers };
        let (desired, hash) = self.ownership.desired(object, metadata, &marks);
        let found = self.input.observed.objects.get(&key);
        let differs = found.is_none_or(|found| {
            found.drifted || found.desired_hash() != Some(&hash) || found.part_of().is_none()
        });
        let progress = self.assess(node, &key, found, site, differs);
        Ok(PlannedObject {
            api_version: node.kind.api_version().into(),
            desired: Some(desired),
            hash,
            uid: found.map(|found| found.uid().into()),
            generation: found.and_then(ObservedObject::generation),
            progress,
            differs,
            exclusive: node.lifecycle.adopt == AdoptPolicy::Never,
            key,
        })
    }

    /// Metadata with name and namespace settled.
    fn identity(
        &self,
        node: &Node,
        object: &Object,
        site: &Site,
    ) -> Result<(Object, Option<Text>, Text), Progress> {
        let mut metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        let text = |field: &str| match metadata.get(field) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Null) | None => None,
            Some(other) => Some(other.to_string().into()),
        };
        let name = text("name").filter(|name| !name.is_empty());
        let Some(name) = name else {
            return Err(unusable("`metadata.name` came out empty"));
        };
        if !self.is_namespaced(node, site)? {
            metadata.remove("namespace");
            return Ok((metadata, None, name));
        }
        let given = text("namespace");
        let namespace = match given {
            Some(given) if given.is_empty() => {
                return Err(unusable(&format!("`metadata.namespace` of `{name}` came out empty")));
            }
            Some(given) => given,
            None => match self.input.instance.namespace() {
                Some(namespace) => namespace.into(),
                None => {
                    let message = format!(
                        "`metadata.namespace` of `{name}` is missing, and the instance has none to give"
                    );
                    return Err(unusable(&message));
                }
            },
        };
        metadata.insert("namespace", Value::from(namespace.clone()));
        Ok((metadata, Some(namespace), name))
    }

    pub(super) fn is_namespaced(&self, node: &Node, site: &Site) -> Result<bool, Progress> {
        if let Some(known) = &node.kind.known {
            return Ok(known.namespaced);
        }
        let kind = (site.cluster.clone(), node.kind.group.clone(), node.kind.kind.clone());
        if let Some(namespaced) = self.input.observed.scopes.get(&kind) {
            return Ok(*namespaced);
        }
        if self.input.settings.assume_namespaced {
            return Ok(true);
        }
        Err(site.closed.clone().unwrap_or_else(|| {
            let place = self.display(&site.cluster).unwrap_or("the local cluster").to_owned();
            Progress::Unresolved(
                format!("the kind `{}` is not known in `{place}` yet", node.kind.kind).into(),
            )
        }))
    }

    fn assess(
        &self,
        node: &Node,
        key: &ObjectKey,
        found: Option<&ObservedObject>,
        site: &Site,
        differs: bool,
    ) -> Progress {
        if let Some(closed) = &site.closed {
            return closed.clone();
        }
        let failure = self.input.observed.failures.get(key);
        if let Some(found) = found {
            if found.terminating() {
                return Progress::Deleting(deleting(node, key, found));
            }
            if let Some(other) =
                found.part_of().filter(|other| self.ownership.applyset(&key.cluster) != *other)
            {
                let message = format!(
                    "resource belongs to a different ApplySet: {} is part of `{other}`",
                    self.describe(key)
                );
                return Progress::Failed(Trouble::conflict(message));
            }
        }
        if let Some(found) = found
            && node.lifecycle.adopt == AdoptPolicy::Never
            && found.part_of().is_none()
            && !self.was_ours(node, found)
        {
            let message = format!(
                "{} exists already and belongs to nobody; delete it, or set `lifecycle.adopt: Always` to take it over",
                self.describe(key)
            );
            return Progress::Failed(Trouble::conflict(message));
        }
        match failure {
            Some(failure) if differs || is_blind(failure) => Progress::Failed(self.trouble(key, failure)),
            _ if differs => Progress::Applying,
            _ => Progress::Ready,
        }
    }

    /// Whether an object without our labels was ours before somebody removed them.
    fn was_ours(&self, node: &Node, found: &ObservedObject) -> bool {
        let ours = |entry: &ManagedResource| {
            entry.id == node.id.as_str()
                && entry.uid.as_deref() == Some(found.uid())
                && entry.state != ResourceState::Error
        };
        self.input.previous.iter().any(ours)
    }

    /// What status says of a failed operation: what was tried on what, where, and the error in its own words.
    pub(crate) fn trouble(&self, key: &ObjectKey, failure: &Failure) -> Trouble {
        let Failure { operation, reason, message, since, .. } = failure;
        Trouble {
            operation: Some(*operation),
            reason: *reason,
            message: format!("cannot {operation} {}: {message}", self.describe(key)).into(),
            error: message.clone(),
            since: Some(*since),
        }
    }

    /// `Deployment shop/web in cluster eu`.
    pub(crate) fn describe(&self, key: &ObjectKey) -> String {
        let object = format!("{} {}", key.kind, key.namespaced_name());
        match self.display(&key.cluster) {
            Some(cluster) => format!("{object} in cluster `{cluster}`"),
            None => object,
        }
    }
}

/// Whether what is known of the object may be out of date.
fn is_blind(failure: &Failure) -> bool {
    matches!(failure.operation, Operation::Get | Operation::Watch)
        || failure.reason == FailureReason::Unreachable
}

pub(super) fn unusable(message: &str) -> Progress {
    Progress::Failed(Trouble::expression(message))
}

fn deleting(node: &Node, key: &ObjectKey, found: &ObservedObject) -> Text {
    let finalizers = found.finalizers();
    let waiting = if finalizers.is_empty() {
        "it is created again once it is gone".to_owned()
    } else {
        format!(
            "it is created again once it is gone, which waits for its finalizers: {}",
            finalizers.join(", ")
        )
    };
    format!(
        "resource \"{}\" for node \"{}\" is currently being deleted; {waiting}",
        key.namespaced_name(),
        node.id
    )
    .into()
}
