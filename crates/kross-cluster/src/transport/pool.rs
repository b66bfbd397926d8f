//! A pool of connections to one server: hands out streams on connections with free capacity, or opens another
//! connection. Requests that need a connection while one is being opened wait for that one, and fail with its error: an
//! unreachable server is dialed once, not once per request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::check::ConnectionCheck;
use super::dial::{Endpoint, Http1Connection, Http2Connection, Opened, dial};
use super::stats::Counters;
use super::{TransportError, TransportOptions, within};

/// The largest answer to the check of a connection that is read, in bytes.
const MAX_CHECK_ANSWER: usize = 1 << 20;

/// The connections to one server.
///
/// Lock order: `dialing`, then `connections`, then `idle_since` of a connection. `last_dial` is a leaf. Only `dialing`, an
/// async mutex, is held across an await.
pub(super) struct Pool {
    endpoint: Endpoint,
    options: TransportOptions,
    check: Option<ConnectionCheck>,
    connections: Mutex<Vec<Arc<PooledConnection>>>,
    /// Held while a connection is opened, across awaits.
    dialing: tokio::sync::Mutex<()>,
    last_dial: Mutex<LastDial>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct LastDial {
    count: u64,
    error: Option<TransportError>,
}

struct PooledConnection {
    sender: Sender,
    /// Streams in use.
    streams: AtomicUsize,
    /// Streams that the connection can carry; the server may change it.
    capacity: AtomicUsize,
    idle_since: Mutex<Instant>,
}

enum Sender {
    Http2(http2::SendRequest<Full<Bytes>>),
    /// One request at a time. The lock is never contended, because such a connection has capacity for one stream.
    Http1(tokio::sync::Mutex<http1::SendRequest<Full<Bytes>>>),
}

/// A stream on a connection; released when dropped.
pub(super) struct Stream {
    connection: Arc<PooledConnection>,
}

/// Why a request got no response, and whether any of it may have reached the server.
pub(super) struct SendError {
    pub(super) error: hyper::Error,
    pub(super) sent: bool,
}

impl Pool {
    pub(super) fn new(
        endpoint: Endpoint,
        options: TransportOptions,
        check: Option<ConnectionCheck>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            endpoint,
            options,
            check,
            connections: Mutex::default(),
            dialing: tokio::sync::Mutex::default(),
            last_dial: Mutex::default(),
            counters,
        }
    }

    /// A stream on a connection that is open as far as we know. The check of a new one may take `check_timeout`.
    pub(super) async fn stream(&self, check_timeout: Option<Duration>) -> Result<Stream, TransportError> {
        if let Some(stream) = self.free_stream() {
            return Ok(stream);
        }
        let before = self.last_dial.lock().count;
        let dialing = self.dialing.lock().await;
        if let Some(stream) = self.free_stream() {
            return Ok(stream);
        }
        {
            let last = self.last_dial.lock();
            if let (true, Some(error)) = (last.count != before, &last.error) {
                return Err(error.clone());
            }
        }
        // Boxed: it is large and rarely needed, and would make the future of every request larger.
        let opened = Box::pin(dial(&self.endpoint, &self.options)).await;
        self.counters.dialed(opened.is_ok());
        let stream = self.dialed(opened.map(|opened| self.start(opened)))?;
        // Others wait for a connection that has room for them, and open their own if it has not.
        let dialing = stream.is_multiplexed().then_some(dialing);
        let checked = within(check_timeout, Box::pin(self.check(&stream))).await.flatten();
        if dialing.is_some() {
            self.dialed(checked)?;
        } else {
            checked?;
        }
        self.connections.lock().push(Arc::clone(&stream.connection));
        Ok(stream)
    }

    /// Notes whether opening a connection failed, for requests that wait for it.
    fn dialed<T>(&self, outcome: Result<T, TransportError>) -> Result<T, TransportError> {
        let mut last = self.last_dial.lock();
        last.count += 1;
        last.error = outcome.as_ref().err().cloned();
        drop(last);
        outcome
    }

    /// Checks a new connection, which nobody else can use yet.
    async fn check(&self, stream: &Stream) -> Result<(), TransportError> {
        let Some((check, call)) = self.check.as_ref().and_then(|check| Some((check, (check.call)()?))) else {
            return Ok(());
        };
        let request = call.await?.request(&self.endpoint, stream.is_multiplexed())?;
        let response = stream.send(request).await.map_err(|failed| TransportError::broken(&failed.error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_CHECK_ANSWER).collect().await.map_err(|_| {
            TransportError::Broken { problem: "the answer is too large or incomplete".to_owned() }
        })?;
        (check.verdict)(head.status, &body.to_bytes())
    }

    /// The number of open connections, and of streams on them.
    pub(super) fn usage(&self) -> (usize, usize) {
        let connections = self.connections.lock();
        let open = connections.iter().filter(|connection| !connection.is_closed());
        let streams = |connection: &Arc<PooledConnection>| connection.streams.load(Ordering::Relaxed);
        (open.clone().count(), open.map(streams).sum())
    }

    /// Fills connections in order, so that the last ones become unused and can be closed.
    fn free_stream(&self) -> Option<Stream> {
        let mut connections = self.connections.lock();
        connections.retain(|connection| !connection.is_closed());
        let stream = connections.iter().find_map(PooledConnection::take);
        if connections.len() > 1 {
            let idle_timeout = self.options.idle_timeout;
            connections.retain(|connection| {
                connection.streams.load(Ordering::Acquire) > 0
                    || connection.idle_since.lock().elapsed() < idle_timeout
            });
        }
        stream
    }

    /// Starts to drive a connection, with one stream in use.
    fn start(&self, opened: Opened) -> Stream {
        let limit = self.options.streams_per_connection.max(1);
        let connection = match opened {
            Opened::SecureHttp2(sender, driver) => {
                let connection = PooledConnection::new(Sender::Http2(sender), limit);
                tokio::spawn(drive_http2(driver, Arc::downgrade(&connection), limit));
                connection
            }
            Opened::SecureHttp1(sender, driver) => http1_connection(sender, driver),
            Opened::PlainHttp1(sender, driver) => http1_connection(sender, driver),
        };
        connection.streams.store(1, Ordering::Release);
        Stream { connection }
    }
}

fn http1_connection<T>(
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Box<Http1Connection<T>>,
) -> Arc<PooledConnection>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Its requests get the error.
    tokio::spawn(async move { drop(driver.await) });
    PooledConnection::new(Sender::Http1(tokio::sync::Mutex::new(sender)), 1)
}

/// Drives a connection until it is closed, and tracks how many streams the server allows.
async fn drive_http2<T>(
    mut driver: Box<Http2Connection<T>>,
    connection: std::sync::Weak<PooledConnection>,
    limit: usize,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ended = std::future::poll_fn(|context| {
        let ended = std::pin::Pin::new(&mut *driver).poll(context);
        if let Some(connection) = connection.upgrade() {
            let allowed = driver.current_max_send_streams();
            connection.capacity.store(limit.min(allowed.max(1)), Ordering::Release);
        }
        ended
    });
    // Its requests get the error.
    drop(ended.await);
}

impl PooledConnection {
    fn new(sender: Sender, capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            sender,
            streams: AtomicUsize::new(0),
            capacity: AtomicUsize::new(capacity),
            idle_since: Mutex::new(Instant::now()),
        })
    }

    /// Takes a stream if there is capacity. Called under the lock of `connections`, so there is no race.
    fn take(self: &Arc<Self>) -> Option<Stream> {
        let free = self.streams.load(Ordering::Acquire) < self.capacity.load(Ordering::Acquire);
        free.then(|| {
            self.streams.fetch_add(1, Ordering::AcqRel);
            Stream { connection: Arc::clone(self) }
        })
    }

    fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http2(sender) => sender.is_closed(),
            Sender::Http1(sender) => sender.try_lock().is_ok_and(|sender| sender.is_closed()),
        }
    }
}

impl Stream {
    pub(super) fn is_multiplexed(&self) -> bool {
        matches!(self.connection.sender, Sender::Http2(_))
    }

    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, SendError> {
        let response = match &self.connection.sender {
            Sender::Http2(sender) => sender.clone().try_send_request(request).await,
            Sender::Http1(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await.map_err(|error| SendError { error, sent: false })?;
                sender.try_send_request(request).await
            }
        };
        response.map_err(|error| {
            let sent = error.message().is_none();
            SendError { error: error.into_error(), sent }
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        *self.connection.idle_since.lock() = Instant::now();
        self.connection.streams.fetch_sub(1, Ordering::AcqRel);
    }
}
