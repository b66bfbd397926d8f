//! The metrics of other clusters, read at each scrape. A hundred clusters have series of their own; the others share one.

use std::collections::BTreeMap;
use std::fmt;

use kross_api::FailureReason;
use kross_cluster::{
    AuditStats, ClusterRegistry, ClusterState, ClusterTotals, ClusterView, unexpected_objects,
};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::cluster_series::{OTHERS, cluster_id, names_are_shown, with_own_series};
use super::collector::RESULT;
use super::register::Description;

const STATES: &str = "kross_clusters";
const STATES_HELP: &str = "Clusters in use, by state of the connection";
const STATE_WORDS: [(ClusterState, &str); 3] = [
    (ClusterState::Connected, "connected"),
    (ClusterState::Connecting, "connecting"),
    (ClusterState::NotConnected, "not_connected"),
];
const ATTEMPTS: &str = "kross_cluster_connection_attempts";
const ATTEMPTS_HELP: &str = "Attempts to connect to other clusters";
const FAILURES: &str = "kross_cluster_connection_failures";
const FAILURES_HELP: &str = "Failed attempts to connect to other clusters";
const REQUESTS: &str = "kross_cluster_requests";
const REQUESTS_HELP: &str =
    "Requests to other clusters; `refused` ones were not sent because the cluster was not connected";
const REQUEST_RESULTS: [&str; 3] = ["answered", "unanswered", "refused"];

const AUDIT: &str = "kross_audit_records";
const AUDIT_HELP: &str = "Audit records; `dropped` ones came faster than they could be written or exceeded the share of their cluster, `failed` ones could not be written to the file";
const AUDIT_RESULTS: [&str; 3] = ["written", "dropped", "failed"];

const UNEXPECTED: &str = "kross_unexpected_objects";
const UNEXPECTED_HELP: &str = "Objects in lists and watches that did not match the request and were dropped; an API server sends none: the log names the cluster";

/// A gauge of each cluster, and how it is read.
struct PerCluster {
    name: &'static str,
    help: &'static str,
    read: fn(&ClusterView) -> usize,
}

const PER_CLUSTER: [PerCluster; 5] = [
    PerCluster {
        name: "kross_cluster_connected",
        help: "Whether a cluster is connected; for `others` the number of connected clusters",
        read: |view| usize::from(view.state == ClusterState::Connected),
    },
    PerCluster {
        name: "kross_cluster_requests_in_flight",
        help: "Requests to a cluster that are in flight",
        read: |view| view.in_flight,
    },
    PerCluster {
        name: "kross_cluster_requests_limit",
        help: "Requests to a cluster that may be in flight at once now; shrinks when the cluster is overloaded",
        read: |view| view.limit,
    },
    PerCluster {
        name: "kross_cluster_requests_waiting",
        help: "Requests to a cluster that wait because as many as allowed are in flight",
        read: |view| view.waiting,
    },
    PerCluster {
        name: "kross_cluster_watches",
        help: "Open watches on a cluster",
        read: |view| view.watches,
    },
];

/// The descriptions of all of them, for the reference.
pub(super) fn descriptions() -> impl Iterator<Item = Description> {
    let reasons: Vec<_> = FailureReason::ALL.iter().map(|reason| reason.as_str()).collect();
    let states = STATE_WORDS.map(|(_, word)| word).to_vec();
    let closed = [
        (STATES, MetricType::Gauge, STATES_HELP, vec![("state", states)]),
        (ATTEMPTS, MetricType::Counter, ATTEMPTS_HELP, Vec::new()),
        (FAILURES, MetricType::Counter, FAILURES_HELP, vec![("reason", reasons)]),
        (REQUESTS, MetricType::Counter, REQUESTS_HELP, vec![(RESULT, REQUEST_RESULTS.to_vec())]),
        (AUDIT, MetricType::Counter, AUDIT_HELP, vec![(RESULT, AUDIT_RESULTS.to_vec())]),
        (UNEXPECTED, MetricType::Counter, UNEXPECTED_HELP, Vec::new()),
    ];
    let open = PER_CLUSTER
        .map(|PerCluster { name, help, .. }| (name, MetricType::Gauge, help, vec![("cluster", Vec::new())]));
    closed.into_iter().chain(open).map(|(name, kind, help, labels)| Description { name, kind, help, labels })
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder,
    clusters: &ClusterRegistry,
    hub_uid: &str,
) -> fmt::Result {
    totals(encoder, &clusters.totals())?;
    audit(encoder, clusters.audit())?;
    let unexpected = encoder.encode_descriptor(UNEXPECTED, UNEXPECTED_HELP, None, MetricType::Counter)?;
    ConstCounter::new(unexpected_objects()).encode(unexpected)?;
    views(encoder, &clusters.states(), hub_uid)
}

fn totals(encoder: &mut DescriptorEncoder, totals: &ClusterTotals) -> fmt::Result {
    let attempts = encoder.encode_descriptor(ATTEMPTS, ATTEMPTS_HELP, None, MetricType::Counter)?;
    ConstCounter::new(totals.attempts).encode(attempts)?;
    let mut family = encoder.encode_descriptor(FAILURES, FAILURES_HELP, None, MetricType::Counter)?;
    for (reason, number) in &totals.failures {
        ConstCounter::new(*number).encode(family.encode_family(&[("reason", reason.as_str())])?)?;
    }
    let mut family = encoder.encode_descriptor(REQUESTS, REQUESTS_HELP, None, MetricType::Counter)?;
    for (result, number) in REQUEST_RESULTS.iter().zip([totals.answered, totals.failed, totals.refused]) {
        ConstCounter::new(number).encode(family.encode_family(&[(RESULT, *result)])?)?;
    }
    Ok(())
}

fn audit(encoder: &mut DescriptorEncoder, stats: AuditStats) -> fmt::Result {
    let AuditStats { written, dropped, failed } = stats;
    let mut family = encoder.encode_descriptor(AUDIT, AUDIT_HELP, None, MetricType::Counter)?;
    for (result, number) in AUDIT_RESULTS.iter().zip([written, dropped, failed]) {
        ConstCounter::new(number).encode(family.encode_family(&[(RESULT, *result)])?)?;
    }
    Ok(())
}

fn views(encoder: &mut DescriptorEncoder, views: &[ClusterView], hub_uid: &str) -> fmt::Result {
    let mut family = encoder.encode_descriptor(STATES, STATES_HELP, None, MetricType::Gauge)?;
    for (state, word) in STATE_WORDS {
        let number = views.iter().filter(|view| view.state == state).count();
        family.encode_family(&[("state", word)])?.encode_gauge(&whole(number))?;
    }
    let own = with_own_series(views);
    let label = |secret: &str| match names_are_shown() {
        true => secret.to_owned(),
        false => cluster_id(hub_uid, secret),
    };
    let labels = own.keys().map(|secret| (*secret, label(secret))).collect();
    for PerCluster { name, help, read } in &PER_CLUSTER {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (cluster, number) in sums(views, &labels, *read) {
            family.encode_family(&[("cluster", cluster)])?.encode_gauge(&whole(number))?;
        }
    }
    Ok(())
}

/// A number for each cluster with a label, and the sum for the others. Several keys of one Secret are one cluster.
fn sums<'a>(
    views: &[ClusterView],
    labels: &'a BTreeMap<&str, String>,
    read: fn(&ClusterView) -> usize,
) -> BTreeMap<&'a str, usize> {
    let mut sums = BTreeMap::new();
    for view in views {
        let cluster = labels.get(view.secret.as_str()).map_or(OTHERS, String::as_str);
        *sums.entry(cluster).or_default() += read(view);
    }
    sums
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::super::cluster_series::{MAX_SERIES, with_cluster_names};
    use super::*;

    #[derive(Debug)]
    struct Shown(ClusterTotals, Vec<ClusterView>);

    impl Collector for Shown {
        fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
            totals(&mut encoder, &self.0)?;
            views(&mut encoder, &self.1, HUB)
        }
    }

    const HUB: &str = "0d7e";

    fn text(totals: ClusterTotals, views: Vec<ClusterView>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Shown(totals, views)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn clusters_are_counted_by_state_and_attempts_by_reason() {
        let failures = [(FailureReason::Timeout, 2)].into();
        let totals = ClusterTotals { attempts: 3, failures, answered: 5, failed: 1, refused: 4 };
        let connected = ClusterView { state: ClusterState::Connected, ..view("shop/eu-kubeconfig", 7) };
        let text = with_cluster_names(|| text(totals, vec![connected, view("shop/us-kubeconfig", 0)]));
        for line in [
            "kross_cluster_connection_attempts_total 3",
            "kross_cluster_connection_failures_total{reason=\"Timeout\"} 2",
            "kross_cluster_requests_total{result=\"refused\"} 4",
            "kross_clusters{state=\"connected\"} 1",
            "kross_clusters{state=\"connecting\"} 1",
            "kross_cluster_connected{cluster=\"shop/eu-kubeconfig\"} 1",
            "kross_cluster_connected{cluster=\"shop/us-kubeconfig\"} 0",
            "kross_cluster_requests_in_flight{cluster=\"shop/eu-kubeconfig\"} 7",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
        }
    }

    fn view(secret: &str, in_flight: usize) -> ClusterView {
        ClusterView { secret: secret.to_owned(), in_flight, ..ClusterView::default() }
    }

    #[test]
    fn clusters_without_series_of_their_own_share_one() {
        let views: Vec<_> = (0..250).map(|number| view(&format!("shop/c{number:03}"), 2)).collect();
        let lines = |views: &[ClusterView]| {
            let text = text(ClusterTotals::default(), views.to_vec());
            let ours = text.lines().filter(|line| line.starts_with("kross_cluster_requests_in_flight{"));
            ours.map(str::to_owned).collect::<Vec<_>>()
        };
        let shown = with_cluster_names(|| lines(&views));
        assert_eq!(shown.len(), MAX_SERIES + 1);
        for line in ["{cluster=\"shop/c099\"} 2", "{cluster=\"others\"} 300"] {
            assert!(shown.iter().any(|shown| shown.ends_with(line)), "{line} is not in {shown:?}");
        }
        assert_eq!(lines(&views[..100]).len(), MAX_SERIES);
    }

    #[test]
    fn names_of_secrets_are_not_shown_by_default() {
        let hidden = text(ClusterTotals::default(), vec![view("shop/eu-kubeconfig", 7)]);
        assert!(!hidden.contains("shop") && !hidden.contains("eu-kubeconfig"), "{hidden}");
        let id = cluster_id(HUB, "shop/eu-kubeconfig");
        assert!(
            hidden.contains(&format!("kross_cluster_requests_in_flight{{cluster=\"{id}\"}} 7")),
            "{hidden}"
        );
    }
}
