//! Turns an endpoint and a credential into a connection to one cluster: requests and watches on transports of their own, so
//! that neither can hold up the other. Nothing is retried here; whoever asks knows best when to ask again.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use tokio::time::Instant;

use crate::ClusterId;
use crate::discovery::Discovery;
use crate::transport::{
    Call, Endpoint, ResponseBody, Transport, TransportError, TransportOptions, TransportStats,
};

mod credential;
mod local;
mod service;

pub use credential::Credential;
pub use local::{LocalCluster, LocalError};

/// How a connection behaves.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// What the cluster's logs call us.
    pub user_agent: String,
    /// How long a request may take, from the first byte sent to the last one received.
    pub request_timeout: Duration,
    /// The same for a page of a list.
    pub list_timeout: Duration,
    /// The largest answer that is read, after decompression.
    pub max_answer: usize,
    /// How requests are carried.
    pub requests: TransportOptions,
    /// How watches are carried.
    pub watches: TransportOptions,
}

impl ConnectionOptions {
    /// The options of a controller that stands for this kro version.
    #[must_use]
    pub fn for_version(version: &str) -> Self {
        Self { user_agent: format!("kro/{version}"), ..Self::default() }
    }
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            user_agent: "kro/devel".to_owned(),
            request_timeout: Duration::from_secs(30),
            list_timeout: Duration::from_secs(60),
            max_answer: 256 << 20,
            requests: TransportOptions::default(),
            watches: TransportOptions { max_streams: 20_000, ..TransportOptions::default() },
        }
    }
}

/// A connection to one cluster. Clones share it; it opens sockets only when it is used.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: ClusterId,
    requests: Transport,
    watches: Transport,
    credential: Credential,
    headers: HeaderMap,
    options: ConnectionOptions,
    default_namespace: String,
    discovery: Discovery,
}

/// What the connection has done so far, and what it holds open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStats {
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
pub(crate) struct ApiAnswer {
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

impl Connection {
    /// A connection to a cluster. Whoever makes the endpoint has judged what it is made from.
    ///
    /// # Errors
    /// The user agent is no valid header.
    pub fn new(
        cluster: ClusterId,
        endpoint: &Endpoint,
        credential: Credential,
        options: ConnectionOptions,
    ) -> Result<Self, TransportError> {
        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_str(&options.user_agent).map_err(|_| TransportError::Address)?;
        headers.insert(header::USER_AGENT, agent);
        Ok(Self {
            shared: Arc::new(Shared {
                cluster,
                requests: Transport::new(endpoint.clone(), options.requests.clone()),
                watches: Transport::new(endpoint.clone(), options.watches.clone()),
                credential,
                headers,
                options,
                default_namespace: "default".to_owned(),
                discovery: Discovery::default(),
            }),
        })
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
    pub fn stats(&self) -> ConnectionStats {
        ConnectionStats { requests: self.shared.requests.stats(), watches: self.shared.watches.stats() }
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
        kube::Client::new(service::ConnectionService::new(self.clone()), &self.shared.default_namespace)
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn exchange(&self, request: ApiRequest) -> Result<ApiAnswer, TransportError> {
        let options = &self.shared.options;
        let limit = if request.long { options.list_timeout } else { options.request_timeout };
        let call = self.call(request, Some(Instant::now() + limit)).await?;
        let (head, body) = self.shared.requests.send(&call).await?.into_parts();
        let body = body.all(options.max_answer).await?;
        let body = if head.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip") {
            decompress(&body, options.max_answer)?
        } else {
            body
        };
        Ok(ApiAnswer { status: head.status, headers: head.headers, body })
    }

    /// Opens a watch. Its answer never ends by itself within our time; the server ends it.
    pub(crate) async fn open_watch(&self, path: String) -> Result<Response<ResponseBody>, TransportError> {
        let call = self.call(ApiRequest::get(path), None).await?;
        // The head must come in time even though the body may take for ever.
        let limit = self.shared.options.request_timeout;
        tokio::time::timeout(limit, self.shared.watches.send(&call))
            .await
            .unwrap_or(Err(TransportError::Timeout { after: limit }))
    }

    async fn call(&self, request: ApiRequest, deadline: Option<Instant>) -> Result<Call, TransportError> {
        let mut headers = self.shared.headers.clone();
        self.shared.credential.add_to(&mut headers).await?;
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

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({} at {:?})", self.shared.cluster, self.shared.requests)
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
