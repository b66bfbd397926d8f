//! Turns what is done over a connection to another cluster into audit records: who did what on which object with which
//! credential, how it went and how long it took.

use std::sync::Arc;
use std::time::Instant;

use kross_api::FailureReason;
use kross_value::Text;

use super::ClusterClient;
use crate::audit::{Audit, AuditCluster, AuditObject, AuditRecord, AuditVerb};
use crate::discovery::ApiKind;
use crate::error::ApiError;
use crate::kubeconfig::AuthMethod;

/// Where the records of a connection go, and what they say about it.
pub(crate) struct AuditTrail {
    pub(crate) audit: Audit,
    pub(crate) cluster: AuditCluster,
    pub(crate) secret: Text,
    pub(crate) method: AuthMethod,
}

impl AuditTrail {
    /// Something begins.
    pub(crate) fn begin(&self, verb: AuditVerb) -> PendingAudit {
        let record = AuditRecord::new(self.cluster.clone(), verb);
        let record = record.with(self.secret.clone(), Some(self.method));
        PendingAudit { began: Instant::now(), pending: Some((self.audit.clone(), record)) }
    }
}

/// Something that has begun. It is written down when it ends, and also when it is given up in the middle.
pub(crate) struct PendingAudit {
    began: Instant,
    /// None where nothing is written down.
    pending: Option<(Audit, AuditRecord)>,
}

impl PendingAudit {
    /// How it ended.
    pub(crate) fn finish<T>(mut self, result: &Result<T, ApiError>) {
        if let Some((audit, record)) = self.pending.take() {
            audit.record(record.ended(self.began, result));
        }
    }

    /// The same for what is no request on an object.
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
}

impl PendingAudit {
    /// It did not even begin.
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
    /// The same connection with its doings written down.
    pub(crate) fn audited(&self, audit_trail: AuditTrail) -> Self {
        Self { audit_trail: Some(Arc::new(audit_trail)), ..self.clone() }
    }

    /// Something begins on an object, or on those of a kind where there is no name.
    pub(crate) fn pending(
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
