//! Finds the values that users of the definition want to choose: images, replicas, hosts, sizes, and whatever repeats.

use serde_json::{Value as Json, json};

use super::identifiers::{at_mut, camel};
use super::{Resource, visit};

/// A field of the schema.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    default: Json,
}

impl Parameter {
    /// `integer | default=3`.
    pub(super) fn simple_schema(&self) -> String {
        match &self.default {
            Json::String(text) => format!("string | default=\"{text}\""),
            Json::Number(number) => format!("integer | default={number}"),
            other => format!("{} | default={other}", if other.is_boolean() { "boolean" } else { "string" }),
        }
    }
}

/// A value at a place.
struct Place {
    resource: usize,
    path: Vec<String>,
    value: Json,
    /// What the field would be called.
    name: String,
    rank: Rank,
}

/// Which values become fields, the most wanted ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Image,
    Replicas,
    Host,
    Storage,
    Port,
    Text,
}

impl Rank {
    /// Whether the value has to occur more than once.
    fn must_repeat(self) -> bool {
        matches!(self, Self::Port | Self::Text)
    }
}

/// Replaces values by fields of the schema.
pub(super) fn extract(resources: &mut [Resource]) -> Vec<Parameter> {
    let mut places: Vec<Place> = Vec::new();
    for (at, resource) in resources.iter_mut().enumerate().filter(|(_, resource)| !resource.external) {
        let (kind, id) = (resource.kind.clone(), resource.id.clone());
        let whole = resource.object.clone();
        visit(&mut resource.object, &mut Vec::new(), &mut |path, value| {
            if let Some((rank, name)) = rank(&kind, &id, &whole, path, value) {
                places.push(Place { resource: at, path: path.to_vec(), value: value.clone(), name, rank });
            }
        });
    }
    // Equal values of one rank are one field.
    let mut groups: Vec<Vec<Place>> = Vec::new();
    for place in places {
        match groups
            .iter_mut()
            .find(|group| group.iter().any(|known| known.rank == place.rank && known.value == place.value))
        {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups.retain(|group| group.len() > 1 || group.iter().all(|place| !place.rank.must_repeat()));
    groups.sort_by_key(|group| group.first().map(|place| place.rank));
    let mut parameters: Vec<Parameter> = Vec::new();
    for at in 0..groups.len() {
        let Some(group) = groups.get(at) else { continue };
        let Some(first) = group.first() else { continue };
        let is_only =
            groups.iter().filter(|other| other.first().map(|place| place.rank) == Some(first.rank)).count()
                == 1;
        let name = unique(&name(first, is_only), &parameters);
        for place in group {
            let value = resources
                .get_mut(place.resource)
                .and_then(|resource| at_mut(&mut resource.object, &place.path));
            if let Some(value) = value {
                *value = json!(format!("${{schema.spec.{name}}}"));
            }
        }
        parameters.push(Parameter { name, default: first.value.clone() });
    }
    parameters
}

fn name(place: &Place, is_only: bool) -> String {
    let plain = match place.rank {
        Rank::Image => "image",
        Rank::Replicas => "replicas",
        Rank::Host => "host",
        Rank::Storage => "storage",
        Rank::Port => "port",
        Rank::Text => "",
    };
    match (is_only, place.rank) {
        (true, rank) if rank != Rank::Text => plain.to_owned(),
        (false, Rank::Port) => format!("port{}", place.value),
        _ => place.name.clone(),
    }
}

fn unique(name: &str, taken: &[Parameter]) -> String {
    let fits = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    let name = if fits { name.to_owned() } else { format!("value{name}") };
    let mut numbers = 2..;
    let mut found = name.clone();
    while taken.iter().any(|parameter| parameter.name == found) {
        found = format!("{name}{}", numbers.next().unwrap_or(0));
    }
    found
}

/// Whether a value may become a field, and its name.
fn rank(kind: &str, id: &str, whole: &Json, path: &[String], value: &Json) -> Option<(Rank, String)> {
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    let text = value.as_str().unwrap_or_default();
    if text.contains("${") || text.contains(['"', '\\', '\n']) {
        return None;
    }
    let is_workload = matches!(kind, "Deployment" | "StatefulSet" | "ReplicaSet");
    match keys.as_slice() {
        [holder @ .., "containers" | "initContainers", _, "image"] if value.is_string() => {
            let list = keys.get(holder.len())?;
            let index: usize = keys.get(holder.len() + 1)?.parse().ok()?;
            let pointer: String = holder.iter().map(|key| format!("/{key}")).collect();
            let container =
                whole.pointer(&pointer)?.get(list)?.get(index)?["name"].as_str().unwrap_or("container");
            Some((Rank::Image, camel(&format!("{container}-image"))))
        }
        ["spec", "replicas"] if is_workload && value.is_u64() => {
            Some((Rank::Replicas, format!("{id}Replicas")))
        }
        ["spec", "rules", _, "host"] | ["spec", "tls", _, "hosts", _] | ["spec", "hostnames", _]
            if value.is_string() =>
        {
            Some((Rank::Host, format!("{id}Host")))
        }
        [.., "requests", "storage"] if value.is_string() => Some((Rank::Storage, format!("{id}Storage"))),
        [.., "containerPort" | "targetPort" | "port" | "number"] if value.is_u64() => {
            Some((Rank::Port, "port".to_owned()))
        }
        [.., "env", index, "value"] if text.len() > 2 => {
            let pointer: String = keys.get(..keys.len() - 2)?.iter().map(|key| format!("/{key}")).collect();
            let variable = whole.pointer(&pointer)?.get(index.parse::<usize>().ok()?)?["name"].as_str()?;
            Some((Rank::Text, camel(variable)))
        }
        ["data", key] if kind == "ConfigMap" && (3..=63).contains(&text.len()) => {
            Some((Rank::Text, camel(key)))
        }
        [.., "annotations", key] if (3..=63).contains(&text.len()) => {
            Some((Rank::Text, camel(key.rsplit('/').next().unwrap_or(key))))
        }
        [.., "storageClassName"] if value.is_string() => Some((Rank::Text, "storageClass".to_owned())),
        _ => None,
    }
}
