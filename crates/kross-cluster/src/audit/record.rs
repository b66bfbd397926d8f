//! An audit record, and its format: version 1, one JSON object per line.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kross_api::{FailureReason, ObjectKey};
use kross_value::Text;
use serde::{Serialize, Serializer};

use super::AUDIT_TARGET;
use crate::error::ApiError;
use crate::kubeconfig::AuthMethod;

/// The version of the format.
const VERSION: u8 = 1;

/// Something that was attempted in a remote cluster. Never has a payload, a message of a server, or a credential.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    version: u8,
    /// When it began.
    pub time: Timestamp,
    /// The cluster.
    pub cluster: AuditCluster,
    /// The Secret of the credential, as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_text")]
    pub secret: Option<Text>,
    /// The authentication method; not known if the kubeconfig was refused.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "method")]
    pub auth_method: Option<AuthMethod>,
    /// The instance or definition that it was done for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<AuditObject>,
    /// What was attempted.
    pub verb: AuditVerb,
    /// The object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<AuditObject>,
    /// The outcome.
    pub outcome: AuditOutcome,
    /// The class of the failure.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "reason")]
    pub reason: Option<FailureReason>,
    /// The duration.
    #[serde(rename = "durationMs", serialize_with = "milliseconds")]
    pub duration: Duration,
}

/// The cluster of an audit record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditCluster {
    /// Its name.
    #[serde(serialize_with = "text")]
    pub name: Text,
    /// The UID of its `kube-system` namespace, or the address of its server; empty before it is known.
    #[serde(skip_serializing_if = "is_empty", serialize_with = "text")]
    pub uid: Text,
}

/// An object of an audit record. A list or a watch has no name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditObject {
    /// Its API group.
    #[serde(skip_serializing_if = "is_empty", serialize_with = "text")]
    pub group: Text,
    /// Its kind.
    #[serde(serialize_with = "text")]
    pub kind: Text,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_text")]
    pub namespace: Option<Text>,
    /// Its name.
    #[serde(skip_serializing_if = "is_empty", serialize_with = "text")]
    pub name: Text,
}

/// What was attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditVerb {
    /// Connect to the cluster.
    Connect,
    /// Read an object.
    Get,
    /// List objects.
    List,
    /// Watch objects.
    Watch,
    /// Create an object.
    Create,
    /// Apply or patch an object.
    Patch,
    /// Replace an object.
    Update,
    /// Delete an object.
    Delete,
    /// Orphan an object: it stays, and is no longer managed.
    Leave,
    /// Replace the token in a Secret by a new one.
    Renew,
    /// The objects in a cluster are given up, as the instance's owner confirmed.
    Abandon,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditOutcome {
    /// It succeeded.
    Success,
    /// It failed.
    Failure,
}

impl AuditRecord {
    /// A record of something that begins now. Its outcome is success unless set otherwise.
    #[must_use]
    pub fn new(cluster: AuditCluster, verb: AuditVerb) -> Self {
        Self {
            version: VERSION,
            time: Timestamp::now(),
            cluster,
            secret: None,
            auth_method: None,
            instance: None,
            verb,
            object: None,
            outcome: AuditOutcome::Success,
            reason: None,
            duration: Duration::ZERO,
        }
    }

    /// Sets the credential.
    #[must_use]
    pub fn with(mut self, secret: impl Into<Text>, method: Option<AuthMethod>) -> Self {
        self.secret = Some(secret.into());
        self.auth_method = method;
        self
    }

    /// Sets the instance or definition that it is done for.
    #[must_use]
    pub fn on_behalf_of(mut self, instance: Option<&ObjectKey>) -> Self {
        self.instance = instance.map(AuditObject::from);
        self
    }

    /// Sets the object.
    #[must_use]
    pub fn on(mut self, object: AuditObject) -> Self {
        self.object = Some(object);
        self
    }

    /// Sets the outcome to a failure.
    #[must_use]
    pub fn failed(mut self, reason: FailureReason) -> Self {
        self.outcome = AuditOutcome::Failure;
        self.reason = Some(reason);
        self
    }

    /// Sets the outcome and the duration.
    #[must_use]
    pub fn finished<T>(mut self, began: Instant, result: &Result<T, ApiError>) -> Self {
        self.duration = began.elapsed();
        match result {
            Ok(_) => self,
            Err(error) => self.failed(error.reason()),
        }
    }

    /// The line in a file, with a line break.
    pub(super) fn line(&self) -> Vec<u8> {
        // Every field is a text or a number, so serialisation cannot fail.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Emits the record as a log event with one field each.
    pub(super) fn log(&self) {
        let object = |object: &Option<AuditObject>| object.as_ref().map(ToString::to_string);
        tracing::info!(
            target: AUDIT_TARGET,
            time = %self.time,
            cluster = %self.cluster.name,
            cluster_uid = %self.cluster.uid,
            secret = self.secret.as_deref(),
            auth_method = self.auth_method.map(AuthMethod::as_str),
            instance = object(&self.instance),
            verb = self.verb.as_str(),
            object = object(&self.object),
            outcome = if self.outcome == AuditOutcome::Success { "success" } else { "failure" },
            reason = self.reason.map(FailureReason::as_str),
            duration_ms = whole_milliseconds(self.duration),
            "audit"
        );
    }
}

impl AuditCluster {
    /// A cluster whose UID is not known yet.
    #[must_use]
    pub fn named(name: impl Into<Text>) -> Self {
        Self { name: name.into(), uid: "".into() }
    }
}

impl AuditVerb {
    /// The name in a record.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Leave => "leave",
            Self::Abandon => "abandon",
            Self::Renew => "renew",
        }
    }
}

impl From<&ObjectKey> for AuditObject {
    fn from(key: &ObjectKey) -> Self {
        Self {
            group: key.group.clone(),
            kind: key.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

impl std::fmt::Display for AuditObject {
    /// `Kind.group namespace/name`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, kind, namespace, name } = self;
        write!(f, "{kind}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        match namespace {
            Some(namespace) => write!(f, " {namespace}/{name}"),
            None if name.is_empty() => Ok(()),
            None => write!(f, " {name}"),
        }
    }
}

fn is_empty(text: &Text) -> bool {
    text.is_empty()
}

fn whole_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn text<S: Serializer>(text: &Text, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn optional_text<S: Serializer>(text: &Option<Text>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(serializer)
}

fn method<S: Serializer>(method: &Option<AuthMethod>, serializer: S) -> Result<S::Ok, S::Error> {
    method.map(AuthMethod::as_str).serialize(serializer)
}

fn reason<S: Serializer>(reason: &Option<FailureReason>, serializer: S) -> Result<S::Ok, S::Error> {
    reason.map(FailureReason::as_str).serialize(serializer)
}

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_milliseconds(*duration))
}
