//! The client of one cluster: an endpoint, a credential, and one transport each for requests, watches and probes, so that
//! none delays the others. It retries nothing; its callers know when to retry.
//!
//! The REST verbs are in `client/rest.rs`, the limit of requests in `client/request_limit.rs`, the circuit breaker in
//! `client/breaker.rs`, the check of new connections in `client/identity.rs`, the
//! history of objects in `client/history.rs`, the audit in `client/audit_trail.rs`, impersonation in `client/impersonation.rs`.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use kross_value::Text;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::discovery::Discovery;
use crate::fence::Fence;
use crate::object::{ClusterId, ObjectKey};
use crate::transport::{
    Call, Endpoint, ResponseBody, Timeouts, Transport, TransportError, TransportOptions, TransportStats,
};

mod audit_trail;
mod breaker;
mod changed_fields;
mod credential;
mod decompress;
mod expected;
mod history;
mod identity;
mod impersonation;
mod list;
mod local;
mod options;
mod page;
mod release;
mod request_limit;
mod rest;
mod route;
mod self_review;
mod service;
mod shared_list;
mod subject_review;
mod token_request;

pub use credential::Credential;
pub use expected::unexpected_objects;
pub use impersonation::Impersonation;
pub use local::{ConnectionOverrides, LocalCluster, LocalError, ServerDetails};
pub use options::ClientOptions;
pub use release::{OwnershipMarks, ReleaseOutcome};
pub use rest::{Apply, Delete, Deleted, FieldValidation, Propagation};
pub use subject_review::ResourceAccess;
pub use token_request::IssuedToken;

pub(crate) use audit_trail::{AuditTrail, PendingAudit};
pub(crate) use breaker::{CircuitBreaker, Outage, RequestCounters};
pub(crate) use expected::Expected;
pub(crate) use identity::{ExpectedIdentity, IDENTITY_PATH, IdentityAnswer};
pub(crate) use list::ListProgress;
pub(crate) use page::{PageSize, Query};
pub(crate) use request_limit::{RequestLimit, RequestPermit};
pub(crate) use rest::{Target, nameless};
pub(crate) use route::Route;

use decompress::decompress;
use identity::IdentityRequest;
use shared_list::SharedLists;

/// The largest answer to the request for a cluster's identity, in bytes.
const MAX_IDENTITY_ANSWER: usize = 1 << 20;

/// Where a server tells its version to everybody.
const VERSION_PATH: &str = "/version";

/// The maximum length of a version.
const MAX_VERSION: usize = 64;

/// The number of the next client.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A client of one cluster. Clones share its connections, which it opens when they are needed.
#[derive(Clone)]
pub struct ClusterClient {
    shared: Arc<SharedClient>,
    /// Selects the client to use, if a Secret decides that.
    route: Option<Arc<Route>>,
    /// The instance or definition that requests are made for.
    requester: Option<Arc<ObjectKey>>,
    /// Where requests are audited; `None` for the local cluster.
    audit_trail: Option<Arc<AuditTrail>>,
    /// Whether writes are permitted.
    fence: Fence,
    /// The ServiceAccount that requests are made as, if it is another user than that of the credential.
    impersonation: Option<Arc<Impersonation>>,
}

/// What the clones of a client share. `transports` is a leaf lock: nothing else is locked or dropped while it is held.
struct SharedClient {
    /// Clients are numbered in the order in which they were created.
    number: u64,
    cluster: ClusterId,
    /// Identifies the credential among those for the same cluster.
    access: Text,
    transports: RwLock<Arc<Transports>>,
    headers: HeaderMap,
    options: ClientOptions,
    default_namespace: String,
    discovery: Discovery,
    lists: Arc<SharedLists>,
    /// `None` if nobody probes the connection.
    breaker: Option<Arc<CircuitBreaker>>,
    limit: Arc<RequestLimit>,
    /// Whether the credential now leads to another cluster, which has a client of its own.
    replaced: AtomicBool,
    /// Objects that did not match a request.
    unexpected: AtomicU64,
    /// Lines of watches that could not be read.
    unreadable: AtomicU64,
}

/// The transports of a client, and its credential.
pub(crate) struct Transports {
    requests: Transport,
    watches: Transport,
    /// Its own connection: a probe must not wait for requests, nor they for it.
    probes: Transport,
    credential: Credential,
    identity_request: Arc<IdentityRequest>,
    /// Which cluster new connections must lead to.
    expected: Arc<OnceLock<ExpectedIdentity>>,
}

impl Transports {
    pub(crate) fn new(endpoint: &Endpoint, credential: Credential, options: &ClientOptions) -> Arc<Self> {
        let identity_request = IdentityRequest::new(&options.user_agent, &credential);
        let expected = Arc::new(OnceLock::new());
        let transport = |options: &TransportOptions| {
            let check = identity_request.check(&expected);
            Transport::with_check(endpoint.clone(), options.clone(), Some(check))
        };
        Arc::new(Self {
            requests: transport(&options.requests),
            watches: transport(&options.watches),
            // Its only request tells which cluster it is, so its connections need no check.
            probes: Transport::new(endpoint.clone(), options.requests.clone()),
            credential,
            identity_request,
            expected,
        })
    }

    /// Asks the server which cluster it is. Waits for no permit, and not for other requests.
    pub(crate) async fn identify(&self, limit: Duration) -> Result<IdentityAnswer, TransportError> {
        let call = Call { deadline: Some(Instant::now() + limit), ..self.identity_request.call().await? };
        let (head, body) = self.probes.send(&call).await?.into_parts();
        self.check_status(head.status);
        let body = body.read_all(MAX_IDENTITY_ANSWER, limit).await?;
        Ok(IdentityAnswer::read(head.status, &body))
    }

    /// The Kubernetes version that the server says it has, if it says so in time.
    pub(crate) async fn version(&self, limit: Duration) -> Option<String> {
        let request = self.identity_request.call().await.ok()?;
        let path = Uri::from_static(VERSION_PATH);
        let call = Call { deadline: Some(Instant::now() + limit), path, ..request };
        let answer = async {
            let body = self.probes.send(&call).await.ok()?.into_body();
            body.read_all(MAX_IDENTITY_ANSWER, limit).await.ok()
        };
        let body = tokio::time::timeout(limit, answer).await.ok()??;
        let answer: serde_json::Value = serde_json::from_slice(&body).ok()?;
        let version = answer.get("gitVersion")?.as_str()?;
        let shown = |character: char| character.is_ascii_alphanumeric() || ".-+_".contains(character);
        (version.len() <= MAX_VERSION && version.chars().all(shown)).then(|| version.to_owned())
    }

    /// Refuses new connections to any other cluster from now on. Only the first call has an effect.
    pub(crate) fn expect(&self, identity: ExpectedIdentity) {
        let _ = self.expected.set(identity);
    }

    /// When connections of these transports stop working because the client certificate expires.
    pub(crate) fn expires_at(&self) -> Option<jiff::Timestamp> {
        self.credential.expires_at()
    }

    /// Marks the credential as rejected if the response says so.
    fn check_status(&self, status: StatusCode) {
        if status == StatusCode::UNAUTHORIZED {
            self.credential.mark_rejected();
        }
    }
}

/// Statistics of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Of requests.
    pub requests: TransportStats,
    /// Of watches.
    pub watches: TransportStats,
}

/// A request to the API server, without credentials.
#[derive(Clone, Debug)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) body: Bytes,
    /// Whether the response may be large: then it may be compressed, and take longer.
    pub(crate) is_list: bool,
    /// Checked before the request is sent; open for reads.
    pub(crate) fence: Fence,
    /// The user that the request is made as, if it is another one than that of the credential.
    pub(crate) impersonation: Option<Arc<Impersonation>>,
}

/// A response that was read completely.
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether a server under another trust anchor than that of the client answered.
    pub(crate) foreign: bool,
}

pub(crate) const JSON: &str = "application/json";

impl ApiRequest {
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            accept: JSON,
            content_type: None,
            body: Bytes::new(),
            is_list: false,
            fence: Fence::default(),
            impersonation: None,
        }
    }

    pub(crate) fn list(path: String) -> Self {
        Self { is_list: true, ..Self::get(path) }
    }

    pub(crate) fn write(method: Method, path: String, content_type: &'static str, body: Bytes) -> Self {
        Self { method, content_type: Some(content_type), body, ..Self::get(path) }
    }
}

impl ClusterClient {
    /// A client of a cluster. The caller has checked what the endpoint was built from.
    ///
    /// # Errors
    /// The user agent is not a valid header value.
    pub fn new(
        cluster: ClusterId,
        endpoint: &Endpoint,
        credential: Credential,
        options: ClientOptions,
    ) -> Result<Self, TransportError> {
        let transports = Transports::new(endpoint, credential, &options);
        let limit = RequestLimit::new(options.requests.max_streams);
        Self::with_transports(cluster, Text::from(""), transports, options, limit, None)
    }

    /// A client over existing transports, with the permits of its credential and a circuit breaker.
    pub(crate) fn with_transports(
        cluster: ClusterId,
        access: Text,
        transports: Arc<Transports>,
        options: ClientOptions,
        limit: Arc<RequestLimit>,
        breaker: Option<Arc<CircuitBreaker>>,
    ) -> Result<Self, TransportError> {
        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_str(&options.user_agent).map_err(|_| TransportError::Address)?;
        headers.insert(header::USER_AGENT, agent);
        Ok(Self {
            shared: Arc::new(SharedClient {
                number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
                cluster,
                access,
                transports: RwLock::new(transports),
                headers,
                options,
                default_namespace: "default".to_owned(),
                discovery: Discovery::default(),
                lists: Arc::default(),
                breaker,
                limit,
                replaced: AtomicBool::new(false),
                unexpected: AtomicU64::new(0),
                unreadable: AtomicU64::new(0),
            }),
            route: None,
            requester: None,
            audit_trail: None,
            fence: Fence::default(),
            impersonation: None,
        })
    }

    /// The same client, which writes nothing while the fence is closed.
    #[must_use]
    pub fn fenced(&self, fence: &Fence) -> Self {
        Self { fence: fence.clone(), ..self.clone() }
    }

    /// Whether writes are permitted.
    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The same client, on behalf of an instance or a definition, which audit records name.
    #[must_use]
    pub fn on_behalf_of(&self, requester: &ObjectKey) -> Self {
        Self { requester: Some(Arc::new(requester.clone())), ..self.clone() }
    }

    /// The instance or definition that requests are made for.
    #[must_use]
    pub fn requester(&self) -> Option<&ObjectKey> {
        self.requester.as_deref()
    }

    /// Identifies the credential among those for the same cluster; empty for the local cluster. Objects that were read
    /// with one credential must not be shown to users of another.
    #[must_use]
    pub fn access(&self) -> &Text {
        &self.shared.access
    }

    /// The same client, whose requests use the client that the route selects at that time.
    pub(crate) fn routed(&self, route: &Arc<Route>) -> Self {
        Self { route: Some(Arc::clone(route)), ..self.clone() }
    }

    /// The same client without a route: it keeps its credential, and impersonates nobody. For caches, which are shared by the
    /// users of one credential.
    #[must_use]
    pub fn pinned(&self) -> Self {
        Self { route: None, impersonation: None, ..self.clone() }
    }

    /// Whether this client was created after the other one. Of two clients with one credential the earlier one was
    /// closed, even if somebody still has it.
    #[must_use]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.shared.number > other.shared.number
    }

    /// The current transports.
    pub(crate) fn transports(&self) -> Arc<Transports> {
        self.shared.transports()
    }

    /// Uses other transports from now on.
    pub(crate) fn replace_transports(&self, transports: Arc<Transports>) {
        let replaced = std::mem::replace(&mut *self.shared.transports.write(), transports);
        // Outside the lock: this may close sockets.
        drop(replaced);
    }

    /// Rejects requests, or no longer: whether the credential leads to another cluster, which has a client of its own.
    pub(crate) fn set_replaced(&self, replaced: bool) {
        self.shared.replaced.store(replaced, Ordering::Release);
    }

    /// Refuses new connections to clusters with another UID from now on. Only the first call has an effect.
    pub fn expect_uid(&self, uid: &Text) {
        self.transports().expect(ExpectedIdentity::NoOther(uid.clone()));
    }

    /// The client that the next request uses.
    fn current(&self, is_write: bool) -> Result<Arc<SharedClient>, TransportError> {
        match &self.route {
            Some(route) => route.resolve(&self.shared, is_write),
            None => Ok(Arc::clone(&self.shared)),
        }
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        &self.shared.cluster
    }

    /// The kinds that the cluster serves, as far as they are known.
    #[must_use]
    pub fn discovery(&self) -> &Discovery {
        &self.shared.discovery
    }

    /// Timeouts and limits.
    pub(crate) fn options(&self) -> &ClientOptions {
        &self.shared.options
    }

    /// Statistics of its transports.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        let transports = self.shared.transports();
        ClientStats { requests: transports.requests.stats(), watches: transports.watches.stats() }
    }

    /// The namespace of its configuration, or `default`.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.shared.default_namespace
    }

    /// A `kube::Client` over the same transports. It must be used on the runtime that it was created on.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(service::ClientService::new(self.clone()), &self.shared.default_namespace)
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn exchange(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        let is_write = request.method != Method::GET;
        let mut shared = self.current(is_write)?;
        let request = ApiRequest { impersonation: self.impersonation.clone(), ..request };
        let requester = self.requester.as_ref();
        let mut outcome = shared.exchange_in_turn(request.clone(), requester).await;
        if matches!(outcome, Err(TransportError::Closed)) {
            shared = self.replacement_of(&shared, is_write)?;
            outcome = shared.exchange_in_turn(request, requester).await;
        }
        let foreign = shared.cluster != self.shared.cluster;
        outcome.map(|response| ApiResponse { foreign, ..response })
    }

    /// Opens a watch. The server ends its response.
    pub(crate) async fn open_watch(&self, path: String) -> Result<Response<ResponseBody>, TransportError> {
        let shared = self.current(false)?;
        match shared.watch_through_breaker(path.clone()).await {
            Err(TransportError::Closed) => {
                self.replacement_of(&shared, false)?.watch_through_breaker(path).await
            }
            outcome => outcome,
        }
    }

    /// The client to use after `closed` was closed before it sent anything, if it was replaced.
    fn replacement_of(
        &self,
        closed: &Arc<SharedClient>,
        is_write: bool,
    ) -> Result<Arc<SharedClient>, TransportError> {
        let current = self.current(is_write)?;
        if Arc::ptr_eq(&current, closed) { Err(TransportError::Closed) } else { Ok(current) }
    }
}

impl SharedClient {
    fn transports(&self) -> Arc<Transports> {
        Arc::clone(&self.transports.read())
    }

    /// Waits for a permit, then sends a request. All timeouts begin when it is sent.
    async fn exchange_in_turn(
        &self,
        request: ApiRequest,
        requester: Option<&Arc<ObjectKey>>,
    ) -> Result<ApiResponse, TransportError> {
        let permit = self.permit(requester).await?;
        // Boxed to keep the futures of callers small.
        let exchange = Box::pin(self.exchange(request));
        let outcome = match &self.breaker {
            Some(breaker) => breaker.run(exchange, |response| response.status).await,
            None => exchange.await,
        };
        permit.adapt(&outcome, |response| response.status);
        outcome
    }

    /// Waits for a permit. Fails as soon as the request could not be sent with it.
    async fn permit(&self, requester: Option<&Arc<ObjectKey>>) -> Result<RequestPermit, TransportError> {
        let permit = self.limit.acquire(requester);
        let permit = match &self.breaker {
            Some(breaker) => breaker.wait(permit).await?,
            None => permit.await?,
        };
        self.check_replaced()?;
        Ok(permit)
    }

    fn check_replaced(&self) -> Result<(), TransportError> {
        if self.replaced.load(Ordering::Acquire) { Err(route::another_cluster()) } else { Ok(()) }
    }

    async fn watch_through_breaker(&self, path: String) -> Result<Response<ResponseBody>, TransportError> {
        self.check_replaced()?;
        let open = Box::pin(self.open_watch(path));
        let Some(breaker) = &self.breaker else { return open.await };
        let opened = breaker.run(open, Response::status).await?;
        Ok(opened.map(|body| body.until(breaker.opened())))
    }

    async fn exchange(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        let options = &self.options;
        let limit = if request.is_list { options.list_timeout } else { options.request_timeout };
        let transports = self.transports();
        let call = self.call(&transports, request).await?;
        let read = options.read_timeout;
        let timeouts = Timeouts { head: Some(read.min(limit)), total: Some(limit) };
        let (head, body) = transports.requests.send(&Call { timeouts, ..call }).await?.into_parts();
        transports.check_status(head.status);
        let body = body.read_all(options.max_response, read).await?;
        let body = if head.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip") {
            decompress(body, options.max_response).await?
        } else {
            body
        };
        Ok(ApiResponse { status: head.status, headers: head.headers, body, foreign: false })
    }

    async fn open_watch(&self, path: String) -> Result<Response<ResponseBody>, TransportError> {
        let transports = self.transports();
        let call = self.call(&transports, ApiRequest::get(path)).await?;
        // The head of the response must arrive in time; the body may take as long as it wants.
        let timeouts = Timeouts { head: Some(self.options.request_timeout), total: None };
        let response = transports.watches.send(&Call { timeouts, ..call }).await?;
        transports.check_status(response.status());
        Ok(response)
    }

    /// Adds the headers to a request.
    async fn call(&self, transports: &Transports, request: ApiRequest) -> Result<Call, TransportError> {
        let mut headers = self.headers.clone();
        transports.credential.add_to(&mut headers).await?;
        if let Some(impersonation) = &request.impersonation {
            impersonation.add_to(&mut headers);
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static(request.accept));
        if let Some(content_type) = request.content_type {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        if request.is_list {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let path: Uri = request.path.parse().map_err(|_| TransportError::Address)?;
        let (timeouts, fence) = (Timeouts::default(), request.fence);
        Ok(Call {
            method: request.method,
            path,
            headers,
            body: request.body,
            deadline: None,
            timeouts,
            fence,
        })
    }
}

impl fmt::Debug for ClusterClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterClient({} at {:?})", self.shared.cluster, self.shared.transports().requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_never_shows_a_credential() {
        for credential in
            [Credential::bearer("s3cret").unwrap(), Credential::basic("user", "s3cret").unwrap()]
        {
            let shown = format!("{credential:?}");
            assert!(!shown.contains("s3cret") && !shown.contains("czNj"), "{shown}");
        }
        assert!(Credential::bearer("s3cret\r\nImpersonate-User: root").is_err());
    }
}
