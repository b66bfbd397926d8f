//! Every fault of the proxy, against a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kross_local::{Access, Kubeconfig};
use kross_testing::{Action, Answer, Fault, FaultProxy, Fixture, Requests, Verb, objects, wait};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};

/// A control plane's namespace behind a proxy of its own.
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

    /// A ConfigMap whose list is about `size` bytes long.
    async fn large_map(&self, size: usize) {
        let map = objects::config_map("large", &[("text", &"x".repeat(size))]);
        self.fixture.hub.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
    }

    /// Opens a watch and gives its lines.
    async fn watch(&self) -> impl AsyncBufReadExt + Unpin + use<> {
        let path = format!("/api/v1/namespaces/{}/configmaps?watch=true", self.fixture.namespace);
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        Box::pin(self.client.request_stream(request).await.unwrap())
    }

    /// Makes a ConfigMap without going through the proxy.
    async fn make(&self, name: &str) {
        let maps = self.fixture.hub.api::<ConfigMap>();
        maps.create(&PostParams::default(), &objects::config_map(name, &[])).await.unwrap();
    }
}

/// The next line of a watch.
async fn line(watch: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<String> {
    let mut line = String::new();
    watch.read_line(&mut line).await.map(|_| line)
}

/// An error with everything behind it.
fn full(error: &kube::Error) -> String {
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
        other => panic!("not an answer: {}", full(&other)),
    }
}

#[tokio::test]
async fn everything_passes_and_is_counted_by_verb_and_resource() {
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
    proxy.forget();
    assert_eq!(proxy.counts().total(), 0);
}

#[tokio::test]
async fn every_kind_of_credential_passes_through() {
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
async fn refused_connections_come_back_on_the_same_address() {
    let scene = Scene::new().await;
    let mut watch = scene.watch().await;
    scene.make("before").await;
    assert!(line(&mut watch).await.unwrap().contains("before"));

    scene.proxy.set(Fault::Refuse);
    assert!(line(&mut watch).await.is_err(), "the watch there was is reset");
    let error = full(&scene.list().await.unwrap_err());
    assert!(error.contains("refused"), "{error}");
    scene.proxy.set(Fault::Refuse);
    assert!(scene.list().await.is_err());

    scene.proxy.set(Fault::Pass);
    scene.list().await.unwrap();
}

#[tokio::test]
async fn a_hanging_server_answers_when_it_stops_hanging() {
    let scene = Scene::new().await;
    scene.list().await.unwrap();
    let mut watch = scene.watch().await;
    scene.proxy.set(Fault::Hang);
    scene.make("meanwhile").await;

    let fresh = scene.proxy.kubeconfig(scene.fixture.hub.plane.admin()).unwrap().client().await.unwrap();
    let fresh: Api<ConfigMap> = Api::namespaced(fresh, &scene.fixture.namespace);
    let parameters = ListParams::default();
    let mut old_connection = Box::pin(scene.list());
    let mut new_connection = Box::pin(fresh.list(&parameters));
    let mut event = Box::pin(line(&mut watch));
    let patience = Duration::from_millis(300);
    assert!(tokio::time::timeout(patience, &mut old_connection).await.is_err());
    assert!(tokio::time::timeout(patience, &mut new_connection).await.is_err());
    assert!(tokio::time::timeout(patience, &mut event).await.is_err());

    scene.proxy.set(Fault::Pass);
    old_connection.await.unwrap();
    new_connection.await.unwrap();
    assert!(event.await.unwrap().contains("meanwhile"));
}

#[tokio::test]
async fn dropped_packets_are_neither_accepted_nor_refused() {
    let scene = Scene::new().await;
    scene.list().await.unwrap();
    let address = scene.proxy.url().trim_start_matches("https://").to_owned();
    scene.proxy.set(Fault::Drop);
    scene.proxy.set(Fault::Drop);
    let mut old_connection = Box::pin(scene.list());
    let patience = Duration::from_millis(300);
    assert!(tokio::time::timeout(patience, &mut old_connection).await.is_err());
    for _ in 0..2 {
        let connect = tokio::net::TcpStream::connect(&address);
        assert!(tokio::time::timeout(patience, connect).await.is_err(), "no answer at all");
    }
    scene.proxy.set(Fault::Pass);
    old_connection.await.unwrap();
    tokio::net::TcpStream::connect(&address).await.unwrap();
}

#[tokio::test]
async fn answers_and_watches_break_off_in_the_middle() {
    let scene = Scene::new().await;
    scene.large_map(200_000).await;
    scene.proxy.set(Fault::CutAfter(50_000));
    let error = scene.list().await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
    scene.maps.get_metadata("large").await.unwrap();
    scene.proxy.set(Fault::Pass);
    scene.list().await.unwrap();

    let mut watch = scene.watch().await;
    assert!(line(&mut watch).await.unwrap().contains("large"));
    scene.proxy.cut_connections();
    assert!(line(&mut watch).await.is_err());
    scene.list().await.unwrap();

    // Only the watch of the next one breaks off.
    scene.proxy.on_next(1, Requests::any().verb(Verb::Watch), Action::CutAfter(1000));
    let mut watch = scene.watch().await;
    let broken = line(&mut watch).await;
    assert!(broken.is_err(), "{broken:?}");
    let mut watch = scene.watch().await;
    assert!(line(&mut watch).await.unwrap().contains("large"));
}

#[tokio::test]
async fn latency_is_added_to_every_request() {
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
async fn bandwidth_is_limited_and_released() {
    let scene = Scene::new().await;
    scene.large_map(100_000).await;
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
    tokio::time::timeout(wait::PATIENCE, slow).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_wrong_certificate_is_noticed() {
    let scene = Scene::new().await;
    scene.list().await.unwrap();
    scene.proxy.set(Fault::WrongCertificate);
    let error = full(&scene.list().await.unwrap_err());
    assert!(error.contains("invalid peer certificate"), "{error}");
    scene.proxy.set(Fault::Pass);
    scene.list().await.unwrap();
}

#[tokio::test]
async fn chosen_requests_are_answered_with_errors() {
    let scene = Scene::new().await;
    scene.make("a").await;
    scene.make("b").await;
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
        let kube::Error::Api(status) = scene.maps.get("a").await.unwrap_err() else { panic!("an answer") };
        assert_eq!((status.code, status.message.as_str()), (429, "slow down"));
        assert_eq!(status.details.unwrap().retry_after_seconds, 7);
    }
    scene.maps.get("a").await.unwrap();
    let answered: Vec<_> = scene
        .proxy
        .requests(&Requests::any().name("a"))
        .iter()
        .filter_map(|record| record.status())
        .collect();
    assert_eq!(answered, [200, 200, 200, 200, 429, 429, 200]);
}

#[tokio::test]
async fn a_request_that_is_never_answered_holds_up_no_other() {
    let scene = Scene::new().await;
    scene.proxy.on(Requests::any().verb(Verb::List), Action::Hang);
    let mut hanging = Box::pin(scene.list());
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut hanging).await.is_err());
    assert!(scene.maps.get_opt("a").await.unwrap().is_none());
    scene.proxy.clear();
    scene.list().await.unwrap();

    // One that is held goes on when its rule is taken away.
    let rule = scene.proxy.on(Requests::any().verb(Verb::List), Action::Hold);
    let mut held = Box::pin(scene.list());
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut held).await.is_err());
    scene.proxy.remove(rule);
    held.await.unwrap();
}

#[tokio::test]
async fn http2_clients_share_one_connection_and_see_the_same_faults() {
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
    scene.make("streamed").await;
    let frame = http_body_util::BodyExt::frame(watch.body_mut()).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(frame.data_ref().unwrap()).contains("streamed"));

    scene.proxy.on_next(1, Requests::any(), Action::Answer(Answer::status(429).retry_after(3)));
    let response = get(&path).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );

    scene.large_map(100_000).await;
    scene.proxy.set(Fault::CutAfter(20_000));
    let body = get(&path).await.unwrap().into_body();
    assert!(http_body_util::BodyExt::collect(body).await.is_err());
    assert!(wait_for_end(watch.into_body()).await, "the connection is gone, and the watch on it");
}

/// Whether a body ends with an error.
async fn wait_for_end(body: hyper::body::Incoming) -> bool {
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
