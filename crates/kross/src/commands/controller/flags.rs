//! Every flag of `kross controller`: kro's, under the same names, and those of kross. One table for parsing and `--help`.

use std::fmt::Write;

use super::duration::GoDuration;
use super::syntax::{Flag, FlagDefault};

const fn flag(name: &'static str, default: FlagDefault, help: &'static str) -> Flag {
    Flag { name, default, help }
}

const fn seconds(seconds: i64) -> FlagDefault {
    FlagDefault::Duration(GoDuration::from_secs(seconds))
}

const fn milliseconds(milliseconds: i64) -> FlagDefault {
    FlagDefault::Duration(GoDuration::from_millis(milliseconds))
}

/// Every flag, in alphabetical order.
pub(super) const FLAGS: [Flag; 93] = [
    flag(
        "admin-bind-address",
        FlagDefault::Text("127.0.0.1:8077"),
        "Address of the admin pages `/loglevel` and `/clusters`; `0` disables them",
    ),
    flag(
        "admin-secure",
        FlagDefault::Bool(false),
        "Serve the admin pages over TLS, to users who may `get` or `put` their path; required on addresses that other hosts reach",
    ),
    flag(
        "allow-crd-deletion",
        FlagDefault::Bool(false),
        "Delete the CustomResourceDefinition of a definition when the definition is deleted",
    ),
    flag(
        "audit-log",
        FlagDefault::Bool(true),
        "Write audit records of requests to remote clusters to the log, under `kross::audit`",
    ),
    flag(
        "audit-log-maxbackup",
        FlagDefault::Integer(10),
        "Number of rotated audit files to keep; 0 keeps all",
    ),
    flag(
        "audit-log-maxsize",
        FlagDefault::Integer(100),
        "Size in megabytes at which the audit file is rotated; 0 never rotates it",
    ),
    flag("audit-log-path", FlagDefault::Text(""), "Also write audit records to this file"),
    flag(
        "client-burst",
        FlagDefault::Integer(150),
        "Accepted for compatibility with kro but ignored: requests are limited per cluster instead",
    ),
    flag(
        "client-qps",
        FlagDefault::Float(100.0),
        "Accepted for compatibility with kro but ignored: requests are limited per cluster instead",
    ),
    flag(
        "cluster-breaker-threshold",
        FlagDefault::Integer(3),
        "Consecutive failed requests (timeouts do not count) that open the circuit breaker of a remote cluster; while it is open, only probes are sent",
    ),
    flag(
        "cluster-connect-timeout",
        seconds(3),
        "Timeout for a TCP connection to a remote cluster; also limits the TLS handshake",
    ),
    flag(
        "cluster-idle-timeout",
        seconds(60),
        "How long to keep the connection to a remote cluster that is no longer referenced",
    ),
    flag("cluster-list-timeout", seconds(30), "Timeout for one page of a list from a remote cluster"),
    flag(
        "cluster-max-cache-size",
        FlagDefault::Integer(256),
        "Largest size in MiB of the cached objects of a remote cluster, as they were received; the caches of a cluster that exceeds it are not used; 0 for no limit",
    ),
    flag(
        "cluster-max-requests",
        FlagDefault::Integer(128),
        "Maximum concurrent requests per remote cluster; excess requests queue",
    ),
    flag(
        "cluster-max-response-size",
        FlagDefault::Integer(32),
        "Largest response of a remote cluster in MiB, after decompression; larger pages of lists are requested in smaller ones",
    ),
    flag("cluster-probe-interval", seconds(8), "Time between two probes of a remote cluster"),
    flag(
        "cluster-probe-timeout",
        seconds(5),
        "Timeout for a probe; a remote cluster that exceeds it is unreachable",
    ),
    flag(
        "cluster-read-timeout",
        seconds(10),
        "Maximum time without data from a remote cluster while a request is in flight",
    ),
    flag("cluster-request-timeout", seconds(15), "Timeout for a request to a remote cluster"),
    flag("context", FlagDefault::Text(""), "Context of the kubeconfig (default: the current context)"),
    flag(
        "dashboard-bind-address",
        FlagDefault::Text("0"),
        "Address of the dashboard, which is served over TLS with the rights of the user who reads it, such as `:8443`; `0` disables it",
    ),
    flag(
        "dashboard-cert-key",
        FlagDefault::Text("tls.key"),
        "Name of the file with the private key in `--dashboard-cert-path`",
    ),
    flag(
        "dashboard-cert-name",
        FlagDefault::Text("tls.crt"),
        "Name of the file with the certificate in `--dashboard-cert-path`",
    ),
    flag(
        "dashboard-cert-path",
        FlagDefault::Text(""),
        "Directory with the certificate of the dashboard, which is reloaded when it changes (default: a self-signed certificate)",
    ),
    flag(
        "dashboard-session-duration",
        seconds(8 * 3_600),
        "How long a session of the dashboard lasts; it ends earlier if its token expires",
    ),
    flag(
        "dashboard-session-secret",
        FlagDefault::Text("kross-dashboard"),
        "Secret with the key of sessions, which all replicas share, as `NAME` in the pod's namespace or `NAMESPACE/NAME`",
    ),
    flag(
        "default-service-account",
        FlagDefault::Text(""),
        "ServiceAccount in the namespace of the instance that acts for it in the local cluster if its definition has no `access` (default: the controller itself)",
    ),
    flag(
        "dynamic-controller-concurrent-reconciles",
        FlagDefault::Integer(0),
        "Maximum concurrent reconciles of instances; 0 for the built-in limit",
    ),
    flag(
        "dynamic-controller-default-queue-max-retries",
        FlagDefault::Integer(20),
        "Accepted for compatibility with kro but ignored: failed reconciles are retried until they succeed",
    ),
    flag(
        "dynamic-controller-default-resync-period",
        FlagDefault::Integer(36000),
        "Period in seconds in which every definition and instance is reconciled, and every watched kind listed, once without an event, at times spread over it; 0 disables it",
    ),
    flag(
        "dynamic-controller-rate-limiter-burst-limit",
        FlagDefault::Integer(100),
        "Accepted for compatibility with kro but ignored: the work queue is fair between definitions instead",
    ),
    flag(
        "dynamic-controller-rate-limiter-max-delay",
        seconds(60),
        "Maximum backoff of an instance that fails; at most one minute",
    ),
    flag(
        "dynamic-controller-rate-limiter-min-delay",
        milliseconds(200),
        "Initial backoff of an instance that fails",
    ),
    flag(
        "dynamic-controller-rate-limiter-rate-limit",
        FlagDefault::Integer(10),
        "Accepted for compatibility with kro but ignored: the work queue is fair between definitions instead",
    ),
    flag(
        "enable-controller-warmup",
        FlagDefault::Bool(true),
        "Accepted for compatibility with kro but ignored: watches always start before leadership is acquired",
    ),
    flag("feature-gates", FlagDefault::Text(""), "Feature gates, such as `CELOmitFunction=false`"),
    flag("graceful-shutdown-timeout", seconds(60), "Timeout for running reconciles after SIGTERM or SIGINT"),
    flag(
        "graph-revision-concurrent-reconciles",
        FlagDefault::Integer(0),
        "Accepted for compatibility with kro but ignored: revisions are compiled with their definition",
    ),
    flag(
        "health-probe-bind-address",
        FlagDefault::Text(":8079"),
        "Address of `/healthz`, `/livez` and `/readyz`; `0` disables them",
    ),
    flag(
        "instance-max-clusters",
        FlagDefault::Integer(2_500),
        "Maximum number of remote clusters that an instance uses; 0 for no limit",
    ),
    flag(
        "instance-max-object-size",
        FlagDefault::Integer(3),
        "Maximum size in MiB of an object of an instance, as JSON; 0 for no limit",
    ),
    flag(
        "instance-max-status-size",
        FlagDefault::Integer(1024),
        "Maximum size in KiB of the fields that a definition adds to the status of an instance; 0 for no limit",
    ),
    flag(
        "instance-max-total-size",
        FlagDefault::Integer(64),
        "Maximum size in MiB of all objects of an instance together; 0 for no limit",
    ),
    flag(
        "instance-plan-timeout",
        seconds(30),
        "How long evaluating the expressions of an instance may take before it is given up",
    ),
    flag(
        "instance-requeue-interval",
        seconds(3),
        "Interval at which an instance that waits for its resources is reconciled without an event; 0 disables it",
    ),
    flag("kro-version", FlagDefault::Text("devel"), "kro version in labels and in the user agent"),
    flag(
        "kubeconfig",
        FlagDefault::Text(""),
        "Kubeconfig file (default: `$KUBECONFIG`, `~/.kube/config`, in-cluster)",
    ),
    flag(
        "kubeconfig-deny-cidr",
        FlagDefault::Text(""),
        "Address range that kubeconfigs of remote clusters may not use, such as `127.0.0.0/8`, in addition to link-local addresses; repeatable",
    ),
    flag(
        "kubeconfig-exec-allow",
        FlagDefault::Text(""),
        "Credential plugin that kubeconfigs of remote clusters may run: its absolute path, for Secrets in `kro-system`; or `PATH,args=ARGUMENTS,server=HOST,namespace=NAMESPACE`, with `*` in arguments for any text and `.example.com` for all hosts in a domain; `env=NAME` for a variable that the kubeconfig may set; repeatable",
    ),
    flag(
        "kubeconfig-exec-env",
        FlagDefault::Text(""),
        "Environment variable that credential plugins inherit and that kubeconfigs in `kro-system` may set; repeatable",
    ),
    flag("kubeconfig-exec-timeout", seconds(30), "Timeout for a credential plugin"),
    flag(
        "kubeconfig-namespace",
        FlagDefault::Text(""),
        "Namespace with Secrets of registered clusters whose tokens to renew, besides `kro-system` and the controller's, where the controller may not list Secrets in all namespaces; repeatable",
    ),
    flag(
        "kubeconfig-system-roots",
        FlagDefault::Bool(false),
        "Verify remote clusters whose kubeconfig has no `certificate-authority-data` with the system's root certificates",
    ),
    flag(
        "leader-elect",
        FlagDefault::Bool(false),
        "Reconcile only while holding the Lease `controller.kro.run`",
    ),
    flag(
        "leader-election-lease-duration",
        seconds(15),
        "Time without renewal after which another replica may take over the Lease",
    ),
    flag(
        "leader-election-namespace",
        FlagDefault::Text(""),
        "Namespace of the Lease (default: the pod's namespace)",
    ),
    flag(
        "leader-election-renew-deadline",
        seconds(10),
        "How long the leader tries to renew the Lease before it stops",
    ),
    flag(
        "leader-election-retry-period",
        seconds(2),
        "Interval between attempts to acquire or renew the Lease",
    ),
    flag("metrics-bind-address", FlagDefault::Text(":8078"), "Address of `/metrics`; `0` disables it"),
    flag(
        "metrics-cert-key",
        FlagDefault::Text("tls.key"),
        "Name of the file with the private key in `--metrics-cert-path`",
    ),
    flag(
        "metrics-cert-name",
        FlagDefault::Text("tls.crt"),
        "Name of the file with the certificate in `--metrics-cert-path`",
    ),
    flag(
        "metrics-cert-path",
        FlagDefault::Text(""),
        "Directory with the certificate of secure metrics and admin pages, which is reloaded when it changes (default: a self-signed certificate)",
    ),
    flag(
        "metrics-secure",
        FlagDefault::Bool(false),
        "Serve the metrics over TLS, to users who may `get` the path `/metrics`",
    ),
    flag("min-poll-interval", seconds(10), "Minimum `pollConfig.interval` in a definition"),
    flag(
        "namespace-max-clusters",
        FlagDefault::Integer(5_000),
        "Maximum number of remote clusters that the instances of a namespace use together; 0 for no limit",
    ),
    flag(
        "no-cross-namespace",
        FlagDefault::Bool(false),
        "Refuse objects and external references in the local cluster outside the namespace of the instance",
    ),
    flag(
        "otlp-endpoint",
        FlagDefault::Text(""),
        "Send traces to this OpenTelemetry collector, as OTLP over HTTP, such as `http://collector.observability:4318` (default: `$OTEL_EXPORTER_OTLP_ENDPOINT`; none)",
    ),
    flag(
        "otlp-sampling-ratio",
        FlagDefault::Float(1.0),
        "Share of reconciles that are traced, from 0 to 1 (default: `$OTEL_TRACES_SAMPLER`; all)",
    ),
    flag("pprof-bind-address", FlagDefault::Text(":6060"), "Accepted for compatibility with kro but ignored"),
    flag(
        "require-allowed-namespaces",
        FlagDefault::Bool(false),
        "Use only kubeconfig Secrets that have the annotation `kro.run/allowed-namespaces`",
    ),
    flag(
        "resource-graph-definition-concurrent-reconciles",
        FlagDefault::Integer(0),
        "Maximum concurrent reconciles of definitions; 0 for the built-in limit",
    ),
    flag(
        "rgd-max-collection-dimension-size",
        FlagDefault::Integer(10),
        "Maximum number of `forEach` entries of a resource",
    ),
    flag("rgd-max-collection-size", FlagDefault::Integer(1000), "Maximum number of items in a collection"),
    flag(
        "rgd-max-graph-revisions",
        FlagDefault::Integer(5),
        "Number of revisions to keep per definition; 0 keeps all",
    ),
    flag(
        "rgd-progress-requeue-delay",
        seconds(3),
        "Interval at which a definition that waits for the cluster is reconciled without an event",
    ),
    flag(
        "token-renewal-interval",
        seconds(300),
        "Time between two looks for tokens of registered clusters that are to be renewed",
    ),
    flag("version", FlagDefault::Bool(false), "Print the version and exit"),
    flag(
        "watch-budget",
        FlagDefault::Integer(20_000),
        "Maximum concurrent watches on remote clusters; the rest is polled every 30s; 0 polls everything",
    ),
    flag(
        "webhook-bind-address",
        FlagDefault::Text("0"),
        "Address of the admission webhook, which validates definitions over TLS, such as `:9443`; `0` disables it",
    ),
    flag(
        "webhook-cert-key",
        FlagDefault::Text("tls.key"),
        "Name of the file with the private key in `--webhook-cert-path`",
    ),
    flag(
        "webhook-cert-name",
        FlagDefault::Text("tls.crt"),
        "Name of the file with the certificate in `--webhook-cert-path`",
    ),
    flag(
        "webhook-cert-path",
        FlagDefault::Text(""),
        "Directory with the certificate of the webhook, which is reloaded when it changes (default: one that is issued, stored in `--webhook-secret` and replaced in time)",
    ),
    flag(
        "webhook-cert-validity",
        seconds(90 * 24 * 3_600),
        "How long a certificate of the webhook is valid; it is replaced after two thirds of that",
    ),
    flag(
        "webhook-configuration",
        FlagDefault::Text("kross"),
        "ValidatingWebhookConfiguration whose `caBundle` is kept up to date",
    ),
    flag(
        "webhook-secret",
        FlagDefault::Text("kross-webhook"),
        "Secret with the certificate of the webhook, which all replicas share, in the namespace of the Service",
    ),
    flag(
        "webhook-service",
        FlagDefault::Text("kross-webhook"),
        "Service of the webhook, as `NAME` in the pod's namespace or `NAMESPACE/NAME`",
    ),
    flag("zap-color", FlagDefault::Bool(false), "Colour text logs"),
    flag(
        "zap-devel",
        FlagDefault::Bool(true),
        "Log text (true) or JSON (false), unless `--zap-encoder` is set",
    ),
    flag("zap-encoder", FlagDefault::Text(""), "Log encoding: `console` for text, `json` for JSON"),
    flag(
        "zap-log-level",
        FlagDefault::Text("info"),
        "Log level: `error`, `warn`, `info`, `debug`, `trace`, or a number: 1 for debug, 2 and more for trace",
    ),
    flag("zap-stacktrace-level", FlagDefault::Text(""), "Accepted for compatibility with kro but ignored"),
    flag(
        "zap-time-encoding",
        FlagDefault::Text(""),
        "Accepted for compatibility with kro but ignored: timestamps are RFC 3339",
    ),
];

/// What `--help` prints.
pub(super) fn help() -> String {
    let mut text = String::from(
        "Run the controller\n\nUsage: kross controller [flags]\n\nFlags, as `--flag=value` or `--flag value`, with one dash or two:\n",
    );
    for Flag { name, default, help } in FLAGS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  --{name}{}\n        {help}{}", default.type_name(), default_note(default));
    }
    text
}

/// The reference page of all flags, `docs/flags.md`.
pub(crate) fn reference_markdown() -> String {
    let mut page = String::from(
        "# Flags of the controller\n\n\
         `kross controller` accepts kro's flags under the same names, and those of kross, as `--flag=value` or `--flag value`.\n\
         With the chart, set them with `config.*` or `extraArgs`. [Operating](operating.md#tuning) says which one helps against which\n\
         symptom, and [compatibility](compatibility.md) which defaults differ from kro's.\n\n\
         | flag | default | |\n|---|---|---|\n",
    );
    for Flag { name, default, help } in FLAGS {
        let value = match default {
            FlagDefault::Text("") => String::new(),
            default => format!("`{default}`"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| `--{name}` | {value} | {} |", help.replace('|', "\\|"));
    }
    page
}

fn default_note(default: FlagDefault) -> String {
    match default {
        FlagDefault::Text("") | FlagDefault::Bool(false) => String::new(),
        default => format!(" (default {default})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every flag of kro's controller, with its default in kro.
    const KRO: [(&str, &str); 33] = [
        ("metrics-bind-address", ":8078"),
        ("health-probe-bind-address", ":8079"),
        ("pprof-bind-address", ":6060"),
        ("leader-elect", "false"),
        ("leader-election-namespace", ""),
        ("leader-election-lease-duration", "15s"),
        ("leader-election-renew-deadline", "10s"),
        ("leader-election-retry-period", "2s"),
        ("enable-controller-warmup", "false"),
        ("allow-crd-deletion", "false"),
        ("graceful-shutdown-timeout", "1m0s"),
        ("resource-graph-definition-concurrent-reconciles", "1"),
        ("graph-revision-concurrent-reconciles", "1"),
        ("dynamic-controller-concurrent-reconciles", "1"),
        ("dynamic-controller-rate-limiter-min-delay", "200ms"),
        ("dynamic-controller-rate-limiter-max-delay", "16m40s"),
        ("dynamic-controller-rate-limiter-rate-limit", "10"),
        ("dynamic-controller-rate-limiter-burst-limit", "100"),
        ("instance-requeue-interval", "3s"),
        ("dynamic-controller-default-resync-period", "36000"),
        ("dynamic-controller-default-queue-max-retries", "20"),
        ("client-qps", "100"),
        ("client-burst", "150"),
        ("rgd-max-collection-size", "1000"),
        ("rgd-max-collection-dimension-size", "10"),
        ("rgd-max-graph-revisions", "5"),
        ("rgd-progress-requeue-delay", "3s"),
        ("feature-gates", ""),
        ("kubeconfig", ""),
        ("zap-devel", "true"),
        ("zap-log-level", "info"),
        ("zap-encoder", ""),
        ("zap-stacktrace-level", ""),
    ];
    /// Defaults that differ: kro's would throttle work, or delay the first watches.
    const DIFFERENT: [(&str, &str); 5] = [
        ("enable-controller-warmup", "true"),
        ("resource-graph-definition-concurrent-reconciles", "0"),
        ("graph-revision-concurrent-reconciles", "0"),
        ("dynamic-controller-concurrent-reconciles", "0"),
        ("dynamic-controller-rate-limiter-max-delay", "1m0s"),
    ];

    #[test]
    fn every_flag_of_kro_is_accepted_and_listed() {
        let help = help();
        for (name, _) in KRO {
            assert!(FLAGS.iter().any(|flag| flag.name == name), "{name}");
            assert!(help.contains(&format!("  --{name}")), "{name}");
        }
    }

    #[test]
    fn every_default_is_that_of_kro_unless_it_would_throttle() {
        for (name, kro) in KRO {
            let default = FLAGS.iter().find(|flag| flag.name == name).unwrap().default.to_string();
            let different =
                DIFFERENT.iter().find(|(different, _)| *different == name).map(|(_, value)| *value);
            assert_eq!(default, different.unwrap_or(kro), "{name}");
            assert_ne!(different, Some(kro), "{name}");
        }
    }

    #[test]
    fn flag_names_are_unique() {
        let mut names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FLAGS.len());
    }
}
