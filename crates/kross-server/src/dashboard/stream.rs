//! Turns changes of what a page shows into a stream of its content. Many changes in a short time are one.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{Stream, unfold};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::query::Query;
use super::viewer::Viewer;

/// How long changes are gathered.
const PAUSE: Duration = Duration::from_millis(700);
/// How long a page stays as it is without a change. Its caches are used again by then.
const QUIET: Duration = Duration::from_secs(30);

/// How often a page hears that the connection still stands: one that hears nothing says that it is lost.
const ALIVE: Duration = Duration::from_secs(10);

struct Watched {
    viewer: Viewer,
    path: String,
    query: Query,
    changes: watch::Receiver<u64>,
    /// Of the content that was sent last.
    sent: Option<u64>,
}

/// The content of a page, now and whenever it changes.
pub(super) fn of_page(
    viewer: Viewer,
    path: String,
    query: Query,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = viewer.changes();
    let watched = Watched { viewer, path, query, changes, sent: None };
    Sse::new(unfold(watched, |mut watched| async {
        let event = watched.next().await;
        Some((Ok(event), watched))
    }))
    .keep_alive(KeepAlive::new().interval(ALIVE).event(Event::default().event("alive").data("")))
}

impl Watched {
    /// The next content that differs from the last.
    async fn next(&mut self) -> Event {
        loop {
            if self.sent.is_some() {
                if let Ok(Err(_)) = timeout(QUIET, self.changes.changed()).await {
                    // The dashboard ends.
                    sleep(QUIET).await;
                }
                sleep(PAUSE).await;
            }
            self.changes.mark_unchanged();
            let content = super::content(&self.viewer, &self.path, &self.query).await;
            let html = content.body.into_string();
            let mut hasher = DefaultHasher::new();
            (&content.title, &html).hash(&mut hasher);
            let hash = hasher.finish();
            if self.sent.replace(hash) != Some(hash) {
                return Event::default().event("content").data(html.replace('\r', ""));
            }
        }
    }
}
