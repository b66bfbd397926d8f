//! Turns an endpoint and a credential into a connection to one cluster: requests and watches on transports of their own, so
//! that neither can hold up the other. Nothing is retried here; whoever asks knows best when to ask again.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use kross_value::Text;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::discovery::Discovery;
use crate::object::{ClusterId, ObjectKey};
use crate::transport::{
    Call, Endpoint, ResponseBody, Transport, TransportError, TransportOptions, TransportStats,
};

mod audit_trail;
mod breaker;
mod credential;
mod local;
mod release;
mod rest;
mod route;
mod self_review;
mod service;

pub use credential::Credential;
pub use local::{LocalCluster, LocalError};
pub use release::{OwnershipMarks, ReleaseOutcome};
pub use rest::{Apply, Delete, Deleted, FieldValidation, Propagation};

pub(crate) use audit_trail::{AuditTrail, PendingAudit};
pub(crate) use breaker::{CircuitBreaker, Outage, RequestCounters};
pub(crate) use rest::{MAX_PAGES, Query};
pub(crate) use route::Route;

/// How a connection behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// What the cluster's logs call us.
    pub user_agent: String,
    /// How long a request may take, from the first byte sent to the last one received.
    pub request_timeout: Duration,
    /// The same for a page of a list.
    pub list_timeout: Duration,
    /// How long the server may be silent in between, be it before the answer begins or within it.
    pub read_timeout: Duration,
    /// The largest answer that is read, after decompression.
    pub max_response: usize,
    /// How requests are carried.
    pub requests: TransportOptions,
    /// How watches are carried.
    pub watches: TransportOptions,
}

impl ClientOptions {
    /// The options of a controller that stands for this kro version.
    #[must_use]
    pub fn for_version(version: &str) -> Self {
        Self { user_agent: format!("kro/{version}"), ..Self::default() }
    }

    /// The same for other clusters than the local one: less patient, since one of them being slow or dark is daily life.
    #[must_use]
    pub fn for_remotes(version: &str) -> Self {
        let requests = TransportOptions {
            connect_timeout: Duration::from_secs(3),
            tls_timeout: Duration::from_secs(3),
            ping_interval: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(5),
            max_streams: 128,
            ..TransportOptions::default()
        };
        Self {
            request_timeout: Duration::from_secs(15),
            list_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(10),
            watches: TransportOptions { max_streams: 20_000, ..requests.clone() },
            requests,
            ..Self::for_version(version)
        }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            user_agent: "kro/devel".to_owned(),
            request_timeout: Duration::from_secs(30),
            list_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(30),
            max_response: 256 << 20,
            requests: TransportOptions::default(),
            watches: TransportOptions { max_streams: 20_000, ..TransportOptions::default() },
        }
    }
}

/// Connections so far.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A connection to one cluster. Clones share it; it opens sockets only when it is used.
#[derive(Clone)]
pub struct ClusterClient {
    shared: Arc<Shared>,
    /// Where a Secret decides which credential counts at the moment.
    route: Option<Arc<Route>>,
    /// On whose behalf requests are made.
    requester: Option<Arc<ObjectKey>>,
    /// Where it is written down what is done; none for the local cluster.
    audit_trail: Option<Arc<AuditTrail>>,
}

struct Shared {
    /// Its place in the order in which connections were made.
    number: u64,
    cluster: ClusterId,
    /// What tells this credential from others that lead to the same cluster.
    access: Text,
    transports: RwLock<Arc<Transports>>,
    headers: HeaderMap,
    options: ClientOptions,
    default_namespace: String,
    discovery: Discovery,
    /// None where nobody looks after the connection.
    breaker: Option<Arc<CircuitBreaker>>,
}

/// What carries requests and watches, and as whom.
pub(crate) struct Transports {
    requests: Transport,
    watches: Transport,
    credential: Credential,
}

impl Transports {
    pub(crate) fn new(endpoint: &Endpoint, credential: Credential, options: &ClientOptions) -> Arc<Self> {
        Arc::new(Self {
            requests: Transport::new(endpoint.clone(), options.requests.clone()),
            watches: Transport::new(endpoint.clone(), options.watches.clone()),
            credential,
        })
    }

    /// When connections that were opened over it stop working.
    pub(crate) fn expires_at(&self) -> Option<jiff::Timestamp> {
        self.credential.expires_at()
    }

    /// Learns from an answer's status that the credential is no longer taken.
    fn notice(&self, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED {
            self.credential.mark_rejected();
        }
    }
}

/// What the connection has done so far, and what it holds open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Requests.
    pub requests: TransportStats,
    /// Watches.
    pub watches: TransportStats,
}

/// A request to the API, before it has credentials.
#[derive(Clone, Debug)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) body: Bytes,
    /// Whether the answer may be long: then it may come compressed, and take longer.
    pub(crate) long: bool,
}

/// An answer that was read to its end.
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) const JSON: &str = "application/json";

impl ApiRequest {
    pub(crate) fn get(path: String) -> Self {
        Self { method: Method::GET, path, accept: JSON, content_type: None, body: Bytes::new(), long: false }
    }

    pub(crate) fn list(path: String) -> Self {
        Self { long: true, ..Self::get(path) }
    }

    pub(crate) fn write(method: Method, path: String, content_type: &'static str, body: Bytes) -> Self {
        Self { method, content_type: Some(content_type), body, ..Self::get(path) }
    }
}

impl ClusterClient {
    /// A connection to a cluster. Whoever makes the endpoint has judged what it is made from.
    ///
    /// # Errors
    /// The user agent is no valid header.
    pub fn new(
        cluster: ClusterId,
        endpoint: &Endpoint,
        credential: Credential,
        options: ClientOptions,
    ) -> Result<Self, TransportError> {
        let transports = Transports::new(endpoint, credential, &options);
        Self::over(cluster, Text::from(""), transports, options, None)
    }

    /// A connection over given wires, looked after by a guard.
    pub(crate) fn over(
        cluster: ClusterId,
        access: Text,
        transports: Arc<Transports>,
        options: ClientOptions,
        breaker: Option<Arc<CircuitBreaker>>,
    ) -> Result<Self, TransportError> {
        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_str(&options.user_agent).map_err(|_| TransportError::Address)?;
        headers.insert(header::USER_AGENT, agent);
        Ok(Self {
            shared: Arc::new(Shared {
                number: MADE.fetch_add(1, Ordering::Relaxed),
                cluster,
                access,
                transports: RwLock::new(transports),
                headers,
                options,
                default_namespace: "default".to_owned(),
                discovery: Discovery::default(),
                breaker,
            }),
            route: None,
            requester: None,
            audit_trail: None,
        })
    }

    /// The same connection on behalf of an instance or a definition, which audit records name.
    #[must_use]
    pub fn on_behalf_of(&self, requester: &ObjectKey) -> Self {
        Self { requester: Some(Arc::new(requester.clone())), ..self.clone() }
    }

    /// On whose behalf requests are made, if anybody's.
    #[must_use]
    pub fn requester(&self) -> Option<&ObjectKey> {
        self.requester.as_deref()
    }

    /// What tells its credential from others that lead to the same cluster; empty for the local cluster. What one
    /// credential may read must not be shown to those who come with another.
    #[must_use]
    pub fn access(&self) -> &Text {
        &self.shared.access
    }

    /// The same connection, whose requests go the way that is open at the time.
    pub(crate) fn routed(&self, route: &Arc<Route>) -> Self {
        Self { route: Some(Arc::clone(route)), ..self.clone() }
    }

    /// The same connection with its own credential for good, for those who share what they read by credential.
    #[must_use]
    pub fn pinned(&self) -> Self {
        Self { route: None, ..self.clone() }
    }

    /// Whether it was made after the other one. Of two with one credential the earlier was given up, also for somebody who
    /// still has it.
    #[must_use]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.shared.number > other.shared.number
    }

    /// What it goes over now.
    pub(crate) fn transports(&self) -> Arc<Transports> {
        self.shared.transports()
    }

    /// From now on goes over other wires.
    pub(crate) fn replace_transports(&self, transports: Arc<Transports>) {
        let replaced = std::mem::replace(&mut *self.shared.transports.write(), transports);
        // Outside the lock: this may close sockets.
        drop(replaced);
    }

    /// The way that requests go now.
    fn current(&self) -> Result<Arc<Shared>, TransportError> {
        match &self.route {
            Some(route) => route.resolve(&self.shared),
            None => Ok(Arc::clone(&self.shared)),
        }
    }

    /// Which cluster it leads to.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.shared.cluster
    }

    /// What the cluster serves, as far as it is known.
    #[must_use]
    pub fn discovery(&self) -> &Discovery {
        &self.shared.discovery
    }

    /// What it has done so far, and what it holds open.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        let transports = self.shared.transports();
        ClientStats { requests: transports.requests.stats(), watches: transports.watches.stats() }
    }

    /// The namespace that its configuration names, or `default`.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.shared.default_namespace
    }

    /// A client of `kube` over the same transports, for what is not worth code of its own. It belongs to the runtime it is
    /// made on.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(service::ClientService::new(self.clone()), &self.shared.default_namespace)
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn exchange(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        let shared = self.current()?;
        match shared.exchange_through_breaker(request.clone()).await {
            Err(TransportError::Closed) => {
                self.current_unless(&shared)?.exchange_through_breaker(request).await
            }
            outcome => outcome,
        }
    }

    /// Opens a watch. Its answer never ends by itself within our time; the server ends it.
    pub(crate) async fn open_watch(&self, path: String) -> Result<Response<ResponseBody>, TransportError> {
        let shared = self.current()?;
        match shared.watch_through_breaker(path.clone()).await {
            Err(TransportError::Closed) => self.current_unless(&shared)?.watch_through_breaker(path).await,
            outcome => outcome,
        }
    }

    /// The way that requests go now, if it is another one. That a way was closed just before anything was sent is no reason
    /// to fail.
    fn current_unless(&self, closed: &Arc<Shared>) -> Result<Arc<Shared>, TransportError> {
        let current = self.current()?;
        if Arc::ptr_eq(&current, closed) { Err(TransportError::Closed) } else { Ok(current) }
    }
}

impl Shared {
    fn transports(&self) -> Arc<Transports> {
        Arc::clone(&self.transports.read())
    }

    async fn exchange_through_breaker(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        // Boxed, so that the futures of all callers stay small.
        let exchange = Box::pin(self.exchange(request));
        match &self.breaker {
            Some(breaker) => breaker.run(exchange, |response| response.status).await,
            None => exchange.await,
        }
    }

    async fn watch_through_breaker(&self, path: String) -> Result<Response<ResponseBody>, TransportError> {
        let open = Box::pin(self.open_watch(path));
        let Some(breaker) = &self.breaker else { return open.await };
        let opened = breaker.run(open, Response::status).await?;
        Ok(opened.map(|body| body.until(breaker.opened())))
    }

    async fn exchange(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        let options = &self.options;
        let limit = if request.long { options.list_timeout } else { options.request_timeout };
        let transports = self.transports();
        let call = self.call(&transports, request, Some(Instant::now() + limit)).await?;
        let read = options.read_timeout;
        let (head, body) = within(read, transports.requests.send(&call)).await?.into_parts();
        transports.notice(head.status);
        let body = body.all(options.max_response, read).await?;
        let body = if head.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip") {
            decompress(&body, options.max_response)?
        } else {
            body
        };
        Ok(ApiResponse { status: head.status, headers: head.headers, body })
    }

    async fn open_watch(&self, path: String) -> Result<Response<ResponseBody>, TransportError> {
        let transports = self.transports();
        let call = self.call(&transports, ApiRequest::get(path), None).await?;
        // The head must come in time even though the body may take for ever.
        let response = within(self.options.request_timeout, transports.watches.send(&call)).await?;
        transports.notice(response.status());
        Ok(response)
    }

    async fn call(
        &self,
        transports: &Transports,
        request: ApiRequest,
        deadline: Option<Instant>,
    ) -> Result<Call, TransportError> {
        let mut headers = self.headers.clone();
        transports.credential.add_to(&mut headers).await?;
        headers.insert(header::ACCEPT, HeaderValue::from_static(request.accept));
        if let Some(content_type) = request.content_type {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        if request.long {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let path: Uri = request.path.parse().map_err(|_| TransportError::Address)?;
        Ok(Call { method: request.method, path, headers, body: request.body, deadline })
    }
}

async fn within<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    tokio::time::timeout(limit, step).await.unwrap_or(Err(TransportError::Timeout { after: limit }))
}

impl fmt::Debug for ClusterClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({} at {:?})", self.shared.cluster, self.shared.transports().requests)
    }
}

/// Inflates an answer, but never beyond the limit: a small answer can be a very large one in disguise.
fn decompress(bytes: &Bytes, limit: usize) -> Result<Bytes, TransportError> {
    let mut inflated = Vec::with_capacity(bytes.len().saturating_mul(4).min(limit));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    flate2::read::GzDecoder::new(&**bytes).take(most).read_to_end(&mut inflated).map_err(|error| {
        TransportError::Broken { problem: format!("cannot decompress the answer: {error}") }
    })?;
    if inflated.len() > limit {
        return Err(TransportError::TooLarge { limit });
    }
    Ok(inflated.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compressed(bytes: &[u8]) -> Bytes {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().into()
    }

    #[test]
    fn a_small_answer_that_inflates_without_end_is_refused() {
        let bomb = compressed(&vec![0; 10 << 20]);
        assert!(bomb.len() < 20_000);
        assert_eq!(decompress(&bomb, 1 << 20), Err(TransportError::TooLarge { limit: 1 << 20 }));
        assert_eq!(decompress(&bomb, 10 << 20).unwrap().len(), 10 << 20);
    }

    #[test]
    fn a_credential_is_never_shown() {
        for credential in
            [Credential::bearer("s3cret").unwrap(), Credential::basic("user", "s3cret").unwrap()]
        {
            let shown = format!("{credential:?}");
            assert!(!shown.contains("s3cret") && !shown.contains("czNj"), "{shown}");
        }
        assert!(Credential::bearer("s3cret\r\nImpersonate-User: root").is_err());
    }
}
