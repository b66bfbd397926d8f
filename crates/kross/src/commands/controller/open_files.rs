//! Raises the limit of open files as far as the process may: each cluster needs a few connections, and the usual soft limit of
//! 1,024 would stop a hub at some hundred clusters. Go programs do the same when they start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(from = current, to = maximum, "raised limit of open files"),
        Err(error) => tracing::warn!(limit = current, %error, "cannot raise limit of open files"),
    }
}
