//! One line per hostile kubeconfig: how it differs from a good one, and the reason for which it is refused.

use base64::Engine;
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::*;
use crate::blocking::NAME_LOOKUPS;

/// Certificates and keys in base64, as a kubeconfig has them.
struct Material {
    authority: String,
    certificate: String,
    key: String,
    other_key: String,
    expired_authority: String,
    expired_certificate: String,
    expired_key: String,
}

fn encode(text: impl AsRef<[u8]>) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn material() -> &'static Material {
    static MATERIAL: OnceLock<Material> = OnceLock::new();
    MATERIAL.get_or_init(|| {
        let authority = |year: i32| {
            let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(year, 1, 2);
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            (encode(pem), Issuer::new(params, key))
        };
        let (pem, issuer) = authority(2060);
        let client = |year: i32| {
            let mut params = CertificateParams::new(vec!["admin".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 2);
            let key = KeyPair::generate().unwrap();
            (encode(params.signed_by(&key, &issuer).unwrap().pem()), encode(key.serialize_pem()))
        };
        let (certificate, key) = client(2049);
        let (expired_certificate, expired_key) = client(2021);
        Material {
            authority: pem,
            certificate,
            key,
            other_key: encode(KeyPair::generate().unwrap().serialize_pem()),
            expired_authority: authority(2021).0,
            expired_certificate,
            expired_key,
        }
    })
}

/// A kubeconfig with this cluster and this user, in flow style.
fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: main\n\
         contexts: [{{name: main, context: {{cluster: eu, user: admin, namespace: shop}}}}]\n\
         clusters: [{{name: eu, cluster: {{{cluster}}}}}]\n\
         users: [{{name: admin, user: {{{user}}}}}]\n"
    )
}

fn secure(server: &str) -> String {
    format!("server: '{server}', certificate-authority-data: {}", material().authority)
}

fn with_cluster(cluster: &str) -> String {
    config(cluster, "token: s3cret")
}

fn with_user(user: &str) -> String {
    config(&secure("https://10.0.0.1:6443"), user)
}

fn with_exec(exec: &str) -> String {
    with_user(&format!("exec: {{apiVersion: client.authentication.k8s.io/v1, {exec}}}"))
}

/// One command for administrators, and one for the Secrets of `shop`.
const EXEC_RULES: &str = "/opt/plugin,/opt/cloud,args=token *,server=.clouds.example,server=10.0.0.1:6443,namespace=shop,env=REGION";

fn exec_policy() -> KubeconfigPolicy {
    KubeconfigPolicy {
        exec_allow: ExecRule::parse_list(EXEC_RULES).unwrap(),
        exec_env: vec!["AWS_PROFILE".to_owned()],
        ..KubeconfigPolicy::default()
    }
}

fn reason(text: impl AsRef<[u8]>) -> RefusalReason {
    let refusal = accept(text.as_ref(), "kro-system", &KubeconfigPolicy::default()).unwrap_err();
    assert!(!format!("{refusal} {refusal:?}").contains("s3cret"), "{refusal} {refusal:?}");
    refusal.reason()
}

#[test]
fn accepts_every_authentication_method() {
    let Material { certificate, key, .. } = material();
    let certificate = format!("client-certificate-data: {certificate}, client-key-data: {key}");
    let cases = [
        (AuthMethod::Token, with_user("token: s3cret")),
        (AuthMethod::Basic, with_user("username: admin, password: s3cret")),
        (AuthMethod::ClientCertificate, with_user(&certificate)),
        (AuthMethod::Exec, with_exec("command: /opt/plugin, args: [token, s3cret], interactiveMode: Never")),
        (
            AuthMethod::Exec,
            with_exec(
                "command: /opt/plugin, env: [{name: AWS_PROFILE, value: s3cret}], installHint: ask, provideClusterInfo: true, interactiveMode: IfAvailable",
            ),
        ),
    ];
    for (method, text) in cases {
        let accepted = accept(text.as_bytes(), "kro-system", &exec_policy()).unwrap();
        assert_eq!(accepted.method(), method);
        assert_eq!(accepted.server(), "https://10.0.0.1:6443/");
        assert_eq!(accepted.warnings().contains(&Warning::Basic), method == AuthMethod::Basic);
        assert!(!format!("{accepted:?}").contains("s3cret"), "{accepted:?}");
    }
}

#[test]
fn ignores_fields_without_effect() {
    let text = "
extensions: [{name: x, extension: {a: 1}}]
current-context: 'main'
contexts:
- {name: main, context: {cluster: eu, user: admin, extensions: [{name: x}]}}
- {name: other, context: {cluster: nowhere, user: nobody}}
clusters:
- {name: unused, cluster: {server: 'not an address'}}
- {name: eu, cluster: {server: https://rancher.example/k8s/clusters/c-1, insecure-skip-tls-verify: false, disable-compression: true, tls-server-name: api.eu, certificate-authority-data: AUTHORITY}}
users:
- {name: empty, user: {}}
- {name: admin, user: {token: \"12345\", client-key-data: null, password: ''}}
"
    .replace("AUTHORITY", &material().authority);
    let accepted = accept(text.as_bytes(), "kro-system", &KubeconfigPolicy::default()).unwrap();
    assert_eq!(accepted.warnings(), [Warning::ServerName { name: "api.eu".to_owned() }]);
    assert_eq!(accepted.server().path(), "/k8s/clusters/c-1");
}

#[test]
fn accepts_a_kubeconfig_in_json() {
    let text = with_user("\"token\": \"s3cret\"");
    let document = as_json(&text);
    assert_eq!(
        accept(document.as_bytes(), "kro-system", &KubeconfigPolicy::default()).unwrap().method(),
        AuthMethod::Token
    );
}

/// The same kubeconfig as printed by `kubectl config view --raw -o json`.
fn as_json(text: &str) -> String {
    let authority = &material().authority;
    assert!(text.contains(authority.as_str()));
    serde_json::json!({
        "kind": "Config", "apiVersion": "v1", "preferences": {}, "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "eu", "user": "admin"}}],
        "clusters": [{"name": "eu", "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": authority}}],
        "users": [{"name": "admin", "user": {"token": "s3cret"}}],
    })
    .to_string()
}

#[test]
fn refuses_text_that_is_not_a_kubeconfig() {
    use RefusalReason::*;
    let good = with_user("token: s3cret");
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let deep = format!("extensions: {}{}", "[".repeat(1000), "]".repeat(1000));
    let deep_blocks: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b]\n";
    let many = format!("extensions: [{}]", "a,".repeat(20_000));
    let cases: Vec<(RefusalReason, Vec<u8>)> = vec![
        (Empty, b"".to_vec()),
        (Empty, b"# nothing\n".to_vec()),
        (Encoding, b"\xff\xfe\x00".to_vec()),
        (Encoding, utf16),
        (Encoding, format!("\u{feff}{good}").into_bytes()),
        (TooLarge, format!("{good}#{}", " ".repeat(300 << 10)).into_bytes()),
        (Anchors, bomb.into()),
        (Anchors, good.replace("token: s3cret", "token: *s3cret").into()),
        (Anchors, good.replace("token: s3cret", "token: !!str s3cret").into()),
        (Anchors, good.replace("token: s3cret", "<<: {token: s3cret}").into()),
        (TooDeep, deep.into()),
        (TooDeep, deep_blocks.into()),
        (TooMany, many.into()),
        (Documents, format!("{good}---\n{good}").into()),
        (Documents, format!("{good}---\n").into()),
        (Syntax, b"a: [".to_vec()),
        (Syntax, b"a:\n\t- x".to_vec()),
        (Type, b"just text".to_vec()),
        (Type, b"- a list".to_vec()),
        (Type, b"? [a]\n: b".to_vec()),
        (Type, good.replace("token: s3cret", "token: 12345").into()),
        (Type, good.replace("token: s3cret", "token: {a: b}").into()),
        (Type, good.replace("token: s3cret", "username: yes, password: x").into()),
        (Type, good.replace("token: s3cret", "username: 'a:b', password: x").into()),
        (NotAConfig, good.replace("kind: Config", "kind: Secret").into()),
        (NotAConfig, good.replace("apiVersion: v1", "apiVersion: v2").into()),
        (Duplicate, good.replace("token: s3cret", "token: a, token: b").into()),
        (Duplicate, good.replace("users: [", "users: [{name: admin, user: {token: other}}, ").into()),
        (Duplicate, good.replace("clusters: [", "clusters: [{name: eu, cluster: {}}, ").into()),
        (Duplicate, good.replace("contexts: [", "contexts: [{name: main, context: {}}, ").into()),
        (UnknownField, good.replace("token: s3cret", "token: a, s3cret: b").into()),
        (UnknownField, format!("{good}s3cret: a\n").into()),
        (UnknownField, good.replace("name: eu, cluster:", "name: eu, s3cret: 1, cluster:").into()),
        (UnknownField, with_cluster("s3cret: 1").into()),
        (Context, good.replace("current-context: main\n", "").into()),
        (Context, good.replace("current-context: main", "current-context: other").into()),
        (Cluster, good.replace("cluster: eu,", "cluster: us,").into()),
        (Cluster, good.replace("cluster: eu,", "").into()),
        (User, good.replace("user: admin,", "user: nobody,").into()),
        (User, good.replace("user: admin,", "").into()),
    ];
    for (expected, text) in cases {
        assert_eq!(reason(&text), expected, "{}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn refuses_invalid_and_denied_addresses() {
    use RefusalReason::*;
    let cases = [
        (NotHttps, "http://10.0.0.1"),
        (NotHttps, "unix://10.0.0.1"),
        (NotHttps, "ftp://10.0.0.1"),
        (NotHttps, "10.0.0.1"),
        (Server, "/var/run/api.sock"),
        (Server, "https://"),
        (Server, "https://10.0.0.1:0"),
        (Server, "https://10.0.0.1:99999"),
        (Server, "https://10.0.0.1:"),
        (Server, "https://ex ample"),
        (UserInfo, "https://s3cret:s3cret@10.0.0.1"),
        (Query, "https://10.0.0.1/?s3cret=1"),
        (Query, "https://10.0.0.1/k8s?token=s3cret#s3cret"),
        (Query, "https://10.0.0.1/#s3cret"),
        (Denied, "https://169.254.169.254"),
        (Denied, "https://[::ffff:169.254.169.254]"),
        (Denied, "https://[64:ff9b::a9fe:a9fe]"),
        (Denied, "https://[fd00:ec2::254]"),
        (Denied, "https://[fe80::1]"),
        (Denied, "https://0.0.0.0:6443"),
        (Denied, "https://100.100.100.200"),
        (Denied, "https://168.63.129.16"),
        (Denied, "https://[fd20:ce::254]"),
        (Denied, "https://[2002:a9fe:a9fe::]"),
    ];
    for (expected, server) in cases {
        assert_eq!(reason(with_cluster(&secure(server))), expected, "{server}");
    }
    let policy =
        KubeconfigPolicy { denied: vec!["127.0.0.0/8".parse().unwrap()], ..KubeconfigPolicy::default() };
    for server in ["https://127.0.0.1:6443", "https://[::1]:6443"] {
        let refusal = accept(with_cluster(&secure(server)).as_bytes(), "kro-system", &policy).unwrap_err();
        assert_eq!(refusal.reason(), Denied, "{server}");
    }
}

#[test]
fn refuses_a_server_that_cannot_be_verified() {
    use RefusalReason::*;
    let server = "server: 'https://10.0.0.1'";
    let empty = encode("");
    let no_pem = encode("no PEM");
    let broken = encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let cases = [
        (NoAuthority, server.to_owned()),
        (Insecure, format!("{server}, insecure-skip-tls-verify: true")),
        (Insecure, format!("{}, insecure-skip-tls-verify: true", secure("https://10.0.0.1"))),
        (Type, format!("{}, insecure-skip-tls-verify: yes", secure("https://10.0.0.1"))),
        (FilePath, format!("{server}, certificate-authority: /etc/passwd")),
        (FilePath, format!("{server}, certificate-authority: relative.pem")),
        (FilePath, format!("{server}, certificate-authority: /dev/zero")),
        (Proxy, format!("{}, proxy-url: http://10.0.0.9", secure("https://10.0.0.1"))),
        (Proxy, format!("{}, proxy-url: 'http://u:s3cret@10.0.0.9/?s3cret'", secure("https://10.0.0.1"))),
        (Authority, format!("{server}, certificate-authority-data: '{empty}s'")),
        (NoAuthority, format!("{server}, certificate-authority-data: '{empty}'")),
        (Authority, format!("{server}, certificate-authority-data: {no_pem}")),
        (Authority, format!("{server}, certificate-authority-data: s3cret")),
        (Authority, format!("{server}, certificate-authority-data: {}", encode("s3cret"))),
        (Authority, format!("{server}, certificate-authority-data: {broken}")),
        (Authority, format!("{server}, certificate-authority-data: '%%%'")),
        (ServerName, format!("{}, tls-server-name: 'a b'", secure("https://10.0.0.1"))),
        (Server, format!("certificate-authority-data: {}", material().authority)),
    ];
    for (expected, cluster) in cases {
        assert_eq!(reason(with_cluster(&cluster)), expected, "{cluster}");
    }
    let policy = KubeconfigPolicy { system_roots: true, ..KubeconfigPolicy::default() };
    accept(with_cluster(server).as_bytes(), "kro-system", &policy).unwrap();
}

#[test]
fn refuses_a_user_without_exactly_one_valid_credential() {
    use RefusalReason::*;
    let Material { certificate, key, other_key, .. } = material();
    let encrypted =
        encode("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let certificate_and_key =
        |key: &str| format!("client-certificate-data: {certificate}, client-key-data: {key}");
    let cases = [
        (NoCredential, String::new()),
        (NoCredential, "token: ''".to_owned()),
        (SeveralMethods, format!("token: s3cret, {}", certificate_and_key(key))),
        (SeveralMethods, "token: s3cret, username: a, password: s3cret".to_owned()),
        (SeveralMethods, format!("token: s3cret, client-key-data: {key}")),
        (Incomplete, format!("client-certificate-data: {certificate}")),
        (Incomplete, format!("client-key-data: {key}")),
        (Incomplete, "username: a".to_owned()),
        (Incomplete, "password: s3cret".to_owned()),
        (Certificate, format!("client-certificate-data: s3cret, client-key-data: {key}")),
        (Certificate, certificate_and_key(&encode("s3cret"))),
        (EncryptedKey, certificate_and_key(&encrypted)),
        (KeyMismatch, certificate_and_key(other_key)),
        (Token, "token: \"s3cret\\r\\nImpersonate-User: root\"".to_owned()),
        (Token, "token: \"s3cret\\n\"".to_owned()),
        (Token, "token: s3crét".to_owned()),
        (FilePath, "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token".to_owned()),
        (FilePath, "token: s3cret, tokenFile: token".to_owned()),
        (FilePath, "client-certificate: /proc/self/environ, client-key: /proc/self/environ".to_owned()),
        (FilePath, format!("client-certificate-data: {certificate}, client-key: key.pem")),
        (Impersonation, "token: s3cret, as: root".to_owned()),
        (Impersonation, "token: s3cret, as: ''".to_owned()),
        (Impersonation, "token: s3cret, as-uid: '1'".to_owned()),
        (Impersonation, "token: s3cret, as-groups: [system:masters]".to_owned()),
        (Impersonation, "token: s3cret, as-user-extra: {a: [b]}".to_owned()),
        (AuthProvider, "auth-provider: {name: gcp, config: {cmd-path: /bin/sh}}".to_owned()),
        (AuthProvider, "token: s3cret, auth-provider: {name: oidc}".to_owned()),
    ];
    for (expected, user) in cases {
        let text = with_user(&user);
        assert_eq!(reason(&text), expected, "{user}");
    }
}

/// To open a FIFO without a writer takes for ever.
#[test]
fn refuses_a_fifo_without_opening_it() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let path = fifo.to_str().unwrap();
    let Material { certificate, key, .. } = material();
    for text in [
        with_cluster(&format!("server: 'https://10.0.0.1', certificate-authority: {path}")),
        with_user(&format!("tokenFile: {path}")),
        with_user(&format!("client-certificate: {path}, client-key-data: {key}")),
        with_user(&format!("client-certificate-data: {certificate}, client-key: {path}")),
    ] {
        let (refused, reasons) = std::sync::mpsc::channel();
        std::thread::spawn(move || refused.send(reason(text)));
        let reason = reasons.recv_timeout(Duration::from_secs(60));
        assert_eq!(reason.expect("the file is not opened"), RefusalReason::FilePath);
    }
}

#[test]
fn refuses_commands_that_are_not_allowed() {
    use RefusalReason::*;
    let cases = [
        (ExecNotAllowed, with_exec("command: /bin/sh")),
        (ExecNotAllowed, with_exec("command: /opt/../bin/sh")),
        (ExecNotAllowed, with_exec("command: /opt/plugin/")),
        (ExecRelative, with_exec("command: relative")),
        (ExecRelative, with_exec("command: ../opt/plugin")),
        (ExecNotAllowed, with_exec("args: [a]")),
        (ExecInteractive, with_exec("command: /opt/plugin, interactiveMode: Always")),
        (ExecEnv, with_exec("command: /opt/plugin, env: [{name: LD_PRELOAD, value: /evil.so}]")),
        (
            Duplicate,
            with_exec(
                "command: /opt/plugin, env: [{name: AWS_PROFILE, value: a}, {name: AWS_PROFILE, value: b}]",
            ),
        ),
        (UnknownField, with_exec("command: /opt/plugin, config: {}")),
        (Type, with_exec("command: /opt/plugin, args: [\"a\\0b\"]")),
        (Type, with_exec("command: /opt/plugin, args: [1]")),
        (
            SeveralMethods,
            with_user(
                "token: s3cret, exec: {apiVersion: client.authentication.k8s.io/v1, command: /opt/plugin}",
            ),
        ),
        (
            ExecVersion,
            with_user("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: /opt/plugin}"),
        ),
        (ExecVersion, with_user("exec: {command: /opt/plugin}")),
        (
            ExecNotAllowed,
            with_user("token: s3cret")
                .replace("users: [", "users: [{name: other, user: {exec: {command: /bin/sh}}}, "),
        ),
        (ExecNotAllowed, with_user("token: s3cret, exec: {command: /bin/sh}")),
    ];
    for (expected, text) in cases {
        let refusal =
            accept(text.as_bytes(), "kro-system", &exec_policy()).map(|_| text.clone()).unwrap_err();
        assert_eq!(refusal.reason(), expected, "{text}");
        assert!(!format!("{refusal} {refusal:?}").contains("s3cret"), "{refusal} {refusal:?}");
    }
    assert_eq!(reason(with_exec("command: relative")), ExecNotAllowed);
}

/// A cloud signs the credential of a command for the controller, so a Secret of a tenant must not have it sent anywhere.
#[test]
fn a_command_of_tenants_is_bound_to_namespace_arguments_and_server() {
    use RefusalReason::*;
    let read = |namespace: &str, server: &str, exec: &str| {
        let exec = format!("exec: {{apiVersion: client.authentication.k8s.io/v1, {exec}}}");
        let refusal = accept(config(&secure(server), &exec).as_bytes(), namespace, &exec_policy()).err();
        refusal.map(|refusal| (refusal.reason(), refusal.path().to_owned()))
    };
    let cloud = "command: /opt/cloud, args: [token, eu]";
    let (eu, own) = ("https://eu.clouds.example", "https://tenant.example");
    let refused = |reason, path: &str| Some((reason, path.to_owned()));
    let (command, arguments, server) =
        ("users[0].user.exec.command", "users[0].user.exec.args", "clusters[0].cluster.server");
    assert_eq!(read("shop", eu, cloud), None);
    assert_eq!(
        read("shop", "https://10.0.0.1:6443", &format!("{cloud}, env: [{{name: REGION, value: eu}}]")),
        None
    );
    assert_eq!(read("shop", own, cloud), refused(ExecServer, server));
    assert_eq!(read("shop", "https://10.0.0.1:443", cloud), refused(ExecServer, server));
    assert_eq!(read("bank", eu, cloud), refused(ExecNamespace, command));
    assert_eq!(
        read("shop", eu, "command: /opt/cloud, args: [token, --endpoint=x]"),
        refused(ExecArguments, arguments)
    );
    assert_eq!(read("shop", eu, "command: /opt/cloud"), refused(ExecArguments, arguments));
    let variable = format!("{cloud}, env: [{{name: AWS_PROFILE, value: a}}]");
    assert_eq!(read("shop", eu, &variable), refused(ExecEnv, "users[0].user.exec.env[0].name"));
    // A command without namespaces is for administrators, who choose the server themselves.
    let plugin = "command: /opt/plugin, args: [anything]";
    assert_eq!(read("kro-system", own, plugin), None);
    assert_eq!(read("shop", eu, plugin), refused(ExecNamespace, command));
}

#[test]
fn refusals_have_advice() {
    let shown = |text: String| accept(text.as_bytes(), "kro-system", &exec_policy()).unwrap_err().to_string();
    let texts = [
        shown(with_user("tokenFile: /var/run/token")),
        shown(with_exec("command: aws")),
        shown(with_cluster(&secure("https://169.254.169.254"))),
        shown("a: &a".to_owned()),
        shown(String::new()),
        shown(with_cluster("server: 'https://10.0.0.1'")),
        shown(with_user("token: s3cret, s3cret: 1")),
    ];
    assert_eq!(texts.join("\n"), "\
the kubeconfig is refused: `users[0].user.tokenFile` (line 7) refers to a local file, which is not allowed; embed it with `kubectl config view --minify --flatten --raw`
the kubeconfig is refused: `users[0].user.exec.command` (line 7) is not an absolute path: `aws`; write the absolute path of the command, as in `--kubeconfig-exec-allow`
the kubeconfig is refused: `clusters[0].cluster.server` (line 6) is a denied address: 169.254.169.254; use another address, or change `--kubeconfig-deny-cidr`
the kubeconfig is refused: line 1 uses an anchor, an alias, a merge key or a tag; write every value out in its place
the kubeconfig is refused: it is empty; store a kubeconfig under this key of the Secret
the kubeconfig is refused: `clusters[0].cluster.certificate-authority-data` (line 6) is missing; add `certificate-authority-data`, or start the controller with `--kubeconfig-system-roots`
the kubeconfig is refused: `users[0].user` (line 7) has an unknown field; remove it");
}

#[test]
fn every_reason_has_a_problem_and_advice() {
    for reason in RefusalReason::ALL {
        let shown = Refusal::new(*reason, "a", Some(1)).to_string();
        assert!(shown.contains("; ") && !shown.ends_with('.'), "{shown}");
    }
}

#[tokio::test]
async fn prepare_fails_with_the_name_of_an_expired_certificate() {
    let Material { expired_authority, expired_certificate, expired_key, certificate, key, .. } = material();
    let prepared = async |text: String| {
        let accepted = accept(text.as_bytes(), "kro-system", &KubeconfigPolicy::default()).unwrap();
        accepted.prepare().await.map(|(endpoint, credential)| format!("{endpoint:?} {credential:?}"))
    };
    let old =
        with_cluster(&format!("server: 'https://10.0.0.1', certificate-authority-data: {expired_authority}"));
    assert!(matches!(prepared(old).await, Err(PrepareError::Expired { what: "certificate authority", .. })));
    let old =
        with_user(&format!("client-certificate-data: {expired_certificate}, client-key-data: {expired_key}"));
    let error = prepared(old).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the client certificate of the kubeconfig expired at 2021-01-02T00:00:00Z; store a kubeconfig with a new one"
    );
    let good = with_user(&format!("client-certificate-data: {certificate}, client-key-data: {key}"));
    assert_eq!(prepared(good).await.unwrap(), "Endpoint(https://10.0.0.1:6443) Credential(none)");
    assert!(prepared(with_user("username: a, password: s3cret")).await.is_ok());
}

#[tokio::test]
async fn does_not_connect_to_a_host_name_that_resolves_to_a_denied_address() {
    let policy =
        KubeconfigPolicy { denied: vec!["127.0.0.0/8".parse().unwrap()], ..KubeconfigPolicy::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // `0177.1` is 127.0.0.1 for the resolver of the system, and not an address otherwise.
    for host in ["localhost", "0177.1"] {
        let text = with_cluster(&secure(&format!("https://{host}:{port}")));
        let Ok(accepted) = accept(text.as_bytes(), "kro-system", &policy) else { continue };
        let (endpoint, credential) = accepted.prepare().await.unwrap();
        let client = crate::ClusterClient::new(
            crate::ClusterId::local(),
            &endpoint,
            credential,
            crate::ClientOptions::default(),
        )
        .unwrap();
        let error = client.kind("", Some("v1"), "ConfigMap").await.unwrap_err().to_string();
        assert!(error.contains("is a denied address"), "{error}");
        assert!(!error.contains("127.0.0.1") && !error.contains("::1"), "the name is not looked up: {error}");
    }
    assert!(futures::poll!(Box::pin(listener.accept())).is_pending(), "no connection was opened");
}

/// A lookup cannot be interrupted: one namespace could take every thread with names that never resolve.
#[tokio::test]
async fn host_names_that_never_resolve_delay_only_those_of_their_own_namespace() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Arc::new(parking_lot::Mutex::new(ended));
    for _ in 0..100 {
        let ended = Arc::clone(&ended);
        let lookup = NAME_LOOKUPS.call("tenant".into(), move || {
            let _ = ended.lock().recv();
        });
        // The connect timeout gives up in the same way.
        let _ = tokio::time::timeout(Duration::from_millis(1), lookup).await;
    }
    let endpoint = async |namespace: &str, host: &str| {
        let text = with_cluster(&secure(&format!("https://{host}:6443")));
        let accepted = accept(text.as_bytes(), namespace, &KubeconfigPolicy::default()).unwrap();
        accepted.prepare().await.unwrap().0
    };
    let soon = Duration::from_millis(100);
    let waiting = endpoint("tenant", "localhost").await;
    assert!(tokio::time::timeout(soon, waiting.addresses()).await.is_err(), "the share is used up");
    assert_eq!(endpoint("tenant", "10.0.0.1").await.addresses().await.unwrap().len(), 1);
    assert!(!endpoint("shop", "localhost").await.addresses().await.unwrap().is_empty());
    drop(end);
    assert!(!waiting.addresses().await.unwrap().is_empty());
}

#[test]
fn fingerprints_distinguish_kubeconfigs() {
    let fingerprint = |text: String| {
        accept(text.as_bytes(), "kro-system", &KubeconfigPolicy::default()).unwrap().fingerprint()
    };
    let one = fingerprint(with_user("token: one"));
    assert_eq!(one, fingerprint(with_user("token: one")));
    assert_ne!(one, fingerprint(with_user("token: two")));
    assert_eq!(one.len(), 16);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = accept(&bytes, "kro-system", &exec_policy());
    }

    #[test]
    fn a_mutated_kubeconfig_neither_panics_nor_leaks_secrets(
        pieces in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..20, "[a-z:{}\\[\\]&*!?\"', \n#-]{0,6}"), 1..6),
    ) {
        const CANARY: &str = "zqcanaryzq";
        let mut text = config(
            &secure("https://10.0.0.1:6443"),
            &format!("token: {CANARY}, username: {CANARY}, password: {CANARY}, exec: {{command: /opt/plugin, args: [{CANARY}]}}"),
        );
        for (at, length, inserted) in pieces {
            let start = text.floor_char_boundary(at.index(text.len()));
            let end = text.floor_char_boundary((start + length).min(text.len()));
            text.replace_range(start..end, &inserted);
        }
        let shown = match accept(text.as_bytes(), "kro-system", &exec_policy()) {
            Ok(accepted) => format!("{accepted:?}"),
            Err(refusal) => format!("{refusal} {refusal:?}"),
        };
        prop_assert!(!shown.contains(CANARY), "{}", shown);
    }
}

/// Runs itself in a process whose environment names proxies, which tests of one process cannot.
#[tokio::test]
async fn ignores_the_proxies_of_the_environment() {
    const SERVER: &str = "KROSS_TEST_SERVER";
    let text = |server: &str| with_cluster(&secure(server));
    if let Ok(server) = std::env::var(SERVER) {
        let accepted = accept(text(&server).as_bytes(), "kro-system", &KubeconfigPolicy::default()).unwrap();
        let (endpoint, credential) = accepted.prepare().await.unwrap();
        let (id, options) = (crate::ClusterId::local(), crate::ClientOptions::default());
        let client = crate::ClusterClient::new(id, &endpoint, credential, options).unwrap();
        client.kind("", Some("v1"), "ConfigMap").await.unwrap_err();
        return;
    }
    let [server, proxy] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [server_url, proxy_url] = [("https", &server), ("http", &proxy)]
        .map(|(scheme, listener)| format!("{scheme}://{}", listener.local_addr().unwrap()));
    let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
    itself.args(["--exact", "kubeconfig::tests::ignores_the_proxies_of_the_environment"]);
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"] {
        itself.env(name, &proxy_url).env(name.to_lowercase(), &proxy_url);
    }
    itself.env(SERVER, server_url).env_remove("NO_PROXY").env_remove("no_proxy");
    // It does not shake hands, so each attempt fails at once.
    let accepting = std::thread::spawn(move || server.accept().map(drop));
    let output = itself.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    proxy.set_nonblocking(true).unwrap();
    assert!(proxy.accept().is_err(), "the proxy was connected to");
    assert!(
        accepting.is_finished() && accepting.join().unwrap().is_ok(),
        "the server was connected to directly"
    );
}
