//! Turns changes of what a page shows into a stream of its content. Many changes in a short time are one, and a page that takes long
//! is made less often.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{Stream, unfold};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::query::Query;
use super::reader::{Reader, Watching};

/// How long changes are gathered, at least and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(700), Duration::from_secs(4));
/// How many times as long as making the page took changes are gathered: a page costs at most this part of a core.
const PART: u32 = 25;
/// How long a page stays as it is without a change. Its caches are used again by then.
const QUIET: Duration = Duration::from_secs(30);

/// How often a page hears that the connection still stands: one that hears nothing says that it is lost.
const ALIVE: Duration = Duration::from_secs(10);

struct Watched {
    reader: Reader,
    _watching: Watching,
    path: String,
    query: Query,
    changes: watch::Receiver<u64>,
    /// Of the content that was sent last.
    sent: Option<u64>,
    pause: Duration,
}

/// The content of a page, now and whenever it changes. Ends with the event `login` if the reader has to log in again.
pub(super) fn of_page(
    reader: Reader,
    watching: Watching,
    path: String,
    query: Query,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = reader.viewer().changes();
    let (minimum, _) = PAUSE;
    let watched = Watched { reader, _watching: watching, path, query, changes, sent: None, pause: minimum };
    Sse::new(unfold(Some(watched), |watched| async {
        let mut watched = watched?;
        match watched.next().await {
            Some(event) => Some((Ok(event), Some(watched))),
            None => Some((Ok(Event::default().event("login").data("1")), None)),
        }
    }))
    .keep_alive(KeepAlive::new().interval(ALIVE).event(Event::default().event("alive").data("1")))
}

impl Watched {
    /// The next content that differs from the last; none if the reader is not accepted any more.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.sent.is_some() {
                if let Ok(Err(_)) = timeout(QUIET, self.changes.changed()).await {
                    // The dashboard ends.
                    sleep(QUIET).await;
                }
                sleep(self.pause).await;
            }
            if !self.reader.is_accepted().await {
                return None;
            }
            self.changes.mark_unchanged();
            let started = Instant::now();
            let content = super::content(self.reader.viewer(), &self.path, &self.query).await;
            let html = content.body.into_string();
            let (minimum, maximum) = PAUSE;
            self.pause = (started.elapsed() * PART).clamp(minimum, maximum);
            let mut hasher = DefaultHasher::new();
            (&content.title, &html).hash(&mut hasher);
            let hash = hasher.finish();
            if self.sent.replace(hash) != Some(hash) {
                return Some(Event::default().event("content").data(html.replace('\r', "")));
            }
        }
    }
}
