//! Reports the objects that an instance releases or orphans instead of deleting them, in Events, in the audit log and in the
//! log. Each is reported once, and none that is deleted after all.

use kross_api::{ClusterId, EventReason, FailureReason, RecordedCluster};
use kross_cluster::{
    AuditCluster, AuditObject, AuditOutcome, AuditRecord, AuditVerb, ObjectKey, StoredObject,
};
use kross_plan::{PendingDeletion, UsedCluster};

use super::delete::Released;
use super::memory::Memory;
use super::pass::Pass;
use crate::context::Context;
use crate::events;
use crate::secret_users;

/// The longest note of an Event.
const MAX_NOTE: usize = 900;

impl Pass<'_> {
    /// Reports objects that were released, and those that could not be and are orphaned with our labels.
    pub(super) fn report_released(&mut self, released: &Released, clusters: &[UsedCluster]) {
        let report = ReleaseReport { context: self.context, instance: &self.instance, clusters };
        let (late, retained): (Vec<&PendingDeletion>, Vec<&PendingDeletion>) =
            released.released.iter().partition(|pending| pending.why.is_some());
        let retained = unreported(retained, self.memory);
        let late = unreported(late, self.memory);
        report.emit(EventReason::Retained, "is retained; its ownership labels were removed", &retained);
        let what = "is orphaned; its ownership labels were removed";
        report.emit(EventReason::LeftBehind, what, &late);
        for pending in retained.iter().chain(&late) {
            report.audit(pending, None);
        }
        let orphaned = unreported(released.orphaned.iter().map(|(pending, _)| pending), self.memory);
        let what = "is orphaned; its ownership labels could not be removed";
        report.emit(EventReason::LeftBehind, what, &orphaned);
        for (pending, reason) in released.orphaned.iter().filter(|(pending, _)| orphaned.contains(pending)) {
            report.audit(pending, Some(*reason));
        }
    }

    /// Reports objects in unreachable clusters that are orphaned.
    pub(super) fn report_orphaned(&mut self, deletions: &[PendingDeletion], clusters: &[UsedCluster]) {
        let report = ReleaseReport { context: self.context, instance: &self.instance, clusters };
        let orphaned = unreported(deletions, self.memory);
        let what = "is orphaned with its ownership labels, because its cluster is unreachable";
        report.emit(EventReason::LeftBehind, what, &orphaned);
        for pending in &orphaned {
            report.audit(pending, None);
        }
    }
}

/// Reports that the objects of an instance in a cluster that its reference no longer resolves to are orphaned.
pub(super) fn abandoned(context: &Context, instance: &StoredObject, cluster: &RecordedCluster) {
    let kinds: Vec<String> = cluster.contents.group_kinds.iter().map(ToString::to_string).collect();
    let note = format!(
        "objects in cluster `{}` ({}) are orphaned, as an annotation requests: {}",
        cluster.name,
        cluster.uid,
        if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
    );
    tracing::warn!(
        instance = %instance.key(context.client.cluster()),
        cluster = cluster.name,
        uid = cluster.uid,
        kinds = kinds.join(","),
        "orphaned the objects in a cluster, as an annotation requests"
    );
    audit_abandoned(context, instance, cluster);
    events::emit(context, instance, EventReason::ClusterGivenUp, "Reconcile", note);
}

/// Records in the audit log that the objects in a cluster are given up: one record for each kind, or one without an object.
fn audit_abandoned(context: &Context, instance: &StoredObject, cluster: &RecordedCluster) {
    let owner = instance.key(context.client.cluster());
    let mut named = AuditCluster::named(cluster.name.as_str());
    named.uid = cluster.uid.as_str().into();
    let secret = secret_users::secret_of(&cluster.reference).map(|secret| secret.to_string());
    let record = AuditRecord::new(named, AuditVerb::Abandon)
        .with(secret.unwrap_or_default(), None)
        .on_behalf_of(Some(&owner));
    let audit = &context.settings.clusters.audit;
    if cluster.contents.group_kinds.is_empty() {
        return audit.record(record);
    }
    for kind in &cluster.contents.group_kinds {
        let key = ObjectKey {
            cluster: ClusterId::new(&cluster.uid),
            group: kind.group.as_str().into(),
            kind: kind.kind.as_str().into(),
            namespace: None,
            name: "".into(),
        };
        audit.record(record.clone().on(AuditObject::from(&key)));
    }
}

/// The instance that releases objects, and the clusters that they are in.
struct ReleaseReport<'a> {
    context: &'a Context,
    instance: &'a StoredObject,
    clusters: &'a [UsedCluster],
}

impl ReleaseReport<'_> {
    /// Emits one Event for all objects, and a line in the log for each.
    fn emit(&self, reason: EventReason, what: &str, deletions: &[PendingDeletion]) {
        let Some((first, others)) = deletions.split_first() else { return };
        let instance = self.instance.key(self.context.client.cluster());
        for pending in deletions {
            let why = pending.why.as_deref().unwrap_or_default();
            tracing::info!(%instance, object = %self.describe(&pending.key), %reason, what, why, "object is not deleted");
        }
        let first = match &first.why {
            Some(why) => format!("{} {what}: {why}", self.describe(&first.key)),
            None => format!("{} {what}", self.describe(&first.key)),
        };
        let others = others.iter().map(|pending| self.describe(&pending.key));
        let note = listed(first, others);
        events::emit(self.context, self.instance, reason, "Delete", note);
    }

    /// Records one object in the audit log, which has every one of them, where an Event may be truncated.
    fn audit(&self, pending: &PendingDeletion, failure: Option<FailureReason>) {
        let cluster = &pending.key.cluster;
        let mut named = AuditCluster::named(self.display(&pending.key).unwrap_or("local"));
        named.uid = if cluster.is_local() { "".into() } else { cluster.claim().into() };
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
        described(key, self.display(key))
    }
}

/// An object, and the name of its cluster unless it is in the hub.
pub(super) fn described(key: &ObjectKey, cluster: Option<&str>) -> String {
    let object = format!("{} {}", key.kind, key.namespaced_name());
    match cluster {
        Some(cluster) => format!("{object} in cluster `{cluster}`"),
        None => object,
    }
}

/// A note about one object that goes on with others, as many as an Event has space for.
pub(super) fn listed(first: String, others: impl ExactSizeIterator<Item = String>) -> String {
    let (mut note, all) = (first, others.len());
    for (count, next) in others.enumerate() {
        if note.len() + next.len() > MAX_NOTE {
            note.push_str(&format!("; and {} more", all - count));
            break;
        }
        note.push_str("; ");
        note.push_str(&next);
    }
    note
}

/// Those that were not reported yet. From now on they are.
fn unreported<'a>(
    deletions: impl IntoIterator<Item = &'a PendingDeletion>,
    memory: &mut Memory,
) -> Vec<PendingDeletion> {
    // The UID of an object that only the status or the inventory tells of may be unknown.
    let identity = |pending: &PendingDeletion| match pending.uid.as_str() {
        "" => pending.key.to_string().into(),
        _ => pending.uid.clone(),
    };
    let deletions = deletions.into_iter();
    let unreported =
        deletions.filter(|pending| memory.reported_releases.insert(identity(pending)) && !pending.reported);
    unreported.cloned().collect()
}
