//! Runs a control plane with an audit log and reads the requests from it. The audit log has every request, whichever client
//! and connection it came by.

use std::path::PathBuf;

use kross_local::{ControlPlane, StartError};
use serde::Deserialize;
use tempfile::TempDir;

const POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [{"level": "Metadata"}]}"#;

/// The audit log of one control plane. Its files are deleted when this value is dropped.
#[derive(Debug)]
pub struct AuditLog {
    directory: TempDir,
}

/// A request as the API server recorded it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditedRequest {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The path with the query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// The `User-Agent` of the client.
    pub user_agent: String,
    /// Who sent it.
    pub user: AuditedUser,
    /// The user that it was made as, if that is another one.
    pub impersonated_user: Option<AuditedUser>,
    /// The object or collection; none for paths that are no resource, such as `/readyz`.
    pub object_ref: Option<AuditedObject>,
    /// The response.
    pub response_status: AuditedAnswer,
}

/// A user, as the API server knows the credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AuditedUser {
    /// The name, such as `system:serviceaccount:shop:viewer`.
    pub username: String,
}

/// The object or collection of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditedObject {
    /// The resource, such as `configmaps`.
    pub resource: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name; empty for collections.
    pub name: String,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: String,
}

/// The response to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AuditedAnswer {
    /// The HTTP status.
    pub code: u16,
}

impl AuditLog {
    /// Starts a control plane that writes an audit log.
    ///
    /// # Errors
    /// The control plane does not start.
    ///
    /// # Panics
    /// No temporary directory can be created.
    #[expect(clippy::expect_used, reason = "the test cannot run without a temporary directory")]
    pub async fn start(name: &str) -> Result<(ControlPlane, Self), StartError> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = Self { directory };
        std::fs::write(log.path("policy.json"), POLICY).expect("a file in the temporary directory");
        let plane = ControlPlane::named(name)
            .api_server_flag(format!("--audit-policy-file={}", log.path("policy.json").display()))
            .api_server_flag(format!("--audit-log-path={}", log.path("log").display()))
            // Blocking: the record is written before the response is sent, so a client that has a response finds its record.
            .api_server_flag("--audit-log-mode=blocking")
            .start()
            .await?;
        Ok((plane, log))
    }

    /// The requests so far of clients whose user agent has this prefix, without watches, Leases and paths that are no
    /// resource.
    #[must_use]
    pub fn requests(&self, user_agent: &str) -> Vec<AuditedRequest> {
        let mut requests = self.all_requests(user_agent);
        requests.retain(|request| {
            request.verb != "watch" && request.object().is_some_and(|object| object.resource != "leases")
        });
        requests
    }

    /// Every request so far of clients whose user agent has this prefix; watches once they have ended.
    #[must_use]
    pub fn all_requests(&self, user_agent: &str) -> Vec<AuditedRequest> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str::<AuditedRequest>(line).ok())
            .filter(|request| request.user_agent.starts_with(user_agent))
            .collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl AuditedRequest {
    /// The object or collection, if the path is a resource.
    #[must_use]
    pub fn object(&self) -> Option<&AuditedObject> {
        self.object_ref.as_ref()
    }

    /// Whether it creates or updates an Event.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.object().is_some_and(|object| object.resource == "events")
    }
}
