//! Selectors that are those of a workload become references to it.

use serde_json::json;

use super::{Resource, would_cycle};

const WORKLOADS: &[&str] = &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"];

/// Where other objects select the pods of a workload.
const SELECTORS: &[(&str, &str)] = &[
    ("Service", "/spec/selector"),
    ("PodDisruptionBudget", "/spec/selector/matchLabels"),
    ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ("ServiceMonitor", "/spec/selector/matchLabels"),
    ("PodMonitor", "/spec/selector/matchLabels"),
];

pub(super) fn link(resources: &mut [Resource]) {
    for reader in 0..resources.len() {
        let Some(resource) = resources.get(reader).filter(|resource| !resource.external) else { continue };
        let Some((_, pointer)) = SELECTORS.iter().find(|(kind, _)| *kind == resource.kind) else { continue };
        let Some(selector) =
            resource.object.pointer(pointer).filter(|selector| selector.is_object()).cloned()
        else {
            continue;
        };
        let is_monitor = resource.kind == "ServiceMonitor";
        let selected = resources.iter().position(|other| {
            !is_monitor
                && WORKLOADS.contains(&other.kind.as_str())
                && other.object.pointer("/spec/selector/matchLabels") == Some(&selector)
        });
        let Some(read) = selected.filter(|read| !would_cycle(resources, reader, *read)) else { continue };
        let Some(id) = resources.get(read).map(|resource| resource.id.clone()) else { continue };
        if let Some(resource) = resources.get_mut(reader) {
            resource.reads.push(read);
            if let Some(value) = resource.object.pointer_mut(pointer) {
                *value = json!(format!("${{{id}.spec.selector.matchLabels}}"));
            }
        }
    }
}
