//! The faults and rules of the proxy, against a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kross_local::{Access, Kubeconfig};
use kross_testing::{Action, Answer, Fault, FaultProxy, Fixture, Requests, Verb, objects, wait};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};

/// A namespace of a control plane behind a proxy of the test's own.
struct Scene {
    fixture: Fixture,
    proxy: FaultProxy,
    client: Client,
    maps: Api<ConfigMap>,
}

impl Scene {
    async fn new() -> Self {
        let fixture = Fixture::hub().await;
        let proxy = FaultProxy::start(fixture.hub.plane.admin()).unwrap();
        let client = proxy.kubeconfig(fixture.hub.plane.admin()).unwrap().client().await.unwrap();
        let maps = Api::namespaced(client.clone(), &fixture.namespace);
        Self { fixture, proxy, client, maps }
    }

    async fn list(&self) -> Result<(), kube::Error> {
        self.maps.list(&ListParams::default()).await.map(drop)
    }

    /// Creates a ConfigMap of about `size` bytes.
    async fn create_large(&self, size: usize) {
        let map = objects::config_map("large", &[("text", &"x".repeat(size))]);
        self.fixture.hub.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
    }

    /// Opens a watch and returns its lines.
    async fn watch(&self) -> impl AsyncBufReadExt + Unpin + use<> {
        let path = format!("/api/v1/namespaces/{}/configmaps?watch=true", self.fixture.namespace);
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        Box::pin(self.client.request_stream(request).await.unwrap())
    }

    /// Creates a ConfigMap, not through the proxy.
    async fn create(&self, name: &str) {
        let maps = self.fixture.hub.api::<ConfigMap>();
        maps.create(&PostParams::default(), &objects::config_map(name, &[])).await.unwrap();
    }
}

/// Reads the next line of a watch.
async fn next_line(watch: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<String> {
    let mut line = String::new();
    watch.read_line(&mut line).await.map(|_| line)
}

/// An error with all its causes.
fn with_causes(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("not a response: {}", with_causes(&other)),
    }
}

#[tokio::test]
async fn forwards_requests_and_counts_them_by_verb_and_resource() {
    let Scene { fixture, proxy, client, maps } = &Scene::new().await;
    maps.create(&PostParams::default(), &objects::config_map("a", &[])).await.unwrap();
    let apply = PatchParams::apply("test").force();
    let mut object = objects::config_map("b", &[("colour", "red")]);
    maps.patch("b", &apply, &Patch::Apply(&object)).await.unwrap();
    object.data.as_mut().unwrap().insert("colour".to_owned(), "blue".to_owned());
    maps.patch("b", &PatchParams::default(), &Patch::Merge(&object)).await.unwrap();
    let found = maps.get("b").await.unwrap();
    assert_eq!(found.data.as_ref().unwrap()["colour"], "blue");
    maps.replace("b", &PostParams::default(), &found).await.unwrap();
    maps.list(&ListParams::default()).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    Api::<Namespace>::all(client.clone()).get_status(&fixture.namespace).await.unwrap();
    client.apiserver_version().await.unwrap();

    let expected = "/version get 1\nconfigmaps get 1\nconfigmaps list 1\nconfigmaps create 1\nconfigmaps update 1\n\
                    configmaps patch 1\nconfigmaps apply 1\nconfigmaps delete 1\nconfigmaps deletecollection 1\n\
                    namespaces/status get 1\n";
    assert_eq!(proxy.counts().to_string(), expected);
    assert_eq!(proxy.counts().of(Verb::Apply, "configmaps"), 1);
    assert_eq!(proxy.counts().total(), 10);
    assert_eq!(proxy.count(&Requests::any().name("b")), 4);
    let records = proxy.requests(&Requests::any().verb(Verb::Create).namespace(&fixture.namespace));
    assert_eq!(records[0].status(), Some(201));
    proxy.clear_requests();
    assert_eq!(proxy.counts().total(), 0);
}

#[tokio::test]
async fn forwards_every_kind_of_credential() {
    let Scene { fixture, proxy, .. } = &Scene::new().await;
    let plane = fixture.hub.plane;
    let list = async |kubeconfig: Kubeconfig| {
        let client = proxy.kubeconfig(&kubeconfig).unwrap().client().await.unwrap();
        match Api::<Namespace>::all(client).list(&ListParams::default()).await {
            Ok(_) => 200,
            Err(error) => code(error),
        }
    };
    let namespace = &fixture.namespace;
    assert_eq!(list(plane.mint_token(namespace, "all", &Access::all()).await.unwrap()).await, 200);
    assert_eq!(list(plane.mint_token(namespace, "none", &Access::none()).await.unwrap()).await, 403);
    assert_eq!(list(plane.mint_certificate("proxied", None, &Access::all()).await.unwrap()).await, 200);
    let expired = plane.mint_expired_certificate("proxied", None, &Access::all()).await.unwrap();
    assert_eq!(list(expired).await, 401);
}

#[tokio::test]
async fn refuses_connections_and_accepts_them_again_at_the_same_address() {
    let scene = Scene::new().await;
    let mut watch = scene.watch().await;
    scene.create("before").await;
    assert!(next_line(&mut watch).await.unwrap().contains("before"));

    scene.proxy.set(Fault::Refuse);
    assert!(next_line(&mut watch).await.is_err(), "the existing watch is reset");
    let error = with_causes(&scene.list().await.unwrap_err());
    assert!(error.contains("refused"), "{error}");
    scene.proxy.set(Fault::Refuse);
    assert!(scene.list().await.is_err());

    scene.proxy.set(Fault::Pass);
    scene.list().await.unwrap();
}

#[tokio::test]
async fn stalled_connections_continue_after_a_hang() {
    let scene = Scene::new().await;
    scene.list().await.unwrap();
    let mut watch = scene.watch().await;
    scene.proxy.set(Fault::Hang);
    scene.create("meanwhile").await;

    let fresh = scene.proxy.kubeconfig(scene.fixture.hub.plane.admin()).unwrap().client().await.unwrap();
    let fresh: Api<ConfigMap> = Api::namespaced(fresh, &scene.fixture.namespace);
    let parameters = ListParams::default();
    let mut old_connection = Box::pin(scene.list());
    let mut new_connection = Box::pin(fresh.list(&parameters));
    let mut event = Box::pin(next_line(&mut watch));
    let stalled_for = Duration::from_millis(300);
    assert!(tokio::time::timeout(stalled_for, &mut old_connection).await.is_err());
    assert!(tokio::time::timeout(stalled_for, &mut new_connection).await.is_err());
    assert!(tokio::time::timeout(stalled_for, &mut event).await.is_err());

    scene.proxy.set(Fault::Pass);
    old_connection.await.unwrap();
    new_connection.await.unwrap();
    assert!(event.await.unwrap().contains("meanwhile"));
}

#[tokio::test]
async fn neither_accepts_nor_refuses_connections_while_packets_are_dropped() {
    let scene = Scene::new().await;
    scene.list().await.unwrap();
    let address = scene.proxy.url().trim_start_matches("https://").to_owned();
    scene.proxy.set(Fault::Drop);
    scene.proxy.set(Fault::Drop);
    let mut old_connection = Box::pin(scene.list());
    let stalled_for = Duration::from_millis(300);
    assert!(tokio::time::timeout(stalled_for, &mut old_connection).await.is_err());
    for _ in 0..2 {
        let connect = tokio::net::TcpStream::connect(&address);
        assert!(tokio::time::timeout(stalled_for, connect).await.is_err(), "neither accepted nor refused");
    }
    scene.proxy.set(Fault::Pass);
    old_connection.await.unwrap();
    tokio::net::TcpStream::connect(&address).await.unwrap();
}

#[tokio::test]
async fn cuts_responses_and_watches_in_the_middle() {
    let scene = Scene::new().await;
    scene.create_large(200_000).await;
    scene.proxy.set(Fault::CutAfter(50_000));
    let error = scene.list().await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
    scene.maps.get_metadata("large").await.unwrap();
    scene.proxy.set(Fault::Pass);
    scene.list().await.unwrap();

    let mut watch = scene.watch().await;
    assert!(next_line(&mut watch).await.unwrap().contains("large"));
    scene.proxy.cut_connections();
    assert!(next_line(&mut watch).await.is_err());
    scene.list().await.unwrap();

    // The rule cuts only the next watch.
    scene.proxy.on_next(1, Requests::any().verb(Verb::Watch), Action::CutAfter(1000));
    let mut watch = scene.watch().await;
    let broken = next_line(&mut watch).await;
    assert!(broken.is_err(), "{broken:?}");
    let mut watch = scene.watch().await;
    assert!(next_line(&mut watch).await.unwrap().contains("large"));
}

#[tokio::test]
async fn delays_every_request_by_the_latency() {
    let scene = Scene::new().await;
    scene.list().await.unwrap();
    scene.proxy.set(Fault::Latency(Duration::from_millis(300)));
    let started = Instant::now();
    scene.list().await.unwrap();
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(300), "{took:?}");
    scene.proxy.set(Fault::Pass);
    let rule = scene.proxy.on(Requests::any().verb(Verb::List), Action::Delay(Duration::from_millis(300)));
    let started = Instant::now();
    scene.list().await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(300));
    scene.proxy.remove(rule);
}

#[tokio::test]
async fn limits_the_bandwidth_until_the_fault_is_removed() {
    let scene = Scene::new().await;
    scene.create_large(100_000).await;
    scene.list().await.unwrap();
    scene.proxy.set(Fault::Bandwidth(100_000));
    let started = Instant::now();
    scene.list().await.unwrap();
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(700), "{took:?}");
    scene.proxy.set(Fault::Bandwidth(100));
    let mut slow = Box::pin(scene.list());
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut slow).await.is_err());
    scene.proxy.set(Fault::Pass);
    tokio::time::timeout(wait::WAIT_LIMIT, slow).await.unwrap().unwrap();
}

#[tokio::test]
async fn clients_reject_the_wrong_certificate() {
    let scene = Scene::new().await;
    scene.list().await.unwrap();
    scene.proxy.set(Fault::WrongCertificate);
    let error = with_causes(&scene.list().await.unwrap_err());
    assert!(error.contains("invalid peer certificate"), "{error}");
    scene.proxy.set(Fault::Pass);
    scene.list().await.unwrap();
}

#[tokio::test]
async fn responds_with_an_error_to_requests_that_match_a_rule() {
    let scene = Scene::new().await;
    scene.create("a").await;
    scene.create("b").await;
    let lists =
        || Requests::any().verb(Verb::List).resource("configmaps").namespace(&scene.fixture.namespace);
    for status in [401, 403, 500, 503] {
        let rule = scene.proxy.on(lists(), Action::Answer(Answer::status(status)));
        assert_eq!(code(scene.list().await.unwrap_err()), status);
        scene.maps.get("a").await.unwrap();
        scene.proxy.remove(rule);
        scene.list().await.unwrap();
    }

    let answer = Answer::status(429).retry_after(7).message("slow down");
    scene.proxy.on_next(2, Requests::any().verb(Verb::Get).name("a"), Action::Answer(answer));
    scene.maps.get("b").await.unwrap();
    for _ in 0..2 {
        let kube::Error::Api(status) = scene.maps.get("a").await.unwrap_err() else {
            panic!("not a response")
        };
        assert_eq!((status.code, status.message.as_str()), (429, "slow down"));
        assert_eq!(status.details.unwrap().retry_after_seconds, 7);
    }
    scene.maps.get("a").await.unwrap();
    let statuses: Vec<_> = scene
        .proxy
        .requests(&Requests::any().name("a"))
        .iter()
        .filter_map(|record| record.status())
        .collect();
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429, 200]);
}

#[tokio::test]
async fn a_hanging_or_held_request_blocks_no_other() {
    let scene = Scene::new().await;
    scene.proxy.on(Requests::any().verb(Verb::List), Action::Hang);
    let mut hanging = Box::pin(scene.list());
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut hanging).await.is_err());
    assert!(scene.maps.get_opt("a").await.unwrap().is_none());
    scene.proxy.clear();
    scene.list().await.unwrap();

    // A held request is forwarded once its rule is removed.
    let rule = scene.proxy.on(Requests::any().verb(Verb::List), Action::Hold);
    let mut held = Box::pin(scene.list());
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut held).await.is_err());
    scene.proxy.remove(rule);
    held.await.unwrap();
}

#[tokio::test]
async fn applies_faults_and_rules_to_http2_clients() {
    let scene = Scene::new().await;
    let token =
        scene.fixture.hub.plane.mint_token(&scene.fixture.namespace, "h2", &Access::all()).await.unwrap();
    let kubeconfig = scene.proxy.kubeconfig(&token).unwrap();
    let kross_local::Credential::Token(token) = &kubeconfig.credential else { panic!("a token") };
    let client = http2_client(&kubeconfig);
    let get = |path: &str| {
        let uri = format!("{}{path}", kubeconfig.server);
        let request = http::Request::get(uri).header("authorization", format!("Bearer {token}"));
        client.request(request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap())
    };
    let path = format!("/api/v1/namespaces/{}/configmaps", scene.fixture.namespace);

    let response = get(&path).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    assert!(scene.proxy.requests(&Requests::any())[0].http2);

    let mut watch = get(&format!("{path}?watch=true")).await.unwrap();
    scene.create("streamed").await;
    let frame = http_body_util::BodyExt::frame(watch.body_mut()).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(frame.data_ref().unwrap()).contains("streamed"));

    scene.proxy.on_next(1, Requests::any(), Action::Answer(Answer::status(429).retry_after(3)));
    let response = get(&path).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );

    scene.create_large(100_000).await;
    scene.proxy.set(Fault::CutAfter(20_000));
    let body = get(&path).await.unwrap().into_body();
    assert!(http_body_util::BodyExt::collect(body).await.is_err());
    assert!(ends_with_error(watch.into_body()).await, "the watch on the same connection is reset too");
}

/// Whether a body ends with an error.
async fn ends_with_error(body: hyper::body::Incoming) -> bool {
    let stream = http_body_util::BodyStream::new(body);
    stream.try_for_each(|_| std::future::ready(Ok(()))).await.is_err()
}

type Http2Client = hyper_util::client::legacy::Client<
    hyper_rustls::HttpsConnector<hyper_util::client::legacy::connect::HttpConnector>,
    http_body_util::Empty<bytes::Bytes>,
>;

fn http2_client(kubeconfig: &Kubeconfig) -> Http2Client {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(rustls::pki_types::CertificateDer::from_pem_slice(kubeconfig.authority.as_bytes()).unwrap())
        .unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http2()
        .build();
    hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build(connector)
}
