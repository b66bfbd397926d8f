//! Serves pages on a listener until it is stopped.

use axum::Router;

use crate::address::Listener;

/// Serves until `stop` completes, then finishes the requests that are in flight.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: Listener,
    pages: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener.0, pages).with_graceful_shutdown(stop).await
}
