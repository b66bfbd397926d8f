//! Every authentication method of a kubeconfig, from its text to the response of a server.

use std::path::Path;
use std::sync::{Arc, Mutex};

use kross_api::FailureReason;
use kross_cluster::{AuthMethod, ClientOptions, ClusterClient, ClusterId, KubeconfigPolicy, accept};
use kross_local::{Access, CertificateAuthority, Credential, Kubeconfig, Validity};
use kross_testing::wait;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::setup::Setup;

async fn connect(text: &str, policy: &KubeconfigPolicy) -> (AuthMethod, ClusterClient) {
    let accepted = accept(text.as_bytes(), "kro-system", policy).unwrap();
    let (endpoint, credential) = accepted.prepare().await.unwrap();
    let options = ClientOptions::default();
    (accepted.method(), ClusterClient::new(ClusterId::new("remote"), &endpoint, credential, options).unwrap())
}

/// The kubeconfig with another user.
fn with_user(kubeconfig: &Kubeconfig, user: &str) -> String {
    let text = kubeconfig.to_string();
    let (head, _) = text.split_once("  user:\n").unwrap();
    format!("{head}  user:\n    {user}\n")
}

/// A command that prints the content of a file beside it. The executable itself is never written by a test: a child of
/// another test could still have it open for writing, and then it could not be run.
fn plugin(directory: &Path) -> KubeconfigPolicy {
    let command = directory.join("plugin");
    let plugin_script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exec-plugin/plugin");
    std::os::unix::fs::symlink(plugin_script, &command).unwrap();
    let script = format!("/bin/cat {}\n", directory.join("credential").display());
    std::fs::write(directory.join("plugin.script"), script).unwrap();
    KubeconfigPolicy {
        exec_allow: vec![command.display().to_string().parse().unwrap()],
        ..KubeconfigPolicy::default()
    }
}

fn print(directory: &Path, status: &serde_json::Value) {
    let credential = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": status,
    });
    std::fs::write(directory.join("credential"), credential.to_string()).unwrap();
}

fn exec_user(directory: &Path) -> String {
    let command = directory.join("plugin").display().to_string();
    format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1beta1, command: {command}, interactiveMode: IfAvailable}}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_cluster_accepts_certificates_tokens_and_exec_credentials() {
    let setup = Setup::new().await;
    let (plane, namespace) = (setup.fixture.hub.plane, setup.fixture.namespace.as_str());
    let admin = plane.admin();
    let Credential::Certificate(identity) = &admin.credential else { panic!("a certificate") };
    let minted = plane.mint_token(namespace, "somebody", &Access::all()).await.unwrap();
    let Credential::Token(token) = &minted.credential else { panic!("a token") };
    let (by_token, by_certificate) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    print(by_token.path(), &serde_json::json!({"token": token}));
    let pair =
        serde_json::json!({"clientCertificateData": identity.certificate, "clientKeyData": identity.key});
    print(by_certificate.path(), &pair);
    let cases = [
        (AuthMethod::ClientCertificate, admin.to_string(), KubeconfigPolicy::default()),
        (AuthMethod::Token, minted.to_string(), KubeconfigPolicy::default()),
        (AuthMethod::Exec, with_user(admin, &exec_user(by_token.path())), plugin(by_token.path())),
        (
            AuthMethod::Exec,
            with_user(admin, &exec_user(by_certificate.path())),
            plugin(by_certificate.path()),
        ),
    ];
    for (expected, text, policy) in cases {
        let (method, client) = connect(&text, &policy).await;
        assert_eq!(method, expected);
        let listed = client.list(&setup.config_map, Some(namespace), None).await;
        assert!(listed.is_ok(), "{expected}: {listed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_an_exec_command_again_when_its_credential_is_rejected() {
    let setup = Setup::new().await;
    let (plane, namespace) = (setup.fixture.hub.plane, setup.fixture.namespace.as_str());
    let minted = plane.mint_token(namespace, "somebody", &Access::all()).await.unwrap();
    let Credential::Token(token) = &minted.credential else { panic!("a token") };
    let directory = tempfile::tempdir().unwrap();
    let policy = plugin(directory.path());
    print(directory.path(), &serde_json::json!({"token": "no-longer-good"}));
    let (_, client) = connect(&with_user(plane.admin(), &exec_user(directory.path())), &policy).await;
    let error = client.list(&setup.config_map, Some(namespace), None).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::Unauthorized, "{error}");
    print(directory.path(), &serde_json::json!({"token": token}));
    wait::until("the new credential to be accepted", async || {
        client.list(&setup.config_map, Some(namespace), None).await.map_err(|error| error.to_string())
    })
    .await;
}

/// A server that records requests and always sends the same response.
async fn server(response: &'static str) -> (Kubeconfig, Arc<Mutex<Vec<String>>>) {
    let authority = CertificateAuthority::new("own").unwrap();
    let identity = authority.server(&["127.0.0.1".to_owned()], Validity::Current).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(tls.unwrap()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubeconfig = Kubeconfig {
        name: "own".to_owned(),
        server: format!("https://{}", listener.local_addr().unwrap()),
        authority: authority.certificate(),
        credential: Credential::Token("unused".to_owned()),
    };
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(mut socket) = tls.accept(socket).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match socket.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => break,
                }
            }
            log.lock().unwrap().push(String::from_utf8(head).unwrap());
            let _ = socket.write_all(response.as_bytes()).await;
            let _ = socket.shutdown().await;
        }
    });
    (kubeconfig, received)
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_a_password_to_a_server_that_supports_basic_authentication() {
    let (kubeconfig, received) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let text = with_user(&kubeconfig, "{username: admin, password: 's3cret: with colon'}");
    let (method, client) = connect(&text, &KubeconfigPolicy::default()).await;
    assert_eq!(method, AuthMethod::Basic);
    assert_eq!(client.fetch("/version").await.unwrap(), "ok");
    let received = received.lock().unwrap().join("");
    let expected = "authorization: Basic YWRtaW46czNjcmV0OiB3aXRoIGNvbG9u\r\n";
    assert!(received.to_lowercase().contains(&expected.to_lowercase()), "{received}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed_with_the_credential() {
    let (elsewhere, received_elsewhere) = server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let response: &'static str = Box::leak(
        format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/version\r\ncontent-length: 0\r\n\r\n",
            elsewhere.server
        )
        .into_boxed_str(),
    );
    let (kubeconfig, received) = server(response).await;
    let (_, client) = connect(&kubeconfig.to_string(), &KubeconfigPolicy::default()).await;
    let error = client.fetch("/version").await.unwrap_err();
    assert!(!error.to_string().contains(&elsewhere.server), "{error}");
    assert_eq!((received.lock().unwrap().len(), received_elsewhere.lock().unwrap().len()), (1, 0));
}
