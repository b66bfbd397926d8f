//! Opens a connection to an address: socket, TLS, and HTTP/2, or HTTP/1 if the server supports nothing else.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kross_value::Text;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::error::{describe, describe_tls};
use super::{TransportError, TransportOptions};
use crate::blocking::NAME_LOOKUPS;
use crate::cidr::{Cidr, is_denied};

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The address of a server, and how its certificate is verified.
#[derive(Clone)]
pub struct Endpoint {
    scheme: http::uri::Scheme,
    host: String,
    port: u16,
    authority: http::uri::Authority,
    /// The path that precedes that of every request, without a trailing slash.
    prefix: String,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
    /// Addresses that are never connected to, whatever the host name resolves to.
    denied: Arc<[Cidr]>,
    /// The namespace whose share of name lookups is used; none for the local cluster, which has no share.
    namespace: Option<Text>,
}

impl Endpoint {
    /// An endpoint at an address. `tls` has the trusted authorities and the client certificate; `server_name` is the
    /// name that the server's certificate is verified for, if it is not the host.
    ///
    /// # Errors
    /// The address has no host, or a scheme other than `https` and `http`.
    pub fn new(
        address: &Uri,
        mut tls: rustls::ClientConfig,
        server_name: Option<&str>,
    ) -> Result<Self, TransportError> {
        let parts = address.clone().into_parts();
        let (scheme, authority) = parts.scheme.zip(parts.authority).ok_or(TransportError::Address)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let secure = match scheme.as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(TransportError::Address),
        };
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        tls.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        let name = ServerName::try_from(server_name.unwrap_or(&host).to_owned())
            .map_err(|_| TransportError::Address)?;
        let prefix = address.path().trim_end_matches('/').to_owned();
        let tls = secure.then(|| (Arc::new(tls), name));
        Ok(Self { scheme, host, port, authority, prefix, tls, denied: Arc::default(), namespace: None })
    }

    /// Never connects to these addresses. Host names are checked by what they resolve to when a connection is opened.
    #[must_use]
    pub fn denying(mut self, denied: Arc<[Cidr]>) -> Self {
        self.denied = denied;
        self
    }

    /// Looks host names up as one of the Secrets of a namespace.
    #[must_use]
    pub fn of_namespace(mut self, namespace: Text) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// The addresses of the host.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let Some(namespace) = &self.namespace else {
            return Ok(lookup_host((self.host.as_str(), self.port)).await?.collect());
        };
        let (host, port) = (self.host.clone(), self.port);
        let lookup = move || (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        NAME_LOOKUPS
            .call(namespace.clone(), lookup)
            .await
            .unwrap_or_else(|panicked| Err(io::Error::other(panicked)))
    }

    /// The same endpoint without a client certificate.
    pub(crate) fn without_certificate(&self) -> Self {
        let mut endpoint = self.clone();
        if let Some((tls, _)) = &mut endpoint.tls {
            Arc::make_mut(tls).client_auth_cert_resolver = Arc::new(NoCertificate);
        }
        endpoint
    }

    pub(super) fn scheme(&self) -> http::uri::Scheme {
        self.scheme.clone()
    }

    pub(super) fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// The path of a request on this server.
    pub(super) fn path(&self, request: &Uri) -> String {
        let path = request.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        format!("{}{path}", self.prefix)
    }

    /// The addresses that are never connected to.
    pub(super) fn denied(&self) -> &[Cidr] {
        &self.denied
    }

    /// How the server is verified; none for plain HTTP.
    pub(super) fn tls(&self) -> Option<&(Arc<rustls::ClientConfig>, ServerName<'static>)> {
        self.tls.as_ref()
    }

    pub(super) fn unresolved(&self, problem: &str) -> TransportError {
        TransportError::Resolve { host: self.host.clone(), problem: problem.to_owned() }
    }

    pub(super) fn unreachable(&self, error: &io::Error) -> TransportError {
        TransportError::Connect { authority: self.authority.to_string(), problem: describe(error).to_owned() }
    }
}

/// Presents no client certificate.
#[derive(Debug)]
struct NoCertificate;

impl rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(
        &self,
        _authorities: &[&[u8]],
        _schemes: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// Does not show the TLS configuration, which has a private key.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({}://{}{})", self.scheme, self.authority, self.prefix)
    }
}

pub(super) type Http2Connection<T> = http2::Connection<TokioIo<T>, Full<Bytes>, TokioExecutor>;
pub(super) type Http1Connection<T> = http1::Connection<TokioIo<T>, Full<Bytes>>;

/// An open connection whose driver is not running yet.
pub(super) enum Opened {
    SecureHttp2(http2::SendRequest<Full<Bytes>>, Box<Http2Connection<TlsStream>>),
    SecureHttp1(http1::SendRequest<Full<Bytes>>, Box<Http1Connection<TlsStream>>),
    PlainHttp1(http1::SendRequest<Full<Bytes>>, Box<Http1Connection<TcpStream>>),
}

pub(super) type TlsStream = tokio_rustls::client::TlsStream<TcpStream>;

pub(super) async fn dial(endpoint: &Endpoint, options: &TransportOptions) -> Result<Opened, TransportError> {
    let socket = within(endpoint, options.connect_timeout, connect(endpoint)).await?;
    let Some((tls, name)) = &endpoint.tls else {
        let (sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(|error| TransportError::broken(&error))?;
        return Ok(Opened::PlainHttp1(sender, Box::new(connection)));
    };
    let connector = TlsConnector::from(Arc::clone(tls));
    let secure = within(endpoint, options.tls_timeout, async {
        connector.connect(name.clone(), socket).await.map_err(|error| tls_error(endpoint, &error))
    })
    .await?;
    if secure.get_ref().1.alpn_protocol() == Some(HTTP2) {
        let (sender, connection) =
            within(endpoint, options.tls_timeout, http2_handshake(secure, options)).await?;
        Ok(Opened::SecureHttp2(sender, Box::new(connection)))
    } else {
        let (sender, connection) =
            http1::handshake(TokioIo::new(secure)).await.map_err(|error| TransportError::broken(&error))?;
        Ok(Opened::SecureHttp1(sender, Box::new(connection)))
    }
}

/// A timeout means the same as a failure: the server is unreachable.
pub(super) async fn within<T>(
    endpoint: &Endpoint,
    limit: Duration,
    step: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    timeout(limit, step).await.unwrap_or_else(|_| {
        Err(TransportError::Connect {
            authority: endpoint.authority.to_string(),
            problem: format!("no answer within {:.1}s", limit.as_secs_f64()),
        })
    })
}

async fn connect(endpoint: &Endpoint) -> Result<TcpStream, TransportError> {
    let addresses = endpoint.addresses().await.map_err(|_| endpoint.unresolved("no such host"))?;
    let mut last = None;
    for address in addresses {
        if is_denied(address.ip(), &endpoint.denied) {
            last.get_or_insert(TransportError::Denied { authority: endpoint.authority.to_string() });
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(socket) => {
                // Requests are small and latency matters.
                socket.set_nodelay(true).map_err(|error| endpoint.unreachable(&error))?;
                return Ok(socket);
            }
            Err(error) => last = Some(endpoint.unreachable(&error)),
        }
    }
    Err(last.unwrap_or_else(|| endpoint.unresolved("no address")))
}

async fn http2_handshake<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: T,
    options: &TransportOptions,
) -> Result<(http2::SendRequest<Full<Bytes>>, Http2Connection<T>), TransportError> {
    let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(options.ping_interval)
        .keep_alive_timeout(options.ping_timeout)
        .keep_alive_while_idle(true)
        // A watch that is not read for a moment must not block the other streams.
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(16 << 20)
        .initial_max_send_streams(SETTINGS_PENDING)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| TransportError::broken(&error))?;
    // The task that reads from the socket wakes nobody here, so poll for the settings.
    let mut polls = tokio::time::interval(Duration::from_millis(1));
    while connection.current_max_send_streams() == SETTINGS_PENDING {
        polls.tick().await;
        if let Poll::Ready(ended) = futures::poll!(&mut connection) {
            let closed = "the server closed the connection at once".to_owned();
            return Err(ended.map_or_else(
                |error| TransportError::broken(&error),
                |()| TransportError::Broken { problem: closed },
            ));
        }
    }
    Ok((sender, connection))
}

/// The stream limit until the server's settings have arrived. A connection is not used before: streams beyond the
/// server's limit would hang without an error.
const SETTINGS_PENDING: usize = 1_000_003;

pub(super) fn tls_error(endpoint: &Endpoint, error: &io::Error) -> TransportError {
    let (problem, certificate) = describe_tls(error);
    TransportError::Tls {
        authority: endpoint.authority.to_string(),
        problem: problem.to_owned(),
        certificate,
    }
}
