//! Published targets, claims and applications.

use jiff::Timestamp;
use maud::html;
use serde_json::Value as Json;

use super::super::query::Query;
use super::super::viewer::Viewer;
use super::{Content, parts};
use crate::read_model::{InstanceView, Tone, condition, for_people, text};

/// The page.
pub(crate) async fn targets(viewer: &Viewer, query: &Query) -> Content {
    let now = Timestamp::now();
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for kind in viewer.workload_kinds() {
        match viewer.list(&kind, query.given("namespace")).await {
            Ok(objects) => rows.extend(objects),
            Err(error) => refused.push((kind, error)),
        }
    }
    let is_ready = |object: &Json| condition(object, "Ready").is_some_and(|ready| ready["status"] == "True");
    rows.sort_by_cached_key(|object| {
        let view = InstanceView(object);
        (
            is_ready(object),
            view.kind().to_owned(),
            view.namespace().map(str::to_owned),
            view.name().to_owned(),
        )
    });
    let body = html! {
        h1 { "Targets " small { (rows.len()) } }
        @for (kind, error) in &refused { (parts::unreadable(&format!("{} objects", kind.kind), error)) }
        @if rows.is_empty() && refused.is_empty() {
            (parts::empty(
                "No targets, claims or applications",
                "A KubernetesTarget publishes a cluster into a namespace, a KubernetesCluster claims one.",
                Some("kubectl get kubernetestargets,kubernetesclusters,kubernetesapplications -A"),
            ))
        } @else {
            div .scroll {
                table {
                    thead { tr { th { "Kind" } th { "Namespace" } th { "Name" } th { "Ready" } th { "State" } th { "Cluster" } th { "Age" } th { "Message" } } }
                    tbody {
                        @for object in &rows {
                            @let view = InstanceView(object);
                            tr {
                                td { (view.kind()) }
                                td { (view.namespace().unwrap_or("–")) }
                                td { (view.name()) }
                                td { @if is_ready(object) { (parts::badge("Ready", Tone::Good)) } @else { (parts::badge("Not ready", Tone::Bad)) } }
                                td { (text(object, "/status/state").or(text(object, "/status/bindingPhase")).unwrap_or("–")) }
                                td { (text(object, "/status/cluster/version").or(text(object, "/spec/targetRef/name")).unwrap_or("–")) }
                                td { (parts::ago(text(object, "/metadata/creationTimestamp"), now)) }
                                td .message { (for_people(view.message().unwrap_or_default(), now)) }
                            }
                        }
                    }
                }
            }
        }
    };
    Content::new("Targets", "Targets", body)
}
