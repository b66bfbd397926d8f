//! Audit of the requests to a remote cluster: who did what to which object with which credential, the outcome and the
//! duration.

use std::sync::Arc;
use std::time::Instant;

use kross_api::FailureReason;
use kross_value::Text;

use super::ClusterClient;
use crate::audit::{Audit, AuditCluster, AuditObject, AuditRecord, AuditVerb};
use crate::discovery::ApiKind;
use crate::error::ApiError;
use crate::kubeconfig::AuthMethod;
use crate::object::{ClusterId, ObjectKey};

/// Where the audit records of a client go, and what they say about its cluster and credential.
pub(crate) struct AuditTrail {
    pub(crate) audit: Audit,
    pub(crate) cluster: AuditCluster,
    pub(crate) secret: Text,
    pub(crate) method: AuthMethod,
}

impl AuditTrail {
    /// Begins the record of a request.
    pub(crate) fn begin(&self, verb: AuditVerb) -> PendingAudit {
        let record = AuditRecord::new(self.cluster.clone(), verb);
        let record = record.with(self.secret.clone(), Some(self.method));
        PendingAudit { began: Instant::now(), pending: Some((self.audit.clone(), record)) }
    }
}

/// The audit record of a request that has begun. It is written when the request ends, also if its future is dropped.
pub(crate) struct PendingAudit {
    began: Instant,
    /// `None` if the client is not audited.
    pending: Option<(Audit, AuditRecord)>,
}

impl PendingAudit {
    /// Writes the record with the outcome of a request.
    pub(crate) fn finish<T>(mut self, result: &Result<T, ApiError>) {
        if let Some((audit, record)) = self.pending.take() {
            audit.record(record.finished(self.began, result));
        }
    }

    /// Writes the record of something that is not a request for an object.
    pub(crate) fn finish_with(mut self, uid: Option<&Text>, failure: Option<FailureReason>) {
        if let Some((audit, mut record)) = self.pending.take() {
            record.duration = self.began.elapsed();
            if let Some(uid) = uid {
                record.cluster.uid = uid.clone();
            }
            audit.record(match failure {
                Some(reason) => record.failed(reason),
                None => record,
            });
        }
    }

    /// Writes no record, because nothing was sent.
    pub(crate) fn discard(mut self) {
        self.pending = None;
    }
}

impl Drop for PendingAudit {
    fn drop(&mut self) {
        if let Some((audit, mut record)) = self.pending.take() {
            record.duration = self.began.elapsed();
            audit.record(record.failed(FailureReason::Timeout));
        }
    }
}

impl ClusterClient {
    /// The same client, with its cluster under this name in the audit log. Otherwise that is the name of its Secret.
    #[must_use]
    pub fn known_as(&self, name: &str) -> Self {
        let Some(trail) = &self.audit_trail else { return self.clone() };
        let cluster = AuditCluster { name: name.into(), uid: trail.cluster.uid.clone() };
        let (audit, secret) = (trail.audit.clone(), trail.secret.clone());
        self.audited(AuditTrail { audit, cluster, secret, method: trail.method })
    }

    /// The same client of a remote cluster, with its requests in the audit log as those of a user: with the credential of a Secret
    /// that the user may read.
    #[must_use]
    pub fn audited_as(&self, user: &str, audit: &Audit, secret: &str, method: AuthMethod) -> Self {
        let cluster = AuditCluster { name: secret.into(), uid: "".into() };
        let trail = AuditTrail { audit: audit.clone(), cluster, secret: secret.into(), method };
        let requester = ObjectKey {
            cluster: ClusterId::local(),
            group: "".into(),
            kind: "User".into(),
            namespace: None,
            name: user.into(),
        };
        self.audited(trail).on_behalf_of(&requester)
    }

    /// The same client, with its requests audited.
    pub(crate) fn audited(&self, audit_trail: AuditTrail) -> Self {
        Self { audit_trail: Some(Arc::new(audit_trail)), ..self.clone() }
    }

    /// Begins the record of a request for an object, or for the objects of a kind if the name is empty.
    pub(crate) fn begin_audit(
        &self,
        verb: AuditVerb,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
    ) -> PendingAudit {
        let Some(audit_trail) = &self.audit_trail else {
            return PendingAudit { began: Instant::now(), pending: None };
        };
        let mut pending = audit_trail.begin(verb);
        pending.pending = pending.pending.take().map(|(audit, record)| {
            let object = AuditObject {
                group: kind.group.clone(),
                kind: kind.kind.clone(),
                namespace: namespace.map(Into::into),
                name: name.into(),
            };
            (audit, record.on(object).on_behalf_of(self.requester()))
        });
        pending
    }
}
