//! Serves pages on a listener until it is stopped. Every client is untrusted: connections, the time for a header, a request,
//! a write and a connection, and the requests that are handled at once are limited.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::address::Listener;
use crate::certificate::ServerCertificate;
use crate::connections::{Connections, OpenConnection};
use crate::stalled::Impatient;

/// The longest header of a request.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// The longest body of a request.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The pause after the system could not accept a connection, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// What clients may use, and how connections are protected.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// How many connections may be open. A further one takes the place of another.
    pub max_connections: usize,
    /// How many requests are handled at once; others wait.
    pub max_requests: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a client may take for the header of a request, or send none.
    pub header_timeout: Duration,
    /// How long handling a request may take.
    pub request_timeout: Duration,
    /// How long a client may read nothing of what is sent to it.
    pub write_timeout: Duration,
    /// After this time a connection is closed when its request is answered.
    pub connection_age: Duration,
    /// How much longer the request may take until the connection is closed anyway.
    pub connection_grace: Duration,
    /// With a certificate, pages are served over TLS only.
    pub certificate: Option<Arc<ServerCertificate>>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            max_connections: 128,
            max_requests: 16,
            handshake_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(20),
            connection_age: Duration::from_secs(60),
            connection_grace: Duration::from_secs(30),
            certificate: None,
        }
    }
}

impl ServeOptions {
    /// For pages with streams, which stay open as long as somebody looks at them.
    #[must_use]
    pub fn for_streams() -> Self {
        const HOUR: Duration = Duration::from_secs(60 * 60);
        Self { connection_age: HOUR, connection_grace: Duration::from_secs(1), ..Self::default() }
    }
}

/// What every connection of a listener needs.
struct Server {
    pages: Router,
    options: ServeOptions,
    requests: Semaphore,
    tls: Option<(TlsAcceptor, Arc<ServerCertificate>)>,
    stop: watch::Receiver<bool>,
}

/// Serves until `stop` completes, then finishes the requests that are in flight.
///
/// # Errors
/// The certificate cannot be used for TLS.
pub async fn serve(
    listener: Listener,
    pages: Router,
    options: ServeOptions,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let tls = options.certificate.as_ref().map(|certificate| {
        let config = certificate.tls_config().map_err(io::Error::other)?;
        Ok::<_, io::Error>((TlsAcceptor::from(Arc::new(config)), Arc::clone(certificate)))
    });
    let (stopping, stopped) = watch::channel(false);
    let connections = Connections::new(options.max_connections);
    let grace = options.connection_grace;
    let server = Arc::new(Server {
        pages: pages.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)),
        requests: Semaphore::new(options.max_requests),
        tls: tls.transpose()?,
        options,
        stop: stopped,
    });
    let mut tasks = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let stream = tokio::select! {
            () = &mut stop => break,
            // Collects the tasks that have ended.
            Some(_) = tasks.join_next() => continue,
            stream = accept(&listener.0) => stream,
        };
        let Ok(peer) = stream.peer_addr() else { continue };
        let open = connections.admit(peer.ip());
        tasks.spawn(Arc::clone(&server).connection(stream, open));
    }
    drop(listener);
    stopping.send_replace(true);
    // A client cannot prevent the end of the process.
    let _ = timeout(grace, async { while tasks.join_next().await.is_some() {} }).await;
    Ok(())
}

/// The next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The client has closed it already.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                ) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the pages");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Server {
    async fn connection(self: Arc<Self>, stream: TcpStream, mut open: OpenConnection) {
        let busy = Arc::clone(&open.busy);
        let set_busy = move |handled| busy.store(handled, Ordering::Relaxed);
        tokio::select! {
            _ = &mut open.displaced => {}
            () = self.secured(stream, set_busy) => {}
        }
    }

    /// Shakes hands if the pages are served over TLS.
    async fn secured(&self, stream: TcpStream, set_busy: impl Fn(bool)) {
        let stream = Impatient::new(stream, self.options.write_timeout);
        let Some((acceptor, certificate)) = &self.tls else { return self.requests(stream, set_busy).await };
        let handshake = async {
            certificate.refresh().await;
            acceptor.accept(stream).await
        };
        if let Ok(Ok(stream)) = timeout(self.options.handshake_timeout, handshake).await {
            self.requests(stream, set_busy).await;
        }
    }

    /// Answers the requests on a connection until it ends or is too old.
    async fn requests(&self, stream: impl AsyncRead + AsyncWrite + Unpin, set_busy: impl Fn(bool)) {
        let service = service_fn(|request| async {
            set_busy(true);
            let response = self.response(request).await;
            set_busy(false);
            Ok::<_, std::convert::Infallible>(response)
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.options.header_timeout)
            .max_buf_size(MAX_HEADER_BYTES);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut stop = self.stop.clone();
        tokio::select! {
            // Errors are the client's.
            _ = &mut connection => return,
            () = sleep(self.options.connection_age) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = timeout(self.options.connection_grace, connection).await;
    }

    async fn response(&self, request: hyper::Request<Incoming>) -> Response {
        let handled = async {
            // The semaphore is never closed.
            let _permit = self.requests.acquire().await;
            match self.pages.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        };
        timeout(self.options.request_timeout, handled).await.unwrap_or_else(|_| {
            (StatusCode::SERVICE_UNAVAILABLE, "the request took too long\n").into_response()
        })
    }
}
