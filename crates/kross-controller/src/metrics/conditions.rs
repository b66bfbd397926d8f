//! How long each condition of each instance has had its status, read from the caches of instances at each scrape. There is a
//! series for each condition of each instance, which is why it has a feature gate.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kross_cluster::StoredObject;
use kross_value::Value;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;

use super::register::{Description, Register};
use crate::graphs::Graphs;

const NAME: &str = "instance_condition_current_status_seconds";
const HELP: &str = "How long a condition of an instance has had its status; only with the feature gate \
                    `InstanceConditionMetrics`";
/// All labels. The sets of their values are open.
const LABELS: [&str; 6] = ["gvr", "namespace", "name", "condition_type", "condition_status", "reason"];

struct Conditions(Arc<Graphs>);

pub(super) fn register(register: &mut Register<'_>, graphs: Arc<Graphs>) {
    let labels = LABELS.into_iter().map(|label| (label, Vec::new())).collect();
    let description = Description { name: NAME, kind: MetricType::Gauge, help: HELP, labels };
    register.collector(Conditions(graphs), vec![description]);
}

impl fmt::Debug for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conditions").finish_non_exhaustive()
    }
}

impl Collector for Conditions {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut family = encoder.encode_descriptor(NAME, HELP, None, MetricType::Gauge)?;
        let now = Timestamp::now();
        // The status of an existing kind belongs to another controller, and so do its conditions.
        for served in self.0.all().into_iter().filter(|served| !served.external) {
            let kind = &served.kind;
            let gvr = format!("{}/{}, Resource={}", kind.group, kind.version, kind.plural);
            for instance in served.instances.list_readable().unwrap_or_default() {
                conditions(&mut family, &gvr, &instance, now)?;
            }
        }
        Ok(())
    }
}

fn conditions(
    family: &mut MetricEncoder<'_>,
    gvr: &str,
    instance: &StoredObject,
    now: Timestamp,
) -> fmt::Result {
    let list = instance.value().at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    for condition in list {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let Ok(since) = text("lastTransitionTime").parse::<Timestamp>() else { continue };
        let namespace = instance.namespace().map(|namespace| &**namespace).unwrap_or_default();
        let values = [gvr, namespace, instance.name(), text("type"), text("status"), text("reason")];
        let labels: Vec<(&str, &str)> = LABELS.into_iter().zip(values).collect();
        // Clocks differ: the transition may seem to be in the future.
        let seconds = now.duration_since(since).as_secs_f64().max(0.0);
        family.encode_family(&labels)?.encode_gauge(&seconds)?;
    }
    Ok(())
}
