//! A running controller with all of its log lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use kross_testing::{shared, wait};

pub struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    pub async fn start(plane: &str, more: &[String]) -> Self {
        let kubeconfig = shared(plane).await.admin_path();
        let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
            .args(["controller", "--kubeconfig"])
            .arg(kubeconfig)
            .args(["--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0"])
            .args(["--admin-bind-address=127.0.0.1:0", "--zap-encoder=json", "--zap-log-level=trace"])
            .args(more)
            .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20zqcollectorzq")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        let process = Self { child, lines };
        let probes = process.address("probes").await;
        wait::until("the controller to be ready", || async {
            match ask(&probes, "/readyz") {
                (200, _) => Ok(()),
                (status, page) => Err(format!("{status} {page}")),
            }
        })
        .await;
        process
    }

    /// The address of these pages, from the log.
    async fn address(&self, pages: &str) -> String {
        let wanted = format!("\"pages\":\"{pages}\"");
        wait::until(format!("the controller to serve {pages}"), || async {
            let lines = self.lines.lock().unwrap();
            let line = lines.iter().find(|line| line.contains(&wanted)).ok_or_else(|| lines.join("\n"))?;
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            Ok(line["address"].as_str().unwrap().to_owned())
        })
        .await
    }

    /// Every page that it serves, by address and path.
    pub fn pages(&self) -> BTreeMap<String, String> {
        let lines = self.lines.lock().unwrap().clone();
        let mut pages = BTreeMap::new();
        for line in lines.iter().filter(|line| line.contains("\"message\":\"serving pages\"")) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let address = line["address"].as_str().unwrap();
            for path in ["/metrics", "/readyz", "/loglevel", "/clusters", "/watches", "/"] {
                pages.insert(format!("{address}{path}"), ask(address, path).1);
            }
        }
        assert!(pages.values().any(|page| page.contains("# TYPE")), "the metrics are served");
        pages
    }

    /// Waits until a text is in the log. The log is read asynchronously.
    pub async fn until_logged(&self, text: &str) {
        wait::until_true(format!("`{text}` in the log"), || {
            self.lines.lock().unwrap().iter().any(|line| line.contains(text))
        })
        .await;
    }

    pub fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(address: &str, path: &str) -> (u16, String) {
    let Ok(mut stream) = TcpStream::connect(address) else { return (0, "no connection".to_owned()) };
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
