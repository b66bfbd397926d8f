//! Clients that never finish: they lose their connections, and others get their pages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use kross_server::{BindAddress, CertificateFiles, ServeOptions, ServerCertificate, serve};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// No test waits longer.
const LIMIT: Duration = Duration::from_secs(20);

fn short() -> ServeOptions {
    ServeOptions {
        max_connections: 8,
        handshake_timeout: Duration::from_millis(200),
        header_timeout: Duration::from_millis(200),
        request_timeout: Duration::from_millis(300),
        write_timeout: LIMIT,
        connection_age: Duration::from_secs(60),
        connection_grace: Duration::from_millis(200),
        ..ServeOptions::default()
    }
}

async fn start(pages: Router, options: ServeOptions) -> SocketAddr {
    let address: BindAddress = "127.0.0.1:0".parse().unwrap();
    let listener = address.listen("pages").await.unwrap().unwrap();
    let address = listener.address().unwrap();
    tokio::spawn(serve(listener, pages, options, std::future::pending()));
    address
}

fn pages() -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/never", get(async || std::future::pending::<&str>().await))
        .route("/large", get(async || "x".repeat(64 << 20)))
        .route("/body", axum::routing::put(async |body: String| body.len().to_string()))
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    // A TLS server may close without a last message.
    let _ = stream.read_to_string(&mut response).await;
    response
}

/// Waits until the server has closed the connection, and returns what it sent before.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let read = timeout(LIMIT, stream.read_to_end(&mut received)).await;
    let _ = read.expect("the server closes the connection");
    received
}

#[tokio::test]
async fn a_client_that_never_finishes_its_header_is_disconnected() {
    let address = start(pages(), short()).await;
    let mut drip = TcpStream::connect(address).await.unwrap();
    drip.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let (mut reader, mut writer) = drip.into_split();
    let dripping = tokio::spawn(async move {
        while writer.write_all(b"X: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut received = Vec::new();
    let _ = timeout(LIMIT, reader.read_to_end(&mut received)).await.expect("disconnected");
    assert!(!received.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&received));
    timeout(LIMIT, dripping).await.expect("it cannot go on").unwrap();
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_disconnected() {
    let address = start(pages(), short()).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    until_closed(&mut silent).await;
    // The same after a request.
    let mut kept_alive = TcpStream::connect(address).await.unwrap();
    kept_alive.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let received = until_closed(&mut kept_alive).await;
    assert!(received.ends_with(b"ok"), "{}", String::from_utf8_lossy(&received));
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered_with_503() {
    let address = start(pages(), short()).await;
    let response = ask(TcpStream::connect(address).await.unwrap(), "/never").await;
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    // A body that never ends.
    let mut body = TcpStream::connect(address).await.unwrap();
    body.write_all(b"PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx").await.unwrap();
    let received = until_closed(&mut body).await;
    assert!(received.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&received));
}

#[tokio::test]
async fn a_long_header_or_body_is_refused() {
    let address = start(pages(), short()).await;
    for (request, status) in [
        (format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)), "431"),
        (
            format!(
                "PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}",
                1 << 20,
                "x".repeat(1 << 20)
            ),
            "413",
        ),
    ] {
        let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
        let writing = tokio::spawn(async move { writer.write_all(request.as_bytes()).await });
        let mut head = [0; 12];
        timeout(LIMIT, reader.read_exact(&mut head)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&head), format!("HTTP/1.1 {status}"));
        drop(reader);
        let _ = timeout(LIMIT, writing).await.expect("the server does not read on");
    }
}

#[tokio::test]
async fn a_client_that_never_reads_its_response_is_disconnected() {
    let options = ServeOptions { connection_age: Duration::from_millis(100), ..short() };
    let address = start(pages(), options).await;
    let mut stalled = TcpStream::connect(address).await.unwrap();
    stalled.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(until_closed(&mut stalled).await.len() < 64 << 20);
}

#[tokio::test]
async fn a_client_that_never_reads_a_stream_is_disconnected() {
    // A stream has no end, and its connection may be old.
    let endless = async || {
        let chunks = futures::stream::repeat_with(|| Ok::<_, std::convert::Infallible>("x".repeat(64 << 10)));
        axum::body::Body::from_stream(chunks)
    };
    let options = ServeOptions { write_timeout: Duration::from_millis(200), ..short() };
    let address = start(Router::new().route("/stream", get(endless)), options).await;
    let mut stalled = TcpStream::connect(address).await.unwrap();
    stalled.write_all(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    // Nothing is read until the connection is reset, which the kernel reports by a write.
    let closed = async {
        while stalled.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, closed).await.expect("disconnected");
}

#[tokio::test]
async fn a_flood_of_connections_does_not_stop_the_probes() {
    // Long times: only making room helps.
    let longer = 3 * LIMIT;
    let options = ServeOptions { header_timeout: longer, handshake_timeout: longer, ..short() };
    let address = start(pages(), options).await;
    let mut flood = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        flood.push(stream);
    }
    // The kubelet has another address.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut kubelet = timeout(LIMIT, socket.connect(address)).await.unwrap().unwrap();
    kubelet.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    for _ in 0..200 {
        flood.push(TcpStream::connect(address).await.unwrap());
    }
    kubelet.write_all(b"Connection: close\r\n\r\n").await.unwrap();
    let received = until_closed(&mut kubelet).await;
    assert!(received.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&received));
    // The flood has displaced its own connections: those that are open are as few as the options allow.
    let displaced = flood.len() - short().max_connections;
    for stream in &mut flood[..displaced] {
        until_closed(stream).await;
    }
}

/// The certificate of a server, its authority, and the folder of its files.
fn certificate() -> (ServeOptions, RootCertStore, tempfile::TempDir) {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files =
        CertificateFiles { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
    std::fs::write(&files.certificate, pair.cert.pem()).unwrap();
    std::fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pair.cert.pem().as_bytes()).unwrap()).unwrap();
    let certificate = Arc::new(ServerCertificate::new(Some(files)).unwrap());
    (ServeOptions { certificate: Some(certificate), ..short() }, roots, folder)
}

#[tokio::test]
async fn pages_with_a_certificate_are_served_over_tls_only() {
    let (options, roots, _folder) = certificate();
    let address = start(pages(), options).await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    let response = ask(stream, "/healthz").await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("ok"), "{response}");
    let plain = ask(TcpStream::connect(address).await.unwrap(), "/healthz").await;
    assert!(!plain.contains("200"), "{plain}");
    // Nor does an unfinished handshake hold its connection.
    let mut silent = TcpStream::connect(address).await.unwrap();
    until_closed(&mut silent).await;
}
