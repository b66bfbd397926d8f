//! The pages over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use kross_controller::{Liveness, Readiness};
use kross_server::{
    BindAddress, ClusterNames, LogControl, ServeOptions, admin_pages, metrics_page, probe_pages, serve,
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
