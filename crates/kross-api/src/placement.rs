//! Turns every spelling of a cluster reference into one [`ClusterReference`], and says what is wrong with a spelling.
//! Where an object lives is then asked of [`Placement`] alone.

mod duration;
mod lower;
mod reference;
mod resolve;

pub use duration::parse_duration;
pub use lower::{PlacementOptions, lower_placement};
pub use reference::{
    ClusterReference, Credentials, Poll, Published, SecretNamespace, SecretTemplate, SelectorTemplate,
    Spelling, Template,
};
pub use resolve::{ResolveError, ResolvedCluster, ResolvedCredentials, SecretAddress};

/// The references of a definition, in place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The definition's own reference.
    pub definition: Option<ClusterReference>,
    /// Each resource's own reference, in the order of `spec.resources`; for an external reference the one to read from.
    pub resources: Vec<Option<ClusterReference>>,
    /// Which resources are external references, in the same order. They never inherit.
    pub external: Vec<bool>,
}

/// Where one resource lives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place<'a> {
    /// In the cluster of the instance.
    Local,
    /// In the cluster that the definition names.
    Inherited(&'a ClusterReference),
    /// In the cluster that the resource names.
    Own(&'a ClusterReference),
}

impl<'a> Place<'a> {
    /// The reference, wherever it comes from.
    #[must_use]
    pub fn reference(self) -> Option<&'a ClusterReference> {
        match self {
            Self::Local => None,
            Self::Inherited(reference) | Self::Own(reference) => Some(reference),
        }
    }
}

impl Placement {
    /// Where the resource at `index` of `spec.resources` lives: its own reference goes before the definition's, and an
    /// external reference does not inherit.
    #[must_use]
    pub fn place(&self, index: usize) -> Place<'_> {
        if let Some(own) = self.resources.get(index).and_then(Option::as_ref) {
            return Place::Own(own);
        }
        let external = self.external.get(index).copied().unwrap_or(false);
        self.definition.as_ref().filter(|_| !external).map_or(Place::Local, Place::Inherited)
    }

    /// Every reference with the index of its resource; the definition's own has none.
    pub fn references(&self) -> impl Iterator<Item = (Option<usize>, &ClusterReference)> {
        let own = self.resources.iter().enumerate();
        let own =
            own.filter_map(|(index, reference)| reference.as_ref().map(|reference| (Some(index), reference)));
        self.definition.iter().map(|reference| (None, reference)).chain(own)
    }

    /// Whether everything is local.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.references().next().is_none()
    }
}

#[cfg(test)]
mod tests;
