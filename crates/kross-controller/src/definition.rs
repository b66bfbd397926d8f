//! Turns a definition into a served API: compile, freeze as a revision, keep its CRD, publish its graph, report.
//!
//! The steps are in the order of the walk: [`reconcile`] reads as the list of them.

mod clusters;
mod compile;
mod crd;
mod deletion;
mod error;
mod object;
mod orphan;
mod reconcile;
mod report;
mod revisions;
mod serve;

pub use error::{DefinitionError, Next};

pub(crate) use clusters::Links;
pub(crate) use compile::Resolvers;
pub(crate) use reconcile::{reconcile, release_revision};
