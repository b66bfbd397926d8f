//! Renders the page that documents all metrics.

use std::fmt::Write;
use std::sync::Arc;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Metrics;
use super::register::{Description, Register};
use crate::graphs::Graphs;

const HEAD: &str = "# Metrics

Served on `--metrics-bind-address` under `/metrics`. Names are kro's where the meaning is the same; metrics that kro does not
have begin with `kross_`. Labels have the values listed here and no others, so the number of series does not grow with the
number of definitions or instances; kro's labels `gvr` and `name` are left out for that reason. Labels with the value `…` are
the exception.

The label `cluster` is the cluster's Secret, as `namespace/name`, if the reader may see it: on a loopback address, or with
`--metrics-secure` for readers who may `get` the path `/clusters`. Other readers see an id such as `secret-1f0c9a4e77b2`, which
`/clusters` shows as `id`. A hundred clusters have series of their own, all others share `others`: clusters that were connected
come first, and no namespace has two before each has one. [Security](security.md#pages) describes who may read the page.

| metric | type | labels | description |
|---|---|---|---|
";

/// Every metric on one page, as Markdown.
#[must_use]
pub fn metrics_reference() -> String {
    let mut registry = Registry::default();
    let mut register = Register::new(&mut registry);
    Metrics::described(&mut register, Some(Arc::<Graphs>::default()));
    let mut descriptions = register.descriptions;
    descriptions.sort_by_key(|description| description.name);
    let mut page = HEAD.to_owned();
    for description in &descriptions {
        row(&mut page, description);
    }
    page
}

fn row(page: &mut String, description: &Description) {
    let Description { name, kind, help, labels } = description;
    let suffix = if matches!(kind, MetricType::Counter) { "_total" } else { "" };
    let labels: Vec<String> = labels
        .iter()
        .map(|(label, values)| {
            let values: Vec<String> = values.iter().map(|value| format!("`\"{value}\"`")).collect();
            let values = if values.is_empty() { "…".to_owned() } else { values.join(", ") };
            format!("`{label}`: {values}")
        })
        .collect();
    let _ = writeln!(page, "| `{name}{suffix}` | {} | {} | {help} |", kind.as_str(), labels.join("; "));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn every_registered_metric_is_on_the_page() {
        let page = metrics_reference();
        let mut registry = Registry::default();
        let _metrics = Metrics::new(&mut registry, None);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let names: BTreeSet<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert!(names.contains("rgd_graph_build"), "{text}");
        for name in names {
            assert!(
                page.contains(&format!("| `{name}` |")) || page.contains(&format!("| `{name}_total` |")),
                "{name}"
            );
        }
    }

    /// The names of kro's metrics, by prefix.
    const KRO: [(&str, &[&str]); 5] = [
        (
            "dynamic_controller_",
            &[
                "reconcile_total",
                "requeue_total",
                "reconcile_duration_seconds",
                "gvr_count",
                "queue_length",
                "handler_count_total",
                "handler_attach_total",
                "handler_detach_total",
                "handler_errors_total",
                "reconcile_panics_total",
                "informer_sync_duration_seconds",
                "informer_events_total",
                "watch_count",
                "instance_watch_count",
                "watch_request_count",
                "route_total",
                "route_match_total",
            ],
        ),
        (
            "instance_",
            &[
                "state_transitions_total",
                "reconcile_duration_seconds",
                "reconcile_total",
                "reconcile_errors_total",
                "graph_resolution_success_total",
                "graph_resolution_failures_total",
                "graph_resolution_pending_total",
                "condition_current_status_seconds",
            ],
        ),
        (
            "rgd_",
            &[
                "graph_build_total",
                "graph_build_duration_seconds",
                "graph_build_errors_total",
                "state_transitions_total",
                "deletions_total",
                "deletion_duration_seconds",
                "graph_revision_issue_total",
                "graph_revision_wait_total",
                "graph_revision_resolution_total",
                "graph_revision_registry_miss_total",
                "graph_revision_gc_deleted_total",
                "graph_revision_gc_errors_total",
            ],
        ),
        (
            "graph_revision_",
            &[
                "compile_total",
                "compile_duration_seconds",
                "status_update_errors_total",
                "activation_deferred_total",
                "finalizer_evictions_total",
                "registry_entries",
                "registry_transitions_total",
                "registry_evictions_total",
            ],
        ),
        ("kross_", &[]),
    ];

    #[test]
    fn metrics_that_kro_does_not_have_begin_with_kross() {
        let page = metrics_reference();
        for name in page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()) {
            let (prefix, known) = KRO.iter().find(|(prefix, _)| name.starts_with(prefix)).expect(name);
            assert!(*prefix == "kross_" || known.contains(&&name[prefix.len()..]), "{name}");
        }
    }

    #[test]
    fn labels_are_on_the_page_with_their_values() {
        let page = metrics_reference();
        assert!(page.contains("`reason`: `\"no_revision\"`, `\"spec_changed\"`"), "{page}");
        assert!(page.contains("| `dynamic_controller_requeue_total` | counter | `type`: "), "{page}");
    }
}
