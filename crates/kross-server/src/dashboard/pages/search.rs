//! The search: clusters, definitions, instances, their objects, targets, claims and applications whose name has a text.

use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::query::{Query, encoded};
use super::super::viewer::{Listed, Viewer};
use super::instance::{HUB, key_of, tone};
use super::instances::{Found, all, state};
use super::{Content, definitions, fleet, instance, parts};
use crate::read_model::{CONNECTIONS, Fleet, InstanceView, Tone, condition};

/// Results of one kind.
const SHOWN: usize = 20;

/// One result.
struct Hit {
    address: String,
    title: String,
    note: String,
    state: Option<(String, Tone)>,
}

/// The results of one kind of thing.
struct Group {
    title: &'static str,
    hits: Vec<Hit>,
    /// The list that has them all.
    more: String,
}

/// The page.
pub(crate) async fn search(viewer: &Viewer, query: &Query) -> Content {
    let text = query.get("q").trim().to_lowercase();
    let title = if text.is_empty() { "Search".to_owned() } else { format!("Search: {text}") };
    if text.is_empty() {
        let body = html! {
            h1 { "Search" }
            (parts::empty("Search everything", "Type a part of the name of a cluster, definition, instance, object, target or claim. The key / leads here from every page.", None))
        };
        return Content::new(title, "Search", body);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let groups = groups(viewer, query, &words).await;
    let total: usize = groups.iter().map(|group| group.hits.len()).sum();
    let body = html! {
        h1 { "Search" small { (total) " results for “" (query.get("q").trim()) "”" } }
        @if total == 0 {
            (parts::empty("Nothing found", "Nothing that you may read has this in its name. Try a shorter part of it.", None))
        }
        @for group in groups.iter().filter(|group| !group.hits.is_empty()) { (shown(group)) }
    };
    Content::new(title, "Search", body)
}

fn shown(group: &Group) -> Markup {
    html! {
        section .results {
            h2 { (group.title) small { (group.hits.len()) } }
            ul {
                @for hit in group.hits.iter().take(SHOWN) {
                    li {
                        a href=(hit.address) {
                            strong { (hit.title) }
                            span .note { (hit.note) }
                            @if let Some((word, tone)) = &hit.state { (parts::badge(word, *tone)) }
                        }
                    }
                }
            }
            @if group.hits.len() > SHOWN { p { a href=(group.more) { "Show all " (group.hits.len()) } } }
        }
    }
}

async fn groups(viewer: &Viewer, query: &Query, words: &[&str]) -> [Group; 5] {
    let q = encoded(query.get("q").trim());
    let (found, _) = all(viewer, None).await;
    let list =
        async |kind: &str| viewer.list_named(kind, None).await.and_then(Listed::ok).unwrap_or_default();
    let (targets, connections) = (list(fleet::TARGETS).await, list(CONNECTIONS).await);
    let objects: Vec<&Json> = found.iter().map(|it| &it.object).collect();
    let fleet = Fleet::new(&objects, &targets, connections);
    let mut workloads = Vec::new();
    for kind in viewer.workload_kinds() {
        workloads.extend(viewer.list(&kind, None).await.unwrap_or_default());
    }
    let definitions = viewer.definitions().await.unwrap_or_default();
    let group = |title: &'static str, more: &str, hits: Vec<Hit>| Group {
        title,
        hits,
        more: format!("{more}?q={q}"),
    };
    let clusters =
        fleet.remotes.iter().filter(|it| has(words, &[&it.name, &it.targets.join(" ")])).map(|it| {
            let (word, tone) = it.state_word();
            let note = format!("{} instances", it.instances);
            Hit {
                address: fleet::address(&it.name),
                title: it.name.clone(),
                note,
                state: Some((word.to_owned(), tone)),
            }
        });
    let named = definitions.iter().filter(|it| has(words, &[it.name(), it.served_kind().1])).map(|it| {
        let (word, tone) = definitions::state(it);
        let (address, note) = (definitions::address(it.name()), format!("serves {}", it.served_kind().1));
        Hit { address, title: it.name().to_owned(), note, state: Some((word.to_owned(), tone)) }
    });
    let instances = found.iter().filter(|it| {
        let view = InstanceView(&it.object);
        has(words, &[view.kind(), &path(view.namespace(), view.name())])
    });
    let workloads = workloads.iter().filter(|it| has(words, &[&InstanceView(it).title()])).map(|it| {
        let is_ready = condition(it, "Ready").is_some_and(|ready| ready["status"] == "True");
        let state = if is_ready { ("Ready", Tone::Good) } else { ("Not ready", Tone::Bad) };
        let note = InstanceView(it).message().unwrap_or_default().to_owned();
        Hit {
            address: "/targets".to_owned(),
            title: InstanceView(it).title(),
            note,
            state: Some((state.0.to_owned(), state.1)),
        }
    });
    [
        group("Clusters", "/", clusters.collect()),
        group("Instances", "/instances", instances.map(instance_hit).collect()),
        group("Objects", "/instances", found.iter().flat_map(|it| object_hits(it, words)).collect()),
        group("Definitions", "/definitions", named.collect()),
        group("Targets, claims and applications", "/targets", workloads.collect()),
    ]
}

fn instance_hit(found: &Found) -> Hit {
    let view = InstanceView(&found.object);
    let (word, tone) = state(view);
    Hit {
        address: instance::address(&found.kind, view.namespace(), view.name()),
        title: view.title(),
        note: format!("{} objects", view.resources().len()),
        state: Some((word.to_owned(), tone)),
    }
}

/// The objects of an instance whose name has the words.
fn object_hits(found: &Found, words: &[&str]) -> Vec<Hit> {
    let view = InstanceView(&found.object);
    let page = instance::address(&found.kind, view.namespace(), view.name());
    let entries = view.resources();
    let matching = entries.iter().filter(|it| {
        let name = it.name.as_deref();
        name.is_some_and(|name| {
            has(words, &[it.kind.as_deref().unwrap_or_default(), &path(it.namespace.as_deref(), name)])
        })
    });
    let hits = matching.map(|it| Hit {
        address: format!("{page}{}", Query::default().with("node", &key_of(it))),
        title: format!(
            "{} {}",
            it.kind.as_deref().unwrap_or_default(),
            it.name.as_deref().unwrap_or_default()
        ),
        note: format!("{} in {}, of {}", it.id, it.cluster.as_deref().unwrap_or(HUB), view.title()),
        state: Some((it.state.as_str().to_owned(), tone(it.state))),
    });
    hits.collect()
}

/// `namespace/name`.
fn path(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// Whether every word is in one of the texts.
fn has(words: &[&str], texts: &[&str]) -> bool {
    let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
    words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_be_in_one_of_the_texts() {
        assert!(has(&["shop", "web"], &["Shop", "team", "web-1"]));
        assert!(!has(&["shop", "api"], &["Shop", "team", "web-1"]));
    }
}
