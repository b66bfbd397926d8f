//! Turns what a pass found out into the definition's status, written only when it changed, and into Events.

use jiff::Timestamp;
use kross_api::{
    Condition, ConditionSet, ConditionStatus, ConditionType, DefinitionState, Dependency, List, Reason,
    ResourceGraphDefinitionStatus, ResourceInformation, managers,
};
use kross_cluster::{Regarding, Severity};
use kross_graph::Graph;
use kross_value::Value;

use super::error::DefinitionError;
use super::object::Definition;
use crate::context::Context;
use crate::metrics::DefinitionTransition;

/// The fields of the status. All are written, so that what is gone is removed.
const FIELDS: [&str; 5] = ["state", "topologicalOrder", "resources", "lastIssuedRevision", "conditions"];

/// The longest message about clusters.
const LONGEST: usize = 4096;

/// What is known about a definition so far.
#[derive(Clone, Debug)]
pub(super) struct Report {
    conditions: ConditionSet,
    order: List<String>,
    resources: List<ResourceInformation>,
    last_issued: Option<i64>,
    /// The spec is not accepted by the clusters that it names.
    held: bool,
    generation: i64,
    now: Timestamp,
}

impl Report {
    /// Begins with what the status says.
    pub(super) fn new(definition: &Definition, clusters: bool, now: Timestamp) -> Self {
        let status = &definition.status;
        let clusters = if clusters { ConditionType::DEFINITION_CLUSTERS } else { &[] };
        let dependents = ConditionType::DEFINITION.iter().chain(clusters).copied();
        Self {
            conditions: ConditionSet::new(dependents, definition.facts(), &status.conditions, now),
            order: status.topological_order.clone(),
            resources: status.resources.clone(),
            last_issued: status.last_issued_revision,
            held: false,
            generation: definition.facts().generation,
            now,
        }
    }

    /// The highest revision number that was ever given out.
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

    /// The schemas that it needs cannot be fetched: what was found out about this generation stands, else that is why nothing
    /// is known.
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

    /// A revision was issued. It is compiled already, but kro's condition turns, and its transition time with it.
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

    /// Beside an invalid edit: what instances would go on with does not compile either.
    pub(super) fn last_good_failed(&mut self, message: &str) {
        self.set(ConditionType::GraphRevisionsResolved, ConditionStatus::False, Reason::Failed, message);
    }

    pub(super) fn kind_ready(&mut self, kind: &str) {
        let message = format!("kind {kind} has been accepted and ready");
        self.set(ConditionType::KindReady, ConditionStatus::True, Reason::Ready, &message);
    }

    pub(super) fn kind_failed(&mut self, message: &str) {
        self.set(ConditionType::KindReady, ConditionStatus::False, Reason::Failed, message);
    }

    /// The API server has the CRD and does not serve it yet.
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

    /// One of the conditions about clusters.
    pub(super) fn cluster(
        &mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: &str,
    ) {
        let message = if message.len() > LONGEST { shorten(message) } else { message.to_owned() };
        self.set(kind, status, reason, &message);
    }

    /// Whether a condition says yes or no about the spec as it is.
    pub(super) fn is_settled(&self, kind: ConditionType) -> bool {
        self.conditions.get(kind).is_some_and(|condition| {
            condition.status != ConditionStatus::Unknown
                && condition.observed_generation.unwrap_or(0) == self.generation
        })
    }

    /// The clusters that the spec names do not accept it, or have not yet.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    fn set(&mut self, kind: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        self.conditions.set(kind, status, reason, message, self.now);
    }

    fn status(self) -> ResourceGraphDefinitionStatus {
        let active = [ConditionType::GraphAccepted, ConditionType::KindReady, ConditionType::ControllerReady]
            .into_iter()
            .all(|kind| self.conditions.is_true(kind))
            && !self.held;
        let Self { conditions, order, resources, last_issued, held: _, generation: _, now: _ } = self;
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
    /// The cluster refuses or does not answer.
    pub(super) async fn write(
        self,
        context: &Context,
        definition: &Definition,
    ) -> Result<(), DefinitionError> {
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
        tell(context, definition, &status.conditions);
        Ok(())
    }
}

/// A merge patch that makes the status of exactly this version of an object the given one. Of another one we would not hear:
/// what comes back to us is ours, and whoever changed it in between would not be noticed.
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

fn shorten(message: &str) -> String {
    let mut end = LONGEST;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", message.get(..end).unwrap_or_default())
}

/// The ids in topological order.
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
            .transitions
            .get_or_create(&DefinitionTransition { from: word(from), to: word(to) })
            .inc();
    }
}

/// Tells of every condition that turned false, and of `Ready` whenever it changed.
fn tell(context: &Context, definition: &Definition, conditions: &[Condition]) {
    let Some(events) = &context.events else { return };
    for condition in conditions {
        let before = definition.status.conditions.iter().find(|other| other.type_ == condition.type_);
        let before = before.map(|before| before.status);
        let worth_telling =
            condition.type_ == ConditionType::Ready.as_str() || condition.status == ConditionStatus::False;
        if before == Some(condition.status) || !worth_telling {
            continue;
        }
        let good = condition.status == ConditionStatus::True;
        let (before, after) = (before.map_or("none", ConditionStatus::as_str), condition.status.as_str());
        events.report(kross_cluster::Report {
            regarding: Regarding::from(&*definition.object),
            severity: if good { Severity::Normal } else { Severity::Warning },
            reason: condition.type_.clone(),
            action: "Reconcile".to_owned(),
            note: format!("{before} -> {after}: {}", condition.reason.as_deref().unwrap_or_default()),
        });
    }
}
