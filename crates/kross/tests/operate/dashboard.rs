//! `kross dashboard`, as a browser asks for it.
#![allow(unreachable_pub)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kross_testing::Fault;
use serde_json::json;

use crate::world::{World, config_map};

/// A running `kross dashboard`. Stopped when dropped.
pub struct Dashboard {
    process: Child,
    host: String,
    key: String,
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Dashboard {
    pub fn start(kubeconfig: &std::path::Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_kross"))
            .args(["dashboard", "--address", "127.0.0.1:0", "--kubeconfig"])
            .arg(kubeconfig)
            .env_remove("KUBECONFIG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (host, key) = line
            .trim()
            .strip_prefix("http://")
            .unwrap()
            .split_once("/login?key=")
            .expect("an address with a key");
        Self { host: host.to_owned(), key: key.to_owned(), process }
    }

    /// The address of a page, for a browser that has no cookie yet.
    pub fn address(&self, path: &str) -> String {
        let next = path.replace('?', "%3F").replace('&', "%26");
        format!("http://{}/login?key={}&next={next}", self.host, self.key)
    }

    /// The address of a page, for a browser that has the cookie.
    pub fn page(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    fn send(&self, path: &str, headers: &str) -> TcpStream {
        let mut connection = TcpStream::connect(&self.host).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        connection
    }

    fn headers(&self) -> String {
        format!("Host: {}\r\nCookie: kross-session={}\r\n", self.host, self.key)
    }

    /// The whole response to a request of the logged-in user.
    pub fn get(&self, path: &str) -> String {
        self.get_with(path, &self.headers())
    }

    fn get_with(&self, path: &str, headers: &str) -> String {
        let mut text = String::new();
        self.send(path, headers).read_to_string(&mut text).unwrap();
        text
    }
}

/// Two objects, of which the one in the hub reads the one in `eu`.
async fn shop(world: &World, kind: &str) -> String {
    let mut reader = config_map("web", false, "${db.data.text}");
    reader["readyWhen"] = json!(["${web.data.text == 'one'}"]);
    world.ready(kind, "orders", json!([config_map("db", true, "${schema.spec.text}"), reader])).await;
    format!("/instances/{}.kro.run/{}/orders", kross_api::plural(kind), world.namespace)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_draws_an_instance_with_a_lane_for_each_cluster() {
    let world = World::new().await;
    let path = shop(&world, "DrawnShop").await;
    let dashboard = Dashboard::start(&world.admin_path());
    let page = dashboard.get(&path);
    let cluster = format!("{}/eu-kubeconfig", world.namespace);
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    for text in
        [">hub<", cluster.as_str(), "class=\"edge crossing\"", "db.data.text", "ConfigMap orders-db", "Ready"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    for (path, text) in [
        ("/", cluster.as_str()),
        ("/definitions", "drawnshop"),
        ("/definitions/drawnshop", "db.data.text"),
        ("/instances?q=orders&kind=DrawnShop", "orders"),
        ("/targets", "Targets"),
    ] {
        let page = dashboard.get(path);
        assert!(page.starts_with("HTTP/1.1 200") && page.contains(text), "{path}: {page}");
    }
    assert!(dashboard.get("/instances/nothing/x/y").starts_with("HTTP/1.1 404"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_shows_an_outage_and_the_recovery_without_a_reload() {
    let world = World::new().await;
    let path = shop(&world, "LiveShop").await;
    let dashboard = Dashboard::start(&world.admin_path());
    let stream = dashboard.send(&format!("/stream?page={}", path.replace('/', "%2F")), &dashboard.headers());
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    world.proxy.set(Fault::Refuse);
    assert!(lines.any(|line| line.starts_with("data:") && line.contains("not connected for")));
    world.proxy.set(Fault::Pass);
    assert!(lines.any(|line| line.starts_with("data:") && line.contains("connected · watch · 1/1 ready")));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_user_who_started_the_dashboard_sees_it_and_it_keeps_to_itself() {
    let world = World::new().await;
    let dashboard = Dashboard::start(&world.admin_path());
    let host = format!("Host: {}\r\n", dashboard.host);
    for path in ["/", "/instances", "/stream?page=%2F"] {
        assert!(dashboard.get_with(path, &host).starts_with("HTTP/1.1 401"), "{path}");
    }
    assert!(dashboard.get_with("/login?key=guess", &host).starts_with("HTTP/1.1 401"));
    let rebound = dashboard.headers().replace(&dashboard.host, "attacker.example.com");
    assert!(dashboard.get_with("/", &rebound).starts_with("HTTP/1.1 421"));
    let login = dashboard.get_with(&format!("/login?key={}&next=//evil.example.com", dashboard.key), &host);
    assert!(login.contains("location: /\r\n") && login.contains("HttpOnly; SameSite=Strict"), "{login}");
    let page = dashboard.get("/");
    let policy = page.lines().find(|line| line.starts_with("content-security-policy:")).unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let is_external = |text: &str| text.contains("src=\"http") || text.contains("href=\"http");
    assert!(!is_external(&page), "{page}");
    let refused = world.kross(&["dashboard", "--address", "0.0.0.0:8076"]);
    assert_eq!(refused.code, 2);
    assert!(refused.notes.contains("is reachable from other hosts"), "{}", refused.notes);
}
