//! The admission webhook: turns an AdmissionReview about a definition into one with the answer, which lists every mistake as a
//! cause, so that `kubectl apply` prints them one below the other.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use kross_controller::{Cause, DefinitionValidator, Submission, Validation};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};
use tokio::time::timeout;

/// The path, named as controller-runtime names those of its webhooks.
pub const WEBHOOK_PATH: &str = "/validate-kro-run-v1alpha1-resourcegraphdefinition";
/// The longest request: two versions of an object, each as large as etcd stores them.
const MAX_REQUEST_BYTES: usize = 4 << 20;
/// How long sending a request may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time for a request, also where the API server waits longer, or does not say how long.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);
/// The part of the time that is left for the way back.
const RESERVE: Duration = Duration::from_secs(1);
/// The version of AdmissionReviews.
const VERSION: &str = "admission.k8s.io/v1";

/// An AdmissionReview with a request, as far as it matters. The objects stay text until there is a place to read them.
#[derive(Deserialize)]
struct Review<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'a str,
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    uid: String,
    #[serde(default)]
    name: String,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow, rename = "oldObject")]
    old: Option<&'a RawValue>,
}

/// The page of the webhook.
pub fn webhook_pages(validator: DefinitionValidator) -> Router {
    Router::new().route(WEBHOOK_PATH, post(review)).with_state(Arc::new(validator))
}

async fn review(
    State(validator): State<Arc<DefinitionValidator>>,
    RawQuery(query): RawQuery,
    body: Body,
) -> Response {
    let body = match timeout(SEND_TIMEOUT, to_bytes(body, MAX_REQUEST_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return bad_request(&error),
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    let (uid, name, submission) = match parse(&body, limit(query.as_deref())) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return bad_request(&"the request has no object"),
        Err(error) => return bad_request(&error),
    };
    drop(body);
    match validator.validate(submission).await {
        Ok(validation) => answer(&uid, &name, validation),
        Err(error) => bad_request(&error),
    }
}

fn parse(body: &[u8], limit: Duration) -> Result<Option<(String, String, Submission)>, String> {
    let Review { api_version, request } =
        serde_json::from_slice(body).map_err(|error| format!("cannot read the AdmissionReview: {error}"))?;
    if api_version != VERSION {
        return Err(format!("the AdmissionReview is not of the version {VERSION}"));
    }
    let Request { uid, name, object, old } = request;
    let bytes = |object: &RawValue| object.get().as_bytes().to_vec();
    let old = old.filter(|old| old.get() != "null").map(bytes);
    let object = object.filter(|object| object.get() != "null").map(bytes);
    Ok(object.map(|object| (uid, name, Submission { object, old, limit })))
}

/// How long the validation may take. The API server appends `timeout=5s` to the address.
fn limit(query: Option<&str>) -> Duration {
    let given = query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("timeout="));
    let seconds = given.and_then(|given| given.strip_suffix('s')?.parse::<u64>().ok());
    let timeout = seconds.map_or(MAX_TIMEOUT, Duration::from_secs).min(MAX_TIMEOUT);
    timeout.saturating_sub(RESERVE).max(timeout / 2)
}

fn answer(uid: &str, name: &str, validation: Validation) -> Response {
    let Validation { causes, warnings } = validation;
    let mut response = Map::new();
    response.insert("uid".to_owned(), uid.into());
    response.insert("allowed".to_owned(), causes.is_empty().into());
    if !causes.is_empty() {
        response.insert("status".to_owned(), rejection(name, &causes));
    }
    if !warnings.is_empty() {
        response.insert("warnings".to_owned(), warnings.into());
    }
    let review = json!({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response});
    ([(header::CONTENT_TYPE, "application/json")], review.to_string()).into_response()
}

/// The status of a definition that is refused. kubectl lists its causes; other clients show its message.
fn rejection(name: &str, causes: &[Cause]) -> Json {
    let lines: Vec<String> =
        causes.iter().map(|cause| format!("* {}: {}", cause.field, cause.message)).collect();
    let listed: Vec<Json> = causes
        .iter()
        .map(|cause| json!({"reason": cause.reason, "field": cause.field, "message": cause.message}))
        .collect();
    json!({
        "code": 422,
        "reason": "Invalid",
        "message": format!("ResourceGraphDefinition `{name}` is invalid:\n{}", lines.join("\n")),
        "details": {"group": "kro.run", "kind": "ResourceGraphDefinition", "name": name, "causes": listed},
    })
}

fn bad_request(problem: &dyn std::fmt::Display) -> Response {
    (StatusCode::BAD_REQUEST, format!("{problem}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validation_ends_before_the_api_server_gives_up() {
        for (query, milliseconds) in [
            (None, 9_000),
            (Some("timeout=5s"), 4_000),
            (Some("a=b&timeout=1s"), 500),
            (Some("timeout=2s"), 1_000),
            (Some("timeout=30s"), 9_000),
            (Some("timeout=soon"), 9_000),
        ] {
            assert_eq!(limit(query), Duration::from_millis(milliseconds), "{query:?}");
        }
    }

    #[test]
    fn objects_are_taken_from_the_request_as_they_are() {
        let body = br#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request":
            {"uid": "7", "name": "web", "object": {"kind" :"A"}, "oldObject": null}}"#;
        let (uid, name, submission) = parse(body, RESERVE).unwrap().unwrap();
        assert_eq!((uid.as_str(), name.as_str()), ("7", "web"));
        assert_eq!(submission.object, br#"{"kind" :"A"}"#);
        assert!(submission.old.is_none());
        let error = |body: &str| parse(body.as_bytes(), RESERVE).unwrap_err();
        assert!(error("[]").starts_with("cannot read the AdmissionReview: "));
        assert!(error(r#"{"apiVersion": "v1", "request": {"uid": "7"}}"#).contains("not of the version"));
        let without = parse(br#"{"apiVersion": "admission.k8s.io/v1", "request": {"uid": "7"}}"#, RESERVE);
        assert!(without.unwrap().is_none());
    }
}
