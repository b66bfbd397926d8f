//! The page of a definition: its graph with the expressions on the edges, its conditions with the excerpts of mistakes, its
//! revisions, and its instances by state.

use std::collections::BTreeMap;

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::drawing::{Drawing, Edge, Lane, Node};
use super::super::query::{Query, encoded};
use super::super::resources::{Resource, resources};
use super::super::viewer::Viewer;
use super::{Content, definitions, instances, parts};
use crate::read_model::{Definition, InstanceView, Tone, for_people, text};

mod difference;

/// The page.
pub(crate) async fn definition(viewer: &Viewer, name: &str, query: &Query) -> Content {
    let now = Timestamp::now();
    let found = match viewer.definitions().await {
        Err(error) => return Content::new(name, "Definitions", parts::unreadable("definitions", &error)),
        Ok(all) => all.into_iter().find(|it| it.name() == name),
    };
    let Some(definition) = found else {
        return Content::missing("Definitions", &format!("ResourceGraphDefinition {name} does not exist."));
    };
    let all = resources(&definition);
    let (word, tone) = definitions::state(&definition);
    let selected = all.iter().find(|resource| resource.id == query.get("node"));
    let body = html! {
        nav .crumbs aria-label="Breadcrumb" { a href="/definitions" { "Definitions" } }
        h1 {
            (name) " " (parts::badge(word, tone))
            small {
                "kind " (definition.served_kind().1) " · " (all.len()) " resources"
                @if let Some(revision) = definition.revision() { " · revision " (revision) }
            }
        }
        (mistakes(&definition, now))
        div .columns {
            div .canvas tabindex="0" role="region" aria-label="Graph" { (drawing(&all, query).svg()) }
            aside aria-label="Details" {
                @if let Some(resource) = selected { (panel(&definition, resource)) }
                (conditions(&definition, now))
                (counts(viewer, &definition).await)
                (difference::revisions(viewer, &definition, query, now).await)
            }
        }
    };
    Content::new(name, "Definitions", body)
}

/// Conditions that are not true, with their whole message: it has the excerpt of a mistake, its code and its fix.
fn mistakes(definition: &Definition, now: Timestamp) -> Markup {
    let all = definition.0.pointer("/status/conditions").and_then(Json::as_array);
    let open = all.into_iter().flatten().filter(|it| it["status"] == "False" && it["type"] != "Ready");
    html! {
        @for condition in open {
            section .why {
                p { strong { (condition["type"].as_str().unwrap_or_default()) ": " (condition["reason"].as_str().unwrap_or_default()) } }
                pre tabindex="0" { (for_people(condition["message"].as_str().unwrap_or_default(), now)) }
                (parts::command(&format!("kross why rgd/{}", definition.name())))
            }
        }
    }
}

/// One lane per cluster as it is written in the definition.
fn drawing(all: &[Resource], query: &Query) -> Drawing {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lanes = Vec::new();
    for resource in all {
        index.entry(&resource.placement).or_insert_with(|| {
            let is_local = resource.placement.is_empty();
            lanes.push(Lane {
                name: if is_local { "hub".to_owned() } else { resource.placement.clone() },
                note: if is_local {
                    "cluster of the instance".to_owned()
                } else {
                    "remote cluster".to_owned()
                },
                tone: Tone::Plain,
            });
            lanes.len() - 1
        });
    }
    let nodes = all.iter().map(|resource| Node {
        lane: index.get(resource.placement.as_str()).copied().unwrap_or_default(),
        title: if resource.collection { format!("{} × n", resource.id) } else { resource.id.clone() },
        note: match resource.external {
            true => format!("{} · external", resource.kind),
            false => format!("{} {}", resource.kind, resource.name),
        },
        state: String::new(),
        tone: Tone::Plain,
        link: query.with("node", &resource.id),
        selected: query.get("node") == resource.id,
        external: resource.external,
    });
    let place = |id: &str| all.iter().position(|resource| resource.id == id);
    let edges = all.iter().enumerate().flat_map(|(to, resource)| {
        let of = |(id, label): &(String, String)| {
            Some(Edge { from: place(id)?, to, label: label.clone(), blocked: false })
        };
        resource.reads.iter().filter_map(of).collect::<Vec<_>>()
    });
    Drawing {
        label: "Graph of the definition".to_owned(),
        edges: edges.collect(),
        nodes: nodes.collect(),
        lanes,
    }
}

/// A resource: what it reads, who reads it, and when it is ready.
fn panel(definition: &Definition, resource: &Resource) -> Markup {
    let listed = definition.0.pointer("/spec/resources").and_then(Json::as_array);
    let source = listed.into_iter().flatten().find(|it| it["id"] == resource.id.as_str());
    let expressions = |field: &str| -> Vec<String> {
        let texts = source.and_then(|source| source[field].as_array()).into_iter().flatten();
        texts.map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned)).collect()
    };
    html! {
        section .object {
            h2 { (resource.id) }
            dl {
                dt { "Object" } dd { (resource.kind) " " (resource.name) }
                dt { "Cluster" } dd { @if resource.placement.is_empty() { "hub" } @else { (resource.placement) } }
                @for (id, expression) in &resource.reads { dt { "Reads " (id) } dd { code { (expression) } } }
                @for field in ["forEach", "includeWhen", "readyWhen"] {
                    @for text in expressions(field) { dt { (field) } dd { code { (text) } } }
                }
            }
        }
    }
}

fn conditions(definition: &Definition, now: Timestamp) -> Markup {
    let all = definition.0.pointer("/status/conditions").and_then(Json::as_array);
    html! {
        section {
            h2 { "Conditions" }
            dl .conditions {
                @for condition in all.into_iter().flatten() {
                    @let status = condition["status"].as_str().unwrap_or_default();
                    @let tone = match status { "True" => Tone::Good, "False" => Tone::Bad, _ => Tone::Busy };
                    dt { (condition["type"].as_str().unwrap_or_default()) }
                    dd {
                        (parts::badge(status, tone)) " " (condition["reason"].as_str().unwrap_or_default()) " "
                        (parts::ago(condition["lastTransitionTime"].as_str(), now))
                    }
                }
            }
        }
    }
}

/// The instances by state.
async fn counts(viewer: &Viewer, definition: &Definition) -> Markup {
    let Some(kind) = viewer.kind_of(definition).await else { return html! {} };
    let listed = match viewer.list(&kind, None).await {
        Err(error) => return parts::unreadable(&format!("{} objects", kind.kind), &error),
        Ok(listed) => listed,
    };
    let mut states: BTreeMap<String, (Tone, usize)> = BTreeMap::new();
    for object in listed.iter().filter(|object| definition.has_instance(object)) {
        let (word, tone) = instances::state(InstanceView(object));
        states.entry(word.to_owned()).or_insert((tone, 0)).1 += 1;
    }
    let address = format!(
        "/instances?kind={}",
        encoded(text(&definition.0, "/spec/schema/kind").unwrap_or(&kind.kind))
    );
    html! {
        section {
            h2 { a href=(address) { "Instances" } }
            @if states.is_empty() { p .note { "None." } }
            ul .states { @for (word, (tone, count)) in &states { li { (parts::badge(word, *tone)) " " (count) } } }
        }
    }
}
