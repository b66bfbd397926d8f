//! Lists definitions and the instances of all definitions, and says of each whether it is ready.

use std::sync::Arc;

use kross_api::ResourceState;
use kross_cluster::ApiKind;
use serde_json::Value as Json;
use tokio::task::JoinSet;

use crate::hub::{DEFINITIONS, Definition, Hub, InstanceView, failed_condition, text};

/// What was listed, and what could not be.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Listed {
    pub(in crate::commands) headers: Vec<&'static str>,
    /// The headers of the further columns of `-o wide`.
    pub(in crate::commands) wide_headers: Vec<&'static str>,
    pub(in crate::commands) items: Vec<Item>,
    /// The kinds that were listed, to watch them.
    pub(in crate::commands) kinds: Vec<Arc<ApiKind>>,
    /// The namespace, unless it was all or none.
    pub(in crate::commands) namespace: Option<String>,
    pub(in crate::commands) notes: Vec<String>,
    pub(in crate::commands) problems: Vec<String>,
}

/// One line of a list.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Item {
    pub(in crate::commands) object: Json,
    pub(in crate::commands) namespace: String,
    pub(in crate::commands) name: String,
    /// For a command line: `shop.kro.run/web`.
    pub(in crate::commands) argument: String,
    pub(in crate::commands) ready: bool,
    /// Whether it failed, rather than waits.
    pub(in crate::commands) failed: bool,
    pub(in crate::commands) cells: Vec<String>,
    pub(in crate::commands) wide: Vec<String>,
    /// Other names that people use for it.
    pub(in crate::commands) aliases: Vec<String>,
    /// When it was created, for the column `AGE`; none for rows without one.
    pub(in crate::commands) created: Option<String>,
}

impl Item {
    /// Whether a person means it by this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

impl Listed {
    /// What is shown, to tell whether it changed.
    pub(super) fn rows(&self) -> Vec<(&str, &str, &[String], &[String])> {
        self.items
            .iter()
            .map(|item| {
                (item.namespace.as_str(), item.argument.as_str(), item.cells.as_slice(), item.wide.as_slice())
            })
            .collect()
    }
}

/// Lists the definitions.
pub(super) async fn definitions(hub: &Hub, selector: Option<&str>) -> anyhow::Result<Listed> {
    let kind = hub.kind(DEFINITIONS)?;
    let listed = hub.list(&kind, None, selector).await?;
    let mut items: Vec<Item> = listed.into_iter().map(definition_item).collect();
    items.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Listed {
        headers: vec!["NAME", "KIND", "STATE", "READY", "REVISION"],
        wide_headers: vec!["REASON"],
        items,
        kinds: vec![kind],
        ..Listed::default()
    })
}

fn definition_item(object: Json) -> Item {
    let definition = Definition::new(object);
    let (group, kind) = definition.served_kind();
    let served = if group == kross_api::DEFAULT_GROUP { kind.to_owned() } else { format!("{kind}.{group}") };
    let (name, ready) = (definition.name().to_owned(), definition.is_ready());
    let state = if definition.state().is_empty() { "not reconciled" } else { definition.state() };
    let why = failed_condition(&definition.0).and_then(|failed| failed["message"].as_str());
    Item {
        namespace: String::new(),
        argument: format!("resourcegraphdefinition.kro.run/{name}"),
        ready,
        failed: state == "Inactive",
        cells: vec![
            name.clone(),
            served,
            state.to_owned(),
            yes_no(ready),
            definition.revision().map(|revision| revision.to_string()).unwrap_or_default(),
        ],
        wide: vec![why.unwrap_or_default().to_owned()],
        created: text(&definition.0, "/metadata/creationTimestamp").map(str::to_owned),
        aliases: Vec::new(),
        name,
        object: definition.0,
    }
}

/// Lists instances: of one kind, or of every definition.
pub(super) async fn instances(
    hub: &Hub,
    typed: Option<&str>,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> anyhow::Result<Listed> {
    let mut listed = Listed {
        headers: vec!["KIND", "NAME", "STATE", "READY", "RESOURCES", "CLUSTERS"],
        wide_headers: vec!["REASON"],
        namespace: namespace.map(str::to_owned),
        ..Listed::default()
    };
    let definitions = hub.definitions().await;
    if definitions.is_none() {
        listed.notes.push("you may not list definitions; the kinds of group `kro.run` are listed".to_owned());
    }
    let served = served_kinds(hub, definitions.as_deref());
    let chosen: Vec<Served> = match typed {
        None => served,
        Some(typed) => {
            let kind = hub.kind(typed)?;
            let known = served.into_iter().find(|known| *known.kind == *kind);
            let Some(known) = known else {
                anyhow::bail!(
                    "no ResourceGraphDefinition serves `{}`: use `kubectl get {}`",
                    kind.kind,
                    kind.plural
                );
            };
            vec![known]
        }
    };
    let mut lists = JoinSet::new();
    for Served { kind, definition } in chosen {
        listed.kinds.push(Arc::clone(&kind));
        let (hub, namespace) = (hub.clone(), namespace.map(str::to_owned));
        let selector = selector.map(str::to_owned);
        lists.spawn(async move {
            let found = hub.list(&kind, namespace.as_deref(), selector.as_deref()).await;
            (kind, definition, found)
        });
    }
    while let Some(ended) = lists.join_next().await {
        let (kind, definition, found) = ended?;
        match found {
            Ok(found) => {
                let is_instance = |object: &Json| {
                    definition.as_ref().is_none_or(|definition| definition.has_instance(object))
                };
                listed.items.extend(found.into_iter().filter(is_instance).map(|it| instance_item(&kind, it)));
            }
            Err(error) => listed.problems.push(format!("cannot list {}: {}", kind.plural, error.message())),
        }
    }
    listed.problems.sort();
    listed.items.sort_by(|a, b| (&a.namespace, &a.cells).cmp(&(&b.namespace, &b.cells)));
    Ok(listed)
}

/// A kind of instances and its definition, if that may be read.
struct Served {
    kind: Arc<ApiKind>,
    definition: Option<Definition>,
}

/// The kinds of instances that the hub serves.
fn served_kinds(hub: &Hub, definitions: Option<&[Definition]>) -> Vec<Served> {
    match definitions {
        Some(definitions) => definitions
            .iter()
            .filter_map(|definition| {
                let (group, kind) = definition.served_kind();
                let kind = hub.kind_of(&format!("{group}/"), kind)?;
                Some(Served { kind, definition: Some(definition.clone()) })
            })
            .collect(),
        None => {
            let kinds = hub.client.discovery().kinds();
            let served = kinds.into_iter().filter(|kind| {
                let is_ours = ["ResourceGraphDefinition", "ClusterConnection"].contains(&&*kind.kind);
                *kind.group == *kross_api::DEFAULT_GROUP && !is_ours
            });
            served.map(|kind| Served { kind, definition: None }).collect()
        }
    }
}

/// All instances, for commands whose answer is wrong if one is left out.
///
/// # Errors
/// Some may not be listed.
pub(in crate::commands) async fn all_instances(
    hub: &Hub,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<Json>> {
    let (found, problems) = listable_instances(hub, namespace).await?;
    if !problems.is_empty() {
        anyhow::bail!("{}", problems.join("\n"));
    }
    Ok(found)
}

/// The instances that the caller may list, and what he may not list.
pub(in crate::commands) async fn listable_instances(
    hub: &Hub,
    namespace: Option<&str>,
) -> anyhow::Result<(Vec<Json>, Vec<String>)> {
    let listed = instances(hub, None, namespace, None).await?;
    Ok((listed.items.into_iter().map(|item| item.object).collect(), listed.problems))
}

fn instance_item(kind: &ApiKind, object: Json) -> Item {
    let view = InstanceView(&object);
    let resources = view.resources();
    let counted = |entry: &&kross_api::ManagedResource| entry.state != ResourceState::Skipped;
    let total = resources.iter().filter(counted).count();
    let ready = resources.iter().filter(|entry| entry.state == ResourceState::Ready).count();
    let clusters = view.clusters();
    let connected = clusters.iter().filter(|cluster| cluster.connected).count();
    let of = |part: usize, total: usize| if total == 0 { "-".to_owned() } else { format!("{part}/{total}") };
    let state =
        if view.is_suspended() { format!("{},suspended", view.state()) } else { view.state().to_owned() };
    let name = view.name().to_owned();
    Item {
        namespace: view.namespace().unwrap_or_default().to_owned(),
        argument: format!("{}.{}/{name}", kind.kind.to_lowercase(), kind.group),
        ready: view.is_ready(),
        failed: matches!(view.state(), "ERROR" | "Failed"),
        cells: vec![
            kind.kind.to_string(),
            name.clone(),
            state,
            yes_no(view.is_ready()),
            of(ready, total),
            of(connected, clusters.len()),
        ],
        wide: vec![view.message().unwrap_or_default().to_owned()],
        created: text(&object, "/metadata/creationTimestamp").map(str::to_owned),
        aliases: Vec::new(),
        name,
        object,
    }
}

fn yes_no(ready: bool) -> String {
    if ready { "True" } else { "False" }.to_owned()
}
