//! Serves the dashboard: pages about clusters, definitions and instances, with the rights of the user who reads them. The
//! pages are HTML and SVG; a stream replaces their content when something changes. Nothing can be changed through them.
//!
//! [`Dashboard`] is that of one user on loopback, [`ServedDashboard`] that of the controller for everybody with a token.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

mod assets;
mod drawing;
pub mod layout;
mod pages;
mod query;
mod reader;
mod resources;
mod served;
mod session;
mod stream;
mod viewer;

pub use served::{ServedDashboard, ServedDashboardOptions, SessionSecret};

use crate::read_model::Hub;
use pages::Content;
use query::{Query, decoded};
use reader::Reader;
use session::Session;
use viewer::Viewer;

/// No request of a page leaves the host, and no script or style is in a page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The dashboard of one user, on a loopback address.
#[derive(Clone)]
pub struct Dashboard(Arc<Inner>);

struct Inner {
    viewer: Viewer,
    session: Session,
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").finish_non_exhaustive()
    }
}

impl Dashboard {
    /// Shows what the credential of the hub's client may read. Whoever has the address of [`Dashboard::login`] sees it. Call it
    /// on the runtime that serves the pages.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(hub: Hub) -> Result<Self, NoRandomNumbers> {
        let session = Session::new().ok_or(NoRandomNumbers)?;
        Ok(Self(Arc::new(Inner { viewer: Viewer::new(hub), session })))
    }

    /// The address that opens the dashboard, served at a socket address. It has the secret that other users of this host do not
    /// know.
    #[must_use]
    pub fn login(&self, address: SocketAddr) -> String {
        format!("http://{address}/login?key={}", self.0.session.key())
    }

    /// The pages.
    pub fn pages(&self) -> Router {
        Router::new()
            .route("/login", get(login).with_state(self.clone()))
            .route("/assets/{name}", get(assets::asset))
            .merge(content_pages().layer(from_fn_with_state(self.clone(), admit)))
            .layer(from_fn(on_loopback))
    }
}

/// The system has no random numbers for the key of the session.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system has no random numbers for the key of the dashboard")]
pub struct NoRandomNumbers;

/// Every page and the stream of its changes, for the [`Reader`] that the request was given.
fn content_pages() -> Router {
    Router::new().route("/stream", get(stream)).fallback(get(page))
}

/// Refuses requests that a page of another host made the browser send: their `Host` is another name of this address.
async fn on_loopback(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_loopback(host) {
        return (StatusCode::MISDIRECTED_REQUEST, "the dashboard is served on a loopback address only\n")
            .into_response();
    }
    protect(next.run(request).await)
}

/// Adds the headers that keep a page to itself.
fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Whether a `Host` names a loopback address.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Sets the cookie of the session, for whoever knows its key, and leads to the page `next`.
async fn login(State(Dashboard(inner)): State<Dashboard>, uri: Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    if !inner.session.has_key(query.get("key")) {
        return refused();
    }
    // Only to a page of this host: `//` would begin another one.
    let next = query
        .given("next")
        .filter(|next| next.starts_with('/') && !next.starts_with("//") && !next.contains('\\'));
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(next) = HeaderValue::from_str(next.unwrap_or("/")) {
        response.headers_mut().insert(header::LOCATION, next);
    }
    if let Ok(cookie) = HeaderValue::from_str(&inner.session.cookie()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

async fn admit(State(Dashboard(inner)): State<Dashboard>, mut request: Request, next: Next) -> Response {
    if !inner.session.admits(request.headers()) {
        return refused();
    }
    request.extensions_mut().insert(Reader::of_process(inner.viewer.clone()));
    next.run(request).await
}

fn refused() -> Response {
    let text = "Open the address that `kross dashboard` printed: it has the key of this session.\n";
    (StatusCode::UNAUTHORIZED, text).into_response()
}

async fn page(Extension(reader): Extension<Reader>, uri: Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    let content = content(reader.viewer(), uri.path(), &query).await;
    let status = if content.found { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let mut response = Response::new(Body::from(pages::page(&content, &query, reader.user()).into_string()));
    *response.status_mut() = status;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

/// `GET /stream?page=…`: the content of a page, again whenever it changes.
async fn stream(Extension(reader): Extension<Reader>, uri: Uri) -> Response {
    let query = Query::parse(uri.query().unwrap_or_default());
    let (path, rest) = query.get("page").split_once('?').unwrap_or((query.get("page"), ""));
    match reader.watch() {
        Some(watching) => {
            stream::of_page(reader, watching, path.to_owned(), Query::parse(rest)).into_response()
        }
        None => {
            (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open with this token\n").into_response()
        }
    }
}

/// The content of the page at an address.
async fn content(viewer: &Viewer, path: &str, query: &Query) -> Content {
    let segments: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        [] => pages::fleet(viewer, query).await,
        ["clusters", name @ ..] if !name.is_empty() => pages::cluster(viewer, &name.join("/"), query).await,
        ["definitions"] => pages::definitions(viewer, query).await,
        ["definitions", name] => pages::definition(viewer, name, query).await,
        ["instances"] => pages::instances(viewer, query).await,
        ["instances", kind, namespace, name] => pages::instance(viewer, [kind, namespace, name], query).await,
        ["targets"] => pages::targets(viewer, query).await,
        ["search"] => pages::search(viewer, query).await,
        _ => Content::missing("Fleet", &format!("There is no page at {path}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_host_are_served() {
        for host in ["127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:99", "127.8.8.8"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "example.com:8080", "127.0.0.1.example.com", "10.0.0.1:8080", "localhost.example.com"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
