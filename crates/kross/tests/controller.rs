//! `kross controller` as a process: flags, pages, shutdown, and leader election between two replicas.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use kross_cluster::{ClientOptions, ClusterClient, ClusterId, LeaderElection, Leadership, LeaseOptions};
use kross_testing::{Action, FaultProxy, Request, Requests, Stopwatch, Verb, shared, wait};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn kross(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kross")).arg("controller").args(arguments).output().unwrap()
}

#[test]
fn help_lists_every_flag() {
    for flag in ["--help", "-h", "-help"] {
        let output = kross(&[flag]);
        assert!(output.status.success(), "{flag}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("  --leader-election-lease-duration duration\n"), "{text}");
        assert!(text.contains("(default 15s)"), "{text}");
    }
}

#[test]
fn an_unknown_flag_is_rejected_with_a_suggestion() {
    let output = kross(&["--leader-elect", "--metrics-bind-adress=:1"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "error: unknown flag `--metrics-bind-adress`; did you mean `--metrics-bind-address`?\n");
}

#[test]
fn an_invalid_value_is_rejected_before_anything_runs() {
    let output = kross(&["-zap-log-level=loud"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("invalid log level `loud`"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn raises_the_limit_of_open_files_to_the_hard_limit() {
    // Nothing answers there: the controller must not compete with those of other tests.
    let text = std::fs::read_to_string(shared("hub").await.admin_path()).unwrap();
    let server = text.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(kubeconfig.path(), text.replace(server, "https://127.0.0.1:9")).unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -S -n 256; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_kross"), "controller"])
        .args(["--health-probe-bind-address=0", "--metrics-bind-address=0", "--admin-bind-address=0"])
        .arg("--kubeconfig")
        .arg(kubeconfig.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let limits = format!("/proc/{}/limits", child.id());
    wait::until_true("the limit to be raised", || {
        let text = std::fs::read_to_string(&limits).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let [soft, hard] = [0, 1].map(|at| line.split_whitespace().nth(at).unwrap());
        soft != "256" && soft == hard
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A running controller on free ports. It is killed at the end of the test.
struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    probes: String,
    admin: String,
    metrics: String,
    log: Vec<String>,
}

impl Process {
    async fn start(plane: &str, more: &[&str]) -> Self {
        Self::start_with(&shared(plane).await.admin_path(), more)
    }

    fn start_with(kubeconfig: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
            .args(["controller", "--kubeconfig"])
            .arg(kubeconfig)
            .args(["-health-probe-bind-address", "127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0"])
            .args(["--admin-bind-address=127.0.0.1:0", "--zap-encoder=json"])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let empty = String::new;
        let mut process =
            Self { child, lines, probes: empty(), admin: empty(), metrics: empty(), log: Vec::new() };
        process.probes = process.address("probes");
        process.metrics = process.address("metrics");
        process.admin = process.address("admin pages");
        process
    }

    /// The address of these pages, from the log.
    fn address(&mut self, pages: &str) -> String {
        let line = self.line("serving pages");
        assert_eq!(line["pages"], pages, "{line}");
        line["address"].as_str().unwrap().to_owned()
    }

    /// The next log line with this message.
    fn line(&mut self, message: &str) -> serde_json::Value {
        loop {
            let line =
                self.lines.recv_timeout(wait::WAIT_LIMIT).unwrap_or_else(|_| panic!("{:#?}", self.log));
            self.log.push(line.clone());
            let json: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if json["message"] == message {
                return json;
            }
        }
    }

    async fn until_ready(&self) {
        wait::until("the controller to be ready", || async {
            match ask(&self.probes, "GET", "/readyz", "") {
                (200, _) => Ok(()),
                (status, page) => Err(format!("{status} {page}")),
            }
        })
        .await;
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let Ok(mut stream) = TcpStream::connect(address) else { return (0, "no connection".to_owned()) };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn api(client: &kube::Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

fn namespaced(client: &kube::Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    Api::default_namespaced_with(client.clone(), &ApiResource::from_gvk(&kind))
}

async fn install_crds(client: &kube::Client) {
    for crd in kross_api::graph_crds() {
        let crd = serde_json::from_value(serde_json::to_value(crd).unwrap()).unwrap();
        let crds = api(client, "apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        crds.create(&PostParams::default(), &crd).await.unwrap();
    }
}

/// A token of a new ServiceAccount that may get these paths.
async fn reader(client: &kube::Client, name: &str, paths: &[&str]) -> String {
    let create = async |api: Api<DynamicObject>, object: serde_json::Value| {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    create(namespaced(client, "", "v1", "ServiceAccount"), account).await;
    let (group, version) = ("rbac.authorization.k8s.io", "v1");
    let api_version = format!("{group}/{version}");
    let role = json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"nonResourceURLs": paths, "verbs": ["get"]}]});
    create(api(client, group, version, "ClusterRole"), role).await;
    let binding = json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}]});
    create(api(client, group, version, "ClusterRoleBinding"), binding).await;
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
    let request = http::Request::post(path).body(serde_json::to_vec(&request).unwrap()).unwrap();
    let answer: serde_json::Value = client.request(request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// The answer to a request over TLS. The certificate is self-signed.
async fn ask_secure(address: &str, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = kube::Client::try_from(config).unwrap();
    let request =
        http::Request::builder().method(method).uri(path).body(kube::client::Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect_bytes().await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn secure_pages_are_for_users_whom_the_api_server_allows() {
    let client = shared("hub").await.client().await.unwrap();
    // It does not lead, and so does not compete with the controllers of other tests.
    let election = ["--leader-elect", "--leader-election-namespace=nowhere"];
    let process =
        Process::start("hub", &[&election[..], &["--metrics-secure", "--admin-secure"]].concat()).await;
    let scraper = reader(&client, "scraper", &["/metrics"]).await;
    let operator = reader(&client, "operator", &["/metrics", "/clusters", "/loglevel"]).await;
    let (metrics, admin) = (process.metrics.as_str(), process.admin.as_str());

    assert_eq!(ask(&process.probes, "GET", "/healthz", "").0, 200, "the kubelet has no token");
    let unauthorized = (401, "Unauthorized\n".to_owned());
    for token in [None, Some("no token")] {
        assert_eq!(ask_secure(metrics, "GET", "/metrics", token).await, unauthorized);
        assert_eq!(ask_secure(admin, "GET", "/clusters", token).await, unauthorized);
    }
    wait::until("the operator to be allowed", || async {
        match ask_secure(admin, "GET", "/clusters", Some(&operator)).await {
            (200, page) if page.starts_with('[') => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    })
    .await;
    wait::until("the scraper to be allowed", || async {
        match ask_secure(metrics, "GET", "/metrics", Some(&scraper)).await {
            (200, page) if page.ends_with("# EOF\n") => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    })
    .await;
    let denied =
        |user: &str| (403, format!("Authorization denied for user system:serviceaccount:default:{user}\n"));
    assert_eq!(ask_secure(admin, "GET", "/clusters", Some(&scraper)).await, denied("scraper"));
    assert_eq!(ask_secure(admin, "PUT", "/loglevel", Some(&operator)).await, denied("operator"));
    assert_eq!(ask_secure(admin, "GET", "/loglevel", Some(&operator)).await.0, 200);
}

/// The lease duration.
const LEASE: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_is_ready_once_its_caches_sync_and_one_of_two_replicas_leads() {
    let client = shared("hub").await.client().await.unwrap();
    let election = [
        "--leader-elect",
        "--leader-election-namespace=default",
        &format!("--leader-election-lease-duration={}s", LEASE.as_secs()),
        // Long enough for a renewal on a busy machine.
        "--leader-election-renew-deadline=8s",
        "--leader-election-retry-period=1s",
    ];
    let gate = ["--feature-gates=InstanceConditionMetrics=true"];
    let mut first = Process::start("hub", &[&election[..], &gate].concat()).await;
    assert_eq!(ask(&first.probes, "GET", "/healthz", "").0, 200);
    let (status, page) = ask(&first.probes, "GET", "/readyz", "");
    assert_eq!(status, 503);
    assert!(page.contains("[-] watches"), "{page}");

    // The controller does not install its CRDs. It starts to work once they are installed.
    install_crds(&client).await;
    first.until_ready().await;
    let second = Process::start("hub", &election).await;
    second.until_ready().await;
    for replica in [&first, &second] {
        assert_eq!(ask(&replica.probes, "GET", "/livez", ""), (200, "ok".to_owned()));
    }

    let definitions = api(&client, "kro.run", "v1alpha1", "ResourceGraphDefinition");
    let define = async |name: &str, kind: &str| {
        let child = json!({"id": "child", "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "${schema.metadata.name}"}}});
        let definition = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name},
            "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"size": "integer"}},
                "resources": [child]},
        });
        let definition = serde_json::from_value(definition).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
        wait::until_object(&definitions, name, |object| object.data["status"]["state"] == "Active").await;
    };
    define("one", "One").await;
    let instances = namespaced(&client, "kro.run", "v1alpha1", "One");
    let instance = async |name: &str| {
        let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "One", "metadata": {"name": name}});
        let object = serde_json::from_value(object).unwrap();
        instances.create(&PostParams::default(), &object).await.unwrap();
        wait::until_object(&instances, name, |object| object.data["status"]["state"] == "ACTIVE").await;
    };
    for name in ["a", "b", "c"] {
        instance(name).await;
    }
    let builds = |process: &Process| ask(&process.metrics, "GET", "/metrics", "").1;
    assert!(builds(&first).contains("rgd_graph_build_total 1\n"), "{}", builds(&first));
    assert!(builds(&second).contains("rgd_graph_build_total 0\n"), "{}", builds(&second));
    assert!(builds(&second).contains("instance_reconcile_total 0\n"), "{}", builds(&second));

    // Conditions are exported as metrics where the feature gate is on.
    let condition = "instance_condition_current_status_seconds{gvr=\"kro.run/v1alpha1, Resource=ones\",\
        namespace=\"default\",name=\"a\",condition_type=\"Ready\",condition_status=\"True\",reason=\"Ready\"} ";
    assert!(builds(&first).contains(condition), "{}", builds(&first));
    assert!(!builds(&second).contains("instance_condition_current_status_seconds"));

    // The log has every instance that failed, and with another level, which can be set while it runs, every reconcile.
    let children = namespaced(&client, "", "v1", "ConfigMap");
    let taken =
        json!({"metadata": {"name": "taken", "labels": {"applyset.kubernetes.io/part-of": "another"}}});
    let taken = serde_json::from_value(taken).unwrap();
    children.create(&PostParams::default(), &taken).await.unwrap();
    let refused = json!({"apiVersion": "kro.run/v1alpha1", "kind": "One", "metadata": {"name": "taken"}});
    let refused = serde_json::from_value(refused).unwrap();
    instances.create(&PostParams::default(), &refused).await.unwrap();
    let line = first.line("instance failed");
    assert_eq!(
        (&line["level"], &line["instance"]),
        (&json!("WARN"), &json!("One.kro.run default/taken in local"))
    );
    assert!(line["cause"].as_str().unwrap().contains("belongs to a different ApplySet"), "{line}");
    assert!(!first.log.iter().any(|line| line.contains("DEBUG")), "{:#?}", first.log);
    assert_eq!(ask(&first.admin, "PUT", "/loglevel", "debug"), (200, "debug\n".to_owned()));
    assert_eq!(ask(&first.admin, "PUT", "/loglevel", "loud").0, 400);
    instances.delete("taken", &DeleteParams::default()).await.unwrap();
    assert_eq!(first.line("reconciled instance")["level"], "DEBUG");
    wait::until_deleted(&instances, "taken").await;
    // A rejected definition counts for as long as it is rejected, although nothing compiles it again.
    let until_shown = async |line: &str| {
        wait::until(format!("`{line}` in the metrics"), || {
            let page = builds(&first);
            std::future::ready(if page.lines().any(|shown| shown == line) { Ok(()) } else { Err(page) })
        })
        .await;
    };
    until_shown("kross_definitions_rejected 0").await;
    let rejected = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "rejected"}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Rejected", "spec": {}},
            "resources": [{"id": "one", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${missing.metadata.name}"}}}]}});
    let rejected = serde_json::from_value(rejected).unwrap();
    definitions.create(&PostParams::default(), &rejected).await.unwrap();
    until_shown("kross_definitions_rejected 1").await;
    definitions.delete("rejected", &DeleteParams::default()).await.unwrap();
    until_shown("kross_definitions_rejected 0").await;
    until_shown("kross_instances_not_ready{longer_than=\"5m\"} 0").await;
    // There are no remote clusters.
    assert_eq!(ask(&first.admin, "GET", "/clusters", ""), (200, "[]".to_owned()));
    assert!(builds(&first).contains("kross_clusters{state=\"connected\"} 0\n"), "{}", builds(&first));

    let leases = namespaced(&client, "coordination.k8s.io", "v1", "Lease");
    // After the leader is killed, the other replica takes over within the lease duration and does not write objects again.
    let versions = async || {
        let all = [&instances, &children].map(|api| async move {
            let list = api.list(&ListParams::default().labels("kro.run/owned=true")).await.unwrap();
            list.items.into_iter().map(|object| (object.metadata.name, object.metadata.resource_version))
        });
        futures::future::join_all(all).await.into_iter().flatten().collect::<Vec<_>>()
    };
    let before = versions().await;
    assert_eq!(before.len(), 6);
    first.signal(Signal::KILL);
    let killed = Stopwatch::start();
    wait::until("the other replica to take over", || {
        let leads = builds(&second).contains("rgd_graph_revision_resolution_total{result=\"serve\"}");
        std::future::ready(if leads { Ok(()) } else { Err(builds(&second)) })
    })
    .await;
    killed.assert_within(LEASE + Duration::from_secs(5));
    let lease = leases.get("controller.kro.run").await.unwrap();
    let transitions = lease.data["spec"]["leaseTransitions"].as_u64().unwrap();
    assert!(transitions > 0, "{lease:?}");
    let line = format!("kross_lease_transitions {transitions}\n");
    assert!(builds(&second).contains(&line), "{}", builds(&second));
    define("two", "Two").await;
    assert!(builds(&second).contains("rgd_graph_revision_issue_total{reason=\"no_revision\"} 1\n"));
    instance("d").await;
    let after = versions().await;
    assert_eq!(after.len(), 8);
    assert!(before.iter().all(|version| after.contains(version)), "{before:?} {after:?}");

    // On SIGTERM the leader finishes running work and releases the Lease.
    let mut second = second;
    second.signal(Signal::TERM);
    let ended = wait::until("the controller to exit", || {
        std::future::ready(second.child.try_wait().unwrap().ok_or_else(|| "it is still running".to_owned()))
    })
    .await;
    assert!(ended.success(), "{ended}");
    let lease = leases.get("controller.kro.run").await.unwrap();
    assert_eq!(lease.data["spec"]["holderIdentity"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_leader_writes_nothing_after_its_lease_has_ended() {
    let plane = shared("frozen").await;
    let client = plane.client().await.unwrap();
    install_crds(&client).await;
    let proxy = FaultProxy::start(plane.admin()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, proxy.kubeconfig(plane.admin()).unwrap().to_string()).unwrap();
    let mut frozen = Process::start_with(
        &kubeconfig,
        &[
            "--leader-elect",
            "--leader-election-namespace=default",
            "--leader-election-lease-duration=8s",
            "--leader-election-renew-deadline=6s",
            "--leader-election-retry-period=500ms",
        ],
    );
    frozen.until_ready().await;
    let config_map = |id: &str, data: serde_json::Value| {
        json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": data}})
    };
    let definition = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "chain"},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Chain", "spec": {"size": "integer"}},
            "resources": [config_map("a", json!({})), config_map("b", json!({"after": "${a.metadata.name}"}))]},
    });
    let definitions = api(&client, "kro.run", "v1alpha1", "ResourceGraphDefinition");
    let definition = serde_json::from_value(definition).unwrap();
    wait::create_once_served(&definitions, &definition).await;
    wait::until_object(&definitions, "chain", |object| object.data["status"]["state"] == "Active").await;

    // It freezes while the first of two objects of every instance is being written.
    const INSTANCES: usize = 30;
    let applies = Requests::any().verb(Verb::Apply).resource("configmaps");
    let held = proxy.on(applies.clone(), Action::Hold);
    let instances = namespaced(&client, "kro.run", "v1alpha1", "Chain");
    for number in 0..INSTANCES {
        let name = format!("x{number}");
        let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": "Chain", "metadata": {"name": name}});
        wait::create_once_served(&instances, &serde_json::from_value(object).unwrap()).await;
    }
    wait::until_true("the writes to be sent", || proxy.count(&applies) == INSTANCES).await;
    frozen.signal(Signal::STOP);
    let config = plane.admin().config().await.unwrap();
    let direct = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let lease = LeaseOptions::new("default", "controller.kro.run", "successor");
    let successor = LeaderElection::start(direct, lease);
    let mut leadership = successor.leadership();
    let leads = leadership.wait_for(|leadership| *leadership == Leadership::Leading);
    tokio::time::timeout(wait::WAIT_LIMIT, leads).await.expect("it takes over").unwrap();

    // It wakes up to the answers, and has not noticed yet that another process leads.
    proxy.clear_requests();
    proxy.remove(held);
    let children = namespaced(&client, "", "v1", "ConfigMap");
    wait::until("writes to be answered", || async {
        let owned = ListParams::default().labels("kro.run/owned=true");
        let count = children.list(&owned).await.map_err(|error| error.to_string())?.items.len();
        // The body of a request may not have left the process when it froze.
        if count > INSTANCES / 2 { Ok(()) } else { Err(format!("{count} of {INSTANCES}")) }
    })
    .await;
    frozen.signal(Signal::CONT);
    let ended = wait::until("the controller to exit", || {
        std::future::ready(frozen.child.try_wait().unwrap().ok_or_else(|| "it is still running".to_owned()))
    })
    .await;
    assert!(!ended.success(), "{ended}");
    let is_write = |request: &&Request| {
        !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch)
            && !request.resource.starts_with("leases.")
    };
    let sent = proxy.requests(&Requests::any());
    let writes: Vec<String> =
        sent.iter().map(|record| &record.request).filter(is_write).map(ToString::to_string).collect();
    assert!(writes.is_empty(), "{writes:?}");
    successor.resign().await;
}
