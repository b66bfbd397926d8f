//! Turns "it will be so at some point" into an answer, or into a failure that says what was waited for, for how long, and
//! what was there instead. Tests wait with this and never sleep.

use std::fmt::Debug;
use std::panic::Location;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde::de::DeserializeOwned;

/// How long [`until`] waits. Long enough for a busy machine: a test that passes never waits that long.
pub const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// Asks `question` until it answers `Ok`, for up to [`PATIENCE`].
///
/// # Panics
/// It did not; the message has `what` and the last answer.
#[track_caller]
pub fn until<T, Answer>(what: impl Into<String>, question: impl FnMut() -> Answer) -> impl Future<Output = T>
where
    Answer: Future<Output = Result<T, String>>,
{
    until_within(PATIENCE, what, question)
}

/// Like [`until`], for up to `patience`.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn until_within<T, Answer>(
    patience: Duration,
    what: impl Into<String>,
    question: impl FnMut() -> Answer,
) -> impl Future<Output = T>
where
    Answer: Future<Output = Result<T, String>>,
{
    ask(Location::caller(), patience, what.into(), question)
}

/// Waits until `condition` holds.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn until_true(what: impl Into<String>, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    until(what, move || std::future::ready(if condition() { Ok(()) } else { Err("not yet".to_owned()) }))
}

/// Makes an object. The server takes a moment to serve a kind that it has established.
///
/// # Panics
/// As [`until`], and at once if the server refuses the object.
#[expect(clippy::panic, reason = "ending a test with the reason is what this is for")]
pub async fn until_taken(api: &Api<DynamicObject>, object: &DynamicObject) {
    until("the object to be taken", || async {
        match api.create(&PostParams::default(), object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}

/// Waits until the object `name` is there and satisfies `condition`, and gives it.
///
/// # Panics
/// As [`until`]; the message has the object as it was.
#[track_caller]
pub fn until_object<K>(api: &Api<K>, name: &str, condition: impl Fn(&K) -> bool) -> impl Future<Output = K>
where
    K: Clone + DeserializeOwned + Debug,
{
    let caller = Location::caller();
    async move {
        let look = || async {
            match api.get_opt(name).await {
                Ok(Some(object)) if condition(&object) => Ok(object),
                Ok(Some(object)) => Err(format!("{object:#?}")),
                Ok(None) => Err("there is no such object".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        };
        ask(caller, PATIENCE, format!("object `{name}` to be as expected"), look).await
    }
}

/// Waits until the object `name` is gone.
///
/// # Panics
/// As [`until`]; the message has the object as it was.
#[track_caller]
pub fn until_gone<K>(api: &Api<K>, name: &str) -> impl Future<Output = ()>
where
    K: Clone + DeserializeOwned + Debug,
{
    let look = move || async move {
        match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(object)) => Err(format!("{object:#?}")),
            Err(error) => Err(error.to_string()),
        }
    };
    ask(Location::caller(), PATIENCE, format!("object `{name}` to be gone"), look)
}

async fn ask<T, Answer>(
    caller: &'static Location<'static>,
    patience: Duration,
    what: String,
    mut question: impl FnMut() -> Answer,
) -> T
where
    Answer: Future<Output = Result<T, String>>,
{
    let started = Instant::now();
    let mut last = "nothing was answered".to_owned();
    loop {
        let left = patience.saturating_sub(started.elapsed());
        match tokio::time::timeout(left, question()).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(answer)) => last = answer,
            Err(_) => give_up(caller, &what, patience, &last),
        }
        if started.elapsed() > patience {
            give_up(caller, &what, patience, &last);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[expect(clippy::panic, reason = "ending a test with the reason is what this is for")]
fn give_up(caller: &Location<'_>, what: &str, patience: Duration, last: &str) -> ! {
    panic!("{caller}: waited {patience:?} for {what}; the last answer was: {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_given_as_soon_as_it_is_there() {
        let mut asked = 0;
        let answer = until("three", || {
            asked += 1;
            std::future::ready(if asked == 3 { Ok(asked) } else { Err("too few".to_owned()) })
        })
        .await;
        assert_eq!(answer, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "for the moon; the last answer was: not yet")]
    async fn a_failure_says_what_was_waited_for_and_what_was_there() {
        until_within(Duration::from_millis(50), "the moon", || {
            std::future::ready(Err::<(), _>("not yet".to_owned()))
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "for an answer; the last answer was: nothing was answered")]
    async fn a_question_that_hangs_is_given_up() {
        until_within(Duration::from_millis(50), "an answer", std::future::pending::<Result<(), String>>)
            .await;
    }
}
