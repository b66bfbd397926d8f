//! Suggests the kind that was probably meant by an unknown one.

use kross_diagnostics::suggest;

use super::{GroupVersionKind, SchemaResolver};

/// The kind that was probably meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// The kind exists in these groups and versions.
    OtherApiVersions(Vec<String>),
    /// There is a kind with a similar name.
    OtherKind(GroupVersionKind),
    /// There is no similar kind.
    Nothing,
}

/// Finds the kind that was probably meant by an unknown one.
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
