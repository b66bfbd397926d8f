//! The fleet: every cluster, those that fail first, and what is published of them. Each leads to what its outage affects.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::query::{Query, encoded};
use super::super::viewer::{Listed, Viewer};
use super::instances::all;
use super::{Content, parts};
use crate::read_model::{CONNECTIONS, Fleet, FleetCluster, InstanceView, Tone, condition, for_people, text};

/// The kind that publishes clusters.
pub(super) const TARGETS: &str = "kubernetestargets.workload.crossplane.io";
/// The kind that asks for clusters.
const CLAIMS: &str = "kubernetesclusters.compute.crossplane.io";
/// Credentials that expire sooner are worth a look.
const SOON: i64 = 14 * 86_400;

/// The address of the page of a cluster, by the Secret of its kubeconfig as statuses have it.
pub(super) fn address(name: &str) -> String {
    let parts: Vec<String> = name.split('/').map(encoded).collect();
    format!("/clusters/{}", parts.join("/"))
}

/// The page.
pub(crate) async fn fleet(viewer: &Viewer, query: &Query) -> Content {
    let now = Timestamp::now();
    let (found, refused) = all(viewer, query.given("namespace")).await;
    let objects: Vec<&Json> = found.iter().map(|it| &it.object).collect();
    let targets = viewer.list_named(TARGETS, query.given("namespace")).await.and_then(Listed::ok);
    let targets = targets.unwrap_or_default();
    let claims = viewer.list_named(CLAIMS, query.given("namespace")).await.and_then(Listed::ok);
    let connections = viewer.list_named(CONNECTIONS, None).await.and_then(Listed::ok);
    let fleet = Fleet::new(&objects, &targets, connections.unwrap_or_default());
    let wanted: Vec<&FleetCluster> = fleet.remotes.iter().filter(|it| is_wanted(it, query)).collect();
    let (page, pages) = parts::paged(query, wanted.len());
    let shown = wanted.iter().skip(page * parts::PAGE).take(parts::PAGE);
    let body = html! {
        h1 { "Fleet" small { (fleet.remotes.len()) " remote clusters" } }
        (figures(&fleet, now))
        @for (kind, error) in &refused { (parts::unreadable(&format!("{} objects", kind.kind), error)) }
        @if fleet.remotes.is_empty() {
            (parts::empty(
                "No remote clusters",
                "No instance that you may read uses a remote cluster. Register one, and name its Secret in a definition.",
                Some("kross cluster add CONTEXT --name NAME"),
            ))
        } @else {
            form .filters method="get" role="search" aria-label="Filter clusters" {
                (parts::text_filter(query, "cluster, target, version, reason"))
                (parts::failing_filter(query, "not connected"))
                button type="submit" { "Filter" }
            }
            @if wanted.is_empty() { (parts::empty("Nothing matches", "No cluster matches these filters.", None)) }
            @else {
                div .scroll {
                    table .clusters {
                        caption .hidden { "Clusters, those that fail first" }
                        thead { tr {
                            th scope="col" { "Cluster" } th scope="col" { "State" } th scope="col" { "Since" } th scope="col" { "Last contact" }
                            th scope="col" { "Mode" } th .number scope="col" { "Round trip" } th scope="col" { "Version" }
                            th .number scope="col" { "Instances" } th .number scope="col" { "Objects" } th scope="col" { "An outage affects" }
                        } }
                        tbody {
                            @for cluster in shown { (row(cluster, now)) }
                            @if page + 1 >= pages && query.given("q").is_none() && query.given("failing").is_none() { (hub_row(&fleet.hub, viewer).await) }
                        }
                    }
                }
                (parts::pager(query, page, pages, wanted.len()))
            }
        }
        (published(&targets, &claims.unwrap_or_default(), now))
    };
    Content::new("Fleet", "Fleet", body)
}

fn figures(fleet: &Fleet, now: Timestamp) -> Markup {
    let connected = fleet.remotes.iter().filter(|it| it.is_connected()).count();
    let lost = fleet.remotes.len() - connected;
    let ready = fleet.hub.instances - fleet.hub.not_ready;
    let objects: i64 = fleet.hub.objects + fleet.remotes.iter().map(|it| it.objects).sum::<i64>();
    let tone = |failing: usize| if failing == 0 { Tone::Good } else { Tone::Bad };
    let expiry = fleet.next_expiry();
    let is_soon =
        |time: &str| time.parse::<Timestamp>().is_ok_and(|then| then.as_second() - now.as_second() < SOON);
    html! {
        ul .tiles {
            (parts::tile(&html! { (connected) " / " (fleet.remotes.len()) }, "clusters connected", tone(lost), (lost > 0).then_some("/?failing=1")))
            (parts::tile(&html! { (ready) " / " (fleet.hub.instances) }, "instances ready", tone(fleet.hub.not_ready),
                Some(if fleet.hub.not_ready > 0 { "/instances?failing=1" } else { "/instances" })))
            (parts::tile(&html! { (objects) }, "objects managed", Tone::Plain, None))
            @match expiry {
                Some((time, cluster)) => (parts::tile(&parts::until(time, now), &format!("the next credential expires ({})", cluster.name),
                    if is_soon(time) { Tone::Busy } else { Tone::Plain }, Some(&address(&cluster.name)))),
                None => (parts::tile(&html! { "–" }, "no credential tells when it expires", Tone::Plain, None)),
            }
        }
    }
}

fn is_wanted(cluster: &FleetCluster, query: &Query) -> bool {
    let wanted = query.get("q").to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    let matches = has(&cluster.name)
        || has(&cluster.version)
        || has(&cluster.message)
        || cluster.reason.as_deref().is_some_and(has)
        || cluster.targets.iter().any(|target| has(target));
    matches && (query.given("failing").is_none() || !cluster.is_connected())
}

fn row(cluster: &FleetCluster, now: Timestamp) -> Markup {
    let (word, tone) = cluster.state_word();
    let page = address(&cluster.name);
    html! {
        tr .failing[tone == Tone::Bad] {
            th scope="row" {
                a href=(page) { (cluster.name) }
                @for target in &cluster.targets { small { "target " (target) } }
            }
            td {
                (parts::badge(word, tone))
                @if !cluster.is_connected() {
                    small .why-not title=(for_people(&cluster.message, now)) {
                        @match &cluster.reason { Some(reason) => (reason), None => (for_people(&cluster.message, now)) }
                    }
                }
                @if cluster.is_connected() && !cluster.warnings.is_empty() {
                    small .warned title=(cluster.warnings.join("\n")) { (cluster.warnings.len()) " warnings" }
                }
            }
            td { (parts::ago(cluster.since.as_deref(), now)) }
            td { @if cluster.is_connected() { "now" } @else { (parts::ago(cluster.last_contact.as_deref(), now)) } }
            td { (or_dash(&cluster.mode.to_lowercase())) }
            td .number { (or_dash(&cluster.round_trip)) }
            td { (or_dash(&cluster.version)) }
            td .number { (cluster.instances) }
            td .number {
                @if cluster.is_connected() && cluster.objects_ready > 0 { (cluster.objects_ready) " / " (cluster.objects) }
                @else { (cluster.objects) }
            }
            td {
                a href=(page) {
                    @match (cluster.instances, cluster.not_ready) {
                        (0, _) => "nothing",
                        (1, 0) => "1 instance",
                        (all, 0) => { (all) " instances" }
                        (all, failing) => { (failing) " of " (all) " not ready" }
                    }
                }
            }
        }
    }
}

/// The cluster of the instances: it answers, or there would be no page.
async fn hub_row(hub: &FleetCluster, viewer: &Viewer) -> Markup {
    let client = viewer.hub().client.client();
    let asked = tokio::time::timeout(std::time::Duration::from_secs(2), client.apiserver_version());
    let version =
        asked.await.ok().and_then(Result::ok).map(|it| it.git_version.trim_start_matches('v').to_owned());
    html! {
        tr {
            th scope="row" { a href="/instances" { "hub" } small { "cluster of the instances" } }
            td { (parts::badge("Connected", Tone::Good)) }
            td { (or_dash("")) } td { "now" } td { "watch" } td .number { (or_dash("")) }
            td { (or_dash(version.as_deref().unwrap_or_default())) }
            td .number { (hub.instances) }
            td .number { (hub.objects_ready) " / " (hub.objects) }
            td { a href="/instances" { (hub.instances) " instances" } }
        }
    }
}

/// A value, or that there is none.
pub(super) fn or_dash(text: &str) -> Markup {
    html! { @if text.is_empty() { span .none { "–" } } @else { (text) } }
}

/// What is published of clusters, and who asks for one.
fn published(targets: &[Json], claims: &[Json], now: Timestamp) -> Markup {
    let all: Vec<&Json> = claims.iter().chain(targets).collect();
    let is_ready = |object: &Json| condition(object, "Ready").is_some_and(|ready| ready["status"] == "True");
    let failing = all.iter().filter(|object| !is_ready(object));
    html! {
        @if !all.is_empty() {
            section .published {
                h2 { a href="/targets" { "Targets and claims" } small { (targets.len()) " targets, " (claims.len()) " claims" } }
                @if failing.clone().count() == 0 { p .note { "All of them are ready." } }
                ul .list {
                    @for object in failing.take(5) {
                        @let view = InstanceView(object);
                        li {
                            (parts::badge("Not ready", Tone::Bad)) " " (view.title()) " "
                            (parts::ago(condition(object, "Ready").and_then(|it| it["lastTransitionTime"].as_str()), now)) " "
                            span .note { (for_people(view.message().or(text(object, "/status/message")).unwrap_or_default(), now)) }
                        }
                    }
                }
            }
        }
    }
}
