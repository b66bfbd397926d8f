//! HTTP transport to one API server: sends requests as streams on as few HTTP/2 connections as possible.
//!
//! Neither `kube`'s client nor `hyper-util`'s pool is used for this. The former speaks HTTP/1.1 only, which takes a
//! socket per watch. The latter keeps one HTTP/2 connection per host: an API server allows about a hundred streams on
//! it, and every further request hangs behind the open watches. This pool never fills a connection, and opens another
//! one instead.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri, header};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::fence::Fence;

mod body;
mod check;
mod dial;
mod error;
mod pool;
mod stats;
mod steps;

pub use body::ResponseBody;
pub use dial::Endpoint;
pub use error::TransportError;
pub use stats::TransportStats;
pub use steps::ConnectionStep;

pub(crate) use check::ConnectionCheck;

use pool::{Pool, SendError};
use stats::Counters;

/// How a transport opens and keeps connections.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// The timeout for opening a socket.
    pub connect_timeout: Duration,
    /// The timeout for the TLS handshake.
    pub tls_timeout: Duration,
    /// How long the server may send nothing before it gets an HTTP/2 ping.
    pub ping_interval: Duration,
    /// How long it may take to answer the ping before the connection counts as dead.
    pub ping_timeout: Duration,
    /// The maximum number of streams per connection. A lower limit of the server is respected.
    pub streams_per_connection: usize,
    /// The maximum number of requests in flight; excess requests queue.
    pub max_streams: usize,
    /// How long an unused connection is kept while there are others.
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

/// How often a request is sent on another connection after one was closed before it was sent.
const MAX_ATTEMPTS: u32 = 3;

/// A request with its body in memory, so that it can be sent again if it was not sent.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// When the whole response must have arrived, including the time to open a connection.
    pub(crate) deadline: Option<Instant>,
    /// Checked before it is sent.
    pub(crate) fence: Fence,
    /// The timeouts that begin when the request is sent.
    pub(crate) timeouts: Timeouts,
}

/// How long a request may take. The clock starts when a connection is open and verified.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeouts {
    /// Until the head of the response has arrived. Also limits the check of a new connection.
    pub(crate) head: Option<Duration>,
    /// Until the whole response has arrived; `None` for watches.
    pub(crate) total: Option<Duration>,
}

/// The connections to one server. Clones share them.
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
        Self::with_check(endpoint, options, None)
    }

    /// The same, which checks every new connection before it sends requests over it.
    pub(crate) fn with_check(
        endpoint: Endpoint,
        options: TransportOptions,
        check: Option<ConnectionCheck>,
    ) -> Self {
        let counters = Arc::new(Counters::default());
        let permits = Arc::new(Semaphore::new(options.max_streams.min(Semaphore::MAX_PERMITS)));
        let pool = Pool::new(endpoint.clone(), options, check, Arc::clone(&counters));
        Self { shared: Arc::new(Shared { endpoint, pool, permits, counters }) }
    }

    /// Statistics of its requests and connections.
    #[must_use]
    pub fn stats(&self) -> TransportStats {
        let (connections, streams) = self.shared.pool.usage();
        self.shared.counters.snapshot(connections, streams)
    }

    /// Sends a request and returns the head of the response. The stream is released when the body is read completely or
    /// dropped.
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
        let (response, stream, started) = loop {
            let stream = self.shared.pool.stream(call.timeouts.head).await?;
            let request = call.request(&self.shared.endpoint, stream.is_multiplexed())?;
            // After all waiting, for the permit and for a connection: the Lease may have ended meanwhile.
            call.fence.check()?;
            let started = Instant::now();
            match within(call.timeouts.head, stream.send(request)).await? {
                Ok(response) => break (response, stream, started),
                Err(SendError { sent: false, .. }) if attempt < MAX_ATTEMPTS => attempt += 1,
                Err(SendError { error, .. }) => return Err(TransportError::broken(&error)),
            }
        };
        let deadline = call.timeouts.total.map(|total| started + total).or(call.deadline);
        Ok(response.map(|incoming| {
            ResponseBody::new(incoming, stream, permit, deadline, Arc::clone(&self.shared.counters))
        }))
    }
}

async fn within<T>(limit: Option<Duration>, step: impl Future<Output = T>) -> Result<T, TransportError> {
    let Some(after) = limit else { return Ok(step.await) };
    tokio::time::timeout(after, step).await.map_err(|_| TransportError::Timeout { after })
}

impl Call {
    fn request(
        &self,
        endpoint: &Endpoint,
        multiplexed: bool,
    ) -> Result<Request<Full<Bytes>>, TransportError> {
        let path = endpoint.path(&self.path);
        let mut request = Request::builder().method(&self.method);
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&self.headers);
            headers.remove(header::HOST);
        }
        // HTTP/2 has the server in the URI, HTTP/1 in a header.
        request = if multiplexed {
            let parts = Uri::builder().scheme(endpoint.scheme()).authority(endpoint.authority());
            request.uri(parts.path_and_query(path).build().map_err(|_| TransportError::Address)?)
        } else {
            request.uri(path).header(header::HOST, endpoint.authority())
        };
        request.body(Full::new(self.body.clone())).map_err(|_| TransportError::Address)
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transport({})", self.shared.endpoint.authority())
    }
}
