//! A collector of traces: an OTLP receiver over HTTP that decodes what it gets.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Receives traces until it is dropped.
pub struct TraceCollector {
    address: SocketAddr,
    received: Arc<Received>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Received {
    requests: std::sync::Mutex<Vec<TraceRequest>>,
    /// The status to answer with; 0 for success.
    refuse: AtomicU16,
}

/// One request with spans.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// The path and the headers, as text.
    pub head: String,
    /// The body, as it was received.
    pub body: Bytes,
    /// The spans in the body.
    pub spans: Vec<ReceivedSpan>,
}

/// A span that was received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedSpan {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: Vec<u8>,
    /// The id of the span that it is in; empty for a root.
    pub parent: Vec<u8>,
    /// The id of its trace.
    pub trace: Vec<u8>,
    /// Whether its status is an error.
    pub failed: bool,
    /// Its attributes, as text.
    pub attributes: Vec<(String, String)>,
    /// The names of its events.
    pub events: Vec<String>,
    /// The attributes of its process.
    pub resource: Vec<(String, String)>,
}

impl ReceivedSpan {
    /// An attribute.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(given, _)| given == name).map(|(_, value)| &**value)
    }
}

impl TraceCollector {
    /// Receives plain HTTP.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> std::io::Result<Self> {
        Self::start_with(None).await
    }

    /// Receives HTTP over TLS.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start_with_tls(config: Arc<rustls::ServerConfig>) -> std::io::Result<Self> {
        Self::start_with(Some(config)).await
    }

    async fn start_with(tls: Option<Arc<rustls::ServerConfig>>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let received = Arc::<Received>::default();
        let server = tokio::spawn(accept(listener, tls, Arc::clone(&received)));
        Ok(Self { address, received, server })
    }

    /// Its address, without a scheme.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Refuses what it gets from now on with a status, such as 503; 0 accepts it again.
    pub fn refuse(&self, status: u16) {
        self.received.refuse.store(status, Ordering::Relaxed);
    }

    /// The requests so far, also those that were refused.
    #[must_use]
    pub fn requests(&self) -> Vec<TraceRequest> {
        self.received.requests.lock().map(|requests| requests.clone()).unwrap_or_default()
    }

    /// The spans so far.
    #[must_use]
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.requests().into_iter().flat_map(|request| request.spans).collect()
    }
}

impl Drop for TraceCollector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>, received: Arc<Received>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, received) = (tls.clone(), Arc::clone(&received));
        tokio::spawn(async move {
            match tls {
                None => serve(stream, received).await,
                Some(config) => {
                    if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                        serve(stream, received).await;
                    }
                }
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, received: Arc<Received>) {
    let service = service_fn(move |request| {
        let received = Arc::clone(&received);
        async move { Ok::<_, Infallible>(answer(request, &received).await) }
    });
    // The client may close the connection at any time.
    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, received: &Received) -> Response<Full<Bytes>> {
    let status = |status| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        response
    };
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return status(StatusCode::BAD_REQUEST) };
    let body = body.to_bytes();
    let Ok(decoded) = ExportTraceServiceRequest::decode(body.clone()) else {
        return status(StatusCode::BAD_REQUEST);
    };
    let head = format!("{} {} {:?}", head.method, head.uri, head.headers);
    if let Ok(mut requests) = received.requests.lock() {
        requests.push(TraceRequest { head, body, spans: spans(decoded) });
    }
    match StatusCode::from_u16(received.refuse.load(Ordering::Relaxed)) {
        Ok(refused) => status(refused),
        Err(_) => status(StatusCode::OK),
    }
}

fn spans(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
    let of_process = request.resource_spans.into_iter().flat_map(|process| {
        let resource = texts(process.resource.map(|resource| resource.attributes).unwrap_or_default());
        let spans = process.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.map(move |span| received_span(span, resource.clone()))
    });
    of_process.collect()
}

fn received_span(span: Span, resource: Vec<(String, String)>) -> ReceivedSpan {
    const ERROR: i32 = 2;
    ReceivedSpan {
        name: span.name,
        id: span.span_id,
        parent: span.parent_span_id,
        trace: span.trace_id,
        failed: span.status.is_some_and(|status| status.code == ERROR),
        attributes: texts(span.attributes),
        events: span.events.into_iter().map(|event| event.name).collect(),
        resource,
    }
}

fn texts(attributes: Vec<KeyValue>) -> Vec<(String, String)> {
    let text = |KeyValue { key, value, .. }: KeyValue| {
        let value = match value.and_then(|value| value.value) {
            Some(any_value::Value::StringValue(text)) => text,
            other => format!("{other:?}"),
        };
        (key, value)
    };
    attributes.into_iter().map(text).collect()
}
