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
fn a_key_that_is_added_twice_is_worked_on_once() {
    let (mut queue, now) = (state(), Instant::now());
    queue.add(&1, now);
    queue.add(&1, now);
    assert_eq!(queue.pop(now), Some((1, 0)));
    assert_eq!(queue.pop(now), None);
    queue.finish(&1, Outcome::Done, now);
    assert_eq!(queue.stats(), QueueStats::default());
}

#[test]
fn a_key_that_is_added_while_it_is_worked_on_comes_again_afterwards_and_not_before() {
    let (mut queue, now) = (state(), Instant::now());
    queue.add(&1, now);
    queue.pop(now).unwrap();
    queue.add(&1, now);
    assert_eq!(queue.pop(now), None);
    queue.finish(&1, Outcome::Done, now);
    assert_eq!(queue.pop(now), Some((1, 0)));
}

#[test]
fn lanes_take_turns() {
    let (mut queue, now) = (state(), Instant::now());
    for key in [1, 2, 3, 4, 11, 21] {
        queue.add(&key, now);
    }
    let order: Vec<u8> = std::iter::from_fn(|| queue.pop(now).map(|(key, _)| key)).collect();
    assert_eq!(order, [1, 11, 21, 2, 3, 4]);
}

#[test]
fn failures_wait_longer_each_time_up_to_the_cap_and_never_end() {
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
fn an_event_ends_the_wait_and_forgets_the_failures() {
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
fn events_caused_by_failing_work_do_not_make_it_spin() {
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
fn of_two_times_the_earlier_counts() {
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
enum Step {
    Add(u8),
    AddAfter(u8, u64),
    Pop,
    Finish(usize, Outcome),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Retry),
        (0_u64..5000).prop_map(|wait| Outcome::After(Duration::from_millis(wait)))
    ];
    prop_oneof![
        (0_u8..30).prop_map(Step::Add),
        (0_u8..30, 0_u64..5000).prop_map(|(key, wait)| Step::AddAfter(key, wait)),
        Just(Step::Pop),
        (any::<usize>(), outcome).prop_map(|(which, outcome)| Step::Finish(which, outcome)),
        (0_u64..70_000).prop_map(Step::Wait),
    ]
}

proptest! {
    /// After any history: no key is worked on twice at once, and every key that is owed work gets it within the cap.
    #[test]
    fn nothing_is_lost_and_nothing_runs_twice_at_once(steps in prop::collection::vec(step(), 1..200)) {
        let mut queue = state();
        let mut now = Instant::now();
        let mut active: Vec<u8> = Vec::new();
        // For each key owed work: whether it became owed while it was active.
        let mut owed: HashMap<u8, bool> = HashMap::new();
        for step in steps {
            match step {
                Step::Add(key) => {
                    queue.add(&key, now);
                    owed.insert(key, active.contains(&key));
                }
                Step::AddAfter(key, wait) => {
                    queue.add_at(&key, now + Duration::from_millis(wait), now);
                    owed.insert(key, active.contains(&key));
                }
                Step::Pop => {
                    if let Some((key, _)) = queue.pop(now) {
                        prop_assert!(!active.contains(&key));
                        active.push(key);
                        owed.remove(&key);
                    }
                }
                Step::Finish(which, outcome) => {
                    if !active.is_empty() {
                        let key = active.remove(which % active.len());
                        queue.finish(&key, outcome, now);
                        if outcome != Outcome::Done {
                            owed.insert(key, false);
                        }
                    }
                }
                Step::Wait(wait) => now += Duration::from_millis(wait),
            }
            prop_assert_eq!(queue.stats().active, active.len());
        }
        for key in active.drain(..) {
            queue.finish(&key, Outcome::Done, now);
        }
        now += seconds(61);
        let mut seen = HashSet::new();
        while let Some((key, _)) = queue.pop(now) {
            prop_assert!(seen.insert(key), "{} came twice", key);
            queue.finish(&key, Outcome::Done, now);
        }
        for key in owed.keys() {
            prop_assert!(seen.contains(key), "{} was lost", key);
        }
        prop_assert_eq!(queue.stats(), QueueStats::default());
    }
}
