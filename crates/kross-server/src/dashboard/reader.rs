//! Who reads a page: what pages see of the cluster, and for how long.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;

use super::served::Token;
use super::viewer::Viewer;

/// Who reads a page.
#[derive(Clone)]
pub(super) struct Reader {
    viewer: Viewer,
    /// None for the user of this process.
    token: Option<Arc<Token>>,
    /// When the session ends.
    expires: Option<Timestamp>,
}

/// The right to keep a page up to date, until it is dropped.
pub(super) struct Watching {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Reader {
    /// The user who started this process.
    pub(super) fn of_process(viewer: Viewer) -> Self {
        Self { viewer, token: None, expires: None }
    }

    /// Whoever has a token, until a session ends.
    pub(super) fn of_token(token: Arc<Token>, expires: Option<Timestamp>) -> Self {
        Self { viewer: token.viewer().clone(), token: Some(token), expires }
    }

    pub(super) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    /// The user who has logged in.
    pub(super) fn user(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.user())
    }

    /// The right to keep a page up to date; none if there are too many.
    pub(super) fn watch(&self) -> Option<Watching> {
        let permit = match &self.token {
            Some(token) => Some(token.stream()?),
            None => None,
        };
        Some(Watching { _permit: permit })
    }

    /// Whether it may still read.
    pub(super) async fn is_accepted(&self) -> bool {
        let is_open = self.expires.is_none_or(|expires| expires > Timestamp::now());
        match &self.token {
            Some(token) => is_open && token.is_accepted().await,
            None => is_open,
        }
    }
}
