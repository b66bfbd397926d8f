//! The settings of the controller that plans depend on.

use kross_api::DEFAULT_KRO_VERSION;
use kross_cel::Budget;
use kross_value::Text;

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
    /// Whether a kind of unknown scope counts as namespaced, for plans without a cluster.
    pub assume_namespaced: bool,
    /// Whether instances in a namespace may have objects and external references only in that namespace of the hub.
    pub no_cross_namespace: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: DEFAULT_KRO_VERSION.into(),
            hub_uid: "".into(),
            max_collection_size: 1_000,
            listed_items: 20,
            budget: Budget::DEFAULT,
            assume_namespaced: false,
            no_cross_namespace: false,
        }
    }
}
