//! Every kind of kubeconfig has its permissions and no others, or fails as it is meant to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kross_local::{Access, ControlPlane, Kubeconfig, rule};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

/// The HTTP status of a request.
fn code<T>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("not a response of the API server: {other:?}"),
    }
}

async fn list_config_maps(client: &Client, namespace: &str) -> u16 {
    code(Api::<ConfigMap>::namespaced(client.clone(), namespace).list(&ListParams::default()).await)
}

async fn create_config_map(client: &Client, namespace: &str) -> u16 {
    let mut object = ConfigMap::default();
    object.metadata.generate_name = Some("minted-".to_owned());
    code(
        Api::<ConfigMap>::namespaced(client.clone(), namespace).create(&PostParams::default(), &object).await,
    )
}

async fn list_namespaces(client: &Client) -> u16 {
    code(Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await)
}

fn read_config_maps() -> Access {
    Access::none()
        .in_namespace("team", [rule(&[""], &["configmaps"], &["get", "list", "watch"])])
        .in_cluster([rule(&[""], &["namespaces"], &["list"])])
}

async fn may_read_but_not_write(kubeconfig: &Kubeconfig) {
    let client = kubeconfig.client().await.unwrap();
    assert_eq!(list_config_maps(&client, "team").await, 200);
    assert_eq!(create_config_map(&client, "team").await, 403);
    assert_eq!(list_config_maps(&client, "default").await, 403);
    assert_eq!(list_namespaces(&client).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_kubeconfig_has_exactly_its_permissions() {
    let second: IpAddr = "127.0.0.2".parse().unwrap();
    let plane = ControlPlane::named("mint").second_address(second).start().await.unwrap();
    let access = read_config_maps();

    let token = plane.mint_token("team", "reader", &access).await.unwrap();
    may_read_but_not_write(&token).await;
    let certificate = plane.mint_certificate("reader", Some("readers"), &access).await.unwrap();
    may_read_but_not_write(&certificate).await;

    let everything = plane.mint_token("team", "owner", &Access::all()).await.unwrap().client().await.unwrap();
    assert_eq!(create_config_map(&everything, "team").await, 200);
    let nothing =
        plane.mint_certificate("nobody", None, &Access::none()).await.unwrap().client().await.unwrap();
    assert_eq!(list_namespaces(&nothing).await, 403);

    for (name, unusable) in [
        ("expired token", plane.mint_expired_token("team", "late", &access).await.unwrap()),
        ("expired certificate", plane.mint_expired_certificate("late", None, &access).await.unwrap()),
    ] {
        assert_eq!(list_config_maps(&unusable.client().await.unwrap(), "team").await, 401, "{name}");
    }
    // The API server observes the deletion asynchronously, and caches tokens that it has accepted.
    let revoked = plane.mint_revoked_token("team", "fired", &access).await.unwrap().client().await.unwrap();
    let rejected = async {
        while list_config_maps(&revoked, "team").await != 401 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), rejected)
        .await
        .expect("a revoked token is rejected");

    let elsewhere = plane.admin().through(plane.second_url().unwrap(), &plane.authority().certificate());
    assert!(elsewhere.server.starts_with("https://127.0.0.2:"), "{}", elsewhere.server);
    assert_eq!(list_namespaces(&elsewhere.client().await.unwrap()).await, 200);

    // Without a controller manager a Pod needs no ServiceAccount.
    let pods: Api<Pod> = Api::namespaced(plane.client().await.unwrap(), "default");
    let pod: Pod = serde_json::from_str(
        r#"{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web"}]}}"#,
    )
    .unwrap();
    assert_eq!(code(pods.create(&PostParams::default(), &pod).await), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_and_admission_plugins_reach_the_api_server() {
    let plane = ControlPlane::named("strict")
        .enable_admission("AlwaysPullImages")
        .api_server_flag("--service-cluster-ip-range=10.9.0.0/24")
        .start()
        .await
        .unwrap();
    let client = plane.client().await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod: Pod = serde_json::from_str(
        r#"{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web:1", "imagePullPolicy": "Never"}]}}"#,
    )
    .unwrap();
    let created = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(created.spec.unwrap().containers[0].image_pull_policy.as_deref(), Some("Always"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_flag_of_the_api_server_is_quoted_in_the_error() {
    let error = ControlPlane::named("wrong").api_server_flag("--no-such-flag").start().await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("`kube-apiserver` of control plane `wrong` exited (exit status: 1)"), "{text}");
    assert!(text.contains("unknown flag: --no-such-flag"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_replaced_by_a_free_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap();
    let plane = ControlPlane::named("moved").port(taken.port()).start().await.unwrap();
    assert_ne!(plane.address(), taken);
    assert_eq!(list_namespaces(&plane.client().await.unwrap()).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_manager_finalizes_namespaces() {
    let plane = ControlPlane::named("managed").controller_manager().start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(plane.client().await.unwrap());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("short".to_owned());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    namespaces.delete("short", &Default::default()).await.unwrap();
    let deleted = async {
        while namespaces.get_opt("short").await.unwrap().is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), deleted)
        .await
        .expect("the namespace is deleted");
}
