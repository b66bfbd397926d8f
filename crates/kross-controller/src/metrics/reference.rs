//! Turns the metrics into the page that documents them.

use std::fmt::Write;
use std::sync::Arc;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Metrics;
use super::register::{Description, Register};
use crate::graphs::Graphs;

const HEAD: &str = "# Metrics

Served on `--metrics-bind-address` under `/metrics`. Names are kro's where the meaning is the same; what kro does not have
begins with `kross_`. Labels have the values listed here and no others, so the number of series does not grow with the number
of definitions or instances; kro's labels `gvr` and `name` are left out for that reason. Where a value is `…`, it does.

| metric | type | labels | what it says |
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
    fn every_metric_that_is_served_is_on_the_page() {
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

    #[test]
    fn labels_are_listed_with_their_values() {
        let page = metrics_reference();
        assert!(page.contains("`reason`: `\"no_revision\"`, `\"spec_changed\"`"), "{page}");
        assert!(page.contains("| `dynamic_controller_requeue_total` | counter | `type`: "), "{page}");
    }
}
