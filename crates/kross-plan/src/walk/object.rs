//! One object: rendered, labelled and compared with the observed one.

use kross_api::{AdoptPolicy, ManagedResource, ObjectKey, Operation, ResourceState};
use kross_graph::{Node, Scope, Template};
use kross_value::{Object, Text, Value};

use super::placement::{ResolvedPlacement, describe};
use super::{Visit, Walk, not_rendered, value_of};
use crate::desired::{Desired, ObjectMarks};
use crate::lifecycle::{self, EvaluatedLifecycle};
use crate::observed::{ObservedObject, OperationFailure, Withheld};
use crate::plan::PlannedObject;
use crate::progress::{Progress, ResourceFailure};

impl<'a> Walk<'a> {
    pub(super) fn single(
        &mut self,
        node: &'a Node,
        template: &Template,
        scope: &Scope<'_>,
    ) -> Result<Visit, Progress> {
        let placement = self.place(node, scope)?;
        let lifecycle = self.lifecycle(node, scope);
        let mut object = self.object(node, template, &placement, scope, (None, &lifecycle))?;
        self.access_paths.add(&object.key, placement.access_path.as_ref());
        let found = self.input.observed.objects.get(&object.key);
        if object.progress.is_ready()
            && let Some(found) = found
        {
            object.progress = self.object_readiness(node, found, scope);
        }
        let progress = object.progress.clone();
        Ok(Visit { progress, objects: vec![object], value: value_of(node, found) })
    }

    /// The desired object of a template. Its progress is ready if it is as desired; `readyWhen` is evaluated later.
    pub(super) fn object(
        &self,
        node: &Node,
        template: &Template,
        placement: &ResolvedPlacement,
        scope: &Scope<'_>,
        (item, lifecycle): (Option<(usize, usize)>, &EvaluatedLifecycle),
    ) -> Result<PlannedObject, Progress> {
        let rendered = template.render(scope).map_err(|error| not_rendered(&error))?;
        let Some(Value::Object(object)) = rendered else {
            return Err(unusable("the template did not render an object"));
        };
        let (mut metadata, namespace, name, obstacle) = self.identity(node, &object, placement)?;
        let key = ObjectKey {
            cluster: placement.cluster.clone(),
            group: node.kind.group.clone(),
            kind: node.kind.kind.clone(),
            namespace,
            name,
        };
        if obstacle.is_none() {
            self.check_namespace(&key.cluster, &placement.describe(&key), key.namespace.as_deref())?;
        }
        self.remove_copied_keys(node, scope, &placement.describe(&key), &mut metadata)?;
        let marks = ObjectMarks { node, cluster: &placement.cluster, item, lifecycle };
        let Desired { object: desired, hash, size } = self.ownership.desired(object, metadata, &marks);
        self.check_size(&placement.describe(&key), size)?;
        let found = self.input.observed.objects.get(&key);
        let differs = found.is_none_or(|found| {
            found.drifted || found.desired_hash() != Some(&hash) || found.part_of().is_none()
        });
        let progress = obstacle.unwrap_or_else(|| self.assess(node, &key, found, placement, differs));
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

    /// The metadata with its namespace, the namespace, the name, and why the object cannot be applied yet.
    fn identity(
        &self,
        node: &Node,
        object: &Object,
        placement: &ResolvedPlacement,
    ) -> Result<(Object, Option<Text>, Text, Option<Progress>), Progress> {
        let mut metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        let text = |field: &str| match metadata.get(field) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Null) | None => None,
            Some(other) => Some(other.to_string().into()),
        };
        let name = text("name").filter(|name| !name.is_empty());
        let Some(name) = name else {
            return Err(unusable("`metadata.name` is empty"));
        };
        let (namespaced, obstacle) = self.scope_of(node, placement);
        if !namespaced {
            metadata.remove("namespace");
            return Ok((metadata, None, name, obstacle));
        }
        let given = text("namespace");
        let namespace = match given {
            Some(given) if given.is_empty() => {
                return Err(unusable(&format!("`metadata.namespace` of `{name}` is empty")));
            }
            Some(given) => given,
            None => match self.input.instance.namespace() {
                Some(namespace) => namespace.into(),
                None => {
                    let message = format!(
                        "`metadata.namespace` of `{name}` is missing, and the instance has no namespace either"
                    );
                    return Err(unusable(&message));
                }
            },
        };
        metadata.insert("namespace", Value::from(namespace.clone()));
        Ok((metadata, Some(namespace), name, obstacle))
    }

    /// Whether a node's kind is namespaced. While that is unknown: the likely answer, and why its objects cannot be applied yet.
    pub(super) fn scope_of(&self, node: &Node, placement: &ResolvedPlacement) -> (bool, Option<Progress>) {
        if let Some(known) = &node.kind.known {
            return (known.namespaced, None);
        }
        let observed = self.input.observed;
        let (group, kind) = (&node.kind.group, &node.kind.kind);
        let key = (placement.cluster.clone(), group.clone(), kind.clone());
        if let Some(namespaced) = observed.scopes.get(&key) {
            return (*namespaced, None);
        }
        if self.input.settings.assume_namespaced {
            return (true, None);
        }
        // Only a guess for messages: the kind probably has the same scope as in another cluster.
        let elsewhere = observed.scopes.iter().find(|((_, other, name), _)| other == group && name == kind);
        let likely =
            elsewhere.map_or(self.input.instance.namespace().is_some(), |(_, namespaced)| *namespaced);
        if let Some(unavailable) = &placement.unavailable {
            return (likely, Some(unavailable.clone()));
        }
        self.unscoped.borrow_mut().push((key.clone(), node.kind.version.clone()));
        let place = placement.in_words();
        let obstacle = match observed.unlisted.get(&key) {
            Some(Some(failure)) => Progress::Failed(
                failure.reported(format!("cannot find the kind `{kind}` in {place}: {}", failure.message)),
            ),
            _ => Progress::Unresolved(
                format!("waiting for the kind `{kind}` to be discovered in {place}").into(),
            ),
        };
        (likely, Some(obstacle))
    }

    fn assess(
        &self,
        node: &Node,
        key: &ObjectKey,
        found: Option<&ObservedObject>,
        placement: &ResolvedPlacement,
        differs: bool,
    ) -> Progress {
        if let Some(unavailable) = &placement.unavailable {
            return unavailable.clone();
        }
        if let (None, Some(obstacle)) = (found, self.unlisted_kind(key, placement)) {
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
                    placement.describe(key)
                );
                return Progress::Failed(ResourceFailure::conflict(message));
            }
        }
        if let Some(found) = found
            && node.lifecycle.adopt == AdoptPolicy::Never
            && found.part_of().is_none()
            && !self.was_owned(node, found)
        {
            let message = format!(
                "{} exists already and has no owner; delete it, or set `lifecycle.adopt: Always` to adopt it",
                placement.describe(key)
            );
            return Progress::Failed(ResourceFailure::conflict(message));
        }
        if let Some(withheld) = found.and_then(|found| found.withheld.as_ref()) {
            return withheld_progress(withheld, &placement.describe(key));
        }
        match failure {
            Some(failure) if differs || is_unlisted(failure) => {
                Progress::Failed(resource_failure(key, placement, failure))
            }
            _ if differs => match self.input.observed.contested.get(key) {
                Some(contest) if contest.waiting && found.is_none() => {
                    Progress::Held(contest.message.clone())
                }
                _ => Progress::Applying,
            },
            _ => Progress::Ready,
        }
    }

    /// Whether an object without ownership labels belonged to the instance before somebody removed them.
    fn was_owned(&self, node: &Node, found: &ObservedObject) -> bool {
        let is_same = |entry: &ManagedResource| {
            entry.id == node.id.as_str()
                && entry.uid.as_deref() == Some(found.uid())
                && entry.state != ResourceState::Error
        };
        self.input.previous.iter().any(is_same)
    }

    /// Why it is unknown whether an object exists, if it is.
    fn unlisted_kind(&self, key: &ObjectKey, placement: &ResolvedPlacement) -> Option<Progress> {
        let kind = (key.cluster.clone(), key.group.clone(), key.kind.clone());
        let place = placement.in_words();
        Some(match self.input.observed.unlisted.get(&kind)? {
            Some(failure) => Progress::Failed(resource_failure(key, placement, failure)),
            None => Progress::Unresolved(
                format!("waiting for objects of kind `{}` to be listed in {place}", key.kind).into(),
            ),
        })
    }

    /// `Deployment shop/web in cluster eu`.
    pub(crate) fn describe(&self, key: &ObjectKey) -> String {
        describe(key, self.display_of(key))
    }
}

/// A failed operation as the status reports it: which operation, on which object, in which cluster, and the error.
pub(super) fn resource_failure(
    key: &ObjectKey,
    placement: &ResolvedPlacement,
    failure: &OperationFailure,
) -> ResourceFailure {
    let OperationFailure { operation, message, .. } = failure;
    failure.reported(format!("cannot {operation} {}: {message}", placement.describe(key)))
}

/// The progress of an object that expressions must not see, or of a node that reads it.
pub(super) fn withheld_progress(withheld: &Withheld, object: &str) -> Progress {
    match withheld {
        Withheld::Unreviewed => {
            Progress::Unresolved(format!("waiting for a review of the access to {object}").into())
        }
        Withheld::Denied(failure) => {
            let OperationFailure { operation, message, .. } = failure;
            Progress::Failed(failure.reported(format!("cannot {operation} {object}: {message}")))
        }
    }
}

/// Whether the observed object may be out of date.
fn is_unlisted(failure: &OperationFailure) -> bool {
    matches!(failure.operation, Operation::Get | Operation::Watch)
}

pub(super) fn unusable(message: &str) -> Progress {
    Progress::Failed(ResourceFailure::expression(message))
}

fn deleting(node: &Node, key: &ObjectKey, found: &ObservedObject) -> Text {
    let finalizers = found.finalizers();
    let waiting = if lifecycle::is_hook(node) {
        "a deletion hook is not created again".to_owned()
    } else if finalizers.is_empty() {
        "it will be recreated once it is deleted".to_owned()
    } else {
        format!("it will be recreated once its finalizers are removed: {}", finalizers.join(", "))
    };
    format!(
        "resource \"{}\" for node \"{}\" is currently being deleted; {waiting}",
        key.namespaced_name(),
        node.id
    )
    .into()
}
