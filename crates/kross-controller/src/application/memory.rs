//! What is remembered of applications between their reconciles: choices of targets that are not written yet, and when a status
//! is written that only reports progress.

use std::collections::HashMap;
use std::time::Duration;

use kross_value::Text;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The wait before progress is written for the first time, and the time between two such writes: the requests for an
/// application must not grow with the time that it takes.
const FIRST_PROGRESS_WAIT: Duration = Duration::from_secs(2);
const PROGRESS_WAIT: Duration = Duration::from_secs(60);

/// What is remembered of applications.
///
/// # Lock order
///
/// The lock of `decisions` is held while a target is chosen, and those of the caches are taken meanwhile: two applications
/// must not both see the same target as the least loaded. The lock of `progress` is a leaf.
#[derive(Default)]
pub(crate) struct Applications {
    decisions: Mutex<Decisions>,
    /// When the progress of an application may be written next.
    progress: Mutex<HashMap<Text, Instant>>,
}

/// The choices that are being written, by the UIDs of the applications.
#[derive(Default)]
pub(super) struct Decisions(HashMap<Text, Decision>);

/// A choice that is being written.
pub(super) struct Decision {
    pub(super) namespace: Text,
    pub(super) target: String,
    /// How many resources the application will have there.
    pub(super) resources: usize,
}

impl Decisions {
    pub(super) fn add(&mut self, application: &Text, decision: Decision) {
        self.0.insert(application.clone(), decision);
    }

    /// The choices of other applications.
    pub(super) fn others(&self, application: &Text) -> impl Iterator<Item = (&Text, &Decision)> {
        self.0.iter().filter(move |(uid, _)| *uid != application)
    }
}

impl Applications {
    pub(super) fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.decisions.lock()
    }

    /// The choice of an application is in its cache, or was not written.
    pub(super) fn written(&self, application: &Text) {
        self.decisions.lock().0.remove(application);
    }

    /// How long to wait before a status is written that only reports progress; none to write it now.
    pub(super) fn progress_wait(&self, application: &Text) -> Option<Duration> {
        let (mut progress, now) = (self.progress.lock(), Instant::now());
        match progress.get(application).copied() {
            None => {
                progress.insert(application.clone(), now + FIRST_PROGRESS_WAIT);
                Some(FIRST_PROGRESS_WAIT)
            }
            Some(due) if now < due => Some(due - now),
            Some(_) => {
                progress.insert(application.clone(), now + PROGRESS_WAIT);
                None
            }
        }
    }

    /// Something else than progress is written, or the application was deleted.
    pub(super) fn forget_progress(&self, application: &Text) {
        self.progress.lock().remove(application);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_is_written_after_two_seconds_and_then_once_a_minute() {
        let (applications, uid) = (Applications::default(), Text::from("uid"));
        let (mut written, start) = (Vec::new(), Instant::now());
        while written.len() < 3 {
            match applications.progress_wait(&uid) {
                Some(wait) => tokio::time::advance(wait).await,
                None => written.push(start.elapsed().as_secs()),
            }
        }
        assert_eq!(written, [2, 62, 122]);
        applications.forget_progress(&uid);
        assert_eq!(applications.progress_wait(&uid), Some(FIRST_PROGRESS_WAIT));
    }
}
