//! Registers metrics and collects their descriptions, so that the reference cannot differ from the code.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{Closed, ClosedLabels};

/// The description of a metric.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    pub(super) help: &'static str,
    pub(super) labels: Closed,
}

/// A registry that is being filled.
pub(super) struct Register<'a> {
    registry: &'a mut Registry,
    pub(super) descriptions: Vec<Description>,
}

impl<'a> Register<'a> {
    pub(super) fn new(registry: &'a mut Registry) -> Self {
        Self { registry, descriptions: Vec::new() }
    }

    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> Counter {
        let counter = Counter::default();
        self.registry.register(name, help, counter.clone());
        self.describe(Description { name, kind: MetricType::Counter, help, labels: Closed::new() });
        counter
    }

    pub(super) fn counters<L>(&mut self, name: &'static str, help: &'static str) -> Family<L, Counter>
    where
        L: ClosedLabels
            + EncodeLabelSet
            + Clone
            + std::fmt::Debug
            + Eq
            + std::hash::Hash
            + Send
            + Sync
            + 'static,
    {
        let counters = Family::default();
        self.registry.register(name, help, counters.clone());
        self.describe(Description { name, kind: MetricType::Counter, help, labels: L::closed() });
        counters
    }

    pub(super) fn histogram<const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        buckets: [f64; N],
    ) -> Histogram {
        let histogram = Histogram::new(buckets);
        self.registry.register(name, help, histogram.clone());
        self.describe(Description { name, kind: MetricType::Histogram, help, labels: Closed::new() });
        histogram
    }

    /// Registers metrics that are read at each scrape.
    pub(super) fn collector(&mut self, collector: impl Collector, descriptions: Vec<Description>) {
        self.registry.register_collector(Box::new(collector));
        self.descriptions.extend(descriptions);
    }

    fn describe(&mut self, description: Description) {
        self.descriptions.push(description);
    }
}
