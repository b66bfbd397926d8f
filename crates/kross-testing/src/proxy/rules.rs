//! Rules: which requests they match, and what the proxy does to those.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::request::{Request, Verb};

/// Selects requests. A field that is not set matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Requests {
    /// Selects all requests.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Selects only those with this verb.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Selects only those on this resource: `configmaps`, `deployments.apps`, `deployments.apps/status`, or a path such as
    /// `/readyz`.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Selects only those in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Selects only those on the object with this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Whether this selects a request.
    #[must_use]
    pub fn matches(&self, request: &Request) -> bool {
        let Self { verb, resource, namespace, name } = self;
        verb.is_none_or(|verb| verb == request.verb)
            && resource.as_ref().is_none_or(|resource| *resource == request.resource)
            && (namespace.is_none() || *namespace == request.namespace)
            && (name.is_none() || *name == request.name)
    }
}

/// What the proxy does to a request that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Responds; the API server never receives the request.
    Answer(Answer),
    /// Forwards the request after a delay.
    Delay(Duration),
    /// Never responds.
    Hang,
    /// Forwards the request once the rule is removed.
    Hold,
    /// Resets the connection after this many bytes of the response body.
    CutAfter(u64),
}

/// A response of the proxy: an error as the API server would send it, or one that no API server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    code: u16,
    retry_after: Option<u32>,
    message: Option<String>,
    /// The content type and the body; none for a Kubernetes `Status`.
    content: Option<(&'static str, Bytes)>,
    /// How the body is encoded.
    encoding: Option<&'static str>,
    /// What follows the body again and again, and how long before each time.
    repeated: Option<(Bytes, Duration)>,
}

impl Answer {
    /// An error response with this HTTP status.
    #[must_use]
    pub fn status(code: u16) -> Self {
        Self { code, retry_after: None, message: None, content: None, encoding: None, repeated: None }
    }

    /// The response of a load balancer that does not know the path: plain text. API servers answer a 404 like this too if they do
    /// not serve the kind.
    #[must_use]
    pub fn bare(code: u16) -> Self {
        Self {
            content: Some(("text/plain", format!("{code} page not found\n").into())),
            ..Self::status(code)
        }
    }

    /// The response of a login page or an error page: HTML.
    #[must_use]
    pub fn html(code: u16) -> Self {
        let page = "<!doctype html><html><body><h1>Welcome</h1></body></html>".to_owned();
        Self { content: Some(("text/html", page.into())), ..Self::status(code) }
    }

    /// A response with this JSON.
    #[must_use]
    pub fn json(code: u16, body: &serde_json::Value) -> Self {
        Self { content: Some(("application/json", body.to_string().into())), ..Self::status(code) }
    }

    /// JSON that was compressed before.
    #[must_use]
    pub fn gzip(code: u16, compressed: Vec<u8>) -> Self {
        let content = Some(("application/json", compressed.into()));
        Self { content, encoding: Some("gzip"), ..Self::status(code) }
    }

    /// A response that begins with a text, and goes on with another one for ever, with a pause before each time.
    #[must_use]
    pub fn endless(begin: &str, part: &str, pause: Duration) -> Self {
        let content = Some(("application/json", begin.to_owned().into()));
        Self { content, repeated: Some((part.to_owned().into(), pause)), ..Self::status(200) }
    }

    /// Adds `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Replaces the default message.
    #[must_use]
    pub fn message(mut self, message: &str) -> Self {
        self.message = Some(message.to_owned());
        self
    }

    pub(super) fn code(&self) -> u16 {
        self.code
    }

    pub(super) fn retry_after_seconds(&self) -> Option<u32> {
        self.retry_after
    }

    pub(super) fn content_type(&self) -> &'static str {
        self.content.as_ref().map_or("application/json", |(content_type, _)| content_type)
    }

    pub(super) fn encoding(&self) -> Option<&'static str> {
        self.encoding
    }

    /// What follows the body again and again, and how long before each time.
    pub(super) fn repeated(&self) -> Option<(Bytes, Duration)> {
        self.repeated.clone()
    }

    /// The body: a Kubernetes `Status`, unless the answer has another one.
    pub(super) fn body(&self) -> Bytes {
        if let Some((_, body)) = &self.content {
            return body.clone();
        }
        let (reason, default) = match self.code {
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden by the fault proxy"),
            404 => ("NotFound", "not found by the fault proxy"),
            409 => ("Conflict", "the object has been modified"),
            410 => ("Expired", "too old resource version"),
            429 => ("TooManyRequests", "too many requests, please try again later"),
            500 => ("InternalError", "internal error by the fault proxy"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "the request did not complete in time"),
            _ => ("", "answered by the fault proxy"),
        };
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message.as_deref().unwrap_or(default),
            "reason": reason,
            "code": self.code,
        });
        if let (Some(seconds), Some(fields)) = (self.retry_after, status.as_object_mut()) {
            fields.insert("details".to_owned(), json!({ "retryAfterSeconds": seconds }));
        }
        status.to_string().into()
    }
}

/// Identifies a rule, to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(u64);

/// The rules in effect, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    next: u64,
}

#[derive(Debug)]
struct Rule {
    id: RuleId,
    requests: Requests,
    action: Action,
    /// How many more requests it applies to; none for all.
    remaining: Option<u32>,
}

impl Rules {
    pub(super) fn add(&mut self, requests: Requests, action: Action, times: Option<u32>) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.rules.push(Rule { id, requests, action, remaining: times });
        id
    }

    pub(super) fn remove(&mut self, id: RuleId) {
        self.rules.retain(|rule| rule.id != id);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Whether a rule is still in effect.
    pub(super) fn contains(&self, id: RuleId) -> bool {
        self.rules.iter().any(|rule| rule.id == id)
    }

    /// The first rule that matches this request, with its action. Counts the request against the rule's limit.
    pub(super) fn take(&mut self, request: &Request) -> Option<(RuleId, Action)> {
        let rule =
            self.rules.iter_mut().find(|rule| rule.remaining != Some(0) && rule.requests.matches(request))?;
        if let Some(remaining) = &mut rule.remaining {
            *remaining -= 1;
        }
        Some((rule.id, rule.action.clone()))
    }
}
