//! Published targets, claims and applications.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::query::Query;
use super::super::viewer::Viewer;
use super::{Content, fleet, parts};
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
    rows.sort_by_cached_key(|object| {
        let view = InstanceView(object);
        (
            is_ready(object),
            view.kind().to_owned(),
            view.namespace().map(str::to_owned),
            view.name().to_owned(),
        )
    });
    let known = rows.len();
    let wanted = query.get("q").to_lowercase();
    rows.retain(|object| {
        InstanceView(object).title().to_lowercase().contains(&wanted)
            && (query.given("failing").is_none() || !is_ready(object))
            && query.given("kind").is_none_or(|kind| InstanceView(object).kind() == kind)
    });
    let (page, pages) = parts::paged(query, rows.len());
    let body = html! {
        h1 { "Targets" small { (rows.len()) " targets, claims and applications" } }
        @for (kind, error) in &refused { (parts::unreadable(&format!("{} objects", kind.kind), error)) }
        @if known == 0 && refused.is_empty() {
            (parts::empty(
                "No targets, claims or applications",
                "A KubernetesTarget publishes a cluster into a namespace, a KubernetesCluster claims one, a KubernetesApplication runs there.",
                Some("kubectl get kubernetestargets,kubernetesclusters,kubernetesapplications -A"),
            ))
        } @else {
            form .filters method="get" role="search" aria-label="Filter targets, claims and applications" {
                (parts::text_filter(query, "name or namespace"))
                (parts::choice(query, "kind", "Kind", &["KubernetesTarget", "KubernetesCluster", "KubernetesApplication"].map(str::to_owned)))
                (parts::failing_filter(query, "not ready"))
                button type="submit" { "Filter" }
            }
            @if rows.is_empty() { (parts::empty("Nothing matches", "No target, claim or application matches these filters.", None)) }
            @else {
                div .scroll {
                    table {
                        thead { tr {
                            th scope="col" { "Name" } th scope="col" { "Namespace" } th scope="col" { "Kind" } th scope="col" { "Ready" } th scope="col" { "Since" }
                            th scope="col" { "State" } th scope="col" { "Cluster" } th scope="col" { "Message" }
                        } }
                        tbody { @for object in rows.iter().skip(page * parts::PAGE).take(parts::PAGE) { (row(object, now)) } }
                    }
                }
                (parts::pager(query, page, pages, rows.len()))
            }
        }
    };
    Content::new("Targets", "Targets", body)
}

fn is_ready(object: &Json) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

fn row(object: &Json, now: Timestamp) -> Markup {
    let view = InstanceView(object);
    let since = condition(object, "Ready").and_then(|it| it["lastTransitionTime"].as_str());
    let secret = text(object, "/spec/connectionSecretRef/name").zip(view.namespace());
    html! {
        tr .failing[!is_ready(object)] {
            th scope="row" { (view.name()) }
            td { (view.namespace().unwrap_or("–")) }
            td { (view.kind()) }
            td { @if is_ready(object) { (parts::badge("Ready", Tone::Good)) } @else { (parts::badge("Not ready", Tone::Bad)) } }
            td { (parts::ago(since.or(text(object, "/metadata/creationTimestamp")), now)) }
            td { (text(object, "/status/state").or(text(object, "/status/bindingPhase")).unwrap_or("–")) }
            td {
                @match (secret, text(object, "/spec/targetRef/name")) {
                    (Some((secret, namespace)), _) => a href=(fleet::address(&format!("{namespace}/{secret}"))) { (text(object, "/status/cluster/version").unwrap_or(secret)) },
                    (None, Some(target)) => { "target " (target) }
                    (None, None) => span .none { "–" },
                }
            }
            td .message { (for_people(view.message().unwrap_or_default(), now)) }
        }
    }
}
