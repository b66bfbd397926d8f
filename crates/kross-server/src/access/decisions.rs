//! Decisions that are remembered for a short time. Their number is bounded: the oldest one makes room.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Decisions of the same age limit.
#[derive(Debug)]
pub(crate) struct Decisions<K, V> {
    known: HashMap<K, (Instant, V)>,
    /// The keys in the order in which they were decided; those that were decided again have a later entry as well.
    order: VecDeque<(Instant, K)>,
    most: usize,
    age: Duration,
}

impl<K: Copy + Eq + Hash, V: Clone> Decisions<K, V> {
    pub(crate) fn new(most: usize, age: Duration) -> Self {
        Self { known: HashMap::new(), order: VecDeque::new(), most, age }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let (decided, value) = self.known.get(key)?;
        (decided.elapsed() < self.age).then(|| value.clone())
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        let now = Instant::now();
        self.known.insert(key, (now, value));
        self.order.push_back((now, key));
        while let Some((decided, key)) = self.order.front().copied() {
            if decided.elapsed() < self.age && self.order.len() <= self.most {
                return;
            }
            self.order.pop_front();
            if self.known.get(&key).is_some_and(|(latest, _)| *latest == decided) {
                self.known.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn decisions_expire_and_the_oldest_makes_room() {
        let mut decisions = Decisions::new(2, Duration::from_secs(10));
        decisions.insert(1, "one");
        tokio::time::advance(Duration::from_secs(6)).await;
        decisions.insert(2, "two");
        assert_eq!((decisions.get(&1), decisions.get(&2)), (Some("one"), Some("two")));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!((decisions.get(&1), decisions.get(&2)), (None, Some("two")));
        for number in 3..1000 {
            decisions.insert(number, "more");
        }
        assert_eq!((decisions.get(&2), decisions.get(&999)), (None, Some("more")));
        assert_eq!((decisions.known.len(), decisions.order.len()), (2, 2));
    }
}
