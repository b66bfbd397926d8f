//! Says which objects an instance lets go of without deleting them: in Events, in the audit log and in the log. Each of them
//! once, and none that goes after all.

use kross_cluster::{
    AuditCluster, AuditObject, AuditOutcome, AuditRecord, AuditVerb, ObjectKey, Regarding, Severity,
    StoredObject,
};
use kross_plan::{PendingDeletion, UsedCluster};

use super::apply::Released;
use super::memory::Memory;
use crate::context::Context;

/// How long an Event gets.
const LONGEST_NOTE: usize = 900;

/// Who lets go, and of what where.
pub(super) struct ReleaseReport<'a> {
    pub(super) context: &'a Context,
    pub(super) instance: &'a StoredObject,
    pub(super) clusters: &'a [UsedCluster],
}

impl ReleaseReport<'_> {
    /// Tells of objects that were released, or could not be and are left as they are.
    pub(super) fn released(&self, released: &Released, memory: &mut Memory) {
        let (left, kept): (Vec<&PendingDeletion>, Vec<&PendingDeletion>) =
            released.parted.iter().partition(|pending| pending.why.is_some());
        let (kept, left) = (news(kept, memory), news(left, memory));
        self.tell("Retained", Severity::Normal, "stays, without an owner", &kept);
        self.tell("LeftBehind", Severity::Warning, "is left behind", &left);
        for pending in kept.iter().chain(&left) {
            self.audit(pending, None);
        }
        let stuck: Vec<&PendingDeletion> = released.stuck.iter().map(|(pending, _)| pending).collect();
        let stuck = news(stuck, memory);
        let what = "is left behind with our labels, which could not be removed";
        self.tell("LeftBehind", Severity::Warning, what, &stuck);
        for (pending, reason) in released.stuck.iter().filter(|(pending, _)| stuck.contains(pending)) {
            self.audit(pending, Some(*reason));
        }
    }

    /// Tells of objects in clusters that do not answer, which nobody waits for any more.
    pub(super) fn orphaned(&self, deletions: &[PendingDeletion], memory: &mut Memory) {
        let news = news(deletions, memory);
        let what = "is left behind with our labels, since its cluster does not answer";
        self.tell("LeftBehind", Severity::Warning, what, &news);
        for pending in &news {
            self.audit(pending, None);
        }
    }

    fn tell(&self, reason: &str, severity: Severity, what: &str, deletions: &[PendingDeletion]) {
        let Some((first, others)) = deletions.split_first() else { return };
        let owner = self.instance.key(self.context.client.cluster());
        for pending in deletions {
            let why = pending.why.as_deref().unwrap_or_default();
            tracing::info!(instance = %owner, object = %self.describe(&pending.key), why, "{what}");
        }
        let mut note = match &first.why {
            Some(why) => format!("{} {what}: {why}", self.describe(&first.key)),
            None => format!("{} {what}", self.describe(&first.key)),
        };
        for (told, pending) in others.iter().enumerate() {
            let next = format!("; {}", self.describe(&pending.key));
            if note.len() + next.len() > LONGEST_NOTE {
                note.push_str(&format!("; and {} more", others.len() - told));
                break;
            }
            note.push_str(&next);
        }
        if let Some(events) = &self.context.events {
            events.report(kross_cluster::Report {
                regarding: Regarding::from(self.instance),
                severity,
                reason: reason.to_owned(),
                action: "Delete".to_owned(),
                note,
            });
        }
    }

    /// Every one of them, where Events may be cut short.
    fn audit(&self, pending: &PendingDeletion, failure: Option<kross_api::FailureReason>) {
        let cluster = &pending.key.cluster;
        let mut named = AuditCluster::named(self.display(&pending.key).unwrap_or("local"));
        named.uid = if cluster.is_local() { "".into() } else { cluster.as_str().into() };
        let owner = self.instance.key(self.context.client.cluster());
        let mut record = AuditRecord::new(named, AuditVerb::Leave)
            .on_behalf_of(Some(&owner))
            .on(AuditObject::from(&pending.key));
        if let Some(reason) = failure {
            record.outcome = AuditOutcome::Failure;
            record.reason = Some(reason);
        }
        self.context.settings.clusters.audit.record(record);
    }

    fn display(&self, key: &ObjectKey) -> Option<&str> {
        let used = self.clusters.iter().find(|used| used.id == key.cluster);
        used.map(|used| used.reference.display.as_str())
    }

    fn describe(&self, key: &ObjectKey) -> String {
        let object = format!("{} {}", key.kind, key.namespaced_name());
        match self.display(key) {
            Some(cluster) => format!("{object} in cluster `{cluster}`"),
            None => object,
        }
    }
}

/// Those of whom nobody was told yet.
fn news<'a>(
    deletions: impl IntoIterator<Item = &'a PendingDeletion>,
    memory: &mut Memory,
) -> Vec<PendingDeletion> {
    // Of some it is known what they are called, and nothing else.
    let known = |pending: &PendingDeletion| match pending.uid.as_str() {
        "" => pending.key.to_string().into(),
        _ => pending.uid.clone(),
    };
    let news =
        deletions.into_iter().filter(|pending| memory.told.insert(known(pending)) && !pending.reported);
    news.cloned().collect()
}
