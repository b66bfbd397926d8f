//! The chart renders what its snapshots show, passes only flags that exist, alerts on metrics that exist, and a real API server
//! accepts everything that it renders.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "chart/metrics.rs"]
mod metrics;
#[path = "chart/render.rs"]
mod render;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use kross_local::{Binary, ControlPlane};
use kross_testing::{objects, wait};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value as Json, json};

use metrics::Reference;
use render::{NAMESPACE, chart, documents, helm, key, render, repository, values_files};

#[test]
fn helm_accepts_the_chart_with_every_values_file() {
    for (name, values) in values_files() {
        let mut arguments = vec!["lint", "--strict", "charts/kross", "--namespace", NAMESPACE];
        if let Some(values) = &values {
            arguments.extend(["--values", values.to_str().unwrap()]);
        }
        let output = helm(&arguments);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Every object of the default values, and what each values file adds, changes and removes.
#[test]
fn renders_what_the_snapshots_show() {
    let shown = |manifest: &str| -> BTreeMap<String, String> {
        documents(manifest)
            .into_iter()
            .map(|(text, object)| (key(&object), shortened(&text, &object)))
            .collect()
    };
    let default = shown(&render(None, &[]));
    insta::assert_snapshot!("default", joined(default.values()));
    for (name, values) in values_files().into_iter().filter(|(_, values)| values.is_some()) {
        let changed = shown(&render(values.as_deref(), &[]));
        let mut parts: Vec<String> = default
            .keys()
            .filter(|key| !changed.contains_key(*key))
            .map(|key| format!("# not rendered: {key}"))
            .collect();
        parts.extend(
            changed
                .iter()
                .filter(|(key, text)| default.get(*key) != Some(text))
                .map(|(_, text)| text.clone()),
        );
        insta::assert_snapshot!(name, joined(parts.iter()));
    }
}

/// The document without the version, and only the metadata of a CRD and the beginning of a dashboard.
fn shortened(text: &str, object: &Json) -> String {
    let lines = text.lines().filter(|line| {
        !line.trim_start().starts_with("helm.sh/chart: ")
            && !line.trim_start().starts_with("app.kubernetes.io/version: ")
    });
    match object["kind"].as_str() {
        Some("CustomResourceDefinition") => {
            lines.take_while(|line| *line != "spec:").collect::<Vec<_>>().join("\n")
        }
        Some("ConfigMap") => lines.take(30).collect::<Vec<_>>().join("\n"),
        _ => lines
            .collect::<Vec<_>>()
            .join("\n")
            .replace(&format!(":{}\"", env!("CARGO_PKG_VERSION")), ":VERSION\""),
    }
}

fn joined<'t>(texts: impl Iterator<Item = &'t String>) -> String {
    texts.cloned().collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn the_notes_name_the_next_three_commands() {
    for (mode, more) in
        [("aggregation", ""), ("unrestricted", ""), ("namespaced", ",rbac.namespaces={shop,bank}")]
    {
        let values = format!("rbac.mode={mode}{more}");
        let printed = render::helm_prints(&[
            "install",
            "kross",
            "charts/kross",
            "--namespace",
            NAMESPACE,
            "--dry-run=client",
            "--set",
            &values,
        ]);
        let (_, notes) = printed.split_once("NOTES:\n").unwrap();
        insta::assert_snapshot!(
            format!("notes_{mode}"),
            notes.trim().replace(env!("CARGO_PKG_VERSION"), "VERSION")
        );
    }
}

#[test]
fn passes_only_flags_that_exist() {
    let help = kross(&["controller", "--help"]);
    for (name, values) in values_files() {
        let arguments = render::arguments(&documents(&render(values.as_deref(), &[])));
        assert_eq!(arguments[0], "controller", "{name}");
        for argument in &arguments[1..] {
            let flag = argument.split('=').next().unwrap();
            assert!(
                help.contains(&format!("  {flag}\n")) || help.contains(&format!("  {flag} ")),
                "{name}: {argument}"
            );
        }
        // The values parse as well.
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--version"]).collect();
        kross(&arguments);
    }
}

#[test]
fn denies_loopback_to_kubeconfigs_by_default() {
    let arguments = render::arguments(&documents(&render(None, &[])));
    assert!(arguments.contains(&"--kubeconfig-deny-cidr=127.0.0.0/8".to_owned()), "{arguments:?}");
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (values, word) in [
        ("replcas=3", "replcas"),
        ("tracing.endpoint=collector:4318", "endpoint"),
        ("tracing.endpoint=http://user:password@collector:4318", "endpoint"),
        ("tracing.samplingRatio=2", "samplingRatio"),
        ("config.logLevel=loud", "logLevel"),
        ("rbac.mode=admin", "mode"),
        ("rbac.mode=namespaced", "rbac.namespaces"),
        ("image.digest=latest", "digest"),
        ("extraArgs={leader-elect}", "extraArgs"),
        ("leaderElection.enabled=false", "leaderElection.enabled"),
        ("metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true", "scraped twice"),
        ("serviceAccount.create=false", "serviceAccount.name"),
    ] {
        let output = helm(&["template", "kross", "charts/kross", "--set", values]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(word), "{values}: {errors}");
    }
}

#[test]
fn the_versions_of_the_chart_are_that_of_the_workspace() {
    let text = std::fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    let chart: Json = serde_saphyr::from_str(&text).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

#[test]
fn alerts_and_dashboard_use_metrics_that_exist() {
    let page = std::fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let reference = Reference::parse(&page);
    let text = std::fs::read_to_string(chart().join("files/alerts.yaml")).unwrap();
    let alerts: Json = serde_saphyr::from_str(&text).unwrap();
    let text = std::fs::read_to_string(chart().join("files/dashboards/kross.json")).unwrap();
    let dashboard: Json = serde_json::from_str(&text).unwrap();
    let mut found = 0;
    for expression in metrics::expressions(&alerts).into_iter().chain(metrics::expressions(&dashboard)) {
        found += reference.check(&expression).unwrap_or_else(|error| panic!("{error} in `{expression}`"));
    }
    assert!(found > 40, "{found} metrics");
}

#[test]
fn an_expression_with_an_unknown_metric_label_or_value_is_found() {
    let reference = Reference::parse(
        "| `a_total` | counter | `result`: `\"x\"`, `\"y\"`; `name`: … | |\n| `b_seconds` | histogram |  | |\n",
    );
    for (expression, error) in [
        ("rate(a_total{result=~\"x|y\", name=\"anything\", namespace=\"n\"}[5m]) > 0", None),
        ("sum by (le) (rate(b_seconds_bucket[$__rate_interval]))", None),
        ("rate(c_total[5m])", Some("no metric `c_total`")),
        ("a_total_bucket", Some("no metric `a_total_bucket`")),
        ("a_total{reason=\"x\"}", Some("`a_total` has no label `reason`")),
        ("a_total{result=\"z\"}", Some("no value `z` of `result`")),
        ("sum by (reason) (a_total)", Some("no label `reason`")),
    ] {
        assert_eq!(reference.check(expression).err().as_deref(), error, "{expression}");
    }
}

#[test]
fn every_alert_has_a_section_in_the_docs() {
    let page = std::fs::read_to_string(repository().join("docs/alerts.md")).unwrap();
    let text = std::fs::read_to_string(chart().join("files/alerts.yaml")).unwrap();
    let alerts: Json = serde_saphyr::from_str(&text).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(page.contains(&format!("\n## {name}\n")), "{name}");
        let url = rule["annotations"]["runbook_url"].as_str().unwrap();
        assert!(url.ends_with(&format!("/docs/alerts.md#{}", name.to_lowercase())), "{url}");
    }
    assert_eq!(page.matches("\n## ").count(), rules.len(), "a section without an alert");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_accepts_every_manifest() {
    let plane = ControlPlane::named("chart").start().await.unwrap();
    let client = plane.client().await.unwrap();
    for namespace in [NAMESPACE, "shop", "bank"] {
        let namespace = objects::namespace(namespace);
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    }
    let kubectl = |arguments: &[&str], input: &str| {
        let mut child = Command::new(plane.assets().path(Binary::Kubectl).unwrap())
            .arg("--kubeconfig")
            .arg(plane.admin_path())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(errors) } else { Err(errors) }
    };
    for (group, kind) in [
        ("monitoring.coreos.com", "ServiceMonitor"),
        ("monitoring.coreos.com", "PodMonitor"),
        ("monitoring.coreos.com", "PrometheusRule"),
        ("cert-manager.io", "Issuer"),
        ("cert-manager.io", "Certificate"),
    ] {
        kubectl(&["apply", "-f", "-"], &stand_in(group, kind).to_string()).unwrap();
    }
    let dry_run = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
    for others in ["monitoring", "webhook-cert-manager"] {
        let manifest = render(values_files()[others].as_deref(), &[]);
        wait::until("the kinds of others to be served", || async { kubectl(&dry_run, &manifest) }).await;
    }
    for (name, values) in values_files() {
        let manifest = render(values.as_deref(), &[]);
        let warnings = kubectl(&dry_run, &manifest).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        assert!(!warnings.contains("Warning"), "{name}: {warnings}");
    }
    // The Pods of every Deployment are allowed where the strictest Pod Security Standard is enforced.
    let restricted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    kubectl(&["apply", "-f", "-"], &restricted.to_string()).unwrap();
    for (name, values) in values_files() {
        let rendered = documents(&render(values.as_deref(), &[]));
        let (_, deployment) = rendered.iter().find(|(_, object)| object["kind"] == "Deployment").unwrap();
        let mut pod = deployment["spec"]["template"].clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!("kross");
        pod["metadata"]["namespace"] = json!("strict");
        kubectl(&["create", "--dry-run=server", "-f", "-"], &pod.to_string())
            .unwrap_or_else(|errors| panic!("{name}: {errors}"));
    }
    let manifest = std::fs::read_to_string(repository().join("deploy/kross.yaml")).unwrap();
    // Twice: an update of the CRDs and everything else is as good as the first time.
    for _ in 0..2 {
        kubectl(&["apply", "--server-side", "--validate=strict", "-f", "-"], &manifest).unwrap();
    }
    plane.stop().await;
}

/// A CRD that accepts any object of a kind of the Prometheus operator or of cert-manager.
fn stand_in(group: &str, kind: &str) -> Json {
    let plural = kross_api::plural(kind);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

/// The output of a command of kross that succeeds.
fn kross(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kross")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
