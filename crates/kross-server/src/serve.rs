//! Puts pages on a listener until it is told to stop.

use axum::Router;

use crate::address::Listener;

/// Serves until `stop` is done; requests that run by then are answered.
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
