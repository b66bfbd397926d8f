//! The state machine of the work queue: from adds, outcomes and the time to the next key. No I/O and no clock of its
//! own, so that every rule can be tested without waiting.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// The key of something to process.
pub trait QueueKey: Clone + Eq + Hash {
    /// Lanes are served round-robin, so that ten thousand keys of one lane do not delay those of another.
    type Lane: Clone + Eq + Hash;

    /// The lane of this key.
    fn lane(&self) -> Self::Lane;
}

/// The exponential backoff of a key that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure, and the minimum delay after any failure.
    pub base: Duration,
    /// The maximum delay.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(200), cap: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The delay after this many failures in a row; `random` in 0..1 spreads it over the upper half.
    #[must_use]
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.base.saturating_mul(1_u32 << doublings).min(self.cap);
        full.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0).max(self.base.min(self.cap))
    }
}

/// How processing a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until the key is added again.
    Done,
    /// It failed: requeue the key with exponential backoff.
    Retry,
    /// Requeue the key after this time. Not a failure: the number of failures does not change.
    After(Duration),
}

/// The number of keys in each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Keys that are due.
    pub ready: usize,
    /// Keys that are not due yet.
    pub delayed: usize,
    /// Keys that are being processed.
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
    /// The key is not handed out before this time. Set by a failure, so that events caused by the failing reconcile do
    /// not make it spin.
    not_before: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct State<K: QueueKey> {
    backoff: Backoff,
    items: HashMap<K, Item>,
    lanes: HashMap<K::Lane, VecDeque<K>>,
    /// Lanes with keys that are due, in round-robin order.
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

    /// Adds a key: it is due, and its failures are reset.
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

    /// Adds a key that is due at this time, or when it is already due earlier.
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

    /// Takes the next key: the first one of the next lane.
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

    /// Ends processing of a key that [`State::pop`] returned.
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
            let due = (*at, *sequence);
            self.delayed.remove(&due);
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
