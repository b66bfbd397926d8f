//! The limits of an evaluation: its cost, in units of about one node or one element, the memory that it allocates, and its
//! cancellation.

use std::fmt;
use std::sync::Arc;

use kross_value::Value as Data;

use crate::error::Fault;
use crate::library::{Call, ELEMENT};
use crate::value::{Value, to_data_within};

/// How many units are spent between two checks for cancellation.
const POLL_EVERY: u64 = 1_000;

/// Tells whether evaluations shall end, for example because a deadline has passed. It is called every few microseconds.
#[derive(Clone)]
pub struct Cancellation(Arc<dyn Fn() -> bool + Send + Sync>);

impl Cancellation {
    /// Cancels evaluations soon after `is_cancelled` returns true.
    pub fn new(is_cancelled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_cancelled))
    }

    /// Whether evaluations shall end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancellation")
    }
}

/// The remaining cost of an evaluation.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u64,
    /// How many more bytes may be allocated. What was freed again counts as well.
    memory: u64,
    /// Check `cancelled` when fewer units are left. 0 if nothing cancels.
    poll_below: u64,
    cancelled: Option<Cancellation>,
}

impl Budget {
    /// Enough for any reasonable expression: about a tenth of a second.
    pub const DEFAULT: u64 = 10_000_000;
    /// The memory that the evaluations of one budget may allocate, in bytes.
    pub const MEMORY: u64 = 256 << 20;

    /// A budget of this many units.
    #[must_use]
    pub fn new(units: u64) -> Self {
        Self { left: units, memory: Self::MEMORY, poll_below: 0, cancelled: None }
    }

    /// Lets the evaluation be cancelled.
    #[must_use]
    pub fn cancelled_by(mut self, cancellation: Cancellation) -> Self {
        self.poll_below = self.left;
        self.cancelled = Some(cancellation);
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
            Some(cancellation) if cancellation.is_cancelled() => Err(Fault::Cancelled),
            _ => Ok(()),
        }
    }

    /// Spends memory, or fails if it is exhausted.
    #[inline]
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<(), Fault> {
        self.call().allocate(bytes)
    }

    /// Converts a value to JSON as [`to_data`](crate::value::to_data) does, within this budget.
    ///
    /// # Errors
    /// As [`to_data`](crate::value::to_data), and if the budget is exhausted.
    pub fn to_data(&mut self, value: &Value) -> Result<Option<Data>, Fault> {
        let units = usize::try_from(self.left).unwrap_or(usize::MAX);
        let (data, nodes) = to_data_within(value, units)?;
        self.spend(nodes as u64)?;
        self.allocate(nodes.saturating_mul(ELEMENT))?;
        Ok(data)
    }

    /// The budget as library functions see it.
    #[inline]
    pub(super) fn call(&mut self) -> Call<'_> {
        Call::limited(&mut self.left, &mut self.memory)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}
