//! Turns several checks into one answer to the readiness probe, and lists those that fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

/// The checks that must pass before the controller is ready. Clones share them.
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
    /// The lock is a leaf.
    checks: Arc<RwLock<BTreeMap<&'static str, bool>>>,
}

impl Readiness {
    /// These checks, none of which passes yet.
    #[must_use]
    pub fn new(checks: impl IntoIterator<Item = &'static str>) -> Self {
        let checks = checks.into_iter().map(|check| (check, false)).collect();
        Self { checks: Arc::new(RwLock::new(checks)) }
    }

    /// Sets whether a check passes. An unknown check is added.
    pub fn set(&self, check: &'static str, passes: bool) {
        self.checks.write().insert(check, passes);
    }

    /// Whether all checks pass.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.checks.read().values().all(|passes| *passes)
    }

    /// Every check and whether it passes, by name.
    #[must_use]
    pub fn checks(&self) -> Vec<(&'static str, bool)> {
        self.checks.read().iter().map(|(check, passes)| (*check, *passes)).collect()
    }
}
