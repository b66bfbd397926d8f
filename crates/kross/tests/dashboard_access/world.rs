//! A hub with instances in two namespaces, controllers that serve the dashboard, and a browser without a screen: it keeps cookies and
//! follows nothing.
#![allow(unreachable_pub, dead_code)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use http::{Request, header};
use http_body_util::BodyExt;
use kross_local::{Access, ControlPlane, Credential, rule};
use kross_testing::wait;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

/// The Secret with the key of sessions.
pub const SECRET: &str = "kro-system/kross-dashboard";

/// A controller that serves the dashboard and reconciles nothing. It is killed when it is dropped.
pub struct Replica {
    child: Child,
    pub address: String,
    pub metrics: String,
    lines: Arc<Mutex<Vec<String>>>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: String,
}

/// What a client sends with each request.
#[derive(Clone, Debug, Default)]
pub struct Visitor {
    pub token: Option<String>,
    pub cookies: BTreeMap<String, String>,
    pub headers: Vec<(&'static str, String)>,
}

impl Replica {
    pub async fn start(kubeconfig: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
            .args(["controller", "--zap-encoder=json", "--zap-log-level=trace", "--kubeconfig"])
            .arg(kubeconfig)
            .args(["--leader-elect", "--leader-election-namespace=nowhere"])
            .args([
                "--health-probe-bind-address=0",
                "--metrics-bind-address=127.0.0.1:0",
                "--admin-bind-address=0",
            ])
            .args(["--dashboard-bind-address=127.0.0.1:0", &format!("--dashboard-session-secret={SECRET}")])
            .args(more)
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
        let mut replica = Self { child, address: String::new(), metrics: String::new(), lines };
        replica.metrics = replica.address("metrics").await;
        replica.address = replica.address("dashboard").await;
        replica
    }

    async fn address(&self, pages: &str) -> String {
        let wanted = format!("\"pages\":\"{pages}\"");
        wait::until(format!("the controller to serve {pages}"), || async {
            let lines = self.lines.lock().unwrap();
            let line = lines.iter().find(|line| line.contains(&wanted)).ok_or_else(|| lines.join("\n"))?;
            let line: Json = serde_json::from_str(line).unwrap();
            Ok(line["address"].as_str().unwrap().to_owned())
        })
        .await
    }

    pub fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    pub async fn get(&self, visitor: &Visitor, path: &str) -> Answer {
        self.send(visitor, Request::get(path).body(Vec::new()).unwrap()).await
    }

    pub async fn post(&self, visitor: &Visitor, path: &str, form: &str) -> Answer {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(visitor, request.body(form.as_bytes().to_vec()).unwrap()).await
    }

    pub async fn send(&self, visitor: &Visitor, request: Request<Vec<u8>>) -> Answer {
        let answer = self.response(visitor, request).await;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    async fn response(
        &self,
        visitor: &Visitor,
        mut request: Request<Vec<u8>>,
    ) -> http::Response<kube::client::Body> {
        let mut config = kube::Config::new(format!("https://{}", self.address).parse().unwrap());
        // It is self-signed.
        config.accept_invalid_certs = true;
        let client = Client::try_from(config).unwrap();
        let headers = request.headers_mut();
        if !headers.contains_key(header::ACCEPT) {
            headers.insert(header::ACCEPT, "text/html".parse().unwrap());
        }
        for (name, value) in &visitor.headers {
            headers.insert(*name, value.parse().unwrap());
        }
        if let Some(token) = &visitor.token {
            headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        }
        if !visitor.cookies.is_empty() {
            let pairs: Vec<String> =
                visitor.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            headers.insert(header::COOKIE, pairs.join("; ").parse().unwrap());
        }
        client.send(request.map(kube::client::Body::from)).await.unwrap()
    }

    /// The events of a page as they come.
    pub async fn stream(&self, visitor: &Visitor, page: &str) -> Events {
        let path =
            format!("/stream?page={}", page.replace('?', "%3F").replace('&', "%26").replace('=', "%3D"));
        let request = Request::get(path).header(header::ACCEPT, "text/event-stream");
        let response = self.response(visitor, request.body(Vec::new()).unwrap()).await;
        let status = response.status().as_u16();
        Events { status, body: response.into_body(), text: String::new() }
    }

    /// Logs in, and returns who has the cookies of the session.
    pub async fn log_in(&self, token: &str) -> Visitor {
        let answer =
            self.post(&Visitor::default(), "/login", &format!("token={token}&next=%2Finstances")).await;
        assert_eq!((answer.status, answer.location()), (303, "/instances"), "{answer:?}");
        Visitor { cookies: answer.cookies(), ..Visitor::default() }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An open stream.
pub struct Events {
    pub status: u16,
    body: kube::client::Body,
    text: String,
}

impl Events {
    /// The next event that is no comment: its name and its data.
    pub async fn next(&mut self) -> Option<(String, String)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| -> Vec<&str> {
                    event.lines().filter_map(|line| line.strip_prefix(name)).map(str::trim_start).collect()
                };
                if let Some(name) = field("event:").first() {
                    return Some(((*name).to_owned(), field("data:").join("\n")));
                }
                continue;
            }
            let frame = tokio::time::timeout(wait::WAIT_LIMIT, self.body.frame()).await.expect("an event")?;
            self.text.push_str(core::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
    }
}

impl Answer {
    pub fn location(&self) -> &str {
        self.headers.get(header::LOCATION).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn set_cookies(&self) -> Vec<&str> {
        self.headers.get_all(header::SET_COOKIE).iter().map(|value| value.to_str().unwrap()).collect()
    }

    /// The cookies that a browser keeps.
    pub fn cookies(&self) -> BTreeMap<String, String> {
        let pairs = self.set_cookies().into_iter().filter(|cookie| !cookie.contains("Max-Age=0;"));
        pairs
            .filter_map(|cookie| cookie.split(';').next()?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

impl Visitor {
    pub fn with_token(token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..Self::default() }
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// The right to read what the dashboard shows, as the ClusterRole of the chart has it: in one namespace, or everywhere.
pub fn viewing(access: Access, namespace: Option<&str>) -> Access {
    let read = ["get", "list", "watch"];
    let rules = [rule(&["kro.run"], &["*"], &read), rule(&["", "events.k8s.io"], &["events"], &read)];
    match namespace {
        Some(namespace) => access.in_namespace(namespace, rules),
        None => access.in_cluster(rules),
    }
}

/// A token of a new ServiceAccount.
pub async fn token(plane: &ControlPlane, name: &str, access: &Access) -> String {
    let minted = plane.mint_token("accounts", name, access).await.unwrap();
    let Credential::Token(token) = minted.credential else { panic!("a token") };
    token
}

/// Creates the CRDs, a definition and an instance in each of two namespaces. Nothing reconciles them.
pub async fn install(client: &Client) {
    for crd in kross_api::graph_crds().into_iter().chain([kross_api::connection_crd()]) {
        apply(client, &serde_json::to_value(crd).unwrap()).await;
    }
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.kro.run"}, "spec": {"group": "kro.run", "scope": "Namespaced",
            "names": {"kind": "Shop", "plural": "shops", "singular": "shop", "listKind": "ShopList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}]}});
    apply(client, &crd).await;
    for namespace in ["shop", "bank", "kro-system"] {
        apply(client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .await;
    }
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "shop"}, "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Shop"},
            "resources": [{"id": "config", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.metadata.name}"}}}]}});
    wait::until("the definition to be created", || async { try_apply(client, &definition).await }).await;
    for (namespace, name) in [("shop", "webshop"), ("bank", "vaultdoor")] {
        let instance = shop(namespace, name);
        wait::until("an instance to be created", || async { try_apply(client, &instance).await }).await;
    }
}

pub fn shop(namespace: &str, name: &str) -> Json {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "Shop", "metadata": {"name": name, "namespace": namespace}})
}

/// Writes the status of an instance, as a controller would.
pub async fn set_status(client: &Client, namespace: &str, name: &str, status: Json) {
    let mut object = shop(namespace, name);
    object["status"] = status;
    let api = api(client, &object);
    api.patch_status(name, &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
}

pub async fn apply(client: &Client, object: &Json) {
    try_apply(client, object).await.unwrap();
}

async fn try_apply(client: &Client, object: &Json) -> Result<(), String> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let applied =
        api(client, object).patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await;
    applied.map(drop).map_err(|error| error.to_string())
}

pub fn api(client: &Client, object: &Json) -> Api<DynamicObject> {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
    let kind = object["kind"].as_str().unwrap();
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(group, version, kind),
        &kross_api::plural(kind),
    );
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
