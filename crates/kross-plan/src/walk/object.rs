//! One object: rendered, given its identity and its labels, and compared with what is there.

use kross_api::{AdoptPolicy, ManagedResource, ObjectKey, Operation, ResourceState};
use kross_graph::{Node, Scope, Template};
use kross_value::{Object, Text, Value};

use super::place::{Site, describe};
use super::{Visit, Walk, not_rendered, value_of};
use crate::desired::Marks;
use crate::lifecycle::Answers;
use crate::observed::{ObservedObject, OperationFailure};
use crate::plan::PlannedObject;
use crate::progress::{Progress, ResourceFailure};

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
        self.access_paths.add(&object.key, site.access_path.as_ref());
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
        let (metadata, namespace, name, obstacle) = self.identity(node, &object, site)?;
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
        let progress = obstacle.unwrap_or_else(|| self.assess(node, &key, found, site, differs));
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

    /// Metadata with name and namespace settled, and why nothing can be done with it yet.
    fn identity(
        &self,
        node: &Node,
        object: &Object,
        site: &Site,
    ) -> Result<(Object, Option<Text>, Text, Option<Progress>), Progress> {
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
        let (namespaced, obstacle) = self.scope_of(node, site);
        if !namespaced {
            metadata.remove("namespace");
            return Ok((metadata, None, name, obstacle));
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
        Ok((metadata, Some(namespace), name, obstacle))
    }

    /// Whether a node's objects live in namespaces. Where nobody knows yet: the likely answer, and why nothing can be done.
    pub(super) fn scope_of(&self, node: &Node, site: &Site) -> (bool, Option<Progress>) {
        if let Some(known) = &node.kind.known {
            return (known.namespaced, None);
        }
        let observed = self.input.observed;
        let (group, kind) = (&node.kind.group, &node.kind.kind);
        let key = (site.cluster.clone(), group.clone(), kind.clone());
        if let Some(namespaced) = observed.scopes.get(&key) {
            return (*namespaced, None);
        }
        if self.input.settings.assume_namespaced {
            return (true, None);
        }
        // Other clusters will mean the same by it; and nothing is done on the strength of it.
        let elsewhere = observed.scopes.iter().find(|((_, other, name), _)| other == group && name == kind);
        let likely =
            elsewhere.map_or(self.input.instance.namespace().is_some(), |(_, namespaced)| *namespaced);
        if let Some(closed) = &site.closed {
            return (likely, Some(closed.clone()));
        }
        self.unscoped.borrow_mut().push((key.clone(), node.kind.version.clone()));
        let place = site.display().unwrap_or("the local cluster");
        let obstacle = match observed.unlisted.get(&key) {
            Some(Some(failure)) => Progress::Failed(failure.reported(format!(
                "cannot find the kind `{kind}` in cluster `{place}`: {}",
                failure.message
            ))),
            _ => Progress::Unresolved(format!("the kind `{kind}` is not known in `{place}` yet").into()),
        };
        (likely, Some(obstacle))
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
        if let (None, Some(obstacle)) = (found, self.blindness(key, site)) {
            return obstacle;
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
                    site.describe(key)
                );
                return Progress::Failed(ResourceFailure::conflict(message));
            }
        }
        if let Some(found) = found
            && node.lifecycle.adopt == AdoptPolicy::Never
            && found.part_of().is_none()
            && !self.was_ours(node, found)
        {
            let message = format!(
                "{} exists already and belongs to nobody; delete it, or set `lifecycle.adopt: Always` to take it over",
                site.describe(key)
            );
            return Progress::Failed(ResourceFailure::conflict(message));
        }
        match failure {
            Some(failure) if differs || is_unlisted(failure) => {
                Progress::Failed(resource_failure(key, site, failure))
            }
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

    /// Why it cannot be told whether an object is there, if so.
    fn blindness(&self, key: &ObjectKey, site: &Site) -> Option<Progress> {
        let kind = (key.cluster.clone(), key.group.clone(), key.kind.clone());
        let place = site.display().unwrap_or("the local cluster");
        Some(match self.input.observed.unlisted.get(&kind)? {
            Some(failure) => Progress::Failed(resource_failure(key, site, failure)),
            None => Progress::Unresolved(
                format!("objects of kind `{}` in cluster `{place}` are being read", key.kind).into(),
            ),
        })
    }

    /// `Deployment shop/web in cluster eu`.
    pub(crate) fn describe(&self, key: &ObjectKey) -> String {
        describe(key, self.display_of(key))
    }
}

/// What status says of a failed operation: what was tried on what, where, and the error in its own words.
pub(super) fn resource_failure(key: &ObjectKey, site: &Site, failure: &OperationFailure) -> ResourceFailure {
    let OperationFailure { operation, message, .. } = failure;
    failure.reported(format!("cannot {operation} {}: {message}", site.describe(key)))
}

/// Whether what is known of the object may be out of date.
fn is_unlisted(failure: &OperationFailure) -> bool {
    matches!(failure.operation, Operation::Get | Operation::Watch)
}

pub(super) fn unusable(message: &str) -> Progress {
    Progress::Failed(ResourceFailure::expression(message))
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
