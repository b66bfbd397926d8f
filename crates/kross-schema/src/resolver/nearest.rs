//! Turns a kind that nobody knows into what was probably meant.

use kross_diagnostics::suggest;

use super::{GroupVersionKind, SchemaResolver};

/// What an unknown kind was probably meant to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// The kind exists under these groups and versions.
    OtherApiVersions(Vec<String>),
    /// The group and version have a kind of almost this name.
    OtherKind(GroupVersionKind),
    /// Nothing is close.
    Nothing,
}

/// Looks for what an unknown kind was probably meant to be.
#[must_use]
pub fn nearest(resolver: &dyn SchemaResolver, kind: &GroupVersionKind) -> Nearest {
    let known = resolver.kinds();
    let versions: Vec<String> =
        known.iter().filter(|other| other.kind == kind.kind).map(GroupVersionKind::api_version).collect();
    if !versions.is_empty() {
        return Nearest::OtherApiVersions(versions);
    }
    let here = |other: &&GroupVersionKind| other.group == kind.group && other.version == kind.version;
    let same_place = suggest(&kind.kind, known.iter().filter(here).map(|other| other.kind.as_str()));
    let name = same_place.or_else(|| suggest(&kind.kind, known.iter().map(|other| other.kind.as_str())));
    let found = name.and_then(|name| {
        let named = |other: &&GroupVersionKind| other.kind == *name;
        known.iter().filter(here).find(named).or_else(|| known.iter().find(named))
    });
    found.map_or(Nearest::Nothing, |found| Nearest::OtherKind(found.clone()))
}
