//! What a controller is told at its start and every plan takes for granted.

use kross_api::DEFAULT_KRO_VERSION;
use kross_cel::Budget;
use kross_value::Text;

/// What every plan takes for granted.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kro version that labels name.
    pub version: Text,
    /// UID of the hub, which the apply sets in other clusters name.
    pub hub_uid: Text,
    /// How many items a collection may have.
    pub max_collection_size: usize,
    /// How many items of a collection are listed in status before it is summed up.
    pub listed_items: usize,
    /// What the expressions of one node may cost; those of a collection a few times as much.
    pub budget: u64,
    /// Whether a kind of unknown scope counts as namespaced, where no cluster can be asked.
    pub assume_namespaced: bool,
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
        }
    }
}
