//! The settings of the controller that plans depend on.

use kross_api::DEFAULT_KRO_VERSION;
use kross_cel::{Budget, Cancellation};
use kross_value::Text;

use crate::branches::BranchRecord;

/// The settings that plans depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kro version that labels name.
    pub version: Text,
    /// The UID of the hub, which is part of the ids of apply sets in remote clusters.
    pub hub_uid: Text,
    /// How many items a collection may have.
    pub max_collection_size: usize,
    /// How many items of a collection are listed in status before it is summarized.
    pub listed_items: usize,
    /// The cost limit of the expressions of one node; a collection gets a multiple of it.
    pub budget: u64,
    /// What one instance may have.
    pub limits: Limits,
    /// Ends a plan that takes too long: what is not evaluated yet fails.
    pub cancellation: Option<Cancellation>,
    /// Whether a kind of unknown scope counts as namespaced, for plans without a cluster.
    pub assume_namespaced: bool,
    /// Whether instances in a namespace may have objects and external references only in that namespace of the hub.
    pub no_cross_namespace: bool,
    /// Records the outcomes of conditions and collections, for the coverage of tests.
    pub branches: Option<BranchRecord>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: DEFAULT_KRO_VERSION.into(),
            hub_uid: "".into(),
            max_collection_size: 1_000,
            listed_items: 20,
            budget: Budget::DEFAULT,
            limits: Limits::default(),
            cancellation: None,
            assume_namespaced: false,
            no_cross_namespace: false,
            branches: None,
        }
    }
}

impl Settings {
    /// Records an outcome of the expression at this path of the definition.
    pub(crate) fn record(&self, path: &Text, taken: bool) {
        if let Some(branches) = &self.branches {
            branches.add(path, taken);
        }
    }

    /// The cost limit of the expressions of one node, times `share`.
    pub(crate) fn budget(&self, share: u64) -> Budget {
        let budget = Budget::new(self.budget.saturating_mul(share));
        match &self.cancellation {
            Some(cancellation) => budget.cancelled_by(cancellation.clone()),
            None => budget,
        }
    }
}

/// What one instance may have. An instance that exceeds a limit reports it with the flag that raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of one object as JSON, in bytes. API servers accept no more than three megabytes.
    pub object_size: usize,
    /// The size of all its objects as JSON, in bytes.
    pub total_size: usize,
    /// The size of the fields that the definition adds to the status, as JSON, in bytes.
    pub status_size: usize,
    /// The number of other clusters.
    pub clusters: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { object_size: 3 << 20, total_size: 64 << 20, status_size: 1 << 20, clusters: 2_500 }
    }
}
