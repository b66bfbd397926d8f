//! The list of instances: those that are not ready come first. Filters are parameters of the address.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::ResourceState;
use kross_cluster::{ApiError, ApiKind};
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::query::Query;
use super::super::viewer::Viewer;
use super::instance::address;
use super::{Content, parts};
use crate::read_model::{Definition, InstanceView, Tone, condition, for_people, text};

/// An instance with its kind.
pub(super) struct Found {
    pub(super) kind: Arc<ApiKind>,
    pub(super) object: Json,
}

/// The instances that the user may read, and the kinds that he may not list.
pub(super) async fn all(
    viewer: &Viewer,
    namespace: Option<&str>,
) -> (Vec<Found>, Vec<(Arc<ApiKind>, ApiError)>) {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for (kind, definition) in viewer.instance_kinds().await {
        match viewer.list(&kind, namespace).await {
            Err(error) => refused.push((kind, error)),
            Ok(objects) => {
                let is_instance =
                    |object: &Json| definition.as_ref().is_none_or(|it: &Definition| it.has_instance(object));
                let objects = objects.into_iter().filter(is_instance);
                found.extend(objects.map(|object| Found { kind: Arc::clone(&kind), object }));
            }
        }
    }
    (found, refused)
}

/// The state of an instance as a word and a tone.
pub(super) fn state(view: InstanceView<'_>) -> (&str, Tone) {
    match view.state() {
        _ if view.is_suspended() => ("SUSPENDED", Tone::Busy),
        state if view.is_ready() => (state, Tone::Good),
        state @ ("ERROR" | "Failed") => (state, Tone::Bad),
        state => (state, Tone::Busy),
    }
}

/// The page.
pub(crate) async fn instances(viewer: &Viewer, query: &Query) -> Content {
    let now = Timestamp::now();
    let (mut found, refused) = all(viewer, query.given("namespace")).await;
    let namespaces: BTreeSet<String> =
        found.iter().filter_map(|it| InstanceView(&it.object).namespace().map(str::to_owned)).collect();
    let namespaces: Vec<String> = namespaces.into_iter().collect();
    let kinds: BTreeSet<String> = found.iter().map(|it| it.kind.kind.to_string()).collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    let states: BTreeSet<String> =
        found.iter().map(|it| state(InstanceView(&it.object)).0.to_owned()).collect();
    let states: Vec<String> = states.into_iter().collect();
    let known = found.len();
    found.retain(|it| is_wanted(it, query));
    found.sort_by_cached_key(|it| {
        let view = InstanceView(&it.object);
        let weight = match state(view).1 {
            Tone::Bad => 0,
            Tone::Busy => 1,
            Tone::Good | Tone::Faint | Tone::Plain => 2,
        };
        (weight, it.kind.kind.to_string(), view.namespace().map(str::to_owned), view.name().to_owned())
    });
    let total = found.len();
    let (page, pages) = parts::paged(query, total);
    let body = html! {
        h1 { "Instances" small { (total) " of " (known) } }
        form .filters method="get" role="search" aria-label="Filter instances" {
            (parts::text_filter(query, "name, kind, cluster, object"))
            (parts::namespace_filter(query, &namespaces))
            (parts::choice(query, "kind", "Kind", &kinds))
            (parts::choice(query, "state", "State", &states))
            (parts::failing_filter(query, "not ready"))
            @if let Some(cluster) = query.given("cluster") {
                input type="hidden" name="cluster" value=(cluster);
                a .chip href=(query.with("cluster", "")) title="Show instances of all clusters" { "in " (cluster) " ✕" }
            }
            button type="submit" { "Filter" }
        }
        @for (kind, error) in &refused { (parts::unreadable(&format!("{} objects", kind.kind), error)) }
        @if total == 0 && known > 0 {
            (parts::empty("Nothing matches", "No instance matches these filters.", None))
        } @else if total == 0 && refused.is_empty() {
            (parts::empty("No instances", "Create an instance of a definition to see it here.", Some("kross get definitions")))
        } @else if total > 0 {
            div .scroll {
                table {
                    thead { tr {
                        th scope="col" { "Instance" } th scope="col" { "Namespace" } th scope="col" { "Kind" } th scope="col" { "State" }
                        th scope="col" { "Since" } th scope="col" { "Objects ready" } th scope="col" { "Clusters" } th scope="col" { "What it waits for" }
                    } }
                    tbody { @for it in found.iter().skip(page * parts::PAGE).take(parts::PAGE) { (row(it, now)) } }
                }
            }
            (parts::pager(query, page, pages, total))
        }
    };
    Content::new("Instances", "Instances", body)
}

fn row(found: &Found, now: Timestamp) -> Markup {
    let view = InstanceView(&found.object);
    let (word, tone) = state(view);
    let resources = view.resources();
    let ready = resources.iter().filter(|it| it.state == ResourceState::Ready).count();
    let clusters = view.clusters();
    let lost: Vec<&str> = clusters.iter().filter(|it| !it.connected).map(|it| it.name.as_str()).collect();
    let since = condition(&found.object, "Ready").and_then(|it| it["lastTransitionTime"].as_str());
    html! {
        tr .failing[tone == Tone::Bad] {
            th scope="row" { a href=(address(&found.kind, view.namespace(), view.name())) { (view.name()) } }
            td { (view.namespace().unwrap_or("–")) }
            td { (found.kind.kind) }
            td { (parts::badge(word, tone)) }
            td { (parts::ago(since.or(text(&found.object, "/metadata/creationTimestamp")), now)) }
            td { span .counted { (parts::bar(&[(Tone::Good, ready), (Tone::Faint, resources.len() - ready)])) (ready) " / " (resources.len()) } }
            td .clusters-of title=(clusters.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join("\n")) {
                @for cluster in lost.iter().take(2) { (parts::badge(cluster, Tone::Bad)) " " }
                @match (clusters.len(), lost.len()) {
                    (0, _) => span .none { "hub" },
                    (1, 0) => (clusters.first().map(|it| it.name.as_str()).unwrap_or_default()),
                    (all, 0) => { (all) " connected" }
                    (all, lost) if all > lost => { "and " (all - lost) " connected" }
                    _ => {}
                }
            }
            td .message title=(for_people(view.message().unwrap_or_default(), now)) { (for_people(view.message().unwrap_or_default(), now)) }
        }
    }
}

fn is_wanted(found: &Found, query: &Query) -> bool {
    let view = InstanceView(&found.object);
    let is_kind = query.given("kind").is_none_or(|kind| *kind == *found.kind.kind);
    let is_state = query.given("state").is_none_or(|wanted| state(view).0 == wanted);
    let is_failing = query.given("failing").is_none() || !view.is_ready();
    let uses = |cluster: &str| super::cluster::uses(view, cluster);
    let matches = |text: &str| {
        let text = text.to_lowercase();
        let has = |field: &str| field.to_lowercase().contains(&text);
        has(view.name())
            || has(view.kind())
            || view.namespace().is_some_and(has)
            || view.clusters().iter().any(|cluster| has(&cluster.name))
            || view.resources().iter().any(|it| it.name.as_deref().is_some_and(has) || has(&it.id))
    };
    is_kind
        && is_state
        && is_failing
        && query.given("cluster").is_none_or(uses)
        && query.given("q").is_none_or(matches)
}
