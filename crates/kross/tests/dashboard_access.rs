//! The dashboard that the controller serves, on a control plane with RBAC: everybody sees what their token may read, sessions work on
//! every replica, and the controller's own rights are never used for what is shown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "dashboard_access/world.rs"]
mod world;

use base64::Engine;
use http::Request;
use kross_local::{Access, ControlPlane, rule};
use kross_testing::{AuditLog, shared, wait};
use kube::Client;
use serde_json::json;
use tokio::sync::OnceCell;

use world::{Replica, Visitor, apply, install, set_status, token, viewing};

/// The hub with its objects.
async fn hub() -> (&'static ControlPlane, Client) {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let plane = shared("hub").await;
    let client = plane.client().await.unwrap();
    INSTALLED.get_or_init(|| install(&client)).await;
    (plane, client)
}

async fn replica(more: &[&str]) -> Replica {
    Replica::start(&hub().await.0.admin_path(), more).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_rights_sees_nothing_and_is_told_which_right_is_missing() {
    let (plane, _) = hub().await;
    let replica = replica(&[]).await;
    let nobody = token(plane, "nobody", &Access::none()).await;
    for visitor in [Visitor::with_token(&nobody), replica.log_in(&nobody).await] {
        for page in
            ["/", "/instances", "/instances?namespace=shop", "/definitions", "/definitions/shop", "/targets"]
        {
            let answer = replica.get(&visitor, page).await;
            assert!(
                !answer.body.contains("webshop") && !answer.body.contains("vaultdoor"),
                "{page}: {}",
                answer.body
            );
        }
        let answer = replica.get(&visitor, "/instances").await;
        let missing =
            "cannot list resource &quot;shops&quot; in API group &quot;kro.run&quot; at the cluster scope";
        assert!(answer.status == 200 && answer.body.contains(missing), "{}", answer.body);
        let page = "/instances/shops.kro.run/shop/webshop";
        let answer = replica.get(&visitor, page).await;
        assert!(answer.body.contains("in the namespace &quot;shop&quot;"), "{}", answer.body);
        let (event, data) = replica.stream(&visitor, page).await.next().await.unwrap();
        assert!(event == "content" && data.contains("cannot list resource"), "{event} {data}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_with_rights_in_one_namespace_sees_that_namespace_alone() {
    let (plane, client) = hub().await;
    let replica = replica(&[]).await;
    let access = viewing(Access::none(), Some("shop"));
    let visitor = replica.log_in(&token(plane, "seller", &access).await).await;
    let shown = async |page: &str| replica.get(&visitor, page).await.body;
    let all = shown("/instances?namespace=shop").await;
    assert!(all.contains("webshop") && !all.contains("vaultdoor"), "{all}");
    assert!(shown("/instances/shops.kro.run/shop/webshop").await.contains("Conditions"));
    for page in [
        "/instances",
        "/instances?namespace=bank",
        "/instances/shops.kro.run/bank/vaultdoor",
        "/?namespace=bank",
    ] {
        let body = shown(page).await;
        assert!(!body.contains("webshop") && body.contains("cannot list resource"), "{page}: {body}");
        // The address itself names what was asked for.
        assert!(page.contains("vaultdoor") || !body.contains("vaultdoor"), "{page}: {body}");
    }
    // Changes wake the page by the user's own watches.
    let mut events = replica.stream(&visitor, "/instances?namespace=shop").await;
    assert!(events.next().await.unwrap().1.contains("webshop"));
    for (namespace, name) in [("bank", "vaultdoor"), ("shop", "webshop")] {
        let ready = json!({"type": "Ready", "status": "False", "message": format!("{name} burns"), "reason": "Fire",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        set_status(&client, namespace, name, json!({"state": "ERROR", "conditions": [ready]})).await;
    }
    loop {
        let (event, data) = events.next().await.unwrap();
        assert!(event == "content" && !data.contains("vaultdoor"), "{event} {data}");
        if data.contains("webshop burns") {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_on_every_replica_and_on_no_other_deployment() {
    let (plane, _) = hub().await;
    let [one, two] = [replica(&[]).await, replica(&[]).await];
    let access = viewing(Access::none(), None);
    let visitor = one.log_in(&token(plane, "everywhere", &access).await).await;
    for replica in [&one, &two, &replica(&[]).await] {
        let answer = replica.get(&visitor, "/instances").await;
        assert!(answer.status == 200 && answer.body.contains("vaultdoor"), "{answer:?}");
        assert!(answer.body.contains("Log out") && answer.body.contains("everywhere"), "{}", answer.body);
    }
    let other = replica(&["--dashboard-session-secret=kro-system/other"]).await;
    let refused = async |visitor: &Visitor| {
        let answer = other.get(visitor, "/instances?q=a").await;
        assert_eq!((answer.status, answer.location()), (303, "/login?next=%2Finstances%3Fq%3Da&why=expired"));
    };
    refused(&visitor).await;
    let mut changed = other.log_in(&token(plane, "everywhere", &access).await).await;
    assert_eq!(other.get(&changed, "/instances?q=a").await.status, 200);
    for value in changed.cookies.values_mut() {
        let last = value.pop().unwrap();
        value.push(if last == 'A' { 'Q' } else { 'A' });
    }
    refused(&changed).await;
    // Nothing that scripts or logs could find says what the token is.
    let page = other.get(&changed, "/login?why=expired").await;
    assert!(page.body.contains("Your session has ended"), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_tokens_that_the_api_server_accepts_begin_a_session() {
    let (plane, _) = hub().await;
    let replica = replica(&[]).await;
    let kross_local::Credential::Token(expired) =
        plane.mint_expired_token("accounts", "late", &Access::none()).await.unwrap().credential
    else {
        panic!("a token")
    };
    let long = "x".repeat(20_000);
    for (token, status, text) in [
        (expired.as_str(), 401, "does not accept this token"),
        ("garbage", 401, "does not accept this token"),
        ("", 400, "not a bearer token"),
        ("two+words", 400, "not a bearer token"),
        (long.as_str(), 400, "not a bearer token"),
    ] {
        let answer = replica.post(&Visitor::default(), "/login", &format!("token={token}")).await;
        assert!(answer.status == status && answer.body.contains(text), "{token}: {answer:?}");
        assert!(answer.set_cookies().is_empty());
    }
    for token in [expired.as_str(), "garbage"] {
        let answer = replica.get(&Visitor::with_token(token), "/instances").await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"), "{answer:?}");
    }
    // Nobody in particular: people are led to the login, programs are told.
    let answer = replica.get(&Visitor::default(), "/definitions").await;
    assert_eq!((answer.status, answer.location()), (303, "/login?next=%2Fdefinitions"));
    let answer = replica.get(&Visitor::default().header("accept", "*/*"), "/definitions").await;
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"));
    let mut events = replica.stream(&Visitor::default(), "/instances").await;
    assert_eq!(events.next().await, Some(("login".to_owned(), String::new())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_token_is_revoked_or_its_user_logs_out() {
    let (plane, client) = hub().await;
    let replica = replica(&[]).await;
    let access = viewing(Access::none(), None);
    let visitor = replica.log_in(&token(plane, "leaving", &access).await).await;
    let mut events = replica.stream(&visitor, "/instances").await;
    assert_eq!(events.next().await.unwrap().0, "content");
    let answer = replica.post(&visitor, "/logout", "").await;
    assert_eq!((answer.status, answer.location()), (303, "/login?next=%2F&why=logged-out"));
    assert!(answer.cookies().is_empty() && answer.set_cookies().len() >= visitor.cookies.len());
    while let Some((event, _)) = events.next().await {
        assert!(event == "content" || event == "login");
    }

    // An instance that is not ready is looked into live, so that the API server rejects a request.
    apply(&client, &world::shop("shop", "broken")).await;
    let revoked = token(plane, "revoked", &access).await;
    let visitor = replica.log_in(&revoked).await;
    let mut events = replica.stream(&visitor, "/instances/shops.kro.run/shop/broken").await;
    assert_eq!(events.next().await.unwrap().0, "content");
    plane.revoke("accounts", "revoked").await.unwrap();
    wait::until("the session to end", || async {
        let answer = replica.get(&visitor, "/instances/shops.kro.run/shop/broken").await;
        if answer.location().ends_with("&why=expired") { Ok(()) } else { Err(answer.status.to_string()) }
    })
    .await;
    let answer = replica.get(&Visitor::with_token(&revoked), "/instances").await;
    assert_eq!(answer.status, 401);
    while let Some((event, _)) = events.next().await {
        assert!(event == "content" || event == "login");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_and_checks_keep_a_session_to_its_pages() {
    let (plane, _) = hub().await;
    let replica = replica(&[]).await;
    let access = viewing(Access::none(), None);
    let token = token(plane, "careful", &access).await;
    let form = format!("token={token}&next=%2F%2Fevil.example%2F");
    let nobody = Visitor::default();
    for visitor in [
        nobody.clone().header("sec-fetch-site", "cross-site"),
        nobody.clone().header("sec-fetch-site", "same-site"),
        nobody.clone().header("origin", "https://evil.example"),
        nobody.clone().header("origin", "null"),
    ] {
        assert_eq!(replica.post(&visitor, "/login", &form).await.status, 403, "{visitor:?}");
        assert_eq!(replica.post(&visitor, "/logout", "").await.status, 403, "{visitor:?}");
    }
    let own = nobody.clone().header("origin", &format!("https://{}", replica.address));
    let answer = replica.post(&own, "/login", &form).await;
    assert_eq!((answer.status, answer.location()), (303, "/"), "a login leads to this host only");
    let expiry = |cookie: &str| -> i64 {
        cookie.split("; ").find_map(|part| part.strip_prefix("Max-Age=")).unwrap().parse().unwrap()
    };
    for cookie in answer.set_cookies() {
        assert!(cookie.starts_with("__Host-kross") && !cookie.contains("Domain"), "{cookie}");
        assert!(
            cookie.contains("; Path=/;") && cookie.ends_with("; Secure; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
        // A session lasts eight hours, or as long as its token.
        assert!((0..=8 * 3_600).contains(&expiry(cookie)), "{cookie}");
        assert!(!cookie.contains(&token) && !cookie.contains(token.split('.').nth(1).unwrap()));
    }
    let visitor = Visitor { cookies: answer.cookies(), ..Visitor::default() };
    for (method, path, status) in [
        ("GET", "/", 200),
        ("GET", "/instances", 200),
        ("GET", "/login", 303),
        ("GET", "/assets/dashboard.js", 200),
        ("GET", "/nothing", 404),
        ("GET", "/logout", 405),
        ("POST", "/instances", 405),
        ("DELETE", "/instances/shops.kro.run/shop/webshop", 405),
        ("PUT", "/login", 405),
    ] {
        let request = Request::builder().method(method).uri(path).body(Vec::new()).unwrap();
        let answer = replica.send(&visitor, request).await;
        assert_eq!(answer.status, status, "{method} {path}");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"),
            "{policy}"
        );
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(answer.header("referrer-policy"), "same-origin");
        assert!(
            !answer.body.contains("<script>")
                && !answer.body.contains(" style=")
                && !answer.body.contains("://evil")
        );
    }
    // A link on another site: browsers send no strict cookie with it, but with what its answer leads to.
    let linked = nobody.header("sec-fetch-site", "cross-site");
    let answer = replica.get(&linked, "/instances").await;
    assert!(
        answer.status == 200 && answer.body.contains("content=\"0; url=/login?next=%2Finstances\""),
        "{answer:?}"
    );
    let answer = replica.get(&visitor, "/login?next=%2Finstances").await;
    assert_eq!((answer.status, answer.location()), (303, "/instances"));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_remote_clusters_are_read_with_the_secrets_that_the_caller_may_read() {
    let (plane, client) = hub().await;
    let eu = shared("eu").await;
    let remote = eu.client().await.unwrap();
    apply(
        &remote,
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far", "namespace": "default"},
        "data": {"note": "from-the-other-side"}}),
    )
    .await;
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let authority = base64::engine::general_purpose::STANDARD.encode(eu.authority().certificate());
    let by_command = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": eu.url(), "certificate-authority-data": authority}}],
        "users": [{"name": "x", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never", "command": "/usr/bin/touch",
            "args": [ran.display().to_string()]}}}]});
    for (name, kubeconfig) in
        [("eu-kubeconfig", eu.admin().to_string()), ("command-kubeconfig", by_command.to_string())]
    {
        apply(
            &client,
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"},
            "stringData": {"kubeconfig": kubeconfig}}),
        )
        .await;
        let instance = format!("over-{name}");
        apply(&client, &world::shop("shop", &instance)).await;
        let cluster = json!({"name": "eu", "secret": format!("shop/{name}"), "mode": "Watch", "connected": true,
            "total": 1, "ready": 1});
        let entry = json!({"id": "config", "apiVersion": "v1", "kind": "ConfigMap", "name": "far", "namespace": "default",
            "cluster": "eu", "state": "Ready"});
        set_status(
            &client,
            "shop",
            &instance,
            json!({"state": "ACTIVE", "managedResources": [entry], "clusters": [cluster],
            "conditions": [{"type": "Ready", "status": "True"}]}),
        )
        .await;
    }
    let without = viewing(Access::none(), Some("shop"));
    let with = without.clone().in_namespace("shop", [rule(&[""], &["secrets"], &["get"])]);
    let (without, with) =
        (token(plane, "far-without", &without).await, token(plane, "far-with", &with).await);
    let open =
        replica(&["--kubeconfig-exec-allow=/usr/bin/touch,args=*,server=127.0.0.1,namespace=shop"]).await;
    let denying = replica(&["--kubeconfig-deny-cidr=127.0.0.0/8"]).await;
    let shown = async |replica: &Replica, token: &str, secret: &str| {
        let page = format!("/instances/shops.kro.run/shop/over-{secret}");
        let visitor = Visitor::with_token(token);
        let body = replica.get(&visitor, &page).await.body;
        // The address of the only node, as the page has it.
        let node =
            body.split("href=\"?node=").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
        replica.get(&visitor, &format!("{page}?node={node}")).await.body
    };
    let body = shown(&open, &with, "eu-kubeconfig").await;
    assert!(body.contains("from-the-other-side"), "{body}");
    for (replica, token, secret, why) in [
        (&open, &without, "eu-kubeconfig", "you may not read Secret `shop/eu-kubeconfig`"),
        (&denying, &with, "eu-kubeconfig", "denied"),
        (&open, &with, "command-kubeconfig", "runs a command"),
    ] {
        let body = shown(replica, token, secret).await;
        assert!(!body.contains("from-the-other-side") && body.contains(why), "{secret}: {body}");
    }
    // The audit log says who read what there.
    let log = open.log();
    let record = log.lines().find(|line| line.contains("kross::audit")).unwrap();
    for part in ["system:serviceaccount:accounts:far-with", "shop/eu-kubeconfig", "ConfigMap", "far"] {
        assert!(record.contains(part), "{record}");
    }
    assert!(!ran.exists(), "a command would run with what the controller may do");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_is_made_with_the_token_of_the_caller() {
    let (plane, log) = AuditLog::start("audited").await.unwrap();
    let client = plane.client().await.unwrap();
    install(&client).await;
    // What the chart creates and allows: the controller may use the Secret with the key of sessions, and nothing else.
    let empty = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "kross-dashboard", "namespace": "kro-system"}});
    apply(&client, &empty).await;
    let secrets = rule(&[""], &["secrets"], &["get", "patch"]);
    let controller = Access::none().in_namespace("kro-system", [secrets]);
    let controller = plane.mint_token("kro-system", "kross", &controller).await.unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), controller.to_string()).unwrap();
    let replica = Replica::start(kubeconfig.path(), &[]).await;
    let access = viewing(Access::none(), Some("shop"));
    let visitor = replica.log_in(&token(&plane, "audited", &access).await).await;
    for page in [
        "/",
        "/instances",
        "/instances?namespace=shop",
        "/definitions",
        "/instances/shops.kro.run/shop/webshop",
    ] {
        assert_eq!(replica.get(&visitor, page).await.status, 200, "{page}");
    }
    let mut events = replica.stream(&visitor, "/instances?namespace=shop").await;
    assert_eq!(events.next().await.unwrap().0, "content");
    let of_dashboard = log.all_requests("kross-dashboard/");
    assert!(
        of_dashboard.iter().any(|request| request.uri.contains("/namespaces/shop/shops")),
        "{of_dashboard:?}"
    );
    for request in &of_dashboard {
        assert_eq!(request.user.username, "system:serviceaccount:accounts:audited", "{request:?}");
        assert_eq!(request.impersonated_user, None);
        assert!(!matches!(request.verb.as_str(), "update" | "patch" | "delete"), "{request:?}");
        let reviews = ["selfsubjectreviews", "selfsubjectaccessreviews"];
        let created =
            request.object().filter(|_| request.verb == "create").map(|object| object.resource.as_str());
        assert!(created.is_none_or(|created| reviews.contains(&created)), "{request:?}");
    }
    // With its own rights it reads and writes the key of sessions only.
    let own: Vec<_> = log
        .requests("kro/")
        .into_iter()
        .filter(|request| {
            request.object().is_some_and(|object| object.resource == "secrets" && !object.name.is_empty())
        })
        .collect();
    assert!(!own.is_empty());
    for request in own {
        let object = request.object().unwrap();
        assert_eq!(
            (object.namespace.as_str(), object.name.as_str()),
            ("kro-system", "kross-dashboard"),
            "{request:?}"
        );
    }
    drop((events, replica));
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_reaches_a_log_a_metric_a_page_or_an_address() {
    let (plane, client) = hub().await;
    let replica = replica(&[]).await;
    let access = viewing(Access::none(), None);
    let secret = token(plane, "canary", &access).await;
    let signature = secret.rsplit('.').next().unwrap();
    let garbage = "zqtokenzq";
    let mut found = Vec::new();
    let visitor = replica.log_in(&secret).await;
    for visitor in [visitor.clone(), Visitor::with_token(&secret), Visitor::with_token(garbage)] {
        for page in ["/", "/instances", "/instances/shops.kro.run/shop/webshop", "/login", "/nothing"] {
            let answer = replica.get(&visitor, page).await;
            found.push(format!("{:?} {}", answer.headers, answer.body));
        }
    }
    for form in [
        format!("token={garbage}"),
        format!("token={secret}%20{garbage}"),
        format!("token={secret}&next={garbage}"),
    ] {
        let answer = replica.post(&Visitor::default(), "/login", &form).await;
        found.push(format!("{:?} {}", answer.headers, answer.body));
    }
    // The API server's messages about a token that it rejects.
    let _ = replica.stream(&visitor, "/instances").await.next().await;
    let answer = replica.post(&visitor, "/logout", "").await;
    found.push(format!("{:?} {}", answer.headers, answer.body));
    let metrics = plain_get(&replica.metrics, "/metrics");
    assert!(metrics.contains("# TYPE"));
    found.push(metrics);
    let log = replica.log();
    assert!(log.contains("began a session of the dashboard"), "{log}");
    found.push(log);
    let events = world::api(&client, &json!({"apiVersion": "v1", "kind": "Event", "metadata": {}}));
    found.push(format!("{:?}", events.list(&Default::default()).await.unwrap()));
    for text in found {
        for canary in [signature, garbage] {
            assert!(!text.contains(canary), "{text}");
        }
    }
}

/// A page over HTTP.
fn plain_get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
