//! The page of a definition: its graph with the expressions on the edges, its conditions with the excerpts of mistakes, its
//! revisions, and its instances by state.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::drawing::{Drawing, Edge, Lane, Node};
use super::super::query::{Query, encoded};
use super::super::resources::{Resource, resources};
use super::super::viewer::Viewer;
use super::{Content, definitions, instances, parts, yaml};
use crate::read_model::{Definition, InstanceView, Tone, for_people};

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
            (name) (parts::badge(word, tone))
            small {
                "kind " (definition.served_kind().1) " · " (all.len()) " resources"
                @if let Some(revision) = definition.revision() { " · revision " (revision) }
            }
        }
        (mistakes(&definition, now))
        div .columns {
            div {
                @if all.is_empty() { (parts::empty("No resources", "This definition has no resources: its instances have only a status.", None)) }
                @else { (drawing(&all, query).canvas()) }
                (difference::revisions(viewer, &definition, query, now).await)
            }
            aside aria-label="Details" {
                @if let Some(resource) = selected { (panel(&definition, resource, &all, query)) }
                (counts(viewer, &definition).await)
                section { h2 { "Conditions" } (parts::conditions(&definition.0, now)) }
            }
        }
    };
    Content::new(name, "Definitions", body)
}

/// Conditions that are not true, with their whole message: it has the excerpt of a mistake, its code and its fix.
fn mistakes(definition: &Definition, now: Timestamp) -> Markup {
    let all = definition.0.pointer("/status/conditions").and_then(Json::as_array);
    let open = all.into_iter().flatten().filter(|it| it["status"] == "False" && it["type"] != "Ready");
    let mut said: Vec<&str> = Vec::new();
    html! {
        @for condition in open {
            @let message = condition["message"].as_str().unwrap_or_default();
            @if !said.contains(&message) {
                section .answer.bad.diagnostics aria-label="What is wrong with it" {
                    div {
                        p { strong { (condition["reason"].as_str().unwrap_or_default()) } " " span .note { (condition["type"].as_str().unwrap_or_default()) } }
                        pre tabindex="0" { @for line in for_people(message, now).lines() { (diagnostic_line(line)) "\n" } }
                    }
                    div {
                        (parts::command(&format!("kross why rgd/{}", definition.name())))
                        @for code in codes(message) { (parts::command(&format!("kross explain {code}"))) }
                    }
                }
            }
            ({ said.push(message); "" })
        }
    }
}

/// A line of a diagnostic, coloured by what it is.
fn diagnostic_line(line: &str) -> Markup {
    let start = line.trim_start();
    let class = match () {
        () if start.starts_with("error") => "bad",
        () if start.starts_with("warning") => "busy",
        () if start.starts_with("= help") || start.starts_with("help") => "good",
        () if start.starts_with("-->") || start.starts_with('|') => "faint",
        () => "plain",
    };
    html! { span .(class) { (line) } }
}

/// The codes of diagnostics in a text, such as `K012`.
fn codes(text: &str) -> BTreeSet<&str> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric());
    let is_code = |word: &&str| {
        word.strip_prefix('K')
            .is_some_and(|digits| digits.len() == 3 && digits.bytes().all(|it| it.is_ascii_digit()))
    };
    words.filter(is_code).collect()
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
                link: String::new(),
            });
            lanes.len() - 1
        });
    }
    let nodes = all.iter().map(|resource| Node {
        lane: index.get(resource.placement.as_str()).copied().unwrap_or_default(),
        title: resource.id.clone(),
        note: format!("{} {}", resource.kind, resource.name),
        reason: match (resource.external, resource.collection) {
            (true, _) => "external reference".to_owned(),
            (_, true) => "collection".to_owned(),
            _ => String::new(),
        },
        link: query.with("node", &resource.id),
        selected: query.get("node") == resource.id,
        external: resource.external,
        folded: resource.collection,
        ..Node::default()
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
        labels: true,
        fold: None,
    }
}

/// A resource: what it reads, who reads it, and its expressions.
fn panel(definition: &Definition, resource: &Resource, all: &[Resource], query: &Query) -> Markup {
    let listed = definition.0.pointer("/spec/resources").and_then(Json::as_array);
    let source = listed.into_iter().flatten().find(|it| it["id"] == resource.id.as_str());
    let expressions = |field: &str| -> Vec<String> {
        let texts = source.and_then(|source| source[field].as_array()).into_iter().flatten();
        texts.map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned)).collect()
    };
    let readers: Vec<(&Resource, &str)> = all
        .iter()
        .filter_map(|it| Some((it, it.reads.iter().find(|(id, _)| *id == resource.id)?.1.as_str())))
        .collect();
    html! {
        section .object {
            h2 { (resource.id) }
            a .close href=(query.with("node", "")) aria-label="Close the details" title="Close (Esc)" { "✕" }
            dl {
                dt { @if resource.external { "Reads" } @else { "Object" } } dd { (resource.kind) " " (resource.name) }
                dt { "Cluster" } dd { @if resource.placement.is_empty() { "hub" } @else { (resource.placement) } }
                @for field in ["forEach", "includeWhen", "readyWhen"] {
                    @for text in expressions(field) { dt { (field) } dd { code { (text) } } }
                }
            }
            @if !resource.reads.is_empty() {
                h3 { "Reads" }
                ul .list {
                    @for (id, expression) in &resource.reads { li { a href=(query.with("node", id)) { (id) } " " code { (expression) } } }
                }
            }
            @if !readers.is_empty() {
                h3 { "Read by" }
                ul .list {
                    @for (reader, expression) in readers { li { a href=(query.with("node", &reader.id)) { (reader.id) } " " code { (expression) } } }
                }
            }
            @if let Some(source) = source {
                details .yaml { summary { "YAML" } pre tabindex="0" { code { (yaml::text(source)) } } }
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
    let address = format!("/instances?kind={}", encoded(&kind.kind));
    let total: usize = states.values().map(|(_, count)| count).sum();
    let mut sorted: Vec<(&String, &(Tone, usize))> = states.iter().collect();
    sorted.sort_by_key(|(_, (tone, count))| {
        (*tone != Tone::Bad, *tone != Tone::Busy, std::cmp::Reverse(*count))
    });
    let bar: Vec<(Tone, usize)> = sorted.iter().map(|(_, part)| **part).collect();
    html! {
        section {
            h2 { a href=(address) { "Instances" } small { (total) } }
            @if total == 0 {
                p .note { "None yet. Create one:" }
                (parts::command(&format!("kubectl create -f {}.yaml", kind.kind.to_lowercase())))
            } @else {
                (parts::bar(&bar))
                ul .states {
                    @for (word, (tone, count)) in sorted {
                        li { a href=(format!("{address}&state={}", encoded(word))) { (parts::badge(word, *tone)) } span .number { (count) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_diagnostics_are_found_once() {
        let found = codes("error[K012]: a\nerror[K003]: b (K012) KEY K1234");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["K003", "K012"]);
    }
}
