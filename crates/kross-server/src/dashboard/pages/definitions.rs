//! The list of definitions, those that are not accepted first.

use jiff::Timestamp;
use maud::html;

use super::super::query::{Query, encoded};
use super::super::viewer::Viewer;
use super::{Content, parts};
use crate::read_model::{Definition, InstanceView, Tone, failed_condition, for_people, text};

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
    let mut rows = Vec::new();
    for definition in all {
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
    let body = html! {
        h1 { "Definitions " small { (rows.len()) } }
        @if rows.is_empty() {
            (parts::empty("No definitions", "A definition describes a kind and the graph of its objects.", Some("kubectl apply -f definition.yaml")))
        } @else {
            div .scroll {
                table {
                    thead { tr {
                        th { "Name" } th { "Kind" } th { "State" } th .number { "Revision" } th .number { "Instances" }
                        th .number { "Not ready" } th { "Age" } th { "Message" }
                    } }
                    tbody {
                        @for (definition, counts) in &rows {
                            @let (word, tone) = state(definition);
                            @let instances = format!("/instances?kind={}", encoded(definition.served_kind().1));
                            @let failed = failed_condition(&definition.0).and_then(|it| it["message"].as_str());
                            tr {
                                td { a href=(format!("/definitions/{}", encoded(definition.name()))) { (definition.name()) } }
                                td { (definition.served_kind().1) }
                                td { (parts::badge(word, tone)) }
                                td .number { @if let Some(revision) = definition.revision() { (revision) } }
                                @match counts {
                                    Some((total, failing)) => {
                                        td .number { a href=(instances) { (total) } }
                                        td .number { @if *failing > 0 { a href=(format!("{instances}&failing=1")) { (failing) } } @else { "0" } }
                                    }
                                    None => { td .number { "–" } td .number { "–" } }
                                }
                                td { (parts::ago(text(&definition.0, "/metadata/creationTimestamp"), now)) }
                                td .message { (for_people(failed.unwrap_or_default(), now)) }
                            }
                        }
                    }
                }
            }
        }
    };
    Content::new("Definitions", "Definitions", body)
}
