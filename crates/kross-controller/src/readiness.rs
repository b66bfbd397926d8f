//! Turns several things that must be so into one answer to "are you ready?", and says which of them is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

/// What must be so before we are ready. Clones share it.
///
/// ```
/// use kross_controller::Readiness;
///
/// let readiness = Readiness::new(["watches"]);
/// assert!(!readiness.is_ready());
/// readiness.set("watches", true);
/// assert!(readiness.is_ready());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    checks: Arc<RwLock<BTreeMap<&'static str, bool>>>,
}

impl Readiness {
    /// These must be so, and are not yet.
    #[must_use]
    pub fn new(checks: impl IntoIterator<Item = &'static str>) -> Self {
        let checks = checks.into_iter().map(|check| (check, false)).collect();
        Self { checks: Arc::new(RwLock::new(checks)) }
    }

    /// Says whether one of them is so. A check that was not known becomes one.
    pub fn set(&self, check: &'static str, holds: bool) {
        self.checks.write().insert(check, holds);
    }

    /// Whether all are so.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.checks.read().values().all(|holds| *holds)
    }

    /// Every check and whether it is so, by name.
    #[must_use]
    pub fn checks(&self) -> Vec<(&'static str, bool)> {
        let checks = self.checks.read();
        checks.iter().map(|(check, holds)| (*check, *holds)).collect()
    }
}
