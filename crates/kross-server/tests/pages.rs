//! The pages over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use kross_controller::{DefinitionValidator, Liveness, Readiness};
use kross_server::{
    BindAddress, ClusterNames, LogControl, ServeOptions, WEBHOOK_PATH, admin_pages, metrics_page,
    probe_pages, serve, webhook_pages,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn start(pages: axum::Router) -> SocketAddr {
    let address: BindAddress = "127.0.0.1:0".parse().unwrap();
    let listener = address.listen("pages").await.unwrap().unwrap();
    let address = listener.address().unwrap();
    tokio::spawn(serve(listener, pages, ServeOptions::default(), std::future::pending()));
    address
}

async fn request(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn readyz_lists_failing_checks_until_all_pass() {
    let readiness = Readiness::new(["leadership", "watches"]);
    let address = start(probe_pages(readiness.clone(), Liveness::default())).await;
    for path in ["/healthz", "/livez"] {
        assert_eq!(request(address, "GET", path, "").await, (200, "ok".to_owned()));
    }
    readiness.set("watches", true);
    assert_eq!(
        request(address, "GET", "/readyz", "").await,
        (503, "[-] leadership\n[+] watches\n".to_owned())
    );
    readiness.set("leadership", true);
    assert_eq!(request(address, "GET", "/readyz", "").await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn metrics_are_openmetrics_text() {
    let mut registry = Registry::default();
    let builds: Counter = Counter::default();
    registry.register("rgd_graph_build", "Graphs compiled", builds.clone());
    builds.inc();
    let address = start(metrics_page(Arc::new(registry), ClusterNames::Hidden)).await;
    let (status, page) = request(address, "GET", "/metrics", "").await;
    assert_eq!(status, 200);
    assert!(page.contains("rgd_graph_build_total 1\n"), "{page}");
    assert!(page.ends_with("# EOF\n"), "{page}");
}

struct Level(Mutex<String>);

impl LogControl for Level {
    fn level(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        if level != "debug" {
            return Err(format!("invalid level `{level}`"));
        }
        *self.0.lock().unwrap() = level.to_owned();
        Ok(())
    }
}

#[tokio::test]
async fn the_log_level_can_be_read_and_changed() {
    let address = start(admin_pages(Arc::new(Level(Mutex::new("info".to_owned()))))).await;
    assert_eq!(request(address, "GET", "/loglevel", "").await, (200, "info\n".to_owned()));
    assert_eq!(request(address, "PUT", "/loglevel", "debug\n").await, (200, "debug\n".to_owned()));
    assert_eq!(
        request(address, "PUT", "/loglevel", "loud").await,
        (400, "invalid level `loud`\n".to_owned())
    );
    assert_eq!(request(address, "GET", "/loglevel", "").await, (200, "debug\n".to_owned()));
}

#[tokio::test]
async fn requests_that_are_no_review_or_never_end_are_refused() {
    let address = start(webhook_pages(DefinitionValidator::default())).await;
    let post = async |body: &str| request(address, "POST", WEBHOOK_PATH, body).await;
    assert_eq!(request(address, "GET", WEBHOOK_PATH, "").await.0, 405);
    for body in ["", "[]", "{}", &"[".repeat(100_000), r#"{"apiVersion": "v1", "request": {"uid": "1"}}"#] {
        assert_eq!(post(body).await.0, 400, "{body:.80}");
    }
    let large = format!(r#"{{"apiVersion": "{}", "request": {{}}}}"#, "x".repeat(5 << 20));
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("POST {WEBHOOK_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", large.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server may hang up before it has read everything.
    let _ = stream.write_all(large.as_bytes()).await;
    let mut response = [0; 12];
    stream.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 400");
    let mut never = tokio::net::TcpStream::connect(address).await.unwrap();
    never.write_all(head.as_bytes()).await.unwrap();
    never.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 408");
}

#[tokio::test]
async fn a_controller_that_is_starting_allows_definitions_with_a_warning() {
    let address = start(webhook_pages(DefinitionValidator::default())).await;
    let review = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request":
        {"uid": "7", "name": "web", "object": {"kind": "ResourceGraphDefinition"}}}"#;
    let (status, answer) = request(address, "POST", &format!("{WEBHOOK_PATH}?timeout=5s"), review).await;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (200, &true.into()));
    assert_eq!(answer["response"]["uid"], "7");
    let warning = answer["response"]["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("the definition was not checked: the controller is starting"), "{warning}");
}
