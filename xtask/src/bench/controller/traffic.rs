//! Counts requests with the API server's own metrics. Excludes watches, Leases and probes; counts Events separately.

use std::collections::HashMap;

use anyhow::Context;
use kube::Client;

/// The number of requests that the API server has answered so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) requests: u64,
    pub(super) events: u64,
}

impl Traffic {
    pub(super) async fn of(client: &Client) -> anyhow::Result<Self> {
        let request = http::Request::get("/metrics").body(Vec::new()).context("cannot build the request")?;
        let page = client.request_text(request).await.context("cannot read the API server's metrics")?;
        Ok(Self::read(&page))
    }

    fn read(page: &str) -> Self {
        let mut traffic = Self::default();
        for line in page.lines() {
            let Some(rest) = line.strip_prefix("apiserver_request_total{") else { continue };
            let Some((labels, count)) = rest.rsplit_once("} ") else { continue };
            let labels: HashMap<&str, &str> = labels
                .split("\",")
                .filter_map(|label| label.split_once("=\""))
                .map(|(name, value)| (name, value.trim_end_matches('"')))
                .collect();
            let label = |name: &str| labels.get(name).copied().unwrap_or_default();
            let count = count.parse::<f64>().unwrap_or_default() as u64;
            match (label("verb"), label("resource")) {
                ("WATCH", _) | (_, "" | "leases") => {}
                (_, "events") => traffic.events += count,
                _ => traffic.requests += count,
            }
        }
        traffic
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            events: self.events.saturating_sub(before.events),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_leases_and_probes_are_excluded() {
        let page = r#"# HELP apiserver_request_total
apiserver_request_total{code="200",group="",resource="configmaps",verb="APPLY"} 5
apiserver_request_total{code="0",group="",resource="configmaps",verb="WATCH"} 7
apiserver_request_total{code="201",group="events.k8s.io",resource="events",verb="POST"} 3
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",verb="PUT"} 9
apiserver_request_total{code="200",group="",resource="",subresource="/readyz",verb="GET"} 11
apiserver_request_total{code="409",group="kro.run",resource="chains",verb="PUT"} 1
"#;
        assert_eq!(Traffic::read(page), Traffic { requests: 6, events: 3 });
    }
}
