//! Turns an API server's audit log into who asked for what: the one place that counts every request, whoever sent it.

use std::path::PathBuf;

use kross_local::{ControlPlane, StartError};
use serde::Deserialize;
use tempfile::TempDir;

const POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [{"level": "Metadata"}]}"#;

/// The audit log of one control plane. Its files go with this value.
#[derive(Debug)]
pub struct AuditLog {
    directory: TempDir,
}

/// A request as the API server saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditedRequest {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Its path with the query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// What the client calls itself.
    pub user_agent: String,
    /// What it is about; none for pages such as `/readyz`.
    pub object_ref: Option<AuditedObject>,
    /// The answer.
    pub response_status: AuditedAnswer,
}

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditedObject {
    /// The resource, such as `configmaps`.
    pub resource: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `status`, for instance.
    pub subresource: String,
}

/// An answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AuditedAnswer {
    /// Its status.
    pub code: u16,
}

impl AuditLog {
    /// Starts a control plane with a log of its own.
    ///
    /// # Errors
    /// It does not start.
    ///
    /// # Panics
    /// There is no temporary directory.
    #[expect(clippy::expect_used, reason = "a test without a temporary directory cannot go on")]
    pub async fn start(name: &str) -> Result<(ControlPlane, Self), StartError> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = Self { directory };
        std::fs::write(log.path("policy.json"), POLICY).expect("a file in the temporary directory");
        let plane = ControlPlane::named(name)
            .api_server_flag(format!("--audit-policy-file={}", log.path("policy.json").display()))
            .api_server_flag(format!("--audit-log-path={}", log.path("log").display()))
            // Written before the answer is sent: whoever has an answer finds its record.
            .api_server_flag("--audit-log-mode=blocking")
            .start()
            .await?;
        Ok((plane, log))
    }

    /// Everything that clients of this user agent asked for so far, watches, leases and pages apart. The agent is a prefix.
    #[must_use]
    pub fn requests(&self, user_agent: &str) -> Vec<AuditedRequest> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str::<AuditedRequest>(line).ok())
            .filter(|request| request.user_agent.starts_with(user_agent) && request.verb != "watch")
            .filter(|request| request.object().is_some_and(|object| object.resource != "leases"))
            .collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl AuditedRequest {
    /// What it is about, if it is about an object.
    #[must_use]
    pub fn object(&self) -> Option<&AuditedObject> {
        self.object_ref.as_ref()
    }

    /// Whether it writes an Event.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.object().is_some_and(|object| object.resource == "events")
    }
}
