//! Turns adds, results and the time into the next key to work on. Pure: the caller brings the clock, so every law of the
//! queue can be tested without waiting.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// What is worked on, and with whom it takes turns.
pub trait QueueKey: Clone + Eq + Hash {
    /// Keys of one lane take turns with the other lanes as one: a lane of ten thousand keys delays nobody else's.
    type Lane: Clone + Eq + Hash;

    /// The lane of this key.
    fn lane(&self) -> Self::Lane;
}

/// How long a key waits after it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure, and the least time between a failure and the next try, whatever happens.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(200), cap: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The wait after this many failures in a row, `random` in 0..1 spreading it over the upper half.
    #[must_use]
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.base.saturating_mul(1_u32 << doublings).min(self.cap);
        full.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0).max(self.base.min(self.cap))
    }
}

/// How work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until somebody adds the key again.
    Done,
    /// It failed: try again after a wait that grows with each failure in a row.
    Retry,
    /// Look again after this time. Not a failure: the count of failures stays as it is.
    After(Duration),
}

/// How many keys are in which phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Could be worked on now.
    pub ready: usize,
    /// Wait for their time.
    pub delayed: usize,
    /// Are being worked on.
    pub active: usize,
}

#[derive(Debug)]
enum Phase {
    Ready,
    Delayed { at: Instant, sequence: u64 },
    Active { dirty: bool, due: Option<Instant> },
}

#[derive(Debug)]
struct Item {
    phase: Phase,
    failures: u32,
    /// No try before this moment: set by a failure, so that events caused by the failing work cannot make it spin.
    not_before: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct State<K: QueueKey> {
    backoff: Backoff,
    items: HashMap<K, Item>,
    lanes: HashMap<K::Lane, VecDeque<K>>,
    /// Lanes with ready keys, in the order of their turns.
    ready_lanes: VecDeque<K::Lane>,
    delayed: BTreeMap<(Instant, u64), K>,
    ready: usize,
    next_sequence: u64,
    random: fastrand::Rng,
}

impl<K: QueueKey> State<K> {
    pub(super) fn new(backoff: Backoff, random: fastrand::Rng) -> Self {
        Self {
            backoff,
            items: HashMap::new(),
            lanes: HashMap::new(),
            ready_lanes: VecDeque::new(),
            delayed: BTreeMap::new(),
            ready: 0,
            next_sequence: 0,
            random,
        }
    }

    /// Something happened to the key: it is due, and what failed before counts no more.
    pub(super) fn add(&mut self, key: &K, now: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return self.place(key, 0, None, now, now);
        };
        match &mut item.phase {
            Phase::Ready => item.failures = 0,
            Phase::Active { dirty, .. } => *dirty = true,
            Phase::Delayed { .. } => {
                let not_before = item.not_before;
                self.reschedule(key, 0, not_before, now, now);
            }
        }
    }

    /// The key is due at a time, or earlier if it is due earlier already.
    pub(super) fn add_at(&mut self, key: &K, due: Instant, now: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return self.place(key, 0, None, due, now);
        };
        match &mut item.phase {
            Phase::Ready => {}
            Phase::Active { due: earliest, .. } => {
                *earliest = Some(earliest.map_or(due, |known| known.min(due)));
            }
            Phase::Delayed { at, .. } => {
                if due < *at {
                    let (failures, not_before) = (item.failures, item.not_before);
                    self.reschedule(key, failures, not_before, due, now);
                }
            }
        }
    }

    /// Takes the next key: the first one of the lane whose turn it is.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(K, u32)> {
        self.promote(now);
        let lane = self.ready_lanes.pop_front()?;
        let waiting = self.lanes.get_mut(&lane)?;
        let key = waiting.pop_front()?;
        if waiting.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.ready_lanes.push_back(lane);
        }
        self.ready -= 1;
        let item = self.items.get_mut(&key)?;
        item.phase = Phase::Active { dirty: false, due: None };
        Some((key, item.failures))
    }

    /// When the next delayed key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((at, _), _)| *at)
    }

    /// Ends the work on a key that [`State::pop`] gave out.
    pub(super) fn finish(&mut self, key: &K, outcome: Outcome, now: Instant) {
        let Some(Item { phase: Phase::Active { dirty, due }, failures, .. }) = self.items.remove(key) else {
            return;
        };
        match outcome {
            Outcome::Done if dirty => self.place(key, 0, None, now, now),
            Outcome::Done => {
                if let Some(due) = due {
                    self.place(key, 0, None, due, now);
                }
            }
            Outcome::After(_) if dirty => self.place(key, 0, None, now, now),
            Outcome::After(wait) => {
                let at = now + wait;
                self.place(key, failures, None, due.map_or(at, |due| due.min(at)), now);
            }
            Outcome::Retry => {
                let not_before = Some(now + self.backoff.base.min(self.backoff.cap));
                if dirty {
                    return self.place(key, 0, not_before, now, now);
                }
                let failures = failures.saturating_add(1);
                let at = now + self.backoff.delay(failures, self.random.f64());
                self.place(key, failures, not_before, due.map_or(at, |due| due.min(at)), now);
            }
        }
    }

    pub(super) fn stats(&self) -> QueueStats {
        let (ready, delayed) = (self.ready, self.delayed.len());
        QueueStats { ready, delayed, active: self.items.len() - ready - delayed }
    }

    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            if let Some(item) = self.items.get_mut(&key) {
                item.phase = Phase::Ready;
                self.enqueue(key);
            }
        }
    }

    fn reschedule(
        &mut self,
        key: &K,
        failures: u32,
        not_before: Option<Instant>,
        due: Instant,
        now: Instant,
    ) {
        if let Some(Item { phase: Phase::Delayed { at, sequence }, .. }) = self.items.get(key) {
            let slot = (*at, *sequence);
            self.delayed.remove(&slot);
        }
        self.place(key, failures, not_before, due, now);
    }

    fn place(&mut self, key: &K, failures: u32, not_before: Option<Instant>, due: Instant, now: Instant) {
        let at = not_before.map_or(due, |not_before| due.max(not_before));
        let phase = if at <= now {
            self.enqueue(key.clone());
            Phase::Ready
        } else {
            self.next_sequence += 1;
            self.delayed.insert((at, self.next_sequence), key.clone());
            Phase::Delayed { at, sequence: self.next_sequence }
        };
        self.items.insert(key.clone(), Item { phase, failures, not_before });
    }

    fn enqueue(&mut self, key: K) {
        let lane = key.lane();
        let waiting = self.lanes.entry(lane.clone()).or_default();
        if waiting.is_empty() {
            self.ready_lanes.push_back(lane);
        }
        waiting.push_back(key);
        self.ready += 1;
    }
}

#[cfg(test)]
mod tests;
