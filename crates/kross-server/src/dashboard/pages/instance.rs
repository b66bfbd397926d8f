//! The page of an instance: one lane per cluster with the objects in it, what they wait for, and why in one sentence.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kross_api::{ClusterStatus, ManagedResource, ResourceState};
use kross_cluster::ApiKind;
use maud::{Markup, html};

use super::super::drawing::{Drawing, Edge, Lane, Node, tone_class};
use super::super::query::{Query, encoded};
use super::super::resources::{Resource, resources};
use super::super::viewer::Viewer;
use super::{Content, fleet, object, parts, timeline};
use crate::read_model::why::{Answer, Investigation};
use crate::read_model::{Definition, InstanceView, Tone, condition, for_people, since, text};

/// The name of the lane of the hub.
pub(super) const HUB: &str = "hub";
/// More items of one resource in a cluster are drawn as one node, unless it is opened.
const FOLD: usize = 3;
/// Rows of the table of objects that are shown without being asked for.
const OPEN_ROWS: usize = 40;

/// The address of the page of an instance.
pub(super) fn address(kind: &ApiKind, namespace: Option<&str>, name: &str) -> String {
    let (group, plural) = (&kind.group, &kind.plural);
    format!("/instances/{plural}.{group}/{}/{}", encoded(namespace.unwrap_or("-")), encoded(name))
}

/// The page.
pub(crate) async fn instance(viewer: &Viewer, [kind, namespace, name]: [&str; 3], query: &Query) -> Content {
    let Ok(kind) = viewer.hub().kind(kind) else {
        return Content::missing("Instances", &format!("The hub does not serve {kind}."));
    };
    let namespace = Some(namespace).filter(|namespace| *namespace != "-");
    let now = Timestamp::now();
    let found = match viewer.list(&kind, namespace).await {
        Err(error) => {
            return Content::new(
                name,
                "Instances",
                parts::unreadable(&format!("{} objects", kind.kind), &error),
            );
        }
        Ok(all) => all.into_iter().find(|object| text(object, "/metadata/name") == Some(name)),
    };
    let Some(found) = found else {
        return Content::missing(
            "Instances",
            &format!("{} {name} does not exist, or does not exist any more.", kind.kind),
        );
    };
    let definition = definition_of(viewer, &kind).await;
    let view = InstanceView(&found);
    let resources = definition.as_ref().map(resources).unwrap_or_default();
    let selected =
        object::Selected { viewer, view, definition: definition.as_ref(), resources: &resources, now };
    let why = async {
        match view.is_ready() {
            true => None,
            false => Investigation::new(viewer.hub(), now).examine(found.clone()).await.ok(),
        }
    };
    let side = async {
        match query.given("node") {
            Some(node) => selected.panel(node, query).await,
            None => html! {},
        }
    };
    let (why, side) = futures::join!(why, side);
    let shown = Shown { view, resources: &resources, now, query };
    let body = html! {
        (shown.heading(&kind, definition.as_ref()))
        (explanation(view, why.as_ref(), now))
        div .columns.beside[query.given("node").is_some()] {
            @if view.resources().is_empty() && resources.is_empty() {
                (parts::empty("Nothing is drawn yet", "No controller has reconciled this instance, and you may not read its definition.", Some(&format!("kross why {}", view.argument()))))
            } @else { (shown.drawing().canvas()) }
            aside aria-label="Details" { (side) }
        }
        div .below {
            (timeline::section(viewer, &found, now).await)
            section { h2 { "Conditions" } (parts::conditions(&found, now)) }
        }
        (shown.table())
    };
    Content::new(view.title(), "Instances", body)
}

async fn definition_of(viewer: &Viewer, kind: &Arc<ApiKind>) -> Option<Definition> {
    let version = format!("{}/{}", kind.group, kind.version);
    viewer.definitions().await.ok()?.into_iter().find(|definition| definition.serves(&version, &kind.kind))
}

/// The sentence that comes first, and the commands that help. It is there when everything is ready, too: nothing moves when that
/// changes.
fn explanation(view: InstanceView<'_>, why: Option<&Answer>, now: Timestamp) -> Markup {
    let tone = match why {
        Some(_) if view.state() == "ERROR" => Tone::Bad,
        Some(_) => Tone::Busy,
        None if view.is_ready() => Tone::Good,
        None => Tone::Busy,
    };
    let ready = condition(view.0, "Ready").and_then(|it| it["lastTransitionTime"].as_str());
    html! {
        section .answer.(tone_class(tone)) aria-label="Why it is not ready" tabindex="0" {
            @match why {
                None if view.is_ready() => div {
                    p { strong { "Everything is as desired." } }
                    p .note { (view.resources().len()) " objects, ready for " (parts::ago(ready, now)) }
                },
                None => div { p { strong { (parts::prose(&sentence(view.message().unwrap_or("it is not ready")), now)) } } },
                Some(why) => {
                    div {
                        p { strong { (parts::prose(&sentence(&why.why), now)) } }
                        @for note in &why.notes { p .note { (parts::prose(note, now)) } }
                    }
                    div {
                        @for next in &why.next { (parts::command(next)) }
                        @if why.chain.len() > 1 {
                            ol .chain {
                                @for link in &why.chain { li { (link.object) " " (parts::badge(&link.state, link.tone)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A text with a capital letter, as a sentence begins.
pub(super) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// What the page shows of an instance.
struct Shown<'a> {
    view: InstanceView<'a>,
    resources: &'a [Resource],
    now: Timestamp,
    query: &'a Query,
}

impl Shown<'_> {
    fn heading(&self, kind: &ApiKind, definition: Option<&Definition>) -> Markup {
        let view = self.view;
        let (ready, clusters, objects) = (view.is_ready(), view.clusters().len() + 1, view.resources().len());
        let (word, tone) = match (ready, view.is_suspended()) {
            (_, true) => ("Suspended", Tone::Busy),
            (true, _) => ("Ready", Tone::Good),
            _ if view.state() == "ERROR" => ("Not ready", Tone::Bad),
            _ => ("Not ready", Tone::Busy),
        };
        html! {
            nav .crumbs aria-label="Breadcrumb" {
                a href="/instances" { "Instances" } " › "
                a href=(format!("/instances?kind={}", encoded(&kind.kind))) { (kind.kind) }
                @if let Some(namespace) = view.namespace() {
                    " › " a href=(format!("/instances?namespace={}", encoded(namespace))) { (namespace) }
                }
            }
            h1 {
                (view.name()) " " (parts::badge(word, tone))
                small .facts {
                    (clusters) @if clusters == 1 { " cluster" } @else { " clusters" }
                    " · " (objects) @if objects == 1 { " object" } @else { " objects" }
                    @if let Some(definition) = definition {
                        " · " a href=(format!("/definitions/{}", encoded(definition.name()))) { "definition " (definition.name()) }
                        @if let Some(revision) = definition.revision() { " · revision " (revision) }
                    }
                    // Last: the words before it do not move when it changes.
                    " · " (view.state())
                }
            }
        }
    }

    fn drawing(&self) -> Drawing {
        let (lanes, index) = self.lanes();
        let mut nodes: Vec<Node> = Vec::new();
        let mut of_resource: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for ((id, cluster), entries) in self.grouped() {
            let lane = index.get(cluster.as_str()).copied().unwrap_or_default();
            let folds = entries.len() > FOLD && self.query.get("open") != id;
            let drawn = if folds {
                vec![self.folded(&id, lane, &entries)]
            } else {
                entries.iter().map(|entry| self.node(entry, lane)).collect()
            };
            for node in drawn {
                of_resource.entry(id.clone()).or_default().push(nodes.len());
                nodes.push(node);
            }
        }
        for resource in self.resources.iter().filter(|resource| resource.external) {
            if !of_resource.contains_key(&resource.id) {
                of_resource.entry(resource.id.clone()).or_default().push(nodes.len());
                nodes.push(self.external(resource, &index));
            }
        }
        let edges = self.edges(&nodes, &of_resource);
        let label = format!("Objects of {} by cluster", self.view.title());
        let fold = self.query.given("open").map(|_| self.query.with("open", ""));
        Drawing { label, lanes, nodes, edges, labels: false, fold }
    }

    /// The hub comes first, then the clusters of the status.
    fn lanes(&self) -> (Vec<Lane>, BTreeMap<String, usize>) {
        let mut index: BTreeMap<String, usize> = [(String::new(), 0)].into();
        let (name, note) = (HUB.to_owned(), "cluster of the instance".to_owned());
        let hub = Lane { name, note, tone: Tone::Good, link: String::new() };
        let mut lanes = vec![hub];
        for cluster in self.view.clusters() {
            index.insert(cluster.name.clone(), lanes.len());
            lanes.push(self.lane(&cluster));
        }
        for entry in self.view.resources() {
            let name = entry.cluster.unwrap_or_default();
            if !index.contains_key(&name) {
                index.insert(name.clone(), lanes.len());
                lanes.push(Lane { name, note: String::new(), tone: Tone::Plain, link: String::new() });
            }
        }
        (lanes, index)
    }

    fn lane(&self, cluster: &ClusterStatus) -> Lane {
        let ready = format!("{}/{} ready", cluster.ready, cluster.total);
        let (note, tone) = if cluster.connected {
            let tone = if cluster.ready == cluster.total { Tone::Good } else { Tone::Busy };
            (format!("connected · {} · {ready}", cluster.mode.as_str().to_lowercase()), tone)
        } else {
            let since = since(cluster.since.as_deref(), self.now);
            (format!("not connected for {since} · {ready}"), Tone::Bad)
        };
        let link = cluster.secret.as_deref().map(fleet::address).unwrap_or_default();
        Lane { name: cluster.name.clone(), note, tone, link }
    }

    /// The entries of the status by resource and cluster, in the order of the status.
    fn grouped(&self) -> Vec<((String, String), Vec<ManagedResource>)> {
        let mut groups: Vec<((String, String), Vec<ManagedResource>)> = Vec::new();
        for entry in self.view.resources() {
            let key = (entry.id.clone(), entry.cluster.clone().unwrap_or_default());
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, entries)) => entries.push(entry),
                None => groups.push((key, vec![entry])),
            }
        }
        groups
    }

    fn node(&self, entry: &ManagedResource, lane: usize) -> Node {
        let kind = entry.kind.clone().unwrap_or_default();
        let name = entry.name.clone().unwrap_or_default();
        let key = key_of(entry);
        let is_summary =
            entry.name.is_none() && self.resources.iter().any(|it| it.id == entry.id && it.collection);
        let message =
            entry.message.as_deref().map(|message| for_people(message, self.now)).unwrap_or_default();
        let reason = entry.reason.map(|reason| reason.as_str().to_owned());
        // Without a reason, the first words of the message say what it waits for.
        let reason = reason.unwrap_or_else(|| {
            if entry.state == ResourceState::Ready { String::new() } else { message.replace('`', "") }
        });
        Node {
            lane,
            title: entry.id.clone(),
            note: if is_summary {
                format!("{kind} · collection")
            } else {
                format!("{kind} {name}").trim().to_owned()
            },
            folded: is_summary,
            state: entry.state.as_str().to_owned(),
            tone: tone(entry.state),
            selected: self.query.get("node") == key,
            link: self.query.with("node", &key),
            reason,
            message,
            since: parts::ago(entry.last_update_time.as_deref(), self.now),
            ..Node::default()
        }
    }

    fn folded(&self, id: &str, lane: usize, entries: &[ManagedResource]) -> Node {
        let ready = entries.iter().filter(|entry| entry.state == ResourceState::Ready).count();
        let weight = |state: ResourceState| match tone(state) {
            Tone::Bad => 3,
            Tone::Busy => 2,
            Tone::Good => 1,
            Tone::Plain | Tone::Faint => 0,
        };
        let worst = entries.iter().max_by_key(|entry| weight(entry.state));
        let state = worst.map_or(ResourceState::Ready, |entry| entry.state);
        let kind = entries.iter().find_map(|entry| entry.kind.as_deref()).unwrap_or_default();
        Node {
            lane,
            title: format!("{id} × {}", entries.len()),
            note: format!("{kind} · {ready} of {} ready", entries.len()),
            state: state.as_str().to_owned(),
            reason: worst.and_then(|entry| entry.reason).map(|it| it.as_str().to_owned()).unwrap_or_default(),
            tone: tone(state),
            link: self.query.with("open", id),
            folded: true,
            ..Node::default()
        }
    }

    fn external(&self, resource: &Resource, index: &BTreeMap<String, usize>) -> Node {
        let named = index.iter().find(|(name, _)| {
            !resource.placement.is_empty() && name.rsplit('/').next() == Some(resource.placement.as_str())
        });
        let key = format!("{}|||", resource.id);
        Node {
            lane: named.map(|(_, lane)| *lane).unwrap_or_default(),
            title: resource.id.clone(),
            note: format!("{} {}", resource.kind, resource.name),
            reason: "external reference".to_owned(),
            selected: self.query.get("node") == key,
            link: self.query.with("node", &key),
            external: true,
            ..Node::default()
        }
    }

    /// The edges between what is drawn. Where both ends are in several clusters, those within one cluster.
    fn edges(&self, nodes: &[Node], of_resource: &BTreeMap<String, Vec<usize>>) -> Vec<Edge> {
        let mut edges = Vec::new();
        for resource in self.resources {
            let Some(readers) = of_resource.get(&resource.id) else { continue };
            for (read, expression) in &resource.reads {
                let Some(sources) = of_resource.get(read) else { continue };
                let pairs = sources.iter().flat_map(|from| readers.iter().map(move |to| (*from, *to)));
                let lane = |node: usize| nodes.get(node).map(|node| node.lane);
                let is_many = sources.len() > 1 && readers.len() > 1;
                edges.extend(pairs.filter(|(from, to)| !is_many || lane(*from) == lane(*to)).map(
                    |(from, to)| {
                        let is_open = |node: usize| {
                            nodes.get(node).is_some_and(|node| matches!(node.tone, Tone::Bad | Tone::Busy))
                        };
                        Edge { from, to, label: expression.clone(), blocked: is_open(from) && is_open(to) }
                    },
                ));
            }
        }
        edges
    }

    /// The same as a table, for those who do not see the drawing, and for print.
    fn table(&self) -> Markup {
        let entries = self.view.resources();
        html! {
            details .objects open[entries.len() <= OPEN_ROWS] {
                summary { "All objects (" (entries.len()) ")" }
                div .scroll {
                    table {
                        thead { tr {
                            th scope="col" { "Resource" } th scope="col" { "Object" } th scope="col" { "Cluster" } th scope="col" { "State" }
                            th scope="col" { "Since" } th scope="col" { "Message" }
                        } }
                        tbody {
                            @for entry in &entries {
                                tr {
                                    th scope="row" { a href=(self.query.with("node", &key_of(entry))) { (entry.id) } }
                                    td { (entry.kind.as_deref().unwrap_or_default()) " " (entry.name.as_deref().unwrap_or_default()) }
                                    td { (entry.cluster.as_deref().unwrap_or(HUB)) }
                                    td { (parts::badge(entry.state.as_str(), tone(entry.state))) }
                                    td { (parts::ago(entry.last_update_time.as_deref(), self.now)) }
                                    (parts::cell(&said(entry), self.now))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What the status says of an entry.
fn said(entry: &ManagedResource) -> String {
    let parts = entry.reason.map(|it| it.as_str().to_owned()).into_iter().chain(entry.message.clone());
    parts.collect::<Vec<_>>().join(": ")
}

/// What selects an entry: its id, cluster and name.
pub(super) fn key_of(entry: &ManagedResource) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}|{}|{}|{}", entry.id, part(&entry.cluster), part(&entry.namespace), part(&entry.name))
}

pub(super) fn tone(state: ResourceState) -> Tone {
    match state {
        ResourceState::Ready => Tone::Good,
        ResourceState::Error => Tone::Bad,
        ResourceState::Skipped | ResourceState::Retained => Tone::Faint,
        ResourceState::Pending
        | ResourceState::Blocked
        | ResourceState::Applying
        | ResourceState::Deleting => Tone::Busy,
    }
}

#[cfg(test)]
mod tests;
