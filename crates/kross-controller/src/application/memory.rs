//! What is remembered of applications between their reconciles: choices of targets that are not written yet, and when a status
//! is written that only reports progress.

use std::collections::HashMap;
use std::time::Duration;

use kross_value::Text;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The first wait before progress is written. Each further wait is three times as long.
const PROGRESS_WAIT: Duration = Duration::from_secs(1);
const MAX_PROGRESS_WAIT: Duration = Duration::from_secs(60);

/// What is remembered of applications.
///
/// # Lock order
///
/// The lock of `decisions` is held while a target is chosen, and those of the caches are taken meanwhile: two applications
/// must not both see the same target as the least loaded. The lock of `progress` is a leaf.
#[derive(Default)]
pub(crate) struct Applications {
    decisions: Mutex<Decisions>,
    progress: Mutex<HashMap<Text, (Instant, Duration)>>,
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
                progress.insert(application.clone(), (now + PROGRESS_WAIT, PROGRESS_WAIT));
                Some(PROGRESS_WAIT)
            }
            Some((due, _)) if now < due => Some(due - now),
            Some((_, last)) => {
                let wait = (last * 3).min(MAX_PROGRESS_WAIT);
                progress.insert(application.clone(), (now + wait, wait));
                None
            }
        }
    }

    /// Something else than progress is written, or the application was deleted.
    pub(super) fn forget_progress(&self, application: &Text) {
        self.progress.lock().remove(application);
    }
}
