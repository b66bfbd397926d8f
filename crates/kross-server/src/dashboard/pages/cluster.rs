//! The page of one cluster: its state and what helps, and what an outage affects: instances with their objects there, definitions,
//! targets.

use jiff::Timestamp;
use kross_api::{ManagedResource, ResourceState, SecretAddress};
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::query::Query;
use super::super::viewer::{Listed, Viewer};
use super::fleet::{TARGETS, or_dash};
use super::instances::{Found, all, state};
use super::{Content, instance, parts};
use crate::read_model::{CONNECTIONS, Definition, Fleet, FleetCluster, InstanceView, for_people};

/// The page.
pub(crate) async fn cluster(viewer: &Viewer, name: &str, query: &Query) -> Content {
    let now = Timestamp::now();
    let (found, refused) = all(viewer, None).await;
    let using: Vec<&Found> = found.iter().filter(|it| uses(InstanceView(&it.object), name)).collect();
    let objects: Vec<&Json> = using.iter().map(|it| &it.object).collect();
    let targets = viewer.list_named(TARGETS, None).await.and_then(Listed::ok).unwrap_or_default();
    let connections = viewer.list_named(CONNECTIONS, None).await.and_then(Listed::ok).unwrap_or_default();
    let fleet = Fleet::new(&objects, &targets, connections);
    let Some(cluster) = fleet.remotes.into_iter().find(|it| it.name == name) else {
        return Content::missing(
            "Fleet",
            &format!("No instance that you may read uses cluster {name}, and nothing is published of it."),
        );
    };
    let definitions = viewer.definitions().await.unwrap_or_default();
    let naming: Vec<&Definition> = definitions.iter().filter(|it| names(it, name)).collect();
    let (word, tone) = cluster.state_word();
    let body = html! {
        nav .crumbs aria-label="Breadcrumb" { a href="/" { "Fleet" } }
        h1 { (name) (parts::badge(word, tone)) small { "since " (parts::ago(cluster.since.as_deref(), now)) } }
        (answer(&cluster, now))
        @for (kind, error) in &refused { (parts::unreadable(&format!("{} objects", kind.kind), error)) }
        div .columns {
            div { (affected(&using, name, query, now)) }
            aside aria-label="Details" {
                (facts(&cluster, now))
                @if !naming.is_empty() {
                    section {
                        h2 { "Definitions that name it" }
                        p .note { "Their instances stay as they are during an outage; new revisions wait." }
                        ul .list { @for it in &naming { li { a href=(super::definitions::address(it.name())) { (it.name()) } } } }
                    }
                }
            }
        }
    };
    Content::new(name, "Fleet", body)
}

/// Whether an instance has objects in a cluster, by the Secret or the name of the cluster.
pub(super) fn uses(view: InstanceView<'_>, cluster: &str) -> bool {
    view.clusters().iter().any(|it| it.secret.as_deref() == Some(cluster) || it.name == cluster)
}

/// Whether a definition names the Secret literally.
fn names(definition: &Definition, cluster: &str) -> bool {
    SecretAddress::from_status(cluster).is_some_and(|secret| definition.names_statically(&secret))
}

fn answer(cluster: &FleetCluster, now: Timestamp) -> Markup {
    let check = format!("kross cluster check {}", cluster.name);
    html! {
        section .answer.(super::super::drawing::tone_class(cluster.state_word().1)) aria-label="State of the cluster" {
            div {
                @if cluster.is_connected() {
                    p { strong { "It is connected." } }
                } @else {
                    p { strong { (for_people(&cluster.message, now)) } }
                }
                @for warning in &cluster.warnings { p .note { (warning) } }
            }
            div {
                (parts::command(&check))
                @if !cluster.is_connected() { (parts::command(&format!("kross cluster affected {}", cluster.name))) }
            }
        }
    }
}

fn facts(cluster: &FleetCluster, now: Timestamp) -> Markup {
    html! {
        section {
            h2 { "Cluster" }
            dl {
                dt { "Secret" } dd { (cluster.name) }
                @if let Some(reason) = &cluster.reason { dt { "Reason" } dd { (reason) } }
                dt { "Last contact" } dd { @if cluster.is_connected() { "now" } @else { (parts::ago(cluster.last_contact.as_deref(), now)) } }
                dt { "Mode" } dd { (or_dash(&cluster.mode.to_lowercase())) }
                dt { "Round trip" } dd { (or_dash(&cluster.round_trip)) }
                dt { "Version" } dd { (or_dash(&cluster.version)) }
                dt { "Instances" } dd { (cluster.instances) }
                dt { "Objects" } dd { (cluster.objects) }
                @if let Some(expires) = &cluster.expires { dt { "Credential" } dd { "expires " (parts::until(expires, now)) } }
                @for target in &cluster.targets { dt { "Target" } dd { a href="/targets" { (target) } } }
            }
        }
    }
}

/// The instances with objects there, those that are not ready first.
fn affected(using: &[&Found], name: &str, query: &Query, now: Timestamp) -> Markup {
    let mut rows: Vec<&&Found> = using.iter().collect();
    rows.sort_by_cached_key(|it| {
        let view = InstanceView(&it.object);
        (view.is_ready(), view.kind().to_owned(), view.namespace().map(str::to_owned), view.name().to_owned())
    });
    let (page, pages) = parts::paged(query, rows.len());
    html! {
        h2 { "What an outage affects" small { (rows.len()) " instances" } }
        @if rows.is_empty() {
            (parts::empty("Nothing uses it", "No instance that you may read has objects in this cluster.", None))
        } @else {
            div .scroll {
                table {
                    thead { tr {
                        th scope="col" { "Instance" } th scope="col" { "State" } th .number scope="col" { "Objects here" }
                        th .number scope="col" { "Elsewhere" } th scope="col" { "What it says" }
                    } }
                    tbody {
                        @for it in rows.iter().skip(page * parts::PAGE).take(parts::PAGE) {
                            @let view = InstanceView(&it.object);
                            @let (word, tone) = state(view);
                            @let (here, elsewhere) = split(view, name);
                            tr {
                                th scope="row" { a href=(instance::address(&it.kind, view.namespace(), view.name())) { (view.title()) } }
                                td { (parts::badge(word, tone)) }
                                td .number { (ready(&here)) " / " (here.len()) }
                                td .number { (elsewhere) }
                                td .message { (for_people(view.message().unwrap_or_default(), now)) }
                            }
                        }
                    }
                }
            }
            (parts::pager(query, page, pages, rows.len()))
        }
    }
}

/// The objects of an instance in a cluster, and how many it has in others.
fn split(view: InstanceView<'_>, cluster: &str) -> (Vec<ManagedResource>, usize) {
    let clusters = view.clusters();
    let is_it = |name: &str| {
        clusters
            .iter()
            .any(|it| it.name == name && (it.secret.as_deref() == Some(cluster) || it.name == cluster))
    };
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        view.resources().into_iter().partition(|it| it.cluster.as_deref().is_some_and(is_it));
    (here, elsewhere.len())
}

fn ready(entries: &[ManagedResource]) -> usize {
    entries.iter().filter(|it| it.state == ResourceState::Ready).count()
}
