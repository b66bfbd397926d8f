//! What a run may cost, in units of about one node or one element, and whether its caller still wants it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Fault;
use crate::library::Call;

/// How often the caller is asked whether it still wants the result, in units.
const POLL_EVERY: u64 = 100;

/// What a run may still cost.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u64,
    /// When fewer units are left, look at `cancelled`. 0 where there is none.
    poll_below: u64,
    cancelled: Option<Arc<AtomicBool>>,
}

impl Budget {
    /// Enough for any expression that belongs into an object: about a tenth of a second.
    pub const DEFAULT: u64 = 10_000_000;

    /// A budget of this many units.
    #[must_use]
    pub fn new(units: u64) -> Self {
        Self { left: units, poll_below: 0, cancelled: None }
    }

    /// Ends the run soon after `flag` becomes true.
    #[must_use]
    pub fn cancelled_by(mut self, flag: Arc<AtomicBool>) -> Self {
        self.poll_below = self.left;
        self.cancelled = Some(flag);
        self
    }

    /// How many units are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Pays.
    #[inline]
    pub(super) fn spend(&mut self, units: u64) -> Result<(), Fault> {
        match self.left.checked_sub(units) {
            Some(left) if left >= self.poll_below => {
                self.left = left;
                Ok(())
            }
            other => self.settle(other),
        }
    }

    #[cold]
    fn settle(&mut self, left: Option<u64>) -> Result<(), Fault> {
        let Some(left) = left else {
            self.left = 0;
            return Err(Fault::BudgetExceeded);
        };
        self.left = left;
        self.poll_below = left.saturating_sub(POLL_EVERY);
        match &self.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Fault::Cancelled),
            _ => Ok(()),
        }
    }

    /// What a function of a library pays with.
    #[inline]
    pub(super) fn call(&mut self) -> Call<'_> {
        Call::new(&mut self.left)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}
