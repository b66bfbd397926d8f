//! Keeps tasks running: a panic is logged and counted, and becomes an error or a new start.
//!
//! A task that ends silently leaves a cache that looks live, a cluster that nobody probes, or requesters that wait for ever.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::FutureExt;
use tokio::time::{Instant, sleep};

use crate::workqueue::Backoff;

/// The pauses before a task that panicked starts again.
const RESTART: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(60) };
/// A task that ran for this long was healthy: its next panic counts as the first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// The tasks that are supervised. Their names are the values of a metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Writes audit records.
    Audit,
    /// Keeps a cache in sync.
    Cache,
    /// Connects to a remote cluster and probes it.
    Cluster,
    /// Publishes the states of remote clusters.
    Connections,
    /// Compiles a graph, or parses the schemas for it.
    Compile,
    /// Turns events of caches and clusters into keys of work queues.
    Dispatch,
    /// Writes Events.
    Events,
    /// Runs the preflight of a cluster.
    Preflight,
    /// Watches the Secret of a cluster.
    Secret,
}

/// Panics by task.
static PANICS: [AtomicU64; Task::ALL.len()] = [const { AtomicU64::new(0) }; Task::ALL.len()];

impl Task {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Audit,
        Self::Cache,
        Self::Cluster,
        Self::Connections,
        Self::Compile,
        Self::Dispatch,
        Self::Events,
        Self::Preflight,
        Self::Secret,
    ];

    /// Its name in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Cache => "cache",
            Self::Cluster => "cluster",
            Self::Connections => "connections",
            Self::Compile => "compile",
            Self::Dispatch => "dispatch",
            Self::Events => "events",
            Self::Preflight => "preflight",
            Self::Secret => "secret",
        }
    }

    /// How often one of these tasks has panicked in this process.
    #[must_use]
    pub fn panics(self) -> u64 {
        self.counter().map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    fn counter(self) -> Option<&'static AtomicU64> {
        let at = Self::ALL.iter().position(|task| *task == self)?;
        PANICS.get(at)
    }
}

/// A panic. The log says where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an internal error occurred; the log of the controller has the details")]
pub struct Panicked;

const NOT_SHOWN: &str = "not shown, since it may quote values";

/// Logs and counts a panic.
fn report(task: Task, panic: &(dyn Any + Send)) -> Panicked {
    if let Some(counter) = task.counter() {
        counter.fetch_add(1, Ordering::Relaxed);
    }
    tracing::error!(task = task.as_str(), message = constant_message(panic), "task panicked");
    Panicked
}

/// The message of a panic if it is a constant. Any other may quote what was read from a Secret: that of an index within a text, for
/// example, quotes the text.
fn constant_message(panic: &dyn Any) -> &'static str {
    panic.downcast_ref::<&'static str>().copied().unwrap_or(NOT_SHOWN)
}

/// From now on panics are logged with the place in the code where they happened, and with their message only if it is a constant.
/// Without this the whole message is written to stderr.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(location, message = constant_message(panic.payload()), "panic");
    }));
}

/// Calls a function of a task.
///
/// # Errors
/// The function panics, which is logged and counted.
pub fn catch<T>(task: Task, function: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| report(task, &*panic))
}

/// Awaits a future of a task.
///
/// # Errors
/// The future panics, which is logged and counted.
pub async fn catch_async<T>(task: Task, future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| report(task, &*panic))
}

/// Calls a function that takes long on a thread where it blocks nobody.
///
/// # Errors
/// The function panics, which is logged and counted, or the runtime shuts down.
pub async fn catch_blocking<T: Send + 'static>(
    task: Task,
    function: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    tokio::task::spawn_blocking(move || catch(task, function)).await.unwrap_or(Err(Panicked))
}

/// Runs a task that does not end. If it panics, tells so and starts it again after a pause. Ends with the task.
pub(crate) async fn supervise<F: Future<Output = ()>>(
    task: Task,
    mut start: impl FnMut() -> F,
    mut panicked: impl FnMut(),
) {
    let mut panics = 0_u32;
    loop {
        let started = Instant::now();
        if catch_async(task, async { start().await }).await.is_ok() {
            return;
        }
        panics = if started.elapsed() > HEALTHY_AFTER { 1 } else { panics.saturating_add(1) };
        // It was logged, and the task starts again in either case.
        let _ = catch(task, &mut panicked);
        sleep(RESTART.delay(panics, fastrand::f64())).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_starts_again_with_increasing_pauses_until_it_ends() {
        let (starts, told, began) = (Cell::new(0_u32), Cell::new(0_u32), Instant::now());
        let counted = Task::Secret.panics();
        supervise(
            Task::Secret,
            || {
                starts.set(starts.get() + 1);
                let start = starts.get();
                async move { assert!(start == 5, "panic {start}") }
            },
            || {
                told.set(told.get() + 1);
                // Not even this ends the supervision.
                assert!(told.get() != 2, "cannot tell");
            },
        )
        .await;
        assert_eq!((starts.get(), told.get()), (5, 4));
        assert_eq!(Task::Secret.panics(), counted + 5);
        assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[test]
    fn a_message_that_may_quote_a_secret_is_not_shown() {
        let text = "s3cret".to_owned();
        let shown = |function: &dyn Fn() -> usize| {
            let panic = catch_unwind(AssertUnwindSafe(function)).unwrap_err();
            constant_message(&*panic)
        };
        assert_eq!(shown(&|| panic!("a constant")), "a constant");
        assert_eq!(shown(&|| panic!("{text}")), NOT_SHOWN);
        assert_eq!(shown(&|| text[..100].len()), NOT_SHOWN);
        assert_eq!(shown(&|| text.parse::<usize>().unwrap()), NOT_SHOWN);
    }

    #[tokio::test]
    async fn those_who_wait_for_a_function_that_panics_get_an_error() {
        let result = catch_blocking(Task::Compile, || -> u32 { panic!("a value of the user") }).await;
        let error = result.unwrap_err().to_string();
        assert_eq!(error, "an internal error occurred; the log of the controller has the details");
        assert_eq!(catch_blocking(Task::Compile, || 1).await, Ok(1));
    }
}
