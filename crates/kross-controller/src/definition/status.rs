//! Report: collects the conditions of a definition during a reconcile, writes the status if it changed, and emits Events and
//! metrics for what changed in it.

use jiff::Timestamp;
use kross_api::{
    Condition, ConditionSet, ConditionStatus, ConditionType, DefinitionState, Dependency, List, Reason,
    ResourceGraphDefinitionStatus, ResourceInformation, managers, truncate,
};
use kross_cluster::{Regarding, Report, Severity};
use kross_graph::Graph;
use kross_value::Value;

use super::error::DefinitionError;
use super::object::Definition;
use crate::condition_events::{self, Health};
use crate::context::Context;
use crate::metrics::DefinitionTransition;

/// The fields of the status. All of them are written, so that those without a value are removed.
const FIELDS: [&str; 5] = ["state", "topologicalOrder", "resources", "lastIssuedRevision", "conditions"];

/// The longest message about clusters.
const MAX_MESSAGE: usize = 4096;

/// The status of a definition, as far as this reconcile knows it.
#[derive(Clone, Debug)]
pub(super) struct StatusReport {
    conditions: ConditionSet,
    order: List<String>,
    resources: List<ResourceInformation>,
    last_issued: Option<i64>,
    /// Whether the clusters that the spec names accept it.
    accepted_by_clusters: bool,
    /// Whether the analysis of clusters has warnings.
    has_warnings: bool,
    generation: i64,
    now: Timestamp,
}

impl StatusReport {
    /// Starts with the current status.
    pub(super) fn new(definition: &Definition, clusters: bool, now: Timestamp) -> Self {
        let status = &definition.status;
        let clusters = if clusters { ConditionType::DEFINITION_CLUSTERS } else { &[] };
        let dependents = ConditionType::DEFINITION.iter().chain(clusters).copied();
        Self {
            conditions: ConditionSet::new(dependents, definition.object.facts(), &status.conditions, now),
            order: status.topological_order.clone(),
            resources: status.resources.clone(),
            last_issued: status.last_issued_revision,
            accepted_by_clusters: true,
            has_warnings: false,
            generation: definition.object.facts().generation,
            now,
        }
    }

    /// The highest revision number that was ever issued.
    pub(super) fn last_issued(&self) -> i64 {
        self.last_issued.unwrap_or(0)
    }

    /// A revision of this number exists.
    pub(super) fn issued(&mut self, number: i64) {
        self.last_issued = Some(self.last_issued().max(number));
    }

    pub(super) fn accepted(&mut self, graph: &Graph) {
        self.set(
            ConditionType::GraphAccepted,
            ConditionStatus::True,
            Reason::Valid,
            "resource graph and schema are valid",
        );
        self.order = order(graph);
        self.resources = resources(graph);
    }

    pub(super) fn invalid(&mut self, message: &str) {
        self.set(ConditionType::GraphAccepted, ConditionStatus::False, Reason::InvalidResourceGraph, message);
        self.order = List::default();
        self.resources = List::default();
    }

    /// The schemas that it needs cannot be fetched. The condition of this generation stays, if there is one.
    pub(super) fn without_schemas(&mut self, message: &str) {
        let accepted = self.conditions.get(ConditionType::GraphAccepted);
        let known = |accepted: &Condition| {
            accepted.status != ConditionStatus::Unknown
                && accepted.observed_generation == Some(self.generation)
        };
        if !accepted.is_some_and(known) {
            let (kind, reason) = (ConditionType::GraphAccepted, Reason::AwaitingReconciliation);
            self.set(kind, ConditionStatus::Unknown, reason, message);
        }
    }

    pub(super) fn resolved(&mut self, number: i64) {
        let message = format!("revision {number} compiled and active");
        self.set(ConditionType::GraphRevisionsResolved, ConditionStatus::True, Reason::Resolved, &message);
    }

    /// A revision was issued. It is compiled already, but kro's condition changes here, and with it the transition time.
    pub(super) fn compiling(&mut self, number: i64) {
        let message = format!("graph revision {number} issued and awaiting compilation");
        let reason = Reason::WaitingForGraphRevisionCompilation;
        self.set(ConditionType::GraphRevisionsResolved, ConditionStatus::Unknown, reason, &message);
    }

    pub(super) fn settling(&mut self) {
        self.set(
            ConditionType::GraphRevisionsResolved,
            ConditionStatus::Unknown,
            Reason::WaitingForGraphRevisionSettlement,
            "waiting for terminating graph revisions to settle",
        );
    }

    pub(super) fn revision_failed(&mut self, message: &str) {
        self.set(ConditionType::GraphRevisionsResolved, ConditionStatus::False, Reason::Failed, message);
        self.set(ConditionType::GraphAccepted, ConditionStatus::False, Reason::InvalidResourceGraph, message);
    }

    /// The spec is invalid, and the latest revision, which instances would continue with, does not compile either.
    pub(super) fn latest_failed(&mut self, message: &str) {
        self.set(ConditionType::GraphRevisionsResolved, ConditionStatus::False, Reason::Failed, message);
    }

    /// The kind is served. `contested` says who changes its CRD again and again, if anybody does.
    pub(super) fn kind_ready(&mut self, kind: &str, contested: Option<&str>) {
        let mut message = format!("kind {kind} has been accepted and ready");
        if let Some(contested) = contested {
            message.push_str("; its CRD: ");
            message.push_str(contested);
        }
        self.set(ConditionType::KindReady, ConditionStatus::True, Reason::Ready, &message);
    }

    pub(super) fn kind_failed(&mut self, message: &str) {
        self.set(ConditionType::KindReady, ConditionStatus::False, Reason::Failed, message);
    }

    /// The CRD is not established yet.
    pub(super) fn kind_waiting(&mut self, crd: &str) {
        let message = format!("waiting for CRD {crd} to be established");
        self.set(
            ConditionType::KindReady,
            ConditionStatus::Unknown,
            Reason::AwaitingReconciliation,
            &message,
        );
    }

    pub(super) fn running(&mut self) {
        self.set(
            ConditionType::ControllerReady,
            ConditionStatus::True,
            Reason::Running,
            "controller is running",
        );
    }

    /// The definition is being deleted and waits for its instances.
    pub(super) fn waiting_for_instances(&mut self, message: &str) {
        self.set(ConditionType::ControllerReady, ConditionStatus::Unknown, Reason::UnderDeletion, message);
    }

    /// Sets a condition about clusters.
    pub(super) fn cluster(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: &str,
    ) {
        self.set(kind, status, reason, &truncate(message, MAX_MESSAGE));
    }

    /// The graph fits its clusters, as far as they are known; the warnings are about clusters that depend on the instance.
    pub(super) fn analyzed(&mut self, reason: Reason, message: &str, warnings: Option<&str>) {
        let message = match warnings {
            Some(warnings) => format!("{message}; warnings, assuming the schemas of the hub: {warnings}"),
            None => message.to_owned(),
        };
        self.has_warnings = warnings.is_some();
        self.cluster(ConditionType::StaticAnalysisComplete, ConditionStatus::True, reason, &message);
    }

    /// Whether a condition is true or false for the current generation.
    pub(super) fn is_settled(&self, kind: ConditionType) -> bool {
        self.conditions.get(kind).is_some_and(|condition| {
            condition.status != ConditionStatus::Unknown
                && condition.observed_generation.unwrap_or(0) == self.generation
        })
    }

    /// The clusters that the spec names do not accept it, or have not yet.
    pub(super) fn not_accepted_by_clusters(&mut self) {
        self.accepted_by_clusters = false;
    }

    fn set(&mut self, kind: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        self.conditions.set(kind, status, reason, message, self.now);
    }

    fn status(self) -> ResourceGraphDefinitionStatus {
        let active = [ConditionType::GraphAccepted, ConditionType::KindReady, ConditionType::ControllerReady]
            .into_iter()
            .all(|kind| self.conditions.is_true(kind))
            && self.accepted_by_clusters;
        let Self {
            conditions,
            order,
            resources,
            last_issued,
            accepted_by_clusters: _,
            has_warnings: _,
            generation: _,
            now: _,
        } = self;
        ResourceGraphDefinitionStatus {
            state: Some(if active { DefinitionState::Active } else { DefinitionState::Inactive }),
            topological_order: order,
            resources,
            last_issued_revision: last_issued,
            conditions: conditions.into_list(),
        }
    }

    /// Writes the status if it changed.
    ///
    /// # Errors
    /// The request fails.
    pub(super) async fn write(
        self,
        context: &Context,
        definition: &Definition,
    ) -> Result<(), DefinitionError> {
        let has_warnings = self.has_warnings;
        let status = self.status();
        if status == definition.status {
            return Ok(());
        }
        let patch = patch(&definition.object, &status, &FIELDS);
        let written = context
            .client
            .merge_patch(
                &context.definition_kind,
                None,
                definition.name(),
                Some("status"),
                managers::CONTROLLER,
                &patch,
            )
            .await?;
        context.definitions.observe(&written);
        count_transition(context, definition.status.state, status.state);
        let before = &definition.status.conditions;
        condition_events::emit(context, &definition.object, before, &status.conditions, Health::OfConditions);
        if has_warnings {
            emit_warnings(context, definition, &status.conditions);
        }
        Ok(())
    }
}

/// A merge patch that sets the status of exactly this version of an object. Without the version, the response would go into
/// the cache as our own write and hide a change that somebody else made in between.
pub(super) fn patch(
    object: &kross_cluster::StoredObject,
    status: &impl serde::Serialize,
    fields: &[&str],
) -> Value {
    let mut json = serde_json::to_value(status).unwrap_or_default();
    if let Some(entries) = json.as_object_mut() {
        for field in fields {
            entries.entry(*field).or_insert(serde_json::Value::Null);
        }
    }
    let metadata = Value::object([
        ("uid", Value::from(object.uid().clone())),
        ("resourceVersion", Value::from(object.resource_version().clone())),
    ]);
    Value::object([("metadata", metadata), ("status", Value::from(json))])
}

/// The message of `Ready`, if there is one.
pub(super) fn ready_message(status: &ResourceGraphDefinitionStatus) -> Option<String> {
    let ready = status.conditions.iter().find(|one| one.type_ == ConditionType::Ready.as_str());
    ready.and_then(|ready| ready.message.clone())
}

/// The IDs of the nodes in topological order.
pub(super) fn order(graph: &Graph) -> List<String> {
    let ids: Vec<String> = graph.topological_order().map(ToString::to_string).collect();
    if ids.is_empty() { List::default() } else { ids.into() }
}

/// The resources that depend on others, in topological order.
pub(super) fn resources(graph: &Graph) -> List<ResourceInformation> {
    let mut list = Vec::new();
    for node in graph.order.iter().filter_map(|index| graph.node(*index)) {
        let needed = node.dependencies.iter().filter_map(|needed| graph.node(needed.node));
        let dependencies: Vec<Dependency> =
            needed.map(|node| Dependency { id: node.id.to_string() }).collect();
        if !dependencies.is_empty() {
            list.push(ResourceInformation { id: node.id.to_string(), dependencies: dependencies.into() });
        }
    }
    if list.is_empty() { List::default() } else { list.into() }
}

fn count_transition(context: &Context, from: Option<DefinitionState>, to: Option<DefinitionState>) {
    let word = |state| match state {
        DefinitionState::Active => "Active",
        DefinitionState::Inactive => "Inactive",
    };
    if let (Some(from), Some(to)) = (from, to)
        && from != to
    {
        context
            .metrics
            .definitions
            .transitions
            .get_or_create(&DefinitionTransition { from: word(from), to: word(to) })
            .inc();
    }
}

/// Emits an Event for the warnings of the analysis, if they changed.
fn emit_warnings(context: &Context, definition: &Definition, conditions: &[Condition]) {
    let Some(events) = &context.events else { return };
    let analysis = |condition: &&Condition| condition.type_ == ConditionType::StaticAnalysisComplete.as_str();
    let message =
        |conditions: &[Condition]| conditions.iter().find(analysis).and_then(|found| found.message.clone());
    let note = message(conditions);
    if note == message(&definition.status.conditions) {
        return;
    }
    events.report(Report {
        regarding: Regarding::from(&*definition.object),
        severity: Severity::Warning,
        reason: ConditionType::StaticAnalysisComplete.as_str().to_owned(),
        action: "Reconcile".to_owned(),
        note: note.unwrap_or_default(),
    });
}
