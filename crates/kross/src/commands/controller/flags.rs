//! Every flag of `kross controller`: kro's by the same names, and ours. One table serves parsing and `--help`.

use std::fmt::Write;

use super::duration::GoDuration;
use super::syntax::{Flag, Takes};

const fn flag(name: &'static str, takes: Takes, help: &'static str) -> Flag {
    Flag { name, takes, help }
}

const fn seconds(seconds: i64) -> Takes {
    Takes::Duration(GoDuration::from_secs(seconds))
}

const fn milliseconds(milliseconds: i64) -> Takes {
    Takes::Duration(GoDuration::from_millis(milliseconds))
}

/// Every flag, in the order of the alphabet.
pub(super) const FLAGS: [Flag; 60] = [
    flag(
        "admin-bind-address",
        Takes::Text("127.0.0.1:8077"),
        "Where `/loglevel` is read and changed and `/clusters` is read; `0` for nowhere",
    ),
    flag(
        "allow-crd-deletion",
        Takes::Bool(false),
        "Delete the CustomResourceDefinition of a definition that is deleted",
    ),
    flag(
        "audit-log",
        Takes::Bool(true),
        "Record what is done in other clusters in the log, under `kross::audit`",
    ),
    flag("audit-log-maxbackup", Takes::Integer(10), "How many full audit files are kept; 0 for all"),
    flag(
        "audit-log-maxsize",
        Takes::Integer(100),
        "How many megabytes an audit file may have before a new one is begun; 0 for any size",
    ),
    flag("audit-log-path", Takes::Text(""), "Record what is done in other clusters in this file as well"),
    flag("client-burst", Takes::Integer(150), "Accepted for kro; requests are bounded per cluster instead"),
    flag("client-qps", Takes::Float(100.0), "Accepted for kro; requests are bounded per cluster instead"),
    flag(
        "cluster-breaker-threshold",
        Takes::Integer(3),
        "Requests to another cluster that fail in a row before nothing is sent until it answers again",
    ),
    flag(
        "cluster-connect-timeout",
        seconds(3),
        "How long opening a connection to another cluster may take, and as long again its TLS",
    ),
    flag(
        "cluster-idle-timeout",
        seconds(60),
        "How long another cluster stays connected that nothing refers to any more",
    ),
    flag("cluster-list-timeout", seconds(30), "How long a page of a list from another cluster may take"),
    flag(
        "cluster-max-requests",
        Takes::Integer(128),
        "Requests to one other cluster at once; the others wait in line, and nobody else does",
    ),
    flag(
        "cluster-probe-interval",
        seconds(8),
        "How long another cluster may be silent before it is asked for a sign of life",
    ),
    flag(
        "cluster-probe-timeout",
        seconds(5),
        "How long that sign may take before the cluster counts as lost",
    ),
    flag(
        "cluster-read-timeout",
        seconds(10),
        "How long another cluster may be silent while a request to it is under way",
    ),
    flag("cluster-request-timeout", seconds(15), "How long a request to another cluster may take"),
    flag("context", Takes::Text(""), "The context of the kubeconfig; left out: the current one"),
    flag(
        "dynamic-controller-concurrent-reconciles",
        Takes::Integer(0),
        "Instances to reconcile at once; 0 for as many as make sense",
    ),
    flag(
        "dynamic-controller-default-queue-max-retries",
        Takes::Integer(20),
        "Accepted for kro; nothing is ever given up",
    ),
    flag(
        "dynamic-controller-default-resync-period",
        Takes::Integer(36000),
        "Accepted for kro; changes come by watch, and what is missed is listed again",
    ),
    flag(
        "dynamic-controller-rate-limiter-burst-limit",
        Takes::Integer(100),
        "Accepted for kro; instances take turns by definition",
    ),
    flag(
        "dynamic-controller-rate-limiter-max-delay",
        seconds(60),
        "The longest wait between two tries of an instance that fails; a minute at most",
    ),
    flag(
        "dynamic-controller-rate-limiter-min-delay",
        milliseconds(200),
        "The wait after the first failure of an instance",
    ),
    flag(
        "dynamic-controller-rate-limiter-rate-limit",
        Takes::Integer(10),
        "Accepted for kro; instances take turns by definition",
    ),
    flag(
        "enable-controller-warmup",
        Takes::Bool(true),
        "Accepted for kro; watches always run before leadership is won",
    ),
    flag("feature-gates", Takes::Text(""), "Features to turn on and off, such as `CELOmitFunction=false`"),
    flag(
        "graceful-shutdown-timeout",
        seconds(60),
        "How long running work may take to finish after SIGTERM or SIGINT",
    ),
    flag(
        "graph-revision-concurrent-reconciles",
        Takes::Integer(0),
        "Accepted for kro; revisions are compiled with their definition",
    ),
    flag(
        "health-probe-bind-address",
        Takes::Text(":8079"),
        "Where `/healthz` and `/readyz` are served; `0` for nowhere",
    ),
    flag(
        "instance-requeue-interval",
        seconds(3),
        "The wait before an instance that waits for the cluster is looked at again without an event; 0 for never",
    ),
    flag("kro-version", Takes::Text("devel"), "The kro version that labels and the user agent name"),
    flag(
        "kubeconfig",
        Takes::Text(""),
        "A kubeconfig file; left out: `KUBECONFIG`, the user's own, the pod's",
    ),
    flag(
        "kubeconfig-deny-cidr",
        Takes::Text(""),
        "Addresses that a cluster's kubeconfig may not lead to, besides link-local ones, such as `127.0.0.0/8`; repeatable",
    ),
    flag(
        "kubeconfig-exec-allow",
        Takes::Text(""),
        "The absolute path of a command that a cluster's kubeconfig may run for a credential; repeatable",
    ),
    flag(
        "kubeconfig-exec-env",
        Takes::Text(""),
        "A variable that such a command gets from the controller, and that a kubeconfig may set; repeatable",
    ),
    flag("kubeconfig-exec-timeout", seconds(30), "How long such a command may take"),
    flag(
        "kubeconfig-system-roots",
        Takes::Bool(false),
        "Check clusters whose kubeconfig has no `certificate-authority-data` with the system's authorities",
    ),
    flag("leader-elect", Takes::Bool(false), "Act only while holding the Lease `controller.kro.run`"),
    flag("leader-election-lease-duration", seconds(15), "How long others wait for a leader that is silent"),
    flag("leader-election-namespace", Takes::Text(""), "The namespace of the Lease; left out: the pod's"),
    flag("leader-election-renew-deadline", seconds(10), "How long a leader tries to renew before it stops"),
    flag("leader-election-retry-period", seconds(2), "The time between two tries to get or renew the Lease"),
    flag("metrics-bind-address", Takes::Text(":8078"), "Where `/metrics` is served; `0` for nowhere"),
    flag(
        "min-poll-interval",
        seconds(10),
        "The shortest `pollConfig.interval` that a definition may ask for",
    ),
    flag("pprof-bind-address", Takes::Text(":6060"), "Accepted for kro; without effect"),
    flag(
        "require-allowed-namespaces",
        Takes::Bool(false),
        "Use only kubeconfig Secrets that have the annotation `kro.run/allowed-namespaces`",
    ),
    flag(
        "resource-graph-definition-concurrent-reconciles",
        Takes::Integer(0),
        "Definitions to reconcile at once; 0 for as many as make sense",
    ),
    flag(
        "rgd-max-collection-dimension-size",
        Takes::Integer(10),
        "How many `forEach` entries a resource may have",
    ),
    flag("rgd-max-collection-size", Takes::Integer(1000), "How many items a collection may have"),
    flag(
        "rgd-max-graph-revisions",
        Takes::Integer(5),
        "How many revisions of a definition are kept; 0 for all",
    ),
    flag(
        "rgd-progress-requeue-delay",
        seconds(3),
        "The wait before a definition that waits for the cluster is looked at again without an event",
    ),
    flag("version", Takes::Bool(false), "Print the version and end"),
    flag(
        "watch-budget",
        Takes::Integer(20_000),
        "Watches on other clusters to keep open at once; what is beyond is polled every 30s, 0 polls everything",
    ),
    flag(
        "zap-devel",
        Takes::Bool(true),
        "Text logs (true) or JSON logs (false) where `--zap-encoder` is left out",
    ),
    flag("zap-encoder", Takes::Text(""), "`console` for text logs, `json` for JSON logs"),
    flag(
        "zap-log-level",
        Takes::Text("info"),
        "`error`, `warn`, `info`, `debug`, `trace`, or a number: 1 for debug, 2 and more for trace",
    ),
    flag("zap-stacktrace-level", Takes::Text(""), "Accepted for kro; without effect"),
    flag("zap-time-encoding", Takes::Text(""), "Accepted for kro; times are RFC 3339"),
    flag("zap-color", Takes::Bool(false), "Colour text logs"),
];

/// What `--help` prints.
pub(super) fn help() -> String {
    let mut text = String::from(
        "Run the controller\n\nUsage: kross controller [flags]\n\nFlags, with one dash or two, as `--flag=value` or `--flag value`:\n",
    );
    for Flag { name, takes, help } in FLAGS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  --{name}{}\n        {help}{}", takes.word(), default_note(takes));
    }
    text
}

fn default_note(takes: Takes) -> String {
    match takes {
        Takes::Text("") | Takes::Bool(false) => String::new(),
        takes => format!(" (default {takes})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every flag that kro's controller takes, with its default there.
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
    /// Where kro would hold work up, or waits before it watches.
    const OTHER: [(&str, &str); 5] = [
        ("enable-controller-warmup", "true"),
        ("resource-graph-definition-concurrent-reconciles", "0"),
        ("graph-revision-concurrent-reconciles", "0"),
        ("dynamic-controller-concurrent-reconciles", "0"),
        ("dynamic-controller-rate-limiter-max-delay", "1m0s"),
    ];

    #[test]
    fn every_flag_of_kro_is_taken_and_listed() {
        let help = help();
        for (name, _) in KRO {
            assert!(FLAGS.iter().any(|flag| flag.name == name), "{name}");
            assert!(help.contains(&format!("  --{name}")), "{name}");
        }
    }

    #[test]
    fn every_default_is_kros_unless_that_would_hold_work_up() {
        for (name, theirs) in KRO {
            let ours = FLAGS.iter().find(|flag| flag.name == name).unwrap().takes.to_string();
            let other = OTHER.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
            assert_eq!(ours, other.unwrap_or(theirs), "{name}");
            assert_ne!(other, Some(theirs), "{name}");
        }
    }

    #[test]
    fn no_flag_is_there_twice() {
        let mut names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FLAGS.len());
    }
}
