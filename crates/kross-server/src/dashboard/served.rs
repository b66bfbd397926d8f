//! Serves the dashboard to everybody who can connect, over TLS: each with the rights of the bearer token that they log in with, or
//! that a proxy sends. The controller's own rights are never used for what pages show.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use jiff::Timestamp;
use kross_cluster::{Audit, Endpoint, KubeconfigPolicy};
use maud::Markup;

mod cookie;
mod keys;
mod login;
mod readers;

pub use keys::SessionSecret;
pub(super) use readers::Token;

use self::cookie::SessionCookie;
use self::keys::SessionKeys;
use self::login::Reason;
use self::readers::{Readers, Refused};
use super::query::Query;
use super::{Reader, assets, content_pages, protect};
use crate::access::bearer_token;

/// What a served dashboard needs.
#[derive(Clone, Debug)]
pub struct ServedDashboardOptions {
    /// The API server of the hub, without any credential.
    pub endpoint: Endpoint,
    /// Which kubeconfigs in Secrets that a reader may read are connected to. Commands in them never run.
    pub kubeconfigs: KubeconfigPolicy,
    /// Where reads in remote clusters are recorded, with the user who caused them.
    pub audit: Audit,
    /// Where replicas share the key of sessions; none for sessions that end with this process.
    pub secret: Option<SessionSecret>,
    /// How long a session lasts, if its token is valid for as long.
    pub session: Duration,
}

/// The dashboard as the controller serves it.
#[derive(Clone)]
pub struct ServedDashboard(Arc<Inner>);

struct Inner {
    readers: Readers,
    keys: SessionKeys,
    session: Duration,
}

impl fmt::Debug for ServedDashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedDashboard").finish_non_exhaustive()
    }
}

/// How a request shows who sent it.
enum Shown {
    /// With a token in the header, as proxies send it.
    Header(String),
    /// With the cookie of a session.
    Session(cookie::Opened),
    /// With a cookie that is not valid any more.
    Expired,
    Nothing,
}

impl ServedDashboard {
    /// A dashboard in front of an API server. Call it on the runtime that serves the pages.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(options: ServedDashboardOptions) -> Result<Self, super::NoRandomNumbers> {
        let ServedDashboardOptions { endpoint, kubeconfigs, audit, secret, session } = options;
        let keys = SessionKeys::new(secret).map_err(|_| super::NoRandomNumbers)?;
        Ok(Self(Arc::new(Inner { readers: Readers::new(endpoint, kubeconfigs, audit), keys, session })))
    }

    /// The pages. Serve them over TLS: browsers send the cookie of a session over nothing else.
    pub fn pages(&self) -> Router {
        Router::new()
            .route("/login", get(login_page).post(log_in))
            .route("/logout", post(log_out))
            .with_state(self.clone())
            .route("/assets/{name}", get(assets::asset))
            .merge(content_pages().layer(from_fn_with_state(self.clone(), admit)))
            // Browsers would send `Origin: null` with forms under a stricter policy.
            .layer(from_fn(|request: Request, next: Next| async {
                let mut response = protect(next.run(request).await);
                let policy = HeaderValue::from_static("same-origin");
                for name in [
                    header::REFERRER_POLICY.as_str(),
                    "cross-origin-opener-policy",
                    "cross-origin-resource-policy",
                ] {
                    response.headers_mut().insert(header::HeaderName::from_static(name), policy.clone());
                }
                response
            }))
    }
}

impl Inner {
    async fn shown(&self, headers: &HeaderMap) -> Shown {
        if headers.contains_key(header::AUTHORIZATION) {
            return bearer_token(headers).map_or(Shown::Expired, |token| Shown::Header(token.to_owned()));
        }
        match cookie::read(&self.keys, headers, Timestamp::now()).await {
            SessionCookie::Valid(opened) => Shown::Session(opened),
            SessionCookie::Invalid => Shown::Expired,
            SessionCookie::None => Shown::Nothing,
        }
    }

    /// When a session with a token ends.
    fn expiry(&self, token: &str, now: Timestamp) -> Timestamp {
        let latest = now.checked_add(self.session).unwrap_or(Timestamp::MAX);
        expiry_of(token).map_or(latest, |expiry| expiry.min(latest))
    }
}

/// When a token expires, if it says so. It is not verified: the API server does that.
fn expiry_of(token: &str) -> Option<Timestamp> {
    use base64::Engine;
    #[derive(serde::Deserialize)]
    struct Claims {
        exp: f64,
    }
    let payload = token.split('.').nth(1)?;
    let payload =
        base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let Claims { exp } = serde_json::from_slice(&payload).ok()?;
    // Saturates; what is no time is ignored.
    Timestamp::from_second(exp as i64).ok()
}

/// Lets a request pass with the rights of whoever sent it.
async fn admit(
    State(ServedDashboard(inner)): State<ServedDashboard>,
    mut request: Request,
    next: Next,
) -> Response {
    let (token, expires) = match inner.shown(request.headers()).await {
        Shown::Header(token) => (zeroize::Zeroizing::new(token), None),
        Shown::Session(opened) => (opened.token, Some(opened.expires)),
        Shown::Expired => return unauthenticated(&request, Reason::Expired),
        Shown::Nothing => return unauthenticated(&request, Reason::None),
    };
    match inner.readers.open(&token).await {
        Ok(token) => {
            request.extensions_mut().insert(Reader::of_token(token, expires));
            next.run(request).await
        }
        Err(Refused::Rejected) => unauthenticated(&request, Reason::Expired),
        Err(unavailable @ Refused::Unavailable(_)) => {
            tracing::warn!(error = %unavailable, "cannot serve the dashboard");
            (StatusCode::SERVICE_UNAVAILABLE, format!("{unavailable}\n")).into_response()
        }
    }
}

/// Leads a person to the login page, and tells everybody else that a token is missing.
fn unauthenticated(request: &Request, reason: Reason) -> Response {
    let headers = request.headers();
    if login::accepts(headers, "text/event-stream") {
        // A stream that fails would be opened again for ever.
        let stream = "event: login\ndata: \n\n";
        return ([(header::CONTENT_TYPE, "text/event-stream")], stream).into_response();
    }
    if headers.contains_key(header::AUTHORIZATION) || !login::accepts(headers, "text/html") {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (
            StatusCode::UNAUTHORIZED,
            challenge,
            "Log in, or send a bearer token that the API server accepts.\n",
        )
            .into_response();
    }
    let next = request.uri().path_and_query().map_or("/", |address| address.as_str());
    let address = login::address(login::page_of(next), reason);
    if login::is_from_another_site(headers) {
        html(StatusCode::OK, &login::leading_to(&address))
    } else {
        see_other(&address)
    }
}

/// `GET /login`.
async fn login_page(
    State(ServedDashboard(inner)): State<ServedDashboard>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    let next = login::page_of(query.get("next"));
    let reason = Reason::of(query.get("why"));
    match inner.shown(&headers).await {
        Shown::Session(opened) if inner.readers.open(&opened.token).await.is_ok() => see_other(next),
        _ => html(StatusCode::OK, &login::page(next, reason)),
    }
}

/// `POST /login`: begins a session with a token that the API server accepts.
async fn log_in(
    State(ServedDashboard(inner)): State<ServedDashboard>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !login::is_own(&headers) {
        return foreign();
    }
    let form = Query::parse(std::str::from_utf8(&body).unwrap_or_default());
    let next = login::page_of(form.get("next"));
    let text = form.get("token").trim();
    let token = text.strip_prefix("Bearer ").unwrap_or(text).trim();
    let is_token = !token.is_empty()
        && token.len() <= cookie::MAX_TOKEN_BYTES
        && token.bytes().all(|it| it.is_ascii_graphic());
    if !is_token {
        return html(StatusCode::BAD_REQUEST, &login::page(next, Reason::Malformed));
    }
    let reader = match inner.readers.open(token).await {
        Ok(reader) => reader,
        Err(Refused::Rejected) => {
            return html(StatusCode::UNAUTHORIZED, &login::page(next, Reason::Rejected));
        }
        Err(unavailable) => return not_available(next, &unavailable),
    };
    let now = Timestamp::now();
    match cookie::sealed(&inner.keys, token, inner.expiry(token, now), now).await {
        Ok(cookies) => {
            tracing::info!(user = reader.user(), "began a session of the dashboard");
            with_cookies(see_other(next), cookies)
        }
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "cannot begin a session of the dashboard");
            html(StatusCode::SERVICE_UNAVAILABLE, &login::page(next, Reason::Unavailable))
        }
    }
}

/// `POST /logout`: ends the session.
async fn log_out(State(ServedDashboard(inner)): State<ServedDashboard>, headers: HeaderMap) -> Response {
    if !login::is_own(&headers) {
        return foreign();
    }
    if let Shown::Session(opened) = inner.shown(&headers).await {
        inner.readers.end(&opened.token);
    }
    with_cookies(see_other(&login::address("/", Reason::LoggedOut)), cookie::cleared())
}

fn not_available(next: &str, error: &Refused) -> Response {
    tracing::warn!(%error, "cannot begin a session of the dashboard");
    html(StatusCode::SERVICE_UNAVAILABLE, &login::page(next, Reason::Unavailable))
}

fn foreign() -> Response {
    (
        StatusCode::FORBIDDEN,
        "The form was sent by another site. Open the dashboard, and log in or out there.\n",
    )
        .into_response()
}

fn see_other(address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let location = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, location);
    response
}

fn with_cookies(mut response: Response, cookies: Vec<HeaderValue>) -> Response {
    for cookie in cookies {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

fn html(status: StatusCode, page: &Markup) -> Response {
    let mut response = Response::new(Body::from(page.0.clone()));
    *response.status_mut() = status;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_with_its_token() {
        use base64::Engine;
        let token = |claims: &str| {
            format!("e30.{}.sig", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims))
        };
        let at = |second| Timestamp::from_second(second).ok();
        assert_eq!(expiry_of(&token(r#"{"exp": 1000}"#)), at(1000));
        assert_eq!(expiry_of(&token(r#"{"exp": 1000.5}"#)), at(1000));
        for none in ["opaque", "a.b.c", &token("{}"), &token(r#"{"exp": 1e300}"#), &token("[]")] {
            assert_eq!(expiry_of(none), None, "{none}");
        }
    }
}
