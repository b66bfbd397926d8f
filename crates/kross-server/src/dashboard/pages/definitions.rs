//! The list of definitions, those that are not accepted first.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::query::{Query, encoded};
use super::super::viewer::Viewer;
use super::{Content, parts};
use crate::read_model::{Definition, InstanceView, Tone, failed_condition, for_people, text};

/// The address of the page of a definition.
pub(super) fn address(name: &str) -> String {
    format!("/definitions/{}", encoded(name))
}

/// The state of a definition as a word and a tone.
pub(super) fn state(definition: &Definition) -> (&str, Tone) {
    match definition.state() {
        "" => ("not reconciled yet", Tone::Busy),
        "Active" if definition.is_ready() => ("Active", Tone::Good),
        "Active" => ("Active, not ready", Tone::Busy),
        "Inactive" => ("Inactive", Tone::Bad),
        other => (other, Tone::Busy),
    }
}

/// The page.
pub(crate) async fn definitions(viewer: &Viewer, query: &Query) -> Content {
    let now = Timestamp::now();
    let mut all = match viewer.definitions().await {
        Ok(all) => all,
        Err(error) => {
            return Content::new(
                "Definitions",
                "Definitions",
                html! {
                    h1 { "Definitions" } (parts::unreadable("definitions", &error))
                },
            );
        }
    };
    let wanted = query.get("q").to_lowercase();
    all.retain(|it| {
        it.name().to_lowercase().contains(&wanted) || it.served_kind().1.to_lowercase().contains(&wanted)
    });
    all.sort_by_key(|it| (it.is_ready(), it.name().to_owned()));
    all.retain(|it| query.given("failing").is_none() || !it.is_ready());
    let total = all.len();
    let (page, pages) = parts::paged(query, total);
    let mut rows = Vec::new();
    for definition in all.into_iter().skip(page * parts::PAGE).take(parts::PAGE) {
        let instances = match viewer.kind_of(&definition).await {
            None => None,
            Some(kind) => viewer.list(&kind, query.given("namespace")).await.ok(),
        };
        let counts = instances.map(|mut all| {
            all.retain(|object| definition.has_instance(object));
            (all.len(), all.iter().filter(|object| !InstanceView(object).is_ready()).count())
        });
        rows.push((definition, counts));
    }
    let is_filtered = query.given("q").is_some() || query.given("failing").is_some();
    let body = html! {
        h1 { "Definitions" small { (total) } }
        form .filters method="get" role="search" aria-label="Filter definitions" {
            (parts::text_filter(query, "name or kind"))
            (parts::failing_filter(query, "not ready"))
            button type="submit" { "Filter" }
        }
        @if rows.is_empty() && is_filtered {
            (parts::empty("Nothing matches", "No definition matches these filters.", None))
        } @else if rows.is_empty() {
            (parts::empty("No definitions", "A definition describes a kind and the graph of its objects.", Some("kubectl apply -f definition.yaml")))
        } @else {
            div .scroll {
                table {
                    thead { tr {
                        th scope="col" { "Definition" } th scope="col" { "Kind" } th scope="col" { "State" } th .number scope="col" { "Resources" }
                        th .number scope="col" { "Revision" } th scope="col" { "Instances ready" } th scope="col" { "Age" } th scope="col" { "Message" }
                    } }
                    tbody { @for (definition, counts) in &rows { (row(definition, *counts, now)) } }
                }
            }
            (parts::pager(query, page, pages, total))
        }
    };
    Content::new("Definitions", "Definitions", body)
}

/// A definition, and how many instances it has and how many of them are not ready.
fn row(definition: &Definition, counts: Option<(usize, usize)>, now: Timestamp) -> Markup {
    let (word, tone) = state(definition);
    let instances = format!("/instances?kind={}", encoded(definition.served_kind().1));
    let failed = failed_condition(&definition.0).and_then(|it| it["message"].as_str()).unwrap_or_default();
    let message = failed.lines().next().unwrap_or_default();
    let resources = definition.0.pointer("/spec/resources").and_then(Json::as_array).map_or(0, Vec::len);
    html! {
        tr .failing[tone == Tone::Bad] {
            th scope="row" { a href=(address(definition.name())) { (definition.name()) } }
            td { (definition.served_kind().1) }
            td { (parts::badge(word, tone)) }
            td .number { (resources) }
            td .number { @if let Some(revision) = definition.revision() { (revision) } @else { span .none { "–" } } }
            td {
                @match counts {
                    Some((total, failing)) => {
                        a .counted href=(instances) {
                            (parts::bar(&[(Tone::Good, total - failing), (Tone::Bad, failing)]))
                            (total - failing) " / " (total)
                        }
                    }
                    None => span .none { "not served" },
                }
            }
            td { (parts::ago(text(&definition.0, "/metadata/creationTimestamp"), now)) }
            td .message title=(failed) { (for_people(message, now)) }
        }
    }
}
