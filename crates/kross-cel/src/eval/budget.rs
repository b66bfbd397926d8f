//! The cost limit of an evaluation, in units of about one node or one element, and its cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Fault;
use crate::library::Call;

/// How many units are spent between two checks for cancellation.
const POLL_EVERY: u64 = 100;

/// The remaining cost of an evaluation.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u64,
    /// Check `cancelled` when fewer units are left. 0 if there is no flag.
    poll_below: u64,
    cancelled: Option<Arc<AtomicBool>>,
}

impl Budget {
    /// Enough for any reasonable expression: about a tenth of a second.
    pub const DEFAULT: u64 = 10_000_000;

    /// A budget of this many units.
    #[must_use]
    pub fn new(units: u64) -> Self {
        Self { left: units, poll_below: 0, cancelled: None }
    }

    /// Cancels the evaluation soon after `flag` becomes true.
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

    /// Spends units, or fails if they are exhausted.
    #[inline]
    pub(super) fn spend(&mut self, units: u64) -> Result<(), Fault> {
        match self.left.checked_sub(units) {
            Some(left) if left >= self.poll_below => {
                self.left = left;
                Ok(())
            }
            other => self.spend_slow(other),
        }
    }

    #[cold]
    fn spend_slow(&mut self, left: Option<u64>) -> Result<(), Fault> {
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

    /// The budget as library functions see it.
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
