//! Validates every spelling of a cluster reference and turns it into a [`ClusterReference`]. [`Placement`] then answers
//! which cluster each resource belongs to.

mod authority;
mod duration;
mod lower;
mod reference;
mod resolve;

pub use authority::{Authority, InstanceIdentity};
pub use duration::parse_duration;
pub use lower::{PlacementOptions, lower_placement};
pub use reference::{
    ClusterReference, Credentials, Poll, Published, SecretNamespace, SecretTemplate, SelectorTemplate,
    Spelling, TargetChoice, Template,
};
pub use resolve::{ResolveError, ResolvedCluster, ResolvedCredentials, SecretAddress};

/// The cluster references of a definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The reference of the definition itself.
    pub definition: Option<ClusterReference>,
    /// The reference of each resource, in the order of `spec.resources`; for an external reference, the cluster to read from.
    pub resources: Vec<Option<ClusterReference>>,
    /// Which resources are external references, in the same order. They never inherit the cluster of the definition.
    pub external: Vec<bool>,
}

/// The cluster of one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place<'a> {
    /// The cluster of the instance.
    Local,
    /// The cluster that the definition references.
    Inherited(&'a ClusterReference),
    /// The cluster that the resource itself references.
    Own(&'a ClusterReference),
}

impl<'a> Place<'a> {
    /// The reference, whether inherited or the resource's own.
    #[must_use]
    pub fn reference(self) -> Option<&'a ClusterReference> {
        match self {
            Self::Local => None,
            Self::Inherited(reference) | Self::Own(reference) => Some(reference),
        }
    }
}

impl Placement {
    /// The cluster of the resource at `index` of `spec.resources`: its own reference takes precedence over the
    /// definition's, and an external reference does not inherit.
    #[must_use]
    pub fn place(&self, index: usize) -> Place<'_> {
        if let Some(own) = self.resources.get(index).and_then(Option::as_ref) {
            return Place::Own(own);
        }
        let external = self.external.get(index).copied().unwrap_or(false);
        self.definition.as_ref().filter(|_| !external).map_or(Place::Local, Place::Inherited)
    }

    /// Every reference with the index of its resource; `None` for the definition's own reference.
    pub fn references(&self) -> impl Iterator<Item = (Option<usize>, &ClusterReference)> {
        let own = self.resources.iter().enumerate();
        let own =
            own.filter_map(|(index, reference)| reference.as_ref().map(|reference| (Some(index), reference)));
        self.definition.iter().map(|reference| (None, reference)).chain(own)
    }

    /// Whether all resources are in the local cluster.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.references().next().is_none()
    }
}

#[cfg(test)]
mod tests;
