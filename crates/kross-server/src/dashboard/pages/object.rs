//! The panel of one object: what the status says about it and the command that helps, the values that it reads from others, and
//! the object itself, its conditions and its Events, where the user may read them. Values of Secrets are not shown.

use futures::future::join_all;
use jiff::Timestamp;
use kross_api::ManagedResource;
use kross_cluster::ClusterClient;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::query::Query;
use super::super::resources::Resource;
use super::super::viewer::Viewer;
use super::instance::{HUB, key_of, tone};
use super::{parts, timeline, yaml};
use crate::read_model::why::commands_for;
use crate::read_model::{Definition, InstanceView, RemoteClusters, for_people, read_object};

/// Values that a panel shows at most: each is read from its cluster.
const MAX_VALUES: usize = 12;
/// Characters of a value.
const VALUE_LENGTH: usize = 120;

/// What the panel of a node is about.
pub(super) struct Selected<'a> {
    pub(super) viewer: &'a Viewer,
    pub(super) view: InstanceView<'a>,
    pub(super) definition: Option<&'a Definition>,
    pub(super) resources: &'a [Resource],
    pub(super) now: Timestamp,
}

/// An object in its cluster.
struct Live {
    object: Json,
    client: ClusterClient,
}

impl Selected<'_> {
    /// The panel of the node with a key.
    pub(super) async fn panel(&self, node: &str, query: &Query) -> Markup {
        let entries = self.view.resources();
        let resource = self.resources.iter().find(|it| it.id == node.split('|').next().unwrap_or_default());
        let Some(entry) = entries.iter().find(|entry| key_of(entry) == node) else {
            return html! {
                section .object {
                    (close(query))
                    @match resource {
                        Some(resource) => {
                            h2 { (resource.id) }
                            dl { dt { "Object" } dd { (resource.kind) " " (resource.name) } }
                            p .note { @if resource.external { "It is read, and not managed." } @else { "The status lists no object of it." } }
                        }
                        None => { h2 { "Not found" } p { "This object is not in the status any more." } }
                    }
                }
            };
        };
        let remotes = RemoteClusters::new(self.viewer.hub());
        let (found, values) =
            futures::join!(self.read(&remotes, entry), self.values(&remotes, resource, entry, &entries));
        html! {
            section .object {
                h2 { (entry.id) (parts::badge(entry.state.as_str(), tone(entry.state))) }
                (close(query))
                @if let Some(message) = &entry.message { p .says { (for_people(message, self.now)) } }
                @for command in self.commands(entry) { (parts::command(&command)) }
                (self.facts(entry))
                (values)
                (self.readers(entry, &entries, query))
                @match found {
                    Ok(live) => (self.live(live).await),
                    Err(why) => p .note { (why) },
                }
            }
        }
    }

    /// The commands that help, if something is wrong with it.
    fn commands(&self, entry: &ManagedResource) -> Vec<String> {
        let name = self.definition.map(Definition::name);
        let cluster = self.view.clusters().into_iter().find(|it| Some(&it.name) == entry.cluster.as_ref());
        commands_for(entry, cluster.as_ref(), self.view, name)
    }

    fn facts(&self, entry: &ManagedResource) -> Markup {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        html! {
            dl {
                dt { "Object" } dd { (text(&entry.api_version)) " " (text(&entry.kind)) }
                dt { "Name" } dd {
                    @if let Some(namespace) = &entry.namespace { (namespace) "/" } (text(&entry.name))
                }
                dt { "Cluster" } dd { (entry.cluster.as_deref().unwrap_or(HUB)) }
                @if let Some(reason) = entry.reason { dt { "Reason" } dd { (reason.as_str()) } }
                @if let Some(operation) = entry.operation { dt { "Operation" } dd { (operation.as_str()) } }
                dt { "Since" } dd { (parts::ago(entry.last_update_time.as_deref(), self.now)) }
            }
        }
    }

    /// The object: its conditions, its Events and its YAML.
    async fn live(&self, live: Live) -> Markup {
        let Live { object, client } = live;
        let events = timeline::about(&client, &object).await;
        let has_conditions = object.pointer("/status/conditions").is_some();
        html! {
            @if has_conditions { h3 { "Conditions of the object" } (parts::conditions(&object, self.now)) }
            @if let Some(events) = events.filter(|events| !events.is_empty()) {
                h3 { "Events of the object" }
                (timeline::list(&events, 8, self.now))
            }
            details .yaml {
                summary { "YAML" }
                pre tabindex="0" { code { (yaml::yaml(object)) } }
            }
        }
    }

    /// The expressions of the resource with what they read now.
    async fn values(
        &self,
        remotes: &RemoteClusters<'_>,
        resource: Option<&Resource>,
        entry: &ManagedResource,
        entries: &[ManagedResource],
    ) -> Markup {
        let reads = resource.map(|it| it.reads.as_slice()).unwrap_or_default();
        let read = reads.iter().take(MAX_VALUES).map(async |(id, expression)| {
            let sources: Vec<&ManagedResource> = entries.iter().filter(|it| it.id == *id).collect();
            let near = sources.iter().find(|it| it.cluster == entry.cluster).or(sources.first());
            let value = match near {
                None => Err("not read yet".to_owned()),
                Some(source) => self.read(remotes, source).await.map(|live| value(&live.object, expression)),
            };
            let more = sources.len().saturating_sub(1);
            (id, expression, value, more)
        });
        let read = join_all(read).await;
        html! {
            @if !read.is_empty() {
                h3 { "Values that it reads" }
                dl .values {
                    @for (id, expression, value, more) in &read {
                        dt { code title=(format!("from resource {id}")) { (expression) } }
                        dd {
                            @match value {
                                Ok(Some(value)) => code .value { (value) },
                                Ok(None) => span .none { "not there yet" },
                                Err(why) => span .none { (why) },
                            }
                            @if *more > 0 { small { " and " (more) " more" } }
                        }
                    }
                }
            }
        }
    }

    /// Which resources read this one.
    fn readers(&self, entry: &ManagedResource, entries: &[ManagedResource], query: &Query) -> Markup {
        let readers: Vec<(&Resource, &str)> = self
            .resources
            .iter()
            .filter_map(|it| Some((it, it.reads.iter().find(|(id, _)| *id == entry.id)?.1.as_str())))
            .collect();
        html! {
            @if !readers.is_empty() {
                h3 { "Read by" }
                ul .list {
                    @for (resource, expression) in readers {
                        @let key = entries.iter().find(|it| it.id == resource.id).map(key_of);
                        li {
                            @match key { Some(key) => a href=(query.with("node", &key)) { (resource.id) }, None => (resource.id) }
                            " " code { (expression) }
                        }
                    }
                }
            }
        }
    }

    /// Reads the object in its cluster with the user's own rights.
    async fn read(&self, remotes: &RemoteClusters<'_>, entry: &ManagedResource) -> Result<Live, String> {
        let (Some(version), Some(kind), Some(name)) = (&entry.api_version, &entry.kind, &entry.name) else {
            return Err("It has no object yet.".to_owned());
        };
        let client = match &entry.cluster {
            None => self.viewer.hub().client.clone(),
            Some(cluster) => {
                let clusters = self.view.clusters();
                let known = clusters.iter().find(|known| known.name == *cluster);
                let known = known.ok_or_else(|| format!("Cluster {cluster} is not in the status."))?;
                if !known.connected {
                    return Err(format!("Cluster {cluster} is not connected."));
                }
                remotes.client(known).await.map_err(|error| error.to_string())?
            }
        };
        match read_object(&client, version, kind, entry.namespace.as_deref(), name).await {
            Ok(Some(object)) => Ok(Live { object, client }),
            Ok(None) => Err("It does not exist.".to_owned()),
            Err(error) if error.code() == Some(403) => Err("You may not read it.".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn close(query: &Query) -> Markup {
    html! { a .close href=(query.with("node", "")) aria-label="Close the details" title="Close (Esc)" { "✕" } }
}

/// What the path of an expression such as `db.spec.ports[0].port` leads to in an object; none if it is not there. A path that ends
/// in a function ends before it.
fn value(object: &Json, expression: &str) -> Option<String> {
    let mut value = object;
    for part in expression.split(['.', '[', ']', '?']).skip(1).filter(|part| !part.is_empty()) {
        value = match part.parse::<usize>() {
            Ok(index) => value.get(index)?,
            Err(_) => value.get(part.trim_matches(['"', '\'']))?,
        };
    }
    let is_secret = object.get("kind").and_then(Json::as_str) == Some("Secret");
    let is_value = ["data", "stringData"].iter().any(|field| expression.contains(&format!(".{field}")));
    if is_secret && (is_value || std::ptr::eq(value, object)) {
        return Some("*****".to_owned());
    }
    let text = match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(super::super::drawing::shortened(&text, VALUE_LENGTH))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_of_an_expression_is_what_its_path_leads_to() {
        let service = json!({"kind": "Service", "spec": {"clusterIP": "10.0.0.7", "ports": [{"port": 80}]}});
        for (expression, shown) in [
            ("db.spec.clusterIP", Some("10.0.0.7")),
            ("db.spec.ports[0].port", Some("80")),
            ("db.spec.?clusterIP", Some("10.0.0.7")),
            ("db.status.loadBalancer", None),
        ] {
            assert_eq!(value(&service, expression).as_deref(), shown, "{expression}");
        }
    }

    #[test]
    fn the_value_of_a_secret_is_not_shown_on_an_edge_either() {
        let secret =
            json!({"kind": "Secret", "metadata": {"name": "x"}, "data": {"password": "aHVudGVyMg=="}});
        for expression in ["keys.data.password", "keys.data", "keys"] {
            assert_eq!(value(&secret, expression).as_deref(), Some("*****"), "{expression}");
        }
        assert_eq!(value(&secret, "keys.metadata.name").as_deref(), Some("x"));
    }
}
