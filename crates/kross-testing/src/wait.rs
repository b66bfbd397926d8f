//! Waits until a condition holds, and otherwise fails the test with what it waited for, for how long, and the last observed
//! state. Tests wait with this and never sleep.

use std::fmt::Debug;
use std::panic::Location;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde::de::DeserializeOwned;

/// How long [`until`] waits. Generous, for a busy machine: a test that passes never waits that long.
pub const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// How long [`woken`] waits: less than the longest back-off of an instance (60 s), of a watch (30 s) and of a connection
/// attempt (30 s). Definitions back off to 5 s only, which is too short to tell a retry from an event on a busy machine.
pub const WAKE_LIMIT: Duration = Duration::from_secs(20);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

tokio::task_local! {
    /// When the enclosing [`woken`] began to wait.
    static WOKEN_AT: Instant;
}

/// Polls `check` until it returns `Ok`, for up to [`WAIT_LIMIT`].
///
/// # Panics
/// It does not; the message has `what` and the last error.
#[track_caller]
pub fn until<T, Answer>(what: impl Into<String>, check: impl FnMut() -> Answer) -> impl Future<Output = T>
where
    Answer: Future<Output = Result<T, String>>,
{
    until_within(WAIT_LIMIT, what, check)
}

/// Like [`until`], for up to `limit`.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn until_within<T, Answer>(
    limit: Duration,
    what: impl Into<String>,
    check: impl FnMut() -> Answer,
) -> impl Future<Output = T>
where
    Answer: Future<Output = Result<T, String>>,
{
    poll(Location::caller(), limit, what.into(), check)
}

/// Limits every wait of this module inside `wait` to [`WAKE_LIMIT`] in total. For the reaction to an event (a change of an
/// object or a Secret, a reconnect): if the event is lost and a retry that has backed off to its cap does the work in its
/// place, the test fails.
pub async fn woken<T>(wait: impl Future<Output = T>) -> T {
    WOKEN_AT.scope(Instant::now(), wait).await
}

/// Waits until `condition` holds.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn until_true(what: impl Into<String>, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    until(what, move || std::future::ready(if condition() { Ok(()) } else { Err("not yet".to_owned()) }))
}

/// Creates an object, and tries again while the API server does not serve its kind: it does so only some time after the CRD
/// is established.
///
/// # Panics
/// As [`until`], and at once if the server rejects the object.
#[expect(clippy::panic, reason = "failing a test with the reason is what this is for")]
pub async fn create_once_served(api: &Api<DynamicObject>, object: &DynamicObject) {
    until("the object to be created", || async {
        match api.create(&PostParams::default(), object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}

/// Waits until the object `name` exists and satisfies `condition`, and returns it.
///
/// # Panics
/// As [`until`]; the message has the object as last read.
#[track_caller]
pub fn until_object<K>(api: &Api<K>, name: &str, condition: impl Fn(&K) -> bool) -> impl Future<Output = K>
where
    K: Clone + DeserializeOwned + Debug,
{
    let caller = Location::caller();
    async move {
        let check = || async {
            match api.get_opt(name).await {
                Ok(Some(object)) if condition(&object) => Ok(object),
                Ok(Some(object)) => Err(format!("{object:#?}")),
                Ok(None) => Err("the object does not exist".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        };
        poll(caller, WAIT_LIMIT, format!("object `{name}` to be as expected"), check).await
    }
}

/// Waits until the object `name` does not exist.
///
/// # Panics
/// As [`until`]; the message has the object as last read.
#[track_caller]
pub fn until_deleted<K>(api: &Api<K>, name: &str) -> impl Future<Output = ()>
where
    K: Clone + DeserializeOwned + Debug,
{
    let check = move || async move {
        match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(object)) => Err(format!("{object:#?}")),
            Err(error) => Err(error.to_string()),
        }
    };
    poll(Location::caller(), WAIT_LIMIT, format!("object `{name}` to be deleted"), check)
}

async fn poll<T, Answer>(
    caller: &'static Location<'static>,
    limit: Duration,
    what: String,
    mut check: impl FnMut() -> Answer,
) -> T
where
    Answer: Future<Output = Result<T, String>>,
{
    let (started, limit) = match WOKEN_AT.try_with(|woken_at| *woken_at) {
        Ok(woken_at) => (woken_at, limit.min(WAKE_LIMIT)),
        Err(_) => (Instant::now(), limit),
    };
    let mut last = "nothing".to_owned();
    loop {
        let left = limit.saturating_sub(started.elapsed());
        match tokio::time::timeout(left, check()).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(state)) => last = state,
            Err(_) => fail(caller, &what, limit, &last),
        }
        if started.elapsed() > limit {
            fail(caller, &what, limit, &last);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[expect(clippy::panic, reason = "failing a test with the reason is what this is for")]
fn fail(caller: &Location<'_>, what: &str, limit: Duration, last: &str) -> ! {
    panic!("{caller}: waited {limit:?} for {what}; last observed: {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn returns_as_soon_as_the_check_succeeds() {
        let mut checks = 0;
        let answer = until("the third check", || {
            checks += 1;
            std::future::ready(if checks == 3 { Ok(checks) } else { Err("too few".to_owned()) })
        })
        .await;
        assert_eq!(answer, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "for the pod; last observed: not yet")]
    async fn a_failure_names_what_was_expected_and_what_was_observed() {
        until_within(Duration::from_millis(50), "the pod", || {
            std::future::ready(Err::<(), _>("not yet".to_owned()))
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "for an answer; last observed: nothing")]
    async fn a_check_that_hangs_is_aborted() {
        until_within(Duration::from_millis(50), "an answer", std::future::pending::<Result<(), String>>)
            .await;
    }

    #[tokio::test]
    #[should_panic(expected = "waited 20s for the second condition; last observed: not yet")]
    async fn waits_for_a_wake_up_share_one_limit() {
        // As if the first of two waits had taken all the time that there is.
        let woken_at = Instant::now().checked_sub(WAKE_LIMIT).unwrap();
        WOKEN_AT.scope(woken_at, until_true("the second condition", || false)).await;
    }

    #[tokio::test]
    async fn a_wait_for_a_wake_up_returns_what_it_waited_for() {
        assert_eq!(woken(until("five", || std::future::ready(Ok(5)))).await, 5);
    }
}
