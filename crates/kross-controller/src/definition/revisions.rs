//! The revisions of a definition: which exist, the number of the next one, which are to be deleted. Issues a revision as a
//! snapshot of a spec, and writes the result of its compilation into its status.

use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{
    ConditionSet, ConditionType, FINALIZER, FailureReason, GraphRevisionStatus, List, ObjectFacts, Reason,
    ResourceGraphDefinitionSpec, labels, managers, revision_name,
};
use kross_cluster::{ApiError, Delete, StoredObject, UnreadableObject, read_object};
use kross_graph::Graph;
use kross_value::{Text, Value};

use super::error::DefinitionError;
use super::object::{Definition, hash, part};
use super::status::{order, patch, resources};
use crate::context::Context;
use crate::finalizer;

const DEFINITION_API_VERSION: &str = "kro.run/v1alpha1";
const DEFINITION_KIND: &str = "ResourceGraphDefinition";
const FIELDS: [&str; 3] = ["topologicalOrder", "resources", "conditions"];

/// One revision.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) object: Arc<StoredObject>,
    pub(super) number: i64,
    /// Our hash of its snapshot. The label may be from another controller.
    pub(super) hash: Text,
    /// Its snapshot, or why it cannot be parsed.
    pub(super) spec: Result<ResourceGraphDefinitionSpec, String>,
}

/// The revisions of one definition.
#[derive(Clone, Debug, Default)]
pub(super) struct Revisions {
    /// Those that are not being deleted, in ascending order.
    live: Vec<Revision>,
    /// The highest number among those that are being deleted.
    terminating: Option<i64>,
}

impl Revisions {
    /// The revisions of a definition that are cached; none if the cache has not synced.
    pub(super) fn cached(context: &Context, definition: &str) -> Option<Self> {
        let is_synced = context.revisions.is_authoritative();
        is_synced.then(|| Self::of(definition, &context.revisions.known()))
    }

    /// The revisions of a definition. One that cannot be read is known by its name, so that its number is not issued again.
    fn of(definition: &str, known: &[Arc<StoredObject>]) -> Self {
        let mut revisions = Self::default();
        for object in known {
            let Some(number) = number_of(definition, object) else { continue };
            if object.deletion_timestamp().is_some() {
                revisions.terminating = revisions.terminating.max(Some(number));
                continue;
            }
            revisions.live.push(Revision::read(Arc::clone(object), number));
        }
        revisions.live.sort_by_key(|revision| revision.number);
        revisions
    }

    /// The one with the highest number.
    pub(super) fn latest(&self) -> Option<&Revision> {
        self.live.last()
    }

    /// Whether no revision is terminating that is newer than all others. Until then the latest revision is not known.
    pub(super) fn is_settled(&self) -> bool {
        let latest = self.latest();
        self.terminating.is_none_or(|number| latest.is_some_and(|latest| latest.number > number))
    }

    /// The number of the next revision. No number is issued twice.
    pub(super) fn next_number(&self, last_issued: i64) -> i64 {
        let latest = self.latest().map_or(0, |latest| latest.number);
        last_issued.max(latest).max(self.terminating.unwrap_or(0)) + 1
    }

    /// All of them, in ascending order.
    pub(super) fn all(&self) -> &[Revision] {
        &self.live
    }

    /// Those that are older than the one of this number, in ascending order.
    pub(super) fn before(&self, number: i64) -> &[Revision] {
        let count = self.live.partition_point(|revision| revision.number < number);
        self.live.get(..count).unwrap_or_default()
    }

    /// Those beyond the newest `keep`, except the one that instances follow.
    pub(super) fn surplus(&self, keep: usize, followed: Option<i64>) -> impl Iterator<Item = &Revision> {
        let count = self.live.len().saturating_sub(keep.max(1));
        self.live.iter().take(count).filter(move |revision| Some(revision.number) != followed)
    }

    /// Those that are kept, are not the latest, and have no status.
    pub(super) fn unverified(&self, keep: Option<usize>) -> impl Iterator<Item = &Revision> {
        let surplus = keep.map_or(0, |keep| self.surplus(keep, None).count());
        let old = self.live.iter().take(self.live.len().saturating_sub(1)).skip(surplus);
        old.filter(|revision| revision.object.value().at(&["status", "conditions"]).is_none())
    }

    /// Those without a controller reference to the definition of this UID. One that cannot be read stays as it is.
    pub(super) fn orphans<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Revision> {
        let readable = self.live.iter().filter(|revision| revision.object.unreadable().is_none());
        readable.filter(move |revision| !is_controlled(&revision.object, uid))
    }
}

impl Revision {
    fn read(object: Arc<StoredObject>, number: i64) -> Self {
        let spec = match object.unreadable() {
            Some(error) => Err(format!("GraphRevision `{}` cannot be read: {error}", object.name())),
            None => part::<kross_api::GraphRevisionSpec>(&object, "spec").map(|spec| spec.snapshot.spec),
        };
        let hash = spec.as_ref().map_or_else(|_| Text::from(""), hash);
        Self { object, number, hash, spec }
    }

    /// Its snapshot.
    ///
    /// # Errors
    /// It cannot be parsed.
    pub(super) fn spec(&self) -> Result<&ResourceGraphDefinitionSpec, DefinitionError> {
        let invalid =
            |message: &String| DefinitionError::Invalid { message: message.clone(), unknown_kinds: false };
        self.spec.as_ref().map_err(invalid)
    }
}

/// The number of an object, if it is a revision of this definition.
fn number_of(definition: &str, object: &StoredObject) -> Option<i64> {
    if object.unreadable().is_some() {
        return revision_number(definition, object.name());
    }
    let name = object.value().at(&["spec", "snapshot", "name"]).and_then(Value::as_str)?;
    let number = object.value().at(&["spec", "revision"]).and_then(Value::as_int).unwrap_or(0);
    (name == definition).then_some(number)
}

/// The number of a definition's revision by its name; none if it is not the name of one.
fn revision_number(definition: &str, name: &str) -> Option<i64> {
    let (_, suffix) = name.rsplit_once("-r")?;
    let number = suffix.split('-').next()?.parse().ok()?;
    (revision_name(definition, number) == name).then_some(number)
}

fn owner_references(object: &StoredObject) -> &[Value] {
    object.value().at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default()
}

fn is_controlled(object: &StoredObject, uid: &str) -> bool {
    owner_references(object).iter().any(|owner| {
        let text = |field| owner.get(field).and_then(Value::as_str);
        text("uid") == Some(uid)
            && text("kind") == Some(DEFINITION_KIND)
            && owner.get("controller").and_then(Value::as_bool) == Some(true)
    })
}

fn owner_reference(definition: &Definition) -> Value {
    Value::object([
        ("apiVersion", DEFINITION_API_VERSION.into()),
        ("kind", DEFINITION_KIND.into()),
        ("name", definition.name().clone().into()),
        ("uid", definition.object.uid().clone().into()),
        ("controller", Value::Bool(true)),
    ])
}

/// The spec as it is on the wire, with fields that we do not know. As in kro, only an empty list of resources is left out.
fn snapshot_spec(definition: &Definition) -> Value {
    let mut spec = definition.object.value().get("spec").cloned().unwrap_or(Value::Null);
    if let Some(spec) = spec.as_object_mut()
        && spec.get("resources").and_then(Value::as_list).is_some_and(<[Value]>::is_empty)
    {
        spec.remove("resources");
    }
    spec
}

/// A revision of the current spec.
fn body(context: &Context, definition: &Definition, number: i64, hash: &Text) -> Value {
    let mut own_labels = context.ownership_labels();
    own_labels.insert(labels::DEFINITION_NAME, definition.name().clone().into());
    own_labels.insert(labels::REVISION_HASH, hash.clone().into());
    let snapshot = Value::object([
        ("name", definition.name().clone().into()),
        ("generation", definition.object.generation().unwrap_or(0).into()),
        ("spec", snapshot_spec(definition)),
    ]);
    Value::object([
        ("apiVersion", "internal.kro.run/v1alpha1".into()),
        ("kind", "GraphRevision".into()),
        (
            "metadata",
            Value::object([
                ("name", revision_name(definition.name(), number).into()),
                ("labels", own_labels.into()),
                ("finalizers", Value::list([FINALIZER.into()])),
                ("ownerReferences", Value::list([owner_reference(definition)])),
            ]),
        ),
        ("spec", Value::object([("revision", number.into()), ("snapshot", snapshot)])),
    ])
}

/// Issues the current spec as a new revision.
///
/// # Errors
/// Nobody could read the revision, or the request fails, such as because another process has issued it: its event requeues the
/// definition.
pub(super) async fn issue(
    context: &Context,
    definition: &Definition,
    number: i64,
    hash: &Text,
) -> Result<Revision, DefinitionError> {
    let body = body(context, definition, number, hash);
    check_readable(&body)?;
    let written = context.client.create(&context.revision_kind, &body, managers::CONTROLLER).await?;
    context.revisions.observe(&written);
    tracing::info!(rgd = %definition.name(), revision = number, "issued revision");
    Ok(Revision::read(Arc::new(written), number))
}

/// Makes sure that a revision can be read once it exists. It has more levels than the definition.
fn check_readable(body: &Value) -> Result<(), DefinitionError> {
    let unreadable = |error: UnreadableObject| DefinitionError::Invalid {
        message: format!(
            "its GraphRevision could not be read: {error}; nest the fields of its resources less deeply"
        ),
        unknown_kinds: false,
    };
    read_object(body.to_string().as_bytes()).map(drop).map_err(unreadable)
}

/// Makes a definition the controller of a revision that has none, or one that was deleted.
///
/// # Errors
/// The request fails, or the revision was changed meanwhile.
pub(super) async fn adopt(
    context: &Context,
    definition: &Definition,
    revision: &Revision,
) -> Result<(), DefinitionError> {
    let mut owners: Vec<Value> = owner_references(&revision.object).to_vec();
    let is_ours = |owner: &Value| {
        let text = |field| owner.get(field).and_then(Value::as_str);
        text("kind") == Some(DEFINITION_KIND) && text("apiVersion") == Some(DEFINITION_API_VERSION)
    };
    match owners.iter_mut().find(|owner| is_ours(owner)) {
        Some(stale) => *stale = owner_reference(definition),
        None => owners.push(owner_reference(definition)),
    }
    let metadata = Value::object([
        ("resourceVersion", revision.object.resource_version().clone().into()),
        ("ownerReferences", Value::list(owners)),
    ]);
    let patch = Value::object([("metadata", metadata)]);
    let name = revision.object.name();
    let written = context
        .client
        .merge_patch(&context.revision_kind, None, name, None, managers::CONTROLLER, &patch)
        .await?;
    context.revisions.observe(&written);
    tracing::info!(rgd = %definition.name(), revision = revision.number, "adopted revision");
    Ok(())
}

/// Writes the result of a compilation into the status of a revision, if it changed and can be read.
///
/// # Errors
/// The request fails.
pub(super) async fn record(
    context: &Context,
    revision: &Revision,
    compiled: Result<&Graph, &str>,
    now: Timestamp,
) -> Result<(), DefinitionError> {
    let object = match context.revisions.get(None, revision.object.name()) {
        kross_cluster::Lookup::Found(latest) => latest,
        _ => Arc::clone(&revision.object),
    };
    if object.unreadable().is_some() {
        return Ok(());
    }
    let before: GraphRevisionStatus = part(&object, "status").unwrap_or_default();
    let status = status(&object, &before, compiled, now);
    if status == before {
        return Ok(());
    }
    let patch = patch(&object, &status, &FIELDS);
    let written = context
        .client
        .merge_patch(
            &context.revision_kind,
            None,
            object.name(),
            Some("status"),
            managers::CONTROLLER,
            &patch,
        )
        .await?;
    context.revisions.observe(&written);
    Ok(())
}

fn status(
    object: &StoredObject,
    before: &GraphRevisionStatus,
    compiled: Result<&Graph, &str>,
    now: Timestamp,
) -> GraphRevisionStatus {
    let facts = ObjectFacts { deleting: false, ..object.facts() };
    let mut conditions =
        ConditionSet::new(ConditionType::REVISION.iter().copied(), facts, &before.conditions, now);
    let (topological_order, dependencies) = match compiled {
        Ok(graph) => {
            let message = "graph revision compiled and verified";
            conditions.set_true(ConditionType::GraphVerified, Reason::Verified, message, now);
            (order(graph), resources(graph))
        }
        Err(message) => {
            conditions.set_false(ConditionType::GraphVerified, Reason::InvalidGraph, message, now);
            (List::default(), List::default())
        }
    };
    GraphRevisionStatus { topological_order, resources: dependencies, conditions: conditions.into_list() }
}

/// Deletes the surplus of old revisions, except the one that instances follow. Those that cannot be deleted stay until the
/// next reconcile.
pub(super) async fn delete_surplus(context: &Context, revisions: &Revisions, followed: Option<i64>) {
    let Some(keep) = context.settings.max_revisions else { return };
    for revision in revisions.surplus(keep, followed) {
        let options = Delete { uid: Some(revision.object.uid()), ..Delete::default() };
        match context.client.delete(&context.revision_kind, None, revision.object.name(), options).await {
            Ok(kross_cluster::Deleted::Terminating(object)) => {
                context.metrics.definitions.revisions_deleted.inc();
                context.revisions.observe(&object);
                // Here, since our own write does not requeue it.
                if let Err(error) = release(context, &object).await {
                    tracing::warn!(%error, "cannot release revision");
                }
            }
            Ok(kross_cluster::Deleted::Removed) => {
                context.metrics.definitions.revisions_deleted.inc();
            }
            Err(error) if error.is_object_not_found() => {}
            Err(error) => {
                context.metrics.definitions.revision_deletion_errors.inc();
                tracing::warn!(%error, "cannot delete old revision");
            }
        }
    }
}

/// Removes our finalizer from a revision that is being deleted.
///
/// # Errors
/// The request fails, or the revision was changed meanwhile.
pub(super) async fn release(context: &Context, object: &StoredObject) -> Result<(), DefinitionError> {
    if !finalizer::is_set(object) {
        return Ok(());
    }
    let patch = finalizer::removal(object);
    let written = context
        .client
        .merge_patch(&context.revision_kind, None, object.name(), None, managers::CONTROLLER, &patch)
        .await;
    match written {
        // The response is not cached: without the last finalizer the object does not exist any more.
        Ok(_) => {
            context.metrics.definitions.revisions_released.inc();
            Ok(())
        }
        Err(error) if error.is_object_not_found() => Ok(()),
        // It was released, and the response cannot be read either.
        Err(error) if object.unreadable().is_some() && is_unreadable(&error) => {
            context.metrics.definitions.revisions_released.inc();
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether an API server carried a request out, and only its response cannot be read.
fn is_unreadable(error: &ApiError) -> bool {
    error.code().is_none() && error.reason() == FailureReason::ServerError
}

#[cfg(test)]
mod tests {
    use kross_cluster::read_object;
    use serde_json::json;

    use super::*;

    fn revision(number: i64, deleting: bool, owner: &str) -> Arc<StoredObject> {
        let mut object = json!({
            "apiVersion": "internal.kro.run/v1alpha1",
            "kind": "GraphRevision",
            "metadata": {
                "name": format!("web-r{number:05}"), "uid": number.to_string(), "resourceVersion": "1",
                "ownerReferences": [{"kind": "ResourceGraphDefinition", "uid": owner, "controller": true}],
            },
            "spec": {"revision": number, "snapshot": {
                "name": "web", "generation": 1, "spec": {"schema": {"kind": "Web", "apiVersion": "v1"}},
            }},
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Arc::new(read_object(object.to_string().as_bytes()).unwrap())
    }

    fn numbers<'a>(revisions: impl IntoIterator<Item = &'a Revision>) -> Vec<i64> {
        revisions.into_iter().map(|revision| revision.number).collect()
    }

    #[test]
    fn no_number_is_issued_twice() {
        let none = Revisions::of("web", &[]);
        assert_eq!((none.next_number(0), none.next_number(7)), (1, 8));
        let some = Revisions::of("web", &[revision(10, false, "a"), revision(9, false, "a")]);
        assert_eq!((some.next_number(0), some.next_number(12)), (11, 13));
        let terminating = Revisions::of("web", &[revision(10, true, "a")]);
        assert_eq!(terminating.next_number(0), 11);
    }

    #[test]
    fn the_number_of_an_unreadable_revision_is_not_issued_again() {
        // As long as nobody can read it, nothing but its metadata is known.
        let deep = format!("{}1{}", r#"{"a":"#.repeat(140), "}".repeat(140));
        let item = format!(
            r#"{{"metadata":{{"name":"web-r00007","uid":"7","resourceVersion":"1"}},"spec":{deep}}}"#
        );
        let list = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{item}]}}"#);
        let list = kross_cluster::read_list(list.as_bytes(), "internal.kro.run/v1alpha1", "GraphRevision");
        let outline = Arc::new(list.unwrap().items.remove(0));
        let known = [revision(6, false, "a"), outline];
        let revisions = Revisions::of("web", &known);
        assert_eq!((revisions.next_number(0), revisions.orphans("a").count()), (8, 0));
        let message = revisions.latest().unwrap().spec().unwrap_err().to_string();
        assert!(message.contains("`web-r00007` cannot be read"), "{message}");
        assert_eq!(Revisions::of("we", &known).next_number(0), 1);
    }

    #[test]
    fn the_body_of_a_revision_is_checked_before_it_is_created() {
        let nested = |levels: usize| {
            let deep = (0..levels).fold(Value::Null, |inner, _| Value::object([("a", inner)]));
            Value::object([("metadata", Value::object([("name", "web-r00001".into())])), ("spec", deep)])
        };
        assert!(check_readable(&nested(126)).is_ok());
        let error = check_readable(&nested(127)).unwrap_err();
        assert!(error.to_string().contains("nested too deeply"), "{error}");
    }

    #[test]
    fn revisions_are_ordered_by_number_and_not_by_name() {
        let revisions = Revisions::of("web", &[revision(100_000, false, "a"), revision(99_999, false, "a")]);
        assert_eq!(revisions.latest().unwrap().number, 100_000);
    }

    #[test]
    fn only_a_terminating_latest_revision_is_waited_for() {
        assert!(Revisions::of("web", &[]).is_settled());
        assert!(Revisions::of("web", &[revision(1, true, "a"), revision(2, false, "a")]).is_settled());
        assert!(!Revisions::of("web", &[revision(1, false, "a"), revision(2, true, "a")]).is_settled());
        assert!(!Revisions::of("web", &[revision(1, true, "a")]).is_settled());
    }

    #[test]
    fn the_newest_revisions_are_kept() {
        let known: Vec<_> = (1..=7).map(|number| revision(number, false, "a")).collect();
        let revisions = Revisions::of("web", &known);
        assert_eq!(numbers(revisions.surplus(5, None)), [1, 2]);
        assert_eq!(numbers(revisions.surplus(5, Some(7))), [1, 2]);
        assert_eq!(numbers(revisions.surplus(7, None)), [0; 0]);
        assert_eq!(numbers(revisions.surplus(0, None)).len(), 6, "the latest is always kept");
    }

    #[test]
    fn the_revision_that_instances_follow_is_kept() {
        let known: Vec<_> = (1..=7).map(|number| revision(number, false, "a")).collect();
        let revisions = Revisions::of("web", &known);
        assert_eq!(numbers(revisions.surplus(5, Some(1))), [2]);
        assert_eq!(numbers(revisions.surplus(1, Some(3))), [1, 2, 4, 5, 6]);
        assert_eq!(numbers(revisions.before(3)), [1, 2]);
    }

    #[test]
    fn revisions_of_another_uid_are_orphans() {
        let revisions = Revisions::of("web", &[revision(1, false, "old"), revision(2, false, "new")]);
        assert_eq!(revisions.orphans("new").map(|revision| revision.number).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn the_hash_is_computed_and_not_read_from_the_label() {
        let revisions = Revisions::of("web", &[revision(1, false, "a")]);
        let spec: ResourceGraphDefinitionSpec = serde_json::from_value(
            json!({"schema": {"kind": "Web", "apiVersion": "v1", "group": "kro.run"}}),
        )
        .unwrap();
        assert_eq!(revisions.latest().unwrap().hash, hash(&spec));
    }
}
