//! Turns the resources of a spec into what they need in one cluster: which kinds, in which namespaces, and whether they are
//! written or only read.

use kross_api::{Resource, ResourceGraphDefinitionSpec};
use kross_schema::GroupVersionKind;
use kross_value::{Text, Value};

/// Everything that is needed in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Needs(Vec<Need>);

/// One kind that is needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) kind: GroupVersionKind,
    /// Whether objects are applied and deleted, or only read.
    pub(super) written: bool,
    /// Whether they are watched; else they are polled.
    pub(super) watched: bool,
    pub(super) place: Place,
    pub(super) name: Name,
}

/// Which objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Name {
    /// Any of them.
    Any,
    /// One whose name is not known without an instance.
    Some,
    /// The one of this name.
    Literal(Text),
}

/// The namespaces of objects, if their kind is namespaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A namespace that is not known without an instance.
    Anywhere,
    /// One namespace.
    Namespace(Text),
    /// All namespaces.
    Everywhere,
}

impl Needs {
    /// What the given resources of a spec need: `home` is the namespace of the instance, where there is one. The second of
    /// each pair is whether the resource's cluster is watched; else it is polled.
    pub(crate) fn of(
        spec: &ResourceGraphDefinitionSpec,
        resources: impl IntoIterator<Item = (usize, bool)>,
        home: &Place,
    ) -> Self {
        let mut needs = Vec::new();
        for (index, watched) in resources {
            let Some(resource) = spec.resources.get(index) else { continue };
            needs.extend(need(resource, watched, home));
            needs.extend(namespaces(resource, watched));
        }
        needs.sort();
        needs.dedup();
        Self(needs)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Need> {
        self.0.iter()
    }

    /// The kinds that are needed.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.0.iter().map(|need| &need.kind)
    }
}

/// A namespace selector needs the namespaces themselves.
fn namespaces(resource: &Resource, watched: bool) -> Option<Need> {
    resource.external_ref.as_ref()?.namespace_selector.as_ref()?;
    let kind = GroupVersionKind::new("v1", "Namespace");
    Some(Need { kind, written: false, watched, place: Place::Everywhere, name: Name::Any })
}

fn need(resource: &Resource, watched: bool, home: &Place) -> Option<Need> {
    let literal = |text: &str| !text.is_empty() && !text.contains("${");
    let place = |namespace: Option<&str>, otherwise: &Place| match namespace {
        Some(namespace) if literal(namespace) => Place::Namespace(namespace.into()),
        Some(_) => Place::Anywhere,
        None => otherwise.clone(),
    };
    let name = |name: Option<&str>| match name {
        Some(name) if literal(name) => Name::Literal(name.into()),
        _ => Name::Some,
    };
    if let Some(template) = &resource.template {
        let text = |path: &[&str]| template.at(path).and_then(Value::as_str);
        let (api_version, kind) = (text(&["apiVersion"])?, text(&["kind"])?);
        let kind = GroupVersionKind::new(api_version, kind);
        return Some(Need {
            kind,
            written: true,
            watched,
            place: place(text(&["metadata", "namespace"]), home),
            name: name(text(&["metadata", "name"])),
        });
    }
    let external = resource.external_ref.as_ref()?;
    let metadata = external.metadata.as_ref();
    let namespace = metadata.and_then(|metadata| metadata.namespace.as_deref());
    let selected = external.selector.is_some()
        || external.namespace_selector.is_some()
        || metadata.is_some_and(|metadata| metadata.selector.is_some());
    let kind = match external.kind.strip_suffix("List") {
        Some(items) if selected && !items.is_empty() => items,
        _ => external.kind.as_str(),
    };
    let kind = GroupVersionKind::new(&external.api_version, kind);
    let place = place(namespace, if selected { &Place::Everywhere } else { home });
    let name =
        if selected { Name::Any } else { name(metadata.and_then(|metadata| metadata.name.as_deref())) };
    Some(Need { kind, written: false, watched, place, name })
}
