//! The list of instances: those that are not ready come first. Filters are parameters of the address.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kross_cluster::{ApiError, ApiKind};
use maud::html;
use serde_json::Value as Json;

use super::super::query::Query;
use super::super::viewer::Viewer;
use super::instance::address;
use super::{Content, parts};
use crate::read_model::{Definition, InstanceView, Tone, for_people, text};

/// Rows of one page.
const PAGE: usize = 100;

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
    let (total, pages) = (found.len(), found.len().div_ceil(PAGE));
    let page = query.number("page").min(pages.saturating_sub(1));
    let body = html! {
        h1 { "Instances " small { (total) " of " (known) } }
        form .filters method="get" {
            label { "Search " input type="search" name="q" value=(query.get("q")) placeholder="name, kind, cluster"; }
            (parts::namespace_filter(query, &namespaces))
            label { "Kind "
                select name="kind" {
                    option value="" { "all" }
                    @for kind in &kinds { option value=(kind) selected[query.get("kind") == kind] { (kind) } }
                }
            }
            label .check { input type="checkbox" name="failing" value="1" checked[query.given("failing").is_some()]; " not ready" }
            @if let Some(cluster) = query.given("cluster") { input type="hidden" name="cluster" value=(cluster); span { "in " (cluster) } }
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
                        th { "Kind" } th { "Namespace" } th { "Name" } th { "State" } th .number { "Ready" }
                        th { "Clusters" } th { "Age" } th { "Message" }
                    } }
                    tbody {
                        @for Found { kind, object } in found.iter().skip(page * PAGE).take(PAGE) {
                            @let view = InstanceView(object);
                            @let (word, tone) = state(view);
                            @let resources = view.resources();
                            @let ready = resources.iter().filter(|it| it.state == kross_api::ResourceState::Ready).count();
                            tr {
                                td { (kind.kind) }
                                td { (view.namespace().unwrap_or("–")) }
                                td { a href=(address(kind, view.namespace(), view.name())) { (view.name()) } }
                                td { (parts::badge(word, tone)) }
                                td .number { (ready) "/" (resources.len()) }
                                td { @for cluster in view.clusters().iter().take(4) {
                                    (parts::badge(&cluster.name, if cluster.connected { Tone::Good } else { Tone::Bad })) " "
                                } }
                                td { (parts::ago(text(object, "/metadata/creationTimestamp"), now)) }
                                td .message { (for_people(view.message().unwrap_or_default(), now)) }
                            }
                        }
                    }
                }
            }
            (parts::pager(query, page, pages, total))
        }
    };
    Content::new("Instances", "Instances", body)
}

fn is_wanted(found: &Found, query: &Query) -> bool {
    let view = InstanceView(&found.object);
    let is_kind = query.given("kind").is_none_or(|kind| *kind == *found.kind.kind);
    let is_failing = query.given("failing").is_none() || !view.is_ready();
    let uses = |cluster: &str| {
        view.clusters().iter().any(|it| it.name == cluster || it.secret.as_deref() == Some(cluster))
    };
    let matches = |text: &str| {
        let text = text.to_lowercase();
        let has = |field: &str| field.to_lowercase().contains(&text);
        has(view.name())
            || has(view.kind())
            || view.namespace().is_some_and(has)
            || view.clusters().iter().any(|cluster| has(&cluster.name))
            || view.resources().iter().any(|it| it.name.as_deref().is_some_and(has) || has(&it.id))
    };
    is_kind && is_failing && query.given("cluster").is_none_or(uses) && query.given("q").is_none_or(matches)
}
