use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// The lane is the tens digit.
impl QueueKey for u8 {
    type Lane = u8;

    fn lane(&self) -> u8 {
        self / 10
    }
}

fn state() -> State<u8> {
    State::new(Backoff::default(), fastrand::Rng::with_seed(42))
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn a_key_that_is_added_twice_is_handed_out_once() {
    let (mut queue, now) = (state(), Instant::now());
    queue.add(&1, now);
    queue.add(&1, now);
    assert_eq!(queue.pop(now), Some((1, 0)));
    assert_eq!(queue.pop(now), None);
    queue.finish(&1, Outcome::Done, now);
    assert_eq!(queue.stats(), QueueStats::default());
}

#[test]
fn a_key_that_is_added_while_it_is_processed_is_requeued_afterwards() {
    let (mut queue, now) = (state(), Instant::now());
    queue.add(&1, now);
    queue.pop(now).unwrap();
    queue.add(&1, now);
    assert_eq!(queue.pop(now), None);
    queue.finish(&1, Outcome::Done, now);
    assert_eq!(queue.pop(now), Some((1, 0)));
}

#[test]
fn lanes_are_served_round_robin() {
    let (mut queue, now) = (state(), Instant::now());
    for key in [1, 2, 3, 4, 11, 21] {
        queue.add(&key, now);
    }
    let order: Vec<u8> = std::iter::from_fn(|| queue.pop(now).map(|(key, _)| key)).collect();
    assert_eq!(order, [1, 11, 21, 2, 3, 4]);
}

#[test]
fn failures_back_off_up_to_the_cap_and_are_always_retried() {
    let (mut queue, mut now) = (state(), Instant::now());
    queue.add(&1, now);
    let mut waits = Vec::new();
    for attempt in 0..40 {
        assert_eq!(queue.pop(now), Some((1, attempt)));
        queue.finish(&1, Outcome::Retry, now);
        let due = queue.next_due().unwrap();
        waits.push(due - now);
        now = due;
    }
    assert!(waits[0] >= Duration::from_millis(200) && waits[0] <= Duration::from_millis(400), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= seconds(60)));
    assert!(waits[20..].iter().all(|wait| *wait >= seconds(30)));
    assert!(waits[20..].iter().collect::<HashSet<_>>().len() > 10, "no jitter: {waits:?}");
}

#[test]
fn adding_a_key_ends_its_backoff_and_resets_its_failures() {
    let (mut queue, start) = (state(), Instant::now());
    queue.add(&1, start);
    let mut now = start;
    for _ in 0..10 {
        queue.pop(now).unwrap();
        queue.finish(&1, Outcome::Retry, now);
        now = queue.next_due().unwrap();
    }
    queue.pop(now).unwrap();
    queue.finish(&1, Outcome::Retry, now);
    now += seconds(1);
    assert_eq!(queue.pop(now), None);
    queue.add(&1, now);
    assert_eq!(queue.pop(now), Some((1, 0)));
}

#[test]
fn events_caused_by_a_failing_reconcile_do_not_make_it_spin() {
    let (mut queue, now) = (state(), Instant::now());
    queue.add(&1, now);
    queue.pop(now).unwrap();
    queue.add(&1, now);
    queue.finish(&1, Outcome::Retry, now);
    queue.add(&1, now);
    assert_eq!(queue.pop(now), None);
    assert_eq!(queue.next_due(), Some(now + Backoff::default().base));
}

#[test]
fn a_key_is_due_at_the_earliest_of_its_times() {
    let (mut queue, now) = (state(), Instant::now());
    queue.add_at(&1, now + seconds(5), now);
    queue.add_at(&1, now + seconds(2), now);
    queue.add_at(&1, now + seconds(9), now);
    assert_eq!(queue.next_due(), Some(now + seconds(2)));
    assert_eq!(queue.pop(now + seconds(2)), Some((1, 0)));
    assert_eq!(queue.pop(now + seconds(9)), None);
    queue.add_at(&1, now + seconds(30), now);
    queue.finish(&1, Outcome::After(seconds(3)), now + seconds(10));
    assert_eq!(queue.next_due(), Some(now + seconds(13)).min(Some(now + seconds(30))));
}

#[derive(Clone, Debug)]
enum Action {
    Add(u8),
    AddAfter(u8, u64),
    Pop,
    Finish(usize, Outcome),
    Wait(u64),
}

fn action() -> impl Strategy<Value = Action> {
    let outcome = prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Retry),
        (0_u64..5000).prop_map(|wait| Outcome::After(Duration::from_millis(wait)))
    ];
    prop_oneof![
        (0_u8..30).prop_map(Action::Add),
        (0_u8..30, 0_u64..5000).prop_map(|(key, wait)| Action::AddAfter(key, wait)),
        Just(Action::Pop),
        (any::<usize>(), outcome).prop_map(|(which, outcome)| Action::Finish(which, outcome)),
        (0_u64..70_000).prop_map(Action::Wait),
    ]
}

proptest! {
    /// After any history no key is processed twice at once, and every pending key is handed out within the cap.
    #[test]
    fn no_key_is_lost_and_none_is_processed_twice_at_once(actions in prop::collection::vec(action(), 1..200)) {
        let mut queue = state();
        let mut now = Instant::now();
        let mut active: Vec<u8> = Vec::new();
        // The pending keys, and whether each was added while it was active.
        let mut pending: HashMap<u8, bool> = HashMap::new();
        for action in actions {
            match action {
                Action::Add(key) => {
                    queue.add(&key, now);
                    pending.insert(key, active.contains(&key));
                }
                Action::AddAfter(key, wait) => {
                    queue.add_at(&key, now + Duration::from_millis(wait), now);
                    pending.insert(key, active.contains(&key));
                }
                Action::Pop => {
                    if let Some((key, _)) = queue.pop(now) {
                        prop_assert!(!active.contains(&key));
                        active.push(key);
                        pending.remove(&key);
                    }
                }
                Action::Finish(which, outcome) => {
                    if !active.is_empty() {
                        let key = active.remove(which % active.len());
                        queue.finish(&key, outcome, now);
                        if outcome != Outcome::Done {
                            pending.insert(key, false);
                        }
                    }
                }
                Action::Wait(wait) => now += Duration::from_millis(wait),
            }
            prop_assert_eq!(queue.stats().active, active.len());
        }
        for key in active.drain(..) {
            queue.finish(&key, Outcome::Done, now);
        }
        now += seconds(61);
        let mut seen = HashSet::new();
        while let Some((key, _)) = queue.pop(now) {
            prop_assert!(seen.insert(key), "{} was handed out twice", key);
            queue.finish(&key, Outcome::Done, now);
        }
        for key in pending.keys() {
            prop_assert!(seen.contains(key), "{} was lost", key);
        }
        prop_assert_eq!(queue.stats(), QueueStats::default());
    }
}
