//! Serves a compiled graph: creates or updates its CRD, and publishes the graph for reconciles of instances.

use std::sync::Arc;
use std::time::Duration;

use kross_api::managers;
use kross_cluster::{ApiKind, Cache, Lookup, Selection, StoredObject};
use kross_graph::{Graph, Placement};
use kross_value::Value;

use super::access;
use super::compile::Compiled;
use super::crd::{self, Action};
use super::crd_repairs::{self, Restore};
use super::error::{DefinitionError, Next};
use super::object::Definition;
use super::status::StatusReport;
use crate::context::Context;
use crate::graphs::{DefinedAccess, Served};
use crate::kinds;

/// The wait for a CRD to be established, should no event come.
const ESTABLISH_WAIT: Duration = Duration::from_secs(2);

/// Serves a graph as a revision of a definition.
///
/// # Errors
/// The CRD cannot be created or updated, or the API server does not accept it.
pub(super) async fn serve(
    context: &Context,
    definition: &Definition,
    number: i64,
    compiled: &Compiled,
    report: &mut StatusReport,
) -> Result<Next, DefinitionError> {
    let Some(crd) = &compiled.graph.crd else {
        // The kind exists already, as the compiler has checked.
        let kind = instance_kind(&compiled.graph);
        publish(context, definition, number, compiled, kind);
        report.kind_ready(&compiled.graph.instance.kind, None);
        report.running();
        return Ok(Next::Done);
    };
    let ensured = ensure_crd(context, definition, crd, compiled.provisional).await;
    let crd = match ensured {
        Ok(crd) => crd,
        Err(error) => {
            report.kind_failed(&error.to_string());
            return Err(error);
        }
    };
    match accepted_kind(&crd) {
        Ok(Some(kind)) => {
            // Before the graph is published: definitions that name the kind then find its schema.
            context.schemas.sync_crd(&context.crds, &crd);
            publish(context, definition, number, compiled, instance_kind(&compiled.graph));
            report.kind_ready(&kind, crd_repairs::contested(context, definition).as_deref());
            report.running();
            Ok(Next::Done)
        }
        Ok(None) => {
            report.kind_waiting(crd.name());
            Ok(Next::Wait(ESTABLISH_WAIT))
        }
        Err(error) => {
            report.kind_failed(&error.to_string());
            Err(error)
        }
    }
}

/// The CRD that a definition desires, and the one that exists.
pub(super) struct DesiredCrd {
    /// As the graph has it.
    of_graph: Value,
    /// With what is kept of the one that exists.
    pub(super) desired: Value,
    pub(super) existing: Option<Arc<StoredObject>>,
}

impl DesiredCrd {
    /// Compares the CRD of a graph with the one in the cache.
    ///
    /// # Errors
    /// The cache has not synced.
    pub(super) fn find(
        context: &Context,
        definition: &Definition,
        crd: &Value,
        provisional: bool,
    ) -> Result<Self, DefinitionError> {
        let mut desired = crd::desired(crd, &context.ownership_labels(), &definition.object);
        // Before the kind is served: from then on instances may outlive the definition.
        access::record(&mut desired, definition);
        let of_graph = desired.clone();
        let existing = match context.crds.get(None, crd_name(crd)) {
            Lookup::Found(existing) => Some(existing),
            Lookup::Absent => None,
            Lookup::Unknown => return Err(DefinitionError::NotSynced { what: "CustomResourceDefinitions" }),
        };
        if let Some(existing) = &existing {
            access::keep_key(&mut desired, existing);
        }
        if let (true, Some(existing)) = (provisional, &existing) {
            // It was created with the schemas of all clusters.
            crd::keep_status(&mut desired, existing.value());
        }
        Ok(Self { of_graph, desired, existing })
    }

    /// What to do with it.
    ///
    /// # Errors
    /// The CRD that exists does not allow it.
    pub(super) fn decide(&self, definition: &Definition) -> Result<Action, DefinitionError> {
        let allow_breaking = definition.allows_breaking_changes();
        crd::decide(self.existing.as_deref(), &self.desired, definition.name(), allow_breaking)
    }
}

fn crd_name(crd: &Value) -> &str {
    crd.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default()
}

/// Creates or updates the CRD, and returns it as it is then.
///
/// # Errors
/// A request fails, or the CRD that exists does not allow it.
pub(super) async fn ensure_crd(
    context: &Context,
    definition: &Definition,
    crd: &Value,
    provisional: bool,
) -> Result<Arc<StoredObject>, DefinitionError> {
    let wanted = DesiredCrd::find(context, definition, crd, provisional)?;
    let name = crd_name(crd);
    let restore = Restore::new(context, definition, name, &wanted.of_graph);
    let action = wanted.decide(definition)?;
    let DesiredCrd { desired, existing, of_graph: _ } = wanted;
    if action != Action::Keep && restore.must_wait(context, &desired).await {
        // A CRD that differs serves the instances until then.
        return existing.ok_or_else(|| DefinitionError::CrdContested {
            crd: name.to_owned(),
            message: crd_repairs::contested(context, definition)
                .map(|message| message.to_string())
                .unwrap_or_default(),
        });
    }
    let written = match (&action, existing) {
        (Action::Keep, Some(existing)) => return Ok(existing),
        (Action::Create(body), _) => {
            context.client.create(&context.crd_kind, body, managers::CONTROLLER).await?
        }
        (Action::Update(patch), _) => {
            context
                .client
                .merge_patch(&context.crd_kind, None, name, None, managers::CONTROLLER, patch)
                .await?
        }
        (Action::Keep, None) => return Err(DefinitionError::NotSynced { what: "CustomResourceDefinitions" }),
    };
    if matches!(action, Action::Create(_)) {
        tracing::info!(rgd = %definition.name(), crd = name, "created CustomResourceDefinition");
    } else {
        tracing::info!(rgd = %definition.name(), crd = name, "updated CustomResourceDefinition");
    }
    context.crds.observe(&written);
    let written = Arc::new(written);
    context.crd_repairs.written(&restore, &written);
    Ok(written)
}

/// The kind that the API server accepted; none while the CRD is not established.
fn accepted_kind(crd: &StoredObject) -> Result<Option<String>, DefinitionError> {
    let value = crd.value();
    if kinds::is_established(value) {
        let kind =
            value.at(&["status", "acceptedNames", "kind"]).or_else(|| value.at(&["spec", "names", "kind"]));
        return Ok(kind.and_then(Value::as_str).map(str::to_owned));
    }
    match kinds::find_condition(value, "NamesAccepted") {
        Some(condition) if condition.get("status").and_then(Value::as_str) == Some("False") => {
            let message =
                condition.get("message").and_then(Value::as_str).unwrap_or("its names are not accepted");
            Err(DefinitionError::NamesRefused { crd: crd.name().to_string(), message: message.to_owned() })
        }
        _ => Ok(None),
    }
}

/// The kind of a graph's instances.
pub(super) fn instance_kind(graph: &Graph) -> ApiKind {
    let instance = &graph.instance;
    ApiKind::custom(&instance.group, &instance.version, &instance.kind, &instance.plural, instance.namespaced)
}

/// Publishes a revision: its instances are reconciled by it from now on.
pub(super) fn publish(
    context: &Context,
    definition: &Definition,
    number: i64,
    compiled: &Compiled,
    kind: ApiKind,
) {
    let current = context.graphs.get(definition.name());
    let same = current.as_ref().is_some_and(|current| {
        *current.kind == kind
            && current.uid == *definition.object.uid()
            && current.revision.as_ref().is_some_and(|revision| Arc::ptr_eq(&revision.graph, &compiled.graph))
    });
    if same {
        return;
    }
    let kind = Arc::new(kind);
    let Compiled { graph, selection, .. } = compiled;
    let children = child_caches(context, graph);
    context.graphs.publish(Served {
        definition: definition.name().clone(),
        uid: definition.object.uid().clone(),
        instances: context.caches.watch(&context.client, &kind, selection.clone()),
        kind,
        children,
        external: graph.instance.external,
        deletion_revision: None,
        recorded_access: DefinedAccess::Nothing,
        no_graph: None,
        orphaned: false,
        own_graphs: false,
        revision: Some(compiled.clone().revision(number)),
    });
    if let Some(served) = context.graphs.get(definition.name()) {
        context.requeue_instances_of(&served);
    }
}

/// The caches of the objects that the graph applies in the hub, one for each kind.
fn child_caches(context: &Context, graph: &Graph) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for node in &graph.nodes {
        let (Some(known), Placement::Local, false) = (&node.kind.known, &node.placement, node.is_external())
        else {
            continue;
        };
        let kind = &node.kind;
        let kind = ApiKind::custom(&kind.group, &kind.version, &kind.kind, &known.plural, known.namespaced);
        // The schema has everything that discovery would tell.
        if context.client.discovery().cached(&kind.group, Some(&kind.version), &kind.kind).is_none() {
            context.client.discovery().learn(kind.clone());
        }
        let cache = context.caches.watch(&context.client, &Arc::new(kind), Selection::Managed);
        if !caches.iter().any(|known| known.key() == cache.key()) {
            caches.push(cache);
        }
    }
    caches
}
