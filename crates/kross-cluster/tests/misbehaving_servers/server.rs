//! Servers that misbehave, and what they send.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kross_cluster::{ApiKind, ClientOptions, ClusterClient, ClusterId};
use kross_local::{CertificateAuthority, Validity};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::json;
use tokio::net::TcpListener;

pub type Body = UnsyncBoxBody<Bytes, Infallible>;
/// The requests that were received.
pub type Log = Arc<Mutex<Vec<String>>>;

pub fn body(chunks: Vec<String>) -> Body {
    let frames = chunks.into_iter().map(|chunk| Ok(Frame::data(Bytes::from(chunk))));
    UnsyncBoxBody::new(StreamBody::new(stream::iter(frames)))
}

/// Sends chunks, and then nothing.
pub fn unfinished(chunks: Vec<String>) -> Body {
    let frames = stream::iter(chunks.into_iter().map(|chunk| Ok(Frame::data(Bytes::from(chunk)))));
    UnsyncBoxBody::new(StreamBody::new(frames.chain(stream::pending())))
}

pub fn response(code: u16, text: &str) -> Response<Body> {
    Response::builder().status(code).body(body(vec![text.to_owned()])).unwrap()
}

pub const MAX_STREAMS: u32 = 10;

/// An HTTP/1 server with a handler for path and query. For a metadata list, the word `metadata` precedes the path.
pub struct Server {
    pub url: String,
    authority: Option<CertificateDer<'static>>,
    pub connections: Arc<AtomicUsize>,
}

impl Server {
    pub async fn plain(handler: impl Fn(&str) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self::start(handler, None).await
    }

    /// With TLS, but without HTTP/2.
    pub async fn secure(handler: impl Fn(&str) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self::with_tls(b"http/1.1", handler).await
    }

    /// With HTTP/2, and only [`MAX_STREAMS`] streams per connection.
    pub async fn with_few_streams(handler: impl Fn(&str) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self::with_tls(b"h2", handler).await
    }

    async fn with_tls(
        protocol: &[u8],
        handler: impl Fn(&str) -> Response<Body> + Send + Sync + 'static,
    ) -> Self {
        let authority = CertificateAuthority::new("test").unwrap();
        let identity = authority.server(&["127.0.0.1".to_owned()], Validity::Current).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        tls.alpn_protocols = vec![protocol.to_vec()];
        let mut server = Self::start(handler, Some(tokio_rustls::TlsAcceptor::from(Arc::new(tls)))).await;
        server.authority = Some(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap());
        server
    }

    async fn start(
        handler: impl Fn(&str) -> Response<Body> + Send + Sync + 'static,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let (handler, counter) = (Arc::new(handler), Arc::clone(&connections));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
                let (handler, tls) = (Arc::clone(&handler), tls.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let accept = request.headers().get("accept").and_then(|accept| accept.to_str().ok());
                    let partial =
                        accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadataList"));
                    let path = request.uri().path_and_query().unwrap().as_str();
                    let response = handler(&format!("{}{path}", if partial { "metadata " } else { "" }));
                    async move {
                        // Requests overlap, so that each needs a connection.
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        Ok::<_, Infallible>(response)
                    }
                });
                tokio::spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    match tls {
                        Some(tls) => {
                            let socket = tls.accept(socket).await.unwrap();
                            if socket.get_ref().1.alpn_protocol() == Some(b"h2") {
                                let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                                http.max_concurrent_streams(MAX_STREAMS);
                                drop(http.serve_connection(TokioIo::new(socket), service).await);
                            } else {
                                drop(http.serve_connection(TokioIo::new(socket), service).await);
                            }
                        }
                        None => drop(http.serve_connection(TokioIo::new(socket), service).await),
                    }
                });
            }
        });
        Self { url, authority: None, connections }
    }

    pub async fn connect(&self) -> ClusterClient {
        self.connect_with(ClientOptions::default()).await
    }

    /// As another cluster.
    pub async fn connect_as(&self, name: &str) -> ClusterClient {
        let config = kube::Config::new(self.url.parse().unwrap());
        ClusterClient::trusted(ClusterId::new(name), config, ClientOptions::default()).await.unwrap()
    }

    pub async fn connect_with(&self, options: ClientOptions) -> ClusterClient {
        let mut config = kube::Config::new(self.url.parse().unwrap());
        config.root_cert = self.authority.as_ref().map(|authority| vec![authority.to_vec()]);
        ClusterClient::trusted(ClusterId::new("test"), config, options).await.unwrap()
    }
}

pub fn config_map() -> ApiKind {
    ApiKind::custom("", "v1", "ConfigMap", "configmaps", true)
}

pub fn object(name: &str, version: u64) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
           "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version.to_string()}})
}

pub fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "m"})
}

/// A server with scripted lists and watches: the items of each list, and the events of each watch.
pub fn scripted(
    lists: Vec<(u64, Vec<serde_json::Value>)>,
    watches: Vec<Vec<serde_json::Value>>,
) -> (impl Fn(&str) -> Response<Body> + Send + Sync, Log) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (listed, watched) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let requests = Arc::clone(&log);
    let handler = move |path: &str| {
        // It has no metadata lists, so a watch is resumed without a check of the versions.
        if path.contains("?limit=1&") || path.ends_with("?limit=1") {
            return response(406, "{}");
        }
        requests.lock().unwrap().push(path.to_owned());
        if path.contains("watch=true") {
            let script = watches.get(watched.fetch_add(1, Ordering::Relaxed));
            let lines = script.into_iter().flatten().map(|event| format!("{event}\n")).collect();
            Response::new(if script.is_some() { body(lines) } else { unfinished(lines) })
        } else {
            let at = listed.fetch_add(1, Ordering::Relaxed).min(lists.len() - 1);
            let (version, items) = &lists[at];
            response(
                200,
                &json!({"metadata": {"resourceVersion": version.to_string()}, "items": items}).to_string(),
            )
        }
    };
    (handler, log)
}

pub fn event(kind: &str, object: &serde_json::Value) -> serde_json::Value {
    json!({"type": kind, "object": object})
}
