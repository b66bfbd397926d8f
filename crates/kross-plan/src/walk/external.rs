//! External references: objects that are read by name or by selector, and never written.

use kross_api::{ClusterId, LabelSelector, ObjectKey, WORKLOAD_GROUP};
use kross_graph::{Node, Scope, Template};
use kross_value::{Text, Value};

use super::object::{resource_failure, unusable};
use super::readiness::readiness;
use super::{Visit, Walk, not_rendered, value_of};
use crate::observed::{CollectionQuery, ObservedObject, OperationFailure};
use crate::plan::{ExternalRead, PlannedObject};
use crate::progress::Progress;
use crate::settings::Settings;

impl<'a> Walk<'a> {
    pub(super) fn external(
        &mut self,
        node: &'a Node,
        name: &Template,
        namespace: Option<&Template>,
        scope: &Scope<'_>,
    ) -> Result<Visit, Progress> {
        let placement = self.place(node, scope)?;
        let Some(name) = text(Some(name), scope)? else {
            return Err(unusable("`externalRef.metadata.name` is empty"));
        };
        let (namespaced, obstacle) = self.scope_of(node, &placement);
        let namespace = match (namespaced, namespace) {
            (false, _) => None,
            (true, Some(given)) => match text(Some(given), scope)? {
                Some(given) => Some(given),
                None => return Err(unusable("`externalRef.metadata.namespace` is empty")),
            },
            (true, None) => self.input.instance.namespace().map(Text::from),
        };
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
        let read = ExternalRead::Object { key: key.clone(), version: node.kind.version.clone() };
        let known = self.input.observed.externals.get(&key).filter(|_| !placement.withheld);
        let failure = self.input.observed.unreadable.get(&read);
        if obstacle.is_none() && !placement.withheld {
            self.access_paths.add_read(&read, &node.id, placement.access_path.as_ref());
            self.reads.push(read);
        }
        self.access_paths.add(&key, placement.access_path.as_ref());
        let progress = match (placement.unavailable.clone().or(obstacle), failure, known) {
            (Some(obstacle), _, _) => obstacle,
            (None, Some(failure), _) => Progress::Failed(resource_failure(&key, &placement, failure)),
            (None, None, None) => {
                Progress::Waiting(format!("waiting for {} to be read", placement.describe(&key)).into())
            }
            (None, None, Some(None)) => Progress::Waiting(
                format!("external reference: {} does not exist", placement.describe(&key)).into(),
            ),
            (None, None, Some(Some(found))) => self.object_readiness(node, found, scope),
        };
        let found = known.and_then(Option::as_ref);
        let object = read_object(node, key, found, progress.clone());
        Ok(Visit { progress, objects: vec![object], value: value_of(node, found) })
    }

    pub(super) fn external_collection(
        &mut self,
        node: &'a Node,
        selector: &Template,
        (namespace, namespace_selector): (Option<&Template>, Option<&Template>),
        scope: &Scope<'_>,
    ) -> Result<Visit, Progress> {
        let placement = self.place(node, scope)?;
        let namespace = text(namespace, scope)?;
        let selector = label_selector(selector, scope, "externalRef.metadata.selector")?;
        let namespaces = namespace_selector
            .map(|selector| label_selector(selector, scope, "externalRef.namespaceSelector"))
            .transpose()?;
        let namespace = match namespaces {
            None => namespace.or_else(|| self.home_of_targets(node, &placement.cluster)),
            Some(_) => namespace,
        };
        // A selector of namespaces may select others.
        let own = namespace.as_deref().filter(|_| namespaces.is_none());
        self.check_namespace(&placement.cluster, &format!("objects of kind `{}`", node.kind.kind), own)?;
        let kind = (placement.cluster.clone(), &node.kind);
        let query = CollectionQuery::new(kind, namespace, &selector, namespaces.as_ref());
        let read = ExternalRead::Collection(query.clone());
        let failure = self.input.observed.unreadable.get(&read);
        if !placement.withheld {
            self.access_paths.add_read(&read, &node.id, placement.access_path.as_ref());
            self.reads.push(read);
        }
        if let (None, Some(failure)) = (&placement.unavailable, failure) {
            let place = placement.display().map_or_else(String::new, |it| format!(" in cluster `{it}`"));
            let OperationFailure { operation, message, .. } = failure;
            let kind = &node.kind.kind;
            let message = format!("cannot {operation} objects of kind `{kind}`{place}: {message}");
            return Ok(Visit::from(Progress::Failed(failure.reported(message))));
        }
        let listed = self.input.observed.collections.get(&query).filter(|_| !placement.withheld);
        let Some(listed) = listed else {
            let waiting = format!("waiting for objects of kind `{}` to be listed", node.kind.kind);
            return Ok(Visit::from(
                placement.unavailable.unwrap_or_else(|| Progress::Waiting(waiting.into())),
            ));
        };
        let mut sorted: Vec<&ObservedObject> = listed.iter().collect();
        sorted.sort_by_key(|object| (object.namespace(), object.name()));
        let value = value_of(node, sorted.iter().copied());
        let mut list = Scope::over(scope);
        if let Some(value) = &value {
            list.set(node.id.clone(), value.clone());
        }
        let mut objects = Vec::with_capacity(sorted.len());
        for found in sorted {
            let progress = match &placement.unavailable {
                Some(unavailable) => unavailable.clone(),
                None => self.item_readiness(node, found, &list),
            };
            let key = key_of(&placement.cluster, node, found);
            self.access_paths.add(&key, placement.access_path.as_ref());
            objects.push(read_object(node, key, Some(found), progress));
        }
        let progress = match placement.unavailable {
            Some(unavailable) => unavailable,
            // Conditions that do not use `each` are about the list, and count for an empty one too.
            None if objects.is_empty() => whole_list(node, &list, self.input.settings),
            None => super::collection::worst(&objects),
        };
        Ok(Visit { progress, objects, value })
    }

    /// The namespace of a list of KubernetesTargets for which none is given. An instance can use only those of its own
    /// namespace, so what others publish must not change its objects.
    fn home_of_targets(&self, node: &Node, cluster: &ClusterId) -> Option<Text> {
        let is_target = (&*node.kind.group, &*node.kind.kind) == (WORKLOAD_GROUP, "KubernetesTarget");
        let own = self.input.instance.namespace().filter(|_| is_target && cluster.is_local());
        own.map(Text::from)
    }
}

fn whole_list(node: &Node, scope: &Scope<'_>, settings: &Settings) -> Progress {
    let conditions = node.ready_when.iter().filter(|condition| !condition.uses("each"));
    for condition in conditions {
        match readiness(std::slice::from_ref(condition), scope, settings) {
            Progress::Ready => {}
            other => return other,
        }
    }
    Progress::Ready
}

fn key_of(cluster: &ClusterId, node: &Node, found: &ObservedObject) -> ObjectKey {
    ObjectKey {
        cluster: cluster.clone(),
        group: node.kind.group.clone(),
        kind: node.kind.kind.clone(),
        namespace: found.namespace().map(Text::from),
        name: found.name().into(),
    }
}

fn read_object(
    node: &Node,
    key: ObjectKey,
    found: Option<&ObservedObject>,
    progress: Progress,
) -> PlannedObject {
    PlannedObject {
        key,
        api_version: node.kind.api_version().into(),
        desired: None,
        hash: "".into(),
        uid: found.map(|found| found.uid().into()),
        generation: found.and_then(ObservedObject::generation),
        progress,
        differs: false,
        exclusive: false,
    }
}

/// A rendered string; none if it is missing or empty.
fn text(template: Option<&Template>, scope: &Scope<'_>) -> Result<Option<Text>, Progress> {
    let Some(template) = template else {
        return Ok(None);
    };
    let text = template.render_string(scope).map_err(|error| not_rendered(&error))?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// A rendered label selector. An invalid one is an error: as an empty selector it would match everything.
fn label_selector(template: &Template, scope: &Scope<'_>, name: &str) -> Result<Value, Progress> {
    let value = template.render(scope).map_err(|error| not_rendered(&error))?.unwrap_or_default();
    let Some(fields) = value.as_object() else {
        return Err(unusable(&format!("`{name}` is not a label selector: its value is {}", value.kind())));
    };
    let unknown = fields.keys().find(|key| !["matchLabels", "matchExpressions"].contains(&key.as_str()));
    let mistake = match (unknown, serde_json::to_value(&value).and_then(serde_json::from_value)) {
        (Some(key), _) => Some(format!("unknown field `{key}`")),
        (None, Ok(selector)) => LabelSelector::mistake(&selector),
        (None, Err(error)) => Some(error.to_string()),
    };
    match mistake {
        None => Ok(value),
        Some(mistake) => Err(unusable(&format!("`{name}` is not a label selector: {mistake}"))),
    }
}
