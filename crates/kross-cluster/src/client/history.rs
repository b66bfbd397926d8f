//! What an API server remembers of an object that does not exist any more: a watch from an earlier resource version tells whether
//! it was created since. API servers keep the last minutes.

use std::time::Duration;

use http::StatusCode;
use kross_api::{FailureReason, Operation};
use kross_value::Text;
use tokio::time::{Instant, timeout_at};

use super::{ApiRequest, ApiResponse, ClusterClient, Query, Target};
use crate::audit::AuditVerb;
use crate::cache::decoder::{Event, Lines};
use crate::discovery::{ApiKind, push_encoded};
use crate::error::ApiError;
use crate::object::{StoredObject, read_list};
use crate::transport::ResponseBody;

/// The server is asked to end the watch after this time. It sends what it remembers at once, so a watch that lasted as long has
/// everything; one that ended earlier was cut, or never was a watch.
const HISTORY: Duration = Duration::from_secs(1);
/// How long the whole response may take, however often something of it arrives.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// A `Status` is short.
const MAX_STATUS: usize = 1 << 20;

impl ClusterClient {
    /// The resource version of now: that of a list that begins after this call.
    ///
    /// # Errors
    /// The cluster rejects the request or does not answer.
    pub async fn current_version(&self, kind: &ApiKind, namespace: Option<&str>) -> Result<Text, ApiError> {
        let target = Target { kind, namespace, name: "", operation: Operation::Get };
        let mut path = kind.collection_path(namespace);
        path.push_str("?limit=1");
        let pending = self.begin_audit(AuditVerb::List, kind, namespace, "");
        let response = self.perform(&target, ApiRequest::list(path)).await;
        pending.finish(&response);
        let page = read_list(&response?.body, &kind.api_version(), &kind.kind)
            .map_err(|error| ApiError::unreadable(target.attempt(self), &error))?;
        Ok(page.resource_version.into())
    }

    /// Whether an object of this name existed at any time since a resource version, of those that `is_wanted` accepts.
    ///
    /// # Errors
    /// The API server does not remember that version any more ([`ApiError::is_expired`]), rejects the request, does not answer,
    /// or ends the watch before its time.
    pub async fn existed_since(
        &self,
        kind: &ApiKind,
        (namespace, name): (Option<&str>, &str),
        version: &str,
        is_wanted: impl Fn(&StoredObject) -> bool + Send,
    ) -> Result<bool, ApiError> {
        let target = Target { kind, namespace, name, operation: Operation::Watch };
        let mut path = kind.collection_path(namespace);
        path.push_str(&format!("?watch=true&timeoutSeconds={}&resourceVersion=", HISTORY.as_secs()));
        push_encoded(&mut path, version);
        let fields = format!("metadata.name={name}");
        Query { labels: None, fields: Some(&fields) }.push(&mut path);
        let pending = self.begin_audit(AuditVerb::Watch, kind, namespace, name);
        let began = Instant::now();
        let opened = self.open_watch(path).await;
        let opened = opened.map_err(|error| ApiError::from_transport(target.attempt(self), &error));
        let existed = match opened {
            Ok(response) => {
                let (head, body) = response.into_parts();
                if head.status == StatusCode::OK {
                    self.find_event(&target, body, began, is_wanted).await
                } else {
                    let status = body.read_all(MAX_STATUS, READ_TIMEOUT);
                    let body = timeout_at(began + READ_TIMEOUT, status).await;
                    let body = body.ok().and_then(Result::ok).unwrap_or_default();
                    let response =
                        ApiResponse { status: head.status, headers: head.headers, body, foreign: false };
                    Err(self.response_error(&target, target.attempt(self), &response))
                }
            }
            Err(error) => Err(error),
        };
        pending.finish_with(None, existed.as_ref().err().map(ApiError::reason));
        existed
    }

    /// Reads the events of a watch until one is about a wanted object, or the server ends the watch in its time.
    async fn find_event(
        &self,
        target: &Target<'_>,
        mut body: ResponseBody,
        began: Instant,
        is_wanted: impl Fn(&StoredObject) -> bool,
    ) -> Result<bool, ApiError> {
        let failed = |problem: &str| ApiError::new(target.attempt(self), FailureReason::ServerError, problem);
        let mut lines = Lines::default();
        loop {
            let Ok(chunk) = timeout_at(began + READ_TIMEOUT, body.chunk()).await else {
                return Err(failed("the API server does not end the watch"));
            };
            let chunk = chunk.map_err(|error| ApiError::from_transport(target.attempt(self), &error))?;
            let Some(chunk) = chunk else {
                let is_whole = lines.is_empty() && began.elapsed() >= HISTORY;
                return if is_whole {
                    Ok(false)
                } else {
                    Err(failed("the watch ended early and proves nothing"))
                };
            };
            if lines.push(&chunk).is_err() {
                return Err(failed("an event of the watch is too long"));
            }
            while let Some(line) = lines.next() {
                match Event::read(&line) {
                    Some(Ok(Event::Applied(object) | Event::Deleted(object))) if is_wanted(&object) => {
                        return Ok(true);
                    }
                    Some(Ok(Event::Failed(status))) => {
                        let code = status.code().and_then(|code| StatusCode::from_u16(code).ok());
                        let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                        return Err(ApiError::from_status(target.attempt(self), code, Some(*status), None));
                    }
                    Some(_) => {}
                    None => return Err(failed("the response is not a watch")),
                }
            }
        }
    }
}
