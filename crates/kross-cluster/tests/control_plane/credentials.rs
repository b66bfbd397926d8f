//! Credentials that are accepted, limited by RBAC, or rejected.

use kross_api::FailureReason;
use kross_cluster::{
    CacheOptions, CachePhase, Caches, ClientOptions, ClusterClient, ClusterId, Credential, Endpoint, Lookup,
    Selection,
};
use kross_local::{Access, Kubeconfig, rule};
use kross_testing::wait;
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::setup::Setup;

/// A client that is built field by field, like those of remote clusters.
fn connect(kubeconfig: &Kubeconfig) -> ClusterClient {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(kubeconfig.authority.as_bytes()).unwrap()).unwrap();
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let endpoint = Endpoint::new(&kubeconfig.server.parse().unwrap(), tls, None).unwrap();
    let kross_local::Credential::Token(token) = &kubeconfig.credential else { panic!("a token") };
    let credential = Credential::bearer(token).unwrap();
    ClusterClient::new(ClusterId::new("remote"), &endpoint, credential, ClientOptions::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_may_do_only_what_rbac_allows() {
    let setup = Setup::new().await;
    let (plane, namespace) = (setup.fixture.hub.plane, setup.fixture.namespace.as_str());
    let access =
        Access::none().in_namespace(namespace, [rule(&[""], &["configmaps"], &["get", "list", "watch"])]);
    let kubeconfig = plane.mint_token(namespace, "reader", &access).await.unwrap();
    let client = connect(&kubeconfig);
    let kind = client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    assert!(client.list(&kind, Some(namespace), None).await.is_ok());

    let error = client.create(&kind, &setup.object("web", &[]), "test").await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Forbidden);
    assert!(error.message().contains("cannot create resource \"configmaps\""), "{error}");

    // One cache may not list all namespaces, and fails; the other one is not affected.
    let caches = Caches::new(CacheOptions::default());
    let everywhere = caches.watch(&client, &kind, Selection::Managed);
    let here = Selection::Labels { namespace: Some(namespace.into()), selector: "kro.run/owned=true".into() };
    let here = caches.watch(&client, &kind, here);
    here.wait_for_sync().await;
    setup.client.create(&kind, &setup.object("web", &[]), "test").await.unwrap();
    wait::until_true("the object to be cached", || {
        matches!(here.get(Some(namespace), "web"), Lookup::Found(_))
    })
    .await;
    wait::until_true("the cache to fail", || {
        caches.states().iter().any(|state| {
            state.key == *everywhere.key()
                && state.phase == CachePhase::Failed
                && state.failure.as_ref().map(kross_cluster::ApiError::reason)
                    == Some(FailureReason::Forbidden)
        })
    })
    .await;
    assert_eq!(everywhere.get(Some(namespace), "web"), Lookup::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_credentials_are_unauthorized_and_never_quoted() {
    let setup = Setup::new().await;
    let (plane, namespace) = (setup.fixture.hub.plane, setup.fixture.namespace.as_str());
    let mut expired = plane.mint_expired_token(namespace, "late", &Access::all()).await.unwrap();
    let kross_local::Credential::Token(token) = &expired.credential else { panic!("a token") };
    let token = token.clone();
    for credential in [token, "no-token-at-all-s3cret".to_owned()] {
        expired.credential = kross_local::Credential::Token(credential.clone());
        let client = connect(&expired);
        let error = client.list(&setup.config_map, Some(namespace), None).await.unwrap_err();
        assert_eq!(error.reason(), FailureReason::Unauthorized, "{error}");
        assert!(!format!("{error} {error:?} {client:?}").contains(&credential));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_connect_to_a_server_with_a_certificate_of_another_authority() {
    let setup = Setup::new().await;
    let other = kross_local::CertificateAuthority::new("other").unwrap();
    let admin = setup.fixture.hub.plane.admin();
    let mut stranger = admin.through(&admin.server, &other.certificate());
    stranger.credential = kross_local::Credential::Token("s3cret".to_owned());
    let error = connect(&stranger).list(&setup.config_map, Some("default"), None).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Credentials, "{error}");
}
