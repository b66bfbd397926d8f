//! Report: writes phase and conditions of a claim if they changed, and emits Events for what changed in them.

use jiff::Timestamp;
use kross_api::{ConditionSet, ConditionType, KubernetesClusterStatus, Reason};
use kross_cluster::ApiError;
use kross_plan::workload::ClaimReport;

use super::pass::Pass;
use crate::condition_events::{self, Health};
use crate::workload::{self, WorkloadKind};

impl Pass<'_> {
    /// Writes what the planner reports.
    pub(super) async fn report(&mut self, report: ClaimReport) -> Result<(), ApiError> {
        let now = Timestamp::now();
        let dependents = report.dependents.iter().copied();
        let mut set = ConditionSet::new(dependents, self.object.facts(), &self.status.conditions, now);
        for condition in report.conditions {
            set.set(condition.kind, condition.status, condition.reason, condition.message, now);
        }
        self.write(Some(report.phase.as_str().to_owned()), set).await
    }

    /// Reports a request that failed. Everything else stays as it is.
    pub(super) async fn report_failure(&mut self, error: &ApiError) -> Result<(), ApiError> {
        let now = Timestamp::now();
        let dependents = ConditionType::CLAIM.iter().copied();
        let mut set = ConditionSet::new(dependents, self.object.facts(), &self.status.conditions, now);
        set.set_false(ConditionType::Synced, Reason::RequestFailed, error.to_string(), now);
        self.write(self.status.binding_phase.clone(), set).await
    }

    async fn write(&mut self, phase: Option<String>, set: ConditionSet) -> Result<(), ApiError> {
        let status = KubernetesClusterStatus { binding_phase: phase, conditions: set.into_list() };
        if status == self.status {
            return Ok(());
        }
        let json = serde_json::to_value(&status).unwrap_or_default();
        let written =
            workload::write_status(self.context, WorkloadKind::Claim, &self.object, json.into()).await?;
        let before = std::mem::take(&mut self.status.conditions);
        self.observe_claim(written);
        condition_events::emit(self.context, &self.object, &before, &status.conditions, Health::OfConditions);
        Ok(())
    }
}
