//! Turns requests into streams on as few HTTP/2 connections as they fit on. An API server allows about a hundred streams
//! per connection and lets the next one wait without a word, so a connection is never filled and the next one is opened.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri, header};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

mod body;
mod dial;
mod error;
mod pool;
mod stats;

pub use body::ResponseBody;
pub use dial::Endpoint;
pub use error::TransportError;
pub use stats::TransportStats;

use pool::{Pool, SendError};
use stats::Counters;

/// How a transport opens and keeps connections.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// How long opening the socket may take.
    pub connect_timeout: Duration,
    /// How long the TLS handshake may take.
    pub tls_timeout: Duration,
    /// How long the peer may be silent before it is asked for a sign of life.
    pub ping_interval: Duration,
    /// How long that sign may take before the connection counts as dead.
    pub ping_timeout: Duration,
    /// How many streams a connection carries at most. A server that allows fewer is obeyed.
    pub streams_per_connection: usize,
    /// How many requests are under way at once; the others wait in line.
    pub max_streams: usize,
    /// How long a connection stays that nobody uses, while there are others.
    pub idle_timeout: Duration,
}

impl Default for TransportOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            tls_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(10),
            streams_per_connection: 90,
            max_streams: 360,
            idle_timeout: Duration::from_secs(90),
        }
    }
}

/// How often a request is tried on another connection when the first one closed before it was sent.
const MAX_ATTEMPTS: u32 = 3;

/// A request with its body in memory, so that it can be sent again if it was never sent.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// When the whole answer must be there; none for watches.
    pub(crate) deadline: Option<Instant>,
}

/// A set of connections to one server. Clones share it.
#[derive(Clone)]
pub struct Transport {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    pool: Pool,
    permits: Arc<Semaphore>,
    counters: Arc<Counters>,
}

impl Transport {
    /// A transport that opens its first connection with the first request.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: TransportOptions) -> Self {
        let counters = Arc::new(Counters::default());
        let permits = Arc::new(Semaphore::new(options.max_streams.min(Semaphore::MAX_PERMITS)));
        let pool = Pool::new(endpoint.clone(), options, Arc::clone(&counters));
        Self { shared: Arc::new(Shared { endpoint, pool, permits, counters }) }
    }

    /// What it has done so far, and what it holds open.
    #[must_use]
    pub fn stats(&self) -> TransportStats {
        let (connections, streams) = self.shared.pool.usage();
        self.shared.counters.snapshot(connections, streams)
    }

    /// Sends a request and returns with the head of the answer. Its stream is given back when the body is read or dropped.
    pub(crate) async fn send(&self, call: &Call) -> Result<Response<ResponseBody>, TransportError> {
        let started = Instant::now();
        let response = match call.deadline {
            Some(deadline) => match timeout_at(deadline, self.try_send(call)).await {
                Ok(response) => response,
                Err(_) => Err(TransportError::Timeout { after: started.elapsed() }),
            },
            None => self.try_send(call).await,
        };
        self.shared.counters.answered(response.is_ok());
        response
    }

    async fn try_send(&self, call: &Call) -> Result<Response<ResponseBody>, TransportError> {
        let permit =
            Arc::clone(&self.shared.permits).acquire_owned().await.map_err(|_| TransportError::Closed)?;
        let mut attempt = 1;
        let (response, stream) = loop {
            let stream = self.shared.pool.stream().await?;
            let request = self.shared.request(call, stream.is_multiplexed())?;
            match stream.send(request).await {
                Ok(response) => break (response, stream),
                Err(SendError { sent: false, .. }) if attempt < MAX_ATTEMPTS => attempt += 1,
                Err(SendError { error, .. }) => return Err(TransportError::broken(&error)),
            }
        };
        Ok(response.map(|incoming| {
            ResponseBody::new(incoming, stream, permit, call.deadline, Arc::clone(&self.shared.counters))
        }))
    }
}

impl Shared {
    fn request(&self, call: &Call, multiplexed: bool) -> Result<Request<Full<Bytes>>, TransportError> {
        let path = self.endpoint.path(&call.path);
        let mut request = Request::builder().method(&call.method);
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&call.headers);
            headers.remove(header::HOST);
        }
        // HTTP/2 names the server in the address, HTTP/1 in a header.
        request = if multiplexed {
            let parts = Uri::builder().scheme(self.endpoint.scheme()).authority(self.endpoint.authority());
            request.uri(parts.path_and_query(path).build().map_err(|_| TransportError::Address)?)
        } else {
            request.uri(path).header(header::HOST, self.endpoint.authority())
        };
        request.body(Full::new(call.body.clone())).map_err(|_| TransportError::Address)
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transport({})", self.shared.endpoint.authority())
    }
}
