//! `kross controller` with kubeconfigs of remote clusters: the rules of `kross rbac` suffice, a missing verb is reported, and no
//! credential leaks into objects, pages or logs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

#[path = "security/process.rs"]
mod process;
#[path = "security/world.rs"]
mod world;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kross_local::{Access, Credential};
use kross_testing::{ReceivedSpan, wait};
use serde_json::{Value as Json, json};

use world::World;

/// The definition that all tests share: a remote object, and a local one that reads it. The instance chooses the cluster.
const DEFINITION: &str = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: guarded
spec:
  schema:
    apiVersion: v1alpha1
    kind: Guarded
    spec:
      secret: string
  resources:
    - id: remote
      cluster:
        name: ${schema.spec.secret}
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${schema.metadata.name}
        data:
          size: large
    - id: local
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${schema.metadata.name}
        data:
          size: ${remote.data.size}
";

/// Every way in which an expression, or an API server, could quote a Secret. Each has an instance of its own.
const QUOTING: &[(&str, &str)] = &[
    ("number", "${string(int(string(secret.data.word)))}"),
    ("address", "${url(string(secret.data.address)).getHost()}"),
    ("user", "${url('https://a:' + string(secret.data.word) + '@[').getHost()}"),
    ("period", "${string(duration(string(secret.data.word)))}"),
    ("semantic", "${string(semver(string(secret.data.word)).major())}"),
    ("amount", "${string(quantity(string(secret.data.word)).asInteger())}"),
    ("missing", "${string(secret.data.absent)}"),
    ("computed", "${string(secret.data[string(secret.data.word)])}"),
    ("pattern", "${'a'.find('(' + string(secret.data.word))}"),
    ("comparison", "${secret.data.word == b'x' ? 'a' : string(int(string(secret.data.word)))}"),
];

/// A definition that reads a Secret by name and gives what it reads to an expression, a label and the field of a Service.
fn quoting_definition() -> String {
    let node = |(id, expression): &(&str, &str)| {
        format!(
            "    - id: {id}
      includeWhen: [\"${{schema.spec.what == '{id}'}}\"]
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${{schema.metadata.name}}-{id}
        data:
          x: \"{expression}\"
"
        )
    };
    let nodes: String = QUOTING.iter().map(node).collect();
    format!(
        "apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: quoting
spec:
  schema:
    apiVersion: v1alpha1
    kind: Quoting
    spec:
      what: string
  resources:
    - id: secret
      externalRef:
        apiVersion: v1
        kind: Secret
        metadata:
          name: external
{nodes}    - id: service
      includeWhen: [\"${{schema.spec.what == 'service'}}\"]
      template:
        apiVersion: v1
        kind: Service
        metadata:
          name: ${{schema.metadata.name}}
        spec:
          type: ${{string(secret.data.word)}}
          ports: [{{port: 80}}]
    - id: labelled
      includeWhen: [\"${{schema.spec.what == 'labelled'}}\"]
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${{schema.metadata.name}}-labelled
          labels: '${{secret.data.transformMapEntry(k, v, {{\"kro.run/\" + k: \"a\"}})}}'
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn minimal_rules_suffice_and_no_credential_leaks() {
    let mut world = World::new(DEFINITION).await;
    let mut canaries = minimal_rules_suffice_and_a_missing_verb_is_reported(&world).await;
    a_secret_is_usable_only_from_the_namespaces_that_it_allows(&world).await;
    canaries.extend(every_kind_of_credential_is_used_or_rejected(&world).await);
    canaries.extend(expressions_and_servers_quote_no_secret(&world).await);
    traces_have_the_steps_of_a_reconcile(&world).await;
    canaries.insert("header of the collector", "zqcollectorzq".to_owned());
    no_credential_leaks(&mut world, &canaries).await;
}

/// Grants a kubeconfig the rules that `kross rbac` derives, and takes away one verb after the other.
async fn minimal_rules_suffice_and_a_missing_verb_is_reported(
    world: &World,
) -> BTreeMap<&'static str, String> {
    let namespace = &world.fixture.namespace;
    let plane = world.fixture.remote("eu").plane;
    let kubeconfig = plane.mint_token(namespace, "agent", &Access::none()).await.unwrap();
    let subject = format!("ServiceAccount:{namespace}/agent");
    world.grant(&world::rbac(DEFINITION, &["--remote", "--name", "agent", "--subject", &subject])).await;
    world.secret("least-kubeconfig", &kubeconfig.to_string()).await;
    world.create("least", "least-kubeconfig").await;
    let ready = world.until("least", |instance| instance["status"]["state"] == "ACTIVE").await;
    assert_eq!(ready["status"]["clusters"][0]["unverified"], Json::Null, "its UID can be read: {ready:#}");

    let user = format!("system:serviceaccount:{namespace}:agent");
    for (verb, name) in [("create", "without-create"), ("patch", "without-patch")] {
        world.grant(&world.roles_without("agent", verb).await).await;
        world.until_forbidden(&user, verb).await;
        world.create(name, "least-kubeconfig").await;
        let failed = world
            .until(name, |instance| {
                let text = instance["status"].to_string();
                text.contains("Forbidden") && text.contains(verb)
            })
            .await;
        let status = failed["status"].to_string();
        for word in [verb, "configmaps", &user, "least-kubeconfig"] {
            assert!(status.contains(word), "`{word}` is not in {failed:#}");
        }
        world.grant(&world::rbac(DEFINITION, &["--remote", "--name", "agent", "--subject", &subject])).await;
        world.until(name, |instance| instance["status"]["state"] == "ACTIVE").await;
    }
    world.delete("least").await;
    let Credential::Token(token) = &kubeconfig.credential else { panic!("a token") };
    BTreeMap::from([("token of the minimal kubeconfig", token.clone())])
}

/// A definition with a fixed Secret, which lists the namespaces that may use it.
async fn a_secret_is_usable_only_from_the_namespaces_that_it_allows(world: &World) {
    let namespace = &world.fixture.namespace;
    let kubeconfig = world.fixture.remote("eu").plane.admin().to_string();
    let annotations = json!({"kro.run/allowed-namespaces": format!("elsewhere, {namespace}")});
    world.secret_with("fixed-kubeconfig", &kubeconfig, annotations).await;
    let cluster = format!("name: fixed-kubeconfig\n        namespace: {namespace}");
    let definition = DEFINITION
        .replace("name: ${schema.spec.secret}", &cluster)
        .replace("name: guarded", "name: fixed")
        .replace("kind: Guarded", "kind: Fixed");
    world.define(&definition).await;
    world.instance("Fixed", namespace, "mine", json!({"secret": ""})).await;
    world.until_of("Fixed", namespace, "mine", |instance| instance["status"]["state"] == "ACTIVE").await;

    // The message for a Secret that may not be used must not differ from that for one that does not exist.
    let rejection = async |kind: &str, secret: &str| {
        world.instance(kind, "default", "others", json!({"secret": secret})).await;
        let refused = world
            .until_of(kind, "default", "others", |instance| {
                instance["status"].to_string().contains("cannot use Secret")
            })
            .await;
        let conditions = refused["status"]["conditions"].as_array().unwrap().clone();
        let condition = conditions.iter().find(|condition| condition["type"] == "RemoteClusterConnected");
        let field = |name: &str| condition.unwrap()[name].as_str().unwrap().to_owned();
        // ClusterResolved says it about a reference that each instance resolves. The time differs.
        let text = |condition: &Json| condition["message"].as_str().unwrap_or_default().to_owned();
        let message = conditions.iter().map(text).find(|text| text.contains("cannot use Secret")).unwrap();
        let message = message.split("cannot use Secret").nth(1).unwrap();
        let message = message.split(" (since ").next().unwrap().to_owned();
        (field("status"), field("reason"), message)
    };
    let (status, reason, message) = rejection("Fixed", "").await;
    let missing = rejection("Guarded", "missing-kubeconfig").await;
    let renamed = message.replace(&format!("{namespace}/fixed-kubeconfig"), "default/missing-kubeconfig");
    assert_eq!((status, reason, renamed), missing);
}

/// Kubeconfigs with a recognisable text in every field, valid and invalid ones.
async fn every_kind_of_credential_is_used_or_rejected(world: &World) -> BTreeMap<&'static str, String> {
    let admin = world.fixture.remote("eu").plane.admin();
    let Credential::Certificate(identity) = &admin.credential else { panic!("a certificate") };
    let text = admin.to_string();
    let (head, certificate) = text.split_once("  user:\n").unwrap();
    let user = |user: &str| format!("{head}  user:\n    {user}\n");
    let exec = |more: &str| {
        let command = world.plugin().display().to_string();
        user(&format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}, args: [zqargumentzq], {more}}}"
        ))
    };
    let bad_exec = exec("interactiveMode: Never").replace("plugin", "other-plugin");
    let good = [
        ("by-certificate", text.clone()),
        ("by-command", exec("env: [{name: CANARY, value: zqenvironmentzq}]")),
    ];
    let bad = [
        ("by-token", user("token: zqtokenzq")),
        ("by-password", user("{username: zqusernamezq, password: zqpasswordzq}")),
        ("two-at-once", format!("{head}  user:\n{certificate}    token: zqsecondzq\n")),
        ("a-file", user("tokenFile: /zqfilezq")),
        ("a-key", user("{client-certificate-data: enFjZXJ0aWZpY2F0ZXpx, client-key-data: enFrZXl6cQ==}")),
        ("not-yaml", user("token: [zqbrokenzq")),
        ("unknown", user("zqunknownzq: zqvaluezq")),
        ("twice", user("{token: zqonezq, token: zqtwozq}")),
        ("a-line", user("token: \"zqlinezq\\nImpersonate-User: root\"")),
        (
            "in-address",
            user("token: zqaddresszq").replace("https://", "https://zquserinfozq:zquserpasswordzq@"),
        ),
        ("somebody", user("{token: zqasonezq, as: zqsomebodyzq}")),
        ("command", bad_exec),
        // The token of an allowed command must not be sent anywhere else.
        ("own-server", exec("interactiveMode: Never").replace("127.0.0.1", "localhost")),
        ("own-arguments", exec("interactiveMode: Never").replace("zqargumentzq", "zqotherzq")),
        ("provider", user("auth-provider: {name: oidc, config: {id-token: zqprovidertokenzq}}")),
    ];
    for (name, kubeconfig) in good.iter().chain(&bad) {
        let secret = format!("{name}-kubeconfig");
        world.secret(&secret, kubeconfig).await;
        world.create(name, &secret).await;
    }
    for (name, _) in &good {
        world.until(name, |instance| instance["status"]["state"] == "ACTIVE").await;
    }
    for (name, _) in &bad {
        let refused = world
            .until(name, |instance| {
                let text = instance["status"].to_string();
                text.contains("kubeconfig is refused") || text.contains("does not accept the credentials")
            })
            .await;
        assert_ne!(refused["status"]["state"], "ACTIVE", "{name}");
    }
    let words = [
        "zqtokenzq",
        "zqpasswordzq",
        "zqusernamezq",
        "zqsecondzq",
        "zqfilezq",
        "zqcertificatezq",
        "zqkeyzq",
        "zqbrokenzq",
        "zqunknownzq",
        "zqvaluezq",
        "zqonezq",
        "zqtwozq",
        "zqlinezq",
        "zqaddresszq",
        "zquserinfozq",
        "zquserpasswordzq",
        "zqasonezq",
        "zqsomebodyzq",
        "zqprovidertokenzq",
        "zqargumentzq",
        "zqotherzq",
        "zqenvironmentzq",
        "zqannotationzq",
    ];
    let mut canaries: BTreeMap<&'static str, String> =
        words.iter().map(|word| (*word, (*word).to_owned())).collect();
    // A line from the middle of the key, and the token that the plugin prints.
    canaries.insert("client key", identity.key.lines().nth(1).unwrap().to_owned());
    canaries.insert("printed token", world.printed_token().to_owned());
    canaries
}

/// Instances whose expressions fail on values and keys of a Secret, or whose objects an API server rejects because of them.
async fn expressions_and_servers_quote_no_secret(world: &World) -> BTreeMap<&'static str, String> {
    let address = "https://user:zqurlpasswordzq@[zqhostzq";
    let data = json!({"word": "zqwordzq", "address": address, "zqkeyzq-of-a-secret": "zqothervaluezq"});
    world.opaque_secret("external", data).await;
    world.define(&quoting_definition()).await;
    let namespace = &world.fixture.namespace;
    let cases = QUOTING.iter().map(|(id, _)| *id).chain(["service", "labelled"]);
    for case in cases {
        world.instance("Quoting", namespace, case, json!({"what": case})).await;
        // A missing key may still appear.
        let pending = ["missing", "computed"].contains(&case);
        let failed = world
            .until_of("Quoting", namespace, case, |instance| {
                instance["status"]["state"] == if pending { "IN_PROGRESS" } else { "ERROR" }
            })
            .await;
        assert!(!failed.to_string().contains("zq"), "{failed:#}");
    }
    let words = ["zqwordzq", "zqurlpasswordzq", "zqhostzq", "zqkeyzq-of-a-secret", "zqothervaluezq"];
    words.iter().map(|word| (*word, (*word).to_owned())).collect()
}

/// The collector gets a span for each step, with the clusters that objects were applied to and why that failed.
async fn traces_have_the_steps_of_a_reconcile(world: &World) {
    let namespace = &world.fixture.namespace;
    let has = |span: &&ReceivedSpan, name: &str, wanted: &[(&str, &str)]| {
        span.name == name && wanted.iter().all(|(name, value)| span.attribute(name) == Some(*value))
    };
    let of = |name: &str| format!("Guarded.kro.run {namespace}/{name} in local");
    let cluster = format!("{namespace}/least-kubeconfig");
    wait::until("the spans to be exported", || {
        let spans = world.collector.spans();
        let found = |name: &str, wanted: &[(&str, &str)]| {
            let matching: Vec<_> = spans.iter().filter(|span| has(span, name, wanted)).collect();
            if matching.is_empty() {
                Err(format!("no {name} with {wanted:?} in {spans:#?}"))
            } else {
                Ok(matching)
            }
        };
        let check = || {
            found("reconcile", &[("rgd", "guarded")])?;
            // A reconcile that applied both objects, and all steps of it.
            let roots = found("reconcile", &[("instance", &of("least")), ("rgd", "guarded")])?;
            let complete = roots.iter().any(|root| {
                let is_step = |name: &str, wanted: &[(&str, &str)]| {
                    let mut steps = spans.iter().filter(|span| has(span, name, wanted));
                    steps.any(|span| span.trace == root.trace && span.parent == root.id && !span.failed)
                };
                root.parent.is_empty()
                    && ["observe", "plan", "report"].iter().all(|step| is_step(step, &[]))
                    && is_step("apply", &[("cluster", &cluster), ("node", "remote"), ("object", "ConfigMap")])
                    && is_step("apply", &[("cluster", "local"), ("node", "local"), ("object", "ConfigMap")])
            });
            if !complete {
                return Err(format!("no complete reconcile in {spans:#?}"));
            }
            let refused = found("apply", &[("reason", "Forbidden"), ("node", "remote")])?;
            assert!(refused.iter().all(|span| span.failed), "{refused:#?}");
            found("delete", &[("node", "remote"), ("object", "ConfigMap")]).map(drop)
        };
        std::future::ready(check())
    })
    .await;
    let requests = world.collector.requests();
    let first = &requests[0];
    assert!(first.head.starts_with("POST /v1/traces"), "{}", first.head);
    assert!(first.head.contains("Bearer zqcollectorzq"), "the collector gets its header: {}", first.head);
    for (name, value) in [("service.name", "kross"), ("service.version", env!("CARGO_PKG_VERSION"))] {
        let given = (name.to_owned(), value.to_owned());
        assert!(first.spans[0].resource.contains(&given), "{:?}", first.spans[0].resource);
    }
}

/// Searches every readable object, page, trace and log for the credentials.
async fn no_credential_leaks(world: &mut World, canaries: &BTreeMap<&'static str, String>) {
    world.until_audited(check_audit_log).await;
    world.process.until_logged("the kubeconfig uses a password").await;
    let mut places = world.objects().await;
    places.extend(world.process.pages());
    places.insert("audit log".to_owned(), world.audit_log());
    let bodies = world.collector.requests().into_iter().map(|request| request.body);
    let bodies: Vec<String> = bodies.map(|body| String::from_utf8_lossy(&body).into_owned()).collect();
    assert!(bodies.iter().any(|body| body.contains("least-kubeconfig")), "spans name clusters");
    places.insert("traces".to_owned(), bodies.concat());
    // Last, because everything before may have been logged.
    places.insert("log".to_owned(), world.process.log());
    assert!(
        places.iter().any(|(place, page)| place.ends_with("/loglevel") && page == "trace\n"),
        "the log level is trace"
    );
    let shown =
        |(place, page): (&String, &String)| place.ends_with("/clusters") && page.contains("by-command");
    assert!(places.iter().any(shown), "the page lists the clusters");
    let counted = |page: &String| page.contains("kross_audit_records_total{result=\"written\"}");
    assert!(places.values().any(counted), "audit records are counted");
    let exported = |page: &String| {
        let count =
            page.lines().find_map(|line| line.strip_prefix("kross_trace_spans_total{result=\"exported\"} "));
        count.is_some_and(|count| count != "0")
    };
    assert!(places.values().any(exported), "spans are counted");
    assert!(places["audit log"].lines().count() > 10, "{}", places["audit log"]);
    for (name, canary) in canaries {
        for shape in shapes(canary) {
            for (place, text) in &places {
                if let Some(at) = text.find(&shape) {
                    let (start, end) = (at.saturating_sub(300), (at + 300).min(text.len()));
                    panic!(
                        "{name} is in {place}: …{}…",
                        String::from_utf8_lossy(&text.as_bytes()[start..end])
                    );
                }
            }
        }
    }
}

/// The text itself, and its base64 encodings at every alignment.
fn shapes(canary: &str) -> Vec<String> {
    let mut shapes = vec![canary.to_owned()];
    for offset in 0..3 {
        let padded = [&vec![b' '; offset][..], canary.as_bytes()].concat();
        let encoded = STANDARD.encode(padded);
        // The first and the last group depend on the bytes around the text.
        let inner = encoded.get(4..encoded.len().saturating_sub(4)).unwrap_or_default();
        if inner.len() >= 8 {
            shapes.push(inner.to_owned());
        }
    }
    shapes
}

/// Fails with the first kind of record that is missing.
fn check_audit_log(records: &[Json]) -> Result<(), String> {
    let is = |record: &Json, wanted: &Json| {
        let mut wanted = wanted.as_object().unwrap().iter();
        wanted.all(|(key, value)| record.pointer(&format!("/{}", key.replace('.', "/"))) == Some(value))
    };
    for wanted in [
        json!({"verb": "connect", "outcome": "success", "authMethod": "exec"}),
        json!({"verb": "connect", "outcome": "failure", "reason": "Unauthorized", "authMethod": "basic"}),
        json!({"verb": "connect", "outcome": "failure", "reason": "Credentials"}),
        json!({"verb": "patch", "outcome": "success", "object.kind": "ConfigMap", "instance.name": "least"}),
        json!({"verb": "patch", "outcome": "failure", "reason": "Forbidden", "instance.name": "without-create"}),
        json!({"verb": "watch", "outcome": "success", "object.kind": "ConfigMap"}),
    ] {
        if !records.iter().any(|record| is(record, &wanted)) {
            return Err(format!("no record with {wanted} in {records:#?}"));
        }
    }
    Ok(())
}
