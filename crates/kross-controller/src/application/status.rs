//! Report: writes the status of an application if it changed, and emits Events for what changed in it.

use std::sync::Arc;

use kross_api::{ApplicationState, Condition, KubernetesApplicationStatus, Reason};
use kross_cluster::ApiError;
use kross_value::Value;

use super::reconcile::Pass;
use crate::condition_events::{self, Health};
use crate::key::WorkloadKey;
use crate::workload::{self, WorkloadKind};

/// The states of an application that is on its way: the next one follows soon.
const ON_THE_WAY: [ApplicationState; 2] = [ApplicationState::Scheduled, ApplicationState::PartiallySubmitted];

impl Pass<'_> {
    /// Writes a status if it changed. Mere progress is written later, together with what follows.
    pub(super) async fn write_status(&mut self, status: KubernetesApplicationStatus) -> Result<(), ApiError> {
        let uid = self.application.uid().clone();
        let before = read(self.application.value().get("status"));
        if before == status {
            return Ok(());
        }
        if is_progress(&before, &status) {
            if let Some(wait) = self.context.applications.progress_wait(&uid) {
                if let Some(key) = WorkloadKey::of(WorkloadKind::Application, &self.application) {
                    self.context.workload_queue.add_after(&key, wait);
                }
                return Ok(());
            }
        } else {
            self.context.applications.forget_progress(&uid);
        }
        let wire = serde_json::to_value(&status).map(Value::from).unwrap_or_default();
        let (context, application) = (self.context, &self.application);
        let written = workload::write_status(context, WorkloadKind::Application, application, wire).await?;
        condition_events::emit(
            self.context,
            &written,
            &before.conditions,
            &status.conditions,
            Health::OfConditions,
        );
        self.application = Arc::new(written);
        Ok(())
    }
}

fn read(status: Option<&Value>) -> KubernetesApplicationStatus {
    let status = status.map(serde_json::Value::from);
    status.and_then(|status| serde_json::from_value(status).ok()).unwrap_or_default()
}

/// Whether a status only reports that more resources are applied, or deleted.
fn is_progress(before: &KubernetesApplicationStatus, after: &KubernetesApplicationStatus) -> bool {
    let state =
        |status: &KubernetesApplicationStatus| status.state.as_deref().and_then(ApplicationState::parse);
    let is_on_the_way = |status| state(status).is_some_and(|state| ON_THE_WAY.contains(&state));
    let is_deleting = |status| state(status) == Some(ApplicationState::Deleting);
    let is_smooth = |status: &KubernetesApplicationStatus| {
        let reasons = [Reason::Scheduled, Reason::PartiallySubmitted, Reason::Deleting].map(Reason::as_str);
        let has_reason =
            |condition: &Condition| condition.reason.as_deref().is_some_and(|it| reasons.contains(&it));
        status.conditions.iter().all(has_reason)
    };
    let generation = |status: &KubernetesApplicationStatus| {
        status.conditions.first().and_then(|it| it.observed_generation)
    };
    is_smooth(after)
        && generation(before) == generation(after)
        && (is_on_the_way(before) && is_on_the_way(after) || is_deleting(before) && is_deleting(after))
}
