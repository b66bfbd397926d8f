//! Makes plans where they delay nobody: short ones on the thread of the reconcile, long ones while another thread takes over its
//! other tasks, and only about as many at once as there are processors. A plan that takes too long is given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use kross_plan::{Cancellation, Settings};
use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Plans that end within this time are made in place: handing over the other tasks takes tens of microseconds. Leases, probes
/// and other instances wait for no longer than this.
const SHORT: Duration = Duration::from_millis(5);
/// Plans that end within this time wait only for each other: those of a fleet must not wait for hostile ones.
const MEDIUM: Duration = Duration::from_secs(1);
/// With this many medium plans at once one of them does not hold up all others, however few processors there are.
const MIN_SLOTS: usize = 2;

/// A plan takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("planning the instance takes longer than {}s (`--instance-plan-timeout`)", .0.as_secs())]
pub(crate) struct PlanTimeout(Duration);

/// Makes plans, and has the settings that they depend on.
pub(crate) struct Planner {
    settings: Settings,
    timeout: Duration,
    medium: Slots,
    long: Slots,
}

/// How long the last plan of an instance took.
#[derive(Debug, Default)]
pub(crate) struct PlanLength(AtomicU8);

impl PlanLength {
    const SHORT: u8 = 0;
    const MEDIUM: u8 = 1;
    const LONG: u8 = 2;

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, time: Duration) {
        let length = match time {
            time if time <= SHORT => Self::SHORT,
            time if time <= MEDIUM => Self::MEDIUM,
            _ => Self::LONG,
        };
        self.0.store(length, Ordering::Relaxed);
    }
}

impl Planner {
    pub(crate) fn new(settings: Settings, timeout: Duration) -> Self {
        let processors = std::thread::available_parallelism().map_or(MIN_SLOTS, usize::from);
        let (medium, long) = (Slots::new(processors.max(MIN_SLOTS)), Slots::new((processors / 2).max(1)));
        Self { settings, timeout, medium, long }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Makes a plan. `length` remembers how long the last one of the same instance took, so that the next one is not begun
    /// again and again.
    ///
    /// # Errors
    /// It takes too long. Nothing may be done by a plan that was not completed: what it does not have may be desired.
    pub(crate) fn make<T>(
        &self,
        length: &PlanLength,
        plan: impl Fn(&Settings) -> T,
    ) -> Result<T, PlanTimeout> {
        let too_long = PlanTimeout(self.timeout);
        if !can_hand_over() {
            return self.make_within(self.timeout, length, &plan).ok_or(too_long);
        }
        let last = length.get();
        if last == PlanLength::SHORT
            && let Some(made) = self.make_within(SHORT.min(self.timeout), length, &plan)
        {
            return Ok(made);
        }
        tokio::task::block_in_place(|| {
            if last != PlanLength::LONG && MEDIUM < self.timeout {
                let _slot = self.medium.take();
                if let Some(made) = self.make_within(MEDIUM, length, &plan) {
                    return Ok(made);
                }
            }
            let _slot = self.long.take();
            self.make_within(self.timeout, length, &plan).ok_or(too_long)
        })
    }

    /// Makes a plan; none if that takes longer.
    fn make_within<T>(
        &self,
        timeout: Duration,
        length: &PlanLength,
        plan: &impl Fn(&Settings) -> T,
    ) -> Option<T> {
        let begun = Instant::now();
        let deadline = begun + timeout;
        let exceeded = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&exceeded);
        let cancellation = Cancellation::new(move || {
            let is_late = Instant::now() >= deadline;
            if is_late {
                noted.store(true, Ordering::Relaxed);
            }
            is_late
        });
        let made = plan(&Settings { cancellation: Some(cancellation), ..self.settings.clone() });
        length.set(begun.elapsed());
        (!exceeded.load(Ordering::Relaxed)).then_some(made)
    }
}

/// Whether another thread can take over the tasks of this one.
fn can_hand_over() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// How many long plans may be made at once. The lock is a leaf, and only threads without other tasks wait for it.
struct Slots {
    free: Mutex<usize>,
    returned: Condvar,
}

impl Slots {
    fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), returned: Condvar::new() }
    }

    fn take(&self) -> Slot<'_> {
        let mut free = self.free.lock();
        while *free == 0 {
            self.returned.wait(&mut free);
        }
        *free -= 1;
        Slot(self)
    }
}

/// Returned when dropped.
struct Slot<'a>(&'a Slots);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Takes this long, unless it is cancelled.
    fn work(settings: &Settings, time: Duration) {
        let (begun, cancellation) = (Instant::now(), settings.cancellation.clone().unwrap());
        while begun.elapsed() < time && !cancellation.is_cancelled() {
            std::hint::spin_loop();
        }
    }

    fn planner(timeout: Duration) -> Planner {
        Planner::new(Settings::default(), timeout)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_during_long_plans() {
        let planner = Arc::new(planner(Duration::from_secs(60)));
        let (ticks, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        // On the only worker, as a reconcile.
        let plans: Vec<_> = (0..8)
            .map(|_| {
                let (planner, ticks) = (Arc::clone(&planner), Arc::clone(&ticks));
                tokio::spawn(async move {
                    let until_ticked = |settings: &Settings| {
                        let before = ticks.load(Ordering::Relaxed);
                        while ticks.load(Ordering::Relaxed) < before + 3 {
                            if settings.cancellation.as_ref().unwrap().is_cancelled() {
                                return;
                            }
                            std::thread::yield_now();
                        }
                    };
                    planner.make(&PlanLength::default(), until_ticked)
                })
            })
            .collect();
        let clock = tokio::spawn({
            let (ticks, ended) = (Arc::clone(&ticks), Arc::clone(&ended));
            async move {
                while !ended.load(Ordering::Relaxed) {
                    ticks.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            }
        });
        for plan in plans {
            assert_eq!(plan.await.unwrap(), Ok(()), "it ends only if the clock ticks meanwhile");
        }
        ended.store(true, Ordering::Relaxed);
        clock.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_plan_that_takes_too_long_is_given_up() {
        let planner = planner(Duration::from_millis(50));
        let length = PlanLength::default();
        let error = planner.make(&length, |settings| work(settings, Duration::from_secs(60))).unwrap_err();
        assert!(error.to_string().contains("--instance-plan-timeout"), "{error}");
        assert_ne!(length.get(), PlanLength::SHORT);
        // On a busy machine nothing is short at once.
        let is_short = |_| {
            planner.make(&length, |settings| work(settings, Duration::ZERO)).unwrap();
            length.get() == PlanLength::SHORT
        };
        assert!((0..1_000).any(is_short), "the next one is begun in place again");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn short_plans_are_made_once_and_in_place() {
        let (planner, count) = (planner(Duration::from_secs(60)), AtomicUsize::new(0));
        let here = std::thread::current().id();
        let thread = planner.make(&PlanLength::default(), |_| {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::current().id()
        });
        assert_eq!((thread, count.load(Ordering::Relaxed)), (Ok(here), 1));
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_makes_plans_in_place() {
        assert!(planner(Duration::from_secs(60)).make(&PlanLength::default(), |_| ()).is_ok());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn medium_plans_do_not_wait_for_long_ones() {
        let planner = Arc::new(planner(Duration::from_secs(600)));
        let ended = Arc::new(AtomicBool::new(false));
        let long: Vec<_> = (0..8)
            .map(|_| {
                let (planner, ended) = (Arc::clone(&planner), Arc::clone(&ended));
                tokio::spawn(async move {
                    let until_ended = |settings: &Settings| {
                        while !ended.load(Ordering::Relaxed)
                            && !settings.cancellation.as_ref().unwrap().is_cancelled()
                        {
                            std::thread::yield_now();
                        }
                    };
                    let length = PlanLength::default();
                    length.set(Duration::from_secs(10));
                    planner.make(&length, until_ended)
                })
            })
            .collect();
        let medium = tokio::spawn({
            let planner = Arc::clone(&planner);
            async move { planner.make(&PlanLength::default(), |settings| work(settings, 4 * SHORT)) }
        });
        assert_eq!(medium.await.unwrap(), Ok(()), "while the long ones go on");
        ended.store(true, Ordering::Relaxed);
        for plan in long {
            assert_eq!(plan.await.unwrap(), Ok(()));
        }
    }
}
